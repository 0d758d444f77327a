// How the map is laid out and drawn. Places are counted once for a width; a repaint is one pass over the GPUs for each color.
import type { GPUMap } from '../types';

export interface Box { node: number; x: number; y: number }
export interface Layout {
  boxes: Box[]; titles: { text: string; x: number; y: number }[]; width: number; height: number; label: number; pitch: number; size: number; row: number;
}
export interface Cell { node: number; gpu: number; x: number; y: number; namespace?: string; job?: string }

// dense is from how many nodes on their names are left out, which the hint still says.
const dense = 250;

// layOut gives each node its place: pools one after the other, their nodes by rack and name, in columns.
export function layOut(map: GPUMap, pool: string, width: number): Layout {
  const small = map.nodes.length > dense;
  const size = small ? 9 : 14, gap = 2, pitch = size + gap, row = small ? 13 : 22;
  const cards = Math.max(1, ...map.gpus.map((states) => states.length));
  const label = small ? 0 : Math.min(150, 7.2 * Math.max(...map.nodes.map((name) => name.length)) + 10);
  const column = label + cards * pitch + (small ? 10 : 26);
  const columns = Math.max(1, Math.floor((width + 16) / column));
  const out: Layout = { boxes: [], titles: [], width: Math.max(width, column), height: 0, label, pitch, size, row };
  let y = 0;
  const order = map.pools.map((_, i) => i).sort((a, b) => (map.pools[a] < map.pools[b] ? -1 : 1));
  for (const group of order) {
    if (pool && map.pools[group] !== pool) continue;
    const nodes = map.nodes.map((_, i) => i).filter((i) => map.pool[i] === group);
    nodes.sort((a, b) => compareTexts(map.racks[map.rack[a]], map.racks[map.rack[b]]) || compareTexts(map.nodes[a], map.nodes[b]));
    out.titles.push({ text: map.pools[group], x: 0, y: y + 15 });
    y += 26;
    const rows = Math.ceil(nodes.length / columns);
    nodes.forEach((node, i) => out.boxes.push({ node, x: Math.floor(i / rows) * column, y: y + (i % rows) * row }));
    y += rows * row + 14;
  }
  out.height = y;
  return out;
}

const collator = new Intl.Collator('en', { numeric: true });
function compareTexts(a: string, b: string): number { return collator.compare(a, b); }

export interface Palette {
  used: string; shared: string; held: string; mig: string; free: string; closed: string; sick: string; text: string; quiet: string; edge: string; groups: string[];
}

// paletteOf reads the colors of the theme from the style sheet.
export function paletteOf(): Palette {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    used: read('--used'), shared: read('--shared'), held: read('--held'), mig: read('--mig'), free: read('--free'), closed: read('--closed'),
    sick: read('--sick'), text: read('--text'), quiet: read('--text-quiet'), edge: read('--free-edge'),
    groups: Array.from({ length: 10 }, (_, i) => read(`--group-${i}`)),
  };
}

// groupsOf are what the GPUs of a node are colored by: the places of their namespaces, or of their type.
function groupsOf(map: GPUMap, node: number, color: string): number[] {
  if (color === 'type') return Array.from(map.gpus[node], () => map.type[node]);
  return holdersOf(map, node).map((holder) => (holder < 0 ? -1 : map.holderNamespace[holder]));
}

export function ownersOf(map: GPUMap, color: string): [string, string][] {
  const { groups } = paletteOf();
  return (color === 'type' ? map.types : map.namespaces).map((text, i): [string, string] => [text || '–', groups[i % groups.length]]);
}

// holdersOf unfolds the runs of a node.
export function holdersOf(map: GPUMap, node: number): number[] {
  const out: number[] = [], runs = map.held[node];
  for (let i = 0; i < runs.length; i += 2) for (let n = 0; n < runs[i + 1]; n += 1) out.push(runs[i]);
  return out;
}

// numberOf is the driver's number of a GPU.
export function numberOf(map: GPUMap, node: number, gpu: number): number {
  return map.numbers?.find((one) => one.node === node)?.numbers[gpu] ?? gpu;
}

// roomOn is how many GPUs of a node a pod could get as a whole.
export function roomOn(map: GPUMap, node: number): number {
  return map.counts?.find((one) => one.node === node)?.room ?? map.free[node];
}

interface Look { color: string; fit: number; hovered: Cell | null }

export function drawMap(canvas: HTMLCanvasElement, map: GPUMap, layout: Layout, look: Look): void {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(layout.width * scale) || canvas.height !== Math.round(layout.height * scale)) {
    canvas.width = Math.round(layout.width * scale);
    canvas.height = Math.round(layout.height * scale);
    canvas.style.width = `${layout.width}px`;
    canvas.style.height = `${layout.height}px`;
  }
  const pen = canvas.getContext('2d')!;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, layout.width, layout.height);
  const palette = paletteOf();
  drawNames(pen, map, layout, palette, look.fit);
  for (const [fill, cells] of cellsByFill(map, layout, palette, look)) {
    pen.globalAlpha = fill.endsWith(faded) ? 0.22 : 1;
    pen.fillStyle = fill.replace(faded, '');
    for (let i = 0; i < cells.length; i += 2) pen.fillRect(cells[i], cells[i + 1], layout.size, layout.size);
  }
  pen.globalAlpha = 1;
  if (look.hovered) {
    pen.strokeStyle = palette.text;
    pen.lineWidth = 1.5;
    pen.strokeRect(look.hovered.x - 0.75, look.hovered.y - 0.75, layout.size + 1.5, layout.size + 1.5);
  }
}

