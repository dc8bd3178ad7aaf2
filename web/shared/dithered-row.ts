/**
 * A row that is too low to stack the shares of its states: each pixel shows one of the states. The
 * states of a column of pixels divide [0, 1) in the order of their layers, and a pixel shows the one
 * in whose part its threshold is. kernels/dithered_rows.pyx draws pictures by the same rule.
 */

import matrix from "../../src/meantime/views/static/thresholds.bin?inline";
import { type Paint, type Rectangles, RowColumns, type Sink, type Target, WHOLE, scaleOf } from "./row-columns";
import { firstAbove, halves } from "./times";
import { GRAINS, type Viewport } from "./viewport";

const SIDE = 64;
/** So many CSS pixels have one threshold together, as colours of single pixels mix in the eye. */
const GRAIN = 2;
/** What stands next to something this wide, in CSS pixels, is lone. */
const ROOM = 4;

/** By row and column, what the parts of layers that a pixel does not show add up to at most. */
const limits = thresholds();

function thresholds(): Float64Array {
  const bytes = Uint8Array.from(atob(matrix.slice(matrix.indexOf(",") + 1)), (digit) => digit.charCodeAt(0));
  return Float64Array.from(new Uint16Array(bytes.buffer), (rank) => ((rank + 0.5) / (SIDE * SIDE)) * WHOLE);
}

/** Which part of a whole is shown at most before a pixel shows a layer, 0 to 1. */
export function limitAt(line: number, x: number): number {
  return limits[(line % SIDE) * SIDE + (x % SIDE)]! / WHOLE;
}

export class DitheredRow implements Sink {
  private readonly columns = new RowColumns();
  private width = 0;
  private tall = 0;
  /** The lines of a mark: half of a column, rounded up; and the first of them. */
  private half = 0;
  private middle = 0;
  /** The place of the first pixel in the pattern, and how many pixels have one threshold. */
  private phase = 0;
  private line = 0;
  private grain = GRAIN;
  private room = ROOM;
  /** 1 more than the layer of each pixel; 0 where no state is. */
  private lines = new Int32Array(0);
  private marked = new Uint8Array(0);
  /** By layer: how many pixels show it, its largest part of a column, and which column that is. */
  private shown = new Int32Array(0);
  private best = new Float64Array(0);
  private bestX = new Int32Array(0);

  /**
   * Draws a row into the lines [top, top + tall) of an image.
   *
   * @param line How many lines the rows above it have.
   * @param scale Device pixels of a CSS pixel.
   */
  draw(target: Target, top: number, tall: number, rectangles: Rectangles, row: number, view: Viewport, paint: Paint, line: number, scale: number): void {
    const { width } = target;
    this.begin(width, tall, paint);
    this.line = line;
    this.grain = GRAIN * scale;
    // what moves takes its pattern along
    this.phase = Math.round((Number(view.start) / Number(GRAINS)) * scaleOf(view, width));
    this.columns.collect(rectangles, row, view, width, paint, this);
    this.room = ROOM * scale;
    this.markLone(rectangles, row, view);
    for (let layer = 0; layer < paint.pixels.length; layer++) {
      if (this.best[layer] && !this.shown[layer]) this.mark(this.bestX[layer]!, layer);
    }
    const { lines } = this;
    const { pixels } = paint;
    for (let y = Math.max(0, -top); y < tall && top + y < target.height; y++) {
      const to = (top + y) * width;
      for (let x = 0; x < width; x++) {
        const layer = lines[y * width + x]!;
        if (layer) target.pixels[to + x] = pixels[layer - 1]!;
      }
    }
  }

  private begin(width: number, tall: number, paint: Paint): void {
    this.width = width;
    this.tall = tall;
    this.half = (tall + 1) >> 1;
    this.middle = (tall - this.half) >> 1;
    const layers = paint.pixels.length;
    if (this.shown.length < layers) {
      this.shown = new Int32Array(layers);
      this.best = new Float64Array(layers);
      this.bestX = new Int32Array(layers);
    }
    if (this.lines.length < width * tall) this.lines = new Int32Array(width * tall);
    if (this.marked.length < width) this.marked = new Uint8Array(width);
    this.shown.fill(0, 0, layers);
    this.best.fill(0, 0, layers);
    this.lines.fill(0, 0, width * tall);
    this.marked.fill(0, 0, width);
  }

