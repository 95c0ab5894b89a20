/* The queue: who runs, who waits, in the order in which they come. */
import {fill, h, setAttr, setText} from './dom.js';
import * as f from './format.js';
import {isRunning} from './live.js';
import {bar, drawEta, jobHash, setBar, stateClass, userNode} from './parts.js';
import {VirtualTable} from './table.js';

const ROW = 31, GROUP = 27, ROW_NARROW = 66, NARROW = matchMedia('(max-width: 720px)');
const FILTER_STATES = ['Running', 'Starting', 'Pending', 'Stopping', 'Preempted'];

function drawAge(td, job) {
  const t = job.started && isRunning(job) ? job.started : job.submitted;
  setText(td, f.since(t));
  td.classList.toggle('old', Date.now() - f.when(t) > 2 * 86400e3);
  setAttr(td, 'title', `submitted ${f.full(job.submitted)}${job.started ? `, started ${f.full(job.started)}` : ''}`);
}

function cardsText(job) {
  if (!job.cards?.length) return '';
  return job.cards.map((c) => `${c.node} GPU ${c.index}${job.memoryMiB ? ` (${f.mib(c.mib)})` : ''}`).join(', ');
}

const columns = [
  {key: 'pos', title: '#', label: 'Position while it waits', class: 'num', draw: (td, j) => setText(td, j.position === null ? '' : String(j.position))},
  {key: 'job', title: 'Job', make: (td) => td.append(h('a', {href: '#'}), h('span', {class: 'kind'})), draw: (td, j) => {
    const [link, kind] = td.children;
    setText(link, j.name);
    setAttr(link, 'href', jobHash(j));
    setAttr(link, 'title', `${j.kind} ${j.namespace}/${j.name}`);
    setText(kind, j.kind === 'TrainingJob' ? '' : (j.kind || '').toLowerCase());
  }},
  {key: 'user', title: 'User', draw: (td, j) => { if (td.dataset.user !== (j.user ?? '')) { td.dataset.user = j.user ?? ''; fill(td, userNode(j.user)); } }},
  {key: 'state', title: 'State', make: (td) => td.append(h('span', {class: 'state'})), draw: (td, j) => {
    setText(td.firstChild, j.state);
    setAttr(td.firstChild, 'class', `state ${stateClass(j.state)}`);
  }},
  {key: 'age', title: 'Age', label: 'Since its start; since its submission while it waits', class: 'num', draw: drawAge},
  {key: 'gpus', title: 'GPUs', label: 'GPUs, with the share of their memory and of their compute that is used', make: (td) => td.append(h('span', {class: 'count'}), h('span', {class: 'bars'}, bar(null, '', 'mem'), bar(null, '', 'compute'))), draw: (td, j) => {
    const [count, bars] = td.children;
    setText(count, j.gpus === 0 ? 'CPU' : j.memoryMiB && j.gpus <= 1 ? f.mib(j.memoryMiB) : j.gpusMax > j.gpusMin ? `${f.gpus(j.gpus)} of ${j.gpusMax}` : f.gpus(j.gpus));
    bars.hidden = j.gpus === 0 || !isRunning(j);
    setBar(bars.children[0], j.utilizationMem, `memory ${f.percent(j.utilizationMem)}`);
    setBar(bars.children[1], j.utilizationCompute, `compute ${f.percent(j.utilizationCompute)}`);
    setAttr(td, 'title', cardsText(j) || null);
  }},
  {key: 'progress', title: 'Progress', make: (td) => td.append(bar(null, '', 'progress'), h('span', {class: 'count'})), draw: (td, j) => {
    const known = j.progress !== null && j.progress !== undefined;
    td.firstChild.hidden = !known;
    setBar(td.firstChild, j.progress, known ? `${f.percent(j.progress)} done` : 'progress not known');
    setText(td.lastChild, j.epochsTotal ? `${j.epochsDone ?? 0}/${j.epochsTotal}` : known ? f.percent(j.progress) : '');
  }},
  {key: 'eta', title: 'Start or end', label: 'When it starts, or ends, as estimated', draw: drawEta},
  {key: 'prio', title: 'Prio', label: 'Priority among the jobs of one user', class: 'num', draw: (td, j) => {
    setText(td, f.priority(j.priority));
    td.classList.toggle('up', j.priority > 0);
    td.classList.toggle('down', j.priority < 0);
    td.classList.toggle('muted', j.priority === 0);
  }},
  {key: 'ord', title: 'User’s GPU', label: 'Which GPU of its user this is: first GPUs come before second ones', class: 'num', draw: (td, j) => setText(td, f.ordinal(j.ordinal))},
  {key: 'reason', title: 'Reason', draw: (td, j) => { setText(td, j.reason || ''); setAttr(td, 'title', j.reason); }},
];

