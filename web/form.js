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
  if (type === 'boolean') return h('select', {required}, h('option', {value: '', selected: initial === undefined || initial === null}, required ? '' : schema.placeholder === 'false' ? 'no (usual)' : schema.placeholder === 'true' ? 'yes (usual)' : 'as usual'), ['true', 'false'].map((v) => h('option', {value: v, selected: String(initial) === v}, v === 'true' ? 'yes' : 'no')));
  if (type === 'integer' || type === 'number') return h('input', {type: 'number', step: type === 'integer' ? 1 : 'any', min: schema.minimum, max: schema.maximum, required, value: initial ?? '', placeholder: schema.placeholder});
  const text = typeof initial === 'object' && initial !== null ? JSON.stringify(initial) : initial ?? '';
  if (String(text).includes('\n') || schema.format === 'textarea') return h('textarea', {rows: 4, required, value: text, placeholder: schema.placeholder, 'aria-label': label});
  return h('input', {type: 'text', required, value: text, placeholder: schema.placeholder, spellcheck: 'false', autocomplete: 'off'});
}

function scalarValue(input, schema) {
  const type = [].concat(schema.type || 'string').find((t) => t !== 'null');
  if (input.value === '' || (type === 'object' && !input.value.trim())) return undefined;
  if (type === 'boolean') return input.value === 'true';
  if (type === 'integer' || type === 'number') return Number(input.value);
  if (type === 'any' || type === 'object') { try { return JSON.parse(input.value); } catch { return input.value; } }
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

/* What a list's entries may be: one form, or several told apart by a fixed `type`. */
const choicesOf = (schema) => schema.items?.anyOf || [schema.items || {type: 'string'}];
const choiceName = (c) => Object.values(c.properties || {}).find((p) => p.const !== undefined)?.const;
const hasExample = (s) => example(s) !== undefined || Object.values(s.properties || {}).some(hasExample) || choicesOf(s).some((c) => s.items && hasExample(c));

function listField(name, schema, required, given) {
  const box = h('div', {class: 'list'}), entries = [], choices = choicesOf(schema);
  const initial = given ?? (schema.items?.anyOf ? choices.filter(hasExample).map(() => undefined) : undefined);
  function push(value, choice = choices.find((c) => choiceName(c) !== undefined && choiceName(c) === value?.type) || choices[0]) {
    const made = field(choiceName(choice) || `${name} ${entries.length + 1}`, choice, false, value, true);
    const row = h('div', {class: 'listrow'}, made.node, h('button', {type: 'button', class: 'quiet', 'aria-label': `Remove ${name} ${entries.length + 1}`, onclick: () => { entries.splice(entries.indexOf(made), 1); row.remove(); box.dispatchEvent(new Event('input', {bubbles: true})); }}, '×'));
    entries.push(made);
    box.append(row);
  }
  if (given === undefined && schema.items?.anyOf) choices.filter(hasExample).forEach((c) => push(undefined, c));
  else for (const v of Array.isArray(initial) ? initial : []) push(v);
  if (required && !entries.length) push(undefined);
  const d = hint(schema);
  return {
    node: h('fieldset', {}, h('legend', {}, name, required && h('span', {class: 'must', title: 'required'}, ' *')), d, box, h('div', {class: 'row'}, choices.map((c) => h('button', {type: 'button', onclick: () => { push(example(c), c); box.dispatchEvent(new Event('input', {bubbles: true})); }}, `Add ${choiceName(c) || ''}`)))),
    value() { const out = entries.map((e) => e.value()).filter((v) => v !== undefined); return out.length || required ? out : undefined; },
  };
}

function field(name, schema, required, given, bare) {
  if (schema.const !== undefined) return {node: null, value: () => schema.const};
  const initial = given ?? example(schema), type = [].concat(schema.type || (schema.properties ? 'object' : schema.items ? 'array' : 'string')).find((t) => t !== 'null');
  if (!schema.type && !schema.properties && !schema.items && !schema.enum) schema = {...schema, type: 'any'};
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
