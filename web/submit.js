/* New work: a training job by run-scheduler's options, or a task definition's form. What would happen is
 * shown before anything is sent. */
import {get, post, request} from './api.js';
import {fill, h, notice} from './dom.js';
import * as f from './format.js';
import {schemaForm} from './form.js';
import {copyButton, empty, jobHash, tabs} from './parts.js';
import {toYaml} from './yaml.js';

const TYPES = {int: 'integer', real: 'number', bool: 'boolean', text: 'string', amount: 'string', env: 'string'};

function optionSchema(o) {
  const s = {title: o.name, type: TYPES[o.type] || 'string', description: o.help, placeholder: o.default || undefined, minimum: o.min ?? undefined};
  return o.type === 'env' ? {...s, type: 'array', items: {type: 'string', placeholder: 'NAME=VALUE'}} : s;
}

/* The answer of a dry run. */
function preview(doc, warnings) {
  const job = doc.job || {}, yaml = doc.yaml || (doc.manifest ? toYaml(doc.manifest) : '');
  return h('section', {class: 'panel preview'}, h('h2', {}, 'What would happen'),
    h('p', {}, doc.position ? ['It would be number ', h('strong', {}, doc.position), ' in the queue. '] : doc.startEstimate ? 'It would not have to wait. ' : '', !('startEstimate' in doc) ? 'It would be made as below.' : doc.startEstimate ? ['It would start ', h('strong', {}, f.until(doc.startEstimate)), ` (${f.clock(doc.startEstimate)}${doc.startLow && doc.startHigh ? `, likely between ${f.interval(doc.startLow, doc.startHigh)}` : ''}).` ] : 'No start can be estimated yet.'),
    job.reason && h('p', {class: 'muted'}, job.reason), warnings?.length > 0 && h('ul', {class: 'warnings'}, warnings.map((w) => h('li', {}, w))),
    h('div', {class: 'row'}, h('h3', {}, 'Rendered'), copyButton(yaml)), h('pre', {class: 'code', tabindex: 0, 'aria-label': 'Rendered YAML'}, yaml));
}

/* A form with a YAML view, a dry run and a button to send. send(dry, values, yamlText) answers the document. */
function sender(schema, initial, send, label) {
  let form = schemaForm(schema, initial), mode = 'form', busy = false, done = null;
  const text = h('textarea', {class: 'code', rows: 18, spellcheck: 'false', 'aria-label': 'Values as YAML'}), out = h('div', {'aria-live': 'polite'}), pane = h('div', {}, form.node);
  const toggle = h('button', {type: 'button', 'aria-pressed': 'false', onclick: () => {
    mode = mode === 'form' ? 'yaml' : 'form';
    toggle.setAttribute('aria-pressed', mode === 'yaml');
    if (mode === 'yaml') { text.value = toYaml(form.value()); fill(pane, text); } else fill(pane, form.node);
  }}, 'YAML');
  const sendButton = h('button', {type: 'button', class: 'main', disabled: true, onclick: () => go(false)}, label);
  const dryButton = h('button', {type: 'submit'}, 'Dry run');
  async function go(dry) {
    if (busy) return;
    busy = true;
    try {
      const doc = await send(dry, mode === 'form' ? form.value() : null, mode === 'yaml' ? text.value : null);
      notice('');
      if (dry) {
        fill(out, preview(doc, doc.warnings));
        sendButton.disabled = false;
        out.scrollIntoView({block: 'nearest'});
      } else {
        done?.(doc);
      }
    } catch (e) {
      fill(out, h('section', {class: 'panel bad'}, h('h2', {}, dry ? 'This would be refused' : 'It was refused'), h('p', {}, e.message), e.details && Object.keys(e.details).length > 0 && h('pre', {class: 'code'}, toYaml(e.details))));
      sendButton.disabled = true;
    }
    busy = false;
  }
  const node = h('form', {class: 'submit', onsubmit: (e) => { e.preventDefault(); go(true); }, oninput: () => { sendButton.disabled = true; }},
    h('div', {class: 'row end'}, toggle), pane, h('div', {class: 'row sendrow'}, dryButton, sendButton, h('small', {class: 'muted'}, 'A dry run shows position, estimate and rendered YAML; then it can be sent.')), out);
  return {node, then(fn) { done = fn; return this; }};
}

