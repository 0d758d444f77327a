// Nodes: which there are, how they are, and what holds their GPUs.
import { formatAge, formatTime, nameCode, say } from '../language';
import { Bar, Card, Chips, Cut, Empty, PageHead, Count, Select, Show, Status, Table } from '../parts';
import { useList, useResource } from '../resources';
import { JobLink, Link, linkTo, param, setParams } from '../router';
import type { GPUMap, Node, NodeDetail } from '../types';
import { holdersOf, numberOf } from './drawing';
import { choicesOf } from './jobs';
import { stateWords } from './map';

export function Nodes() {
  const nodes = useList<Node>('/nodes');
  return <><PageHead title={say('nodes')} /><Show of={nodes} rows={8}>{({ items, total }) => <><NodeList nodes={items} /><Cut shown={items.length} total={total} /></>}</Show></>;
}

function NodeList({ nodes }: { nodes: Node[] }) {
  if (!nodes.length) return <Empty title={say('noNodes')} text={say('noNodesText')} />;
  const text = param('q').toLowerCase(), pool = param('pool'), status = param('status');
  const found = nodes.filter((node) => (!pool || node.boundPools.includes(pool)) && node.nodeName.toLowerCase().includes(text));
  const shown = found.filter((node) => !status || node.status === status);
  const count = (code: string) => found.filter((node) => node.status === code).length;
  const counts = [...new Set(nodes.map((node) => node.status))].sort().map((code): [string, string] => [code, `${nameCode(code)} ${count(code)}`]);
  return (
    <>
      <div class="filters">
        <label class="search"><span class="hidden">{say('node')}</span>
          <input type="search" data-search placeholder={say('node')} value={param('q')} onInput={(event) => setParams({ q: event.currentTarget.value })} />
        </label>
        <Select label={say('pool')} value={pool} change={(value) => setParams({ pool: value })} choices={choicesOf(nodes.flatMap((node) => node.boundPools))} />
        <Chips label={say('status')} value={status} change={(value) => setParams({ status: value })} choices={[['', `${say('all')} ${found.length}`], ...counts]} />
      </div>
      {shown.length === 0 ? <Empty title={say('noNodeMatch')}><button type="button" onClick={() => setParams({ q: '', pool: '', status: '' })}>{say('clearFilters')}</button></Empty> : (
        <Table label={say('nodes')} items={shown} keyOf={(node) => node.nodeName} columns={[
          { key: 'name', title: say('node'), cell: (node) => <Link to={linkTo(['nodes', node.nodeName])}>{node.nodeName}</Link> },
          { key: 'status', title: say('status'), cell: (node) => <Status code={node.status} /> },
          { key: 'pool', title: say('pool'), cell: (node) => node.boundPools.join(', ') },
          { key: 'type', title: say('gpuType'), cell: (node) => node.gpuType },
          { key: 'gpus', title: say('gpus'), cell: (node) => <GPUBar node={node} /> },
          { key: 'free', title: say('free'), number: true, cell: (node) => <Count value={node.gpuFree} /> },
          { key: 'pods', title: say('pods'), number: true, hide: true, cell: (node) => <Count value={node.pods} /> },
          { key: 'why', title: say('why'), cell: (node) => <span class="words">{node.states?.[0]?.text ?? ''}</span> },
        ]} />
      )}
    </>
  );
}

function GPUBar({ node }: { node: Node }) {
  if (!node.gpuTotal) return <span class="zero">–</span>;
  const label = `${node.gpuUsed}/${node.gpuTotal}`;
  const parts = [{ count: node.gpuUsed, tone: 'used' }, { count: node.gpuUnhealthy ?? 0, tone: 'sick' }];
  return <span class="with-bar"><Bar label={label} total={node.gpuTotal} parts={parts} /><span class="number">{label}</span></span>;
}

export function NodePage({ name }: { name: string }) {
  const node = useResource<NodeDetail>(`/nodes/${encodeURIComponent(name)}`);
  const map = useResource<GPUMap>(`/map?node=${encodeURIComponent(name)}`);
  return (
    <>
      <p class="crumbs"><Link to={linkTo(['nodes'])}>{say('nodes')}</Link></p>
      <PageHead title={<>{name} {node.data && <Status code={node.data.status} />}</>} />
      <Show of={node}>{(data) => (
        <>
          {data.states?.map((state) => <p key={state.code} class="notice">{state.text}</p>)}
          <Card title={say('gpuHolders')}><Show of={map}>{(all) => <Holders map={all} name={name} />}</Show></Card>
          <div class="grid">
            <Card title={say('details')}><Facts node={data} /></Card>
            <Card title={say('conditions')}>
              <Table label={say('conditions')} items={data.conditions} keyOf={(one) => one.type} columns={[
                { key: 'type', title: say('name'), cell: (one) => one.type }, { key: 'status', title: say('status'), cell: (one) => one.status },
                { key: 'message', title: say('why'), cell: (one) => <span class="words">{one.message}</span> },
                { key: 'since', title: say('age'), number: true, cell: (one) => formatAge(one.since) }]} />
            </Card>
          </div>
          <Card title={say('labels')}><ul class="labels">{data.labels.map((label) => <li key={label.key}><code>{label.key}</code> {label.value}</li>)}</ul></Card>
        </>
      )}</Show>
    </>
  );
}

function Facts({ node }: { node: NodeDetail }) {
  const r = node.resources;
  const facts: [string, string | undefined][] = [
    [say('pool'), node.boundPools.join(', ')], [say('gpuType'), [node.gpuType, node.gpuMemory].filter(Boolean).join(' · ')],
    [say('rack'), node.rack], [say('interconnect'), node.interconnect],
    [say('gpus'), `${r.gpuUsed}/${r.gpuTotal}`], [say('cpu'), `${r.cpuUsed}/${r.cpuTotal}`], [say('memory'), `${r.memoryUsed}/${r.memoryTotal}`],
    [say('pods'), String(node.pods)], [say('created'), formatTime(node.createdAt)],
  ];
  return <dl class="facts">{facts.filter(([, value]) => value).map(([title, value]) => <div key={title}><dt>{title}</dt><dd>{value}</dd></div>)}</dl>;
}

// looks are the classes of states.
const looks = { f: 'free', u: 'used', s: 'shared', h: 'held', m: 'mig', x: 'sick' } as const;

function Holders({ map, name }: { map: GPUMap; name: string }) {
  const at = map.nodes.indexOf(name);
  if (at < 0) return <Empty title={say('noGPUs')} />;
  const holders = holdersOf(map, at), states = [...map.gpus[at]] as (keyof typeof looks)[];
  return (
    <ul class="gpu-list">{states.map((state, i) => (
      <li key={i} class={`gpu gpu-${looks[state]}`}><b>{numberOf(map, at, i)}</b>
        <span>{holders[i] >= 0 ? <JobLink namespace={map.namespaces[map.holderNamespace[holders[i]]]} name={map.holderJob[holders[i]]} /> : say(stateWords[state])}</span>
        {state === 'x' && <em>{map.faults?.find((fault) => fault.node === at && fault.gpu === i)?.health}</em>}
      </li>
    ))}</ul>
  );
}
