// One job: why first, then its pods and GPUs, its output, its events and its YAML.
import { useSignal } from '@preact/signals';
import { asFailure, changeJob, type Failure } from '../api';
import { formatAge, formatTime, nameCode, say } from '../language';
import { Card, Confirm, Empty, PageHead, Problem, Show, Status, Table } from '../parts';
import { useList, useResource } from '../resources';
import { choiceParam, Link, linkTo, navigate, setParams } from '../router';
import type { JobDetail, JobEvent, Pod, Report } from '../types';
import { Logs } from './logs';
import { shortUser } from './jobs';
import { Why } from './why';

const tabs = ['details', 'logs', 'events', 'yaml'] as const;

export function JobPage({ namespace, name }: { namespace: string; name: string }) {
  const path = `/jobs/${encodeURIComponent(name)}`;
  const where = `?namespace=${encodeURIComponent(namespace)}`;
  const job = useResource<JobDetail>(path + where);
  const tab = choiceParam('tab', tabs);
  return (
    <>
      <p class="crumbs"><Link to={linkTo(['jobs'])}>{say('jobs')}</Link> / <Link to={linkTo(['jobs'], { namespace })}>{namespace}</Link></p>
      <PageHead title={<>{name} {job.data && <Status code={job.data.status} />}</>} text={job.data?.description}>
        {job.data && <Actions job={job.data} etag={job.etag} path={path} where={where} again={job.again} />}
      </PageHead>
      <Tabs chosen={tab} />
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
        {tab === 'details' && <><WhyCard path={`${path}/explain${where}`} /><Show of={job}>{(data) => <Details job={data} />}</Show></>}
        {tab === 'logs' && <Logs path={`${path}/logs${where}`} />}
        {tab === 'events' && <Events path={`${path}/events${where}`} />}
        {tab === 'yaml' && <YAML path={`${path}/spec${where}`} />}
      </div>
    </>
  );
}

// Tabs take one stop of the Tab key: the arrows go from one to the next.
function Tabs({ chosen }: { chosen: typeof tabs[number] }) {
  const choose = (tab: typeof tabs[number]) => setParams({ tab: tab === tabs[0] ? '' : tab });
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(chosen) + by + tabs.length) % tabs.length];
    choose(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" onKeyDown={move}>
      {tabs.map((one) => (
        <button key={one} id={`tab-${one}`} type="button" role="tab" aria-selected={one === chosen} aria-controls="panel" tabIndex={one === chosen ? 0 : -1}
          onClick={() => choose(one)}>{say(one)}</button>
      ))}
    </div>
  );
}

function WhyCard({ path }: { path: string }) {
  const report = useResource<Report>(path);
  if (report.problem?.status === 404) return null;
  const title = report.data?.placements?.length && !report.data.findings?.length ? say('whyRuns') : say('why');
  return <Card title={report.data ? <>{title}: {nameCode(report.data.cause)}</> : title}><Show of={report}>{(data) => <Why report={data} />}</Show></Card>;
}

interface ActionsProps { job: JobDetail; etag: string; path: string; where: string; again: () => void }
type Step = 'stop' | 'pause' | 'resume' | 'retry' | 'remove';

const over = ['Succeeded', 'Failed', 'Cancelled'];

// stepsOf are the steps that make sense for a job as it is. The server decides all the same.
export function stepsOf(status: string): Step[] {
  if (over.includes(status)) return ['retry', 'remove'];
  if (status === 'Suspended') return ['resume', 'stop', 'remove'];
  return status === 'Terminating' ? [] : ['stop', 'pause', 'remove'];
}

function Actions({ job, etag, path, where, again }: ActionsProps) {
  const asked = useSignal<Step | null>(null);
  const problem = useSignal<Failure | null>(null);
  const names: Record<Step, string> = { stop: say('stop'), pause: say('pause'), resume: say('resume'), retry: say('runAgain'), remove: say('remove') };
  const gpus = job.resources.gpu * Math.max(1, job.desired);
  const run = async (step: Step) => {
    problem.value = null;
    try {
      if (step === 'remove') await changeJob(path + where, 'DELETE', etag);
      else await changeJob(`${path}/${step === 'stop' ? 'cancel' : step}${where}`, 'POST', etag);
      if (step === 'remove') navigate(linkTo(['jobs']));
      else again();
    } catch (failure) {
      problem.value = asFailure(failure);
      again();
    }
  };
  return (
    <>
      {stepsOf(job.status).map((step) => (
        <button key={step} type="button" class={step === 'remove' ? 'danger-quiet' : ''} onClick={() => { asked.value = step; }}>{names[step]}</button>
      ))}
      {asked.value && <Confirm title={say(`${asked.value}Question`, job.name)} text={say(`${asked.value}Text`, job.name, gpus)} action={names[asked.value]}
        danger={asked.value === 'remove' || asked.value === 'stop'} run={() => run(asked.value!)} close={() => { asked.value = null; }} />}
      {problem.value && (problem.value.status === 412
        ? <p class="problem-words" role="alert">{say('changedMeanwhile')}</p> : <Problem problem={problem.value} />)}
    </>
  );
}

