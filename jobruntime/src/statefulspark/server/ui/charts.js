// Small pictures as SVG. Each says in words what it shows, for those who do not see it.

import { drawing } from "./dom.js";
import { bytes, clock, count, milliseconds } from "./format.js";

const SLOTS = 60;
const WIDTH = 600;
const HEIGHT = 40;
const MIN_BAR = 4;

/** A line of the newest values; its right end is the newest, so it does not stretch while values are few. */
export function sparkline(values, what, format) {
  const shown = values.slice(-SLOTS);
  const top = Math.max(...shown, 0) || 1;
  const step = WIDTH / (SLOTS - 1);
  const points = shown.map((value, index) => {
    const x = WIDTH - (shown.length - 1 - index) * step;
    return `${x.toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`;
  });
  const told = shown.length
    ? `${what} of ${shown.length} batches: newest ${format(shown.at(-1))}, from ${format(Math.min(...shown))} to ${format(top)}`
    : `${what}: no batch yet`;
  return drawing(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": told },
    drawing("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
    drawing("polyline", { points: points.join(" ") }),
  );
}

/** Snapshots by time, from the oldest to now; as wide as they took. */
export function timeline(snapshots, now) {
  const begins = snapshots.map((one) => Date.parse(one.triggeredAt));
  const first = Math.min(...begins, now - 1000);
  const scale = WIDTH / (now - first);
  const bars = snapshots.map((one, index) => {
    const took = one.endToEndMs ?? now - begins[index];
    const width = Math.max(MIN_BAR, Math.min(WIDTH, took * scale));
    return drawing(
      "rect",
      {
        class: `${one.kind} ${one.state}`,
        x: Math.min((begins[index] - first) * scale, WIDTH - width).toFixed(1),
        y: one.kind === "savepoint" ? 2 : 20,
        width: width.toFixed(1),
        height: 16,
        rx: 2,
      },
      drawing("title", {}, `${one.kind} ${one.id}, ${clock(one.triggeredAt)}: ${milliseconds(one.endToEndMs)}, ${bytes(one.sizeBytes)}`),
    );
  });
  return drawing(
    "svg",
    {
      class: "timeline",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${count(snapshots.length)} snapshots in time; the table below has their numbers`,
    },
    drawing("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2 }),
    bars,
  );
}

/** One bar for each partition of an operator, the largest marked. */
export function partitions(operator) {
  const top = Math.max(...operator.partitions.map((one) => one.sizeBytes), 1);
  const width = WIDTH / operator.partitions.length;
  const bars = operator.partitions.map((one, index) => {
    const height = Math.max(1, (one.sizeBytes / top) * HEIGHT);
    const groups = one.keyGroups === undefined ? "" : `, ${count(one.keyGroups)} key groups`;
    return drawing(
      "rect",
      {
        class: one.sizeBytes === top && operator.skew > 1 ? "largest" : undefined,
        x: (index * width + width * 0.1).toFixed(2),
        y: (HEIGHT - height).toFixed(1),
        width: (width * 0.8).toFixed(2),
        height: height.toFixed(1),
      },
      drawing("title", {}, `Partition ${one.partition}: ${bytes(one.sizeBytes)}${groups}`),
    );
  });
  return drawing(
    "svg",
    {
      class: "bars",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `State of ${operator.uid} in ${operator.partitions.length} partitions, the largest ${bytes(top)}`,
    },
    bars,
  );
}
