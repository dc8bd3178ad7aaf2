/** The map on its canvas: drawing, pointing, dragging. */

import { h } from "../../shared/dom";
import { themeColor } from "../../shared/page";
import { ticks } from "../../shared/time";
import type { Tooltip } from "../../shared/tooltip";
import { TILE_COLUMNS, paint } from "./paint";
import type { Session } from "./session";

const LEFT = 64;
const BOTTOM = 30;
const FEWEST_PX = 4;

export class Stage {
  readonly element = h("canvas", {
    class: "map",
    attributes: { tabindex: "0", role: "img", "aria-label": "Heat map: time to the right, offset upwards" },
  });
  private tiles: HTMLCanvasElement[] = [];
  private pending = 0;
  private down: { x: number; y: number } | null = null;

  constructor(
    private readonly session: Session,
    private readonly tooltip: Tooltip,
    private readonly isDark: () => boolean,
    private readonly describe: (column: number, row: number) => Node[],
  ) {
    const { element } = this;
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerleave", () => tooltip.hide());
    element.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.down = this.local(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointerup", (event) => this.up(event));
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    session.listen((change) => (change === "cells" ? this.repaint() : this.draw()));
    new ResizeObserver(() => this.draw()).observe(element);
  }

  repaint(): void {
    const { model } = this.session;
    this.tiles = paint(this.session, this.isDark() ? model.dark : model.light);
    this.draw();
  }

  private draw(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.drawNow());
  }

  private get plot() {
    const { clientWidth, clientHeight } = this.element;
    return { width: Math.max(1, clientWidth - LEFT - 12), height: Math.max(1, clientHeight - BOTTOM - 8), top: 8 };
  }

