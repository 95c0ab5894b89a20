/* Small things that several views show in the same way. */
import {h, setAttr, setText} from './dom.js';
import * as f from './format.js';

export const STATES = ['Running', 'Starting', 'Stopping', 'Pending', 'Preempted', 'Succeeded', 'Failed', 'Cancelled'];
export const stateClass = (state) => `s-${STATES.includes(state) ? state.toLowerCase() : 'other'}`;
export const jobHash = (job) => `#/job/${encodeURIComponent(job.id)}`;

export function stateNode(state) {
  return h('span', {class: `state ${stateClass(state)}`}, state);
}

export function userNode(user) {
  return user ? h('span', {class: `user hue${f.hue(user)}`}, user) : h('span', {class: 'user nobody'}, 'anonymous');
}

/* A bar that also says its number. */
export function bar(share, label, cls = '') {
  const node = h('span', {class: `bar ${cls}`, role: 'img'}, h('span', {}));
  setBar(node, share, label);
  return node;
}
export function setBar(node, share, label) {
  const known = share !== null && share !== undefined;
  node.classList.toggle('unknown', !known);
  node.firstChild.style.width = known ? `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%` : '0';
  setAttr(node, 'aria-label', label);
  setAttr(node, 'title', label);
}

export function meter(title, used, total, text) {
  return h('div', {class: 'meter'}, h('span', {class: 'muted'}, title), bar(total ? used / total : null, `${title}: ${text}`), h('span', {}, text));
}

/* Start of a waiting job, end of a running one, with the interval as a hint. */
export function drawEta(td, job) {
  const waits = job.state === 'Pending' || job.state === 'Preempted';
  const [t, low, high] = waits ? [job.startEstimate, job.startLow, job.startHigh] : [job.eta, job.etaLow, job.etaHigh];
  setText(td, t ? `${waits ? 'starts' : 'ends'} ${f.until(t)}` : waits ? 'start unknown' : '–');
  setAttr(td, 'title', t ? `${waits ? 'starts' : 'ends'} ${f.full(t)}${low && high ? `, between ${f.interval(low, high)}` : ''}` : null);
}

export function copyButton(text, label = 'Copy') {
  const button = h('button', {type: 'button', 'data-key': `copy ${label}`, 'data-own': true, onclick: async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? text() : text);
    } catch {
      const area = h('textarea', {class: 'unseen', value: typeof text === 'function' ? text() : text});
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = label; }, 1500);
  }}, label);
  return button;
}

/* Tabs with arrow keys; tabs: [[id, title, make()]]. */
export function tabs(label, list, selected) {
  const panel = h('div', {role: 'tabpanel', class: 'tabpanel', tabindex: -1});
  const made = new Map();
  const buttons = list.map(([id, title]) => h('button', {type: 'button', role: 'tab', 'data-tab': id, onclick: () => choose(id)}, title));
  function choose(id) {
    const row = list.find((r) => r[0] === id) || list[0];
    if (!made.has(row[0])) made.set(row[0], row[2]());
    for (const b of buttons) {
      b.setAttribute('aria-selected', b.dataset.tab === row[0]);
      b.tabIndex = b.dataset.tab === row[0] ? 0 : -1;
    }
    panel.replaceChildren(made.get(row[0]));
    panel.setAttribute('aria-label', row[1]);
  }
  const bar = h('div', {role: 'tablist', 'aria-label': label, class: 'tabs', onkeydown: (e) => {
    const at = buttons.indexOf(document.activeElement), by = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!by || at < 0) return;
    const next = buttons[(at + by + buttons.length) % buttons.length];
    next.focus();
    next.click();
  }}, buttons);
  choose(selected);
  return {node: h('section', {class: 'tabbed'}, bar, panel), choose};
}

export function empty(text, ...more) {
  return h('p', {class: 'empty'}, text, more);
}
