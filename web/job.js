/* One job: where it stands and why, how it goes, what it says. */
import {get, jobPath, post} from './api.js';
import {ChartBox, css, lineConfig, valueAxis} from './charts.js';
import {ask, fill, h, morph, notice, setText} from './dom.js';
import * as f from './format.js';
import {isRunning} from './live.js';
import {logView} from './log.js';
import {bar, copyButton, empty, jobHash, stateNode, tabs, userNode} from './parts.js';
import {toYaml} from './yaml.js';

const REFRESH_MS = 3000;
const OVER = ['Succeeded', 'Failed', 'Cancelled'];
const waits = (j) => j.state === 'Pending' || j.state === 'Preempted';

function fact(name, value, title) {
  return value === null || value === undefined || value === false ? null : h('div', {'data-key': name}, h('dt', {}, name), h('dd', {title}, value));
}

function cardsText(cards) {
  return (cards || []).map((c) => `${c.node} GPU ${c.index}${c.mib ? ` · ${f.mib(c.mib)}` : ''}`).join(', ');
}

function facts(j) {
  const end = j.finished ? f.when(j.finished) : Date.now();
  return h('dl', {class: 'facts'},
    fact('User', userNode(j.user)), fact('Position', waits(j) && j.position !== null && `${j.position}`),
    fact('GPUs', j.gpus === 0 ? 'none' : `${f.gpus(j.gpus)}${j.gpusMax > j.gpusMin ? ` (${j.gpusMin} to ${j.gpusMax})` : ''}`), fact('Cards', cardsText(j.cards) || null),
    fact('GPU memory', j.memoryMiB ? `${f.mib(j.memoryMiB)} reserved${j.shared ? ' on a shared card' : ''}` : null), fact('Limit', j.memoryMiB && {none: null, watched: 'watched: warned, then stopped', cgroup: 'held by the driver'}[j.protection]),
    fact('User’s GPU', f.ordinal(j.ordinal)), fact('Priority', f.priority(j.priority)),
    fact('Submitted', f.clock(j.submitted), f.full(j.submitted)), fact('Waited', f.span(((j.started ? f.when(j.started) : end) - f.when(j.submitted)) / 1000)),
    fact('Started', j.started && f.clock(j.started), f.full(j.started)), fact('Ran', j.started && f.span((end - f.when(j.started)) / 1000)),
    fact('Finished', j.finished && f.clock(j.finished), f.full(j.finished)), fact('Restarts', j.restarts ? `${j.restarts}, ${f.span(j.lostSeconds)} lost` : null), fact('Epoch', Object.keys(j.secondsPerEpoch || {}).length === 1 ? Object.entries(j.secondsPerEpoch).map(([n, t]) => `${f.span(t)} on ${f.plural(+n, 'GPU')}`)[0] : null), fact('Image', j.image || null));
}

function progress(j) {
  const known = j.progress !== null && j.progress !== undefined;
  const [t, low, high] = waits(j) ? [j.startEstimate, j.startLow, j.startHigh] : [j.eta, j.etaLow, j.etaHigh];
  if (OVER.includes(j.state) && !known) return null;
  return h('div', {class: 'progressline'},
    known && h('div', {class: 'big'}, bar(j.progress, `${f.percent(j.progress)} done`, 'progress wide'), h('span', {}, h('strong', {}, f.percent(j.progress)), j.epochsTotal ? ` · epoch ${j.epochsDone ?? 0} of ${j.epochsTotal}` : '')),
    !OVER.includes(j.state) && h('p', {class: 'eta'}, t ? [h('strong', {}, `${waits(j) ? 'Starts' : 'Ends'} ${f.until(t)}`), ` (${f.clock(t)}${low && high ? `, likely between ${f.interval(low, high)}` : ''})`] : waits(j) ? 'No start can be estimated yet.' : 'No end can be estimated yet.'));
}

function historyList(j) {
  const list = (j.history || []).slice().reverse();
  if (!list.length) return empty('Nothing has happened yet.');
  return h('ol', {class: 'events'}, list.map((e, i) => h('li', {'data-key': `${list.length - i}`}, h('time', {title: f.full(e.time)}, f.clock(e.time)), stateNode(e.state),
    h('span', {}, e.reason || '', e.by && [' ', h('a', {href: jobHash({id: e.by})}, e.byName || 'that job')], e.lostSeconds > 0 && !/lost/.test(e.reason || '') && h('span', {class: 'muted'}, ` lost ${f.span(e.lostSeconds)}`), e.cards?.length > 0 && h('span', {class: 'muted'}, ` ${cardsText(e.cards)}`)))));
}

