/** The image of all lanes: lanes write pixels, and each frame is put on the canvas at once. */

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
  pixels = new Uint32Array(0);
  /** A row of pixels, for lanes that draw one and repeat it. */
  line = new Uint32Array(0);
  /** A row of pixels without anything in it: the background, with the lines of the time axis. */
  blank = new Uint32Array(0);
  private image: ImageData | null = null;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false })!;
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
    if (width !== this.width || height !== this.height || !this.image) {
      this.width = this.canvas.width = width;
      this.height = this.canvas.height = height;
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.line = new Uint32Array(width);
      this.blank = new Uint32Array(width);
    }
    this.blank.fill(background);
    for (const x of grid) this.blank[Math.round(x * this.ratio)] = line;
  }

  /** Clears the rows of pixels in [top, bottom). */
  clear(top: number, bottom: number): void {
    const high = Math.min(this.height, bottom);
    for (let y = Math.max(0, top); y < high; y++) this.pixels.set(this.blank, y * this.width);
  }

  /** Copies `line` to so many rows of pixels, from `top` on. */
  repeat(top: number, rows: number): void {
    const low = Math.max(0, top);
    const high = Math.min(this.height, top + rows);
    for (let y = low; y < high; y++) this.pixels.set(this.line, y * this.width);
  }

  fill(left: number, top: number, width: number, height: number, color: number): void {
    const x0 = Math.max(0, left);
    const x1 = Math.min(this.width, left + width);
    if (x0 >= x1) return;
    const { pixels, width: stride } = this;
    const end = Math.min(this.height, top + height) * stride;
    const wide = x1 - x0;
    // a call for each row takes longer than writing a few pixels
    if (wide < FEW_PIXELS) {
      for (let row = Math.max(0, top) * stride + x0; row < end; row += stride) {
        for (let at = row; at < row + wide; at++) pixels[at] = color;
      }
    } else for (let row = Math.max(0, top) * stride + x0; row < end; row += stride) pixels.fill(color, row, row + wide);
  }

  /** Puts the pixels on the canvas; what is drawn on the context then lies above them. */
  put(): void {
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.putImageData(this.image!, 0, 0);
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
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
