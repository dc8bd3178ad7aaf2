/** A heat map on its canvas: drawing, pointing, selecting by mouse, touch and keys. */

import { h } from "./dom";
import { drawAxes } from "./heat-axes";
import { Painter, TILE_COLUMNS } from "./heat-painter";
import type { HeatState } from "./heat-state";
import { themeColor } from "./page";
import type { Cell, Shape } from "./selection";
import { type Grid, drawCursor, drawSelection } from "./selection-layer";
import type { Tooltip } from "./tooltip";

const LEFT = 64;
/** The most that the names of rows take, and the width of a letter. */
const MOST_LEFT = 170;
const LETTER_PX = 6.2;
const BOTTOM = 30;
const TOP = 8;
const RIGHT = 12;
const DRAG_PX = 4;
const LONG_PRESS_MS = 350;

interface Point {
  x: number;
  y: number;
}

/** The cells drawn at a point: several columns may be drawn as one. */
interface Hit {
  first: number;
  last: number;
  row: number;
  inside: boolean;
}

export class HeatMap {
  readonly canvas = h("canvas", { class: "map", attributes: { tabindex: "0", role: "application" } });
  private readonly spoken = h("div", { class: "spoken", attributes: { "aria-live": "polite" } });
  readonly element = h("div", { class: "heat-map" }, this.canvas, this.spoken);
  private readonly painter: Painter;
  private readonly namesPx: number;
  private pending = 0;
  private down: Point | null = null;
  private readonly touches = new Map<number, Point>();
  private press = 0;
  private isSelecting = false;

  /**
   * @param describe The content of the tooltip of cells, and what is spoken when keys reach one.
   */
  constructor(
    private readonly state: HeatState,
    private readonly tooltip: Tooltip,
    isDark: () => boolean,
    private readonly describe: (first: number, last: number, row: number) => Node[],
  ) {
    const { canvas } = this;
    const { labels, kind } = state.model.y ?? {};
    const right = kind === "weekday" ? "hours" : "time";
    canvas.setAttribute("aria-label", `Heat map: ${right} to the right, ${state.model.rowNoun} upwards`);
    this.namesPx = Math.min(MOST_LEFT, 16 + LETTER_PX * Math.max(0, ...(labels ?? []).map(({ length }) => length)));
    this.painter = new Painter(state, () => (isDark() ? state.model.dark : state.model.light));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerleave", () => tooltip.hide());
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.cancel(event));
    // a long press selects: then the page must not scroll
    canvas.addEventListener("touchmove", (event) => this.isSelecting && event.preventDefault(), { passive: false });
    canvas.addEventListener("contextmenu", (event) => this.touches.size && event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => this.draw());
    state.listen((change) => {
      if (change === "fold") {
        this.painter.refold();
        tooltip.hide();
      }
      if (change === "cells") this.painter.repaint();
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
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
    const dots = this.grid.width * (devicePixelRatio || 1);
    return 2 ** Math.max(0, Math.ceil(Math.log2(this.state.span / dots)));
  }

  private draw(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.drawNow());
  }

  private get grid(): Grid {
    const { clientWidth, clientHeight } = this.canvas;
    const left = Math.max(LEFT, Math.min(this.namesPx, clientWidth / 4));
    const width = Math.max(1, clientWidth - left - RIGHT);
    const { start, span, model } = this.state;
    return { left, top: TOP, width, height: Math.max(1, clientHeight - BOTTOM - TOP), rows: model.rows, start, columnPx: width / span };
  }

