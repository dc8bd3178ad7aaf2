/** The map with its axis and labels: everything that moves with zoom, pan and scroll. */

import { h, name, shown } from "../../shared/dom";
import { listen } from "../../shared/gestures";
import { exact, short, ticks } from "../../shared/format";
import { themeColor } from "../../shared/page";
import { type Colors, colorsOf } from "./colors";
import { drawEvents, nearestEvent } from "./events";
import { describe } from "./describe";
import { Labels } from "./labels";
import { rectangleAt, rgb } from "./model";
import { Picture } from "./picture";
import type { Row } from "./rows";
import type { Session } from "./session";
import type { Tooltip } from "../../shared/tooltip";

const TICK_PX = 110;
const LABEL_PX = 13;
const MOST_LABEL_SHARE = 0.28;
const MOST_LABEL_PX = 238;
const LABEL_GAP_PX = 10;
const PAN_PX = 50;
const NARROW_SHARE = 0.6;

/** Then the tables stand below the map, as in the style. */
const narrow = matchMedia("(max-width: 900px)");

export class Stage {
  readonly element: HTMLElement;
  private readonly base = h("div", { class: "base" });
  private readonly ticks = h("div", { class: "ticks" });
  private readonly lane = h("div", { class: "lane" });
  private readonly axis = h("div", { class: "axis" }, this.ticks, this.lane);
  private readonly labels = h("div", { class: "labels" });
  private readonly canvas = h("canvas", { attributes: { role: "img" } });
  private readonly marks = h("div", { class: "marks" });
  private readonly strip = h("div", { class: "strip" }, this.canvas, this.marks);
  private readonly spacer = h("div");
  private readonly scroller = h(
    "div",
    { class: "scroller", attributes: { tabindex: "-1" } },
    this.spacer,
  );
  private readonly field = h("div", { class: "field" }, this.labels, this.strip, this.scroller);
  private readonly position = h("div", { class: "position" });
  private readonly footer: HTMLElement;
  private readonly picture = new Picture();
  private colors: Colors[] = [];
  private colorsFor = "";
  private hovered: Row | null = null;
  private drawn: [number, number] | null = null;
  private frame = 0;
  private readonly names: Labels;
  private gutterPx = 0;

  constructor(
    private readonly session: Session,
    private readonly tooltip: Tooltip,
    private readonly isDark: () => boolean,
  ) {
    const notes = session.model.footer.map((text) => h("div", {}, shown(text)));
    this.footer = h("footer", { class: "muted" }, this.position, ...notes);
    this.element = h(
      "div",
      { class: "stage" },
      h("div", { class: "head" }, this.base, this.axis),
      this.field,
      this.footer,
    );
    this.canvas.setAttribute("aria-label", `Statemap: ${session.model.title}`);
    session.onChange(() => this.redraw());
    this.names = new Labels(session.model);
    this.listen();
  }

  /** The width of the strip. */
  get widthPx(): number {
    return this.strip.clientWidth;
  }

  pan(by: number): void {
    this.session.view.pan((by * PAN_PX) / Math.max(1, this.widthPx));
    this.session.changed("view");
  }

  /** Asks for the next frame to draw what is now true. */
  redraw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw(): void {
    const { session } = this;
    const { rows, view } = session;
    // a whole number, so that a pixel of the canvas is one of the screen
    const most = Math.min(MOST_LABEL_PX, this.element.clientWidth * MOST_LABEL_SHARE);
    this.gutterPx = Math.ceil(Math.min(this.names.widthPx, most)) + LABEL_GAP_PX;
    this.element.style.setProperty("--gutter", `${this.gutterPx}px`);
    const around = this.axis.parentElement!.offsetHeight + this.footer.offsetHeight + 2;
    const room = narrow.matches ? NARROW_SHARE * innerHeight : this.element.clientHeight - around;
    rows.fit(Math.max(60, room));
    const height = Math.max(20, Math.min(rows.totalPx, room));
    this.field.style.height = `${height}px`;
    this.spacer.style.height = `${rows.totalPx}px`;
    this.scroller.hidden = rows.totalPx <= height;
    this.scroller.scrollTop = rows.scrollPx;
    rows.fit(height);
    const seen = rows.inView;
    const count = (rowCount: number) => rowCount.toLocaleString("en");
    this.position.textContent = seen
      ? `rows ${count(seen.first)} to ${count(seen.last)} of ${count(rows.shownCount)}`
      : "";

    const scale = devicePixelRatio;
    const width = Math.round(this.strip.clientWidth * scale);
    if (this.canvas.width !== width || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = width;
      this.canvas.height = Math.round(height * scale);
    }
    this.picture.draw(this.canvas, rows, view, this.currentColors(), rgb(themeColor("--bg")));
    drawEvents(this.canvas, session, themeColor("--text"), themeColor("--bg"));
    this.drawAxis();
    this.drawLabels();
    this.drawMarks();
  }

