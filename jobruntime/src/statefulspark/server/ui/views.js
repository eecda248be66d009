// What each part of the page shows, from the answers of the API. No network and no state of its own.

import { partitions, sparkline, timeline } from "./charts.js";
import { element } from "./dom.js";
import { ago, bytes, clock, count, counted, milliseconds, moment, rate, seconds, words } from "./format.js";

/** Skew from which a person should look, and state from which it matters. */
const UNEVEN = 2;
const WORTH_A_LOOK_BYTES = 10_000_000;
const SHOWN_SNAPSHOTS = 20;
const NAME_LENGTH = 20;

const WAITING = {
  Starting: "The queries have not started yet.",
  Standby: "A standby runs no query until it is activated.",
};

export const STATES = {
  Standby: "Prepared to become the driver; it writes nothing.",
  Starting: "Claiming the job, restoring, starting Spark and the queries.",
  Running: "Every query runs.",
  Stopping: "The last batch ends, then the snapshot is taken.",
  Stopped: "All queries have ended on request.",
  Failed: "A query failed; the driver is about to end.",
  Fenced: "A newer driver owns the job; this one is about to end.",
};

const LOST = { Nothing: "of what was committed", Unknown: "the driver is finding out" };

/** Spark's names of operators, in words. */
const OPERATORS = {
  applyInPandasWithState: "keyed function",
  dedupe: "duplicates removed",
  dedupeWithinWatermark: "duplicates removed",
  flatMapGroupsWithState: "keyed function",
  operatorState: "function on the driver",
  sessionWindowStateStoreSaveExec: "session windows",
  stateStoreSave: "aggregation",
  symmetricHashJoin: "join",
  transformWithStateExec: "keyed function",
  transformWithStateInPandasExec: "keyed function",
  transformWithStateInPySparkExec: "keyed function",
};

/** The answers to the first questions, each a name, a value and what explains it. */
export function summary({ status, state, losses: told, now }) {
  if (status.standby !== undefined) return [];
  const checkpoint = status.lastCheckpoint;
  const size = state === null ? undefined : state.operators.reduce((sum, one) => sum + one.sizeBytes, 0);
  return [
    tile("Rate", rate(status.queries.reduce((sum, one) => sum + one.rowsPerSecond, 0)), "of the newest batches"),
    tile("Behind", ...behind(status.queries.flatMap((one) => one.sources ?? []))),
    checkpoint === undefined
      ? tile("Newest checkpoint", "none yet", "of this driver")
      : tile("Newest checkpoint", ago(checkpoint.completedAt, now), `number ${count(checkpoint.id)}, ${bytes(checkpoint.sizeBytes)} of files`),
    tile("State", state?.operators.length ? bytes(size) : "–", state?.operators.length ? counted(state.operators.length, "operator") : "none in a checkpoint yet"),
    tile("Lost if it ended now", verdict(told), LOST[told?.verdict] ?? "waiting for the answer"),
    tile("Driver", age(status.startedAt, now), `since its start, epoch ${count(status.epoch)}`),
  ];
}

function tile(name, value, explanation) {
  return element("li", {}, element("span", {}, name), element("strong", {}, value), element("small", {}, explanation));
}

function behind(sources) {
  const known = sources.map((one) => one.lagRows).filter((rows) => rows !== undefined);
  if (!sources.length) return ["–", "no batch measured yet"];
  if (!known.length) return ["unknown", "no source tells where it ends"];
  const rest = sources.length - known.length;
  return [counted(known.reduce((sum, rows) => sum + rows, 0), "row"), rest ? `${counted(rest, "source")} cannot tell` : "as of the newest batches"];
}

function verdict(told) {
  return told === null ? "–" : told.verdict === "Nothing" ? "Nothing" : "Not known yet";
}

export function queries({ status, batches, now }) {
  if (!status.queries.length) return empty(WAITING[status.state] ?? "This job has no query.");
  const known = new Map((batches?.queries ?? []).map((one) => [one.uid, one.batches]));
  return status.queries.map((query) => queryCard(query, known.get(query.uid) ?? [], now));
}

