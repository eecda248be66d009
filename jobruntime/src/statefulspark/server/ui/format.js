// Numbers, sizes and times as people read them. Pure.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86400;

export function count(number) {
  return COUNT.format(number);
}

export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
}

export function rate(rowsPerSecond) {
  return `${rowsPerSecond < 100 ? SHORT.format(rowsPerSecond) : count(rowsPerSecond)} rows/s`;
}

export function bytes(size) {
  if (size === undefined) return "–";
  let [value, unit] = [size, 0];
  while (value >= 999.5 && unit < UNITS.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${SHORT.format(value)} ${UNITS[unit]}`;
}

export function milliseconds(duration) {
  if (duration === undefined) return "–";
  return duration < 1000 ? `${count(duration)} ms` : seconds(duration / 1000);
}

export function seconds(duration) {
  const whole = Math.max(0, Math.round(duration));
  if (whole < 10 && duration > 0 && duration < 9.95) return `${duration.toFixed(1)} s`;
  if (whole < MINUTE_S) return `${whole} s`;
  if (whole < HOUR_S) return `${Math.floor(whole / MINUTE_S)} min ${whole % MINUTE_S} s`;
  if (whole < DAY_S) return `${Math.floor(whole / HOUR_S)} h ${Math.floor((whole % HOUR_S) / MINUTE_S)} min`;
  return `${Math.floor(whole / DAY_S)} d ${Math.floor((whole % DAY_S) / HOUR_S)} h`;
}

export function ago(moment, now) {
  const whole = Math.max(0, Math.round((now - Date.parse(moment)) / 1000));
  return `${whole < MINUTE_S ? `${whole} s` : seconds(whole)} ago`;
}

export function clock(moment) {
  return new Date(moment).toISOString().slice(11, 19);
}

export function moment(text) {
  return `${new Date(text).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A reason that is a constant of Flink's, such as CHECKPOINT_EXPIRED, as words; others stay as they are. */
export function words(reason) {
  return /^[A-Z_]+$/.test(reason) ? reason.toLowerCase().replaceAll("_", " ") : reason;
}
