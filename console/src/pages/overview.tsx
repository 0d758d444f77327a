// Overview: how many GPUs there are and are free, what fits, why jobs wait, and which nodes to look at.
import { user } from '../api';
import { formatAge, formatClock, nameCode, say } from '../language';
import { Bar, Card, Cut, Empty, PageHead, Count, Problem, Show, Skeleton, Status, Table } from '../parts';
import { useJobs, useResource } from '../resources';
import { JobLink, Link, linkTo } from '../router';
import type { GPUMap, Job } from '../types';
import { numberOf } from './drawing';

const troubled = ['Failing', 'Degraded', 'Failed'];

export function Overview() {
  const map = useResource<GPUMap>('/map');
  const feed = useJobs();
  return (
    <>
      <PageHead title={say('overview')} text={map.data && say('takenAt', formatClock(map.data.taken))} />
      <Show of={map} rows={3}>{(data) => <Numbers map={data} jobs={feed.jobs} />}</Show>
      <div class="grid">
        <Card title={say('fits')}><Show of={map}>{(data) => <Fits map={data} />}</Show></Card>
        <Card title={say('waitingWhy')} side={<Link to={linkTo(['queue'])}>{say('queue')}</Link>}>
          {feed.problem && !feed.jobs.length ? <Problem problem={feed.problem} /> : !feed.synced ? <Skeleton /> : <Reasons jobs={feed.jobs} />}
        </Card>
        <Card title={say('sickNodes')} side={<Link to={linkTo(['nodes'])}>{say('nodes')}</Link>}>
          <Show of={map}>{(data) => <SickNodes map={data} />}</Show>
        </Card>
        <Card title={say('myJobs')} side={<Link to={linkTo(['jobs'], { mine: '1' })}>{say('jobs')}</Link>}>
          {feed.problem && !feed.jobs.length ? <Problem problem={feed.problem} /> : !feed.synced ? <Skeleton /> : <MyJobs jobs={feed.jobs} />}
        </Card>
      </div>
    </>
  );
}

// countStates counts the GPUs of a map by state: those that are divided as GPUs, and those in MIG mode apart. Free ones of nodes that take no pods are closed.
export function countStates(map: GPUMap) {
  const out = { total: 0, used: 0, free: 0, sick: 0, closed: 0, mig: 0 };
  const counted = new Map((map.counts ?? []).map((one) => [one.node, one]));
  map.gpus.forEach((states, i) => {
    const count = (letter: string) => states.split(letter).length - 1;
    const mig = count('m'), sick = count('x');
    const { total, used } = counted.get(i) ?? { total: states.length, used: states.length - count('f') - sick };
    const sickInMIGMode = Math.min(sick, Math.max(0, states.length - total - mig));
    out.total += total;
    out.used += used;
    out.free += map.free[i];
    out.sick += sick;
    out.mig += mig;
    out.closed += Math.max(0, total - used - map.free[i] - (sick - sickInMIGMode));
  });
  return out;
}

function Numbers({ map, jobs }: { map: GPUMap; jobs: Job[] }) {
  const states = countStates(map);
  const tiles: [string, number, string][] = [
    [say('gpuTotal'), states.total, ''], [say('gpuUsed'), states.used, 'used'], [say('gpuFree'), states.free, 'free'], [say('gpuSick'), states.sick, 'sick'],
    ...(states.mig ? [[say('stateMIG'), states.mig, 'mig'] as [string, number, string]] : []),
    [say('running'), jobs.filter((job) => job.status === 'Running').length, ''],
    [say('waiting'), jobs.filter((job) => job.status === 'Pending').length, ''],
    [say('trouble'), jobs.filter((job) => troubled.includes(job.status)).length, ''],
  ];
  const label = say('mapSummary', states.total, map.nodes.length, states.free, states.used, states.sick);
  return (
    <Card>
      <dl class="tiles">{tiles.map(([title, count, tone]) => <div key={title}><dt>{tone && <i class={`dot fill-${tone}`} />}{title}</dt><dd><Count value={count} /></dd></div>)}</dl>
      <Bar label={label} total={states.total} parts={[
        { count: states.used, tone: 'used' }, { count: states.sick, tone: 'sick' }, { count: states.closed, tone: 'closed' }, { count: states.free, tone: 'free' }]} />
    </Card>
  );
}

