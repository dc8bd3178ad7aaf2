/** Times as people read them. Nanoseconds are bigint, so that every digit is right. */

const UNITS: [bigint, string][] = [
  [1_000_000_000n, "s"],
  [1_000_000n, "ms"],
  [1_000n, "μs"],
  [1n, "ns"],
];

export const UNIT_NS: Record<string, bigint> = { s: 1_000_000_000n, m: 1_000_000n, u: 1_000n, n: 1n };

const abs = (value: bigint) => (value < 0n ? -value : value);

function unitOf(ns: bigint): [bigint, string] {
  return UNITS.find(([scale]) => abs(ns) >= scale) ?? UNITS[0]!;
}

function decimal(ns: bigint, scale: bigint, decimals: number): string {
  const whole = `${ns < 0n ? "-" : ""}${abs(ns) / scale}`;
  if (decimals === 0) return whole;
  const rest = ((abs(ns) % scale) * 10n ** BigInt(decimals)) / scale;
  return `${whole}.${rest.toString().padStart(decimals, "0")}`;
}

/** To the nanosecond: `1.408123 ms`. */
export function exact(ns: bigint): string {
  const [scale, unit] = unitOf(ns);
  const digits = scale.toString().length - 1;
  const text = decimal(ns, scale, digits);
  return `${digits ? text.replace(/\.?0+$/, "") : text} ${unit}`;
}

const NARROW = "\u202f"; // a space at which no line breaks
/** Made once: a number that formats itself makes another one each time. */
const DIGITS = new Intl.NumberFormat("en");

/** With so many significant digits: `1.41 ms`, `49.8 min`. */
export function duration(ns: bigint, digits = 3): string {
  const long = LONG_UNITS.find(([from]) => abs(ns) >= from);
  const [scale, unit] = long ? [long[1], long[2]] : unitOf(ns);
  if (ns === 0n || scale === 1n) return `${ns}${NARROW}ns`;
  const whole = (abs(ns) / scale).toString().length;
  const decimals = Math.max(0, digits - whole);
  const power = 10n ** BigInt(decimals);
  const rounded = (abs(ns) * power + scale / 2n) / scale;
  // 999.6 μs has one digit more than asked for once it is rounded
  if (rounded >= 1000n * power && scale < UNITS[0]![0]) return duration(ns < 0n ? -scale * 1000n : scale * 1000n, digits);
  const text = decimal(ns < 0n ? -rounded : rounded, power, decimals);
  return `${text}${NARROW}${unit}`;
}

/** Points in time as far apart as this need nanoseconds. */
const NARROW_NS = 100_000n;

/** The ends of a range, as exact as its length requires. */
export function range(from: bigint, to: bigint): string {
  const digits = to - from < NARROW_NS ? 9 : 6;
  return `${instant(from, digits)} to ${instant(to, digits)}`;
}

/** A point in time in seconds, with its digits in groups: `1.208 522 s`. */
export function instant(ns: bigint, digits: 6 | 9 = 6): string {
  const text = decimal(ns, UNITS[0]![0], digits);
  const point = text.length - digits;
  // the point itself is the character before
  const whole = text.slice(0, point).replace(/(\d)(?=(\d{3})+\.$)/g, `$1${NARROW}`);
  return `${whole}${text.slice(point).replace(/(\d{3})(?=\d)/g, `$1${NARROW}`)}${NARROW}s`;
}

/** A share of 1 with one decimal: `12.3 %`, `< 0.1 %`. */
export function share(part: number): string {
  return part > 0 && part < 0.0005 ? `< 0.1${NARROW}%` : `${(part * 100).toFixed(1)}${NARROW}%`;
}

/** A count in groups of three digits: `1 234 567`. */
export function grouped(count: number): string {
  return DIGITS.format(count).replaceAll(",", NARROW);
}

/** With three decimals, rounded: `1.408 ms`. */
export function short(ns: bigint): string {
  const [scale, unit] = unitOf(ns);
  if (scale === 1n) return `${ns} ns`;
  const rounded = ((abs(ns) * 1000n + scale / 2n) / scale) * (scale / 1000n || 1n);
  return `${decimal(ns < 0n ? -rounded : rounded, scale, 3)} ${unit}`;
}

/** Nanoseconds since 1970 as UTC, to the nanosecond. */
export function utc(ns: bigint): string {
  const seconds = (ns - (((ns % UNITS[0]![0]) + UNITS[0]![0]) % UNITS[0]![0])) / UNITS[0]![0];
  const moment = new Date(Number(seconds) * 1000);
  if (Number.isNaN(moment.getTime()) || moment.getUTCFullYear() > 9999) {
    return `Epoch + ${exact(ns)}`;
  }
  const rest = (ns - seconds * UNITS[0]![0]).toString().padStart(9, "0");
  return `${moment.toISOString().slice(0, 19).replace("T", " ")}.${rest} UTC`;
}

