/* Cards: who is on which, how busy they are, and who held them. */
import {get, query} from './api.js';
import {ChartBox, css, lineConfig, SERIES, timeAxis, userColor} from './charts.js';
import {fill, h, setText} from './dom.js';
import * as f from './format.js';
import {bar, empty, jobHash, meter, userNode} from './parts.js';

const HOURS = [1, 6, 24, 168];
const NODES_MS = 2000, TIMELINE_MS = 30000;

function share(job, card) {
  const part = job.whole ? 1 : Math.max(0.02, (job.mib || 0) / card.memoryMiB);
  return h('a', {class: `share hue${f.hue(job.user)}${job.user ? '' : ' nobody'}`, href: jobHash(job), css: {flex: `${part} 1 0`}, title: `${job.name}, ${job.user || 'anonymous'}: ${job.whole ? 'the whole card' : f.mib(job.mib)}`},
    h('b', {}, job.name), h('span', {}, `${job.user || 'anonymous'} · ${job.whole ? 'whole card' : f.mib(job.mib)}`));
}

function cardNode(card) {
  const reserved = card.jobs.reduce((sum, j) => sum + (j.whole ? card.memoryMiB : j.mib || 0), 0), left = Math.max(0, card.memoryMiB - reserved);
  const used = card.measuredMiB ?? null;
  return h('li', {class: `card${card.failed ? ' failed' : ''}`},
    h('div', {class: 'cardhead'}, h('strong', {}, `GPU ${card.index}`), card.model !== 'declared' && h('span', {class: 'muted model', title: card.uuid}, card.model), card.declared && h('span', {class: 'tag', title: 'Declared by the operator, not found by the driver'}, 'declared'), card.failed && h('span', {class: 'tag bad'}, 'failed'), h('span', {class: 'muted end'}, f.mib(card.memoryMiB))),
    h('div', {class: 'stack'}, card.jobs.map((j) => share(j, card)), left > 0 && h('span', {class: 'share free', css: {flex: `${left / card.memoryMiB} 1 0`}}, card.jobs.length ? `${f.mib(left)} free` : 'free')),
    h('div', {class: 'cardfoot'}, h('span', {class: 'muted'}, 'memory'), bar(used === null ? null : used / card.memoryMiB, used === null ? 'memory in use is not measured' : `${f.mib(used)} in use`, 'mem'), h('span', {}, used === null ? 'not measured' : f.mib(used)),
      h('span', {class: 'muted'}, 'compute'), bar(card.utilization, card.utilization === null ? 'compute is not measured' : `${f.percent(card.utilization)} busy`, 'compute'), h('span', {}, card.utilization === null ? 'not measured' : f.percent(card.utilization))));
}

function nodeNode(n) {
  return h('section', {class: 'node', 'aria-label': `Node ${n.name}`}, h('header', {}, h('h2', {}, n.name), !n.ready && h('span', {class: 'tag bad'}, 'not ready'), !n.schedulable && h('span', {class: 'tag'}, 'takes no new jobs'),
    meter('CPU', n.cpuMilliUsed, n.cpuMilli, `${f.number(n.cpuMilliUsed / 1000)} of ${f.number(n.cpuMilli / 1000)}`), meter('Memory', n.memoryMiBUsed, n.memoryMiB, `${f.mib(n.memoryMiBUsed)} of ${f.mib(n.memoryMiB)}`)),
    n.cards.length ? h('ul', {class: 'cards'}, n.cards.map(cardNode)) : empty('This node has no GPUs. “berth up --gpus 4x24576” declares some.'));
}

