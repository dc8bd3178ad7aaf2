/** Boxes below each other: a thread's spans by depth, or a flame graph. */

import type { BoxRows, Grid } from "./box-rows";
import type { LaneImage, View } from "./lane-image";
import { mixed } from "./lane-image";

export const ROW_PX = 17;
/** The least opacity of a pixel in which anything is. */
export const FAINTEST = 0.38;
/** A box of fewer device pixels shares its pixels with others. */
export const NARROW_PX = 1.5;
export const LABEL_PX = 26;
/** By the covered share, in parts of 256. */
const OPACITY = Float64Array.from({ length: 257 }, (_, part) => Math.max(FAINTEST, Math.sqrt(part / 256)));

/** How opaque a pixel is of which a share is covered. */
export function opacityOf(share: number): number {
  return share >= 1 ? 1 : OPACITY[(share * 256) | 0]!;
}

/** So many boxes of a pixel are looked at one by one. */
const NEAR = 16;
export const PADDING_PX = 3;

export interface FlameStyle {
  background: number;
  /** The colour of each name. */
  colors: Uint32Array;
  /** If given, the colour of each box instead. */
  boxColors?: Uint32Array;
  /** The ink of labels on boxes. */
  ink: string;
  /** The boxes that are searched for; null without a search. */
  wanted: Wanted | null;
  found: number;
  foundInk: string;
}

const FOUND_SHIFT = 5;
const FOUND_BLOCK = 1 << FOUND_SHIFT;

/** Which boxes are found, so that a pixel with thousands shows whether one of them is. */
export class Wanted {
  /** How many are found before each block. */
  private readonly before: Int32Array;
  readonly count: number;

  /** @param box 1 for a box that is found, otherwise 0. */
  constructor(readonly box: Uint8Array) {
    this.before = new Int32Array((box.length >> FOUND_SHIFT) + 2);
    let sum = 0;
    for (let index = 0; index < box.length; index++) {
      if ((index & (FOUND_BLOCK - 1)) === 0) this.before[index >> FOUND_SHIFT] = sum;
      sum += box[index]!;
    }
    this.before[(box.length + FOUND_BLOCK - 1) >> FOUND_SHIFT] = sum;
    this.count = sum;
  }

  /** Whether one of [first, last) is found. */
  any(first: number, last: number): boolean {
    const low = (first + FOUND_BLOCK - 1) >> FOUND_SHIFT;
    const high = last >> FOUND_SHIFT;
    if (low < high && this.before[high]! > this.before[low]!) return true;
    const edge = Math.min(last, low << FOUND_SHIFT);
    for (let box = first; box < edge; box++) if (this.box[box]) return true;
    for (let box = Math.max(edge, high << FOUND_SHIFT); box < last; box++) if (this.box[box]) return true;
    return false;
  }
}

interface Label {
  box: number;
  x: number;
  width: number;
  row: number;
}

function colorOf(style: FlameStyle, boxes: BoxRows, box: number): number {
  return style.boxColors ? style.boxColors[box]! : style.colors[boxes.name[box]!]!;
}

export class FlameLane {
  private readonly labels: Label[] = [];
  private rowPx = ROW_PX;
  private top = 0;

  /**
   * @param first The first row of `boxes` that is in this lane.
   * @param depth How many rows are drawn.
   */
  constructor(
    readonly boxes: BoxRows,
    readonly first: number,
    public depth: number,
  ) {}

  /** The height in CSS pixels. */
  measure(rowPx = ROW_PX): number {
    return this.depth * rowPx;
  }