function queryCard(query, batches, now) {
  const running = query.batchSince === undefined ? "between batches" : `batch ${count(query.batchId + 1)} for ${age(query.batchSince, now)}${query.stage === undefined ? "" : `: ${query.stage}`}`;
  const lags = batches.map((one) => one.lagRows).filter((rows) => rows !== undefined);
  return element(
    "article",
    { class: "query" },
    element("header", {}, element("h3", {}, query.uid), badge(query.active ? "Running" : query.error ? "Failed" : "Stopped")),
    element("div", { class: "facts-and-charts" }, facts([
      ["Committed", query.batchId < 0 ? "no batch yet" : `batch ${count(query.batchId)}`],
      ["Last commit", query.lastCommitAt === undefined ? "none by this driver" : ago(query.lastCommitAt, now)],
      ["Now", query.active ? running : "not running"],
      ["Rows read", count(query.inputRows)],
      ["Restarts", count(query.restarts ?? 0)],
      ...(query.metrics ?? []).map((metric) => [element("span", { title: `${metric.kind} of ${metric.operator}` }, metricName(metric)), count(metric.value)]),
      ...(query.sources ?? []).map((source) => [element("span", { title: source.name }, shortened(source.name)), lag(source)]),
    ]), element(
      "div",
      { class: "charts" },
      chart("Rate", rate(query.rowsPerSecond), batches.map((one) => one.rowsPerSecond), rate),
      chart("Batch time", milliseconds(query.batchDurationMs), batches.map((one) => one.durationMs), milliseconds),
      lags.length ? chart("Behind", counted(lags.at(-1), "row"), lags, (rows) => counted(rows, "row")) : null,
    )),
  );
}

function metricName(metric) {
  return metric.partition === undefined ? metric.name : `${metric.name} (${metric.partition})`;
}

/** A name may be an address as long as a line: its end tells most. */
function shortened(name) {
  return name.length <= NAME_LENGTH ? name : `…${name.slice(1 - NAME_LENGTH)}`;
}

function lag(source) {
  if (source.lagRows === undefined) return element("span", { class: "quiet", title: "This source does not tell where it ends." }, "lag unknown");
  return source.lagRows === 0 ? "everything read" : `${counted(source.lagRows, "row")} behind`;
}

export function losses({ losses: told, now }) {
  return [
    element("p", { class: "verdict", "data-state": told.verdict === "Nothing" ? "Running" : "Starting" }, verdict(told)),
    told.sentences.map((sentence) => element("p", {}, sentence)),
    sinceCheckpoint(told, now),
  ];
}

function sinceCheckpoint(told, now) {
  if (!told.queries.length) return null;
  const since = told.checkpoint === undefined
    ? "Since the start, without a checkpoint yet"
    : `Since checkpoint ${count(told.checkpoint)}, ${ago(told.checkpointAt, now)}`;
  return [
    element("p", { class: "quiet" }, `${since}:`),
    facts([
      ...told.queries.map((query) => [query.uid, committed(query)]),
      ["Prepared", counted(told.pendingTransactions, "transaction")],
    ]),
  ];
}

function committed(query) {
  const rows = query.rows === undefined ? "" : `, ${counted(query.rows, "row")}`;
  const running = query.runningBatch === undefined ? "" : `; batch ${count(query.runningBatch)} is running`;
  return `${counted(query.batches, "batch")} committed${rows}${running}`;
}

const FAULTS = { Revision: "the revision: its code, image or settings", Surroundings: "its surroundings", Operator: "the operator" };

export function error({ status, now }) {
  const known = [status.lastError, status.lastFailure].filter((one) => one !== undefined);
  const newest = known.sort((one, other) => Date.parse(other.failedAt) - Date.parse(one.failedAt))[0];
  const ending = ["Failed", "Fenced"].includes(status.state) && status.message;
  if (newest === undefined) return ending ? trouble(status.message) : empty("No query and no checkpoint has failed in this driver.");
  const what = newest.query === undefined ? `Snapshot ${newest.id ?? ""}` : newest.query;
  return [
    element("p", {}, element("strong", {}, newest.reason), ` · ${what} · ${ago(newest.failedAt, now)}`),
    trouble(newest.message),
    frames(newest.frames ?? []),
    newest.fault === undefined ? null : element("p", { class: "quiet" }, `Fault of ${FAULTS[newest.fault] ?? newest.fault}.`),
    newest.isRepeated ? element("p", { class: "quiet" }, "The driver has started the query again.") : null,
    ending && status.message !== newest.message ? trouble(status.message) : null,
  ];
}

function frames(calls) {
  if (!calls.length) return null;
  const shown = calls.map((call) =>
    element(
      "li",
      {},
      element("code", {}, `${call.file}:${call.line} in ${call.function}`),
      call.source === undefined ? null : element("pre", {}, call.source),
    ),
  );
  return element("ol", { class: "frames", "aria-label": "Calls in the job's code, the innermost last" }, shown);
}

