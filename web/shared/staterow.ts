/**
 * A row of states with the share of each state in each column of pixels, stacked in the colours of
 * the legend: what is active is at the bottom.
 */

import { type Paint, type Rectangles, RowColumns, type Sink, type Target, WHOLE } from "./row-columns";
import type { Viewport } from "./viewport";

/** The least part of a row's height that is drawn for a share that is noticed. */
const LEAST = 1 / 60;
/** What sums of shares, in single precision, may be off by. */
const ROUNDING = 1e-3;

export class StateRow implements Sink {
  private readonly columns = new RowColumns();
  private shares = new Float64Array(0);
  private noticed = new Uint8Array(0);
  private heights = new Int32Array(0);
  private target!: Target;
  private top = 0;
  private tall = 0;
  private paint!: Paint;

  /** Draws a row into the lines [top, top + tall) of an image. */
  draw(target: Target, top: number, tall: number, rectangles: Rectangles, row: number, view: Viewport, paint: Paint): void {
    this.target = target;
    this.top = top;
    this.tall = tall;
    this.paint = paint;
    if (this.heights.length < paint.pixels.length) {
      this.shares = new Float64Array(paint.pixels.length);
      this.noticed = new Uint8Array(paint.pixels.length);
      this.heights = new Int32Array(paint.pixels.length);
    }
    this.columns.collect(rectangles, row, view, target.width, paint, this);
  }

  solid(from: number, to: number, layer: number): void {
    const { top, tall } = this;
    const { pixels, width, height } = this.target;
    const pixel = this.paint.pixels[layer]!;
    for (let y = Math.max(0, top); y < Math.min(height, top + tall); y++) pixels.fill(pixel, y * width + from, y * width + to);
  }

  mixed(from: number, to: number, layers: Int32Array, parts: Float64Array, count: number): void {
    const { paint, top, tall, shares, noticed, heights } = this;
    const { pixels, width, height } = this.target;
    for (let at = 0; at < count; at++) {
      shares[at] = parts[at]! / WHOLE;
      noticed[at] = Number(paint.noticed[layers[at]!]);
    }
    stackHeights(shares, noticed, count, tall, heights);
    let y = top + tall;
    for (let at = 0; at < count; at++) {
      const pixel = paint.pixels[layers[at]!]!;
      for (let left = heights[at]!; left > 0 && y > top; left--) {
        y--;
        if (y >= 0 && y < height) pixels.fill(pixel, y * width + from, y * width + to);
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
