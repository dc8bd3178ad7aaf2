/** The image of all lanes: lanes write pixels, and each frame is put on the canvas at once, or drawn by a GPU. */

import type { LaneQuads } from "./lane-quads";

export interface View {
  /** The range in view. */
  from: number;
  to: number;
}

/** So many pixels are written one by one: a call takes longer. */
export const FEW_PIXELS = 24;

export class LaneImage {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  /** In device pixels. */
  width = 0;
  height = 0;
  ratio = 1;
  /** A row of pixels, for lanes that draw one and repeat it. */
  line = new Uint32Array(0);
  private blank = new Uint32Array(0);
  private pixels = new Uint32Array(0);
  private image: ImageData | null = null;
  /** If given, draws the pixels where that is possible, and the canvas has only what lies above them. */
  below: LaneQuads | null = null;
  /** What draws this frame below the canvas; null if the image does. */
  private quads: LaneQuads | null = null;
  private isNew = false;

  /** @param isAbove Whether something may be below the canvas. */
  constructor(canvas: HTMLCanvasElement, isAbove = false) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: isAbove })!;
  }

  /** Begins a frame of a size in CSS pixels, filled with a colour, with vertical lines at `grid`. */
  begin(cssWidth: number, cssHeight: number, background: number, grid: readonly number[] = [], line = 0): void {
    this.prepare(cssWidth, cssHeight, background, grid, line);
    this.clear(0, this.height);
  }

  /** Begins a frame in which every row of pixels is drawn or cleared. */
  prepare(cssWidth: number, cssHeight: number, background: number, grid: readonly number[], line: number): void {
    this.ratio = devicePixelRatio || 1;
    const width = Math.max(1, Math.round(cssWidth * this.ratio));
    const height = Math.max(1, Math.round(cssHeight * this.ratio));
    if (width !== this.width || height !== this.height) {
      this.width = this.canvas.width = width;
      this.height = this.canvas.height = height;
      this.line = new Uint32Array(width);
      this.blank = new Uint32Array(width);
      this.image = null;
    }
    this.blank.fill(background);
    for (const x of grid) this.blank[Math.round(x * this.ratio)] = line;
    this.isNew = true;
    this.quads = this.below?.begin(width, height, this.blank) ? this.below : null;
    if (this.quads) this.image = null;
    else if (!this.image) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
  }

  /** Makes `line` a row of pixels without anything in it: the background, with the lines of the time axis. */
  clearLine(): void {
    this.line.set(this.blank);
  }

  /** Clears the rows of pixels in [top, bottom). */
  clear(top: number, bottom: number): void {
    this.copy(this.blank, top, bottom);
  }

  /** Copies `line` to so many rows of pixels, from `top` on. */
  repeat(top: number, rows: number): void {
    this.copy(this.line, top, top + rows);
  }

  private copy(row: Uint32Array, top: number, bottom: number): void {
    const { pixels, width, quads } = this;
    const low = Math.max(0, top);
    const high = Math.min(this.height, bottom);
    if (low >= high) return;
    if (quads) quads.add(0, low, width, high - low, row === this.blank ? 0 : quads.row(row));
    else for (let y = low; y < high; y++) pixels.set(row, y * width);
  }

  fill(left: number, top: number, width: number, height: number, color: number): void {
    const x0 = Math.max(0, left);
    const x1 = Math.min(this.width, left + width);
    const low = Math.max(0, top);
    const high = Math.min(this.height, top + height);
    if (x0 >= x1 || low >= high) return;
    if (this.quads) {
      this.quads.add(x0, low, x1 - x0, high - low, color);
      return;
    }
    const { pixels, width: stride } = this;
    const end = high * stride;
    const wide = x1 - x0;
    // a call for each row takes longer than writing a few pixels
    if (wide < FEW_PIXELS) {
      for (let row = low * stride + x0; row < end; row += stride) {
        for (let at = row; at < row + wide; at++) pixels[at] = color;
      }
    } else for (let row = low * stride + x0; row < end; row += stride) pixels.fill(color, row, row + wide);
  }

  /** Shows the pixels; what is drawn on the context then lies above them. */
  put(): void {
    const { context, quads } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (!quads) context.putImageData(this.image!, 0, 0);
    else {
      if (this.isNew) quads.draw();
      context.clearRect(0, 0, this.width, this.height);
    }
    this.isNew = false;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }

  /** Removes what lies above the upper rows of pixels. */
  uncover(rows: number): void {
    const { context, quads } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (quads) context.clearRect(0, 0, this.width, rows);
    else context.putImageData(this.image!, 0, 0, 0, 0, this.width, rows);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }

  /** The pixels with what lies above them. */
  get picture(): HTMLCanvasElement {
    const { canvas, quads } = this;
    if (!quads) return canvas;
    const picture = document.createElement("canvas");
    [picture.width, picture.height] = [this.width, this.height];
    const pen = picture.getContext("2d")!;
    // what was shown is not there any more
    quads.draw();
    for (const each of [quads.canvas, canvas]) pen.drawImage(each, 0, 0);
    return picture;
  }
}

/** A colour moved towards another by a fraction. */
export function mixed(from: number, to: number, part: number): number {
  // red and blue at once: each product fits in its 16 bits
  const far = (part * 256) | 0;
  const near = 256 - far;
  const ends = (Math.imul(from & 0xff00ff, near) + Math.imul(to & 0xff00ff, far)) >>> 8;
  const green = (Math.imul(from & 0xff00, near) + Math.imul(to & 0xff00, far)) >>> 8;
  return (0xff000000 | (ends & 0xff00ff) | (green & 0xff00)) >>> 0;
}

/** The pixel of a colour such as `#0f1013` or `#fff`. */
export function pixelOf(hex: string): number {
  const digits = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
  const code = Number.parseInt(digits.slice(1), 16);
  return ((255 << 24) | ((code & 255) << 16) | (code & 0xff00) | (code >> 16)) >>> 0;
}