function Details({ job }: { job: JobDetail }) {
  const gpus = job.resources.gpu ? `${job.resources.gpu} GPU ${job.resources.gpuTypes?.join(', ') ?? ''}` : '';
  const facts: [string, string | undefined][] = [
    [say('kind'), nameCode(job.kind)], [say('pool'), job.pool], [say('priority'), nameCode(job.priority)], [say('user'), shortUser(job.user)],
    [say('submitted'), formatTime(job.created)], [say('started'), formatTime(job.started)], [say('ended'), formatTime(job.completed)],
    [say('eachPod'), [gpus, job.resources.cpu && `${job.resources.cpu} CPU`, job.resources.memory].filter(Boolean).join(' · ')],
    [say('image'), job.container.image], [say('command'), [...job.container.command ?? [], ...job.container.args ?? []].join(' ')],
    [say('object'), `${job.resourceType} ${job.object}`],
  ];
  return (
    <>
      <Card title={`${say('pods')} ${job.ready}/${job.desired}`}><Pods pods={job.pods} /></Card>
      <Card title={say('details')}>
        <dl class="facts">{facts.filter(([, value]) => value).map(([title, value]) => <div key={title}><dt>{title}</dt><dd>{value}</dd></div>)}</dl>
      </Card>
    </>
  );
}

function Pods({ pods }: { pods: Pod[] }) {
  if (!pods.length) return <Empty title={say('noPods')} text={say('noPodsText')} />;
  return (
    <Table label={say('pods')} items={pods} keyOf={(pod) => pod.name} columns={[
      { key: 'name', title: say('name'), cell: (pod) => pod.name },
      { key: 'phase', title: say('status'), cell: (pod) => <Status code={pod.phase} /> },
      { key: 'node', title: say('node'), cell: (pod) => (pod.node ? <Link to={linkTo(['nodes', pod.node])}>{pod.node}</Link> : '') },
      { key: 'gpus', title: say('gpus'), cell: (pod) => pod.devices ?? '' },
      { key: 'why', title: say('why'), cell: (pod) => <span title={pod.message}>{nameCode(pod.reason)}</span> },
      { key: 'restarts', title: say('restarts'), number: true, hide: true, cell: (pod) => pod.restarts },
      { key: 'age', title: say('age'), number: true, cell: (pod) => formatAge(pod.created) },
    ]} />
  );
}

function Events({ path }: { path: string }) {
  const events = useList<JobEvent>(path);
  return (
    <Card title={say('events')}>
      <Show of={events}>{({ items }) => (items.length === 0 ? <Empty title={say('noEvents')} text={say('noEventsText')} /> : (
        <Table label={say('events')} items={[...items].reverse()} keyOf={(event) => `${event.object} ${event.reason} ${event.lastSeen} ${event.message}`} columns={[
          { key: 'age', title: say('age'), number: true, cell: (event) => <span title={formatTime(event.lastSeen)}>{formatAge(event.lastSeen)}</span> },
          { key: 'type', title: say('kind'), cell: (event) => <Status code={event.type} /> },
          { key: 'reason', title: say('reason'), cell: (event) => `${event.reason}${event.count > 1 ? ` ×${event.count}` : ''}` },
          { key: 'object', title: say('object'), hide: true, cell: (event) => event.object },
          { key: 'message', title: say('description'), cell: (event) => <span class="words">{event.message}</span> },
        ]} />
      ))}</Show>
    </Card>
  );
}

function YAML({ path }: { path: string }) {
  const spec = useResource<{ yamlContent: string }>(path, 0);
  const copied = useSignal(false);
  const copy = async (text: string) => { await navigator.clipboard.writeText(text); copied.value = true; };
  if (spec.problem?.status === 404 || spec.problem?.status === 409) return <Card><Empty title={say('noYAML')} text={say('noYAMLText')} /></Card>;
  return (
    <Card title={say('yaml')} side={spec.data && <button type="button" onClick={() => copy(spec.data!.yamlContent)}>{say(copied.value ? 'copied' : 'copy')}</button>}>
      <Show of={spec}>{(data) => <pre class="code" tabIndex={0}>{data.yamlContent}</pre>}</Show>
    </Card>
  );
}

