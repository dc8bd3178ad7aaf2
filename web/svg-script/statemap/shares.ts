/**
 * How long rows were in states and had tags, over a range or at a time: exact integers, unless an
 * edge of the range or the time lies within a merged rectangle. Then the figure is an estimate, and
 * comes with the most that it can be wrong by.
 */

import { Sums, firstAbove, halves } from "../../shared/times";
import { type Panel, isMerged, length, rectangleAt } from "./model";

export interface Totals {
  states: Sums;
  tags: Sums;
  /** By state and by tag, how many nanoseconds the sum can be wrong by; 0 if it is exact. */
  stateErrors: Float64Array;
  tagErrors: Float64Array;
  /** How many rectangles of the range stand for several intervals. */
  merged: number;
}

/**
 * How long the entities of rows existed in [start, end), as a double; `states` are the times that
 * they were in each state then.
 */
export function existence(panel: Panel, rows: Int32Array, start: bigint, end: bigint, states: Sums): number {
  if (panel.existence === "always") return Number(end - start) * rows.length;
  let sum = 0n;
  if (panel.existence === "state") {
    for (let state = 0; state < panel.states.length; state++) sum += states.get(state);
    return Number(sum);
  }
  for (const row of rows) {
    const lived = livedIn(panel, row);
    if (!lived) continue;
    const from = lived[0] > start ? lived[0] : start;
    const to = lived[1] < end ? lived[1] : end;
    if (to > from) sum += to - from;
  }
  return Number(sum);
}

/** When a row existed in the window; null if it did not. */
function livedIn(panel: Panel, row: number): [start: bigint, end: bigint] | null {
  const [first, after] = [panel.rows[row]!, panel.rows[row + 1]!];
  return panel.existed.get(row) ?? (first < after ? [panel.starts.get(first), panel.ends.get(after - 1)] : null);
}

/** How many entities of rows exist at a time. */
export function existing(panel: Panel, rows: Int32Array, at: bigint): number {
  if (panel.existence === "always") return rows.length;
  let count = 0;
  for (const row of rows) {
    const lived = panel.existence === "row" ? livedIn(panel, row) : null;
    if (lived ? lived[0] <= at && at < lived[1] : rectangleAt(panel, row, at) >= 0) count++;
  }
  return count;
}

/** How wrong an estimate can be of what lies in a part of a rectangle, given what the whole holds. */
function error(estimate: number, ns: number, inside: number, whole: number): number {
  const least = Math.max(0, ns - (whole - inside));
  const most = Math.min(ns, inside);
  return Math.max(estimate - least, most - estimate);
}

/**
 * Adds up a panel's rows over [start, end). A rectangle that stands for several intervals and is
 * only partly inside counts in proportion.
 */
export function totals(panel: Panel, rows: Int32Array, start: bigint, end: bigint): Totals {
  const states = new Sums(panel.states.length);
  const tags = new Sums(panel.tags.length);
  const stateErrors = new Float64Array(panel.states.length);
  const tagErrors = new Float64Array(panel.tags.length);
  let merged = 0;
  const [hi, lo] = halves(start);
  const span = Number(end - start);
  const { starts, ends, state, stateNs, stateAt, tag, tagNs, tagAt } = panel;
  for (const row of rows) {
    const last = panel.rows[row + 1]!;
    for (let i = firstAbove(ends, panel.rows[row]!, last, start); i < last; i++) {
      const left = starts.since(i, hi, lo);
      if (left >= span) break;
      const right = ends.since(i, hi, lo);
      if (isMerged(panel, i)) merged++;
      if (left >= 0 && right <= span) {
        for (let at = stateAt[i]!; at < stateAt[i + 1]!; at++) {
          states.addHalves(state[at]!, stateNs.hi[at]!, stateNs.lo[at]!);
        }
        for (let at = tagAt[i]!; at < tagAt[i + 1]!; at++) {
          tags.addHalves(tag[at]!, tagNs.hi[at]!, tagNs.lo[at]!);
        }
        continue;
      }
      const inside = Math.min(right, span) - Math.max(left, 0);
      const whole = right - left;
      const part = (ns: number) => (ns === whole ? inside : Math.round(ns * (inside / whole)));
      for (let at = stateAt[i]!; at < stateAt[i + 1]!; at++) {
        const ns = stateNs.number(at);
        states.add(state[at]!, part(ns));
        stateErrors[state[at]!]! += error(part(ns), ns, inside, whole);
      }
      for (let at = tagAt[i]!; at < tagAt[i + 1]!; at++) {
        const ns = tagNs.number(at);
        tags.add(tag[at]!, part(ns));
        tagErrors[tag[at]!]! += error(part(ns), ns, inside, whole);
      }
    }
  }
  return { states, tags, stateErrors, tagErrors, merged };
}

export interface Counts {
  states: Float64Array;
  tags: Float64Array;
  /** By state and by tag, how many rows the count can be wrong by; 0 if it is exact. */
  stateErrors: Float64Array;
  tagErrors: Float64Array;
}

/** How many of a panel's rows are in each state and have each tag; a mixed rectangle counts in parts. */
export function counts(panel: Panel, rows: Int32Array, ns: bigint): Counts {
  const states = new Float64Array(panel.states.length);
  const tags = new Float64Array(panel.tags.length);
  const stateErrors = new Float64Array(panel.states.length);
  const tagErrors = new Float64Array(panel.tags.length);
  for (const row of rows) {
    const i = rectangleAt(panel, row, ns);
    if (i < 0) continue;
    const whole = length(panel, i);
    for (let at = panel.stateAt[i]!; at < panel.stateAt[i + 1]!; at++) {
      const part = panel.stateNs.number(at) / whole;
      states[panel.state[at]!]! += part;
      if (part < 1) stateErrors[panel.state[at]!]! += Math.max(part, 1 - part);
    }
    for (let at = panel.tagAt[i]!; at < panel.tagAt[i + 1]!; at++) {
      const part = panel.tagNs.number(at) / whole;
      tags[panel.tag[at]!]! += part;
      if (part < 1) tagErrors[panel.tag[at]!]! += Math.max(part, 1 - part);
    }
  }
  return { states, tags, stateErrors, tagErrors };
}
