// Small pictures as SVG. Each says in words what it shows, for those who do not see it.

import { drawing } from "./dom.js";
import { bytes, clock, count, milliseconds } from "./format.js";

const SLOTS = 60;
const WIDTH = 600;
const HEIGHT = 40;
const MIN_BAR = 5;
const WIDEST_BAR = 60;

/** A line of the newest values; its right end is the newest, so it does not stretch while values are few. */
export function sparkline(values, what, format) {
  const shown = values.slice(-SLOTS);
  const top = Math.max(...shown, 0) || 1;
  const step = WIDTH / (SLOTS - 1);
  // One value alone is a short line: a line of one point is not drawn.
  const drawn = shown.length === 1 ? [shown[0], shown[0]] : shown;
  const points = drawn.map((value, index) => {
    const x = WIDTH - (drawn.length - 1 - index) * step;
    return `${x.toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 6)).toFixed(1)}`;
  });
  const left = WIDTH - (drawn.length - 1) * step;
  const told = shown.length
    ? `${what} of ${shown.length} batches: newest ${format(shown.at(-1))}, from ${format(Math.min(...shown))} to ${format(top)}`
    : `${what}: no batch yet`;
  return drawing(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": told },
    drawing("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
    drawing("polygon", { points: points.length ? `${left.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}` : "" }),
    drawing("polyline", { points: points.join(" ") }),
  );
}

/** Snapshots by time, from the oldest to now: as wide as they took, as high as one of their numbers. */
export function timeline(snapshots, now, { what, value, format }) {
  const begins = snapshots.map((one) => Date.parse(one.triggeredAt));
  const first = Math.min(...begins, now - 1000);
  const scale = WIDTH / (now - first);
  const top = Math.max(...snapshots.map((one) => value(one) ?? 0), 1);
  const bars = snapshots.map((one, index) => {
    const took = one.endToEndMs ?? now - begins[index];
    const width = Math.max(MIN_BAR, Math.min(WIDTH, took * scale));
    // What has no number is drawn low, and is there.
    const height = Math.max(MIN_BAR, ((value(one) ?? 0) / top) * (HEIGHT - 4));
    return drawing(
      "rect",
      {
        class: `${one.kind.toLowerCase()} ${one.state}`,
        x: Math.max(0, Math.min((begins[index] - first) * scale, WIDTH - width)).toFixed(1),
        y: (HEIGHT - 2 - height).toFixed(1),
        width: width.toFixed(1),
        height: height.toFixed(1),
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
      "aria-label": `${what} of ${count(snapshots.length)} snapshots in time, up to ${format(top)}; the table has their numbers`,
    },
    drawing("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
    bars,
  );
}

/** One bar for each partition of an operator, the largest marked. */
export function partitions(operator, isUneven) {
  const top = Math.max(...operator.partitions.map((one) => one.sizeBytes), 1);
  const width = Math.min(WIDTH / operator.partitions.length, WIDEST_BAR);
  const bars = operator.partitions.map((one, index) => {
    const height = Math.max(1, (one.sizeBytes / top) * HEIGHT);
    const groups = one.keyGroups === undefined ? "" : `, ${count(one.keyGroups)} key groups`;
    return drawing(
      "rect",
      {
        class: one.sizeBytes === top && isUneven ? "largest" : undefined,
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
