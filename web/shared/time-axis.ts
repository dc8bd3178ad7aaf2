/** The band above the lanes: round times in view, the range that is measured, and what labels add to. */

import { h } from "./dom";
import { type Zone, dateIn, duration, exact, ticks, wallTicks } from "./format";
import type { Viewport } from "./viewport";

const TICK_PX = 110;
/** About the width of a character of labels, and of the space around that of the range. */
const LETTER_PX = 6.6;
const PILL_PX = 12;

export interface Mark {
  /** In CSS pixels from the left edge. */
  x: number;
  label: string;
}

export class TimeAxis {
  readonly element = h("div", { class: "time-axis", attributes: { "aria-hidden": "true" } });
  readonly base = h("div", { class: "axis-base" });
  private readonly pill = h("div", { class: "range-pill" });
  /** What was drawn last, and what its labels count from. */
  private drawn = "";
  private based = "";

  /** @param originNs The time of the left edge of the whole. */
  constructor(public originNs: bigint) {}

  /** When the left edge of the whole is, in nanoseconds since 1970; null shows the time of the trace. */
  utcNs: bigint | null = null;
  /** The zone of dates; null is UTC. */
  zone: Zone | null = null;

  /** Draws the ticks in view and returns where they are. */
  draw(view: Viewport, widthPx: number, range: { from: number | bigint; to: number | bigint } | null): Mark[] {
    if (this.utcNs !== null) return this.drawWall(this.utcNs, view, widthPx, range);
    // far from the beginning, labels are the distance from a round time
    const from = view.startNs;
    const span = view.endNs - from;
    let step = 1n;
    while (step < span * 2n) step *= 10n;
    const base = from > span * 2n ? (from / step) * step : 0n;
    const found = ticks(from - base, view.endNs - base, Math.max(2, Math.floor(widthPx / TICK_PX)));
    const marks = found.marks.map(({ ns, label }) => ({
      x: view.ratio(ns + base) * widthPx,
      label: base && !label.startsWith("+") ? `+${label}` : label,
    }));
    this.setBase(`from ${exact(this.originNs + base)}`);
    return this.put(marks, view, widthPx, range);
  }

  /** The same by the clock; the date is beside the axis. */
  private drawWall(utcNs: bigint, view: Viewport, widthPx: number, range: { from: number | bigint; to: number | bigint } | null): Mark[] {
    const start = utcNs + view.startNs;
    const found = wallTicks(start, utcNs + view.endNs, Math.max(2, Math.floor(widthPx / TICK_PX)), this.zone);
    const marks = found.marks.map(({ ns, label }) => ({ x: view.ratio(ns - utcNs) * widthPx, label }));
    this.setBase(dateIn(start, this.zone).slice(0, 10));
    return this.put(marks, view, widthPx, range);
  }

  /** Shows what labels count from; a page may call it otherwise until it changes. */
  private setBase(text: string): void {
    if (text === this.based) return;
    this.base.textContent = this.based = text;
  }

  private put(marks: Mark[], view: Viewport, widthPx: number, range: { from: number | bigint; to: number | bigint } | null): Mark[] {
    // an axis that stays need not be laid out again
    const drawn = [widthPx, view.start, view.span, range?.from, range?.to, ...marks.map(({ x, label }) => `${x} ${label}`)].join();
    if (drawn === this.drawn) return marks;
    this.drawn = drawn;
    const isCovered = this.putRange(view, widthPx, range);
    this.element.replaceChildren(
      ...marks
        .filter(({ x }) => x >= 0 && x < widthPx)
        // of the width, which another one on paper has
        .map(({ x, label }) => h("span", { style: `left:${((100 * x) / widthPx).toFixed(3)}%` }, isCovered(x, label) ? "" : label)),
      this.pill,
    );
    // a fifth of a step is marked at the foot
    const stepPx = marks.length > 1 ? (marks[1]!.x - marks[0]!.x) / 5 : 0;
    this.element.style.setProperty("--tick", `${stepPx.toFixed(3)}px`);
    this.element.style.setProperty("--tick-at", `${(stepPx ? marks[0]!.x % stepPx : 0).toFixed(3)}px`);
    return marks;
  }

  /** Shows the range; returns whether its duration is over a label. */
  private putRange(view: Viewport, widthPx: number, range: { from: number | bigint; to: number | bigint } | null): (x: number, label: string) => boolean {
    this.pill.hidden = !range;
    if (!range) return () => false;
    const [from, to] = [range.from, range.to].map((time) => (typeof time === "bigint" ? time : BigInt(Math.round(time)))) as [bigint, bigint];
    const left = Math.max(0, view.ratio(from) * widthPx);
    const right = Math.min(widthPx, view.ratio(to) * widthPx);
    const text = duration(to - from, 4);
    this.pill.style.left = `${(100 * left) / widthPx}%`;
    this.pill.style.width = `max(1px, ${(100 * (right - left)) / widthPx}%)`;
    this.pill.replaceChildren(h("b", {}, text));
    const half = Math.min(right - left, text.length * LETTER_PX + PILL_PX) / 2;
    const center = (left + right) / 2;
    return (x, label) => x < center + half && x + label.length * LETTER_PX > center - half;
  }
}
