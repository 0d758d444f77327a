// Submit: a form and its YAML side by side, checked as one types, with what would happen if it were submitted now.
import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { asFailure, callAPI, Failure, user } from '../api';
import { nameCode, say } from '../language';
import { Card, Empty, PageHead, Problem, Skeleton } from '../parts';
import { useResource } from '../resources';
import { linkTo, navigate, query, setParams } from '../router';
import type { Detail, Pool, Simulation, Validation } from '../types';
import { Why } from './why';
import { writeYAML, type Fields } from './yaml';

const defaults: Fields = { kind: 'training', name: 'my-job', namespace: '', priority: '', image: 'python:3.12', command: 'python train.py', gpu: '1', type: '', pool: '', cpu: '4', memory: '16Gi' };

const keys = Object.keys(defaults) as (keyof Fields)[];

// readFields reads the fields from the address: one that is there is as it says, also if it is empty.
function readFields(): Fields {
  return Object.fromEntries(keys.map((key) => [key, query.value.get(key) ?? defaults[key]])) as unknown as Fields;
}

// draft is what was written and not submitted yet. It outlives the page, as a token may expire while one writes, but not its writer.
const draft = signal({ owner: '', yaml: '', byHand: false });

user.subscribe((name) => { if (name && name !== draft.peek().owner) draft.value = { owner: name, yaml: '', byHand: false }; });

export function Submit() {
  const fields = useSignal(readFields());
  const write = () => { draft.value = { ...draft.peek(), yaml: writeYAML(fields.peek()), byHand: false }; };
  useEffect(() => { if (!draft.peek().byHand) write(); }, []);
  const change = (key: keyof Fields, value: string) => {
    fields.value = { ...fields.peek(), [key]: value };
    setParams({ [key]: value === defaults[key] ? null : value }, true);
    if (!draft.peek().byHand) write();
  };
  return (
    <>
      <PageHead title={say('submit')} />
      <div class="submit">
        <Card title={say('form')}><Form fields={fields.value} change={change} />
          {draft.value.byHand && <p class="notice">{say('edited')} <button type="button" onClick={write}>{say('fromForm')}</button></p>}
        </Card>
        <Editor />
      </div>
    </>
  );
}

