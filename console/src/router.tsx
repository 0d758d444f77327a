// The address is the state of the page: what is shown, how it is filtered, which tab is open. So it can be sent to somebody, and the back button works.
import { computed, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

const base = '/console';

const address = signal(readAddress());

function readAddress() {
  return { path: location.pathname.slice(base.length).replace(/^\/+|\/+$/g, ''), query: new URLSearchParams(location.search) };
}

addEventListener('popstate', () => { address.value = readAddress(); });

// parts are the segments of the path: ["jobs", "team-a", "llama"].
export const parts = computed(() => address.value.path.split('/').filter(Boolean).map(decodeURIComponent));
export const query = computed(() => address.value.query);

export function param(name: string): string { return query.value.get(name) ?? ''; }

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

// setParams changes parameters in place: typing into a filter is no step to go back over.
export function setParams(changes: Record<string, string>): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value); else next.delete(name);
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
