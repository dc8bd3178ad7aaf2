/** How long rows were in states and had tags, over a range or at a time: exact integers. */

import { Sums, firstAbove, halves } from "../../shared/times";
import { type Panel, length, rectangleAt } from "./model";

export interface Totals {
  states: Sums;
  tags: Sums;
}

/**
 * Adds up a panel's rows over [start, end). A rectangle that stands for several intervals and is
 * only partly inside counts in proportion.
 */
export function totals(panel: Panel, rows: Int32Array, start: bigint, end: bigint): Totals {
  const states = new Sums(panel.states.length);
  const tags = new Sums(panel.tags.length);
  const [hi, lo] = halves(start);
  const span = Number(end - start);
  const { starts, ends, state, stateNs, stateAt, tag, tagNs, tagAt } = panel;
  for (const row of rows) {
    const last = panel.rows[row + 1]!;
    for (let i = firstAbove(ends, panel.rows[row]!, last, start); i < last; i++) {
      const left = starts.since(i, hi, lo);
      if (left >= span) break;
      const right = ends.since(i, hi, lo);
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
        states.add(state[at]!, part(stateNs.number(at)));
      }
      for (let at = tagAt[i]!; at < tagAt[i + 1]!; at++) tags.add(tag[at]!, part(tagNs.number(at)));
    }
  }
  return { states, tags };
}

export interface Counts {
  states: Float64Array;
  tags: Float64Array;
}

/** How many of a panel's rows are in each state and have each tag; a mixed rectangle counts in parts. */
export function counts(panel: Panel, rows: Int32Array, ns: bigint): Counts {
  const states = new Float64Array(panel.states.length);
  const tags = new Float64Array(panel.tags.length);
  for (const row of rows) {
    const i = rectangleAt(panel, row, ns);
    if (i < 0) continue;
    const whole = length(panel, i);
    for (let at = panel.stateAt[i]!; at < panel.stateAt[i + 1]!; at++) {
      states[panel.state[at]!]! += panel.stateNs.number(at) / whole;
    }
    for (let at = panel.tagAt[i]!; at < panel.tagAt[i + 1]!; at++) {
      tags[panel.tag[at]!]! += panel.tagNs.number(at) / whole;
    }
  }
  return { states, tags };
}