function trainForm(app) {
  const box = h('div', {}, empty('Asking for the options …'));
  get('v1/train/options').then((doc) => {
    const main = doc.options.filter((o) => o.guide), rest = doc.options.filter((o) => !o.guide);
    const props = {job_name: {type: 'string', title: 'job_name', description: 'what the experiment is called'}};
    for (const o of [...main, ...rest]) props[o.name] = optionSchema(o);
    const made = sender({type: 'object', properties: props, required: ['job_name']}, {}, (dry, values, yaml) =>
      yaml === null ? post(`v1/train${dry ? '?dryRun=1' : ''}`, values) : request('POST', `v1/train${dry ? '?dryRun=1' : ''}`, yaml, {type: 'application/yaml'}).then((r) => r.json()), 'Send to the queue');
    made.then((job) => { location.hash = jobHash(job); });
    fill(box, made.node);
    /* Berth's additions come after the options of run-scheduler, folded. */
    const fields = [...box.querySelector('.fields').children];
    const extra = h('details', {class: 'extra'}, h('summary', {}, 'More options'), fields.slice(1 + main.length));
    box.querySelector('.fields').append(extra);
  }).catch((e) => fill(box, empty(e.message)));
  return box;
}

/* The job among the objects that a task made. */
function madeJob(doc) {
  const kinds = ['TrainingJob', 'Job', 'Pod'], found = (doc.objects || []).filter((o) => kinds.includes(o.kind)).sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind))[0];
  const meta = found?.metadata || found || {};
  return `#/job/${encodeURIComponent(`${meta.namespace || doc.namespace}/${meta.name || doc.task_id}`)}`;
}

function taskForm(params) {
  const box = h('div', {}, empty('Asking for the task definitions …')), pane = h('div');
  let list = [];
  get('v1/task-definitions').then((doc) => {
    list = doc.task_definitions || [];
    if (!list.length) { fill(box, empty('There are no task definitions yet. “berth define” makes one.')); return; }
    const choose = h('select', {'aria-label': 'Task definition', onchange: () => open(list[choose.selectedIndex])}, list.map((d) => h('option', {value: `${d.namespace}/${d.id}`, selected: [d.id, d.name, `${d.namespace}/${d.id}`].includes(params.get('definition'))}, d.name)));
    fill(box, h('label', {class: 'field'}, h('span', {class: 'name'}, 'Task definition'), choose), pane);
    open(list[choose.selectedIndex]);
  }).catch((e) => fill(box, empty(e.message)));
  async function open(d) {
    fill(pane, empty('Asking for its form …'));
    try {
      const schema = await get(`v1/task-definitions/${encodeURIComponent(d.namespace)}/${encodeURIComponent(d.id)}/schema`);
      if (schema.properties?.taskDef) schema.properties.taskDef.examples = [d.name];
      const made = sender(schema, undefined, async (dry, values, yaml) => {
        const path = `v1/jobs${dry ? '?dryRun=1' : ''}`;
        if (yaml === null) return post(path, {taskDef: d.name, ...values});
        return (await request('POST', path, /^taskDef:/m.test(yaml) ? yaml : `taskDef: ${JSON.stringify(d.name)}\n${yaml}`, {type: 'application/yaml'})).json();
      }, 'Create the task');
      made.then((doc) => { location.hash = madeJob(doc); });
      fill(pane, made.node);
    } catch (e) { fill(pane, empty(e.message)); }
  }
  return box;
}

export function submitView(app, params) {
  if (!app.session.user) return {node: empty('Sign in to submit work: run “berth token --web” and open the link.'), title: 'Submit'};
  const made = tabs('Kind of work', [['train', 'Training job', () => trainForm(app)], ['task', 'Task definition', () => taskForm(params)]], params.get('kind') || 'train');
  return {node: h('section', {class: 'submitview'}, h('h1', {}, 'Submit'), made.node), title: 'Submit'};
}
