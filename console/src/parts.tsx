// The small parts that all pages are made of.
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Failure } from './api';
import { formatCount, nameCode, say } from './language';
import type { Loaded } from './resources';

// tones of states: what is well, busy, to be looked at, broken, or over.
const tones: Record<string, string> = {
  Running: 'good', active: 'good', Succeeded: 'quiet', Starting: 'busy', Pending: 'wait', Suspended: 'quiet', Cancelled: 'quiet', Terminating: 'quiet', joining: 'busy',
  Degraded: 'warn', Failing: 'bad', Failed: 'bad', Deleted: 'quiet', cordoned: 'quiet', suspect: 'warn', not_ready: 'bad', out_of_service: 'bad',
  not_admitted: 'warn', leaving: 'warn', unavailable: 'bad', Warning: 'warn', Normal: 'quiet',
};

export function Status({ code }: { code: string }) {
  return <span class={`status tone-${tones[code] ?? 'quiet'}`}>{nameCode(code)}</span>;
}

export function PageHead({ title, children, text }: { title: ComponentChildren; children?: ComponentChildren; text?: string }) {
  return (
    <header class="page-head">
      <div><h1>{title}</h1>{text && <p class="lead">{text}</p>}</div>
      {children && <div class="page-tools">{children}</div>}
    </header>
  );
}

export function Card({ title, children, side, id }: { title?: ComponentChildren; children: ComponentChildren; side?: ComponentChildren; id?: string }) {
  return (
    <section class="card" id={id}>
      {title && <div class="card-head"><h2>{title}</h2>{side}</div>}
      {children}
    </section>
  );
}

export function Empty({ title, text, children }: { title: string; text?: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{text && <p>{text}</p>}{children}</div>;
}

export function Skeleton({ rows = 5 }: { rows?: number }) {
  return <div class="skeleton" role="status" aria-label={say('loading')}>{Array.from({ length: rows }, (_, i) => <span key={i} />)}</div>;
}

const roles = 'g8s:reader, g8s:user, g8s:fleet-reader';

// Problem says why something is not shown, and what to do.
export function Problem({ problem, again }: { problem: Failure; again?: () => void }) {
  const [title, text] = problem.status === 403 ? [say('forbidden'), say('forbiddenText', roles)]
    : problem.status === 404 ? [say('notFound'), say('notFoundText')]
      : problem.status === 0 ? [say('away'), say('awayText')] : [say('failed'), ''];
  return (
    <div class="problem" role="alert">
      <p class="empty-title">{title}</p>
      {problem.status !== 0 && <p class="problem-words">{problem.message}</p>}
      {text && <p>{text}</p>}
      {problem.details.map((detail, i) => <p key={i} class="problem-words">{detail.line ? `${say('lineAt', detail.line)}: ` : ''}{detail.message}</p>)}
      {again && <button type="button" onClick={again}>{say('retry')}</button>}
    </div>
  );
}

// Trouble says why what is shown is not the newest. That the server is away, the page says once.
export function Trouble({ problem }: { problem?: Failure | null }) {
  if (!problem || problem.status === 0) return null;
  return <p class="notice" role="status">{say('notNewest', problem.message)}</p>;
}

// Show decides between what is loaded, that it is loading, and why it is not.
export function Show<T>({ of, rows, children }: { of: Loaded<T>; rows?: number; children: (data: T) => ComponentChildren }) {
  if (of.data !== undefined) return <><Trouble problem={of.problem} />{children(of.data)}</>;
  if (of.problem) return <Problem problem={of.problem} again={of.again} />;
  return <Skeleton rows={rows} />;
}

// Cut says how many of a list are shown, where these are not all.
export function Cut({ shown, total }: { shown: number; total: number }) {
  return shown < total ? <p class="foot">{say('shownOf', formatCount(shown), formatCount(total))}</p> : null;
}

// Bar shows parts of a whole, with their numbers for readers who cannot see it.
export function Bar({ parts, total, label }: { parts: { count: number; tone: string }[]; total: number; label: string }) {
  return (
    <div class="bar" role="img" aria-label={label} title={label}>
      {total > 0 && parts.filter(({ count }) => count > 0).map(({ count, tone }, i) => (
        <span key={i} class={`fill-${tone}`} style={{ width: `${100 * Math.min(1, count / total)}%` }} />
      ))}
    </div>
  );
}

export function Count({ value }: { value: number | undefined }) { return <>{value === undefined ? '–' : formatCount(value)}</>; }

export interface Column<T> { key: string; title: string; number?: boolean; hide?: boolean; cell: (item: T) => ComponentChildren }

// Table is a list in which j and k move. On narrow screens each row becomes a card, with the titles of its cells.
export function Table<T>({ columns, items, keyOf, label }: { columns: Column<T>[]; items: T[]; keyOf: (item: T) => string; label: string }) {
  return (
    <div class="table-frame">
      <table aria-label={label}>
        <thead><tr>{columns.map((c) => <th key={c.key} scope="col" class={cellClass(c)}>{c.title}</th>)}</tr></thead>
        <tbody>
          {items.map((item) => (
            <tr key={keyOf(item)} data-row>
              {columns.map((c) => <td key={c.key} class={cellClass(c)} data-title={c.title}>{c.cell(item)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cellClass<T>(column: Column<T>): string {
  return [column.number && 'number', column.hide && 'secondary'].filter(Boolean).join(' ');
}

interface ConfirmProps { title: string; text: string; action: string; danger?: boolean; run: () => Promise<void>; close: () => void }

// Confirm asks before something is done. The focus begins at the way out.
export function Confirm({ title, text, action, danger, run, close }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const busy = useSignal(false);
  useEffect(() => { dialog.current?.showModal(); }, []);
  const leave = () => dialog.current?.close(); // it gives the focus back, and then calls close
  const go = async () => { busy.value = true; await run(); busy.value = false; leave(); };
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onClose={close}>
      <h2 id="confirm-title">{title}</h2>
      <p>{text}</p>
      <div class="dialog-tools">
        <button type="button" autofocus onClick={leave}>{say('cancel')}</button>
        <button type="button" class={danger ? 'danger' : 'primary'} disabled={busy.value} onClick={go}>{action}</button>
      </div>
    </dialog>
  );
}

interface ChoiceProps { label: string; value: string; choices: [string, string][]; change: (value: string) => void }

export function Select({ label, value, choices, change }: ChoiceProps) {
  return (
    <label class="select"><span>{label}</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        {choices.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select>
    </label>
  );
}

export function Chips({ label, value, choices, change }: ChoiceProps) {
  return (
    <div class="chips" role="group" aria-label={label}>
      {choices.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => change(key)}>{text}</button>
      ))}
    </div>
  );
}
