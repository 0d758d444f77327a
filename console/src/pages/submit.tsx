// Submit: a form and its YAML side by side, checked as one types, with what would happen if it were submitted now.
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { callAPI, Failure } from '../api';
import { nameCode, say } from '../language';
import { Card, Empty, PageHead, Problem, Skeleton } from '../parts';
import { useResource } from '../resources';
import { linkTo, navigate, param, setParams } from '../router';
import type { Detail, Pool, Simulation, Validation } from '../types';
import { Why } from './why';
import { writeYAML, type Fields } from './yaml';

const defaults: Fields = { kind: 'training', name: 'my-job', namespace: '', priority: '', image: 'python:3.12', command: 'python train.py', gpu: '1', type: '', pool: '', cpu: '4', memory: '16Gi' };

function readFields(): Fields {
  const out = { ...defaults };
  for (const key of Object.keys(out) as (keyof Fields)[]) out[key] = param(key) || out[key];
  return out;
}

export function Submit() {
  const yaml = useSignal(writeYAML(readFields()));
  const byHand = useSignal(false);
  const change = (key: keyof Fields, value: string) => {
    setParams({ [key]: value === defaults[key] ? '' : value });
    if (!byHand.value) yaml.value = writeYAML({ ...readFields(), [key]: value });
  };
  return (
    <>
      <PageHead title={say('submit')} />
      <div class="submit">
        <Card title={say('form')}><Form change={change} />
          {byHand.value && <p class="notice">{say('edited')} <button type="button" onClick={() => { byHand.value = false; yaml.value = writeYAML(readFields()); }}>{say('fromForm')}</button></p>}
        </Card>
        <Editor yaml={yaml} byHand={byHand} />
      </div>
    </>
  );
}

