/* What is over: jobs, GPU-hours, waiting times. */
import {get, query} from './api.js';
import {ChartBox, css, userColor, valueAxis} from './charts.js';
import {fill, h, setAttr, setText} from './dom.js';
import * as f from './format.js';
import {empty, jobHash, stateClass, userNode} from './parts.js';
import {VirtualTable} from './table.js';

const PAGE = 200, ROW = 31;
const columns = [
  {key: 'job', title: 'Job', make: (td) => td.append(h('a', {href: '#'})), draw: (td, j) => { setText(td.firstChild, j.name); setAttr(td.firstChild, 'href', jobHash(j)); }},
  {key: 'user', title: 'User', draw: (td, j) => fill(td, userNode(j.user))},
  {key: 'state', title: 'State', make: (td) => td.append(h('span')), draw: (td, j) => { setText(td.firstChild, j.state); setAttr(td.firstChild, 'class', `state ${stateClass(j.state)}`); }},
  {key: 'end', title: 'Finished', draw: (td, j) => { setText(td, f.clock(j.finished)); setAttr(td, 'title', f.full(j.finished)); }},
  {key: 'gpus', title: 'GPUs', class: 'num', draw: (td, j) => setText(td, f.gpus(j.gpus))},
  {key: 'waited', title: 'Waited', class: 'num', draw: (td, j) => setText(td, f.span(j.waitedSeconds))},
  {key: 'ran', title: 'Ran', class: 'num', draw: (td, j) => setText(td, f.span(j.ranSeconds))},
  {key: 'hours', title: 'GPU-hours', class: 'num', draw: (td, j) => setText(td, f.number(j.gpuHours, 2))},
  {key: 'restarts', title: 'Restarts', class: 'num', draw: (td, j) => setText(td, j.restarts ? String(j.restarts) : '')},
  {key: 'reason', title: 'Reason', draw: (td, j) => { setText(td, j.reason || ''); setAttr(td, 'title', j.reason); }},
];

