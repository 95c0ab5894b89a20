/* Charts by Chart.js, loaded when the first one is drawn. Colours come from the page's style, so that charts
 * follow light and dark. Times are on a plain number axis with our own ticks: no date library. */
import {h} from './dom.js';
import * as f from './format.js';

let loading = null;
const open = new Set();

function library() {
  loading ??= import('./chart.min.js').then(() => {
    const {Chart} = globalThis;
    Chart.defaults.animation = false;
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 11;
    Chart.defaults.maintainAspectRatio = false;
    Chart.defaults.plugins.legend.labels.boxWidth = 10;
    Chart.defaults.plugins.legend.labels.boxHeight = 10;
    return Chart;
  });
  return loading;
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const userColor = (user) => (user ? css(`--hue${f.hue(user)}`) : css('--line-strong'));
export const SERIES = ['--s1', '--s2', '--s3', '--s4', '--s5', '--s6'];

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];

/* Ticks at whole minutes, hours and days of the reader's clock. */
function timeTicks(axis) {
  const span = (axis.max - axis.min) / 1000, want = Math.max(2, Math.floor(axis.width / 90));
  const step = (STEPS.find((s) => span / s <= want) || span / want) * 1000;
  const shift = new Date(axis.min).getTimezoneOffset() * 60000;
  const ticks = [];
  for (let t = Math.ceil((axis.min - shift) / step) * step + shift; t <= axis.max; t += step) ticks.push({value: t});
  axis.ticks = ticks;
}

function timeLabel(value) {
  const d = new Date(value);
  const span = this.max - this.min;
  if (span > 2 * 86400e3) return d.toLocaleDateString(undefined, {month: 'short', day: 'numeric'});
  return d.toLocaleTimeString(undefined, {hour: '2-digit', minute: '2-digit', second: span < 600e3 ? '2-digit' : undefined, hour12: false});
}

export function timeAxis(more) {
  return {type: 'linear', afterBuildTicks: timeTicks, ticks: {callback: timeLabel, color: css('--muted'), maxRotation: 0, autoSkip: false}, grid: {color: css('--line')}, ...more};
}
export function valueAxis(more) {
  return {ticks: {color: css('--muted'), maxTicksLimit: 5}, grid: {color: css('--line')}, ...more};
}

/* make(): the configuration, asked again when light turns to dark. text: what the picture says, in words. */
export class ChartBox {
  constructor(make, text, cls = '') {
    this.make = make;
    this.canvas = h('canvas', {role: 'img', 'aria-label': text});
    this.node = h('div', {class: `chart ${cls}`}, this.canvas);
    this.closed = false;
    open.add(this);
    library().then((Chart) => { if (!this.closed) this.chart = new Chart(this.canvas, this.#config()); });
  }

  #config() {
    const config = this.make();
    config.options.plugins ??= {};
    config.options.plugins.legend = {display: false, ...config.options.plugins.legend, labels: {color: css('--text'), boxWidth: 10, boxHeight: 10}};
    return config;
  }

  update(text) {
    if (text) this.canvas.setAttribute('aria-label', text);
    if (!this.chart) return;
    const config = this.#config();
    this.chart.data = config.data;
    this.chart.options = config.options;
    this.chart.update('none');
  }

  close() {
    this.closed = true;
    open.delete(this);
    this.chart?.destroy();
  }
}

const redraw = () => { for (const box of open) box.update(); };
document.addEventListener('theme', redraw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

/* Lines over a number axis: series [{label, points: [[x, y]…], color?, fill?, dash?}]. */
export function lineConfig(series, {x, y, time = false, legend = false, tooltip} = {}) {
  return {
    type: 'line',
    data: {datasets: series.map((s, i) => ({
      label: s.label, data: s.points.map(([px, py]) => ({x: px, y: py})), borderColor: s.color || css(SERIES[i % SERIES.length]), backgroundColor: s.fillColor,
      borderWidth: s.width || 1.5, pointRadius: s.points.length < 2 ? 2.5 : 0, pointHitRadius: 6, fill: !!s.fill, borderDash: s.dash, stepped: s.stepped,
    }))},
    options: {
      parsing: false, normalized: true,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      plugins: {legend: {display: legend, position: 'bottom'}, decimation: {enabled: true, algorithm: 'lttb', samples: 400}, tooltip: {callbacks: {
        title: (items) => (time ? f.full(items[0].parsed.x) : `${x?.title || ''} ${items[0].parsed.x}`), label: tooltip || ((it) => `${it.dataset.label}: ${f.value(it.parsed.y)}`)}}},
      scales: {x: time ? timeAxis(x) : {type: 'linear', ...valueAxis(), ...x}, y: valueAxis(y)},
    },
  };
}
