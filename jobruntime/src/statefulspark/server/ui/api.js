// The read-only routes of the driver's API: the only file that uses the network, and only the origin of the page.

const ROOT = new URL("../v1/", import.meta.url);
const PATIENCE_MS = 10_000;

/** The token is kept here, in memory, and nowhere else. */
let token = null;
/** How far the driver's clock is ahead of this machine's. */
let aheadMs = 0;

export class TokenNeeded extends Error {}

export function useToken(text) {
  token = text;
}

export function hasToken() {
  return token !== null;
}

/** The time on the driver's clock, which every time of its answers is from. */
export function now() {
  return Date.now() + aheadMs;
}

/** Ask a route below /v1, with GET, and return its answer. Throws TokenNeeded, or an Error with a sentence. */
export async function ask(path) {
  const response = await fetch(new URL(path, ROOT), {
    cache: "no-store",
    headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    mode: "same-origin",
    redirect: "error",
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  noteClock(response);
  if (response.ok) return response.json();
  const refusal = await read(response);
  // A driver that has no token says so with another reason: there is none to ask for.
  throw refusal.reason === "Unauthorized" ? new TokenNeeded(refusal.message) : new Error(refusal.message);
}

function noteClock(response) {
  const told = Date.parse(response.headers.get("Date") ?? "");
  if (!Number.isNaN(told) && Math.abs(told - now()) > 2000) aheadMs = told - Date.now();
}

/** Return reason and message of a refusal; something between the page and the driver may have answered. */
async function read(response) {
  const unknown = { reason: "", message: `${response.status} ${response.statusText}` };
  try {
    return { ...unknown, ...(await response.json()) };
  } catch {
    return unknown;
  }
}
