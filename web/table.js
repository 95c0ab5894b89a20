/* A table that draws only the rows in sight. Rows are a flat list of items {key, height, group?, data}; the
 * element of a row is kept while its key stays in sight, so that focus and selection survive updates.
 * A real <table>: roles are spelled out because narrow screens lay its rows out as blocks. Arrow keys,
 * Home, End and Page keys move from row to row; Enter opens. */
import {h, setAttr} from './dom.js';

const OVERSCAN = 8;

export class VirtualTable {
  /* columns: [{key, title, label, class, make(td), draw(td, data, previous)}]; options: {label, open(data), rowClass(data), group(td, item)} */
  constructor(columns, options) {
    this.columns = columns;
    this.options = options;
    this.items = [];
    this.offsets = [0];
    this.rows = new Map();
    this.shown = 0; /* columns */
    this.spare = []; /* rows that went out of sight, for those that come into it */
    this.active = null; /* key of the row that Tab reaches */
    this.head = h('thead', {role: 'rowgroup'}, h('tr', {role: 'row', 'aria-rowindex': 1}, columns.map((c) =>
      h('th', {role: 'columnheader', scope: 'col', class: `c-${c.key} ${c.class || ''}`, title: c.label}, c.title))));
    this.topPad = h('tr', {role: 'presentation', class: 'pad', 'aria-hidden': 'true'}, h('td'));
    this.endPad = this.topPad.cloneNode(true);
    this.body = h('tbody', {role: 'rowgroup'}, this.topPad, this.endPad);
    this.table = h('table', {role: 'grid', class: 'grid', 'aria-label': options.label, 'aria-colcount': columns.length}, this.head, this.body);
    this.node = h('div', {class: 'scroller', tabindex: -1}, this.table);
    this.node.addEventListener('scroll', () => this.#schedule(), {passive: true});
    this.body.addEventListener('keydown', (e) => this.#key(e));
    this.body.addEventListener('click', (e) => this.#click(e));
    this.body.addEventListener('focusin', (e) => { const tr = e.target.closest('tr[data-key]'); if (tr) this.#activate(tr.dataset.key); });
    this.observer = new ResizeObserver(() => { this.#measure(); this.#schedule(); });
    this.observer.observe(this.node);
  }

  close() { this.observer.disconnect(); }

  /* Narrow screens have fewer columns: what spans more than there are would make new ones, with a share of the width. */
  #measure() {
    const shown = [...this.head.rows[0].cells].filter((th) => getComputedStyle(th).display !== 'none').length || 1;
    if (shown === this.shown) return;
    this.shown = shown;
    for (const tr of [this.topPad, this.endPad, ...this.body.querySelectorAll('tr.group')]) tr.firstChild.colSpan = shown;
  }

  set(items) {
    this.items = items;
    this.offsets = new Array(items.length + 1);
    this.offsets[0] = 0;
    this.places = new Map();
    for (let i = 0; i < items.length; i++) {
      this.offsets[i + 1] = this.offsets[i] + items[i].height;
      this.places.set(items[i].key, i);
    }
    setAttr(this.table, 'aria-rowcount', items.length + 1);
    if (!this.places.has(this.active)) this.active = items.find((it) => !it.group)?.key ?? null;
    this.draw();
  }

  #schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  #at(y) {
    let low = 0, high = this.items.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.offsets[mid + 1] <= y) low = mid + 1; else high = mid;
    }
    return low;
  }

  draw() {
    const top = this.node.scrollTop, height = this.node.clientHeight || 800;
    const from = Math.max(0, this.#at(top) - OVERSCAN), to = Math.min(this.items.length, this.#at(top + height) + OVERSCAN + 1);
    const wanted = new Map();
    for (let i = from; i < to; i++) wanted.set(this.items[i].key, i);
    /* The focused row stays, even out of sight: else the keyboard would lose its place. */
    const focused = document.activeElement?.closest?.('tr[data-key]');
    for (const [key, tr] of this.rows)
      if (!wanted.has(key)) {
        if (tr === focused) this.node.focus({preventScroll: true});
        tr.remove();
        this.rows.delete(key);
        if (!tr.classList.contains('group') && this.spare.length < 100) this.spare.push(tr);
      }
    let before = this.topPad;
    for (const [key, i] of wanted) {
      let tr = this.rows.get(key);
      if (!tr) {
        tr = this.#make(this.items[i]);
        this.rows.set(key, tr);
      }
      if (before.nextSibling !== tr) before.after(tr);
      before = tr;
      this.#update(tr, this.items[i], i);
    }
    if (before.nextSibling !== this.endPad) before.after(this.endPad);
    this.#pad(this.topPad, this.offsets[from] || 0);
    this.#pad(this.endPad, this.offsets[this.items.length] - (this.offsets[to] || 0));
  }

  #pad(tr, height) {
    tr.hidden = !height;
    tr.firstChild.style.height = `${height}px`;
  }

  #make(item) {
    const spare = item.group ? null : this.spare.pop();
    if (spare) {
      spare.dataset.key = item.key;
      spare.data = null;
      return spare;
    }
    const tr = h('tr', {role: 'row', 'data-key': item.key, css: {height: `${item.height}px`}});
    if (item.group) {
      tr.className = 'group';
      tr.append(h('th', {role: 'rowheader', scope: 'rowgroup', colspan: this.shown || this.columns.length}));
      return tr;
    }
    for (const c of this.columns) {
      const td = h('td', {role: 'gridcell', class: `c-${c.key} ${c.class || ''}`});
      c.make?.(td);
      tr.append(td);
    }
    return tr;
  }

  #update(tr, item, i) {
    setAttr(tr, 'aria-rowindex', i + 2);
    if (tr.style.height !== `${item.height}px`) tr.style.height = `${item.height}px`;
    if (item.group) {
      if (tr.item !== item) this.options.group(tr.firstChild, item);
      tr.item = item;
      return;
    }
    setAttr(tr, 'tabindex', item.key === this.active ? 0 : -1);
    if (tr.data === item.data && tr.tick === this.tick) return;
    tr.className = this.options.rowClass?.(item.data) || '';
    for (let c = 0; c < this.columns.length; c++) this.columns[c].draw(tr.cells[c], item.data);
    tr.data = item.data;
    tr.tick = this.tick;
  }

  #activate(key) {
    if (key === this.active) return;
    const old = this.rows.get(this.active);
    if (old) old.tabIndex = -1;
    this.active = key;
    const tr = this.rows.get(key);
    if (tr) tr.tabIndex = 0;
  }