export function historyView(app, params) {
  let closed = false, jobs = [], next = null, usage = null, loading = false, asked = 0;
  const filter = {user: params.get('user') || '', state: params.get('state') || '', days: +(params.get('days') || 28)};
  const table = new VirtualTable(columns, {label: 'Finished jobs', open: (j) => { location.hash = jobHash(j); }});
  const user = h('input', {type: 'search', value: filter.user, placeholder: 'User', 'aria-label': 'User', onchange: () => { filter.user = user.value.trim(); changed(); }});
  const state = h('select', {'aria-label': 'State', onchange: () => { filter.state = state.value; changed(); }}, ['', 'Succeeded', 'Failed', 'Cancelled'].map((s) => h('option', {value: s, selected: s === filter.state}, s || 'All states')));
  const days = h('select', {'aria-label': 'Time', onchange: () => { filter.days = +days.value; changed(); }}, [[1, 'Last day'], [7, 'Last week'], [28, 'Last 4 weeks'], [91, 'Last 3 months'], [3650, 'All']].map(([n, t]) => h('option', {value: n, selected: n === filter.days}, t)));
  const csv = h('a', {class: 'button', href: 'v1/history?format=csv', download: 'berth-history.csv'}, 'Jobs as CSV');
  const more = h('button', {type: 'button', hidden: true, onclick: () => load(true)}, 'More'), none = empty('No finished jobs in this time.');
  const rows = h('tbody'), chartBox = h('div');
  let chart = null;
  const node = h('section', {class: 'history'}, h('h1', {class: 'unseen'}, 'History'), h('div', {class: 'filters', role: 'search'}, user, state, days, csv),
    h('div', {class: 'two'}, h('section', {class: 'panel'}, h('h2', {}, 'GPU-hours'), chartBox), h('section', {class: 'panel'}, h('div', {class: 'panelhead'}, h('h2', {}, 'Use and waiting'), h('button', {type: 'button', onclick: saveUsage}, 'As CSV')), h('div', {class: 'scrollx'}, h('table', {class: 'plain'}, h('thead', {}, h('tr', {}, ['From', 'User', 'GPU-hours', 'Jobs', 'Wait, median', 'Wait, 90 %'].map((t, i) => h('th', {scope: 'col', class: i > 1 ? 'num' : ''}, t)))), rows)))),
    h('h2', {}, 'Finished jobs'), table.node, none, more);
  const from = () => (filter.days > 3000 ? '' : new Date(Date.now() - filter.days * 86400e3).toISOString());

  function changed() {
    const p = {user: filter.user, state: filter.state, days: filter.days === 28 ? '' : filter.days};
    history.replaceState(null, '', `#/history${query(p)}`);
    load(false);
    loadUsage();
  }

  function saveUsage() {
    const cell = (v) => { const t = v === null || v === undefined ? '' : String(v); return /[",\n]|^[=+@-]/.test(t) ? `"${t.replace(/^([=+@-])/, "'$1").replace(/"/g, '""')}"` : t; };
    const keys = ['start', 'user', 'gpuHours', 'jobs', 'waitMedian', 'waitP90'];
    const text = `${keys.join(',')}\r\n${usage.map((r) => keys.map((k) => cell(r[k])).join(',')).join('\r\n')}\r\n`;
    const a = document.createElement('a');
    a.href = URL.createObjectURL(new Blob([text], {type: 'text/csv'}));
    a.download = 'berth-usage.csv';
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  }

  /* A changed filter is asked for at once; an answer for an older one is not shown. */
  async function load(further) {
    if (further && loading) return;
    const mine = ++asked;
    loading = true;
    const where = {user: filter.user, state: filter.state, from: from()};
    setAttr(csv, 'href', `v1/history${query({...where, format: 'csv'})}`);
    try {
      const doc = await get(`v1/history${query({...where, limit: PAGE, after: further ? next : ''})}`);
      if (!closed && mine === asked) {
        jobs = further ? jobs.concat(doc.jobs) : doc.jobs;
        next = doc.next;
        table.set(jobs.map((j) => ({key: j.id, height: ROW, data: j})));
        table.node.hidden = !jobs.length;
        none.hidden = jobs.length > 0;
        more.hidden = !next;
      }
    } catch (e) { if (!closed && mine === asked) setText(none, e.message); }
    if (mine === asked) loading = false;
  }

  function config() {
    const weeks = [...new Set(usage.map((r) => r.start))].sort(), sums = new Map();
    for (const r of usage) sums.set(r.user, (sums.get(r.user) || 0) + r.gpuHours);
    const people = [...sums].sort((a, b) => b[1] - a[1]).map(([u]) => u);
    return {type: 'bar', data: {labels: weeks.map(f.day), datasets: people.map((u) => ({label: u || 'anonymous', backgroundColor: userColor(u), data: weeks.map((w) => usage.filter((r) => r.start === w && r.user === u).reduce((s, r) => s + r.gpuHours, 0)), maxBarThickness: 60}))},
      options: {plugins: {legend: {display: true, position: 'bottom'}, tooltip: {callbacks: {label: (it) => `${it.dataset.label}: ${f.number(it.parsed.y, 1)} GPU-hours`}}}, scales: {x: {stacked: true, ...valueAxis(), grid: {display: false}}, y: {stacked: true, beginAtZero: true, ...valueAxis()}}}};
  }

  async function loadUsage() {
    const days = filter.days;
    let rowsNow;
    try {
      rowsNow = (await get(`v1/usage${query({from: from(), by: days <= 7 ? 'day' : 'week'})}`)).rows;
    } catch (e) { if (!closed && days === filter.days) fill(chartBox, empty(e.message)); return; }
    if (closed || days !== filter.days) return;
    usage = rowsNow;
    fill(rows, [...usage].sort((a, b) => (a.start < b.start ? 1 : a.start > b.start ? -1 : b.gpuHours - a.gpuHours)).slice(0, 200).map((r) => h('tr', {}, h('td', {}, f.day(r.start)), h('td', {}, userNode(r.user)), h('td', {class: 'num'}, f.number(r.gpuHours, 2)), h('td', {class: 'num'}, r.jobs), h('td', {class: 'num'}, f.span(r.waitMedian)), h('td', {class: 'num'}, f.span(r.waitP90)))));
    if (!usage.length) { chart?.close(); chart = null; fill(chartBox, empty('No GPU was used in this time.')); return; }
    const words = `GPU-hours of ${f.plural(new Set(usage.map((r) => r.user)).size, 'user')}, as the table beside lists`;
    if (!chart) { chart = new ChartBox(config, words, 'medium'); fill(chartBox, chart.node); }
    chart.update(words);
  }

  const onGone = (e) => { if (e.detail.gone.length) { load(false); loadUsage(); } };
  app.live.addEventListener('change', onGone);
  load(false);
  loadUsage();
  return {node, title: 'History', table, search: user, first: () => table.active && table.focus(table.active), close() { closed = true; app.live.removeEventListener('change', onGone); table.close(); chart?.close(); }};
}
