/** The spans that a search finds, by name or by arguments. */

import { Wanted } from "../../shared/flame-lane";
import type { SpanColumns } from "../../shared/span-columns";
import { matcher } from "../../shared/search";

/** The spans that match; null without a text. */
export function matching(columns: SpanColumns, text: string): Wanted | null {
  const matches = matcher(text);
  if (!matches) return null;
  const { boxes, argument } = columns;
  const named = Uint8Array.from(columns.names, (name) => Number(matches(name)));
  const found = new Uint8Array(boxes.count);
  for (let box = 0; box < found.length; box++) found[box] = named[boxes.name[box]!]!;
  if (argument) {
    const argued = Uint8Array.from(["", ...columns.texts], (each) => Number(each !== "" && matches(each)));
    for (let box = 0; box < found.length; box++) found[box]! |= argued[argument[box]!]!;
  }
  return new Wanted(found);
}

/**
 * The match after a span in time, or with -1 before it, and its rank, from 1; the first or the last
 * one if there is none. -1 if nothing matches.
 */
export function nextMatch(
  columns: SpanColumns,
  wanted: Wanted,
  span: number,
  step: 1 | -1,
): { box: number; rank: number } {
  const { start } = columns.boxes;
  if (!wanted.count) return { box: -1, rank: 0 };
  const at = span < 0 ? (step > 0 ? -Infinity : Infinity) : start[span]!;
  const isAfter = (box: number) => start[box]! > at || (start[box] === at && box > span);
  let best = -1;
  let wrapped = -1;
  const isBefore = (a: number, b: number) =>
    (start[a]! < start[b]! || (start[a] === start[b] && a < b)) === step > 0;
  for (let box = 0; box < wanted.box.length; box++) {
    if (!wanted.box[box]) continue;
    if (wrapped < 0 || isBefore(box, wrapped)) wrapped = box;
    if (box === span || isAfter(box) !== step > 0) continue;
    if (best < 0 || isBefore(box, best)) best = box;
  }
  if (best < 0) best = wrapped;
  let rank = 1;
  for (let box = 0; box < wanted.box.length; box++) {
    if (wanted.box[box] && (start[box]! < start[best]! || (start[box] === start[best] && box < best))) rank++;
  }
  return { box: best, rank };
}
