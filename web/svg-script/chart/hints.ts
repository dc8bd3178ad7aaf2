/** The tooltips of a chart: of spans and of counters. */

import { CounterLane, number } from "../../shared/counter-lane";
import { h, shown } from "../../shared/dom";
import { exact, grouped, share } from "../../shared/format";
import type { Session } from "./session";

const LONGEST = 300;

/** What is at a point of the lanes, in CSS pixels; null if nothing is. */
export function hintAt(session: Session, x: number, y: number): Node[] | null {
  const span = session.hit(x, y);
  return span < 0 ? counterAt(session, x, y) : ofSpan(session, span, x);
}

function counterAt(session: Session, x: number, y: number): Node[] | null {
  const lane = session.tree.at(y)?.lane;
  if (!(lane instanceof CounterLane)) return null;
  const { from, to } = session.window;
  const time = from + (x / session.tree.widthPx) * (to - from);
  const value = lane.at(time);
  const text = Number.isNaN(value) ? "no value" : number(value);
  return [
    h("strong", {}, shown(lane.title)),
    h("p", {}, `${text}, at ${exact(session.origin + BigInt(Math.floor(time)))}`),
  ];
}

function ofSpan(session: Session, span: number, x: number): Node[] {
  const { boxes, count } = session.columns;
  const { from, to } = session.window;
  const perPixel = (to - from) / session.tree.widthPx;
  const [start, length] = [boxes.start[span]!, boxes.length[span]!];
  const isSampled = session.laneOf(span)?.lane.head.kind === "samples";
  const lines = [
    h("strong", {}, shown(session.nameOf(span))),
    h("p", {}, `${isSampled ? "≈ " : ""}${exact(BigInt(length))}, from ${exact(session.origin + BigInt(start))}`),
  ];
  if (count && (isSampled || count[span]! > 1)) {
    lines.push(h("p", {}, `${grouped(count[span]!)} ${isSampled ? "samples" : "short spans, merged"}`));
  }
  if (length < perPixel) {
    const left = from + Math.floor(x) * perPixel;
    const pixel = boxes.content(boxes.rowOf(span), left, left + perPixel);
    const others = pixel.last - pixel.first - 1;
    const fills = `fills ${share(Math.min(1, pixel.covered / perPixel))} of this pixel`;
    lines.push(h("p", {}, others > 0 ? `the longest of ${grouped(others + 1)} spans here, which ${fills.replace("fills", "fill")}` : fills));
  }
  const text = session.argumentsOf(span);
  if (text) lines.push(h("p", { class: "muted" }, shown(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)));
  return lines;
}
