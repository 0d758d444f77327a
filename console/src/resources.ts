// What the pages show, as signals: lists that are asked for again and again, and the jobs, which come as a stream.
import { signal, useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { asFailure, callAPI, followStream, user, type Answer, type Failure, type StreamEvent } from './api';
import { language } from './language';
import type { Job, List } from './types';

export interface Loaded<T> { data?: T; etag: string; problem?: Failure; again: () => void }
interface Kept<T> { path: string; data?: T; etag: string; problem?: Failure }
type Load<T> = (path: string, signal: AbortSignal) => Promise<Answer<T>>;

const refreshInterval = 5000;

// useResource loads a path now and every few seconds while the page can be seen. What was loaded stays, with the problem, until the reader may no longer see
// it or it is gone.
export function useResource<T>(path: string, interval = refreshInterval, load: Load<T> = loadOne): Loaded<T> {
  const state = useSignal<Kept<T>>({ path, etag: '' });
  const round = useSignal(0);
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const refresh = async () => {
      clearTimeout(timer);
      if (!document.hidden || state.peek().path !== path || !state.peek().data) {
        try {
          state.value = { path, ...await load(path, stop.signal) };
        } catch (problem) {
          if (stop.signal.aborted) return;
          const failure = asFailure(problem), before = state.peek();
          const keeps = before.path === path && ![401, 403, 404].includes(failure.status);
          state.value = { ...(keeps ? before : { path, etag: '' }), problem: failure };
        }
      }
      if (interval > 0) timer = window.setTimeout(refresh, interval);
    };
    void refresh();
    const seen = () => { if (!document.hidden) void refresh(); };
    document.addEventListener('visibilitychange', seen);
    return () => { stop.abort(); clearTimeout(timer); document.removeEventListener('visibilitychange', seen); };
  }, [path, interval, round.value, language.value]);
  const current: Kept<T> = state.value.path === path ? state.value : { path, etag: '' };
  return { data: current.data, etag: current.etag, problem: current.problem, again: () => { round.value += 1; } };
}

function loadOne<T>(path: string, signal: AbortSignal): Promise<Answer<T>> { return callAPI<T>(path, { signal }); }

// pageSize is how many items one answer has, and mostItems how many are kept: more than that no reader goes through, and the page says how many there are.
const pageSize = 500, mostItems = 10000;

// useList loads a list to its end, which may take several answers.
export function useList<T>(path: string, interval = refreshInterval): Loaded<List<T>> { return useResource<List<T>>(path, interval, loadList); }

async function loadList<T>(path: string, signal: AbortSignal): Promise<Answer<List<T>>> {
  const items: T[] = [];
  for (let rest = '';;) {
    const from: string = `${path}${path.includes('?') ? '&' : '?'}limit=${pageSize}${rest && `&continue=${encodeURIComponent(rest)}`}`;
    const { data, etag } = await callAPI<List<T>>(from, { signal });
    items.push(...data.items);
    rest = data.continue ?? '';
    if (!rest || items.length >= mostItems) return { data: { total: Math.max(data.total ?? 0, items.length), items }, etag };
  }
}

export interface JobFeed { jobs: Job[]; synced: boolean; problem: Failure | null }

export const jobFeed: Signal<JobFeed> = signal({ jobs: [], synced: false, problem: null });

const known = new Map<string, Job>();
let stopFeed: (() => void) | null = null;

function applyJobEvents(events: StreamEvent[]): void {
  let synced = jobFeed.peek().synced;
  for (const { event, data } of events) {
    const job = data as Job;
    if (event === 'reset') { known.clear(); synced = false; }
    else if (event === 'synced') synced = true;
    else if (event === 'deleted') known.delete(keyOf(job));
    else if (event === 'added' || event === 'modified') known.set(keyOf(job), job);
  }
  jobFeed.value = { jobs: [...known.values()], synced, problem: jobFeed.peek().problem };
}

function keyOf(job: Job): string { return `${job.namespace}/${job.kind}/${job.name}`; }

// useJobs follows all jobs that the reader may see, on one stream for all pages.
export function useJobs(): JobFeed {
  useEffect(() => { if (!stopFeed) startFeed(); }, []);
  return jobFeed.value;
}

function startFeed(): void {
  stopFeed = followStream('/jobs?watch=true', applyJobEvents, (problem) => { jobFeed.value = { ...jobFeed.peek(), problem }; });
}

// Nothing of one reader is left for the next.
user.subscribe((name) => {
  if (name) return;
  stopFeed?.();
  stopFeed = null;
  known.clear();
  jobFeed.value = { jobs: [], synced: false, problem: null };
});

// Messages of the feed are in the language it was opened with.
language.subscribe(() => {
  if (!stopFeed) return;
  stopFeed();
  startFeed();
});