  private drawNow(): void {
    const { state, canvas, grid } = this;
    const { left, top, width, height, start, columnPx } = grid;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    const pen = canvas.getContext("2d")!;
    pen.scale(ratio, ratio);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    this.hatch(pen, grid, themeColor("--bg"));
    // Rows finer than the screen would else be left out.
    const { group } = this;
    // rows that share a dot show the strongest of them
    const rowGroup = state.model.y ? Math.max(1, Math.ceil(grid.rows / (height * ratio))) : 1;
    pen.imageSmoothingEnabled = rowGroup === 1 && grid.rows > height * ratio;
    const size = group * TILE_COLUMNS;
    const last = Math.min(state.model.columns.length - 1, start + state.span);
    for (let number = Math.floor(start / size); number * size <= last; number++) {
      const tile = this.painter.tile(number, group, rowGroup);
      const tall = (height * tile.height * rowGroup) / grid.rows;
      pen.drawImage(tile, left + (number * size - start) * columnPx, top + height - tall, tile.width * group * columnPx, tall);
    }
    pen.save();
    pen.clip(this.cells(grid, state.model.lost));
    this.hatch(pen, grid, null);
    pen.restore();
    pen.strokeStyle = themeColor("--text");
    pen.lineWidth = 1;
    pen.stroke(this.cells(grid, state.model.repeated));
    if (state.before) drawSelection(pen, grid, state.before, "A");
    if (state.selection) drawSelection(pen, grid, state.selection, state.before ? "B" : "");
    const { cursor } = state;
    if (cursor && document.activeElement === canvas) drawCursor(pen, grid, cursor.place, cursor.row, 1);
    pen.restore();
    pen.font = getComputedStyle(canvas).font;
    drawAxes(pen, grid, state.model, state.span, RIGHT);
  }

  /** The outline of ranges of cells. */
  private cells(grid: Grid, ranges: readonly [first: number, last: number][]): Path2D {
    const { left, top, height, rows, start, columnPx } = grid;
    const path = new Path2D();
    const cells = (column: number, columns: number, low: number, high: number) =>
      path.rect(left + (column - start) * columnPx, top + height * (1 - (high + 1) / rows), columns * columnPx, (height * (high - low + 1)) / rows);
    for (const [first, last] of ranges) {
      const from = Math.floor(first / rows);
      const to = Math.floor(last / rows);
      if (to < start || from > start + this.state.span) continue;
      if (from === to) cells(from, 1, first - from * rows, last - to * rows);
      else {
        cells(from, 1, first - from * rows, rows - 1);
        if (to > from + 1) cells(from + 1, to - from - 1, 0, rows - 1);
        cells(to, 1, 0, last - to * rows);
      }
    }
    return path;
  }

  private hatch(pen: CanvasRenderingContext2D, { left, top, width, height }: Grid, ground: string | null): void {
    if (ground) {
      pen.fillStyle = ground;
      pen.fillRect(left, top, width, height);
    }
    pen.strokeStyle = themeColor("--hatch");
    pen.lineWidth = 1;
    pen.beginPath();
    for (let x = -height; x < width; x += 8) {
      pen.moveTo(left + x, top + height);
      pen.lineTo(left + x + height, top);
    }
    pen.stroke();
  }

