/* Elements from plain data. Text goes in as text only: nothing here, and nothing in the other modules, reads
 * markup from a string, and the page's Content-Security-Policy (trusted types) forbids it as well. */

const SAFE_URL = /^(#|v1\/|\.?$)/; /* places within the page, and Berth's own addresses */

function setProp(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
  else if (name === 'class') node.className = value;
  else if (name === 'css') for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
  else if (name === 'value' || name === 'checked' || name === 'selected' || name === 'disabled' || name === 'hidden') node[name] = value;
  else if (name === 'href' && !SAFE_URL.test(value)) throw new Error(`no link to ${value}`);
  else node.setAttribute(name, value === true ? '' : String(value));
}

/* h('a', {href: '#/queue', class: 'x'}, 'text', node, [more]); null and false are left out. */
export function h(tag, props, ...kids) {
  const node = document.createElement(tag);
  for (const name in props) setProp(node, name, props[name]);
  add(node, kids);
  return node;
}

function add(node, kids) {
  for (const kid of kids) {
    if (kid === null || kid === undefined || kid === false) continue;
    if (Array.isArray(kid)) add(node, kid);
    else node.append(kid instanceof Node ? kid : document.createTextNode(String(kid)));
  }
}

export function fill(node, ...kids) {
  node.replaceChildren();
  add(node, kids);
  return node;
}

/* Like fill, but what is there stays: an element of the same kind at the same place, or with the same data-key,
 * gets the new text and attributes, so that focus, selection and a press of the mouse survive. Its listeners
 * are those of the first one: an element that has some has a key. What is in an element with data-own is its own. */
export function morph(node, ...kids) {
  const wanted = document.createDocumentFragment();
  add(wanted, kids);
  morphKids(node, [...wanted.childNodes]);
}

function morphKids(node, kids) {
  const keyed = new Map([...node.children].filter((n) => n.dataset.key).map((n) => [n.dataset.key, n]));
  let at = node.firstChild; /* the first that has no place yet */
  for (const kid of kids) {
    const key = kid.dataset?.key, old = key ? keyed.get(key) : at?.dataset?.key ? null : at;
    keyed.delete(key);
    if (old?.nodeName !== kid.nodeName) {
      node.insertBefore(kid, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else node.insertBefore(old, at);
    morphOne(old, kid);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function morphOne(old, kid) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== kid.data) old.data = kid.data;
    return;
  }
  for (const {name} of [...old.attributes]) if (!kid.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of kid.attributes) if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== kid.style.cssText) old.style.cssText = kid.style.cssText; /* the policy forbids the attribute */
  if (!('own' in old.dataset)) morphKids(old, [...kid.childNodes]);
}

/* Sets text only where it changes: no needless layout, no needless speech. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/* Says something to people who listen rather than look. */
let sayTimer = 0;
const toSay = [];
export function say(text) {
  toSay.push(text);
  if (sayTimer) return;
  sayTimer = setTimeout(() => {
    sayTimer = 0;
    document.getElementById('say').textContent = toSay.splice(0).slice(-4).join('. ');
  }, 400);
}

/* A sentence over the page; kind 'error' or 'info'. Empty text removes it. */
export function notice(text, kind = 'error', ...more) {
  const box = document.getElementById('notice');
  box.hidden = !text;
  box.className = `notice ${kind}`;
  if (text) fill(box, h('span', {}, text), more, h('button', {type: 'button', class: 'quiet', 'aria-label': 'Close this message', onclick: () => notice('')}, '×'));
}

/* Asks before an act. Resolves to the form's values, or null. */
export function ask(title, body, action, fields = []) {
  return new Promise((resolve) => {
    const inputs = fields.map((f) => [f.name, h('input', {type: f.type || 'text', name: f.name, value: f.value ?? '', step: f.step, required: f.required})]);
    const done = (value) => { dialog.close(); dialog.remove(); resolve(value); };
    const back = h('button', {type: 'button', onclick: () => done(null)}, 'Back');
    const form = h('form', {method: 'dialog', onsubmit: (e) => { e.preventDefault(); done(Object.fromEntries(inputs.map(([n, i]) => [n, i.value]))); }},
      h('h2', {id: 'asked'}, title), body && h('p', {}, body),
      inputs.map(([n, i], at) => h('label', {}, fields[at].label || n, i)),
      h('div', {class: 'row end'}, back, h('button', {type: 'submit', class: 'main'}, action)));
    const dialog = h('dialog', {'aria-labelledby': 'asked', oncancel: () => done(null)}, form);
    document.body.append(dialog);
    dialog.showModal();
    (inputs[0] ? inputs[0][1] : back).focus(); /* Enter by habit harms nothing */
  });
}