  focus(key) {
    const i = this.places.get(key);
    if (i === undefined) return;
    const headHeight = this.head.offsetHeight, top = this.offsets[i], end = this.offsets[i + 1];
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (end + headHeight > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = end + headHeight - this.node.clientHeight;
    this.draw();
    this.#activate(key);
    this.rows.get(key)?.focus({preventScroll: true});
  }

  #step(from, by) {
    let i = from, last = from;
    const dir = Math.sign(by);
    for (let left = Math.abs(by); left > 0; ) {
      i += dir;
      if (i < 0 || i >= this.items.length) break;
      if (!this.items[i].group) { last = i; left--; }
    }
    return last;
  }

  #key(e) {
    const tr = e.target.closest('tr[data-key]');
    if (!tr || e.ctrlKey || e.metaKey || e.altKey) return;
    const at = this.places.get(tr.dataset.key), page = Math.max(1, Math.floor(this.node.clientHeight / 32) - 2);
    const moves = {ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9};
    if (e.key in moves) {
      e.preventDefault();
      this.focus(this.items[this.#step(at, Math.max(-this.items.length, Math.min(this.items.length, moves[e.key])))].key);
    } else if (e.key === 'Enter' && e.target === tr) {
      e.preventDefault();
      this.options.open?.(this.items[at].data);
    }
  }

  #click(e) {
    const tr = e.target.closest('tr[data-key]');
    if (!tr || e.target.closest('a,button,input') || String(getSelection())) return;
    const item = this.items[this.places.get(tr.dataset.key)];
    if (item && !item.group) this.options.open?.(item.data);
  }
}
