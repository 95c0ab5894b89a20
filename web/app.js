/* The frame around the views: which one is shown, who is signed in, whether we are connected. */
import * as api from './api.js';
import {fill, h, notice, say, setText} from './dom.js';
import {clock} from './format.js';
import {Inbox} from './inbox.js';
import {Live, whileSeen} from './live.js';
import {userNode} from './parts.js';
import {queueView} from './queue.js';

const VIEWS = [
  {id: 'queue', title: 'Queue', key: 'q', load: async () => queueView},
  {id: 'gpus', title: 'GPUs', key: 'g', load: async () => (await import('./gpus.js')).gpusView},
  {id: 'submit', title: 'Submit', key: 's', known: true, load: async () => (await import('./submit.js')).submitView},
  {id: 'history', title: 'History', key: 'h', load: async () => (await import('./history.js')).historyView},
  {id: 'job', hidden: true, load: async () => (await import('./job.js')).jobView},
];

const app = {live: new Live(), session: {user: null, admin: false}, view: null, shown: 0};
const main = document.getElementById('main');

/* #/job/ID?tab=log → {id, rest: [ID], params} */
function parseHash() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [id, ...rest] = path.split('/');
  return {id, rest: rest.map(decodeURIComponent), params: new URLSearchParams(query || '')};
}

async function show() {
  const where = parseHash();
  const view = VIEWS.find((v) => v.id === where.id) || VIEWS[0];
  const turn = ++app.shown;
  for (const a of document.querySelectorAll('#nav a')) {
    if (a.dataset.view === view.id) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  let made;
  try {
    const make = await view.load();
    if (turn !== app.shown) return;
    app.view?.close?.();
    app.view = null;
    made = make(app, where.params, ...where.rest);
  } catch (e) {
    if (turn === app.shown) notice(`This view could not be shown: ${e.message}`, 'error', h('button', {type: 'button', onclick: () => location.reload()}, 'Reload'));
    return;
  }
  app.view = made;
  document.title = `${made.title} · Berth`;
  main.className = `v-${view.id}`;
  main.replaceChildren(made.node);
  if (app.moved) main.focus({preventScroll: true});
  app.moved = true;
}
app.setTitle = (t) => { document.title = `${t} · Berth`; };

function drawNav() {
  fill(document.getElementById('nav'), VIEWS.filter((v) => !v.hidden && (!v.known || app.session.user)).map((v) =>
    h('a', {href: `#/${v.id}`, 'data-view': v.id, 'aria-keyshortcuts': `g ${v.key}`}, v.title)));
}

function drawWho() {
  const who = document.getElementById('who'), s = app.session;
  if (!s.user) {
    fill(who, h('button', {type: 'button', class: 'quiet', onclick: explainSignIn}, 'Sign in'));
    return;
  }
  fill(who, userNode(s.user), s.admin && h('span', {class: 'tag'}, 'admin'),
    s.via === 'session' && h('button', {type: 'button', class: 'quiet', onclick: async () => { await api.signOut(); location.hash = '#/queue'; location.reload(); }}, 'Sign out'));
}

function explainSignIn() {
  notice('To sign in, run “berth token --web” on the machine and open the link it prints, or open the HTTPS address with your client certificate.', 'info');
}

const LINK_TEXT = {live: 'live', polling: 'polling', connecting: 'reconnecting …', refused: 'sign in to see', off: ''};
function drawLink() {
  const link = document.getElementById('link');
  link.className = `link ${app.live.state}`;
  setText(link, app.live.state === 'connecting' && app.live.asOf ? `reconnecting, as of ${clock(app.live.asOf)}` : LINK_TEXT[app.live.state] ?? '');
  if (app.live.state === 'refused') notice('Berth shows the queue only to people it knows here.', 'info', h('button', {type: 'button', onclick: explainSignIn}, 'How to sign in'));
}

/* News of one's own jobs, for those who listen. */
function tell(e) {
  for (const job of e.detail.upserted) {
    const before = e.detail.before.get(job.id);
    if (job.mine && before && before.state !== job.state) say(`${job.name}: ${job.state}`);
  }
  for (const job of e.detail.gone) if (job.mine) say(`${job.name} has left the queue`);
}

/* After a break Berth may be another version, or not know us any more. */
async function onState() {
  drawLink();
  if (app.live.state !== 'live' && app.live.state !== 'polling') return;
  try {
    const s = await api.session();
    if (app.session.assets && s.assets !== app.session.assets)
      notice('Berth has a newer page.', 'info', h('button', {type: 'button', onclick: () => location.reload()}, 'Reload'));
    if (s.user !== app.session.user) takeSession(s);
  } catch { /* the next state change asks again */ }
}

function takeSession(s) {
  app.session = s;
  drawNav();
  drawWho();
  app.inbox.draw();
}

function theme(next) {
  const root = document.documentElement;
  const saved = next ?? localStorage.getItem('theme') ?? '';
  if (saved) root.dataset.theme = saved; else delete root.dataset.theme;
  if (next !== undefined) localStorage.setItem('theme', next);
  document.dispatchEvent(new Event('theme'));
}

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input,textarea,select,dialog')) {
    if (e.key === 'Escape' && e.target.type === 'search') e.target.blur();
    return;
  }
  if (app.pressedG) {
    app.pressedG = false;
    const view = VIEWS.find((v) => v.key === e.key);
    if (view) { e.preventDefault(); location.hash = `#/${view.id}`; }
    else if (e.key === 'i') { e.preventDefault(); app.inbox.open(); }
  } else if (e.key === 'g') {
    app.pressedG = true;
    setTimeout(() => { app.pressedG = false; }, 1200);
  } else if (e.key === '/' && app.view?.search) {
    e.preventDefault();
    app.view.search.focus();
  } else if ((e.key === 'ArrowDown' || e.key === 'j') && (e.target === document.body || e.target === main)) {
    if (app.view?.first) { e.preventDefault(); app.view.first(); }
  }
}

async function takeSignIn() {
  const code = /^#signin=([\w-]+)$/.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(null, '', '#/queue');
  try {
    await api.session().catch(() => null);
    takeSession(await api.signIn(code));
    app.live.restart();
    notice('');
  } catch (e) {
    notice(`The sign-in link was not taken: ${e.message}.`);
  }
}

async function start() {
  theme();
  app.inbox = new Inbox(app);
  document.getElementById('theme').addEventListener('click', () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    theme(dark ? 'light' : 'dark');
  });
  addEventListener('keydown', onKey);
  document.querySelector('.skip').addEventListener('click', (e) => { e.preventDefault(); main.focus(); });
  app.live.addEventListener('state', onState);
  app.live.addEventListener('change', tell);
  drawLink();
  whileSeen(() => app.live.stop(), () => app.live.start());
  const signingIn = location.hash.startsWith('#signin=');
  if (!signingIn) app.live.start();
  try {
    takeSession(await api.session());
  } catch (e) {
    drawNav();
    drawWho();
  }
  if (signingIn) { await takeSignIn(); app.live.start(); }
  addEventListener('hashchange', () => { if (location.hash.startsWith('#signin=')) takeSignIn().then(show); else show(); });
  await show();
}

window.berth = app; /* for tests and the curious */
start();
