// What is asked of the admin port. A token is kept for as long as the tab is open, and goes nowhere but to this server.

const KEPT = "statehold-token";

/** A request that did not do what it was for, and what to do about it. */
export class ApiError extends Error {
  /**
   * @param {number} status 0: nothing answered
   * @param {string} words
   */
  constructor(status, words) {
    super(words);
    this.status = status;
    this.next = whatNext(status, words);
  }
}

/**
 * @param {number} status
 * @param {string} words
 */
function whatNext(status, words) {
  switch (status) {
    case 0:
      return "Is the server running? The page goes on asking, and shows what is new when it answers.";
    case 401:
      return "Press Token at the top and paste one; `statehold admin-token` makes one for the file of admin.tokens.";
    case 403:
      return words.includes("without a token")
        ? "Set admin.tokens to a file and add a token of the scope write to it: without one nobody can change anything."
        : "Press Token at the top and use a token of the scope write.";
    case 404:
      return "It may have ended or moved in the meantime, or another node has it. Go back to the list.";
    case 421:
      return "Use the address as it is in the settings, or add this name to admin.host_names.";
    case 503:
      return "The node is starting, stopping or busy. Try again in a moment; its log says more.";
    default:
      return "";
  }
}

/** Called when a token is missing or wrong. @type {() => void} */
let onUnauthorized = () => {};

/** @param {() => void} listener */
export function whenUnauthorized(listener) {
  onUnauthorized = listener;
}

export function token() {
  return sessionStorage.getItem(KEPT) ?? "";
}

/** @param {string} value */
export function setToken(value) {
  if (value) sessionStorage.setItem(KEPT, value);
  else sessionStorage.removeItem(KEPT);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 */
async function ask(method, path, body) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (method !== "GET") headers["content-type"] = "application/json";
  /** @type {Response} */
  let response;
  try {
    const sent = body === undefined ? null : JSON.stringify(body);
    response = await fetch(path, {
      method,
      headers,
      body: sent,
      signal: AbortSignal.timeout(10_000),
      cache: "no-store",
    });
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new ApiError(0, late ? "The server did not answer within 10 seconds." : "The server cannot be reached.");
  }
  if (response.status === 401) onUnauthorized();
  return response;
}

/** @param {Response} response */
async function refused(response) {
  const said = (await response.text()).trim();
  let words = said;
  try {
    const object = JSON.parse(said);
    words = object.error ?? object.refused ?? said;
  } catch {
    // It is text.
  }
  return new ApiError(response.status, words || `The server answered with ${response.status}.`);
}

/**
 * A page as text, and its status, also if that is no success: `/readyz` says why in its body.
 * @param {string} path
 */
export async function page(path) {
  const response = await ask("GET", path);
  return { status: response.status, text: await response.text() };
}

/**
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [query]
 * @returns {Promise<any>}
 */
export async function get(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const asked = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  const response = await ask("GET", asked ? `${path}?${asked}` : path);
  if (!response.ok) throw await refused(response);
  const type = response.headers.get("content-type") ?? "";
  return type.startsWith("application/json") ? response.json() : response.text();
}

/**
 * What changes something.
 * @param {"POST" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function change(method, path, body) {
  const response = await ask(method, path, body);
  if (!response.ok) throw await refused(response);
  const said = await response.text();
  return said ? JSON.parse(said) : {};
}
