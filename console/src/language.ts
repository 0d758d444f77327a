// The two languages of the page. Sentences about jobs and nodes come from the server in the language that is asked for; the words around them are here.
import { effect, signal } from '@preact/signals';
import { chinese, english, type Word } from './words';
import { chineseCodes } from './codes';

export type Language = 'en' | 'zh';

function preferred(): Language {
  const asked = new URLSearchParams(location.search).get('lang') ?? localStorage.getItem('language') ?? navigator.language;
  return asked.startsWith('zh') ? 'zh' : 'en';
}

export const language = signal<Language>(preferred());

effect(() => {
  document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en';
  localStorage.setItem('language', language.value);
});

// say returns a text in the language of the page, with {0}, {1} replaced.
export function say(word: Word, ...values: (string | number)[]): string {
  const text = (language.value === 'zh' ? chinese : english)[word];
  return text.replace(/\{(\d)\}/g, (_, place: string) => String(values[Number(place)] ?? ''));
}

// nameCode returns a code of the API, such as GPUQuotaReached, as words.
export function nameCode(code: string | undefined): string {
  if (!code) return '';
  if (language.value === 'zh' && chineseCodes[code]) return chineseCodes[code];
  const words = code.match(/GPUs?|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+/g) ?? [code];
  return words.map((word) => (/^[A-Z]{2,}s?$/.test(word) ? word : word.toLowerCase())).join(' ').replace(/^./, (letter) => letter.toUpperCase());
}

export function formatCount(count: number): string {
  return new Intl.NumberFormat(language.value === 'zh' ? 'zh-CN' : 'en').format(count);
}

export function formatTime(text: string | undefined): string {
  if (!text) return '';
  return new Intl.DateTimeFormat(language.value === 'zh' ? 'zh-CN' : 'en', { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(text));
}

// formatClock returns the time of day to the second, as the reader's clock shows it.
export function formatClock(text: string): string {
  return new Intl.DateTimeFormat(language.value === 'zh' ? 'zh-CN' : 'en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }).format(new Date(text));
}

const units: [string, string, number][] = [['d', '天', 86400], ['h', '小时', 3600], ['min', '分钟', 60], ['s', '秒', 1]];

// formatSpan returns a length of time in one or two units: 3 d 4 h.
export function formatSpan(milliseconds: number): string {
  let rest = Math.max(0, Math.round(milliseconds / 1000));
  const out: string[] = [];
  for (const [short, long, size] of units) {
    if (out.length === 2 || (out.length === 1 && rest < size)) break;
    if (rest < size && size > 1) continue;
    const count = Math.floor(rest / size);
    rest -= count * size;
    out.push(language.value === 'zh' ? `${count}${long}` : `${count} ${short}`);
    if (size <= 60) break;
  }
  return out.join(' ');
}

export function formatAge(text: string | undefined, now = Date.now()): string {
  return text ? formatSpan(now - Date.parse(text)) : '';
}
