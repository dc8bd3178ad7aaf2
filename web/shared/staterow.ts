/**
 * A row of states with the share of each state in each column of pixels, stacked in the colours of
 * the legend: what is active is at the bottom. Rectangles of a row come in order of time, so no
 * column is visited twice.
 */

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

const MIXED = 1;
const SOLID = 2;
/** The least part of a row's height that is drawn for a share that is noticed. */
const LEAST = 1 / 60;
/** What sums of shares, in single precision, may be off by. */
const ROUNDING = 1e-3;

export class StateRow {
  private kinds = new Uint8Array(0);
  private solid = new Uint32Array(0);
  private shares = new Float32Array(0);
  private heights = new Int32Array(0);
  private rectangles!: Rectangles;
  private paint!: Paint;

  /** Draws a row into the lines [top, top + tall) of an image. */
  draw(target: Target, top: number, tall: number, rectangles: Rectangles, row: number, view: Viewport, paint: Paint): void {
    const { width } = target;
    const layers = paint.pixels.length;
    this.rectangles = rectangles;
    this.paint = paint;
    if (this.kinds.length < width) {
      this.kinds = new Uint8Array(width);
      this.solid = new Uint32Array(width);
    }
    if (this.shares.length < width * layers) this.shares = new Float32Array(width * layers);
    if (this.heights.length < layers) this.heights = new Int32Array(layers);
    this.kinds.fill(0, 0, width);
    this.collect(width, row, view);
    for (let x = 0; x < width; ) {
      const kind = this.kinds[x]!;
      let after = x + 1;
      if (kind === MIXED) this.column(target, top, tall, x);
      else {
        while (after < width && this.kinds[after] === kind && (!kind || this.solid[after] === this.solid[x])) after++;
        if (kind) this.block(target, top, tall, x, after);
      }
      x = after;
    }
  }

  /** Adds up what covers each column of pixels. */
  private collect(width: number, row: number, view: Viewport): void {
    const { rows, starts, ends } = this.rectangles;
    const last = rows[row + 1]!;
    const [hi, lo] = halves(view.startNs);
    const within = Number(view.start % GRAINS) / Number(GRAINS);
    const pxPerNs = width / (Number(view.span) / Number(GRAINS));
    for (let i = firstAbove(ends, rows[row]!, last, view.startNs); i < last; i++) {
      const left = Math.max(0, (starts.since(i, hi, lo) - within) * pxPerNs);
      if (left >= width) break;
      const right = Math.min(width, (ends.since(i, hi, lo) - within) * pxPerNs);
      let x = Math.floor(left);
      const end = Math.floor(right);
      if (x === end) this.add(i, x, right - left);
      else {
        if (left > x) this.add(i, x, ++x - left);
        this.fill(i, x, end);
        if (right > end) this.add(i, end, right - end);
      }
    }
  }

  /** Covers whole columns with a rectangle. */
  private fill(i: number, from: number, to: number): void {
    const { rectangles, paint } = this;
    const at = rectangles.stateAt[i]!;
    let layer = paint.layers[rectangles.state[at]!]!;
    let solid = rectangles.stateAt[i + 1]! - at === 1 && this.isFull(i, at);
    if (paint.part) {
      const part = paint.part(i);
      solid = (part <= 0 || part >= 1) && this.coverage(i) >= 1;
      layer = part >= 1 ? 0 : 1;
    }
    if (solid) {
      this.kinds.fill(SOLID, from, to);
      this.solid.fill(layer, from, to);
    } else for (let x = from; x < to; x++) this.add(i, x, 1);
  }

  /** Covers a part of a column with a rectangle. */
  private add(i: number, x: number, part: number): void {
    const { rectangles, paint, shares } = this;
    const base = x * paint.pixels.length;
    if (!this.kinds[x]) {
      this.kinds[x] = MIXED;
      shares.fill(0, base, base + paint.pixels.length);
    }
    if (paint.part) {
      const covered = this.coverage(i);
      const lit = Math.min(covered, paint.part(i));
      shares[base]! += part * lit;
      shares[base + 1]! += part * (covered - lit);
      return;
    }
    const first = rectangles.stateAt[i]!;
    const last = rectangles.stateAt[i + 1]!;
    if (last - first === 1 && this.isFull(i, first)) {
      shares[base + paint.layers[rectangles.state[first]!]!]! += part;
      return;
    }
    const whole = rectangles.ends.since(i, rectangles.starts.hi[i]!, rectangles.starts.lo[i]!);
    for (let at = first; at < last; at++) {
      shares[base + paint.layers[rectangles.state[at]!]!]! += (part * rectangles.stateNs.number(at)) / whole;
    }
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

  private block({ pixels, width, height }: Target, top: number, tall: number, from: number, to: number): void {
    const pixel = this.paint.pixels[this.solid[from]!]!;
    for (let y = Math.max(0, top); y < Math.min(height, top + tall); y++) pixels.fill(pixel, y * width + from, y * width + to);
  }

  private column({ pixels, width, height }: Target, top: number, tall: number, x: number): void {
    const { paint, shares, heights } = this;
    const layers = paint.pixels.length;
    stackHeights(shares.subarray(x * layers, (x + 1) * layers), paint.noticed, layers, tall, heights);
    let y = top + tall;
    for (let layer = 0; layer < layers; layer++) {
      const pixel = paint.pixels[layer]!;
      for (let left = heights[layer]!; left > 0 && y > top; left--) {
        y--;
        if (y >= 0 && y < height) pixels[y * width + x] = pixel;
      }
    }
  }
}

/**
 * Divides a column of pixels between some shares of 1, the first at the bottom.
 *
 * @param noticed Which shares have a line however small they are.
 * @param heights Where the height of each share is written.
 */
export function stackHeights(shares: ArrayLike<number>, noticed: ArrayLike<unknown>, layers: number, tall: number, heights: Int32Array): void {
  const least = Math.ceil(tall * LEAST);
  let covered = 0;
  let drawn = 0;
  let largest = 0;
  let lacking = 0;
  let taken = 0;
  for (let layer = 0; layer < layers; layer++) {
    const share = shares[layer]!;
    if (share <= 0) {
      heights[layer] = 0;
      continue;
    }
    covered += share;
    const end = Math.round(Math.min(1, covered) * tall);
    let size = end - drawn;
    drawn = end;
    if (size < least && noticed[layer]) {
      lacking += least - size;
      size = least;
    }
    heights[layer] = size;
    taken += size;
    if (size > heights[largest]!) largest = layer;
  }
  if (lacking) {
    const size = Math.max(least, heights[largest]! - lacking);
    taken += size - heights[largest]!;
    heights[largest] = size;
  }
  // small shares are seen, but not in more lines than are covered: the largest of them
  const most = Math.max(least, Math.ceil(Math.min(1, covered) * tall - ROUNDING));
  for (; taken > most; taken--) {
    const smallest = smallestOf(shares, layers, (layer) => heights[layer]! > (noticed[layer] ? 1 : 0));
    heights[smallest < 0 ? smallestOf(shares, layers, (layer) => heights[layer]! > 0) : smallest]!--;
  }
}

/** The layer with the smallest share of those that pass; -1 if none does. */
function smallestOf(shares: ArrayLike<number>, layers: number, passes: (layer: number) => boolean): number {
  let smallest = -1;
  for (let layer = 0; layer < layers; layer++) {
    if (passes(layer) && (smallest < 0 || shares[layer]! < shares[smallest]!)) smallest = layer;
  }
  return smallest;
}
