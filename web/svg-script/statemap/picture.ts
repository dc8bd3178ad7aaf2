/** The map itself: rows of states, stacked where they are high enough. */

import { DitheredRow } from "../../shared/dithered-row";
import type { Paint } from "../../shared/row-columns";
import { StateRow } from "../../shared/staterow";
import type { Viewport } from "../../shared/viewport";
import type { Rows } from "./rows";

/** In flatter rows nobody can see how a column is divided. */
const STACKED_PX = 6;
const GAP_FROM_PX = 7;
const OPAQUE = 0xff000000;

export class Picture {
  private readonly stateRow = new StateRow();
  private readonly ditheredRow = new DitheredRow();
  private image: ImageData | null = null;

  /** Draws the rows that are in view; `paints` are those of each panel, `ground` is between rows. */
  draw(canvas: HTMLCanvasElement, rows: Rows, view: Viewport, paints: Paint[], ground: number): void {
    const { width, height } = canvas;
    if (!width || !height) return;
    const scale = devicePixelRatio;
    if (this.image?.width !== width || this.image.height !== height) this.image = new ImageData(width, height);
    const target = { pixels: new Uint32Array(this.image.data.buffer), width, height };
    target.pixels.fill(0);
    for (const { panel, row, place, y, heightPx } of rows.visible()) {
      const gap = heightPx >= GAP_FROM_PX ? 1 : 0;
      const tall = Math.max(1, Math.round(heightPx * scale)) - gap;
      const top = Math.round(y * scale);
      const below = top + tall;
      if (gap && below < height) target.pixels.fill((ground | OPAQUE) >>> 0, below * width, (below + 1) * width);
      const paint = paints[panel.index]!;
      if (heightPx >= STACKED_PX) this.stateRow.draw(target, top, tall, panel, row, view, paint);
      else this.ditheredRow.draw(target, top, tall, panel, row, view, paint, place * tall, scale);
    }
    canvas.getContext("2d")!.putImageData(this.image, 0, 0);
  }
}
