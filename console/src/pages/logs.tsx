// The output of a job as it comes.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { splitANSI } from '../ansi';
import { followStream, type Failure } from '../api';
import { formatClock, nameCode, say } from '../language';
import { Card, Empty, Problem } from '../parts';
import { param, setParams } from '../router';

interface Line { number: number; pod: string; container: string; time: string; text: string }

// maxLines bounds what is kept, so that a page left open over night stays quick.
const maxLines = 5000;

export function Logs({ path }: { path: string }) {
  const lines = useSignal<Line[]>([]);
  const ended = useSignal('');
  const problem = useSignal<Failure | null>(null);
  const follow = useSignal(true);
  const frame = useRef<HTMLDivElement>(null);
  const count = useRef(0);
  useEffect(() => {
    lines.value = [];
    ended.value = '';
    return followStream(`${path}&follow=true&tail=1000`, (events) => {
      const more: Line[] = [];
      for (const { event, data } of events) {
        if (event === 'log') more.push({ ...data as Line, number: count.current++ });
        else if (event === 'end') ended.value = (data as { status: string }).status;
      }
      if (more.length) lines.value = [...lines.peek(), ...more].slice(-maxLines);
    }, (failure) => { problem.value = failure; });
  }, [path]);
  useEffect(() => {
    if (follow.value && frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, [lines.value, follow.value]);
  const text = param('grep');
  const shown = text ? lines.value.filter((line) => line.text.toLowerCase().includes(text.toLowerCase())) : lines.value;
  const several = new Set(lines.value.map((line) => line.pod)).size > 1;
  const scrolled = () => { const at = frame.current!; follow.value = at.scrollHeight - at.scrollTop - at.clientHeight < 24; };
  return (
    <Card title={say('logs')} side={<span class="log-tools">
      <input type="search" data-search aria-label={say('filterLogs')} placeholder={say('filterLogs')} value={text}
        onInput={(event) => setParams({ grep: event.currentTarget.value })} />
      <label><input type="checkbox" checked={follow.value} onChange={(event) => { follow.value = event.currentTarget.checked; }} /> {say('follow')}</label></span>}>
      {problem.value && problem.value.status !== 0 && <Problem problem={problem.value} />}
      {!problem.value && !shown.length && <Empty title={text ? say('noMatch') : say('noLogs')} text={text ? '' : say('noLogsText')} />}
      {shown.length > 0 && (
        <div class="log" ref={frame} onScroll={scrolled} tabIndex={0} role="log" aria-label={say('logs')}>
          {shown.map((line) => <LogLine key={line.number} line={line} several={several} />)}
        </div>
      )}
      {ended.value && <p class="lead">{say('logEnd', nameCode(ended.value))}</p>}
    </Card>
  );
}

function LogLine({ line, several }: { line: Line; several: boolean }) {
  return (
    <div class="log-line">
      <span class="log-time" title={line.time}>{formatClock(line.time)}</span>
      {several && <span class="log-pod">{line.pod}</span>}
      <span class="log-text">{splitANSI(line.text).map((piece, i) => <span key={i} class={piece.class}>{piece.text}</span>)}</span>
    </div>
  );
}