export const groupOf = (job) => `${isRunning(job) ? 'run' : 'wait'}-${Math.ceil(job.ordinal ?? 0)}`;

function groupTitle(job) {
  const n = Math.ceil(job.ordinal ?? 0);
  return n === 0 ? 'no GPU' : `user’s ${f.ordinal(n)} GPU`;
}

export function queueItems(jobs, narrow) {
  const items = [], seen = new Map();
  let group = null;
  for (const job of jobs) {
    const key = groupOf(job);
    if (!group || group.id !== key) {
      const again = (seen.get(key) || 0) + 1;
      seen.set(key, again);
      group = {key: `group:${key}:${again}`, id: key, height: GROUP, group: true, running: isRunning(job), title: groupTitle(job), n: Math.ceil(job.ordinal ?? 0), count: 0};
      items.push(group);
    }
    group.count++;
    items.push({key: job.id, height: narrow ? ROW_NARROW : ROW, data: job});
  }
  return items;
}

export function capacityLine() {
  const text = h('p', {class: 'capacity-text'}), gpuBar = bar(null, '', 'wide');
  const node = h('div', {class: 'capacity'}, gpuBar, text);
  return {node, draw(c) {
    if (!c) return;
    setBar(gpuBar, c.gpus ? c.gpusUsed / c.gpus : null, `${f.number(c.gpusUsed, 2)} of ${c.gpus} GPUs in use`);
    fill(text, h('strong', {}, `${f.number(c.gpusUsed, 2)} of ${c.gpus} GPUs`), ' in use', c.declared && h('span', {class: 'tag', title: 'The cards are declared, not found by the driver'}, 'declared'),
      h('span', {class: 'dot'}), `${f.plural(c.running, 'job')} running`, h('span', {class: 'dot'}), `${c.waiting} waiting`,
      c.memoryMiB > 0 && [h('span', {class: 'dot'}), `${f.mib(c.memoryUsedMiB)} of ${f.mib(c.memoryMiB)} GPU memory`],
      c.cpuMilli > 0 && [h('span', {class: 'dot'}), `${f.number(c.cpuMilliUsed / 1000)} of ${f.number(c.cpuMilli / 1000)} CPUs`]);
  }};
}

const RULES = 'A job on somebody’s first GPU comes before any job on a second one, a second before a third, and so on. Among one user’s jobs the higher priority comes first, then the earlier one. When somebody’s first job needs room, the last of the running list makes it: at the end of an epoch where it can.';

