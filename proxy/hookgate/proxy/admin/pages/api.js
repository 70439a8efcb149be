// Requests to the gateway's JSON API.

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The proof of the session. Unlike cookies, its storage is not visible to pages on other ports of this machine.
const KEY = "hookgate-proof";
let proof = kept();

/** Exchange the admin token for a session. Throws Failed. */
export const signIn = async (token) => begun(await post("sign-in", { token }));

const FLOW = "hookgate-sign-in";

/** Go to the identity provider, which sends the browser back to the page `sign-in`. Throws Failed. */
export async function goToProvider() {
  const { url, flow } = await post("sign-in/begin", {});
  try {
    localStorage.setItem(FLOW, flow); // which pages on other ports can neither read nor write, unlike cookies
  } catch {
    throw new Failed(0, "Signing in needs the browser's storage, which is switched off for this page.");
  }
  location.assign(url);
}

/** Exchange what the identity provider has put into the address for a session. Throws Failed. */
export async function signInByProvider(query) {
  const answer = { flow: localStorage.getItem(FLOW) };
  localStorage.removeItem(FLOW);
  for (const name of ["code", "state", "iss", "error"]) {
    if (query.has(name)) answer[name] = query.get(name);
  }
  begun(await post("sign-in/finish", answer));
}

function begun(session) {
  proof = session.proof;
  try {
    localStorage.setItem(KEY, proof);
  } catch {
    // a browser without storage: the session ends with the page
  }
}

/** Return the URL of the live events, for which a browser cannot set headers. */
export const liveAddress = () => `api/live${querystring({ proof })}`;

/** Return the proof of the session, for the addresses of downloads, for which a browser cannot set headers either. */
export const proofOf = () => proof;

/** Return the answer to a GET request below api/. Throws Failed. */
export const get = (path, query = {}) => ask(`${path}${querystring(query)}`, { headers: { "X-Hookgate-Panel": proof || "1" } });

/** Return the answer to a POST request below api/. Throws Failed. */
export const post = (path, body) =>
  ask(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-Hookgate-Panel": proof || "1" },
  });

/** Return a query string of the parameters that are not empty, with its question mark. */
export function querystring(query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new Failed(0, "The gateway does not answer. Is it still running?");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Failed(answer.status, body?.error?.message ?? `The gateway answered ${answer.status}.`);
  return body;
}
