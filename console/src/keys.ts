// Keys: / searches, g and a letter opens a page, j and k move in a list, Enter opens, ? shows them.
import { signal } from '@preact/signals';
import { linkTo, navigate } from './router';

export const helpShown = signal(false);

export const pageKeys: Record<string, string> = { o: '', j: 'jobs', m: 'map', q: 'queue', n: 'nodes', p: 'pools', s: 'submit' };

let going = false;

addEventListener('keydown', (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
  if (going && event.key in pageKeys) navigate(linkTo([pageKeys[event.key]].filter(Boolean)));
  const began = event.key === 'g';
  if (!going) takeKey(event);
  going = began;
});

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.closest('input, textarea, select, dialog') !== null);
}

function takeKey(event: KeyboardEvent): void {
  if (event.key === '/') {
    const field = document.querySelector<HTMLInputElement>('[data-search]');
    if (field) { event.preventDefault(); field.focus(); field.select(); } else navigate(linkTo(['jobs']));
  } else if (event.key === '?') helpShown.value = !helpShown.value;
  else if (event.key === 'j') moveRow(1);
  else if (event.key === 'k') moveRow(-1);
}

// moveRow moves the focus to the first link of the next row.
function moveRow(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>('tr[data-row]')].map((row) => row.querySelector<HTMLElement>('a, button')).filter((link) => link !== null);
  const at = links.findIndex((link) => link === document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}
