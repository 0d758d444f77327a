// Pools and quotas: what there is, what namespaces are guaranteed and have, and what they used.
import { formatCount, say } from '../language';
import { Bar, Card, Chips, Cut, Empty, PageHead, Count, Show, Status, Table } from '../parts';
import { useList, useResource } from '../resources';
import { choiceParam, Link, linkTo, setParams } from '../router';
import type { GPUQuota, Pool, Quota, Usage } from '../types';

export function Pools() {
  const pools = useResource<Pool[]>('/pools');
  const gpuQuotas = useResource<GPUQuota[]>('/gpuquotas', 15000);
  const quotas = useList<Quota>('/quotas', 15000);
  return (
    <>
      <PageHead title={say('pools')} />
      <Card title={say('poolList')}><Show of={pools}>{(items) => <PoolTable pools={items} />}</Show></Card>
      <Card title={say('quotas')}><Show of={gpuQuotas}>{(items) => <GPUQuotaTable quotas={items} />}</Show></Card>
      <Card title={say('namespaceQuotas')}><Show of={quotas}>{({ items, total }) => <><QuotaTable quotas={items} /><Cut shown={items.length} total={total} /></>}</Show></Card>
      <UsageCard />
    </>
  );
}

function PoolBar({ pool }: { pool: Pool }) {
  const parts = [{ count: pool.gpuUsed, tone: 'used' }, { count: pool.gpuUnhealthy ?? 0, tone: 'sick' }];
  return <Bar label={`${pool.gpuUsed}/${pool.gpuTotal}`} total={pool.gpuTotal} parts={parts} />;
}

function PoolTable({ pools }: { pools: Pool[] }) {
  return (
    <Table label={say('pool')} items={pools} keyOf={(pool) => pool.name} columns={[
      { key: 'name', title: say('name'), cell: (pool) => <><Link to={linkTo(['nodes'], { pool: pool.name })}>{pool.name}</Link>{pool.description && <span class="lead"> {pool.description}</span>}</> },
      { key: 'status', title: say('status'), cell: (pool) => <Status code={pool.status} /> },
      { key: 'type', title: say('gpuType'), cell: (pool) => pool.gpuType.join(', ') },
      { key: 'use', title: say('use'), cell: (pool) => <PoolBar pool={pool} /> },
      { key: 'used', title: say('used'), number: true, cell: (pool) => <Count value={pool.gpuUsed} /> },
      { key: 'free', title: say('free'), number: true, cell: (pool) => <Count value={pool.gpuFree} /> },
      { key: 'gpus', title: say('gpus'), number: true, cell: (pool) => <Count value={pool.gpuTotal} /> },
      { key: 'nodes', title: say('nodeCount'), number: true, cell: (pool) => `${pool.readyNodes}/${pool.nodeCount}` },
    ]} />
  );
}

function QuotaBar({ quota }: { quota: GPUQuota }) {
  const used = quota.used ?? 0, borrowed = quota.borrowed ?? 0;
  const parts = [{ count: used - borrowed, tone: 'used' }, { count: borrowed, tone: 'shared' }];
  return <Bar label={`${used}/${quota.max ?? quota.min}`} total={Math.max(quota.max ?? 0, quota.min, used)} parts={parts} />;
}

function GPUQuotaTable({ quotas }: { quotas: GPUQuota[] }) {
  if (!quotas.length) return <Empty title={say('noQuotas')} text={say('noQuotasText')} />;
  return (
    <Table label={say('quotas')} items={quotas} keyOf={(quota) => quota.name} columns={[
      { key: 'name', title: say('name'), cell: (quota) => quota.name },
      { key: 'namespaces', title: say('namespace'), cell: (quota) => quota.namespaces.join(', ') },
      { key: 'pool', title: say('pool'), cell: (quota) => [quota.pool, quota.gpuType].filter(Boolean).join(' · ') },
      { key: 'use', title: say('use'), cell: (quota) => <QuotaBar quota={quota} /> },
      { key: 'used', title: say('used'), number: true, cell: (quota) => <Count value={quota.used} /> },
      { key: 'min', title: say('guaranteed'), number: true, cell: (quota) => <Count value={quota.min} /> },
      { key: 'max', title: say('most'), number: true, cell: (quota) => (quota.max === undefined ? say('unlimited') : <Count value={quota.max} />) },
      { key: 'borrowed', title: say('borrowed'), number: true, cell: (quota) => <Count value={quota.borrowed} /> },
      { key: 'lent', title: say('lent'), number: true, cell: (quota) => <Count value={quota.lent} /> },
      { key: 'waiting', title: say('waiting'), number: true, cell: (quota) => <Count value={quota.waiting?.gpus} /> },
    ]} />
  );
}

function QuotaTable({ quotas }: { quotas: Quota[] }) {
  const rows = quotas.flatMap((quota) => Object.entries(quota.hard).map(([resource, hard]) => ({ namespace: quota.namespace, resource, hard, used: quota.used[resource] ?? '0' })));
  if (!rows.length) return <Empty title={say('noQuotas')} text={say('noQuotasText')} />;
  return (
    <Table label={say('namespaceQuotas')} items={rows} keyOf={(row) => `${row.namespace}/${row.resource}`} columns={[
      { key: 'namespace', title: say('namespace'), cell: (row) => row.namespace }, { key: 'resource', title: say('resource'), cell: (row) => <code>{row.resource}</code> },
      { key: 'used', title: say('used'), number: true, cell: (row) => row.used }, { key: 'bound', title: say('bound'), number: true, cell: (row) => row.hard },
    ]} />
  );
}

const day = 86400e3, lengths = ['7', '1', '30'], groupings = ['namespace', 'user', 'pool'] as const, mostRows = 50;

function UsageCard() {
  const days = choiceParam('days', lengths), by = choiceParam('by', groupings);
  // Whole hours, so that the address of the question stays the same for a while.
  const since = new Date(Math.floor((Date.now() - Number(days) * day) / 3600e3) * 3600e3).toISOString();
  const usage = useResource<Usage>(`/usage?by=${encodeURIComponent(by)}&since=${since}`, 60000);
  const most = Math.max(1, ...(usage.data?.items ?? []).map((item) => item.gpuHours));
  return (
    <Card title={say('usageTitle', days)} side={<span class="page-tools">
      <Chips label={say('gpuHours')} value={by} change={(value) => setParams({ by: value })} choices={[['namespace', say('namespace')], ['user', say('user')], ['pool', say('pool')]]} />
      <Chips label={say('age')} value={days} change={(value) => setParams({ days: value })} choices={[['1', '1'], ['7', '7'], ['30', '30']]} /></span>}>
      <Show of={usage}>{({ items }) => (items.length === 0 ? <Empty title={say('noUsage')} text={say('noUsageText')} /> : (
        <><Table label={say('gpuHours')} items={items.slice(0, mostRows)} keyOf={(item) => JSON.stringify(item.keys)} columns={[
          { key: 'key', title: say(by), cell: (item) => Object.values(item.keys)[0] || say('ownerUnknown') },
          { key: 'bar', title: say('use'), cell: (item) => <Bar label={formatCount(Math.round(item.gpuHours))} total={most} parts={[{ count: item.gpuHours, tone: 'used' }]} /> },
          { key: 'hours', title: say('gpuHours'), number: true, cell: (item) => item.gpuHours.toFixed(item.gpuHours < 10 ? 2 : 0) },
          { key: 'running', title: say('running'), number: true, cell: (item) => <Count value={item.running} /> },
        ]} /><Cut shown={Math.min(items.length, mostRows)} total={items.length} /></>
      ))}</Show>
    </Card>
  );
}
