/** Times as people read them. Nanoseconds are bigint, so that every digit is right. */

const UNITS: [bigint, string][] = [
  [1_000_000_000n, "s"],
  [1_000_000n, "ms"],
  [1_000n, "μs"],
  [1n, "ns"],
];

const MINUTE = 60n * UNITS[0]![0];
export const HOUR = 60n * MINUTE;
const DAY = 24n * HOUR;
// spaces at which no line breaks: inside of numbers and before units, and between two of these
const NARROW = "\u202f";
const NO_BREAK = "\u00a0";
/** Made once: a number that formats itself makes another one each time. */
const DIGITS = new Intl.NumberFormat("en");

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

/** To the nanosecond: `1.408123 ms`, `1 d 2 h 3.5 s`. */
export function exact(ns: bigint): string {
  const rest = abs(ns) % MINUTE;
  const [scale, unit] = unitOf(abs(ns) < MINUTE ? ns : UNITS[0]![0]);
  const digits = scale.toString().length - 1;
  const decimals = decimal(abs(ns) < MINUTE ? ns : rest, scale, digits);
  const text = `${digits ? decimals.replace(/\.?0+$/, "") : decimals} ${unit}`;
  if (abs(ns) < MINUTE) return text;
  return (ns < 0n ? "-" : "") + [...longParts(abs(ns)), ...(rest ? [text] : [])].join(" ");
}

/** The whole days, hours and minutes of a time. */
function longParts(ns: bigint): string[] {
  const parts: [bigint, string][] = [[ns / DAY, "d"], [(ns % DAY) / HOUR, "h"], [(ns % HOUR) / MINUTE, "min"]];
  return parts.filter(([count]) => count).map(([count, unit]) => `${DIGITS.format(count)} ${unit}`);
}

/**
 * With so many significant digits: `1.41 ms`; from a minute on in its two largest units, as in
 * units.py: `2 h 30 min`.
 */
export function duration(ns: bigint, digits = 3): string {
  const long = inTwoUnits(ns, digits);
  if (long) return long;
  const [scale, unit] = unitOf(ns);
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

/** A duration of a minute or more, as which shorter ones count if they are rounded to it; null for others. */
function inTwoUnits(ns: bigint, digits: number): string | null {
  const size = abs(ns);
  if (size < MINUTE - UNITS[0]![0] / (2n * 10n ** BigInt(Math.max(0, digits - 2)))) return null;
  const units: [bigint, string][] = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [UNITS[0]![0], "s"]];
  let at = 0;
  while (at < 2 && size < units[at]![0]) at++;
  let [large, name] = units[at]!;
  const [small, smallName] = units[at + 1]!;
  const smalls = (size + small / 2n) / small;
  let count = (smalls * small) / large;
  const rest = smalls % (large / small);
  if (at && count * large === units[at - 1]![0]) [count, name] = [1n, units[at - 1]![1]];
  const text = `${DIGITS.format(count)}${NARROW}${name}`;
  return (ns < 0n ? "-" : "") + (rest ? `${text}${NO_BREAK}${rest}${NARROW}${smallName}` : text);
}

/** Points in time as far apart as this need nanoseconds. */
const NARROW_NS = 100_000n;

/** The ends of a range, as exact as its length requires. */
export function range(from: bigint, to: bigint): string {
  const digits = to - from < NARROW_NS ? 9 : to - from < HOUR ? 6 : 0;
  return `${instant(from, digits)} to ${instant(to, digits)}`;
}

/** A point in time, with its digits in groups: `1.208 522 s`, `2 h 3 min 4.208 522 s`. */
export function instant(ns: bigint, digits: 0 | 6 | 9 = 6): string {
  const long = longParts(abs(ns)).join(" ");
  const seconds = long ? abs(ns) % MINUTE : ns;
  if (long && !seconds) return (ns < 0n ? "-" : "") + long;
  const [whole, part = ""] = decimal(seconds, UNITS[0]![0], digits).split(".");
  const text = part ? `${whole}.${part.replace(/(\d{3})(?=\d)/g, `$1${NARROW}`)}` : whole;
  return `${long ? `${ns < 0n ? "-" : ""}${long} ` : ""}${text}${NARROW}s`;
}

/** A share of 1 with one decimal: `12.3 %`, `< 0.1 %`. */
export function share(part: number): string {
  return part > 0 && part < 0.0005 ? `< 0.1${NARROW}%` : `${(part * 100).toFixed(1)}${NARROW}%`;
}

/** A count in groups of three digits: `1 234 567`. */
export function grouped(count: number): string {
  return DIGITS.format(count).replaceAll(",", NARROW);
}

