/* A form from a JSON schema: objects are fieldsets, lists grow, required values are marked, examples are
 * filled in. Returns {node, value(), set(doc)}. */
import {fill, h} from './dom.js';

const example = (s) => s.default ?? s.examples?.[0] ?? s.example;
let numbers = 0;

/* What a field is to say about itself. */
function hint(schema) {
  return schema.description ? h('small', {id: `d${++numbers}`, class: 'muted'}, schema.description) : null;
}

function scalarInput(schema, required, initial, label) {
  const type = [].concat(schema.type || 'string').find((t) => t !== 'null');
  if (schema.enum) return h('select', {required}, !required && h('option', {value: ''}, ''), schema.enum.map((v) => h('option', {value: v, selected: v === initial}, v)));
  if (type === 'boolean') return h('select', {required}, h('option', {value: '', selected: initial === undefined || initial === null}, required ? '' : 'as usual'), ['true', 'false'].map((v) => h('option', {value: v, selected: String(initial) === v}, v === 'true' ? 'yes' : 'no')));
  if (type === 'integer' || type === 'number') return h('input', {type: 'number', step: type === 'integer' ? 1 : 'any', min: schema.minimum, max: schema.maximum, required, value: initial ?? '', placeholder: schema.placeholder});
  const text = typeof initial === 'object' && initial !== null ? JSON.stringify(initial) : initial ?? '';
  if (String(text).includes('\n') || schema.format === 'textarea') return h('textarea', {rows: 4, required, value: text, placeholder: schema.placeholder, 'aria-label': label});
  return h('input', {type: 'text', required, value: text, placeholder: schema.placeholder, spellcheck: 'false', autocomplete: 'off'});
}

function scalarValue(input, schema) {
  const type = [].concat(schema.type || 'string').find((t) => t !== 'null');
  if (input.value === '') return undefined;
  if (type === 'boolean') return input.value === 'true';
  if (type === 'integer' || type === 'number') return Number(input.value);
  if (type === 'any') { try { return JSON.parse(input.value); } catch { return input.value; } }
  return input.value;
}

function objectField(name, schema, required, initial, top) {
  const fields = Object.entries(schema.properties || {}).map(([key, sub]) => [key, field(key, sub, (schema.required || []).includes(key), initial?.[key])]);
  const nodes = fields.map(([, made]) => made.node), d = hint(schema);
  return {
    node: top ? h('div', {class: 'fields'}, nodes) : h('fieldset', {}, h('legend', {}, name, required && h('span', {class: 'must', title: 'required'}, ' *')), d, nodes),
    value() {
      const out = {};
      for (const [key, made] of fields) { const v = made.value(); if (v !== undefined) out[key] = v; }
      return Object.keys(out).length || required || top ? out : undefined;
    },
  };
}

function listField(name, schema, required, initial) {
  const box = h('div', {class: 'list'}), entries = [], item = schema.items || {type: 'string'};
  function push(value) {
    const made = field(`${name} ${entries.length + 1}`, item, false, value, true);
    const row = h('div', {class: 'listrow'}, made.node, h('button', {type: 'button', class: 'quiet', 'aria-label': `Remove ${name} ${entries.length + 1}`, onclick: () => { entries.splice(entries.indexOf(made), 1); row.remove(); box.dispatchEvent(new Event('input', {bubbles: true})); }}, '×'));
    entries.push(made);
    box.append(row);
  }
  for (const v of Array.isArray(initial) ? initial : []) push(v);
  if (required && !entries.length) push(undefined);
  const d = hint(schema);
  return {
    node: h('fieldset', {}, h('legend', {}, name, required && h('span', {class: 'must', title: 'required'}, ' *')), d, box, h('button', {type: 'button', onclick: () => { push(example(item)); box.dispatchEvent(new Event('input', {bubbles: true})); }}, 'Add')),
    value() { const out = entries.map((e) => e.value()).filter((v) => v !== undefined); return out.length || required ? out : undefined; },
  };
}

function field(name, schema, required, given, bare) {
  const initial = given ?? example(schema), type = [].concat(schema.type || (schema.properties ? 'object' : schema.items ? 'array' : 'string')).find((t) => t !== 'null');
  if (type === 'object' && schema.properties) return objectField(name, schema, required, initial);
  if (type === 'array') return listField(name, schema, required, initial);
  const input = scalarInput(schema, required, initial, name), d = hint(schema);
  input.name = name;
  if (d) input.setAttribute('aria-describedby', d.id);
  return {node: h('label', {class: `field${bare ? ' bare' : ''}`}, h('span', {class: 'name'}, schema.title || name, required && h('span', {class: 'must', title: 'required'}, ' *')), input, d), value: () => scalarValue(input, schema)};
}

export function schemaForm(schema, initial) {
  let made = objectField('', schema, true, initial ?? example(schema), true);
  const node = h('div', {class: 'schema'}, made.node);
  return {node, value: () => made.value(), set(doc) { made = objectField('', schema, true, doc, true); fill(node, made.node); }};
}
