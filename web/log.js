/* A log as it is written: follows, searches, keeps the last LINES_MAX lines. */
import {request} from './api.js';
import {h, setText} from './dom.js';
import {whileSeen} from './live.js';
import {copyButton} from './parts.js';

const LINES_MAX = 20000, TAIL = 2000, DRAW_MAX = 4000, REST_MAX = 16384;
const ANSI = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07?|[\x00-\x08\x0b\x0c\x0e-\x1f]/g;

export function logView(path, {running}) {
  let lines = [], rest = '', open = false, follow = true, abort = null, dirty = false, drawn = 0, matches = [], at = -1, closed = false, retry = 0, streaming = false;
  const text = h('pre', {class: 'log', tabindex: 0, 'aria-label': 'Log', role: 'log', 'aria-live': 'off'});
  const search = h('input', {type: 'search', placeholder: 'Search the log', 'aria-label': 'Search the log', oninput: () => { find(); draw(true); step(0); }, onkeydown: (e) => { if (e.key === 'Enter') { e.preventDefault(); step(e.shiftKey ? -1 : 1); } }});
  const found = h('span', {class: 'muted', role: 'status'});
  const only = h('input', {type: 'checkbox', onchange: () => draw(true)});
  const followBox = h('input', {type: 'checkbox', checked: true, onchange: () => { follow = followBox.checked; if (follow) toEnd(); }});
  const previous = h('input', {type: 'checkbox', onchange: () => load()});
  const status = h('span', {class: 'muted'});
  const node = h('div', {class: 'logbox'}, h('div', {class: 'row'}, search,
    h('button', {type: 'button', 'aria-label': 'Previous match', onclick: () => step(-1)}, '↑'), h('button', {type: 'button', 'aria-label': 'Next match', onclick: () => step(1)}, '↓'), found,
    h('label', {class: 'check'}, only, 'only matches'), h('label', {class: 'check'}, followBox, 'follow'), h('label', {class: 'check'}, previous, 'run before'),
    copyButton(() => lines.join('\n')), status), text);

  text.addEventListener('scroll', () => {
    const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    if (atEnd !== follow && performance.now() - drawn > 80) { follow = atEnd; followBox.checked = follow; }
  }, {passive: true});

  const toEnd = () => { text.scrollTop = text.scrollHeight; };

  function find() {
    const word = search.value.toLowerCase();
    matches = [];
    if (word) for (let i = 0; i < lines.length; i++) if (lines[i].toLowerCase().includes(word)) matches.push(i);
    if (at >= matches.length) at = matches.length - 1;
    setText(found, word ? `${matches.length ? at + 1 : 0} of ${matches.length}` : '');
  }

  function lineNode(i, word) {
    const line = lines[i], where = word ? line.toLowerCase().indexOf(word) : -1;
    if (where < 0) return h('span', {'data-i': i}, `${line}\n`);
    return h('span', {'data-i': i, class: matches[at] === i ? 'hit here' : 'hit'}, line.slice(0, where), h('mark', {}, line.slice(where, where + word.length)), `${line.slice(where + word.length)}\n`);
  }

  function draw(whole) {
    const word = search.value.toLowerCase();
    let shown = only.checked && word ? matches : null;
    const count = shown ? shown.length : lines.length;
    let from = Math.max(0, count - DRAW_MAX);
    if (!shown && at >= 0 && matches[at] < from) from = Math.max(0, matches[at] - 20);
    const to = Math.min(count, from + DRAW_MAX), pieces = [];
    if (!whole && !word && text.lastChild && draw.to <= to && draw.from === from) {
      for (let i = draw.to; i < to; i++) pieces.push(lineNode(i, ''));
      text.append(...pieces);
    } else {
      for (let k = from; k < to; k++) pieces.push(lineNode(shown ? shown[k] : k, word));
      text.replaceChildren(...pieces);
    }
    draw.from = from;
    draw.to = to;
    drawn = performance.now();
    if (follow && at < 0) toEnd();
  }

  function step(by) {
    if (!matches.length) { at = -1; return; }
    at = by === 0 ? matches.length - 1 : (at + by + matches.length) % matches.length;
    followBox.checked = follow = false;
    find();
    draw(true);
    text.querySelector('.here')?.scrollIntoView({block: 'center'});
  }

  /* What a terminal would show: each carriage return begins the line anew; one at its end shows what was before. */
  function shown(line) {
    const kept = line.replace(/\r+$/, '');
    return kept.slice(kept.lastIndexOf('\r') + 1).replace(ANSI, '');
  }

  /* The line that is being written (a progress bar) is shown too: `open`, the last of lines. Of it only what a
   * carriage return has not overwritten is kept. */
  function take(chunk) {
    const parts = (rest + chunk).split(/\r?\n/);
    rest = parts.pop();
    if (open) { lines.pop(); open = false; if (draw.to > lines.length) { text.lastChild?.remove(); draw.to = lines.length; } }
    for (const p of parts) lines.push(shown(p));
    const end = rest.endsWith('\r') ? rest.length - 1 : rest.length, from = end > 0 ? rest.lastIndexOf('\r', end - 1) : -1;
    if (from >= 0) rest = rest.slice(from + 1);
    if (rest.length > REST_MAX) { lines.push(shown(rest)); rest = ''; }
    if (rest) { lines.push(shown(rest)); open = true; }
    if (lines.length > LINES_MAX) { lines = lines.slice(-LINES_MAX); draw.from = draw.to = -1; }
    if (dirty) return;
    dirty = true;
    requestAnimationFrame(() => { dirty = false; if (search.value) find(); draw(lines.length === LINES_MAX); });
  }

  async function load() {
    abort?.abort();
    abort = new AbortController();
    const mine = abort;
    lines = [];
    rest = '';
    open = false;
    text.replaceChildren();
    draw.from = draw.to = 0;
    const live = running() && !previous.checked;
    setText(status, 'loading …');
    try {
      const answer = await request('GET', `${path}?tail=${TAIL}${live ? '&follow=1' : ''}${previous.checked ? '&previous=1' : ''}`, undefined, {accept: 'text/plain', signal: mine.signal});
      setText(status, live ? 'live' : '');
      streaming = live;
      const reader = answer.body.getReader(), decoder = new TextDecoder();
      for (;;) {
        const {value, done} = await reader.read();
        if (done) break;
        take(decoder.decode(value, {stream: true}));
      }
      streaming = false;
      if (rest) take('\n');
      setText(status, lines.length ? '' : 'nothing written yet');
      retry = 0;
      if (live && !closed && (running() || !lines.length)) setTimeout(() => { if (!closed && mine === abort) load(); }, 3000);
    } catch (e) {
      if (mine === abort) streaming = false;
      if (e.name === 'AbortError' || closed || mine !== abort) return;
      setText(status, e.message || 'the log could not be read');
      if ((e.code ?? 0) === 0 || e.code >= 500) setTimeout(() => { if (!closed && mine === abort) load(); }, Math.min(10000, 1000 * ++retry));
    }
  }
  load();
  const unwatch = whileSeen(() => abort?.abort(), () => { if (running() && !closed) load(); });
  return {node, search, reload: load, following: () => streaming, empty: () => !lines.length, close() { closed = true; unwatch(); abort?.abort(); }};
}