  private currentColors(): Colors[] {
    const { lit, property, value } = this.session;
    const wanted = JSON.stringify([lit, property, value, this.isDark()]);
    if (wanted !== this.colorsFor) {
      this.colors = colorsOf(this.session, this.isDark(), rgb(themeColor("--accent")));
      this.colorsFor = wanted;
    }
    return this.colors;
  }

  private drawAxis(): void {
    const { view, model } = this.session;
    const width = this.widthPx;
    const { base, marks } = ticks(
      view.startNs + model.start,
      view.endNs + model.start,
      Math.max(1, Math.floor(width / TICK_PX)),
    );
    this.base.textContent = base;
    const made = marks.flatMap(({ ns, label }) => {
      const x = view.ratio(ns - model.start) * width;
      if (x < -0.5 || x > width + 0.5) return [];
      return [h("div", { class: "tick", style: `left:${x}px` }, h("span", {}, label))];
    });
    this.ticks.replaceChildren(...made);
  }

  private drawLabels(): void {
    const { session } = this;
    const { rows } = session;
    const every = Math.ceil(LABEL_PX / rows.heightPx);
    const size = Math.max(9, Math.min(12, rows.heightPx - 2));
    this.labels.style.setProperty("--size", `${size}px`);
    this.labels.style.setProperty("--row", `${rows.heightPx}px`);
    const isRow = (wanted: Row | null, { panel, row }: Row) =>
      wanted?.panel === panel && wanted.row === row;
    const visible = rows.visible();
    const special = visible.filter((row) => isRow(session.row, row) || isRow(this.hovered, row));
    const shownRows = visible.filter(
      (placed) =>
        special.includes(placed) ||
        (!(Math.round((placed.y + rows.scrollPx) / rows.heightPx) % every) &&
          special.every(({ y }) => Math.abs(y - placed.y) >= LABEL_PX - 2)),
    );
    // names are measured at 12 pixels
    const room = ((this.gutterPx - LABEL_GAP_PX + 2) * 12) / size;
    const made = shownRows.map((placed) => {
      const { panel, row, y } = placed;
      const selected = isRow(session.row, placed) ? " selected" : "";
      const hovered = isRow(this.hovered, placed) ? " hovered" : "";
      const label = h(
        "div",
        {
          class: `label${selected}${hovered}`,
          style: `top:${Math.max(size / 2, y + rows.heightPx / 2)}px`,
          title: `${shown(panel.kind)} ${shown(panel.entities[row]!)}`,
        },
        h("bdi", {}, this.names.text(panel, row, room)),
      );
      label.dataset.row = `${panel.index}:${row}`;
      return label;
    });
    const headings = rows.headings.map(({ panel, y }) =>
      h("div", { class: "panel-title", style: `top:${y}px` }, name(panel.title)),
    );
    this.labels.replaceChildren(...made, ...headings);
  }

  private drawMarks(): void {
    const { session } = this;
    const { view, model, rows } = session;
    const width = this.widthPx;
    const made: Node[] = [];
    const lane: Node[] = [];
    const x = (ns: bigint) => view.ratio(ns) * width;
    const inView = (ns: bigint) => x(ns) >= -1 && x(ns) <= width + 1;
    const { mark, second } = session;
    if (mark !== null && second !== null) {
      const from = Math.max(0, Math.min(x(mark), x(second)));
      const to = Math.min(width, Math.max(x(mark), x(second)));
      const style = `left:${from}px;width:${Math.max(0, to - from)}px`;
      lane.push(h("div", { class: "range", style }));
    }
    if (this.drawn) {
      const [from, to] = [Math.min(...this.drawn), Math.max(...this.drawn)];
      const span = view.at(to / width) - view.at(from / width);
      const style = `left:${from}px;width:${to - from}px`;
      made.push(h("div", { class: "range", style }));
      lane.push(
        h("div", { class: "range", style }),
        h("div", { class: "flag drawn", style: `left:${(from + to) / 2}px` }, short(span)),
      );
    }
    if (mark !== null && inView(mark)) {
      made.push(h("div", { class: "line", style: `left:${x(mark)}px` }));
      lane.push(this.flag("mark", x(mark), exact(mark + model.start), () => session.select(null, null)));
    }
    if (second !== null && mark !== null && inView(second)) {
      const between = second - mark;
      made.push(h("div", { class: "line second", style: `left:${x(second)}px` }));
      lane.push(
        this.flag("second", x(second), `${between < 0n ? "−" : "+"}${exact(between < 0n ? -between : between)}`, () => {
          session.second = null;
          session.changed("choice");
        }),
      );
    }
    if (session.row) {
      const y = rows.y(session.row);
      if (y !== null && y > -rows.heightPx && y < this.field.clientHeight) {
        made.push(h("div", { class: "row", style: `top:${y}px;height:${rows.heightPx}px` }));
        const i = session.rectangle;
        if (i >= 0) {
          const left = x(session.row.panel.starts.get(i));
          const right = x(session.row.panel.ends.get(i));
          const from = Math.max(-4, left);
          const to = Math.min(width + 4, right);
          made.push(
            h("div", {
              class: "box",
              style: `top:${y}px;height:${rows.heightPx}px;left:${from}px;width:${Math.max(1, to - from)}px`,
            }),
          );
        }
      }
    }
    this.marks.replaceChildren(...made);
    // a flag that is replaced while the button is down gets no click
    const unchanged = lane.length === this.lane.children.length && lane.every((node, i) => node.isEqualNode(this.lane.children[i]!));
    if (!unchanged) this.lane.replaceChildren(...lane);
  }

