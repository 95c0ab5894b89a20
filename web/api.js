/* Berth's addresses, relative to the page: so they work under any path prefix. */

let csrf = null;

export class ApiError extends Error {
  constructor(message, code, details) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

async function readError(answer) {
  const text = await answer.text();
  try {
    const doc = JSON.parse(text);
    return new ApiError(doc.error || doc.message || answer.statusText, answer.status, doc.details);
  } catch {
    return new ApiError(text.slice(0, 300) || answer.statusText || `status ${answer.status}`, answer.status);
  }
}

export async function request(method, path, body, options = {}) {
  const headers = {Accept: options.accept || 'application/json'};
  if (method !== 'GET' && csrf) headers['X-Berth-CSRF'] = csrf;
  if (body !== undefined) headers['Content-Type'] = options.type || 'application/json';
  let answer;
  try {
    answer = await fetch(path, {method, headers, body: body === undefined ? undefined : options.type ? body : JSON.stringify(body), signal: options.signal, cache: 'no-store', redirect: 'error'});
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new ApiError('Berth does not answer', 0);
  }
  if (!answer.ok) throw await readError(answer);
  return answer;
}

export const get = async (path, options) => (await request('GET', path, undefined, options)).json();
export const post = async (path, body, options) => (await request('POST', path, body ?? {}, options)).json();

/* Who we are to Berth: {user, admin, via, csrf, anonymous, assets, version}. */
export async function session() {
  const doc = await get('v1/page/session');
  csrf = doc.csrf;
  return doc;
}
export async function signIn(code) {
  const doc = await post('v1/page/session', {code});
  csrf = doc.csrf;
  return doc;
}
export const signOut = () => request('DELETE', 'v1/page/session');

export const query = (values) => {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(values)) if (v !== '' && v !== null && v !== undefined && v !== false) p.set(k, v);
  const text = p.toString();
  return text ? `?${text}` : '';
};
export const jobPath = (id, more = '') => `v1/queue/${encodeURIComponent(id)}${more}`;
