/* Numbers and times as people read them. Everything takes null for "not known". */

const DASH = '–';
const MIN = 60, HOUR = 3600, DAY = 86400;

export const when = (t) => (t ? Date.parse(t) : NaN);

/* 42 s, 12 m, 3.5 h, 2.1 d */
export function span(sec) {
  if (sec === null || sec === undefined || Number.isNaN(sec)) return DASH;
  sec = Math.max(0, sec);
  if (sec < 10 && sec % 1) return `${sec.toFixed(1)} s`;
  if (sec < 100) return `${Math.round(sec)} s`;
  if (sec < 100 * MIN) return `${Math.round(sec / MIN)} m`;
  if (sec < 10 * HOUR) return `${(sec / HOUR).toFixed(1)} h`;
  if (sec < DAY) return `${Math.round(sec / HOUR)} h`;
  return `${(sec / DAY).toFixed(sec < 10 * DAY ? 1 : 0)} d`;
}

export const since = (t, now = Date.now()) => (t ? span((now - when(t)) / 1000) : DASH);
export const until = (t, now = Date.now()) => (t ? (when(t) <= now ? 'now' : `in ${span((when(t) - now) / 1000)}`) : DASH);

const clockFormat = new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', hour12: false});
const dayFormat = new Intl.DateTimeFormat(undefined, {month: 'short', day: 'numeric'});
const fullFormat = new Intl.DateTimeFormat(undefined, {year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false});

/* 14:05, or with the day where that is another. */
export function clock(t, now = Date.now()) {
  const at = typeof t === 'number' ? t : when(t);
  if (Number.isNaN(at)) return DASH;
  const time = clockFormat.format(at);
  return new Date(at).toDateString() === new Date(now).toDateString() ? time : `${dayFormat.format(at)} ${time}`;
}
export const day = (t) => (t ? dayFormat.format(when(t)) : DASH);
export const full = (t) => (t ? fullFormat.format(typeof t === 'number' ? t : when(t)) : DASH);
export const interval = (low, high) => (low && high ? `${clock(low)} to ${clock(high)}` : '');

export function mib(n) {
  if (n === null || n === undefined) return DASH;
  return n < 1024 ? `${Math.round(n)} MiB` : `${(n / 1024).toFixed(n % 1024 && n < 102400 ? 1 : 0)} GiB`;
}
export const percent = (share) => (share === null || share === undefined ? DASH : `${Math.round(share * 100)} %`);
export const number = (n, digits = 1) => (n === null || n === undefined ? DASH : Number.isInteger(n) ? String(n) : n.toFixed(digits));
/* Metrics: as many digits as tell something. */
export const value = (n) => (n === 0 ? '0' : Math.abs(n) >= 1e5 || Math.abs(n) < 1e-3 ? n.toExponential(2) : String(+n.toPrecision(4)));

/* 1st, 2nd, 3rd, 11th; shares are 0.5; 0 is the CPU's. */
export function ordinal(n) {
  if (n === null || n === undefined) return DASH;
  if (n === 0) return 'CPU';
  if (!Number.isInteger(n)) return n.toFixed(n < 10 ? 2 : 1).replace(/0$/, '');
  const tens = n % 100;
  return n + (tens >= 11 && tens <= 13 ? 'th' : ['th', 'st', 'nd', 'rd'][n % 10] || 'th');
}
export const priority = (n) => (n === 0 ? 'auto' : n > 0 ? `+${n}` : `−${-n}`);
export const gpus = (n) => (n === 0 ? 'CPU' : number(n, 2));
export const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

/* The same colour for the same person, everywhere: one of twelve, by name. */
export function hue(name) {
  let sum = 7;
  for (let i = 0; i < (name || '').length; i++) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
  return sum % 12;
}