function Fits({ map }: { map: GPUMap }) {
  if (!map.fits.length) return <Empty title={say('noGPUs')} text={say('noGPUsText')} />;
  return (
    <>
      <p class="lead">{say('fitsText')}</p>
      <Table label={say('fits')} items={map.fits} keyOf={(row) => row.pool} columns={[
        { key: 'pool', title: say('pool'), cell: (row) => <Link to={linkTo(['map'], { pool: row.pool })}>{row.pool}</Link> },
        { key: 'free', title: say('free'), number: true, cell: (row) => <Count value={row.free} /> },
        ...[1, 2, 4, 8].map((size, i) => ({
          key: String(size), title: say('fitsColumn', size), number: true,
          cell: (row: GPUMap['fits'][0]) => (row.pods[i] ? <Link to={linkTo(['map'], { pool: row.pool, fit: String(size) })}><Count value={row.pods[i]} /></Link> : <span class="zero">0</span>),
        }))]} />
    </>
  );
}

function Reasons({ jobs }: { jobs: Job[] }) {
  const byCause = new Map<string, Job[]>();
  for (const job of jobs) {
    if (job.status !== 'Pending') continue;
    const cause = job.reason || 'WaitingForTurn';
    byCause.set(cause, [...byCause.get(cause) ?? [], job]);
  }
  if (!byCause.size) return <Empty title={say('nothingWaits')} text={say('nothingWaitsText')} />;
  const rows = [...byCause].sort((a, b) => b[1].length - a[1].length).slice(0, 6);
  return (
    <Table label={say('waitingWhy')} items={rows} keyOf={([cause]) => cause} columns={[
      { key: 'cause', title: say('reason'), cell: ([cause]) => <Link to={linkTo(['jobs'], { status: 'Pending', q: cause })}>{nameCode(cause)}</Link> },
      { key: 'jobs', title: say('jobs'), number: true, cell: ([, list]) => <Count value={list.length} /> },
      { key: 'gpus', title: say('gpus'), number: true, cell: ([, list]) => <Count value={list.reduce((sum, job) => sum + job.gpus, 0)} /> },
      { key: 'first', title: say('example'), cell: ([, list]) => <JobLink namespace={list[0].namespace} name={list[0].name} /> },
    ]} />
  );
}

// mostSick is how many nodes to look at are shown; the list of nodes has all.
const mostSick = 8;

function SickNodes({ map }: { map: GPUMap }) {
  const faults = (node: number) => (map.faults ?? []).filter((fault) => fault.node === node);
  const statusOf = (node: number) => map.statuses[map.status[node]];
  const sick = map.nodes.map((_, node) => node).filter((node) => statusOf(node) !== 'active' || faults(node).length);
  if (!sick.length) return <Empty title={say('allWell')} text={say('allWellText', map.nodes.length)} />;
  return (
    <>
      <Table label={say('sickNodes')} items={sick.slice(0, mostSick)} keyOf={(node) => map.nodes[node]} columns={[
        { key: 'name', title: say('node'), cell: (node) => <Link to={linkTo(['nodes', map.nodes[node]])}>{map.nodes[node]}</Link> },
        { key: 'status', title: say('status'), cell: (node) => <Status code={statusOf(node)} /> },
        { key: 'why', title: say('why'), cell: (node) => faults(node).map((fault) => `${say('gpuNumber', numberOf(map, node, fault.gpu))}: ${fault.health}`).join(', ') },
      ]} />
      <Cut shown={Math.min(sick.length, mostSick)} total={sick.length} />
    </>
  );
}

// isMine tells the jobs of the reader by who submitted them.
export function isMine(job: Job): boolean { return !!job.user && job.user === user.value; }

function MyJobs({ jobs }: { jobs: Job[] }) {
  const mine = jobs.filter(isMine).sort((a, b) => b.createdAt.localeCompare(a.createdAt));
  if (!mine.length) return <Empty title={say('noneMine')}><Link class="button" to={linkTo(['submit'])}>{say('submitJob')}</Link></Empty>;
  return (
    <Table label={say('myJobs')} items={mine.slice(0, 6)} keyOf={(job) => `${job.namespace}/${job.kind}/${job.name}`} columns={[
      { key: 'name', title: say('name'), cell: (job) => <JobLink namespace={job.namespace} name={job.name} /> },
      { key: 'status', title: say('status'), cell: (job) => <Status code={job.status} /> },
      { key: 'gpus', title: say('gpus'), number: true, cell: (job) => <Count value={job.gpus} /> },
      { key: 'age', title: say('age'), number: true, cell: (job) => formatAge(job.createdAt) },
    ]} />
  );
}
