/* What happened to one's own jobs: a count in the header, the list behind it, and a word over the page when
 * something happens that one did not do oneself. */
import * as api from './api.js';
import {fill, h, notice, say, setAttr, setText} from './dom.js';
import * as f from './format.js';
import {jobHash} from './parts.js';

const TITLES = {succeeded: 'finished', 'over-memory': 'over its memory', 'cannot-start': 'cannot start'};
const STATE_OF = {preempted: 's-preempted', resized: 's-preempted', failed: 's-failed', succeeded: 's-succeeded', cancelled: 's-cancelled', 'over-memory': 's-failed', 'cannot-start': 's-failed', notice: 's-stopping'};
const EXPECTED = new Set(['succeeded', 'resized']); /* no word over the page for these */
const WORD_MS = 20000, POLL_MS = 10000;

const title = (item) => TITLES[item.kind] || item.kind;

export class Inbox {
  #app;
  #unseen = 0;
  #last = null; /* id of the newest item we know of; null: we have not heard yet */
  #open = false;
  #asked = 0;
  #timer = 0;
  #count = h('span', {class: 'count', 'aria-hidden': 'true'});
  #button = h('button', {type: 'button', class: 'quiet', 'aria-controls': 'inbox-list', 'aria-expanded': 'false', 'aria-keyshortcuts': 'g i', onclick: () => this.toggle()}, 'Inbox', this.#count);
  #panel = h('section', {id: 'inbox-list', class: 'inbox-list', 'aria-label': 'Inbox', tabindex: '-1', hidden: true, onkeydown: (e) => { if (e.key === 'Escape') { e.stopPropagation(); this.close(true); } }});
  #word = document.getElementById('word');

  constructor(app) {
    this.#app = app;
    document.getElementById('inbox').append(this.#button, this.#panel);
    app.live.addEventListener('inbox', (e) => this.#hear(e.detail));
    app.live.addEventListener('change', () => { if (app.live.state === 'polling') this.#poll(); });
    document.addEventListener('click', (e) => { if (this.#open && !e.target.closest('#inbox')) this.close(false); });
    addEventListener('hashchange', () => this.close(false));
    this.draw();
  }

  draw() {
    document.getElementById('inbox').hidden = !this.#app.session.user;
    this.#count.hidden = !this.#unseen;
    setText(this.#count, this.#unseen > 99 ? '99+' : String(this.#unseen));
    setAttr(this.#button, 'aria-label', this.#unseen ? `Inbox, ${this.#unseen} new` : 'Inbox, nothing new');
  }

  #hear(doc) {
    const newest = doc.items[0];
    const news = this.#last !== null && doc.last > this.#last && newest;
    this.#unseen = doc.unseen;
    this.#last = doc.last;
    this.draw();
    if (news && this.#open) this.#load();
    else if (news && !EXPECTED.has(newest.kind)) this.#say(newest);
  }

  /* Where the stream does not come through. */
  async #poll() {
    if (!this.#app.session.user || Date.now() - this.#asked < POLL_MS) return;
    this.#asked = Date.now();
    try {
      this.#hear(await api.get('v1/inbox?unseen=1&limit=1'));
    } catch { /* the next poll asks again */ }
  }

  #say(item) {
    clearTimeout(this.#timer);
    fill(this.#word, h('span', {class: `state ${STATE_OF[item.kind] || ''}`}, title(item)),
      h('span', {class: 'text'}, item.job ? h('a', {href: jobHash({id: item.job})}, item.name || 'job') : null, item.job ? `: ${item.text}` : item.text),
      h('button', {type: 'button', class: 'quiet', onclick: (e) => { e.stopPropagation(); this.#quiet(); this.open(); }}, 'Inbox'),
      h('button', {type: 'button', class: 'quiet', 'aria-label': 'Close this message', onclick: () => this.#quiet()}, '×'));
    this.#word.hidden = false;
    this.#timer = setTimeout(() => this.#quiet(), WORD_MS);
  }

  #quiet() {
    clearTimeout(this.#timer);
    this.#word.hidden = true;
    fill(this.#word);
  }

  toggle() { if (this.#open) this.close(true); else this.open(); }

  close(refocus) {
    if (!this.#open) return;
    this.#open = false;
    this.#panel.hidden = true;
    setAttr(this.#button, 'aria-expanded', 'false');
    if (refocus) this.#button.focus();
  }

  open() {
    if (!this.#app.session.user) return;
    this.#open = true;
    this.#quiet();
    setAttr(this.#button, 'aria-expanded', 'true');
    fill(this.#panel, h('p', {class: 'empty'}, 'Asking …'));
    this.#panel.hidden = false;
    this.#panel.focus({preventScroll: true});
    this.#load();
  }

  async #load() {
    try {
      const doc = await api.get('v1/inbox?limit=100');
      if (!this.#open) return;
      this.#list(doc.items);
      this.#last = doc.last;
      if (doc.unseen) this.#unseen = (await api.post('v1/inbox/seen', {id: doc.last})).unseen;
      this.draw();
    } catch (e) {
      this.close(true);
      notice(`The inbox could not be read: ${e.message}`);
    }
  }

  #list(items) {
    const fresh = items.filter((i) => !i.seen).length;
    fill(this.#panel, h('h2', {}, 'What happened to your jobs'),
      items.length ? h('ul', {}, items.map((i) => h('li', {class: i.seen ? null : 'new'},
        h('span', {class: `state ${STATE_OF[i.kind] || ''}`}, title(i)), !i.seen && h('span', {class: 'tag'}, 'new'),
        h('time', {datetime: i.time, title: f.full(i.time)}, `${f.since(i.time)} ago`),
        h('p', {}, i.job && [h('a', {href: jobHash({id: i.job})}, i.name || 'job'), ': '], i.text))))
        : h('p', {class: 'empty'}, 'Nothing has happened to your jobs yet.'),
      h('p', {class: 'muted small'}, 'Have it sent to you: ', h('code', {}, 'berth notify set mail=…')));
    if (fresh) say(`${f.plural(fresh, 'new item')} in the inbox`);
  }
}