export interface Ticks {
  /** What the labels add to; empty if they are whole times. */
  base: string;
  marks: { ns: bigint; label: string }[];
}

const MINUTE = 60n * UNITS[0]![0];
const HOUR = 60n * MINUTE;
const DAY = 24n * HOUR;
/** From how long on a time is written in a unit: seconds have three digits. */
const LONG_UNITS: [from: bigint, scale: bigint, unit: string][] = [
  [DAY, DAY, "d"],
  [HOUR, HOUR, "h"],
  [1000n * UNITS[0]![0], MINUTE, "min"],
];
const LONG_STEPS = [
  ...[1n, 2n, 5n, 10n, 15n, 30n].map((count) => count * MINUTE),
  ...[1n, 2n, 3n, 6n, 12n].map((count) => count * HOUR),
  ...[1n, 2n, 5n, 10n, 20n, 50n, 100n, 200n, 500n, 1000n, 2000n, 5000n, 10000n, 20000n].map(
    (count) => count * DAY,
  ),
];

function step(span: bigint, most: bigint): bigint {
  for (let decade = 1n; decade <= 10n * UNITS[0]![0]; decade *= 10n) {
    for (const digit of [1n, 2n, 5n]) {
      if (digit * decade * most >= span && digit * decade < MINUTE) return digit * decade;
    }
  }
  return LONG_STEPS.find((long) => long * most >= span) ?? span;
}

/** Round ticks in [start, end], at most `most` + 1; the same rule as views/axis.py. */
export function ticks(start: bigint, end: bigint, most: number): Ticks {
  const width = end - start;
  const by = step(width > 0n ? width : 1n, BigInt(Math.max(1, most)));
  const marks: { ns: bigint; label: string }[] = [];
  let first = (start / by) * by;
  if (first < start) first += by;
  for (let ns = first; ns <= end; ns += by) marks.push({ ns, label: "" });
  if (by >= MINUTE) {
    for (const mark of marks) mark.label = clock(mark.ns, by);
    return { base: "", marks };
  }
  const largest = abs(start) > abs(end) ? abs(start) : abs(end);
  let [scale, unit] = UNITS.find(([size]) => largest >= size) ?? UNITS[3]!;
  let decimals = 0;
  while ((by * 10n ** BigInt(decimals)) % scale) decimals++;
  if ((largest / scale).toString().length + decimals <= 7) {
    for (const mark of marks) mark.label = `${decimal(mark.ns, scale, decimals)} ${unit}`;
    return { base: "", marks };
  }
  [scale, unit] = UNITS.find(([size]) => by >= size)!;
  const base = (start / (1000n * scale)) * 1000n * scale;
  for (const mark of marks) mark.label = `+${(mark.ns - base) / scale} ${unit}`;
  return { base: exact(base), marks };
}

/** Round ticks in [start, end], ns since 1970 in UTC; the same rule as views/axis.py. */
export function wallTicks(start: bigint, end: bigint, most: number): Ticks {
  const by = step(end > start ? end - start : 1n, BigInt(Math.max(1, most)));
  const second = UNITS[0]![0];
  let decimals = 0;
  while ((by * 10n ** BigInt(decimals)) % second) decimals++;
  const marks: Ticks["marks"] = [];
  let first = (start / by) * by;
  if (first < start) first += by;
  for (let ns = first; ns <= end; ns += by) {
    const text = utc(ns);
    if (text.startsWith("Epoch")) return ticks(start, end, most);
    const date = text.slice(0, 10);
    const time = text.slice(11, by >= MINUTE ? 16 : 19 + (decimals ? 1 + decimals : 0));
    marks.push({ ns, label: by >= DAY ? date : marks.length ? time : `${date} ${time}` });
  }
  return { base: "", marks };
}

function clock(ns: bigint, by: bigint): string {
  const days = abs(ns) / DAY;
  const hours = (abs(ns) % DAY) / HOUR;
  const minutes = (abs(ns) % HOUR) / MINUTE;
  const parts = days ? [`${days} d`] : [];
  if (by < DAY && (hours || (days && minutes))) parts.push(`${hours} h`);
  if (by < HOUR && (minutes || !parts.length)) parts.push(`${minutes} min`);
  return (ns < 0n ? "-" : "") + (parts.join(" ") || "0");
}
