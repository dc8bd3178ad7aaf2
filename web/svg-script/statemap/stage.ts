/** The map with its axis and labels: everything that moves with zoom, pan and scroll. */

import { h, name, shown } from "../../shared/dom";
import { listen } from "../../shared/gestures";
import { HOUR, dateIn, ticks, wallTicks } from "../../shared/format";
import type { Paint } from "../../shared/row-columns";
import { type Theme, themeColor } from "../../shared/page";
import { colorsOf } from "./colors";
import { drawEvents, nearestEvent } from "./events";
import { describe } from "./describe";
import { Labels } from "./labels";
import { Marks } from "./marks";
import { rectangleAt, rgb } from "./model";
import { Picture } from "./picture";
import { HEADING_PX, NAME_PX, type PlacedRow, type Row } from "./rows";
import type { Session } from "./session";
import type { Tooltip } from "../../shared/tooltip";
import { Whole } from "./whole";

const TICK_PX = 110;
/** So near to an edge a label would be cut if nothing is beside the map. */
const TICK_EDGE_PX = 16;
const LABEL_PX = 12;
/** The height of a label of 12 pixels beside the rows of a site. */
const SITE_PX = 13;
/** What is beside a label in the gutter. */
const LABEL_GAP_PX = 20;
/** What is free above the text of a heading. */
const HEADING_ABOVE_PX = 8;
const PAN_PX = 50;
const DOUBLE_CLICK_MS = 600;
/** So high a map fits a page with its legend. */
const PAPER_PX = 400;
/** On a lower stage there are only rows. */
const LEAST_STAGE_PX = 260;

/** Then names stand above rows, and the tables in a sheet below the map, as in the style. */
export const narrow = matchMedia("screen and (max-width: 900px)");

export class Stage {
  readonly element: HTMLElement;
  private readonly base = h("div", { class: "base" });
  private readonly ticks = h("div", { class: "ticks" });
  private readonly labels = h("div", { class: "labels" });
  private readonly canvas = h("canvas", { attributes: { role: "img" } });
  private readonly spacer = h("div");
  private readonly scroller = h(
    "div",
    { class: "scroller", attributes: { tabindex: "-1" } },
    this.spacer,
  );
  private readonly empty = h("div", { class: "empty muted", attributes: { role: "status" } });
  private readonly marks: Marks;
  private readonly axis: HTMLElement;
  private readonly strip: HTMLElement;
  private readonly field: HTMLElement;
  private readonly position = h("div", { class: "position" });
  readonly footer: HTMLElement;
  private readonly picture = new Picture();
  private readonly whole: Whole;
  private readonly above: HTMLElement;
  private colors: Paint[] = [];
  private colorsFor = "";
  private hovered: Row | null = null;
  private frame = 0;
  private readonly names: Labels;
  private gutterPx = 0;

  constructor(
    private readonly session: Session,
    private readonly tooltip: Tooltip,
    private readonly theme: Theme,
  ) {
    this.marks = new Marks(session);
    this.axis = h("div", { class: "axis" }, this.ticks, this.marks.axis);
    const attributes = {
      tabindex: "0",
      role: "application",
      "aria-label": "Statemap; the keys are in the help, and the tables beside it have its figures",
    };
    this.strip = h("div", { class: "strip", attributes }, this.canvas, this.marks.map);
    this.whole = new Whole(session, tooltip, () => this.currentColors());
    this.field = h("div", { class: "field" }, this.labels, this.strip, this.empty, this.whole.overview, this.scroller);
    const notes = session.model.footer.map((text) => h("div", {}, shown(text)));
    this.footer = h("footer", { class: "muted" }, this.position, ...notes);
    this.above = h("div", { class: "above" }, this.whole.label, this.whole.area);
    this.element = h(
      "div",
      { class: "stage" },
      h("div", { class: "head" }, this.base, this.axis),
      this.above,
      this.field,
    );
    this.canvas.setAttribute("aria-label", `Statemap: ${session.model.title}`);
    session.onChange(() => {
      this.tooltip.hide(); // what is below the pointer may be something else now
      this.redraw();
    });
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
    this.gutterPx = narrow.matches ? 0 : this.base.offsetWidth;
    // a low page shows rows first
    this.above.hidden = !this.whole.isShown || this.element.clientHeight < LEAST_STAGE_PX;
    const around = this.axis.parentElement!.offsetHeight + this.above.offsetHeight + 2;
    const free = this.element.clientHeight - around;
    // on paper the height of the stage follows from that of the map
    const room = this.theme.printing ? PAPER_PX : free;
    rows.fit(Math.max(60, room), narrow.matches);
    const height = Math.max(20, Math.min(rows.totalPx, room));
    this.field.style.height = `${height}px`;
    this.spacer.style.height = `${rows.totalPx}px`;
    this.scroller.hidden = rows.totalPx <= height;
    // before the width of the strip is measured
    this.element.classList.toggle("long", !this.scroller.hidden && !this.above.hidden);
    // a swipe up or down is for the rows, or for the page if all rows can be seen
    this.strip.style.touchAction = this.scroller.hidden ? "pan-y" : "none";
    this.empty.textContent = rows.shownCount ? "" : this.reason;
    this.scroller.scrollTop = rows.scrollPx;
    rows.fit(height, narrow.matches);
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
    if (!this.above.hidden) this.whole.draw(this.theme.dark);
    this.drawAxis();
    this.drawLabels();
    this.marks.draw(this.widthPx, this.field.clientHeight);
  }