/** A time zone: from when to when, in nanoseconds since 1970, it is how far ahead of UTC. */
export interface Zone {
  name: string;
  pieces: [start: bigint, end: bigint, offset: bigint][];
}

/** A zone as a page has it, of which times are texts. */
export interface HeadZone {
  name: string;
  pieces: [start: string, end: string, offset: string][];
}

export function zoneOf(head: HeadZone | null | undefined): Zone | null {
  return head ? { name: head.name, pieces: head.pieces.map((piece) => piece.map(BigInt) as [bigint, bigint, bigint]) } : null;
}

/** How far the browser's own zone is ahead of UTC, from when to when. */
export function browserZone(start: bigint, end: bigint): Zone {
  const MS = 1_000_000n;
  const ahead = (ms: number) => BigInt(-new Date(ms).getTimezoneOffset()) * 60_000n * MS;
  const pieces: Zone["pieces"] = [];
  const last = Number(end / MS) + 1;
  for (let ms = Number(start / MS); ms <= last; ) {
    const offset = ahead(ms);
    let next = ms;
    while (next <= last && ahead(next) === offset) next += 6 * 3_600_000;
    // to the minute at which it changes
    if (next <= last) {
      let low = next - 6 * 3_600_000;
      while (next - low > 60_000) {
        const middle = Math.floor((low + next) / 120_000) * 60_000;
        if (middle <= low) break;
        if (ahead(middle) === offset) low = middle;
        else next = middle;
      }
    }
    pieces.push([BigInt(ms) * MS, BigInt(Math.min(next, last + 1)) * MS, offset]);
    ms = next;
  }
  return { name: "local", pieces };
}

/** How far a zone is ahead of UTC at a time; of none, UTC. */
export function aheadAt(ns: bigint, zone: Zone | null): bigint {
  const pieces = zone?.pieces ?? [];
  return (pieces.find(([, end]) => ns < end) ?? pieces.at(-1))?.[2] ?? 0n;
}

/** Nanoseconds since 1970 in a zone, to the nanosecond; without one, UTC. */
export function dateIn(ns: bigint, zone: Zone | null): string {
  return zone ? utc(ns + aheadAt(ns, zone)).replace("UTC", zone.name) : utc(ns);
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

const LONG_STEPS = [
  ...[15n, 30n].map((count) => count * UNITS[0]![0]),
  ...[1n, 2n, 5n, 10n, 15n, 30n].map((count) => count * MINUTE),
  ...[1n, 2n, 3n, 6n, 12n].map((count) => count * HOUR),
  ...[1n, 2n, 5n, 10n, 20n, 50n, 100n, 200n, 500n, 1000n, 2000n, 5000n, 10000n, 20000n].map(
    (count) => count * DAY,
  ),
];

function step(span: bigint, most: bigint): bigint {
  for (let decade = 1n; decade <= 10n * UNITS[0]![0]; decade *= 10n) {
    for (const digit of [1n, 2n, 5n]) {
      if (digit * decade * most >= span && digit * decade <= 10n * UNITS[0]![0]) return digit * decade;
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

/**
 * Round ticks in [start, end], ns since 1970, by the clock of a zone, or of UTC; the same rule as
 * views/axis.py. The base is the date of the first one.
 */
export function wallTicks(start: bigint, end: bigint, most: number, zone: Zone | null = null): Ticks {
  const by = step(end > start ? end - start : 1n, BigInt(Math.max(1, most)));
  const second = UNITS[0]![0];
  let decimals = 0;
  while ((by * 10n ** BigInt(decimals)) % second) decimals++;
  const marks: Ticks["marks"] = [];
  let base = "";
  for (const [pieceStart, pieceEnd, offset] of zone?.pieces ?? [[start, end + 1n, 0n]]) {
    const begin = (pieceStart > start ? pieceStart : start) + offset;
    const finish = (pieceEnd < end + 1n ? pieceEnd : end + 1n) + offset;
    let first = (begin / by) * by;
    if (first < begin) first += by;
    for (let local = first; local < finish; local += by) {
      const text = utc(local);
      if (text.startsWith("Epoch")) return ticks(start, end, most);
      const date = text.slice(0, 10);
      const time = text.slice(11, by >= MINUTE ? 16 : 19 + (decimals ? 1 + decimals : 0));
      const isDate = by >= DAY || !/[1-9]/.test(time);
      if (!marks.length && !isDate) base = date;
      marks.push({ ns: local - offset, label: isDate ? date : time });
    }
  }
  return { base, marks };
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
