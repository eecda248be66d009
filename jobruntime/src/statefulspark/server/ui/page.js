// The page: asks the driver again and again, shows what it answers, and says so when it does not answer.
//
// A question about the status waits at the driver until there are news, for a second at most; so the page hears why a driver
// ends before it is gone. What else is shown is asked once a second, and not while nobody looks.

import { ask, hasToken, now, TokenNeeded, useToken } from "./api.js";
import { show } from "./dom.js";
import { clock } from "./format.js";
import * as views from "./views.js";

const AGAIN_MS = 2000;
const PACE_MS = 1000;
const AT_ONCE_MS = 250;
const ENDED = ["Failed", "Fenced", "Stopped"];

const model = { status: null, batches: null, checkpoints: null, state: null, losses: null };
const seen = { answeredAt: null, lostAt: null, why: "", stateOf: null, isTokenAsked: false };

function part(id) {
  return document.getElementById(id);
}

function pause(duration) {
  return new Promise((resolve) => setTimeout(resolve, duration));
}

/** Wait until the page is looked at. */
function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", () => resolve(), { once: true }));
}

async function watchStatus() {
  for (;;) {
    await visible();
    const began = performance.now();
    const before = model.status;
    try {
      answered(await ask(before === null || seen.lostAt !== null ? "status" : "status?waitSeconds=1"));
    } catch (error) {
      await failed(error);
      continue;
    }
    // A proxy that answers by itself does not wait: do not ask it without end.
    const isNews = before === null || before.state !== model.status.state;
    if (!isNews && performance.now() - began < AT_ONCE_MS) await pause(PACE_MS);
  }
}

async function watchDetails() {
  for (;;) {
    await visible();
    if (model.status !== null && seen.lostAt === null && !seen.isTokenAsked) await lookCloser();
    await pause(PACE_MS);
  }
}

/** Ask for everything else; what fails here is told by the question about the status. */
async function lookCloser() {
  const answers = await Promise.allSettled([ask("batches"), ask("checkpoints"), ask("losses"), ...stateIfChanged()]);
  const [batches, checkpoints, losses, state] = answers.map((one) => (one.status === "fulfilled" ? one.value : null));
  model.batches = batches ?? model.batches;
  model.checkpoints = checkpoints ?? model.checkpoints;
  model.losses = losses ?? model.losses;
  if (state) {
    model.state = state;
    seen.stateOf = newestCheckpoint();
  }
  render();
}

function newestCheckpoint() {
  return `${model.status.epoch}/${model.status.lastCheckpoint?.id}/${model.status.queries.length}`;
}

function stateIfChanged() {
  return seen.stateOf === newestCheckpoint() ? [] : [ask("state")];
}

function answered(status) {
  if (model.status !== null && model.status.epoch !== status.epoch) {
    Object.assign(model, { batches: null, checkpoints: null, state: null, losses: null });
  }
  model.status = status;
  Object.assign(seen, { answeredAt: now(), lostAt: null, isTokenAsked: false });
  part("access").hidden = true;
  render();
}

async function failed(error) {
  if (error instanceof TokenNeeded) {
    await tokenGiven();
    return;
  }
  seen.lostAt ??= now();
  seen.why = error.name === "TimeoutError" ? "it took longer than 10 s" : error.message;
  render();
  await pause(AGAIN_MS);
}

/** Ask the person for the token, and wait until it is given. */
function tokenGiven() {
  seen.isTokenAsked = true;
  document.body.dataset.connection = "token";
  show(part("connection"), hasToken() ? "The driver refused the token: it is of another job, or was changed." : "The driver asks for its token.");
  const form = part("access");
  if (form.hidden) {
    form.hidden = false;
    part("token").focus();
  }
  return new Promise((resolve) => {
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        useToken(part("token").value.trim());
        part("token").value = "";
        resolve();
      },
      { once: true },
    );
  });
}

function render() {
  renderConnection();
  if (model.status === null) return;
  const given = { ...model, now: now() };
  const title = `${model.status.namespace}/${model.status.job}`;
  const isSilent = seen.lostAt !== null && !ENDED.includes(model.status.state);
  document.title = `${seen.lostAt === null ? model.status.state : "No answer"} · ${title}`;
  show(part("job"), title);
  show(part("state"), isSilent ? "No answer" : model.status.state);
  part("state").dataset.state = isSilent ? "Unknown" : model.status.state;
  document.body.dataset.role = model.status.standby === undefined ? "driver" : "standby";
  for (const id of ["summary", "queries", "error", "sinks", "driver", "standby"]) show(part(id), views[id](given));
  if (model.checkpoints !== null) show(part("snapshots"), views.snapshots(given));
  if (model.state !== null) show(part("sizes"), views.sizes(given));
  if (model.losses !== null) show(part("losses"), views.losses(given));
}

function renderConnection() {
  const isLost = seen.lostAt !== null;
  document.body.dataset.connection = isLost ? "lost" : "answering";
  show(part("connection"), isLost ? lostSentence() : livingSentence());
}

function livingSentence() {
  const { state, message } = model.status;
  return message && !ENDED.includes(state) ? message : views.STATES[state] ?? "";
}

function lostSentence() {
  if (model.status === null) return `The driver does not answer (${seen.why}). Trying again every ${AGAIN_MS / 1000} s.`;
  const shown = `What is shown is of ${clock(new Date(seen.answeredAt))} UTC. Trying again every ${AGAIN_MS / 1000} s.`;
  if (ENDED.includes(model.status.state)) return `The driver has ended: ${model.status.message ?? model.status.state} ${shown}`;
  return `The driver does not answer since ${clock(new Date(seen.lostAt))} UTC: it has ended, or cannot be reached. ${shown}`;
}

watchStatus();
watchDetails();
