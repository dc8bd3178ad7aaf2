/** The picture of a chart: lanes, what is selected on them, and the minimap. */

import { drawFlowArrow, type Spot } from "../../shared/flow-arrow";
import { ROW_PX } from "../../shared/flame-lane";
import { flameStyle } from "../../shared/flame-style";
import { pixelOf } from "../../shared/lane-image";
import type { Minimap } from "../../shared/minimap";
import { css } from "../../shared/name-colors";
import { themeColor } from "../../shared/page";
import type { TimeAxis } from "../../shared/time-axis";
import type { Session } from "./session";

export class Picture {
  private inks = { line: 0, busy: 0, faint: "", accent: "" };
  private mapped = "";

  constructor(
    private readonly session: Session,
    private readonly axis: TimeAxis,
    private readonly minimap: Minimap,
  ) {}

  /** Reads the colours of the present theme. */
  recolor(): void {
    const { pens, columns, tree } = this.session;
    pens.style = flameStyle(columns.names, pens.style);
    pens.band = pixelOf(themeColor("--chrome"));
    this.inks = {
      line: pixelOf(themeColor("--line")),
      busy: pixelOf(themeColor("--faint")),
      faint: themeColor("--faint"),
      accent: themeColor("--accent"),
    };
    pens.counter.background = pens.style.background;
    pens.counter.line = pixelOf(this.inks.accent);
    tree.invalidate();
    this.mapped = "";
  }

  /** Makes the next frame draw the pixels again, as which spans are found has changed. */
  searched(): void {
    this.session.tree.invalidate();
    this.mapped = "";
  }

  draw(): void {
    const { session } = this;
    const { view, tree, pens } = session;
    const marks = this.axis.draw(view, tree.widthPx, session.range);
    tree.draw(session.window, pens.style.background, marks.map(({ x }) => x), this.inks.line);
    this.drawSelection(tree.widthPx);
    this.minimap.show(view);
    this.drawMap();
  }

  /** The minimap changes with the filter, the theme and the search only. */
  private drawMap(): void {
    const { columns, pens, spanLanes: lanes } = this.session;
    const state = `${this.minimap.widthPx} ${lanes.map(({ firstRow }) => firstRow).join()}`;
    if (state === this.mapped) return;
    this.mapped = state;
    const { wanted } = pens.style;
    const { boxes } = columns;
    this.minimap.draw(
      (from, to) => {
        let sum = 0;
        for (const lane of lanes) sum += lane.covered(from, to);
        return sum / (to - from);
      },
      wanted &&
        ((from, to) =>
          lanes.some(({ rows }) => {
            for (let row = rows.first; row < rows.last; row++) {
              const { first, last } = boxes.content(row, from, to);
              if (wanted.any(first, last)) return true;
            }
            return false;
          })),
      this.session.head.width,
      { background: pens.style.background, busy: this.inks.busy, found: pens.style.found },
    );
  }

  private drawSelection(width: number): void {
    const { context } = this.session.tree;
    const { from, to } = this.session.window;
    const scale = width / (to - from);
    const high = this.session.tree.heightPx;
    if (this.session.range) {
      const left = (this.session.range.from - from) * scale;
      const right = (this.session.range.to - from) * scale;
      context.globalAlpha = 6 / 11;
      context.fillStyle = css(this.session.pens.style.background);
      if (left > 0) context.fillRect(0, 0, Math.min(width, left), high);
      if (right < width) context.fillRect(Math.max(0, right), 0, width, high);
      context.globalAlpha = 1;
      context.fillStyle = this.inks.accent;
      context.fillRect(Math.round(left), 0, 1, high);
      context.fillRect(Math.round(right), 0, 1, high);
    }
    for (const flow of this.session.shownFlows) this.arrow(flow, scale);
    this.outline(this.session.hovered, this.inks.faint, 1, scale);
    this.outline(this.session.span, this.inks.accent, 2, scale);
  }

  private arrow(flow: number, scale: number): void {
    const { flows } = this.session;
    const ends = [
      this.point(flows.fromPanel[flow]!, flows.fromTime[flow]!, scale),
      this.point(flows.toPanel[flow]!, flows.toTime[flow]!, scale),
    ];
    const [from, to] = ends;
    if (!from || !to) return;
    drawFlowArrow(this.session.tree.context, from, to, this.inks.accent);
  }

  /** Where an end of a flow is: on the innermost span at its time; null if its lane is not shown. */
  private point(panel: number, time: number, scale: number): Spot | null {
    const lane = this.session.panelLanes[panel];
    const top = lane && this.session.tree.topOf(lane);
    if (!lane || top === null || top === undefined) return null;
    return { x: (time - this.session.window.from) * scale, y: top + (this.session.rowAt(lane, time) + 0.5) * ROW_PX };
  }

  private outline(box: number, color: string, thick: number, scale: number): void {
    const found = box < 0 ? null : this.session.laneOf(box);
    const top = found && this.session.tree.topOf(found.lane);
    if (!found || top === null || found.row >= found.lane.flame.depth) return;
    const { boxes } = this.session.columns;
    const left = (boxes.start[box]! - this.session.window.from) * scale;
    const right = left + boxes.length[box]! * scale;
    const x = Math.max(-4, left);
    const wide = Math.min(this.session.tree.widthPx + 4, right) - x;
    if (wide < 0 || x > this.session.tree.widthPx) return;
    const { context } = this.session.tree;
    context.strokeStyle = color;
    context.lineWidth = thick;
    const y = top + found.row * ROW_PX;
    context.strokeRect(x + thick / 2, y + thick / 2, Math.max(2, wide - thick), ROW_PX - 1 - thick);
  }
}
