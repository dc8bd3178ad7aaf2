/** The whole in one band: how much of it is busy, what is found, and the part in view. */

import { h } from "./dom";
import { LaneImage } from "./lane-image";
import type { Viewport } from "./viewport";

/** A press of an arrow key moves at least by this fraction. */
const LEAST_STEP = 1e-4;

export class Minimap {
  readonly element: HTMLElement;
  private readonly window = h("div", { class: "window" });
  private readonly image: LaneImage;
  private readonly canvas = h("canvas");

  /** The part in view, as fractions of the whole. */
  private part = { from: 0, to: 1 };

  /** The width in CSS pixels. */
  widthPx = 0;
  private heightPx = 0;

  /**
   * @param move Called with the fraction of the whole that becomes the middle of the view.
   * @param resized Called when the whole is to be drawn again.
   */
  constructor(move: (middle: number) => void, resized: () => void) {
    this.element = h(
      "div",
      { class: "minimap", attributes: { role: "slider", "aria-label": "Part in view", "aria-valuemin": "0", "aria-valuemax": "100", tabindex: "0" } },
      this.canvas,
      this.window,
    );
    this.image = new LaneImage(this.canvas);
    new ResizeObserver(() => {
      this.widthPx = this.element.clientWidth;
      this.heightPx = this.element.clientHeight;
      resized();
    }).observe(this.element);
    const go = (event: PointerEvent) => {
      const area = this.element.getBoundingClientRect();
      move(Math.max(0, Math.min(1, (event.clientX - area.left) / area.width)));
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      go(event);
    });
    this.element.addEventListener("keydown", (event) => {
      const { from, to } = this.part;
      const step = Math.max(LEAST_STEP, (to - from) / 4);
      const places: Record<string, number> = { ArrowLeft: (from + to) / 2 - step, ArrowRight: (from + to) / 2 + step, Home: 0, End: 1 };
      const place = places[event.key];
      if (place === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      move(Math.max(0, Math.min(1, place)));
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) go(event);
    });
  }

  /**
   * Draws the whole again.
   *
   * @param busy How busy a range is.
   * @param found Whether something in a pixel is found.
   */
  draw(
    busy: (from: number, to: number) => number,
    found: ((from: number, to: number) => boolean) | null,
    whole: number,
    colors: { background: number; busy: number; found: number },
  ): void {
    if (!this.widthPx) return;
    this.element.classList.add("painted");
    const { image } = this;
    image.begin(this.widthPx, this.heightPx, colors.background);
    const perPixel = whole / image.width;
    const shares = Float64Array.from({ length: image.width }, (_, x) => busy(x * perPixel, (x + 1) * perPixel));
    // the busiest pixel is as high as the band
    const most = Math.max(1e-9, ...shares);
    for (let x = 0; x < image.width; x++) {
      if (shares[x]! > 0) {
        const high = Math.max(1, Math.round((shares[x]! / most) * (image.height - 6)));
        image.fill(x, image.height - high, 1, high, colors.busy);
      }
      if (found?.(x * perPixel, (x + 1) * perPixel)) image.fill(x, 0, 2, 5, colors.found);
    }
    image.put();
  }

  /** Draws into the band what `draw` does. */
  paint(background: number, draw: (image: LaneImage) => void): void {
    if (!this.widthPx) return;
    this.element.classList.add("painted");
    this.image.begin(this.widthPx, this.heightPx, background);
    draw(this.image);
    this.image.put();
  }

  /** Moves the outline of what is in view. */
  show(view: Viewport): void {
    const from = Number(view.startNs) / Number(view.widthNs);
    const to = Number(view.endNs) / Number(view.widthNs);
    this.window.style.left = `${from * 100}%`;
    this.window.style.width = `${Math.max(0.1, (to - from) * 100)}%`;
    this.window.hidden = view.isWhole;
    this.part = { from, to };
    const percent = (part: number) => `${Number((part * 100).toPrecision(3))} %`;
    this.element.setAttribute("aria-valuenow", String(Math.round(((from + to) / 2) * 100)));
    this.element.setAttribute("aria-valuetext", view.isWhole ? "all" : `${percent(from)} to ${percent(to)}`);
  }
}
