// Calls of the API. The browser's session stands in for a token, so there is nothing secret in here.
import { signal } from '@preact/signals';
import { language } from './language';
import type { Detail } from './types';

export const root = '/api/v1';

// Failure is an answer that says why not, or status 0 where there was none.
export class Failure extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly details: Detail[] = []) { super(message); }
}

// user is who is signed in: undefined before that is known, null for nobody.
export const user = signal<string | null | undefined>(undefined);

// reached is when the server last answered, and whether it did the last time it was asked.
export const reached = signal({ ok: true, at: Date.now() });

interface Options { method?: string; body?: unknown; headers?: Record<string, string>; signal?: AbortSignal }
export interface Answer<T> { data: T; etag: string }

async function send(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { 'Accept-Language': language.value, Accept: 'application/json', ...options.headers };
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: options.method ?? 'GET', headers, signal: options.signal, credentials: 'same-origin', redirect: 'error',
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
    });
  } catch (problem) {
    if (options.signal?.aborted) throw problem;
    reached.value = { ok: false, at: reached.value.at };
    throw new Failure(0, 'Unreachable', String(problem));
  }
  reached.value = { ok: true, at: Date.now() };
  if (answer.ok) return answer;
  throw await readFailure(answer, path);
}

async function readFailure(answer: Response, path: string): Promise<Failure> {
  const body = await answer.json().catch(() => ({})) as { error?: string; code?: string; details?: Detail[] };
  if (answer.status === 401 && path.startsWith(root)) user.value = null;
  return new Failure(answer.status, body.code ?? 'Unknown', body.error ?? answer.statusText, body.details);
}

export async function callAPI<T>(path: string, options: Options = {}): Promise<Answer<T>> {
  const answer = await send(root + path, options);
  return { data: await answer.json() as T, etag: answer.headers.get('ETag') ?? '' };
}

// changeJob takes a step of a job, once however often it is sent, and only if the job is still as it was shown.
export function changeJob(path: string, method: string, etag: string): Promise<Answer<{ message: string }>> {
  const headers: Record<string, string> = etag ? { 'If-Match': etag } : {};
  if (method === 'POST') headers['Idempotency-Key'] = crypto.randomUUID();
  return callAPI(path, { method, headers });
}

export async function findUser(): Promise<void> {
  try {
    user.value = (await callAPI<{ user: string }>('/auth/check')).data.user;
  } catch (problem) {
    if (!(problem instanceof Failure) || problem.status === 0) setTimeout(findUser, 3000);
    else if (user.value === undefined) user.value = null;
  }
}

export async function signIn(token: string): Promise<void> {
  const answer = await send('/console/session', { method: 'POST', body: { token } });
  user.value = ((await answer.json()) as { user: string }).user;
}

export async function signOut(everywhere: boolean): Promise<void> {
  await send(`/console/session${everywhere ? '?everywhere=true' : ''}`, { method: 'DELETE' });
  user.value = null;
}

export interface StreamEvent { event: string; data: unknown }

// batchDelay gathers events, so that a burst of changes is one change of the page.
const batchDelay = 250;

// followStream reads server-sent events with fetch and hands them over in batches. It connects again where it was until it is stopped. EventSource would
// need no code, and cannot send the language or tell why it was refused.
export function followStream(path: string, take: (events: StreamEvent[]) => void, fail: (problem: Failure | null) => void): () => void {
  const stop = new AbortController();
  let last = '', wait = 1000, pending: StreamEvent[] = [], timer = 0, ended = false;
  const flush = () => { timer = 0; const events = pending; pending = []; if (!stop.signal.aborted) take(events); };
  const run = async () => {
    while (!stop.signal.aborted) {
      try {
        const headers: Record<string, string> = { Accept: 'text/event-stream' };
        if (last) headers['Last-Event-ID'] = last;
        const answer = await send(root + path, { headers, signal: stop.signal });
        fail(null);
        wait = 1000;
        await readEvents(answer, (event, data, id) => {
          if (id) last = id;
          if (event === 'error') fail(new Failure(500, (data as { code: string }).code, (data as { error: string }).error));
          ended ||= event === 'end';
          pending.push({ event, data });
          timer ||= window.setTimeout(flush, batchDelay);
        });
      } catch (problem) {
        if (stop.signal.aborted) return;
        const failure = problem instanceof Failure ? problem : new Failure(0, 'Unreachable', String(problem));
        fail(failure);
        if (failure.status === 401 || failure.status === 403 || failure.status === 404) return;
        if (failure.status === 0) reached.value = { ok: false, at: reached.value.at };
      }
      if (ended) return;
      await new Promise((resume) => setTimeout(resume, wait));
      wait = Math.min(wait * 2, 15000);
    }
  };
  void run();
  return () => { stop.abort(); clearTimeout(timer); };
}

async function readEvents(answer: Response, take: (event: string, data: unknown, id: string) => void): Promise<void> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    reached.value = { ok: true, at: Date.now() };
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) {
      let event = '', data = '', id = '';
      for (const line of block.split('\n')) {
        if (line.startsWith('event: ')) event = line.slice(7);
        else if (line.startsWith('data: ')) data = line.slice(6);
        else if (line.startsWith('id: ')) id = line.slice(4);
      }
      if (event) take(event, JSON.parse(data), id);
    }
  }
}
