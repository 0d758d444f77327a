// The map: every GPU of the cluster on one canvas, grouped by pool. What it shows as colors it says in words, too.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { followStream, type Failure } from '../api';
import { formatClock, say } from '../language';
import { Card, Chips, Empty, PageHead, Problem, Select, Skeleton, Trouble } from '../parts';
import { choiceParam, Link, linkTo, navigate, param, setParams } from '../router';
import type { GPUMap } from '../types';
import { applyRows, cellAt, drawMap, layOut, ownersOf, numberOf, paletteOf, roomOn, type Cell, type Layout } from './drawing';
import { choicesOf } from './jobs';
import { countStates } from './overview';

const sizes = ['1', '2', '4', '8'], anySize = ['', ...sizes], colors = ['state', 'owner', 'type'] as const;

export function MapPage() {
  const map = useSignal<GPUMap | null>(null);
  const problem = useSignal<Failure | null>(null);
  useEffect(() => followStream('/map?watch=true', (events) => {
    let next = map.peek();
    for (const { event, data } of events) {
      if (event === 'map') next = data as GPUMap;
      else if (event === 'rows' && next) next = applyRows(next, data as GPUMap);
    }
    map.value = next;
  }, (failure) => { problem.value = failure; }), []);
  return (
    <>
      <PageHead title={say('map')} text={map.value ? say('takenAt', formatClock(map.value.taken)) : undefined}>{map.value && <Link to={linkTo(['nodes'])}>{say('mapTable')}</Link>}</PageHead>
      {map.value && <Trouble problem={problem.value} />}
      {map.value ? (map.value.nodes.length ? <MapView map={map.value} /> : <Empty title={say('noGPUs')} text={say('noGPUsText')} />)
        : problem.value && problem.value.status !== 0 ? <Problem problem={problem.value} /> : <Skeleton rows={10} />}
    </>
  );
}

function MapView({ map }: { map: GPUMap }) {
  const pool = param('pool'), color = choiceParam('color', colors), size = choiceParam('fit', anySize), fit = Number(size);
  const states = countStates(map);
  const pods = map.fits.filter((fits) => !pool || fits.pool === pool).reduce((sum, fits) => sum + (fits.pods[sizes.indexOf(size)] ?? 0), 0);
  const nodes = map.nodes.filter((_, i) => roomOn(map, i) >= fit && (!pool || map.pools[map.pool[i]] === pool)).length;
  return (
    <>
      <div class="filters">
        <Select label={say('pool')} value={pool} change={(value) => setParams({ pool: value })} choices={choicesOf(map.pools)} />
        <span class="group-label">{say('colorBy')}</span>
        <Chips label={say('colorBy')} value={color} change={(value) => setParams({ color: value === 'state' ? '' : value })}
          choices={[['state', say('byState')], ['owner', say('byOwner')], ['type', say('byType')]]} />
        <span class="group-label">{say('fitting')}</span>
        <Chips label={say('fitting')} value={size} change={(value) => setParams({ fit: value })} choices={[['', say('any')], ...sizes.map((size): [string, string] => [size, size])]} />
      </div>
      <p class="lead">{fit ? say('fitSummary', pods, fit, nodes) : say('mapSummary', states.total, map.nodes.length, states.free, states.used, states.sick)}</p>
      <Card><Canvas map={map} pool={pool} color={color} fit={fit} /><Legend map={map} color={color} /></Card>
    </>
  );
}

interface CanvasProps { map: GPUMap; pool: string; color: string; fit: number }