export function snapshots({ checkpoints, status, now }) {
  const known = merged(checkpoints);
  const { counts } = checkpoints;
  const totals = `${count(counts.completed)} completed, ${count(counts.failed)} failed, ${count(counts.inProgress)} in progress since this driver started.`;
  if (!known.length) return [element("p", {}, totals), restored(checkpoints), kept(status), empty("No checkpoint or savepoint yet.")];
  return [
    element("p", {}, totals),
    restored(checkpoints),
    kept(status),
    pictures(checkpoints.history, now),
    table("Checkpoints and savepoints, newest first", ["Snapshot", "Took", "Size", "Of it new", "Why"], known.map(snapshotRow)),
  ];
}

/** Two pictures of the snapshots that this driver remembers, over the same time. */
function pictures(history, now) {
  if (!history.length) return null;
  const drawn = [
    ["Duration", (one) => one.endToEndMs, milliseconds],
    ["Size", (one) => one.sizeBytes, bytes],
  ].map(([what, value, format]) => {
    const top = format(Math.max(...history.map((one) => value(one) ?? 0)));
    return element(
      "figure",
      {},
      element("figcaption", {}, element("span", {}, what), element("span", {}, `up to ${top}`)),
      timeline(history, now, { what, value, format }),
    );
  });
  const oldest = history.map((one) => one.triggeredAt).sort()[0];
  return [
    element("div", { class: "charts" }, drawn),
    element(
      "p",
      { class: "legend" },
      element("span", {}, `${clock(oldest)} to now`),
      ["checkpoint", "savepoint", "failed"].map((kind) => element("span", { class: `key ${kind}` }, kind)),
    ),
  ];
}

function restored(checkpoints) {
  const from = checkpoints.latest.restored;
  return from === undefined ? null : element("p", { class: "quiet" }, `Started from ${from.restoredFrom}, ${moment(from.restoredAt)}.`);
}

/** What the savepoints in the job's folder cost, whoever has taken them. */
function kept({ files }) {
  if (!files?.savepoints) return null;
  const many = files.savepoints === 1 ? "1 savepoint is" : `${count(files.savepoints)} savepoints are`;
  return element("p", {}, `${many} kept in the folder of the job, ${bytes(files.savepointBytes)}.`);
}

function merged({ history, latest }) {
  const byId = new Map([...history, latest.completed, latest.savepoint, latest.failed].filter(Boolean).map((one) => [one.id, one]));
  return [...byId.values()].sort((one, other) => other.id - one.id).slice(0, SHOWN_SNAPSHOTS);
}

function snapshotRow(one) {
  const outcome = one.state === "InProgress" ? "in progress" : one.state.toLowerCase();
  return [
    [
      element("strong", {}, `${one.kind} ${count(one.id)}`),
      element("small", { "data-state": one.state, title: one.message }, `${outcome}${one.reason === undefined ? "" : `: ${words(one.reason)}`}`),
      element("small", {}, clock(one.triggeredAt)),
    ],
    milliseconds(one.endToEndMs),
    bytes(one.sizeBytes),
    bytes(one.incrementalSizeBytes),
    one.isStop ? "Stop" : one.trigger,
  ];
}

export function sizes({ state }) {
  if (!state.operators.length) return empty("No stateful operator has state in a checkpoint yet.");
  return [
    element("p", { class: "quiet" }, `Files of ${state.snapshot ?? "the newest checkpoint"}; a partition's files hold the key groups that are in it.`),
    element("div", { class: "cards" }, state.operators.map(operatorCard)),
  ];
}

function operatorCard(operator) {
  const isUneven = operator.skew >= UNEVEN && operator.sizeBytes >= WORTH_A_LOOK_BYTES;
  const largest = [...operator.partitions].sort((one, other) => other.sizeBytes - one.sizeBytes)[0];
  return element(
    "article",
    {},
    element("header", {}, element("h3", {}, operator.uid), element("span", {}, bytes(operator.sizeBytes))),
    element("div", { class: "facts-and-charts" }, facts([
      ["Query", operator.query],
      ["Kind", element("span", { title: operator.name }, OPERATORS[operator.name] ?? operator.name)],
      ...(operator.partitions.length ? [["Partitions", count(operator.partitions.length)]] : []),
      ...(operator.maxParallelism === undefined ? [] : [["Key groups", groups(operator)]]),
      ...(largest === undefined ? [] : [["Largest", `partition ${largest.partition}, ${bytes(largest.sizeBytes)}`]]),
      ...(operator.skew === undefined ? [] : [["Skew", `${operator.skew} × the average${isUneven ? ": uneven keys" : ""}`]]),
    ]),
    operator.partitions.length
      ? element("figure", {}, element("figcaption", {}, element("span", {}, "Size by partition")), partitions(operator, isUneven))
      : null),
  );
}