  solid(from: number, to: number, layer: number): void {
    const { width, tall, lines } = this;
    for (let y = 0; y < tall; y++) lines.fill(layer + 1, y * width + from, y * width + to);
    this.shown[layer]! += tall * (to - from);
    this.see(layer, WHOLE, from);
  }

  mixed(from: number, to: number, layers: Int32Array, parts: Float64Array, count: number): void {
    const { width, tall, lines, shown, grain } = this;
    for (let at = 0; at < count; at++) this.see(layers[at]!, parts[at]!, from);
    for (let y = 0; y < tall; y++) {
      const row = (Math.floor((this.line + y) / grain) % SIDE) * SIDE;
      for (let x = from; x < to; x++) {
        const limit = limits[row + (Math.floor((x + this.phase) / grain) % SIDE)]!;
        let covered = 0;
        for (let at = 0; at < count; at++) {
          covered += parts[at]!;
          if (covered <= limit) continue;
          lines[y * width + x] = layers[at]! + 1;
          shown[layers[at]!]!++;
          break;
        }
      }
    }
  }

  private see(layer: number, part: number, x: number): void {
    if (part <= this.best[layer]!) return;
    this.best[layer] = part;
    this.bestX[layer] = x;
  }

  /** Shows rectangles that cover no whole pixel and stand next to something that is `room` pixels wide. */
  private markLone({ rows, starts, ends }: Rectangles, row: number, view: Viewport): void {
    const { width, room } = this;
    const [first, last] = [rows[row]!, rows[row + 1]!];
    const [hi, lo] = halves(view.startNs);
    const within = Number(view.start % GRAINS) / Number(GRAINS);
    const pxPerNs = scaleOf(view, width);
    const leftOf = (i: number) => (starts.since(i, hi, lo) - within) * pxPerNs;
    const rightOf = (i: number) => (ends.since(i, hi, lo) - within) * pxPerNs;
    for (let i = firstAbove(ends, first, last, view.startNs); i < last; i++) {
      const [left, right] = [leftOf(i), rightOf(i)];
      if (left >= width) break;
      if (Math.floor(right) > Math.ceil(left)) continue;
      let before = left - (i > first ? rightOf(i - 1) : view.ratio(0n) * width);
      if (before <= 0 && i > first) before = (ends.since(i - 1, starts.hi[i - 1]!, starts.lo[i - 1]!)) * pxPerNs;
      let after = (i + 1 < last ? leftOf(i + 1) : view.ratio(view.widthNs) * width) - right;
      if (after <= 0 && i + 1 < last) after = (ends.since(i + 1, starts.hi[i + 1]!, starts.lo[i + 1]!)) * pxPerNs;
      if (before < room && after < room) continue;
      const layer = this.columns.layerOf(i);
      let seen = 0;
      for (let x = Math.max(0, Math.floor(left)); x < Math.min(width, Math.ceil(right)); x++) {
        for (let y = 0; y < this.tall; y++) seen += Number(this.lines[y * width + x] === layer + 1);
      }
      if (seen < this.half) this.mark(Math.floor((left + right) / 2), layer);
    }
  }

  /** Shows a layer in half of a column, or of the nearest that is free within `room`. */
  private mark(x: number, layer: number): void {
    for (let distance = 0; distance <= this.room; distance++) {
      const at = this.canMark(x + distance, layer) ? x + distance : x - distance;
      if (at !== x + distance && !this.canMark(at, layer)) continue;
      this.marked[at] = 1;
      for (let y = this.middle; y < this.middle + this.half; y++) {
        const place = y * this.width + at;
        if (this.lines[place]) this.shown[this.lines[place]! - 1]!--;
        this.lines[place] = layer + 1;
        this.shown[layer]!++;
      }
      return;
    }
  }

  /** Whether a mark at a column hides neither another mark nor all of another state. */
  private canMark(x: number, layer: number): boolean {
    if (x < 0 || x >= this.width || this.marked[x]) return false;
    for (let y = this.middle; y < this.middle + this.half; y++) {
      const shown = this.lines[y * this.width + x]! - 1;
      if (shown >= 0 && shown !== layer && this.shown[shown]! <= this.half) return false;
    }
    return true;
  }
}