  private flag(kind: string, x: number, text: string, clear: () => void): HTMLElement {
    const near = x > this.widthPx - 120 ? " leftwards" : "";
    const made = h(
      "button",
      { class: `flag ${kind}${near}`, style: `left:${x}px`, title: "Click to clear" },
      text,
    );
    made.addEventListener("click", clear);
    made.addEventListener("pointerdown", (event) => event.stopPropagation());
    return made;
  }

  private listen(): void {
    const { session } = this;
    const { view, rows } = session;
    const timeAt = (x: number) => view.at(Math.min(1, Math.max(0, x / this.widthPx)));
    const zoom = (factor: number, x: number) => {
      view.zoom(factor, Math.min(1, Math.max(0, x / this.widthPx)));
      session.changed("view");
    };
    const scroll = (dy: number) => {
      rows.scrollTo(rows.scrollPx + dy);
      session.changed("view");
    };
    listen(this.strip, {
      zoom,
      scroll,
      pan: (dx, dy) => {
        view.pan(-dx / this.widthPx);
        rows.scrollTo(rows.scrollPx - dy);
        this.tooltip.hide();
        session.changed("view");
      },
      click: (x, y, event) => {
        const time = timeAt(x);
        if ((event.shiftKey || event.altKey) && session.mark !== null) {
          session.second = time;
          session.changed("choice");
        } else session.select(rows.at(y), time);
      },
      doubleClick: (x, y) => {
        const row = rows.at(y);
        const i = row ? rectangleAt(row.panel, row.row, timeAt(x)) : -1;
        if (!row || i < 0) return;
        this.zoomTo(row.panel.starts.get(i), row.panel.ends.get(i));
      },
      range: (from, to, done) => {
        this.drawn = done ? null : [from, to];
        if (done) {
          session.row = null;
          session.mark = timeAt(Math.min(from, to));
          session.second = timeAt(Math.max(from, to));
          session.changed("choice");
        } else this.redraw();
      },
      hover: (x, y) => this.hover(x, y),
      leave: () => this.hover(-1, -1),
    });
    listen(
      this.axis,
      {
        zoom,
        scroll,
        pan: (dx) => {
          view.pan(-dx / this.widthPx);
          session.changed("view");
        },
        click: (x) => session.select(session.row, timeAt(x)),
        doubleClick: () => {
          view.reset();
          session.changed("view");
        },
        range: (from, to, done) => {
          const clamp = (x: number) => Math.min(this.widthPx, Math.max(0, x));
          this.drawn = done ? null : [clamp(from), clamp(to)];
          if (done) {
            const start = timeAt(Math.min(from, to));
            const end = timeAt(Math.max(from, to));
            view.show(start, end > start ? end : start + 1n);
          }
          session.changed("view");
        },
        hover: () => {},
        leave: () => {},
      },
      true,
    );
    this.labels.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        scroll(event.deltaY);
      },
      { passive: false },
    );
    // not "click": a browser sends none if the label was drawn again while the button was down
    this.labels.addEventListener("pointerup", (event) => {
      if (event.button !== 0) return;
      const place = (event.target as Element).closest<HTMLElement>(".label")?.dataset.row?.split(":");
      if (place) {
        session.row = { panel: session.model.panels[+place[0]!]!, row: +place[1]! };
        session.changed("choice");
      }
    });
    this.scroller.addEventListener("scroll", () => {
      if (Math.abs(this.scroller.scrollTop - rows.scrollPx) > 1) {
        rows.scrollTo(this.scroller.scrollTop);
        session.changed("view");
      }
    });
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  /** Shows a range with a little of what is around it. */
  zoomTo(start: bigint, end: bigint): void {
    const { view } = this.session;
    const around = (end - start) / 4n + 1n;
    const first = start > around ? start - around : 0n;
    const last = end + around < view.widthNs ? end + around : view.widthNs;
    view.show(first, last);
    this.session.changed("view");
  }

  private hover(x: number, y: number): void {
    const { session } = this;
    const row = y < 0 ? null : session.rows.at(y);
    if (row?.panel !== this.hovered?.panel || row?.row !== this.hovered?.row) {
      this.hovered = row;
      this.redraw();
    }
    if (!row) {
      this.tooltip.hide();
      return;
    }
    const time = session.view.at(Math.min(1, Math.max(0, x / this.widthPx)));
    const box = this.strip.getBoundingClientRect();
    const event = nearestEvent(session, row, x, this.widthPx);
    const content = describe(session.model, row, time, event);
    this.tooltip.show(box.left + x, box.top + y, content);
  }
}
