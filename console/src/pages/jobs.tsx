// Jobs: all that the reader may see, found as they type. The finished ones come from the ledger.
import { useSignal } from '@preact/signals';
import { formatAge, formatTime, nameCode, say } from '../language';
import { Chips, Empty, PageHead, Count, Problem, Select, Show, Skeleton, Status, Table, Trouble, type Column } from '../parts';
import { useJobs, useResource } from '../resources';
import { JobLink, Link, linkTo, param, setParams } from '../router';
import type { FinishedJob, Job } from '../types';
import { isMine } from './overview';

const step = 100;

export function Jobs() {
  const past = param('view') === 'finished';
  return (
    <>
      <PageHead title={say('jobs')}>
        <Chips label={say('jobs')} value={past ? 'finished' : ''} change={(view) => setParams({ view })} choices={[['', say('current')], ['finished', say('finished')]]} />
        <Link class="button primary" to={linkTo(['submit'])}>{say('submit')}</Link>
      </PageHead>
      {past ? <FinishedJobs /> : <CurrentJobs />}
    </>
  );
}

function CurrentJobs() {
  const feed = useJobs();
  const most = useSignal(step);
  if (feed.problem && !feed.jobs.length && feed.problem.status !== 0) return <Problem problem={feed.problem} />;
  if (!feed.synced && !feed.jobs.length) return <Skeleton rows={8} />;
  if (!feed.jobs.length) return <Empty title={say('noJobs')} text={say('noJobsText')}><Link class="button primary" to={linkTo(['submit'])}>{say('submitJob')}</Link></Empty>;
  const found = selectJobs(feed.jobs, { text: param('q'), status: '', namespace: param('namespace'), pool: param('pool'), mine: param('mine') === '1' });
  const status = param('status');
  const shown = (status ? found.filter((job) => job.status === status) : found).sort((a, b) => b.createdAt.localeCompare(a.createdAt));
  return (
    <>
      <Filters jobs={feed.jobs} found={found} />
      <Trouble problem={feed.problem} />
      {shown.length === 0
        ? <Empty title={say('noMatch')} text={say('noMatchText', feed.jobs.length)}><button type="button" onClick={clearFilters}>{say('clearFilters')}</button></Empty>
        : <Table label={say('jobs')} items={shown.slice(0, most.value)} columns={columns()} keyOf={(job) => `${job.namespace}/${job.kind}/${job.name}`} />}
      <p class="foot">{say('jobsShown', Math.min(most.value, shown.length), feed.jobs.length)}
        {shown.length > most.value && <button type="button" onClick={() => { most.value += step; }}>{say('showMore')}</button>}</p>
    </>
  );
}

function clearFilters() { setParams({ q: '', status: '', namespace: '', pool: '', mine: '' }); }

interface Selection { text: string; status: string; namespace: string; pool: string; mine: boolean }