/* Spans that share a card get lanes of their own below each other. */
export function lanes(spans, now) {
  const cards = new Map();
  for (const s of spans) {
    const key = `${s.node} ${s.index}`;
    if (!cards.has(key)) cards.set(key, {node: s.node, index: s.index, lanes: []});
    const lanesOf = cards.get(key).lanes, start = f.when(s.start), end = s.end ? f.when(s.end) : now;
    let lane = lanesOf.find((l) => l.end <= start);
    if (!lane) lanesOf.push(lane = {end: 0, spans: []});
    lane.end = end;
    lane.spans.push({...s, x: [start, end]});
  }
  return [...cards.values()].sort((a, b) => (a.node < b.node ? -1 : a.node > b.node ? 1 : a.index - b.index));
}

function timelineConfig(doc, now) {
  const cards = lanes([...doc.spans].sort((a, b) => f.when(a.start) - f.when(b.start)), now), labels = [], byUser = new Map(), several = new Set(cards.map((c) => c.node)).size > 1;
  for (const c of cards)
    c.lanes.forEach((lane, i) => {
      const label = `${several ? `${c.node} ` : ''}GPU ${c.index}${i ? ` ${'·'.repeat(i)}` : ''}`;
      labels.push(label);
      for (const s of lane.spans) {
        const user = s.user || 'anonymous';
        if (!byUser.has(user)) byUser.set(user, []);
        byUser.get(user).push({x: s.x, y: label, span: s});
      }
    });
  return {rows: labels.length, config: {
    type: 'bar',
    data: {labels, datasets: [...byUser].sort().map(([user, data]) => ({label: user, data, backgroundColor: user === 'anonymous' ? css('--line-strong') : userColor(user), borderColor: css('--bg'), borderWidth: 1, borderSkipped: false, grouped: false, barThickness: 15}))},
    options: {indexAxis: 'y', plugins: {legend: {display: true, position: 'bottom'}, tooltip: {callbacks: {
      title: (items) => items[0].raw.span.name, label: (it) => { const s = it.raw.span; return `${s.user || 'anonymous'}, ${s.mib ? f.mib(s.mib) : 'whole card'}: ${f.clock(s.start)} to ${s.end ? f.clock(s.end) : 'now'} (${f.span((it.raw.x[1] - it.raw.x[0]) / 1000)})`; }}}},
    onClick: (_, found, chart) => { if (found[0]) location.hash = jobHash(chart.data.datasets[found[0].datasetIndex].data[found[0].index].span); },
    scales: {x: timeAxis({min: f.when(doc.from), max: f.when(doc.to) || now}), y: {type: 'category', labels, ticks: {color: css('--text')}, grid: {display: false}}}},
  }};
}

