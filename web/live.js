/* The queue as it is now. Server-sent events where they come through, polling where they do not; either way
 * the same `change` event goes out. After a break it goes on by itself. */
import {get} from './api.js';

/* A browser opens six connections to one server, for all its tabs together: a tab that nobody looks at gives
 * its own back. */
const HIDDEN_MS = 10000;
export function whileSeen(stop, go) {
  let timer = 0, stopped = false;
  const end = () => { clearTimeout(timer); timer = 0; if (!stopped) { stopped = true; stop(); } };
  const begin = () => { clearTimeout(timer); timer = 0; if (stopped) { stopped = false; go(); } };
  const seen = () => { if (document.hidden) timer ||= setTimeout(end, HIDDEN_MS); else begin(); };
  document.addEventListener('visibilitychange', seen);
  addEventListener('pagehide', end);
  addEventListener('pageshow', begin);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', seen);
    removeEventListener('pagehide', end);
    removeEventListener('pageshow', begin);
  };
}

const POLL_MS = 2000, POLL_MAX_MS = 10000, RETRY_STREAM_MS = 5000, GIVE_UP_MS = 4000, ANSWER_MS = 8000;
/* The stream beats every 5 s: after two that did not come the connection is taken for broken. */
const LOOK_MS = 1000, SILENCE_MS = 11000;

export const isRunning = (job) => ['Starting', 'Running', 'Stopping'].includes(job.state);

function compare(a, b) {
  const ra = isRunning(a), rb = isRunning(b);
  if (ra !== rb) return ra ? -1 : 1;
  if (ra) return a.ordinal - b.ordinal || a.globalOrdinal - b.globalOrdinal || (a.name < b.name ? -1 : 1);
  return (a.position ?? 1e9) - (b.position ?? 1e9) || (a.submitted < b.submitted ? -1 : 1);
}

export class Live extends EventTarget {
  jobs = new Map();
  list = [];
  capacity = null;
  meta = {};
  state = 'connecting'; /* live, polling, connecting, off */
  asOf = null; /* when what is shown was last known to be true */
  known = false;
  #source = null;
  #timers = new Set();
  #delay = POLL_MS;
  #running = false;
  #polling = false;
  #next = 0; /* the one timer of the next poll: a stream that fails must not start another chain */

  start() {
    if (this.#running) return;
    this.#running = true;
    this.#stream();
  }

  stop() {
    this.#running = false;
    this.#source?.close();
    this.#source = null;
    for (const t of this.#timers) clearTimeout(t);
    this.#timers.clear();
    this.#setState('off');
  }

  restart() {
    this.stop();
    this.start();
  }

  #later(fn, ms) {
    const t = setTimeout(() => { this.#timers.delete(t); if (this.#running) fn(); }, ms);
    this.#timers.add(t);
    return t;
  }

  #setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }

  #stream() {
    this.#source?.close();
    if (!window.EventSource) return this.#poll();
    const source = new EventSource('v1/queue/stream');
    this.#source = source;
    let opened = false, beats = false, heard = Date.now();
    const hear = (name, fn) => source.addEventListener(name, (e) => { heard = this.asOf = Date.now(); fn(JSON.parse(e.data)); });
    const broken = () => {
      if (this.#source !== source) return;
      source.close();
      this.#source = null;
      this.#setState('connecting');
      this.#poll();
      this.#later(() => this.#stream(), opened ? 500 : RETRY_STREAM_MS);
    };
    const look = () => {
      if (this.#source !== source) return;
      if (Date.now() - heard > SILENCE_MS && (beats || !opened)) broken();
      else this.#later(look, LOOK_MS);
    };
    hear('queue', (doc) => { opened = true; this.#setState('live'); this.#replace(doc); });
    hear('inbox', (doc) => this.dispatchEvent(new CustomEvent('inbox', {detail: doc})));
    hear('change', (doc) => this.#change(doc));
    hear('beat', () => { beats = true; });
    source.onerror = broken;
    this.#later(look, LOOK_MS);
    this.#later(() => { if (this.#source === source && !opened) this.#poll(); }, GIVE_UP_MS);
  }

  async #poll() {
    if (!this.#running || this.state === 'live' || this.#polling) return;
    this.#polling = true;
    try {
      const doc = await get('v1/queue', {signal: AbortSignal.timeout(ANSWER_MS)});
      this.asOf = Date.now();
      if (this.state !== 'live') {
        this.#setState('polling');
        this.#replace(doc);
      }
      this.#delay = POLL_MS;
    } catch (e) {
      this.error = e;
      this.#setState(e.code === 401 || e.code === 403 ? 'refused' : 'connecting');
      this.#delay = Math.min(POLL_MAX_MS, this.#delay * 1.5);
      this.dispatchEvent(new Event('trouble'));
    }
    this.#polling = false;
    clearTimeout(this.#next);
    this.#timers.delete(this.#next);
    this.#next = this.#later(() => this.#poll(), this.#delay);
  }

  #replace(doc) {
    const before = this.jobs;
    this.jobs = new Map(doc.jobs.map((j) => [j.id, j]));
    const gone = [...before.values()].filter((j) => !this.jobs.has(j.id));
    const first = !this.known;
    this.known = true;
    this.meta = {policy: doc.policy, preemption: doc.preemption};
    this.#finish(doc, first ? [] : doc.jobs, before, gone);
  }

  #change(doc) {
    const before = new Map();
    const gone = [];
    for (const job of doc.upsert) {
      if (this.jobs.has(job.id)) before.set(job.id, this.jobs.get(job.id));
      this.jobs.set(job.id, job);
    }
    for (const id of doc.remove) {
      if (this.jobs.has(id)) gone.push(this.jobs.get(id));
      this.jobs.delete(id);
    }
    this.#finish(doc, doc.upsert, before, gone);
  }

  #finish(doc, upserted, before, gone) {
    this.capacity = doc.capacity;
    this.revision = doc.revision;
    this.list = [...this.jobs.values()].sort(compare);
    this.dispatchEvent(new CustomEvent('change', {detail: {upserted, before, gone}}));
  }
}
