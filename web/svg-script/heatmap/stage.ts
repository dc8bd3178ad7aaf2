/** The map on its canvas: drawing, pointing, dragging. */

import { h } from "../../shared/dom";
import { themeColor } from "../../shared/page";
import { ticks, wallTicks } from "../../shared/format";
import type { Tooltip } from "../../shared/tooltip";
import { Painter, TILE_COLUMNS } from "./paint";
import type { Session } from "./session";

const LEFT = 64;
const BOTTOM = 30;
const FEWEST_PX = 4;

export class Stage {
  readonly element = h("canvas", {
    class: "map",
    attributes: { tabindex: "0", role: "img", "aria-label": "Heat map: time to the right, offset upwards" },
  });
  private readonly painter: Painter;
  private pending = 0;
  private down: { x: number; y: number } | null = null;

  constructor(
    private readonly session: Session,
    private readonly tooltip: Tooltip,
    isDark: () => boolean,
    private readonly describe: (first: number, last: number, row: number) => Node[],
  ) {
    const { element } = this;
    this.painter = new Painter(session, () => (isDark() ? session.model.dark : session.model.light));
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerleave", () => tooltip.hide());
    element.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.down = this.local(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointerup", (event) => this.up(event));
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    session.listen((change) => {
      if (change === "fold") {
        this.painter.refold();
        tooltip.hide();
      }
      if (change === "cells") this.painter.repaint();
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Values and their colours. */
  key(): { value: number; color: string }[] {
    return this.painter.key(this.group);
  }

  repaint(): void {
    this.painter.repaint();
    this.draw();
  }

  /** How many columns are drawn as one: no more are drawn than the screen has dots. */
  get group(): number {
    const dots = this.plot.width * (devicePixelRatio || 1);
    return 2 ** Math.max(0, Math.ceil(Math.log2(this.session.span / dots)));
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
    this.hatch(pen, themeColor("--bg"));
    const px = width / session.span;
    // Rows finer than the screen would else be left out.
    pen.imageSmoothingEnabled = model.rows > height * ratio;
    const { group } = this;
    const size = group * TILE_COLUMNS;
    const last = Math.min(model.columns.length - 1, session.start + session.span);
    for (let number = Math.floor(session.start / size); number * size <= last; number++) {
      const tile = this.painter.tile(number, group);
      pen.drawImage(tile, LEFT + (number * size - session.start) * px, top, tile.width * group * px, height);
    }
    this.drawLost(pen, px);
    this.drawBox(pen);
    pen.restore();
    this.axes(pen);
  }

  /** Hatches the cells of which some part was lost. */
  private drawLost(pen: CanvasRenderingContext2D, px: number): void {
    const { session } = this;
    const { rows, lost } = session.model;
    const { height, top } = this.plot;
    const path = new Path2D();
    const cells = (column: number, columns: number, low: number, high: number) =>
      path.rect(LEFT + (column - session.start) * px, top + height * (1 - (high + 1) / rows), columns * px, (height * (high - low + 1)) / rows);
    for (const [first, last] of lost) {
      const from = Math.floor(first / rows);
      const to = Math.floor(last / rows);
      if (to < session.start || from > session.start + session.span) continue;
      if (from === to) cells(from, 1, first - from * rows, last - to * rows);
      else {
        cells(from, 1, first - from * rows, rows - 1);
        if (to > from + 1) cells(from + 1, to - from - 1, 0, rows - 1);
        cells(to, 1, 0, last - to * rows);
      }
    }
    pen.save();
    pen.clip(path);
    this.hatch(pen, null);
    pen.restore();
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
    pen.strokeStyle = themeColor("--line2");
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
    let right = -Infinity;
    for (let from = first; from < last; ) {
      if (model.columns[from]! < 0) {
        from++;
        continue;
      }
      let to = from;
      while (to < last && model.columns[to]! >= 0) to++;
      const begin = model.timeNs(model.columns[from]!, 0);
      const end = begin + BigInt(to - from) * model.periodNs;
      const apart = model.head.utc_ns === null ? 110 : 150;
      for (const { ns, label } of marks(begin, end, Math.max(1, Math.floor(((to - from) * px) / apart)), model.head)) {
        const x = LEFT + (from - session.start + Number(ns - begin) / Number(model.periodNs)) * px;
        if (x < LEFT || x > LEFT + width) continue;
        const half = pen.measureText(label).width / 2;
        const middle = Math.min(x, LEFT + width + 12 - half);
        // Those that follow count from the first.
        if (middle - half < right + 8) break;
        right = middle + half;
        pen.fillText(label, middle, top + height + 9);
        line(pen, x, top + height, x, top + height + 5);
      }
      from = to;
    }
  }

  private local(event: PointerEvent | WheelEvent): { x: number; y: number } {
    const { left, top } = this.element.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  /** The places and the row of the cell drawn at a point of the canvas, the nearest if it is outside. */
  private cell({ x, y }: { x: number; y: number }): { first: number; last: number; row: number; inside: boolean } {
    const { session } = this;
    const { width, height, top } = this.plot;
    const inside = x >= LEFT && x < LEFT + width && y >= top && y < top + height;
    const place = Math.floor(session.start + ((x - LEFT) / width) * session.span);
    const row = session.model.rows - 1 - Math.floor(((y - top) / height) * session.model.rows);
    const fit = (value: number, most: number) => Math.min(most, Math.max(0, value));
    const { group } = this;
    const most = session.model.columns.length - 1;
    const first = Math.floor(fit(place, most) / group) * group;
    return { first, last: Math.min(first + group - 1, most), row: fit(row, session.model.rows - 1), inside };
  }

  private move(event: PointerEvent): void {
    const point = this.local(event);
    const at = this.cell(point);
    if (this.down && Math.hypot(point.x - this.down.x, point.y - this.down.y) >= FEWEST_PX) {
      const from = this.cell(this.down);
      const whole = event.shiftKey;
      const band = event.altKey;
      this.session.box = {
        c0: band ? 0 : Math.min(from.first, at.first),
        c1: band ? this.session.model.columns.length - 1 : Math.max(from.last, at.last),
        r0: whole ? 0 : Math.min(from.row, at.row),
        r1: whole ? this.session.model.rows - 1 : Math.max(from.row, at.row),
      };
      this.session.changed("box");
    }
    if (!at.inside || !this.session.model.between(at.first, at.last)) this.tooltip.hide();
    else this.tooltip.show(event.clientX, event.clientY, this.describe(at.first, at.last, at.row));
  }

  private up(event: PointerEvent): void {
    const from = this.down;
    this.down = null;
    if (!from) return;
    const point = this.local(event);
    if (Math.hypot(point.x - from.x, point.y - from.y) >= FEWEST_PX) return;
    const { first, last, row, inside } = this.cell(point);
    this.session.box = inside ? { c0: first, c1: last, r0: row, r1: row } : null;
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

function marks(start: bigint, end: bigint, most: number, head?: { begin_ns: string; utc_ns: string | null }): { ns: bigint; label: string }[] {
  if (head && head.utc_ns !== null) {
    const zero = BigInt(head.utc_ns);
    return wallTicks(start + zero, end + zero, most).marks.map(({ ns, label }) => ({ ns: ns - zero, label }));
  }
  const begin = head ? BigInt(head.begin_ns) : 0n;
  const found = ticks(start - begin, end - begin, most);
  return found.marks.map(({ ns, label }, i) => ({ ns: ns + begin, label: i === 0 && found.base ? `${found.base} ${label}` : label }));
}
