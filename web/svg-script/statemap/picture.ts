/** The map itself: rows of states, stacked where they are high enough. */

import { StateRow } from "../../shared/staterow";
import type { Viewport } from "../../shared/viewport";
import type { Colors } from "./colors";
import { drawFlat } from "./flat";
import type { Rows } from "./rows";

/** In flatter rows nobody can see how a column is divided. */
const STACKED_PX = 6;
const GAP_FROM_PX = 7;
/** More layers than this would need more memory than the picture has pixels. */
const MOST_LAYERS = 1000;
const OPAQUE = 0xff000000;

export class Picture {
  private readonly stateRow = new StateRow();
  private image: ImageData | null = null;

  /** Draws the rows that are in view; `colors` are those of each panel, `ground` is between rows. */
  draw(canvas: HTMLCanvasElement, rows: Rows, view: Viewport, colors: Colors[], ground: number): void {
    const { width, height } = canvas;
    if (!width || !height) return;
    const scale = devicePixelRatio;
    if (this.image?.width !== width || this.image.height !== height) this.image = new ImageData(width, height);
    const target = { pixels: new Uint32Array(this.image.data.buffer), width, height };
    target.pixels.fill(0);
    for (const { panel, row, y, heightPx } of rows.visible()) {
      const gap = heightPx >= GAP_FROM_PX ? 1 : 0;
      const tall = Math.max(1, Math.round(heightPx * scale)) - gap;
      const top = Math.round(y * scale);
      const below = top + tall;
      if (gap && below < height) target.pixels.fill((ground | OPAQUE) >>> 0, below * width, (below + 1) * width);
      const { paint, colorOf } = colors[panel.index]!;
      if (heightPx >= STACKED_PX && paint.pixels.length <= MOST_LAYERS) {
        this.stateRow.draw(target, top, tall, panel, row, view, paint);
        continue;
      }
      const first = Math.max(0, top);
      const last = Math.min(height, top + tall);
      if (first >= last) continue;
      drawFlat(target.pixels, first * width, width, scale, panel, row, view, colorOf);
      for (let line = first + 1; line < last; line++) {
        target.pixels.copyWithin(line * width, first * width, (first + 1) * width);
      }
    }
    canvas.getContext("2d")!.putImageData(this.image, 0, 0);
  }
}