  /** Writes the pixels of the lane, whose top is at `top` CSS pixels. */
  draw(image: LaneImage, top: number, view: View, style: FlameStyle, rowPx = ROW_PX): void {
    this.labels.length = 0;
    this.rowPx = rowPx;
    this.top = top;
    const { ratio } = image;
    const firstRow = Math.max(0, Math.floor(-top / rowPx));
    const lastRow = Math.min(this.depth, Math.ceil((image.height / ratio - top) / rowPx));
    for (let row = firstRow; row < lastRow; row++) {
      if (!this.drawRow(image, row, view, style)) continue;
      const y = Math.round((top + row * rowPx) * ratio);
      const below = Math.round((top + (row + 1) * rowPx) * ratio);
      image.repeat(y, Math.max(1, below - y - Math.max(1, Math.round(ratio))));
    }
  }

  /** Writes one row into `image.line`; false if nothing is in view. */
  private drawRow(image: LaneImage, row: number, view: View, style: FlameStyle): boolean {
    const { boxes } = this;
    const boxRow = this.first + row;
    const first = boxes.firstVisible(boxRow, view.from);
    if (first >= boxes.rowStart[boxRow + 1]! || boxes.start[first]! >= view.to) return false;
    image.clearLine();
    const grid = boxes.grid(boxRow, (view.to - view.from) / image.width);
    if (grid) this.drawCells(image, row, view, style, grid);
    else this.drawBoxes(image, row, view, style, first);
    return true;
  }

  /** Draws a box that fills pixels of its own, from `pixel` on, and returns its right edge. */
  private drawWide(
    image: LaneImage,
    row: number,
    view: View,
    style: FlameStyle,
    box: number,
    pixel: number,
  ): number {
    const { line, width, ratio } = image;
    const { background, wanted } = style;
    const scale = width / (view.to - view.from);
    const left = (this.boxes.start[box]! - view.from) * scale;
    const right = left + this.boxes.length[box]! * scale;
    const x0 = Math.max(pixel, Math.round(left));
    const x1 = Math.min(width, Math.round(right));
    // the gap after a box separates it from the next
    const gap = Math.max(1, Math.round(ratio));
    const end = right <= width && x1 - x0 > 3 * gap ? x1 - gap : x1;
    const isFound = wanted !== null && wanted.box[box] === 1;
    const color = isFound ? style.found : colorOf(style, this.boxes, box);
    line.fill(wanted && !isFound ? mixed(background, color, FAINTEST) : color, x0, Math.max(x0, end));
    if (x1 - x0 >= LABEL_PX * ratio) {
      this.labels.push({ box, x: x0 / ratio, width: (end - x0) / ratio, row });
    }
    return right;
  }

  /** The pixel of boxes that share it, with the colour of the longest. */
  private shared(style: FlameStyle, color: number, share: number, isFound: boolean): number {
    const opacity = opacityOf(share);
    if (isFound) return mixed(style.background, style.found, opacity);
    return mixed(style.background, color, style.wanted ? opacity * FAINTEST : opacity);
  }

  private drawBoxes(image: LaneImage, row: number, view: View, style: FlameStyle, first: number): void {
    const { boxes } = this;
    const { start, length } = boxes;
    const { line, width } = image;
    const { wanted } = style;
    const boxRow = this.first + row;
    const low = boxes.rowStart[boxRow]!;
    const high = boxes.rowStart[boxRow + 1]!;
    const scale = width / (view.to - view.from);
    const perPixel = 1 / scale;
    const narrow = NARROW_PX * perPixel;
    let box = first;
    let pixel = 0;
    while (box < high) {
      const left = (start[box]! - view.from) * scale;
      if (left >= width || pixel >= width) break;
      if (left >= pixel + 1) pixel = Math.floor(left);
      if (length[box]! >= narrow) {
        // what shares the last pixel of this box is drawn over it
        pixel = Math.max(pixel, Math.floor(this.drawWide(image, row, view, style, box, pixel)));
        box++;
        continue;
      }
      const from = view.from + pixel * perPixel;
      const to = from + perPixel;
      // most pixels have few boxes; rounding may place the box behind its own pixel
      let next = box + 1;
      let longest = box;
      const near = Math.min(high, box + NEAR);
      for (; next < near && start[next]! < to; next++) if (length[next]! > length[longest]!) longest = next;
      if (next === near && next < high && start[next]! < to) {
        next = boxes.firstFrom(boxRow, to);
        longest = boxes.longest(box, next);
      }
      const before = box > low && boxes.end(box - 1) > from ? box - 1 : box;
      const share = boxes.coveredIn(before, next, from, to) * scale;
      line[pixel] = this.shared(style, colorOf(style, boxes, longest), share, wanted !== null && wanted.any(box, next));
      // the last one may go on in the next pixel
      box = boxes.end(next - 1) > to ? next - 1 : next;
      pixel++;
    }
  }