export function queueView(app, params) {
  const {live} = app;
  const filter = {text: params.get('q') || '', user: params.get('user') || '', states: new Set((params.get('state') || '').split(',').filter(Boolean)), mine: params.get('mine') === '1'};
  const capacity = capacityLine();
  const table = new VirtualTable(columns, {label: 'Queue', open: (job) => { location.hash = jobHash(job); },
    rowClass: (j) => `${stateClass(j.state)}${j.mine ? ' mine' : ''}`,
    group: (td, item) => { td.parentNode.className = `group g${item.n % 6} ${item.running ? 'run' : 'wait'}`; fill(td, h('span', {}, item.running ? 'Running' : 'Waiting'), h('span', {class: 'muted'}, `${item.title} · ${f.plural(item.count, 'job')}`)); }});
  const search = h('input', {type: 'search', id: 'q', value: filter.text, placeholder: 'Filter by name, user, reason', 'aria-label': 'Filter', 'aria-keyshortcuts': '/', oninput: () => { filter.text = search.value; changed(); }});
  const users = h('select', {'aria-label': 'User', onchange: () => { filter.user = users.value; changed(); }});
  const chips = FILTER_STATES.map((s) => h('button', {type: 'button', class: 'chip', 'aria-pressed': filter.states.has(s), onclick: (e) => {
    if (!filter.states.delete(s)) filter.states.add(s);
    e.target.setAttribute('aria-pressed', filter.states.has(s));
    changed();
  }}, s));
  const mine = app.session.user && h('button', {type: 'button', class: 'chip', 'aria-pressed': filter.mine, onclick: () => { filter.mine = !filter.mine; mine.setAttribute('aria-pressed', filter.mine); changed(); }}, 'Mine');
  const shown = h('span', {class: 'muted', role: 'status'});
  const none = h('p', {class: 'empty'}), policy = h('span');
  const node = h('section', {class: 'queue', 'aria-label': 'Queue'}, h('h1', {class: 'unseen'}, 'Queue'), capacity.node,
    h('div', {class: 'filters', role: 'search'}, search, users, chips, mine, shown), table.node, none,
    h('details', {class: 'rules'}, h('summary', {}, 'How the order comes about', policy), h('p', {}, RULES), h('p', {class: 'muted'}, 'Keys: / filters, ↑ ↓ or j k move, Enter opens a job, g then q, g, s, h changes the view, g then i opens the inbox.')));
  let userList = '', shownOnce = false;

  function changed() {
    const p = new URLSearchParams();
    if (filter.text) p.set('q', filter.text);
    if (filter.user) p.set('user', filter.user);
    if (filter.states.size) p.set('state', [...filter.states].join(','));
    if (filter.mine) p.set('mine', '1');
    history.replaceState(null, '', `#/queue${[...p].length ? `?${p}` : ''}`);
    table.node.scrollTop = 0;
    draw();
  }

  function drawUsers() {
    const names = [...new Set(live.list.map((j) => j.user ?? ''))].sort();
    if (filter.user && !names.includes(filter.user)) names.push(filter.user);
    const key = names.join('\n');
    if (key === userList) return;
    userList = key;
    fill(users, h('option', {value: ''}, 'All users'), names.map((n) => h('option', {value: n || '-', selected: filter.user === (n || '-')}, n || 'anonymous')));
  }

  function matches(j) {
    const t = filter.text.toLowerCase();
    return (!filter.user || (j.user ?? '-') === filter.user) && (!filter.states.size || filter.states.has(j.state)) && (!filter.mine || j.mine) &&
      (!t || `${j.name}\n${j.namespace}\n${j.user ?? 'anonymous'}\n${j.reason}`.toLowerCase().includes(t));
  }

  function draw() {
    if (!live.known) {
      node.classList.add('loading');
      setText(none, live.state === 'refused' ? '' : 'Asking for the queue …');
      return;
    }
    node.classList.remove('loading');
    capacity.draw(live.capacity);
    setText(policy, live.meta.policy ? ` (policy ${live.meta.policy}, preemption ${live.meta.preemption})` : '');
    drawUsers();
    const jobs = live.list.filter(matches);
    table.set(queueItems(jobs, NARROW.matches));
    if (!shownOnce) requestAnimationFrame(() => performance.mark('queue-shown'));
    shownOnce = true;
    table.node.hidden = !jobs.length;
    none.hidden = !!jobs.length;
    setText(none, live.list.length ? 'No job matches the filter.' : 'No job runs or waits. All cards are free.');
    setText(shown, jobs.length === live.list.length ? '' : `${jobs.length} of ${live.list.length}`);
  }

  /* Ages and estimates move on without news. */
  const ticker = setInterval(() => { if (!document.hidden) { table.tick = Date.now(); table.draw(); } }, 10000);
  const onResize = () => { table.tick = Date.now(); draw(); };
  live.addEventListener('change', draw);
  live.addEventListener('trouble', draw);
  NARROW.addEventListener('change', onResize);
  draw();
  return {node, title: 'Queue', search, table, first: () => table.active && table.focus(table.active), close() {
    clearInterval(ticker);
    live.removeEventListener('change', draw);
    live.removeEventListener('trouble', draw);
    NARROW.removeEventListener('change', onResize);
    table.close();
  }};
}