export function gpusView(app) {
  let closed = false, hours = +(localStorage.getItem('gpu-hours') || 6), doc = null, timer = 0, nodesTimer = 0, asked = 0;
  const map = h('div', {class: 'map'}), total = h('p', {class: 'muted'}), spanRows = h('tbody');
  const range = h('div', {class: 'row', role: 'group', 'aria-label': 'Time shown'}, HOURS.map((n) => h('button', {type: 'button', class: 'chip', 'data-h': n, onclick: () => { hours = n; localStorage.setItem('gpu-hours', n); drawRange(); loadTimeline(); }}, n === 168 ? '7 days' : f.plural(n, 'hour'))));
  const timelineBox = h('div'), useBox = h('div'), none = empty('No card was held in this time.');
  let timeline = null, use = null;
  const node = h('section', {class: 'gpus'}, h('h1', {class: 'unseen'}, 'GPUs'), total, map,
    h('div', {class: 'panelhead'}, h('h2', {}, 'Who held which card'), range), timelineBox, none, h('details', {}, h('summary', {}, 'As a table'), h('table', {class: 'plain'}, h('thead', {}, h('tr', {}, ['Card', 'Job', 'User', 'Memory', 'From', 'To', 'For'].map((t) => h('th', {scope: 'col'}, t)))), spanRows)),
    h('h2', {}, 'Utilisation'), useBox);

  const drawRange = () => { for (const b of range.children) b.setAttribute('aria-pressed', +b.dataset.h === hours); };

  async function loadNodes() {
    clearTimeout(nodesTimer);
    const turn = ++asked;
    try {
      const got = await get('v1/nodes');
      if (closed || turn !== asked) return;
      const focus = document.activeElement?.closest('.share')?.getAttribute('href');
      const cards = got.nodes.flatMap((n) => n.cards), busy = cards.filter((c) => c.jobs.length).length;
      setText(total, cards.length ? `${busy} of ${f.plural(cards.length, 'card')} in use on ${f.plural(got.nodes.length, 'node')}` : f.plural(got.nodes.length, 'node'));
      fill(map, got.nodes.map(nodeNode));
      if (focus) [...map.querySelectorAll('.share')].find((a) => a.getAttribute('href') === focus)?.focus();
    } catch { /* the top line says that we are not connected */ }
    if (!closed) nodesTimer = setTimeout(loadNodes, NODES_MS * 2);
  }

  async function loadTimeline() {
    clearTimeout(timer);
    try {
      const to = Date.now();
      doc = await get(`v1/nodes/timeline${query({from: new Date(to - hours * 3600e3).toISOString(), to: new Date(to).toISOString()})}`);
      if (!closed) drawTimeline();
    } catch { /* as above */ }
    if (!closed) timer = setTimeout(loadTimeline, TIMELINE_MS);
  }

  function drawTimeline() {
    const now = Date.now(), made = timelineConfig(doc, now);
    none.hidden = doc.spans.length > 0;
    timelineBox.hidden = !doc.spans.length;
    const words = `${f.plural(doc.spans.length, 'span')} of cards held, as the table below lists`;
    timeline ??= new ChartBox(() => timelineConfig(doc, Date.now()).config, words, 'timeline');
    if (!timeline.node.parentNode) timelineBox.append(timeline.node);
    timeline.node.style.height = `${made.rows * 23 + 70}px`;
    timeline.update(words);
    fill(spanRows, [...doc.spans].sort((a, b) => f.when(b.start) - f.when(a.start)).slice(0, 500).map((s) => h('tr', {}, h('td', {}, `${s.node} GPU ${s.index}`), h('td', {}, h('a', {href: jobHash(s)}, s.name)), h('td', {}, userNode(s.user)), h('td', {}, s.mib ? f.mib(s.mib) : 'whole'), h('td', {}, f.clock(s.start)), h('td', {}, s.end ? f.clock(s.end) : 'now'), h('td', {}, f.span(((s.end ? f.when(s.end) : now) - f.when(s.start)) / 1000)))));
    const measured = doc.utilization.filter((u) => u.points.length), config = () => lineConfig(measured.map((u, i) => ({label: `${u.node} GPU ${u.index}`, points: u.points.filter((p) => p[1] !== null).map((p) => [f.when(p[0]), p[1] * 100]), color: css(SERIES[i % SERIES.length])})), {time: true, legend: true, x: {min: f.when(doc.from), max: f.when(doc.to)}, y: {min: 0, max: 100, ticks: {color: css('--muted'), callback: (v) => `${v} %`}}, tooltip: (it) => `${it.dataset.label}: ${Math.round(it.parsed.y)} %`});
    const anything = measured.some((u) => u.points.some((p) => p[1] !== null));
    if (!anything) { use?.close(); use = null; fill(useBox, empty('Nothing measured: declared cards have no utilisation.')); return; }
    if (!use) { use = new ChartBox(() => use.current(), 'Utilisation of the cards over time', 'medium'); use.current = config; fill(useBox, use.node); }
    use.current = config;
    use.update();
  }

  let soon = 0;
  const onChange = () => { if (!soon) soon = setTimeout(() => { soon = 0; if (!closed) loadNodes(); }, 100); };
  app.live.addEventListener('change', onChange);
  drawRange();
  loadNodes();
  loadTimeline();
  return {node, title: 'GPUs', close() {
    closed = true;
    clearTimeout(timer);
    clearTimeout(nodesTimer);
    app.live.removeEventListener('change', onChange);
    timeline?.close();
    use?.close();
  }};
}