  /** The same for pixels of many boxes; their edges are those of the nearest cells. */
  private drawCells(image: LaneImage, row: number, view: View, style: FlameStyle, grid: Grid): void {
    const { boxes } = this;
    const { line, width } = image;
    const { wanted } = style;
    const { origin, cell, cells, before, longest, longestLength, longestName } = grid;
    const boxRow = this.first + row;
    const perPixel = (view.to - view.from) / width;
    const inPixel = perPixel / cell;
    const narrow = NARROW_PX * perPixel;
    // so that a pixel has 2 to 4 cells of this level
    const level = Math.floor(Math.log2(inPixel)) - 1;
    const base = cells >> level;
    const offset = (view.from - origin) / cell;
    let pixel = Math.max(0, Math.floor(-offset / inPixel));
    // what a pixel in which nothing starts has the colour of
    let color = style.background;
    while (pixel < width) {
      const low = Math.max(0, Math.round(offset + pixel * inPixel));
      if (low >= cells) break;
      const high = Math.min(cells, Math.round(offset + (pixel + 1) * inPixel));
      const covered = high > low ? before[high]! - before[low]! : 0;
      let best = base + (low >> level);
      const end = base + (Math.max(low, high - 1) >> level);
      for (let node = best + 1; node <= end; node++) if (longestLength[node]! > longestLength[best]!) best = node;
      const found = longest[best]!;
      if (found >= 0 && longestLength[best]! >= narrow) {
        const right = (boxes.end(found) - view.from) / perPixel;
        if (right > pixel + 1 && (boxes.start[found]! - view.from) / perPixel < pixel + 1) {
          this.drawWide(image, row, view, style, found, pixel);
          pixel = Math.max(pixel + 1, Math.floor(right));
          color = colorOf(style, boxes, found);
          continue;
        }
      }
      if (found >= 0) color = style.boxColors ? style.boxColors[found]! : style.colors[longestName[best]!]!;
      if (covered > 0 || found >= 0) {
        let isFound = false;
        if (wanted) {
          const from = view.from + pixel * perPixel;
          isFound = wanted.any(boxes.firstFrom(boxRow, from), boxes.firstFrom(boxRow, from + perPixel));
        }
        line[pixel] = this.shared(style, color, covered / (inPixel * cell), isFound);
      }
      pixel++;
    }
  }

  /** Draws the labels of the last frame; `text` returns one that fits into so many pixels. */
  drawLabels(
    context: CanvasRenderingContext2D,
    style: FlameStyle,
    text: (box: number, roomPx: number) => string,
  ): void {
    for (const { box, x, width, row } of this.labels) {
      const label = text(box, width - 2 * PADDING_PX);
      if (!label) continue;
      context.fillStyle = style.wanted?.box[box] ? style.foundInk : style.ink;
      context.fillText(label, x + PADDING_PX, this.top + (row + 0.5) * this.rowPx);
    }
  }

  /** The box at a point, in CSS pixels from the lane's left and top; -1 without one. */
  hit(x: number, y: number, view: View, widthPx: number): number {
    const row = Math.floor(y / this.rowPx);
    if (row < 0 || row >= this.depth) return -1;
    const perPixel = (view.to - view.from) / widthPx;
    return this.boxes.at(this.first + row, view.from + x * perPixel, perPixel);
  }
}