  /** Why there is no row. */
  private get reason(): string {
    const { filter, rows } = this.session;
    return rows.count ? `No row matches “${shown(filter)}”. Press Esc to show all rows.` : "No rows: no entity has a state in this window.";
  }

  private currentColors(): Paint[] {
    const { lit, property, value, found, filter } = this.session;
    const wanted = JSON.stringify([lit, property, value, this.theme.dark, found?.count ? filter : null]);
    if (wanted !== this.colorsFor) {
      this.colors = colorsOf(this.session, this.theme.dark, rgb(themeColor("--accent")));
      this.colorsFor = wanted;
    }
    return this.colors;
  }

  private drawAxis(): void {
    const { view, model } = this.session;
    const width = this.widthPx;
    // a recording of hours has a clock
    const isDated = model.origin !== null && model.widthNs >= HOUR;
    const zero = model.start + (isDated ? model.origin! : 0n);
    const [from, to, most] = [view.startNs + zero, view.endNs + zero, Math.max(1, Math.floor(width / TICK_PX))] as const;
    const { base, marks } = isDated ? wallTicks(from, to, most, model.zone) : ticks(from, to, most);
    this.base.textContent = isDated ? dateIn(from, model.zone).replace(/ .* /, " ") : base;
    const made = marks.flatMap(({ ns, label }) => {
      const ratio = view.ratio(ns - zero);
      if (ratio * width < -0.5 || ratio * width > width + 0.5) return [];
      // a part of the width, which is another one on paper
      const x = ratio * width;
      const edge = x < TICK_EDGE_PX ? " first" : x > width - TICK_EDGE_PX ? " last" : "";
      const tick = h("div", { class: `tick${edge}`, style: `left:${(100 * ratio).toFixed(4)}%` }, h("span", {}, label));
      return [tick];
    });
    this.ticks.replaceChildren(...made);
  }

  private drawLabels(): void {
    const { session } = this;
    const { rows } = session;
    const isRow = (wanted: Row | null, { panel, row }: Row) =>
      wanted?.panel === panel && wanted.row === row;
    const visible = rows.visible();
    const special = (placed: Row) => isRow(session.row, placed) || isRow(this.hovered, placed);
    const chosen = visible.filter(special);
    const shownRows = narrow.matches
      ? visible.filter(({ isNamed }) => isNamed)
      : visible.filter(
          (placed, i) =>
            special(placed) ||
            (this.isLabelled(placed, visible[i - 1]) &&
              chosen.every(({ y }) => Math.abs(y - placed.y) >= LABEL_PX - 1)),
        );
    const { headings } = rows;
    const tops = this.labelTops(shownRows, special);
    const made = shownRows.flatMap((placed, i) => {
      const { panel, row, heightPx } = placed;
      const isSpecial = special(placed);
      const top = tops[i]!;
      if (Number.isNaN(top)) return [];
      const size = narrow.matches ? 12 : Math.max(11, Math.min(12, panel.shared ? SITE_PX - 1 : heightPx - 2));
      // names are measured at 12 pixels
      const room = narrow.matches ? this.widthPx - 8 : ((this.gutterPx - LABEL_GAP_PX) * 12) / size;
      const selected = isRow(session.row, placed) ? " selected" : "";
      const hovered = isRow(this.hovered, placed) ? " hovered" : "";
      const isSite = panel.shared !== null && (narrow.matches || !isSpecial);
      const text = isSite ? this.names.site(panel, row, room) : this.names.text(panel, row, room);
      const label = h(
        "div",
        {
          class: `label${selected}${hovered}`,
          style: `top:${top}px;--size:${size}px`,
          title: `${shown(panel.kind)} ${shown(panel.entities[row]!)}`,
        },
        h("bdi", {}, text),
      );
      label.dataset.row = `${panel.index}:${row}`;
      return [label];
    });
    const titles = headings.map(({ panel, y }) =>
      h("div", { class: "panel-title", style: `top:${y}px` }, name(panel.title)),
    );
    this.labels.replaceChildren(...made, ...titles);
  }