function Form({ fields, change }: { fields: Fields; change: (key: keyof Fields, value: string) => void }) {
  const pools = useResource<Pool[]>('/pools', 0);
  const chosen = (pools.data ?? []).filter((pool) => !fields.pool || pool.name === fields.pool);
  const types = [...new Set(chosen.flatMap((pool) => pool.gpuType))].filter(Boolean).sort();
  const named = (pools.data ?? []).filter((pool) => pool.name !== 'default').map((pool): [string, string] => [pool.name, `${pool.name} (${pool.gpuFree} ${say('gpuFree')})`]);
  const text = (key: keyof Fields, title: string, extra: object = {}) => (
    <label>{title}<input value={fields[key]} onInput={(event) => change(key, event.currentTarget.value)} autocomplete="off" spellcheck={false} {...extra} /></label>
  );
  const choice = (key: keyof Fields, title: string, choices: [string, string][]) => (
    <label>{title}<select value={fields[key]} onChange={(event) => change(key, event.currentTarget.value)}>
      {choices.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
    </select></label>
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
      {choice('pool', say('pool'), [['', say('defaultPool')], ...named])}
      {choice('type', say('gpuType'), [['', say('anyType')], ...types.map((type): [string, string] => [type, type])])}
      {text('cpu', say('cpu'))}
      {text('memory', say('memory'))}
    </form>
  );
}

const checkDelay = 400, simulateDelay = 900;

// useChecks checks a document as it is written, and asks what would happen with it.
function useChecks(text: string) {
  const checked = useSignal<Validation | null>(null);
  const problem = useSignal<Failure | null>(null);
  const answer = useSignal<Simulation | Failure | null>(null);
  const asking = useSignal(false);
  const round = useSignal(0);
  useEffect(() => {
    const stop = new AbortController();
    const ask = async <T,>(path: string) => (await callAPI<T>(path, { method: 'POST', body: { yamlContent: text }, signal: stop.signal })).data;
    checked.value = problem.value = null;
    const timer = setTimeout(async () => {
      if (!text.trim()) return;
      try {
        checked.value = await ask<Validation>('/validate');
      } catch (failure) {
        if (!stop.signal.aborted) problem.value = asFailure(failure);
      }
      if (!checked.peek()?.valid) { answer.value = null; return; }
      await new Promise((resume) => setTimeout(resume, simulateDelay - checkDelay));
      if (stop.signal.aborted) return;
      asking.value = true;
      try {
        answer.value = await ask<Simulation>('/simulate');
      } catch (failure) {
        if (!stop.signal.aborted) answer.value = asFailure(failure);
      }
      if (!stop.signal.aborted) asking.value = false;
    }, checkDelay);
    return () => { stop.abort(); clearTimeout(timer); asking.value = false; };
  }, [text, round.value]);
  return { checked: checked.value, problem: problem.value, answer: answer.value, asking: asking.value, again: () => { round.value += 1; } };
}

function Editor() {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLPreElement>(null);
  const text = draft.value.yaml;
  const { checked, problem, answer, asking, again } = useChecks(text);
  const rows = text.split('\n');
  const marked = new Set(checked?.diagnostics.map((detail) => detail.line));
  const go = (detail: Detail) => {
    const before = rows.slice(0, (detail.line ?? 1) - 1).join('\n').length;
    const at = before + (detail.line && detail.line > 1 ? 1 : 0) + (detail.column ?? 1) - 1;
    area.current!.focus();
    area.current!.setSelectionRange(at, at);
  };
  return (
    <div>
      <Card title={say('yaml')}>
        <div class="editor">
          <pre ref={gutter} class="gutter" aria-hidden="true">{rows.map((_, i) => <span key={i} class={marked.has(i + 1) ? 'tone-bad' : ''}>{`${i + 1}\n`}</span>)}</pre>
          <textarea ref={area} aria-label={say('yaml')} spellcheck={false} rows={Math.max(16, rows.length + 1)} value={text}
            onInput={(event) => { draft.value = { ...draft.peek(), yaml: event.currentTarget.value, byHand: true }; }}
            onScroll={(event) => { gutter.current!.scrollTop = event.currentTarget.scrollTop; }} />
        </div>
        {problem ? <Problem problem={problem} again={again} /> : <Checks checked={checked} go={go} />}
        <SubmitButton yaml={text} ready={!!checked?.valid} document={checked?.documents[0]} />
      </Card>
      <Card title={say('whatHappens')}><Forecast answer={answer} asking={asking} empty={!checked?.valid} /></Card>
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
  const attempt = useRef({ yaml: '', key: '' });
  const send = async () => {
    busy.value = true;
    problem.value = null;
    // The same document keeps its key until it is known what became of it: an answer that was lost must not make a second job.
    if (attempt.current.yaml !== yaml) attempt.current = { yaml, key: crypto.randomUUID() };
    try {
      const headers = { 'Idempotency-Key': attempt.current.key };
      const { data } = await callAPI<{ namespace: string; name: string }>('/jobs', { method: 'POST', body: { yamlContent: yaml }, headers });
      draft.value = { ...draft.peek(), yaml: '', byHand: false };
      navigate(linkTo(['jobs', data.namespace, data.name]));
    } catch (failure) {
      problem.value = asFailure(failure);
      if (problem.value.status >= 400 && problem.value.status < 500) attempt.current = { yaml: '', key: '' };
    }
    busy.value = false;
  };
  return (
    <>
      <button type="button" class="primary" disabled={!ready || busy.value} onClick={send}>
        {say(busy.value ? 'submitting' : 'submitJob')}{first && <span class="button-detail"> {first.name}</span>}
      </button>
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
