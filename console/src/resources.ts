// What the pages show, as signals: lists that are asked for again and again, and the jobs, which come as a stream.
import { signal, useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { callAPI, Failure, followStream, user, type StreamEvent } from './api';
import { language } from './language';
import type { Job } from './types';

export interface Loaded<T> { data?: T; etag: string; problem?: Failure; again: () => void }

const refreshInterval = 5000;

// useResource loads a path now and every few seconds while the page can be seen. What was loaded stays when the server is away.
export function useResource<T>(path: string, interval = refreshInterval): Loaded<T> {
  const state = useSignal<{ path: string; data?: T; etag: string; problem?: Failure }>({ path, etag: '' });
  const round = useSignal(0);
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const load = async () => {
      clearTimeout(timer);
      if (!document.hidden || state.peek().path !== path || !state.peek().data) {
        try {
          const { data, etag } = await callAPI<T>(path, { signal: stop.signal });
          state.value = { path, data, etag };
        } catch (problem) {
          if (stop.signal.aborted) return;
          const failure = problem instanceof Failure ? problem : new Failure(0, 'Unreachable', String(problem));
          const before = state.peek();
          state.value = { ...(before.path === path && failure.status === 0 ? before : { path, etag: '' }), problem: failure };
        }
      }
      if (interval > 0) timer = window.setTimeout(load, interval);
    };
    void load();
    const seen = () => { if (!document.hidden) void load(); };
    document.addEventListener('visibilitychange', seen);
    return () => { stop.abort(); clearTimeout(timer); document.removeEventListener('visibilitychange', seen); };
  }, [path, interval, round.value, language.value]);
  const current = state.value.path === path ? state.value : { etag: '' } as { data?: T; etag: string; problem?: Failure };
  return { data: current.data, etag: current.etag, problem: current.problem, again: () => { round.value += 1; } };
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
