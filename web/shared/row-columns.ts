/** What each column of pixels of a row shows: the parts of its states, in order from left to right. */

import { type Times, firstAbove, halves } from "./times";
import { GRAINS, type Viewport } from "./viewport";

/** Rows of rectangles; row r has [rows[r], rows[r + 1]), and rectangle i is in one state or several. */
export interface Rectangles {
  rows: Uint32Array;
  starts: Times;
  ends: Times;
  stateAt: Uint32Array;
  state: Uint32Array;
  stateNs: Times;
}

/** The colours of a row's states. */
export interface Paint {
  /** By layer, from the bottom: its pixel, and whether its share is seen however small. */
  pixels: Uint32Array;
  noticed: boolean[];
  /** By state, its layer. */
  layers: Uint32Array;
  /** If given, the part of a rectangle that layer 0 has; layer 1 has the rest. */
  part: ((rectangle: number) => number) | null;
}

/** An image into which rows are drawn. */
export interface Target {
  pixels: Uint32Array;
  width: number;
  height: number;
}

/** What a whole column is in sums of parts, as in kernels/dithered_rows.pyx: sums are exact, and no part is lost. */
export const WHOLE = 2 ** 40;

/** What draws columns. */
export interface Sink {
  /** Columns [from, to) have one layer. */
  solid(from: number, to: number, layer: number): void;
  /** Columns [from, to) have these layers, from the bottom, each with a part of `WHOLE`; the rest has no state. */
  mixed(from: number, to: number, layers: Int32Array, parts: Float64Array, count: number): void;
}

/** The rectangles of a row in a view. */
export class RowColumns {
  private sums = new Float64Array(0);
  private layers = new Int32Array(0);
  private parts = new Float64Array(0);
  private count = 0;
  /** The column that is added up. */
  private at = -1;
  private rectangles!: Rectangles;
  private paint!: Paint;
  private sink!: Sink;

  /** Gives the columns of a row, of `width` pixels, to a sink. */
  collect(rectangles: Rectangles, row: number, view: Viewport, width: number, paint: Paint, sink: Sink): void {
    this.rectangles = rectangles;
    this.paint = paint;
    this.sink = sink;
    this.at = -1;
    this.count = 0;
    if (this.sums.length < paint.pixels.length) {
      this.sums = new Float64Array(paint.pixels.length);
      this.layers = new Int32Array(paint.pixels.length);
      this.parts = new Float64Array(paint.pixels.length);
    }
    const { rows, starts, ends } = rectangles;
    const last = rows[row + 1]!;
    const [hi, lo] = halves(view.startNs);
    const within = Number(view.start % GRAINS) / Number(GRAINS);
    const pxPerNs = scaleOf(view, width);
    for (let i = firstAbove(ends, rows[row]!, last, view.startNs); i < last; i++) {
      const left = Math.max(0, (starts.since(i, hi, lo) - within) * pxPerNs);
      if (left >= width) break;
      const right = Math.min(width, (ends.since(i, hi, lo) - within) * pxPerNs);
      let x = Math.floor(left);
      const end = Math.floor(right);
      if (x === end) this.add(i, x, right - left);
      else {
        if (left > x) this.add(i, x, ++x - left);
        if (x < end) this.fill(i, x, end);
        if (right > end) this.add(i, end, right - end);
      }
    }
    this.settle(this.at + 1);
  }

  /** The layer that a rectangle mostly is in. */
  layerOf(i: number): number {
    const { rectangles, paint } = this;
    if (paint.part) return paint.part(i) >= 0.5 ? 0 : 1;
    const { stateAt, stateNs, state } = rectangles;
    let longest = stateAt[i]!;
    for (let at = longest + 1; at < stateAt[i + 1]!; at++) if (stateNs.number(at) > stateNs.number(longest)) longest = at;
    return paint.layers[state[longest]!]!;
  }

  /** Covers whole columns with a rectangle. */
  private fill(i: number, from: number, to: number): void {
    const { rectangles, paint } = this;
    this.settle(this.at + 1);
    const at = rectangles.stateAt[i]!;
    let layer = paint.layers[rectangles.state[at]!]!;
    let solid = rectangles.stateAt[i + 1]! - at === 1 && this.isFull(i, at);
    if (paint.part) {
      const part = paint.part(i);
      solid = (part <= 0 || part >= 1) && this.coverage(i) >= 1;
      layer = part >= 1 ? 0 : 1;
    }
    if (solid) {
      this.sink.solid(from, to, layer);
      return;
    }
    this.add(i, from, 1);
    this.settle(to);
  }

  /** Covers a part of a column with a rectangle. */
  private add(i: number, x: number, part: number): void {
    if (part <= 0) return;
    if (x !== this.at) this.settle(this.at + 1);
    this.at = x;
    const { rectangles, paint } = this;
    if (paint.part) {
      const covered = this.coverage(i);
      const lit = Math.min(covered, paint.part(i));
      if (lit > 0) this.put(0, part * lit);
      if (covered > lit) this.put(1, part * (covered - lit));
      return;
    }
    const first = rectangles.stateAt[i]!;
    const last = rectangles.stateAt[i + 1]!;
    if (last - first === 1 && this.isFull(i, first)) {
      this.put(paint.layers[rectangles.state[first]!]!, part);
      return;
    }
    const whole = rectangles.ends.since(i, rectangles.starts.hi[i]!, rectangles.starts.lo[i]!);
    for (let at = first; at < last; at++) {
      this.put(paint.layers[rectangles.state[at]!]!, part * (rectangles.stateNs.number(at) / whole));
    }
  }

  private put(layer: number, part: number): void {
    const { sums, layers } = this;
    if (!sums[layer]) {
      let at = this.count++;
      for (; at && layers[at - 1]! > layer; at--) layers[at] = layers[at - 1]!;
      layers[at] = layer;
    }
    sums[layer]! += Math.max(1, Math.round(part * WHOLE));
  }

  /** Gives what was added up to the columns up to `to`. */
  private settle(to: number): void {
    const { sums, layers, parts, count, at } = this;
    this.count = 0;
    if (!count) return;
    for (let each = 0; each < count; each++) {
      parts[each] = sums[layers[each]!]!;
      sums[layers[each]!] = 0;
    }
    this.sink.mixed(at, to, layers, parts, count);
  }

  /** Whether a rectangle is in its only state, at index `at`, all of the time. */
  private isFull(i: number, at: number): boolean {
    const { starts, ends, stateNs } = this.rectangles;
    if (stateNs.lo[at] !== (ends.lo[i]! - starts.lo[i]!) >>> 0) return false;
    return stateNs.number(at) === ends.since(i, starts.hi[i]!, starts.lo[i]!);
  }

  /** The part of a rectangle, 0 to 1, in which it is in any state. */
  private coverage(i: number): number {
    const { starts, ends, stateAt, stateNs } = this.rectangles;
    let ns = 0;
    for (let at = stateAt[i]!; at < stateAt[i + 1]!; at++) ns += stateNs.number(at);
    return ns / ends.since(i, starts.hi[i]!, starts.lo[i]!);
  }
}

/** How many pixels a nanosecond is wide. */
export function scaleOf(view: Viewport, width: number): number {
  return width / (Number(view.span) / Number(GRAINS));
}
