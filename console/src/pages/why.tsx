// Why a job waits, or where it runs: findings with what to do about each, the nearest nodes with their holders, and places.
import { useSignal } from '@preact/signals';
import { nameCode, say } from '../language';
import { Table } from '../parts';
import { JobLink, Link, linkTo } from '../router';
import type { Finding, Holder, Placement, Report, Step } from '../types';

export function Why({ report }: { report: Report }) {
  return (
    <div class="why-report">
      {report.findings?.map((finding, i) => <FindingView key={i} finding={finding} />)}
      {!!report.nearMisses?.length && (
        <><h3>{say('nearest')}</h3><ul class="plain">{report.nearMisses.map((miss) => (
          <li key={miss.node}><NodeLink name={miss.node} />{!!miss.holders?.length && <>: <Holders holders={miss.holders} /></>}</li>
        ))}</ul></>
      )}
      {!!report.placements?.length && <Placements placements={report.placements} />}
      {!!report.unread?.length && <p class="lead">{say('unread', report.unread.map((part) => String(part)).join(', '))}</p>}
      {report.verdict && <details><summary>{say('schedulerSays')}</summary><p class="words">{report.verdict}</p></details>}
    </div>
  );
}

export function NodeLink({ name }: { name: string }) { return <Link to={linkTo(['nodes', name])}>{name}</Link>; }

function FindingView({ finding }: { finding: Finding }) {
  return (
    <div class="finding">
      <p class="finding-text">{finding.text}</p>
      {!!finding.nodes && (
        <p class="lead">{say('onNodes', finding.nodes)}{!!finding.examples?.length && <>, {say('examples', '')} {finding.examples.map((node, i) => (
          <span key={node}>{i > 0 && ', '}<NodeLink name={node} /></span>
        ))}</>}</p>
      )}
      {finding.steps?.length ? <Steps steps={finding.steps} /> : !!finding.advice?.length && <ul class="steps">{finding.advice.map((text) => <li key={text}>{text}</li>)}</ul>}
    </div>
  );
}

function Steps({ steps }: { steps: Step[] }) {
  return (
    <><h3>{say('whatToDo')}</h3>
      <ul class="steps">{steps.map((step, i) => (
        <li key={i}>{step.text}{step.command && <Command text={step.command} />}
          {!!step.holders?.length && <p class="lead"><Holders holders={step.holders} /></p>}
          {step.denied && <p class="lead">{say('denied', step.denied)}</p>}</li>
      ))}</ul></>
  );
}

function Command({ text }: { text: string }) {
  const copied = useSignal(false);
  const copy = async () => { await navigator.clipboard.writeText(text); copied.value = true; };
  return <span class="command"><code>{text}</code><button type="button" onClick={copy} aria-label={`${say('copy')}: ${text}`}>{say(copied.value ? 'copied' : 'copy')}</button></span>;
}

export function Holders({ holders }: { holders: Holder[] }) {
  return <>{say('heldBy', '')}{holders.map((holder, i) => (
    <span key={i}>{i > 0 && ', '}{holder.job ? <JobLink namespace={holder.namespace} name={holder.job} /> : holder.pod} ({holder.gpus} GPU{holder.priority && `, ${nameCode(holder.priority)}`})</span>
  ))}</>;
}

export function Placements({ placements }: { placements: Placement[] }) {
  return (
    <Table label={say('willGo')} items={placements} keyOf={(place) => place.pod} columns={[
      { key: 'pod', title: 'Pod', cell: (place) => place.pod },
      { key: 'node', title: say('node'), cell: (place) => <NodeLink name={place.node} /> },
      { key: 'gpus', title: say('gpus'), cell: (place) => place.devices?.map((device) => device.index).join(', ') ?? '' },
      { key: 'type', title: say('gpuType'), cell: (place) => place.gpuType ?? '' },
      { key: 'pool', title: say('pool'), hide: true, cell: (place) => place.pool ?? '' },
      { key: 'link', title: say('interconnect'), hide: true, cell: (place) => place.connection ?? '' },
    ]} />
  );
}