// selectJobs finds jobs by words, which may stand in their names, namespaces and users.
export function selectJobs(jobs: Job[], by: Selection): Job[] {
  const words = by.text.toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter((job) => {
    if ((by.namespace && job.namespace !== by.namespace) || (by.pool && job.pool !== by.pool) || (by.mine && !isMine(job))) return false;
    const text = `${job.namespace}/${job.name} ${job.user ?? ''} ${job.reason ?? ''}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function Filters({ jobs, found }: { jobs: Job[]; found: Job[] }) {
  const counts = new Map<string, number>();
  for (const job of found) counts.set(job.status, (counts.get(job.status) ?? 0) + 1);
  const asked = param('status');
  if (asked && !counts.has(asked)) counts.set(asked, 0);
  return (
    <div class="filters">
      <label class="search"><span class="hidden">{say('search')}</span>
        <input type="search" data-search placeholder={say('searchHint')} value={param('q')} onInput={(event) => setParams({ q: event.currentTarget.value })} />
      </label>
      <Select label={say('namespace')} value={param('namespace')} change={(namespace) => setParams({ namespace })} choices={choicesOf(jobs.map((job) => job.namespace))} />
      <Select label={say('pool')} value={param('pool')} change={(pool) => setParams({ pool })} choices={choicesOf(jobs.map((job) => job.pool ?? ''))} />
      <Chips label={say('user')} value={param('mine')} change={(mine) => setParams({ mine })} choices={[['', say('all')], ['1', say('mine')]]} />
      <Chips label={say('status')} value={asked} change={(status) => setParams({ status })}
        choices={[['', `${say('all')} ${found.length}`], ...[...counts].sort().map(([code, count]): [string, string] => [code, `${nameCode(code)} ${count}`])]} />
    </div>
  );
}

export function choicesOf(values: string[]): [string, string][] {
  return [['', say('all')], ...[...new Set(values)].filter(Boolean).sort().map((value): [string, string] => [value, value])];
}

function columns(): Column<Job>[] {
  return [
    { key: 'name', title: say('name'), cell: (job) => <JobLink namespace={job.namespace} name={job.name} /> },
    { key: 'status', title: say('status'), cell: (job) => <Status code={job.status} /> },
    { key: 'why', title: say('why'), cell: (job) => <span class="why" title={job.message}>{nameCode(job.reason)}</span> },
    { key: 'gpus', title: say('gpus'), number: true, cell: (job) => <Count value={job.gpus} /> },
    { key: 'ready', title: say('ready'), number: true, hide: true, cell: (job) => job.ready },
    { key: 'namespace', title: say('namespace'), cell: (job) => job.namespace },
    { key: 'pool', title: say('pool'), hide: true, cell: (job) => job.pool ?? '' },
    { key: 'priority', title: say('priority'), hide: true, cell: (job) => nameCode(job.priority) },
    { key: 'user', title: say('user'), hide: true, cell: (job) => <span class="cut" title={job.user}>{shortUser(job.user)}</span> },
    { key: 'age', title: say('age'), number: true, cell: (job) => <span title={formatTime(job.createdAt)}>{formatAge(job.createdAt)}</span> },
  ];
}

// shortUser leaves out what all service accounts begin with.
export function shortUser(name: string | undefined): string { return (name ?? '').replace(/^system:serviceaccount:/, ''); }

// mostFinished is how many finished jobs the server gives at once at most.
const mostFinished = 20000;

function FinishedJobs() {
  const most = useSignal(500);
  const answer = useResource<{ items: FinishedJob[]; more?: boolean }>(`/finished-jobs?limit=${most.value}`, 30000);
  const text = param('q').toLowerCase();
  return (
    <>
      <div class="filters">
        <label class="search"><span class="hidden">{say('search')}</span>
          <input type="search" data-search placeholder={say('searchHint')} value={param('q')} onInput={(event) => setParams({ q: event.currentTarget.value })} />
        </label>
      </div>
      <Show of={answer} rows={8}>{({ items, more }) => {
        const found = items.filter((job) => `${job.namespace}/${job.jobId} ${job.user ?? ''}`.toLowerCase().includes(text));
        const rest = more && most.value < mostFinished && (
          <p class="foot">{say('jobsMore', found.length, items.length)}<button type="button" onClick={() => { most.value = Math.min(4 * most.value, mostFinished); }}>{say('showMore')}</button></p>
        );
        if (!found.length) return <><Empty title={items.length ? say('noMatch') : say('noJobs')} />{rest}</>;
        return (
          <><Table label={say('finished')} items={found} keyOf={(job) => job.uid} columns={[
            { key: 'name', title: say('name'), cell: (job) => <JobLink namespace={job.namespace} name={job.jobId} /> },
            { key: 'status', title: say('status'), cell: (job) => <Status code={job.status} /> },
            { key: 'why', title: say('why'), cell: (job) => nameCode(job.reason) },
            { key: 'gpus', title: say('gpus'), number: true, cell: (job) => <Count value={job.gpus} /> },
            { key: 'namespace', title: say('namespace'), cell: (job) => job.namespace },
            { key: 'user', title: say('user'), hide: true, cell: (job) => shortUser(job.user) },
            { key: 'ended', title: say('ended'), number: true, cell: (job) => formatTime(job.finished) },
          ]} />{rest}</>
        );
      }}</Show>
    </>
  );
}
