/** Boxes below each other: a thread's spans by depth, or a flame graph. */

import type { BoxRows } from "./box-rows";
import type { LaneImage, View } from "./lane-image";
import { mixed } from "./lane-image";

export const ROW_PX = 17;
/** The least opacity of a pixel in which anything is. */
const FAINTEST = 0.38;
/** A box of fewer device pixels shares its pixels with others. */
const NARROW_PX = 1.5;
const LABEL_PX = 26;
const PADDING_PX = 3;

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
    const { start, length, name } = boxes;
    const { line, width } = image;
    const { background, colors, boxColors, wanted } = style;
    const low = boxes.rowStart[this.first + row]!;
    const high = boxes.rowStart[this.first + row + 1]!;
    const scale = width / (view.to - view.from);
    const perPixel = 1 / scale;
    const narrow = NARROW_PX * perPixel;
    const gap = Math.max(1, Math.round(image.ratio));
    const labelPx = LABEL_PX * image.ratio;
    let box = boxes.firstVisible(this.first + row, view.from);
    if (box >= high || start[box]! >= view.to) return false;
    line.set(image.blank);
    let pixel = 0;
    while (box < high) {
      const left = (start[box]! - view.from) * scale;
      if (left >= width || pixel >= width) break;
      if (left >= pixel + 1) pixel = Math.floor(left);
      if (length[box]! >= narrow) {
        const right = left + length[box]! * scale;
        const x0 = Math.max(pixel, Math.round(left));
        const x1 = Math.min(width, Math.round(right));
        // the gap after a box separates it from the next
        const drawn = right <= width && x1 - x0 > 3 * gap ? x1 - gap : x1;
        const isFound = wanted !== null && wanted.box[box] === 1;
        const color = isFound ? style.found : boxColors ? boxColors[box]! : colors[name[box]!]!;
        line.fill(wanted && !isFound ? mixed(background, color, FAINTEST) : color, x0, Math.max(x0, drawn));
        if (x1 - x0 >= labelPx) this.labels.push({ box, x: x0 / image.ratio, width: (drawn - x0) / image.ratio, row });
        box++;
        // what shares the last pixel of this box is drawn over it
        pixel = Math.max(pixel, Math.floor(right));
        continue;
      }
      const from = view.from + pixel * perPixel;
      const to = from + perPixel;
      // rounding may place the box behind its own pixel
      const next = Math.max(box + 1, boxes.firstFrom(to, box, high));
      const before = box > low && boxes.end(box - 1) > from ? box - 1 : box;
      const share = Math.min(1, boxes.coveredIn(before, next, from, to) * scale);
      const longest = next - box === 1 ? box : boxes.longest(box, next);
      let color = boxColors ? boxColors[longest]! : colors[name[longest]!]!;
      let opacity = Math.max(FAINTEST, Math.sqrt(share));
      if (wanted) {
        if (wanted.any(box, next)) color = style.found;
        else opacity *= FAINTEST;
      }
      line[pixel] = mixed(background, color, opacity);
      // the last one may go on in the next pixel
      box = boxes.end(next - 1) > to ? next - 1 : next;
      pixel++;
    }
    return true;
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
