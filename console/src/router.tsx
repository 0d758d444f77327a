// The address is the state of the page: what is shown, how it is filtered, which tab is open. So it can be sent to a colleague, and the back button works.
import { computed, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

const base = '/console';

const address = signal(readAddress());

function readAddress() {
  return { path: location.pathname.slice(base.length).replace(/^\/+|\/+$/g, ''), query: new URLSearchParams(location.search) };
}

addEventListener('popstate', () => { address.value = readAddress(); });

// decodeSegment leaves what is not encoded as it should be as it is, which then names nothing.
function decodeSegment(text: string): string {
  try { return decodeURIComponent(text); } catch { return text; }
}

// parts are the segments of the path: ["jobs", "team-a", "llama"].
export const parts = computed(() => address.value.path.split('/').filter(Boolean).map(decodeSegment));
export const query = computed(() => address.value.query);

export function param(name: string): string { return query.value.get(name) ?? ''; }

// choiceParam returns a parameter that is one of some values, the first of them otherwise.
export function choiceParam<T extends string>(name: string, values: readonly T[]): T {
  return values.find((value) => value === param(name)) ?? values[0];
}

export function linkTo(segments: string[], parameters: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `${base}/${segments.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

export function navigate(target: string): void {
  history.pushState(null, '', target);
  address.value = readAddress();
  scrollTo(0, 0);
  document.getElementById('main')?.focus({ preventScroll: true });
}

// setParams changes parameters in place: typing into a filter is no step to go back over. null takes a parameter away, and so does an empty text where that is
// what it is without it.
export function setParams(changes: Record<string, string | null>, keepEmpty = false): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value || (keepEmpty && value === '')) next.set(name, value); else next.delete(name);
  }
  const search = next.toString();
  history.replaceState(null, '', location.pathname + (search ? `?${search}` : ''));
  address.value = readAddress();
}

interface LinkProps { to: string; class?: string; children: ComponentChildren; current?: boolean; title?: string }

export function Link({ to, children, current, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={to} onClick={follow} aria-current={current ? 'page' : undefined} {...rest}>{children}</a>;
}

export function JobLink({ namespace, name, tab }: { namespace: string; name: string; tab?: string }) {
  return <Link to={linkTo(['jobs', namespace, name], tab ? { tab } : {})}>{name}</Link>;
}
