// Calls of the API. The browser's session stands in for a token, so there is nothing secret in here.
import { signal } from '@preact/signals';
import { language } from './language';
import type { Detail } from './types';

export const root = '/api/v1';

// Failure is an answer that says why not, or status 0 where there was none.
export class Failure extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly details: Detail[] = []) { super(message); }
}

// user is the name that is signed in: undefined before that is known, null for none.
export const user = signal<string | null | undefined>(undefined);

// unidentified is why that is not known.
export const unidentified = signal<Failure | null>(null);

// reached is when the server last answered, and whether it did the last time it was asked.
export const reached = signal({ ok: true, at: Date.now() });

function markAway(): void { reached.value = { ok: false, at: reached.peek().at }; }

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
    markAway();
    throw new Failure(0, 'Unreachable', String(problem));
  }
  if (!answer.ok) throw await readFailure(answer, path);
  reached.value = { ok: true, at: Date.now() };
  return answer;
}

async function readFailure(answer: Response, path: string): Promise<Failure> {
  const body = await answer.json().catch(() => ({})) as { error?: string; code?: string; details?: Detail[] };
  // What a proxy says of a server that it does not reach has no code of ours.
  if (answer.status >= 500 && !body.code) markAway();
  else reached.value = { ok: true, at: Date.now() };
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

// findUser asks for the name that is signed in. Only 401 says that there is none: the server may also be away, or busy.
export async function findUser(): Promise<void> {
  try {
    const name = (await callAPI<{ user: string }>('/auth/check')).data.user;
    // Another tab has signed in as somebody else: nothing that was read before may stay.
    if (user.peek() && user.peek() !== name) location.reload();
    unidentified.value = null;
    user.value = name;
  } catch (problem) {
    const failure = asFailure(problem);
    if (failure.status === 401 || user.peek() !== undefined) return;
    unidentified.value = failure;
    setTimeout(findUser, 3000);
  }
}

export function asFailure(problem: unknown): Failure {
  return problem instanceof Failure ? problem : new Failure(0, 'Unreachable', String(problem));
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

// silence is how long a stream may say nothing before the connection counts as lost: the server sends a heartbeat every 15 seconds.
const silence = 45 * 1000;

// A stream that ends is opened again, sooner at first. One that was refused may be granted later.
const firstWait = 1000, longestWait = 15 * 1000;

const statusOf: Record<string, number> = { Unauthorized: 401, Forbidden: 403, NotFound: 404 };

// followStream reads server-sent events with fetch and hands them over in batches. It connects again where it was until it is stopped. EventSource would
// need no code, and cannot send the language or tell why it was refused.
export function followStream(path: string, take: (events: StreamEvent[]) => void, fail: (problem: Failure | null) => void): () => void {
  const stop = new AbortController();
  let last = '', wait = firstWait, pending: StreamEvent[] = [], timer = 0, ended = false, failing = true;
  const flush = () => { timer = 0; const events = pending; pending = []; if (!stop.signal.aborted) take(events); };
  const works = () => { wait = firstWait; if (failing) fail(null); failing = false; };
  const receive = ({ event, data, id }: Received) => {
    if (event === 'error') throw failureOf(data as { code: string; error: string });
    works();
    if (id) last = id;
    ended ||= event === 'end';
    if (!event) return;
    pending.push({ event, data });
    timer ||= window.setTimeout(flush, batchDelay);
  };
  const run = async () => {
    while (!stop.signal.aborted && !ended) {
      try {
        await readStream(path, last, stop.signal, receive);
      } catch (problem) {
        if (stop.signal.aborted) return;
        const failure = asFailure(problem);
        if (failure.status === 0) markAway();
        if (failure.status === 401) user.value = null;
        failing = true;
        fail(failure);
        if (failure.status === 401) return;
        if (failure.status === 403 || failure.status === 404) wait = longestWait;
      }
      await new Promise((resume) => setTimeout(resume, wait));
      wait = Math.min(wait * 2, longestWait);
    }
  };
  void run();
  return () => { stop.abort(); clearTimeout(timer); };
}

function failureOf(data: { code: string; error: string }): Failure { return new Failure(statusOf[data.code] ?? 500, data.code, data.error); }

// readStream opens a stream and reads it to its end. It gives up a connection that says nothing for too long.
async function readStream(path: string, last: string, stop: AbortSignal, receive: (event: Received) => void): Promise<void> {
  const lost = new AbortController();
  let watchdog = window.setTimeout(() => lost.abort(), silence);
  const alive = () => { clearTimeout(watchdog); watchdog = window.setTimeout(() => lost.abort(), silence); };
  const headers: Record<string, string> = { Accept: 'text/event-stream' };
  if (last) headers['Last-Event-ID'] = last;
  try {
    const answer = await send(root + path, { headers, signal: AbortSignal.any([stop, lost.signal]) });
    await readEvents(answer, receive, alive);
  } finally {
    clearTimeout(watchdog);
    lost.abort();
  }
}

// Received is one block of a stream: an event, or a heartbeat without a name.
interface Received { event: string; data: unknown; id: string }

async function readEvents(answer: Response, receive: (event: Received) => void, alive: () => void): Promise<void> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    reached.value = { ok: true, at: Date.now() };
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) {
      const fields: Record<string, string> = {};
      for (const line of block.split('\n')) {
        const at = line.indexOf(':');
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
      }
      if (fields.event || block.startsWith(':')) receive({ event: fields.event ?? '', data: fields.data ? JSON.parse(fields.data) : null, id: fields.id ?? '' });
    }
  }
}
