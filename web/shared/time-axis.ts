/** The band above the lanes: round times in view, the range that is measured, and what labels add to. */

import { h } from "./dom";
import { duration, exact, ticks } from "./format";
import type { Viewport } from "./viewport";

const TICK_PX = 110;

export interface Mark {
  /** In CSS pixels from the left edge. */
  x: number;
  label: string;
}

export class TimeAxis {
  readonly element = h("div", { class: "time-axis", attributes: { "aria-hidden": "true" } });
  readonly base = h("div", { class: "axis-base" });
  private readonly pill = h("div", { class: "range-pill" });

  /** @param originNs The time of the left edge of the whole. */
  constructor(private readonly originNs: bigint) {}

  /** Draws the ticks in view and returns where they are. */
  draw(view: Viewport, widthPx: number, range: { from: number; to: number } | null): Mark[] {
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
    this.element.replaceChildren(
      ...marks
        .filter(({ x }) => x >= 0 && x < widthPx)
        .map(({ x, label }) => h("span", { style: `left:${x.toFixed(1)}px` }, label)),
      this.pill,
    );
    this.base.textContent = `from ${exact(this.originNs + base)}`;
    this.pill.hidden = !range;
    if (range) {
      const left = Math.max(0, view.ratio(BigInt(Math.round(range.from))) * widthPx);
      const right = Math.min(widthPx, view.ratio(BigInt(Math.round(range.to))) * widthPx);
      this.pill.style.left = `${left}px`;
      this.pill.style.width = `${Math.max(1, right - left)}px`;
      this.pill.replaceChildren(h("b", {}, duration(BigInt(Math.round(range.to - range.from)), 4)));
    }
    return marks;
  }
}
