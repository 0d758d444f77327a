// The frame of all pages: navigation, what can be seen of the server, and who is signed in.
import { useSignal } from '@preact/signals';
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { findUser, reached, signOut, user } from './api';
import { helpShown } from './keys';
import { formatSpan, language, say } from './language';
import { Skeleton } from './parts';
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

// askInterval is how often the page asks who is signed in, which keeps the session of a page that is looked at: a page that only follows streams sends no other request.
const askInterval = 10 * 60 * 1000;

function App() {
  useEffect(() => {
    void findUser();
    const timer = setInterval(() => { if (!document.hidden && user.peek()) void findUser(); }, askInterval);
    return () => clearInterval(timer);
  }, []);
  const [page = 'overview', ...rest] = parts.value;
  useEffect(() => { document.title = [rest.at(-1), say((pages as string[]).includes(page) ? page as Word : 'overview'), say('console')].filter(Boolean).join(' · '); }, [parts.value, language.value]);
  if (user.value === undefined) return <div class="starting">{reached.value.ok ? <Skeleton rows={6} /> : <p role="alert">{say('away')}</p>}</div>;
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
        <Page page={page} rest={rest} />
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

// Freshness says when the server is away, and how old what is shown has become.
function Freshness() {
  const now = useSignal(Date.now());
  useEffect(() => { const timer = setInterval(() => { now.value = Date.now(); }, 1000); return () => clearInterval(timer); }, []);
  if (reached.value.ok) return null;
  return <p class="stale" role="alert">{say('stale', formatSpan(now.value - reached.value.at))}</p>;
}

function Account() {
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
        <button type="button" onClick={() => void signOut(false)}>{say('signOut')}</button>
        <button type="button" onClick={() => void signOut(true)}>{say('signOutEverywhere')}</button>
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
  return (
    <div class="help" role="dialog" aria-label={say('keys')}>
      <h2>{say('keys')}</h2><p>{say('keysText')}</p>
      <button type="button" onClick={() => { helpShown.value = false; }}>{say('close')}</button>
    </div>
  );
}

const theme = localStorage.getItem('theme');
if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
render(<App />, document.getElementById('app')!);