  private drawNow(): void {
    const { session, element } = this;
    const { model } = session;
    const { width, height, top } = this.plot;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(element.clientWidth * ratio);
    element.height = Math.round(element.clientHeight * ratio);
    const pen = element.getContext("2d")!;
    pen.scale(ratio, ratio);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, top, width, height);
    pen.clip();
    this.hatch(pen, themeColor("--none"));
    const px = width / session.span;
    pen.imageSmoothingEnabled = px * ratio < 1;
    pen.imageSmoothingQuality = "high";
    this.tiles.forEach((tile, number) => {
      const x = LEFT + (number * TILE_COLUMNS - session.start) * px;
      if (x > LEFT + width || x + tile.width * px < LEFT) return;
      // Whole device pixels where cells are large: else columns are of two widths that shimmer.
      pen.drawImage(tile, x, top, tile.width * px, height);
    });
    for (const [first, last] of model.head.lost) {
      for (let column = Math.floor(first / model.rows); column <= Math.floor(last / model.rows); column++) {
        const place = model.place(column);
        if (place < 0) continue;
        const low = Math.max(0, first - column * model.rows);
        const high = Math.min(model.rows - 1, last - column * model.rows);
        pen.save();
        pen.beginPath();
        pen.rect(LEFT + (place - session.start) * px, top + height * (1 - (high + 1) / model.rows), px, (height * (high - low + 1)) / model.rows);
        pen.clip();
        this.hatch(pen, null);
        pen.restore();
      }
    }
    this.drawBox(pen);
    pen.restore();
    this.axes(pen);
  }

  private hatch(pen: CanvasRenderingContext2D, ground: string | null): void {
    const { width, height, top } = this.plot;
    if (ground) {
      pen.fillStyle = ground;
      pen.fillRect(LEFT, top, width, height);
    }
    pen.strokeStyle = themeColor("--hatch");
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let x = -height; x < width; x += 9) {
      pen.moveTo(LEFT + x, top + height);
      pen.lineTo(LEFT + x + height, top);
    }
    pen.stroke();
  }

  private drawBox(pen: CanvasRenderingContext2D): void {
    const { session } = this;
    const { box, model } = session;
    if (!box) return;
    const { width, height, top } = this.plot;
    const px = width / session.span;
    const x = LEFT + (box.c0 - session.start) * px;
    const y = top + height * (1 - (box.r1 + 1) / model.rows);
    pen.fillStyle = themeColor("--accent-soft");
    pen.strokeStyle = themeColor("--accent");
    pen.lineWidth = 1.5;
    const area = [x, y, (box.c1 - box.c0 + 1) * px, (height * (box.r1 - box.r0 + 1)) / model.rows] as const;
    pen.fillRect(...area);
    pen.strokeRect(...area);
  }

  private axes(pen: CanvasRenderingContext2D): void {
    const { session } = this;
    const { model } = session;
    const { width, height, top } = this.plot;
    pen.font = getComputedStyle(this.element).font;
    pen.fillStyle = themeColor("--muted");
    pen.strokeStyle = themeColor("--edge");
    pen.lineWidth = 1;
    pen.strokeRect(LEFT - 0.5, top - 0.5, width + 1, height + 1);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const { ns, label } of marks(0n, model.periodNs, 6)) {
      const y = top + height * (1 - Number(ns) / Number(model.periodNs));
      pen.fillText(label, LEFT - 9, y);
      line(pen, LEFT - 5, y, LEFT, y);
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const px = width / session.span;
    const first = Math.floor(session.start);
    const last = Math.min(model.columns.length, Math.ceil(session.start + session.span));
    for (let from = first; from < last; ) {
      if (model.columns[from]! < 0) {
        from++;
        continue;
      }
      let to = from;
      while (to < last && model.columns[to]! >= 0) to++;
      const begin = model.timeNs(model.columns[from]!, 0);
      const end = begin + BigInt(to - from) * model.periodNs;
      for (const { ns, label } of marks(begin, end, Math.max(1, Math.floor(((to - from) * px) / 110)))) {
        const x = LEFT + (from - session.start + Number(ns - begin) / Number(model.periodNs)) * px;
        if (x < LEFT || x > LEFT + width) continue;
        pen.fillText(label, x, top + height + 9);
        line(pen, x, top + height, x, top + height + 5);
      }
      from = to;
    }
  }

  private local(event: PointerEvent | WheelEvent): { x: number; y: number } {
    const { left, top } = this.element.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  /** The place and row at a point of the canvas, the nearest if it is outside. */
  private cell({ x, y }: { x: number; y: number }): { place: number; row: number; inside: boolean } {
    const { session } = this;
    const { width, height, top } = this.plot;
    const inside = x >= LEFT && x < LEFT + width && y >= top && y < top + height;
    const place = Math.floor(session.start + ((x - LEFT) / width) * session.span);
    const row = session.model.rows - 1 - Math.floor(((y - top) / height) * session.model.rows);
    const fit = (value: number, most: number) => Math.min(most, Math.max(0, value));
    return { place: fit(place, session.model.columns.length - 1), row: fit(row, session.model.rows - 1), inside };
  }

  private move(event: PointerEvent): void {
    const point = this.local(event);
    const at = this.cell(point);
    if (this.down && Math.hypot(point.x - this.down.x, point.y - this.down.y) >= FEWEST_PX) {
      const from = this.cell(this.down);
      const whole = event.shiftKey;
      const band = event.altKey;
      this.session.box = {
        c0: band ? 0 : Math.min(from.place, at.place),
        c1: band ? this.session.model.columns.length - 1 : Math.max(from.place, at.place),
        r0: whole ? 0 : Math.min(from.row, at.row),
        r1: whole ? this.session.model.rows - 1 : Math.max(from.row, at.row),
      };
      this.session.changed("box");
    }
    const column = this.session.model.columns[at.place] ?? -1;
    if (!at.inside || column < 0) this.tooltip.hide();
    else this.tooltip.show(event.clientX, event.clientY, this.describe(column, at.row));
  }

  private up(event: PointerEvent): void {
    const from = this.down;
    this.down = null;
    if (!from) return;
    const point = this.local(event);
    if (Math.hypot(point.x - from.x, point.y - from.y) >= FEWEST_PX) return;
    const { place, row, inside } = this.cell(point);
    this.session.box = inside ? { c0: place, c1: place, r0: row, r1: row } : null;
    this.session.changed("box");
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { width } = this.plot;
    const ratio = Math.min(1, Math.max(0, (this.local(event).x - LEFT) / width));
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.session.pan((event.deltaX || event.deltaY) / width);
    } else this.session.zoom(Math.exp(event.deltaY / 300), ratio);
  }
}

function line(pen: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

function marks(start: bigint, end: bigint, most: number): { ns: bigint; label: string }[] {
  const found = ticks(start, end, most);
  return found.marks.map(({ ns, label }, i) => ({ ns, label: i === 0 && found.base ? `${found.base} ${label}` : label }));
}