const faded = '|faded';

function cellsByFill(map: GPUMap, layout: Layout, palette: Palette, look: Look): Map<string, number[]> {
  const out = new Map<string, number[]>();
  for (const box of layout.boxes) {
    const states = map.gpus[box.node], groups = look.color === 'state' ? null : groupsOf(map, box.node, look.color);
    const fits = !look.fit || roomOn(map, box.node) >= look.fit;
    for (let gpu = 0; gpu < states.length; gpu += 1) {
      let fill = fillOf(states[gpu], map.free[box.node] > 0, palette);
      const grouped = groups && states[gpu] !== 'x' && (look.color === 'type' ? states[gpu] !== 'f' : groups[gpu] >= 0);
      if (grouped) fill = palette.groups[groups[gpu] % palette.groups.length];
      if (!fits) fill += faded;
      let cells = out.get(fill);
      if (!cells) { cells = []; out.set(fill, cells); }
      cells.push(box.x + layout.label + gpu * layout.pitch, box.y);
    }
  }
  return out;
}

function fillOf(state: string, open: boolean, palette: Palette): string {
  switch (state) {
    case 'u': return palette.used;
    case 's': return palette.shared;
    case 'h': return palette.held;
    case 'm': return palette.mig;
    case 'x': return palette.sick;
    default: return open ? palette.free : palette.closed;
  }
}

function drawNames(pen: CanvasRenderingContext2D, map: GPUMap, layout: Layout, palette: Palette, fit: number): void {
  pen.textBaseline = 'alphabetic';
  pen.fillStyle = palette.text;
  pen.font = '600 13px system-ui, sans-serif';
  for (const title of layout.titles) pen.fillText(title.text, title.x, title.y);
  if (!layout.label) return;
  pen.font = '12px system-ui, sans-serif';
  for (const box of layout.boxes) {
    pen.fillStyle = fit && roomOn(map, box.node) < fit ? palette.edge : palette.quiet;
    pen.fillText(map.nodes[box.node], box.x, box.y + layout.size - 3, layout.label - 8);
  }
}

// cellAt finds the GPU at a point of the canvas.
export function cellAt(layout: Layout, map: GPUMap, x: number, y: number): Cell | null {
  for (const box of layout.boxes) {
    if (y < box.y || y >= box.y + layout.row || x < box.x) continue;
    const gpu = Math.floor((x - box.x - layout.label) / layout.pitch);
    if (gpu < 0 || gpu >= map.gpus[box.node].length) continue;
    const holder = holdersOf(map, box.node)[gpu];
    return {
      node: box.node, gpu, x: box.x + layout.label + gpu * layout.pitch, y: box.y,
      namespace: holder >= 0 ? map.namespaces[map.holderNamespace[holder]] : undefined, job: holder >= 0 ? map.holderJob[holder] : undefined,
    };
  }
  return null;
}

// applyRows puts the nodes that have changed into the map. Their lists begin anew in each message, so their places are found by text.
export function applyRows(map: GPUMap, rows: GPUMap): GPUMap {
  const out: GPUMap = { ...map, taken: rows.taken, fits: rows.fits };
  const place = (name: 'pools' | 'types' | 'racks' | 'statuses' | 'namespaces') => {
    const list = [...map[name]];
    out[name] = list;
    return (text: string) => { const at = list.indexOf(text); return at >= 0 ? at : list.push(text) - 1; };
  };
  const pool = place('pools'), type = place('types'), rack = place('racks'), status = place('statuses'), namespace = place('namespaces');
  for (const name of ['pool', 'type', 'rack', 'status', 'free', 'holderNamespace'] as const) out[name] = [...map[name]];
  out.gpus = [...map.gpus];
  out.held = [...map.held];
  out.holderJob = [...map.holderJob];
  const known = new Map(out.holderJob.map((job, i) => [`${out.holderNamespace[i]}/${job}`, i]));
  const holder = (at: number): number => {
    if (at < 0) return at;
    const group = namespace(rows.namespaces[rows.holderNamespace[at]]), key = `${group}/${rows.holderJob[at]}`;
    if (!known.has(key)) { known.set(key, out.holderJob.push(rows.holderJob[at]) - 1); out.holderNamespace.push(group); }
    return known.get(key)!;
  };
  const places = new Map(map.nodes.map((name, i) => [name, i]));
  const changed = new Set<number>();
  rows.nodes.forEach((name, i) => {
    const at = places.get(name);
    if (at === undefined) return;
    changed.add(at);
    out.pool[at] = pool(rows.pools[rows.pool[i]]);
    out.type[at] = type(rows.types[rows.type[i]]);
    out.rack[at] = rack(rows.racks[rows.rack[i]]);
    out.status[at] = status(rows.statuses[rows.status[i]]);
    out.free[at] = rows.free[i];
    out.gpus[at] = rows.gpus[i];
    out.held[at] = rows.held[i].map((value, n) => (n % 2 ? value : holder(value)));
  });
  const replace = <T extends { node: number }>(before: T[] = [], now: T[] = []): T[] => [
    ...before.filter((one) => !changed.has(one.node)), ...now.map((one) => ({ ...one, node: places.get(rows.nodes[one.node])! })),
  ];
  out.faults = replace(map.faults, rows.faults);
  out.numbers = replace(map.numbers, rows.numbers);
  out.counts = replace(map.counts, rows.counts);
  return out;
}
