/* JSON as YAML, for reading. */
const PLAIN = /^[A-Za-z_/][\w\-./ ]*$/;
const WORDS = /^(true|false|yes|no|on|off|null|~|y|n)$/i;

function scalar(v) {
  if (v === null || v === undefined) return 'null';
  if (typeof v !== 'string') return String(v);
  return PLAIN.test(v) && !WORDS.test(v) && !v.endsWith(' ') ? v : JSON.stringify(v);
}

function block(text, indent) {
  const lines = text.replace(/\n$/, '').split('\n');
  return `|${text.endsWith('\n') ? '' : '-'}\n${lines.map((l) => indent + l).join('\n')}`;
}

function write(v, indent, inList) {
  if (Array.isArray(v)) {
    if (!v.length) return ' []\n';
    return (inList ? '' : '\n') + v.map((it, i) => `${inList && i === 0 ? '' : indent}-${item(it, `${indent}  `)}`).join('');
  }
  if (v && typeof v === 'object') {
    const keys = Object.keys(v);
    if (!keys.length) return ' {}\n';
    return (inList ? ' ' : '\n') + keys.map((k, i) => `${inList && i === 0 ? '' : indent}${scalar(k)}:${child(v[k], indent)}`).join('');
  }
  if (typeof v === 'string' && v.includes('\n') && !/^[\s]|[\x00-\x08\x0b-\x1f]/.test(v)) return ` ${block(v, indent)}\n`;
  return ` ${scalar(v)}\n`;
}
const child = (v, indent) => (Array.isArray(v) ? write(v, indent, false) : write(v, `${indent}  `, false));
const item = (v, indent) => (Array.isArray(v) && v.length ? `\n${v.map((it) => `${indent}-${item(it, `${indent}  `)}`).join('')}` : write(v, indent, true));

export const toYaml = (doc) => write(doc, '', false).replace(/^\n/, '').replace(/^ /, '');