  private local(event: PointerEvent | WheelEvent): Point {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  /** The cells drawn at a point of the canvas, the nearest if it is outside. */
  private hit({ x, y }: Point): Hit {
    const { model } = this.state;
    const { left, top, width, height, rows, start, columnPx } = this.grid;
    const inside = x >= left && x < left + width && y >= top && y < top + height;
    const fit = (value: number, most: number) => Math.min(most, Math.max(0, value));
    const most = model.columns.length - 1;
    const place = fit(Math.floor(start + (x - left) / columnPx), most);
    const row = fit(rows - 1 - Math.floor(((y - top) / height) * rows), rows - 1);
    const { group } = this;
    const first = Math.floor(place / group) * group;
    return { first, last: Math.min(first + group - 1, most), row, inside };
  }

  private begin(event: PointerEvent): void {
    if (event.button) return;
    const point = this.local(event);
    if (event.pointerType === "touch") {
      this.touches.set(event.pointerId, point);
      clearTimeout(this.press);
      this.press = this.touches.size > 1 ? 0 : setTimeout(() => (this.isSelecting = true), LONG_PRESS_MS);
    }
    this.down = point;
    this.canvas.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const point = this.local(event);
    if (event.pointerType === "touch" && !this.isSelecting) return this.touch(event.pointerId, point);
    const at = this.hit(point);
    if (this.down && Math.hypot(point.x - this.down.x, point.y - this.down.y) >= DRAG_PX) {
      this.tooltip.hide();
      return this.drag(this.down, at, event);
    }
    if (event.pointerType === "touch") return;
    if (!at.inside || !this.state.model.between(at.first, at.last)) this.tooltip.hide();
    else this.tooltip.show(event.clientX, event.clientY, this.describe(at.first, at.last, at.row));
  }

  /** Selects from where the pointer went down to where it is. */
  private drag(down: Point, at: Hit, { shiftKey, altKey }: PointerEvent): void {
    const { state } = this;
    const from = this.hit(down);
    const shape: Shape = altKey ? "band" : shiftKey ? "time" : state.shape;
    const [first, last] = altKey
      ? [0, state.model.columns.length - 1]
      : [Math.min(from.first, at.first), Math.max(from.last, at.last)];
    const isBackward = at.first < from.first;
    state.anchor = { place: altKey || !isBackward ? first : last, row: from.row };
    state.extendTo({ place: altKey || !isBackward ? last : first, row: at.row }, shape);
  }

  /** One finger moves along the time, two zoom; up and down, the page scrolls. */
  private touch(id: number, point: Point): void {
    const before = this.touches.get(id);
    if (!before) return;
    clearTimeout(this.press);
    const { width, left } = this.grid;
    this.touches.set(id, point);
    const [one, other] = [...this.touches.values()];
    if (other) {
      const still = one === point ? other : one!;
      const apart = Math.abs(before.x - still.x);
      const now = Math.abs(point.x - still.x);
      if (apart > 8 && now > 8) this.state.zoom(apart / now, ((point.x + still.x) / 2 - left) / width);
    } else this.state.pan((before.x - point.x) / width);
  }

  private up(event: PointerEvent): void {
    const { state, down } = this;
    this.cancel(event);
    if (!down) return;
    const point = this.local(event);
    if (Math.hypot(point.x - down.x, point.y - down.y) >= DRAG_PX) return;
    const { first, last, row, inside } = this.hit(point);
    if (!inside) return state.setSelection(null);
    const isSingle = state.anchor !== null && state.anchor === state.cursor;
    const extends_ = event.shiftKey || (state.shape === "time" && isSingle);
    if (extends_ && state.anchor) state.extendTo({ place: last, row }, event.shiftKey ? "time" : state.shape);
    else {
      state.selectCell({ place: first, row });
      if (last > first) {
        // several columns are drawn as one: a click selects all of them
        const cell = state.anchor!;
        state.extendTo({ place: last, row }, "band");
        state.anchor = state.cursor = cell;
      }
    }
  }

  private cancel(event: PointerEvent): void {
    this.touches.delete(event.pointerId);
    clearTimeout(this.press);
    this.isSelecting = false;
    this.down = null;
  }

  /** Arrows move a cell, with Shift they extend the selection from it; Enter and Space select. */
  private pressed(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { state } = this;
    const most = { place: state.model.columns.length - 1, row: state.model.rows - 1 };
    const at = state.cursor ?? { place: Math.min(most.place, Math.ceil(state.start)), row: 0 };
    const { group } = this;
    const moves: Record<string, Cell> = {
      ArrowLeft: { place: at.place - group, row: at.row },
      ArrowRight: { place: at.place + group, row: at.row },
      ArrowUp: { place: at.place, row: at.row + 1 },
      ArrowDown: { place: at.place, row: at.row - 1 },
      Home: { place: 0, row: at.row },
      End: { place: most.place, row: at.row },
    };
    const to = moves[event.key];
    if (event.key === "Enter" || event.key === " ") {
      if (event.shiftKey) state.extendTo(at);
      else state.selectCell(at);
    } else if (to) {
      const cell = { place: Math.max(0, Math.min(most.place, to.place)), row: Math.max(0, Math.min(most.row, to.row)) };
      if (event.shiftKey) state.extendTo(cell);
      else state.cursor = cell;
      state.reveal(cell.place);
      this.spoken.textContent = this.describe(cell.place, cell.place, cell.row).map((node) => node.textContent).join(", ");
    } else return;
    this.tooltip.hide();
    event.preventDefault();
    event.stopPropagation();
    this.draw();
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { width, left } = this.grid;
    const ratio = Math.min(1, Math.max(0, (this.local(event).x - left) / width));
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.state.pan((event.deltaX || event.deltaY) / width);
    } else this.state.zoom(Math.exp(event.deltaY / 300), ratio);
  }
}
