/** What lies over the map and its axis: marked times, the chosen range, the selected state. */

import { h } from "../../shared/dom";
import { duration, exact } from "../../shared/format";
import type { Session } from "./session";

const FLAG_PX = 120;
const BEYOND_PX = 4;

export class Marks {
  readonly map = h("div", { class: "marks" });
  readonly axis = h("div", { class: "lane" });
  /** A range that is being drawn, in pixels. */
  drawn: [number, number] | null = null;

  constructor(private readonly session: Session) {}

  /** Draws the marks for a strip of this size. */
  draw(widthPx: number, heightPx: number): void {
    const { session } = this;
    const { view, model, rows, mark, second } = session;
    const map: Node[] = [];
    const axis: Node[] = [];
    // in parts of the width, which is another one on paper
    const percent = (px: number) => `${((100 * px) / Math.max(1, widthPx)).toFixed(4)}%`;
    const between = (from: number, to: number) => `left:${percent(from)};width:${percent(Math.max(0, to - from))}`;
    const x = (ns: bigint) => view.ratio(ns) * widthPx;
    const inView = (ns: bigint) => x(ns) >= -1 && x(ns) <= widthPx + 1;
    const flag = (kind: string, at: number, text: string, clear: () => void) => {
      const side = at > widthPx - FLAG_PX ? " leftwards" : "";
      const style = `left:${percent(at)}`;
      const made = h("button", { class: `flag printed ${kind}${side}`, style, title: "Click to clear" }, text);
      made.addEventListener("click", clear);
      made.addEventListener("pointerdown", (event) => event.stopPropagation());
      axis.push(made);
    };
    if (mark !== null && second !== null) {
      const from = Math.max(0, Math.min(x(mark), x(second)));
      const to = Math.min(widthPx, Math.max(x(mark), x(second)));
      axis.push(h("div", { class: "range", style: between(from, to) }));
    }
    if (this.drawn) {
      const [from, to] = [Math.min(...this.drawn), Math.max(...this.drawn)];
      const span = view.at(to / widthPx) - view.at(from / widthPx);
      map.push(h("div", { class: "range", style: between(from, to) }));
      axis.push(
        h("div", { class: "range", style: between(from, to) }),
        h("div", { class: "flag drawn", style: `left:${percent((from + to) / 2)}` }, duration(span, 4)),
      );
    }
    if (mark !== null && inView(mark)) {
      map.push(h("div", { class: "line", style: `left:${percent(x(mark))}` }));
      flag("mark", x(mark), exact(mark + model.start), () => session.select(null, null));
    }
    if (second !== null && mark !== null && inView(second)) {
      const apart = second - mark;
      map.push(h("div", { class: "line second", style: `left:${percent(x(second))}` }));
      flag("second", x(second), `${apart < 0n ? "−" : "+"}${exact(apart < 0n ? -apart : apart)}`, () => {
        session.second = null;
        session.changed("choice");
      });
    }
    const y = session.row ? rows.y(session.row) : null;
    const tall = session.row ? rows.heightOf(session.row.panel) : 0;
    if (session.row && y !== null && y > -tall && y < heightPx) {
      const place = `top:${y}px;height:${tall}px`;
      map.push(h("div", { class: "row", style: place }));
      const i = session.rectangle;
      if (i >= 0) {
        const from = Math.max(-BEYOND_PX, x(session.row.panel.starts.get(i)));
        const to = Math.min(widthPx + BEYOND_PX, x(session.row.panel.ends.get(i)));
        map.push(h("div", { class: "box", style: `${place};${between(from, to)};min-width:1px` }));
      }
    }
    this.map.replaceChildren(...map);
    // a flag that is replaced while the button is down gets no click
    const before = [...this.axis.children];
    const unchanged = axis.length === before.length && axis.every((node, i) => node.isEqualNode(before[i]!));
    if (!unchanged) this.axis.replaceChildren(...axis);
  }
}