function Form({ change }: { change: (key: keyof Fields, value: string) => void }) {
  const pools = useResource<Pool[]>('/pools', 0);
  const fields = readFields();
  const types = [...new Set((pools.data ?? []).filter((pool) => !fields.pool || pool.name === fields.pool).flatMap((pool) => pool.gpuType))].filter(Boolean).sort();
  const text = (key: keyof Fields, title: string, extra: object = {}) => (
    <label>{title}<input value={fields[key]} onInput={(event) => change(key, event.currentTarget.value)} autocomplete="off" spellcheck={false} {...extra} /></label>
  );
  const choice = (key: keyof Fields, title: string, choices: [string, string][]) => (
    <label>{title}<select value={fields[key]} onChange={(event) => change(key, event.currentTarget.value)}>{choices.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
  );
  return (
    <form class="form" onSubmit={(event) => event.preventDefault()}>
      {choice('kind', say('kind'), ['training', 'inference', 'notebook', 'compute'].map((kind) => [kind, nameCode(kind)]))}
      {text('name', say('name'))}
      {text('namespace', say('namespace'), { placeholder: 'default' })}
      {choice('priority', say('priority'), [['', say('optional')], ['high', nameCode('high')], ['medium', nameCode('medium')], ['low', nameCode('low')]])}
      {text('image', say('image'))}
      {text('command', say('command'))}
      {text('gpu', say('gpus'), { type: 'number', min: 0, max: 1024 })}
      {choice('pool', say('pool'), [['', say('defaultPool')], ...(pools.data ?? []).filter((pool) => pool.name !== 'default').map((pool): [string, string] => [pool.name, `${pool.name} (${pool.gpuFree} ${say('gpuFree')})`])])}
      {choice('type', say('gpuType'), [['', say('anyType')], ...types.map((type): [string, string] => [type, type])])}
      {text('cpu', say('cpu'))}
      {text('memory', say('memory'))}
    </form>
  );
}

const checkDelay = 400, simulateDelay = 900;

function Editor({ yaml, byHand }: { yaml: Signal<string>; byHand: Signal<boolean> }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLPreElement>(null);
  const checked = useSignal<Validation | null>(null);
  const answer = useSignal<Simulation | Failure | null>(null);
  const asking = useSignal(false);
  useEffect(() => {
    const stop = new AbortController();
    checked.value = null;
    const text = yaml.value, body = { yamlContent: text };
    const timer = setTimeout(async () => {
      if (!text.trim()) return;
      try {
        checked.value = (await callAPI<Validation>('/validate', { method: 'POST', body, signal: stop.signal })).data;
        if (!checked.value.valid) { answer.value = null; return; }
        await new Promise((resume) => setTimeout(resume, simulateDelay - checkDelay));
        if (stop.signal.aborted) return;
        asking.value = true;
        answer.value = (await callAPI<Simulation>('/simulate', { method: 'POST', body, signal: stop.signal })).data;
      } catch (problem) {
        if (!stop.signal.aborted) answer.value = problem as Failure;
      }
      if (!stop.signal.aborted) asking.value = false;
    }, checkDelay);
    return () => { stop.abort(); clearTimeout(timer); asking.value = false; };
  }, [yaml.value]);
  const lines = yaml.value.split('\n').length;
  const marked = new Set(checked.value?.diagnostics.map((detail) => detail.line));
  const go = (detail: Detail) => {
    const before = yaml.value.split('\n').slice(0, (detail.line ?? 1) - 1).join('\n').length;
    const at = before + (detail.line && detail.line > 1 ? 1 : 0) + (detail.column ?? 1) - 1;
    area.current!.focus();
    area.current!.setSelectionRange(at, at);
  };
  return (
    <div>
      <Card title={say('yaml')}>
        <div class="editor">
          <pre ref={gutter} class="gutter" aria-hidden="true">{Array.from({ length: lines }, (_, i) => <span key={i} class={marked.has(i + 1) ? 'tone-bad' : ''}>{`${i + 1}\n`}</span>)}</pre>
          <textarea ref={area} aria-label={say('yaml')} spellcheck={false} rows={Math.max(16, lines + 1)} value={yaml.value} onInput={(event) => { byHand.value = true; yaml.value = event.currentTarget.value; }}
            onScroll={(event) => { gutter.current!.scrollTop = event.currentTarget.scrollTop; }} />
        </div>
        <Checks checked={checked.value} go={go} />
        <SubmitButton yaml={yaml.value} ready={!!checked.value?.valid} document={checked.value?.documents[0]} />
      </Card>
      <Card title={say('whatHappens')}><Forecast answer={answer.value} asking={asking.value} empty={!checked.value?.valid} /></Card>
    </div>
  );
}

function Checks({ checked, go }: { checked: Validation | null; go: (detail: Detail) => void }) {
  if (!checked) return <p class="checks" role="status" data-busy>…</p>;
  const errors = checked.diagnostics.filter((detail) => detail.severity !== 'warning').length;
  const warnings = checked.diagnostics.length - errors;
  return (
    <div class="checks" role="status">
      <p class={errors ? 'tone-bad' : 'tone-good'}>{errors ? say('problems', errors) : say('valid')}{warnings > 0 && ` · ${say('warnings', warnings)}`}</p>
      <ul class="plain">{checked.diagnostics.map((detail, i) => (
        <li key={i}>{detail.line ? <button type="button" class="text" onClick={() => go(detail)}>{say('lineAt', detail.line)}</button> : null} {detail.message}</li>
      ))}</ul>
    </div>
  );
}

function SubmitButton({ yaml, ready, document: first }: { yaml: string; ready: boolean; document?: { name: string; namespace?: string } }) {
  const busy = useSignal(false);
  const problem = useSignal<Failure | null>(null);
  const send = async () => {
    busy.value = true;
    problem.value = null;
    try {
      const headers = { 'Idempotency-Key': crypto.randomUUID() };
      const { data } = await callAPI<{ namespace: string; name: string }>('/jobs', { method: 'POST', body: { yamlContent: yaml }, headers });
      navigate(linkTo(['jobs', data.namespace, data.name]));
    } catch (failure) {
      problem.value = failure as Failure;
    }
    busy.value = false;
  };
  return (
    <>
      <button type="button" class="primary" disabled={!ready || busy.value} onClick={send}>{say(busy.value ? 'submitting' : 'submitJob')}{first && <span class="button-detail"> {first.name}</span>}</button>
      {problem.value && <Problem problem={problem.value} />}
    </>
  );
}

function Forecast({ answer, asking, empty }: { answer: Simulation | Failure | null; asking: boolean; empty: boolean }) {
  if (empty && !asking) return <Empty title={say('emptyYAML')} />;
  if (!answer) return <><p class="lead" role="status">{say('simulating')}</p><Skeleton rows={3} /></>;
  if (answer instanceof Failure) return <Problem problem={answer} />;
  return (
    <div class={asking ? 'asking' : ''} aria-busy={asking} role="status">
      {answer.jobs.map((job) => (
        <div key={`${job.namespace}/${job.job}`}>
          <p class={`verdict ${job.starts ? 'tone-good' : 'tone-wait'}`}>{job.starts ? say('startsNow') : `${say('wouldWait')}: ${nameCode(job.cause)}`}</p>
          <Why report={job} />
        </div>
      ))}
      {!!answer.evicted?.length && <><h3>{say('leave')}</h3><ul class="plain">{answer.evicted.map((pod) => <li key={pod}>{pod}</li>)}</ul></>}
      {answer.unasked?.map((text) => <p key={text} class="lead">{say('unasked', text)}</p>)}
    </div>
  );
}