function eventList(j) {
  const list = (j.events || []).slice().reverse();
  if (!list.length) return empty('No events.');
  return h('ol', {class: 'events'}, list.map((e) => h('li', {'data-key': `${e.time} ${e.reason} ${e.message}`, class: e.type === 'Warning' ? 'warning' : ''}, h('time', {title: f.full(e.time)}, f.clock(e.time)), h('span', {class: 'tag'}, e.reason), h('span', {}, e.message))));
}

/* For what run-scheduler does not make: the manifest as it was handed in. */
function asCommand(manifest) {
  const {name, namespace, labels} = manifest.metadata || {}, {status, ...rest} = manifest;
  return `berth apply -f - <<'END'\n${toYaml({...rest, metadata: {name, namespace, ...(labels ? {labels} : {})}})}END\n`;
}

/* A chart that stays while its data change. */
function keptCharts() {
  const boxes = new Map();
  return {
    draw(key, make, text, cls) {
      let box = boxes.get(key);
      if (!box) boxes.set(key, box = new ChartBox(() => box ? box.current() : make(), text, cls));
      box.current = make;
      box.update(text);
      return box.node;
    },
    close() { for (const b of boxes.values()) b.close(); },
  };
}

/* Ticks at whole GiB (or a half, a quarter). */
const memoryStep = (max) => 256 * 2 ** Math.max(0, Math.ceil(Math.log2(max / 256 / 4)));
const last = (points) => points[points.length - 1];
const figure = (title, note, node) => h('figure', {}, h('figcaption', {}, title, note && h('span', {class: 'muted'}, ` ${note}`)), node);

function plots(j, charts) {
  const out = [];
  for (const [name, rows] of Object.entries(j.metrics || {})) {
    if (!rows.length) continue;
    const points = rows.map(([, step, v]) => [step, v]);
    out.push(figure(name, f.value(last(points)[1]), charts.draw(`m:${name}`, () => lineConfig([{label: name, points}], {x: {min: points[0][0], max: last(points)[0]}}), `${name}: ${f.value(last(points)[1])} at step ${last(points)[0]}`)));
  }
  if (j.memory?.length) {
    const points = j.memory.map(([t, m]) => [f.when(t), m]);
    const reserved = j.memoryMiB || (j.cards || []).reduce((sum, c) => sum + (c.mib || 0), 0) || null;
    const limit = reserved ? [[points[0][0], reserved], [last(points)[0], reserved]] : null;
    out.push(figure('GPU memory', `peak ${f.mib(j.peakMemoryMiB)}${reserved ? ` of ${f.mib(reserved)} reserved` : ''}`, charts.draw('memory', () => lineConfig([{label: 'used', points, fill: true, fillColor: css('--tint')}, limit && {label: 'reserved', points: limit, color: css('--bad'), dash: [5, 4]}].filter(Boolean),
      {time: true, legend: true, y: {beginAtZero: true, ticks: {color: css('--muted'), maxTicksLimit: 6, stepSize: memoryStep(Math.max(reserved || 0, j.peakMemoryMiB || 0)), callback: (v) => f.mib(v)}}, tooltip: (it) => `${it.dataset.label}: ${f.mib(it.parsed.y)}`}), `GPU memory: peak ${f.mib(j.peakMemoryMiB)}, reserved ${f.mib(reserved)}`)));
  }
  const per = Object.entries(j.secondsPerEpoch || {}).sort((a, b) => a[0] - b[0]);
  if (per.length > 1) {
    const first = per[0];
    out.push(figure('Seconds per epoch', 'by GPUs', h('div', {}, charts.draw('epochs', () => ({type: 'bar', data: {labels: per.map(([n]) => f.plural(+n, 'GPU')), datasets: [{data: per.map(([, s]) => s), backgroundColor: css('--accent'), maxBarThickness: 46}]},
      options: {scales: {x: {...valueAxis(), grid: {display: false}}, y: valueAxis({beginAtZero: true})}, plugins: {tooltip: {callbacks: {label: (it) => `${f.span(it.parsed.y)} · ${(first[1] * 1 / it.parsed.y).toFixed(2)}× the speed of ${f.plural(+first[0], 'GPU')}`}}}}}), per.map(([n, s]) => `${f.plural(+n, 'GPU')}: ${f.span(s)}`).join(', ')),
      h('p', {class: 'muted small'}, per.map(([n, s]) => `${f.plural(+n, 'GPU')}: ${f.span(s)}`).join(' · ')))));
  }
  if (j.epochs?.length > 1) {
    const points = j.epochs.map((e) => [e.epoch, e.seconds]), resized = new Set(j.epochs.map((e) => e.gpus)).size > 1;
    out.push(figure('Epochs', 'seconds each', charts.draw('epochlist', () => lineConfig([{label: 'seconds', points, color: css('--s2')}, resized && {label: 'GPUs', points: j.epochs.map((e) => [e.epoch, e.gpus]), color: css('--line-strong'), stepped: true}].filter(Boolean), {legend: resized, x: {min: points[0][0], max: last(points)[0], ticks: {precision: 0, color: css('--muted')}}, y: {beginAtZero: true}}), `${points.length} epochs, the last in ${f.span(last(points)[1])}`)));
  }
  return out;
}