function groups(operator) {
  const counts = operator.partitions.map((one) => one.keyGroups ?? 0);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const each = least === most ? count(least) : `${count(least)} to ${count(most)}`;
  return `${count(operator.maxParallelism)}, ${each} in a partition; group g is in partition g mod ${operator.partitions.length}`;
}

export function sinks({ status }) {
  if (!status.sinks.length && status.state in WAITING) return empty(WAITING[status.state]);
  if (!status.sinks.length) return empty("No sink with two-phase commit: this job's output is written by Spark's own sinks.");
  const rows = status.sinks.map((sink) => [
    sink.uid,
    sink.query,
    sink.committedBatch === undefined ? "nothing yet" : `batch ${count(sink.committedBatch)}`,
    count(sink.pendingTransactions),
    sink.retrying ?? "",
  ]);
  return table("Sinks", ["Sink", "Query", "Visible through", "Prepared, waiting", "Retrying"], rows);
}

export function driver({ status, checkpoints, now }) {
  const restarts = status.queries.reduce((sum, query) => sum + (query.restarts ?? 0), 0);
  const failures = Object.entries(checkpoints?.failures ?? {}).map(([reason, times]) => `${words(reason)}: ${count(times)}`);
  return facts([
    ["Job", `${status.namespace}/${status.job}`],
    ["Epoch", status.epoch ? `${count(status.epoch)}: drivers of this job so far` : "none, a standby claims none"],
    ["Started", `${ago(status.startedAt, now)}, ${moment(status.startedAt)}`],
    ["From", status.restoredFrom ?? origin(status)],
    ...(status.generation ? [["Generation", `${count(status.generation)}: folders of files so far`]] : []),
    ...(status.revision === undefined ? [] : [["Revision", status.revision]]),
    ["Query restarts", `${count(restarts)} in this driver`],
    ["Failed snapshots", failures.join(", ") || "none in this driver"],
    ...(status.fallback ? [["Older state", status.fallback]] : []),
    ...(status.otherSpark ? [["Spark", status.otherSpark]] : []),
    ...(status.keptAside ? [["Kept aside", status.keptAside]] : []),
    ...(status.restoreSkipped ? [["Restore", status.restoreSkipped]] : []),
  ]);
}

function origin({ state, epoch }) {
  if (state === "Starting") return "not known yet";
  return epoch ? "empty state" : "–";
}

export function standby({ status, now }) {
  const told = status.standby;
  if (told === undefined) return empty("This process is the driver. A standby has a page of its own, at its own pod.");
  return [
    badge(told.state),
    facts([
      ...(status.message === undefined ? [] : [["Now", status.message]]),
      ["Compared with", told.comparedWith ?? "nothing yet, or empty state"],
      ["Ready", told.readyAt === undefined ? "not yet" : ago(told.readyAt, now)],
      ["Warm queries", (told.warmedQueries ?? []).join(", ") || "none yet"],
    ]),
    told.message === undefined ? null : trouble(`${told.reason}: ${told.message}`),
  ];
}

function chart(title, newest, values, format) {
  const range = values.length ? `up to ${format(Math.max(...values))}` : "no batch yet";
  return element(
    "figure",
    {},
    element("figcaption", {}, element("span", {}, title), element("strong", {}, newest)),
    sparkline(values, title, format),
    element("p", { class: "legend" }, range),
  );
}

function facts(pairs) {
  return element("dl", {}, pairs.map(([term, description]) => [element("dt", {}, term), element("dd", {}, description)]));
}

function table(label, head, rows) {
  return element(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": label },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, head.map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map((cell) => element("td", {}, cell))))),
    ),
  );
}

function badge(state) {
  return element("span", { class: "badge", "data-state": state }, state);
}

function trouble(message) {
  return element("p", { class: "trouble" }, message);
}

function empty(sentence) {
  return element("p", { class: "empty" }, sentence);
}

function age(since, now) {
  return seconds((now - Date.parse(since)) / 1000);
}