function Canvas({ map, pool, color, fit }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const layout = useRef<Layout | null>(null);
  const hovered = useSignal<Cell | null>(null);
  const width = useSignal(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => { width.value = Math.floor(entry.contentRect.width); });
    watch.observe(canvas.current!.parentElement!);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const repaint = () => { width.value = width.peek() + 0.001; };
    dark.addEventListener('change', repaint);
    document.addEventListener('themechange', repaint);
    return () => { watch.disconnect(); dark.removeEventListener('change', repaint); document.removeEventListener('themechange', repaint); };
  }, []);
  useEffect(() => {
    if (!width.value) return undefined;
    const frame = requestAnimationFrame(() => {
      layout.current = layOut(map, pool, Math.floor(width.value));
      drawMap(canvas.current!, map, layout.current, { color, fit, hovered: hovered.value });
    });
    return () => cancelAnimationFrame(frame);
  }, [map, pool, color, fit, width.value, hovered.value]);
  const find = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return layout.current && cellAt(layout.current, map, event.clientX - box.left, event.clientY - box.top);
  };
  const move = (event: MouseEvent) => { hovered.value = find(event); };
  const open = () => {
    const cell = hovered.value;
    if (!cell) return;
    navigate(cell.job ? linkTo(['jobs', cell.namespace!, cell.job]) : linkTo(['nodes', map.nodes[cell.node]]));
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === 'Enter') open();
    if (!step || !layout.current) return;
    event.preventDefault();
    const all = layout.current.boxes, vertical = event.key === 'ArrowUp' || event.key === 'ArrowDown';
    const at = hovered.value ? all.findIndex((box) => box.node === hovered.value!.node) : -1;
    const gpu = hovered.value?.gpu ?? -1;
    const node = vertical || at < 0 ? Math.max(0, Math.min(all.length - 1, at + step)) : at;
    const next = vertical ? Math.max(0, gpu) : Math.max(0, Math.min(map.gpus[all[node].node].length - 1, gpu + step));
    hovered.value = cellAt(layout.current, map, all[node].x + layout.current.label + next * layout.current.pitch + 2, all[node].y + 3);
  };
  const cell = hovered.value;
  return (
    <div class="map-frame">
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={say('map')} aria-describedby="map-hint" onMouseMove={move}
        onMouseLeave={() => { hovered.value = null; }} onClick={(event) => { hovered.value = find(event); open(); }} onKeyDown={key} />
      <div id="map-hint" role="status" class={cell ? 'map-hint' : 'map-hint hidden'}
        style={cell ? { left: `${Math.max(0, Math.min(cell.x, width.value - 260))}px`, top: `${cell.y + 22}px` } : {}}>
        {cell && <Hint map={map} cell={cell} />}
      </div>
    </div>
  );
}

export const stateWords = { f: 'stateFree', u: 'stateUsed', s: 'stateShared', h: 'stateHeld', m: 'stateMIG', x: 'stateSick' } as const;

function Hint({ map, cell }: { map: GPUMap; cell: Cell }) {
  const state = map.gpus[cell.node][cell.gpu] as keyof typeof stateWords;
  const fault = map.faults?.find((one) => one.node === cell.node && one.gpu === cell.gpu);
  return (
    <>
      <b>{map.nodes[cell.node]} · {say('gpuNumber', numberOf(map, cell.node, cell.gpu))}</b>
      <span>{[map.types[map.type[cell.node]], map.pools[map.pool[cell.node]], map.racks[map.rack[cell.node]]].filter(Boolean).join(' · ')}</span>
      <span>{say(stateWords[state])}{fault && `: ${fault.health}`}</span>
      {cell.job ? <span>{cell.namespace}/{cell.job}</span> : (state === 'u' || state === 's') && <span>{say('youCannotSee')}</span>}
    </>
  );
}

function Legend({ map, color }: { map: GPUMap; color: string }) {
  const colors = paletteOf();
  const entries: [string, string][] = color === 'state'
    ? [[say('stateUsed'), colors.used], [say('stateShared'), colors.shared], [say('stateHeld'), colors.held], [say('stateMIG'), colors.mig],
      [say('stateFree'), colors.free], [say('stateClosed'), colors.closed], [say('stateSick'), colors.sick]]
    : [...ownersOf(map, color).slice(0, 12), [say('stateFree'), colors.free], [say('stateSick'), colors.sick]];
  return <ul class="legend">{entries.map(([text, fill]) => <li key={text}><i style={{ background: fill }} />{text}</li>)}</ul>;
}