  /** The middles of the labels of rows, which do not overlap; NaN where there is no room. */
  private labelTops(shownRows: readonly PlacedRow[], isSpecial: (placed: PlacedRow) => boolean): number[] {
    if (narrow.matches) return shownRows.map(({ y }) => y - NAME_PX / 2);
    const { headings } = this.session.rows;
    const bottom = this.field.clientHeight;
    let lastY = -Infinity;
    /** Below the heading of a panel. */
    const lowestOf = (panel: Row["panel"]) => {
      const heading = headings.find((each) => each.panel === panel);
      return heading ? Math.max(0, heading.y + HEADING_PX) : 0;
    };
    const tops = shownRows.map((placed) => {
      const { panel, row, y, heightPx } = placed;
      const lowest = lowestOf(panel);
      // the text of the next heading is not covered, and covers nothing
      const next = headings.find((each) => each.panel.index > panel.index);
      const end = next ? next.y + HEADING_ABOVE_PX : Infinity;
      let top: number;
      if (panel.shared && !isSpecial(placed)) {
        // anywhere beside the rows of the site
        top = Math.max(y + Math.max(heightPx, SITE_PX) / 2, lowest + SITE_PX / 2, lastY + SITE_PX);
        const rowsOf = panel.shared.rowsOf[panel.shared.site[row]!]!;
        if (top > y + Math.max(SITE_PX, rowsOf * heightPx) || top + SITE_PX / 2 > end) return NaN;
      } else {
        // of a high row that is partly out of view, beside what is seen of it
        const latest = y >= lowest ? Infinity : Math.max(y + heightPx / 2, y + heightPx - LABEL_PX / 2);
        top = Math.min(Math.max(y + heightPx / 2, lowest + LABEL_PX / 2), latest, Math.max(y, bottom - LABEL_PX / 2));
        if ((top < lastY + LABEL_PX - 1 || top + LABEL_PX / 2 > end) && !isSpecial(placed)) return NaN;
      }
      lastY = top;
      return top;
    });
    // the last of them are not cut by the lower edge, if others can give them room or go
    let limit = bottom - SITE_PX / 2;
    for (let i = tops.length - 1; i >= 0; i--) {
      if (Number.isNaN(tops[i])) continue;
      if (tops[i]! <= limit) break;
      const { panel, y } = shownRows[i]!;
      if (!panel.shared) break;
      if (limit < Math.max(y - SITE_PX / 2, lowestOf(panel) + SITE_PX / 2)) {
        tops[i] = NaN;
        continue;
      }
      tops[i] = limit;
      limit -= SITE_PX;
    }
    return tops;
  }

  /** Whether a row has a label beside it: the first of a site, and the middle one of as many as a label is high. */
  private isLabelled({ panel, row, place, heightPx }: PlacedRow, before: PlacedRow | undefined): boolean {
    if (panel.shared) return before?.panel !== panel || panel.shared.site[before.row] !== panel.shared.site[row];
    const every = Math.ceil(LABEL_PX / heightPx);
    const last = this.session.rows.order(panel).length - 1;
    return place % every === Math.min(every >> 1, last);
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
    listen(this.whole.area, {
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
      range: (from, to, done) => this.range(from, to, done),
      hover: () => {},
      leave: () => {},
    });
    listen(this.strip, {
      zoom,
      scroll,
      pan: (dx, dy) => {
        view.pan(-dx / this.widthPx);
        rows.scrollTo(rows.scrollPx - dy);
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
      range: (from, to, done) => this.range(from, to, done),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.hover(-1, -1),
    });
    // the marks before the first click of a double click, which is not meant to set one
    let before: [bigint | null, bigint | null] = [null, null];
    let clickedAt = -Infinity;
    listen(
      this.axis,
      {
        zoom,
        scroll,
        pan: (dx) => {
          view.pan(-dx / this.widthPx);
          session.changed("view");
        },
        click: (x) => {
          const now = performance.now();
          if (now - clickedAt > DOUBLE_CLICK_MS) before = [session.mark, session.second];
          clickedAt = now;
          session.select(session.row, timeAt(x));
        },
        doubleClick: () => {
          [session.mark, session.second] = before;
          view.reset();
          session.changed("choice");
        },
        range: (from, to, done) => {
          const clamp = (x: number) => Math.min(this.widthPx, Math.max(0, x));
          this.marks.drawn = done ? null : [clamp(from), clamp(to)];
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
      { drawsRange: true },
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

  /** Selects a range that is drawn. */
  private range(from: number, to: number, done: boolean): void {
    const { session } = this;
    const timeAt = (x: number) => session.view.at(Math.min(1, Math.max(0, x / this.widthPx)));
    this.marks.drawn = done ? null : [from, to];
    if (!done) return this.redraw();
    session.row = null;
    session.mark = timeAt(Math.min(from, to));
    session.second = timeAt(Math.max(from, to));
    session.changed("choice");
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
      this.drawLabels();
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
