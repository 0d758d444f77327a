// Queue: the line as the scheduler tries it, with when each job is expected to start on one axis of time.
import { formatAge, formatTime, nameCode, say } from '../language';
import { Card, Cut, Empty, PageHead, Count, Select, Show, Table } from '../parts';
import { useJobs, useList } from '../resources';
import { JobLink, param, setParams } from '../router';
import type { QueueEntry } from '../types';
import { choicesOf } from './jobs';

export function Queue() {
  const queue = useList<QueueEntry>('/queue');
  const feed = useJobs();
  // The queue says what else than room keeps a job; the job itself says which kind of room it lacks.
  const reasons = new Map(feed.jobs.map((job) => [`${job.namespace}/${job.name}`, job.reason]));
  return (
    <>
      <PageHead title={say('queue')} text={say('queueText')} />
      <Show of={queue} rows={8}>{({ items, total }) => (
        <>
          <Line entries={items.map((entry) => ({ ...entry, cause: entry.cause || reasons.get(`${entry.namespace}/${entry.name}`) }))} />
          <Cut shown={items.length} total={total} />
        </>
      )}</Show>
    </>
  );
}

function Line({ entries }: { entries: QueueEntry[] }) {
  if (!entries.length) return <Empty title={say('nothingWaits')} text={say('nothingWaitsText')} />;
  const pool = param('pool');
  const shown = entries.filter((entry) => !pool || entry.pool === pool);
  const now = Date.now();
  const last = Math.max(now + 3600e3, ...shown.map((entry) => Date.parse(entry.latest ?? entry.eta ?? '') || 0));
  return (
    <>
      <div class="filters">
        <Select label={say('pool')} value={pool} change={(value) => setParams({ pool: value })} choices={choicesOf(entries.map((entry) => entry.pool))} />
      </div>
      {shown.length === 0 ? <Empty title={say('noMatch')}><button type="button" onClick={() => setParams({ pool: '' })}>{say('clearFilters')}</button></Empty> : (
        <Card><Table label={say('queue')} items={shown} keyOf={(entry) => `${entry.namespace}/${entry.name}/${entry.kind}/${entry.position}`} columns={[
          { key: 'position', title: say('position'), number: true, cell: (entry) => entry.position || '–' },
          { key: 'name', title: say('name'), cell: (entry) => <JobLink namespace={entry.namespace} name={entry.name} /> },
          { key: 'namespace', title: say('namespace'), cell: (entry) => entry.namespace },
          { key: 'pool', title: say('pool'), hide: true, cell: (entry) => entry.pool },
          { key: 'gpus', title: say('gpus'), number: true, cell: (entry) => <Count value={entry.gpus} /> },
          { key: 'priority', title: say('priority'), hide: true, cell: (entry) => nameCode(entry.priorityClass?.replace(/^g8s-/, '')) },
          { key: 'since', title: say('since'), number: true, cell: (entry) => <span title={formatTime(entry.since)}>{formatAge(entry.since)}</span> },
          { key: 'why', title: say('why'), cell: (entry) => <span title={entry.message}>{nameCode(entry.cause)}</span> },
          { key: 'starts', title: say('timeline'), cell: (entry) => <Start entry={entry} now={now} last={last} /> },
        ]} /></Card>
      )}
    </>
  );
}

function Start({ entry, now, last }: { entry: QueueEntry; now: number; last: number }) {
  if (entry.never) return <span class="tone-bad">{say('never')}</span>;
  const from = entry.earliest ?? entry.eta, to = entry.latest ?? entry.eta;
  if (!from || !to) return <span class="zero">{say('unknownStart')}</span>;
  const at = (time: string) => 100 * Math.max(0, Math.min(1, (Date.parse(time) - now) / (last - now)));
  const text = entry.earliest && entry.latest ? say('between', formatTime(from), formatTime(to)) : say('by', formatTime(to));
  const sure = entry.confidence ? ` ${say('probability', Math.round(entry.confidence * 100))}` : '';
  return (
    <span class="start" title={text + sure}>
      <span class="axis" aria-hidden="true"><i style={{ left: `${at(from)}%`, width: `${Math.max(2, at(to) - at(from))}%` }} /></span>
      <span>{text}</span>
    </span>
  );
}