function whyBox(why) {
  if (!why) return null;
  const list = (title, rows, text) => rows?.length > 0 && [h('h3', {}, title), h('ul', {class: 'plain'}, rows.slice(0, 8).map((r) => h('li', {}, h('a', {href: jobHash(r)}, r.name), ' ', userNode(r.user), ' ', h('span', {class: 'muted'}, text(r)))), rows.length > 8 && h('li', {class: 'muted'}, `and ${rows.length - 8} more`))];
  return h('section', {class: 'panel why'}, h('h2', {}, 'Why it waits'), h('p', {}, why.reason), list('Before it', why.ahead, (r) => r.why || `user’s ${f.ordinal(r.ordinal)} GPU, ${f.gpus(r.gpus)}`), list('What becomes free', why.frees, (r) => `${f.plural(r.gpus, 'GPU')} ${r.how || ''} ${r.when ? f.until(r.when) : ''}`));
}

export function jobView(app, params, id) {
  let job = app.live.jobs.get(id) || null, detail = null, why = null, log = null, closed = false, timer = 0, busy = false, gone = null;
  const charts = keptCharts();
  const head = h('header', {class: 'jobhead'}), body = h('div', {class: 'jobfacts'}), left = h('div'), right = h('div'), plotBox = h('div', {class: 'plots'});
  const manifest = h('pre', {class: 'code', tabindex: 0, 'aria-label': 'Manifest'}), events = h('div');
  const lower = h('div');
  const node = h('article', {class: 'job'}, head, body, h('div', {class: 'two'}, left, right), plotBox, lower);
  let tabbed = null;

  async function act(verb, what) {
    try {
      await what();
      notice('');
      await load();
    } catch (e) {
      notice(`${verb} did not work: ${e.message}`);
    }
  }
  const cancel = () => act('Cancelling', async () => { if (await ask(`Cancel ${job.name}?`, 'What it has not saved is lost. Its history and log stay.', 'Cancel the job')) await post(jobPath(id, '/cancel')); });
  const priority = () => act('The new priority', async () => {
    const got = await ask(`Priority of ${job.name}`, 'Among your own jobs the higher number comes first. 0 is usual.', 'Set', [{name: 'priority', label: 'Priority', type: 'number', step: 1, value: job.priority, required: true}]);
    if (got) await post(jobPath(id, '/priority'), {priority: parseInt(got.priority, 10)});
  });
  const rerun = () => act('The re-run', async () => { if (await ask(`Run ${job.name} again?`, 'A new job with the same specification goes to the queue.', 'Run again')) { const made = await post(jobPath(id, '/rerun')); location.hash = jobHash(made); } });
  const claim = () => act('The claim', async () => { if (await ask(`Claim GPUs for ${job.name}?`, 'Jobs of larger rank are stopped to make room, and their owners are told.', 'Claim')) await post(jobPath(id, '/claim')); });

  function drawHead() {
    const j = job, may = app.session.admin || j.mine;
    morph(head, h('div', {class: 'titleline'}, h('h1', {}, j.name), stateNode(j.state), h('span', {class: 'muted'}, `${j.kind} in ${j.namespace}`),
      h('div', {class: 'actions'},
        may && !OVER.includes(j.state) && h('button', {type: 'button', 'data-key': 'cancel', class: 'danger', onclick: cancel}, 'Cancel'), may && !OVER.includes(j.state) && h('button', {type: 'button', 'data-key': 'priority', onclick: priority}, 'Priority'),
        may && waits(j) && app.live.meta.preemption === 'ask' && h('button', {type: 'button', 'data-key': 'claim', onclick: claim}, 'Claim'),
        may && h('button', {type: 'button', 'data-key': 'rerun', onclick: rerun}, 'Re-run'), (detail?.command || detail?.manifest) && copyButton(() => detail.command || asCommand(detail.manifest), 'Copy as command'))),
      j.reason && h('p', {class: 'reason'}, j.reason), progress(j));
  }

  function draw() {
    if (closed || !job) return;
    app.setTitle(job.name);
    drawHead();
    morph(body, facts(job));
    morph(left, h('section', {class: 'panel'}, h('h2', {}, 'History'), historyList(detail || {})), waits(job) && whyBox(why));
    const private_ = detail && !('manifest' in detail && detail.manifest !== null);
    if (detail && !tabbed) {
      tabbed = private_ ? {node: empty('Log, manifest, metrics and events are the owner’s and the admins’ to see.', !app.session.user && ' Sign in to see yours.')} : tabs('More of this job', [
        ['log', 'Log', () => (log = logView(jobPath(id, '/logs'), {running: () => job && !OVER.includes(job.state)})).node],
        ['manifest', 'Manifest', () => h('div', {}, h('div', {class: 'row'}, copyButton(() => manifest.textContent)), manifest)],
        ['events', 'Events', () => events]], params.get('tab') || 'log');
      fill(lower, tabbed.node);
    }
    if (detail && !private_) {
      setText(manifest, toYaml(detail.manifest));
      morph(events, eventList(detail), detail.pods?.length > 0 && h('p', {class: 'muted small'}, 'Pods: ', detail.pods.map((p) => `${p.name} ${p.phase}`).join(', ')));
      const list = plots(detail, charts);
      if (list.length !== plotBox.children.length) plotBox.replaceChildren(...list);
      else list.forEach((n, i) => { if (plotBox.children[i].textContent !== n.textContent || plotBox.children[i].querySelector('canvas') !== n.querySelector('canvas')) plotBox.children[i].replaceWith(n); });
    }
    if (detail?.pods?.length && right.children.length) fill(right);
    node.classList.toggle('alone', !right.children.length);
  }

  async function load() {
    if (busy || closed) return;
    busy = true;
    clearTimeout(timer);
    try {
      const before = job?.state;
      detail = await get(jobPath(id));
      if (closed) return;
      job = detail;
      gone = null;
      if (waits(job)) why = await get(jobPath(id, '/why')).catch(() => null);
      if (before && before !== job.state && log && !log.following() && (isRunning(job) || log.empty())) log.reload();
      draw();
    } catch (e) {
      if (e.code === 404 && !detail) fill(head, h('h1', {}, 'No such job'), h('p', {}, 'It was deleted, or the address is wrong.'), h('a', {href: '#/queue'}, 'To the queue'));
      else if (e.code && e.code !== 404) notice(e.message);
    }
    busy = false;
    if (!closed) timer = setTimeout(load, !job || OVER.includes(job.state) ? 15000 : REFRESH_MS);
  }
  const onChange = (e) => {
    const fresh = job ? e.detail.upserted.find((j) => j.id === job.id) : app.live.jobs.get(id);
    if (fresh && !job) {
      job = fresh;
      draw();
    } else if (fresh) {
      const changed = fresh.state !== job.state;
      job = detail ? {...detail, ...fresh} : fresh;
      draw();
      if (changed) load();
    } else if (e.detail.gone.some((j) => j.id === job?.id)) load();
  };
  app.live.addEventListener('change', onChange);
  if (job) draw(); else fill(head, h('p', {class: 'empty'}, 'Asking for the job …'));
  load();
  return {node, title: job?.name || 'Job', get search() { return log?.search; }, close() {
    closed = true;
    clearTimeout(timer);
    app.live.removeEventListener('change', onChange);
    charts.close();
    log?.close();
  }};
}
