// The frame of all pages: navigation, what can be seen of the server, and the account that is signed in.
import { useSignal } from '@preact/signals';
import { Component, render, type ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { asFailure, findUser, reached, signOut, unidentified, user, type Failure } from './api';
import { helpShown } from './keys';
import { formatSpan, language, say } from './language';
import { Problem, Skeleton } from './parts';
import { JobPage } from './pages/job';
import { Jobs, shortUser } from './pages/jobs';
import { MapPage } from './pages/map';
import { NodePage, Nodes } from './pages/nodes';
import { Overview } from './pages/overview';
import { Pools } from './pages/pools';
import { Queue } from './pages/queue';
import { Submit } from './pages/submit';
import { Link, linkTo, parts } from './router';
import { SignIn } from './signin';
import type { Word } from './words';

const pages: Word[] = ['overview', 'jobs', 'map', 'queue', 'nodes', 'pools', 'submit'];

// askInterval is how often the page asks who is signed in, which keeps the session of a page that is looked at: a page that only follows streams sends no
// other request. It asks as well when it is looked at again: another tab may have signed in as somebody else.
const askInterval = 10 * 60 * 1000;

function App() {
  useEffect(() => {
    void findUser();
    const ask = () => { if (!document.hidden && user.peek()) void findUser(); };
    const timer = setInterval(ask, askInterval);
    document.addEventListener('visibilitychange', ask);
    return () => { clearInterval(timer); document.removeEventListener('visibilitychange', ask); };
  }, []);
  const [page = 'overview', ...rest] = parts.value;
  useEffect(() => {
    const name = say((pages as string[]).includes(page) ? page as Word : 'overview');
    document.title = [rest.at(-1), name, say('console')].filter(Boolean).join(' · ');
  }, [parts.value, language.value]);
  if (user.value === undefined) return <div class="starting">{unidentified.value ? <Unidentified problem={unidentified.value} /> : <Skeleton rows={6} />}</div>;
  if (user.value === null) return <SignIn />;
  return (
    <div class="frame">
      <a class="skip" href="#main">{say('skip')}</a>
      <nav aria-label={say('navigation')}>
        <Link to={linkTo([])} class="brand"><img src="/console/icon.svg" alt="" width="26" height="26" /><span>{say('console')}</span></Link>
        <ul>{pages.map((name) => <li key={name}><Link to={linkTo(name === 'overview' ? [] : [name])} current={page === name}>{say(name)}</Link></li>)}</ul>
        <Account />
      </nav>
      <main id="main" tabIndex={-1}>
        <Freshness />
        <Boundary key={parts.value.join('/')}><Page page={page} rest={rest} /></Boundary>
      </main>
      {helpShown.value && <Help />}
    </div>
  );
}

function Page({ page, rest }: { page: string; rest: string[] }) {
  switch (page) {
    case 'jobs': return rest.length === 2 ? <JobPage key={rest.join('/')} namespace={rest[0]} name={rest[1]} /> : <Jobs />;
    case 'map': return <MapPage />;
    case 'queue': return <Queue />;
    case 'nodes': return rest.length === 1 ? <NodePage key={rest[0]} name={rest[0]} /> : <Nodes />;
    case 'pools': return <Pools />;
    case 'submit': return <Submit />;
    default: return <Overview />;
  }
}

// Unidentified says why it is not known who is signed in. The page asks again by itself; who may not be acted for any more can only leave.
function Unidentified({ problem }: { problem: Failure }) {
  return <><Problem problem={problem} />{problem.status === 403 && <button type="button" onClick={() => void signOut(false).catch(() => undefined)}>{say('signOut')}</button>}</>;
}

// Boundary keeps a page that breaks from taking all others with it.
class Boundary extends Component<{ children: ComponentChildren }, { broken: string }> {
  state = { broken: '' };
  static getDerivedStateFromError(problem: unknown) { return { broken: String(problem) }; }
  render() {
    if (!this.state.broken) return this.props.children;
    return (
      <div class="problem" role="alert">
        <p class="empty-title">{say('broken')}</p><p class="problem-words">{this.state.broken}</p>
        <button type="button" onClick={() => location.reload()}>{say('reload')}</button>
      </div>
    );
  }
}

// Freshness says when the server is away, once, and beside that how old what is shown has become.
function Freshness() {
  const now = useSignal(Date.now());
  useEffect(() => { const timer = setInterval(() => { now.value = Date.now(); }, 1000); return () => clearInterval(timer); }, []);
  if (reached.value.ok) return null;
  return <div class="stale"><span role="alert">{say('away')}</span> <span aria-hidden="true">{say('stale', formatSpan(now.value - reached.value.at))}</span></div>;
}

function Account() {
  const problem = useSignal<Failure | null>(null);
  const leave = async (everywhere: boolean) => {
    problem.value = null;
    try { await signOut(everywhere); } catch (failure) { problem.value = asFailure(failure); }
  };
  const turn = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    setTheme(dark ? 'light' : 'dark');
  };
  return (
    <details class="account">
      <summary><span class="hidden">{say('account')}: </span><span class="cut">{shortUser(user.value ?? '')}</span></summary>
      <div class="menu">
        <p class="lead">{say('signedInAs', user.value ?? '')}</p>
        <button type="button" onClick={() => { language.value = language.value === 'zh' ? 'en' : 'zh'; }}>{say('otherLanguage')}</button>
        <button type="button" onClick={turn}>{say('theme')}</button>
        <button type="button" onClick={() => { helpShown.value = true; }}>{say('keys')}</button>
        <button type="button" onClick={() => void leave(false)}>{say('signOut')}</button>
        <button type="button" onClick={() => void leave(true)}>{say('signOutEverywhere')}</button>
        {problem.value && <Problem problem={problem.value} />}
      </div>
    </details>
  );
}

function setTheme(theme: string) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem('theme', theme);
  document.dispatchEvent(new Event('themechange'));
}

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { dialog.current?.showModal(); }, []);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => { helpShown.value = false; }}>
      <h2 id="help-title">{say('keys')}</h2><p>{say('keysText')}</p>
      <div class="dialog-tools"><button type="button" autofocus onClick={() => dialog.current?.close()}>{say('close')}</button></div>
    </dialog>
  );
}

const theme = localStorage.getItem('theme');
if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
render(<App />, document.getElementById('app')!);
