/**
 * All rows at once: how many are in each state over time, above the map; and beside it a strip in
 * which a pixel is a band of rows. Both are of the time in view, and added up when that rests, in
 * pieces between which the page can move. Until then the last picture moves along.
 *
 * A pixel of either has the colour of one state: columns are stacked, and bands choose a state by
 * the thresholds of low rows.
 */

import { limitAt } from "../../shared/dithered-row";
import { h, name } from "../../shared/dom";
import { dateIn, grouped, share, exact } from "../../shared/format";
import { type Paint, RowColumns, type Sink, WHOLE } from "../../shared/row-columns";
import { Tooltip } from "../../shared/tooltip";
import type { Viewport } from "../../shared/viewport";
import type { Panel } from "./model";
import type { Session } from "./session";

/** Of fewer rows the map itself shows all. */
const FEWEST_ROWS = 13;
const REST_MS = 140;
const SLICE_MS = 10;
const OVERVIEW_PX = 30;
const LEAST_FRAME_PX = 5;
const MOST_LISTED = 8;

/** What was added up of a time: by layer, then column, how many rows are in it. */
interface Counts {
  startNs: bigint;
  endNs: bigint;
  columns: number;
  sums: Float64Array;
  paint: Paint;
  most: number;
}

/** Adds the columns of rows to sums. */
class Adder implements Sink {
  sums = new Float64Array(0);
  columns = 0;

  solid(from: number, to: number, layer: number): void {
    const at = layer * this.columns;
    for (let x = at + from; x < at + to; x++) this.sums[x]! += 1;
  }

  mixed(from: number, to: number, layers: Int32Array, parts: Float64Array, count: number): void {
    for (let each = 0; each < count; each++) {
      const at = layers[each]! * this.columns;
      for (let x = at + from; x < at + to; x++) this.sums[x]! += parts[each]! / WHOLE;
    }
  }
}

export class Whole {
  /** The counts of the whole map, as a strip of time. */
  readonly area = h("div", { class: "population", attributes: { role: "img", "aria-label": "How many rows are in each state over time; the table of states has the figures" } });
  readonly label = h("div", { class: "population-label" });
  readonly overview = h("div", { class: "overview", attributes: { "aria-hidden": "true" } });
  private readonly areaCanvas = h("canvas", {});
  private readonly overviewCanvas = h("canvas", {});
  private readonly frame = h("div", { class: "overview-frame" });
  private readonly most = h("div", { class: "muted" });
  private counts: Counts | null = null;
  private picture: HTMLCanvasElement | null = null;
  private timer = 0;
  private wanted = "";

  constructor(
    private readonly session: Session,
    private readonly tooltip: Tooltip,
    private readonly paints: () => Paint[],
  ) {
    this.area.append(this.areaCanvas);
    this.label.append(h("div", {}, "How many in each state"), this.most);
    this.overview.append(this.overviewCanvas, this.frame);
    this.listen();
  }

  /** Whether there are so many rows that the sum of them says more than they do. */
  get isShown(): boolean {
    return this.session.rows.shownCount >= FEWEST_ROWS;
  }

  /** The panel whose table of states the counts are of: that with the most rows. */
  private get main(): Panel {
    const { model, rows } = this.session;
    return model.panels.reduce((most, panel) => (rows.order(panel).length > rows.order(most).length ? panel : most));
  }

  /** Moves the last picture to the time in view, and has a new one made when that rests. */
  draw(isDark: boolean): void {
    const { view, rows, sort, filter, lit, property, value } = this.session;
    const [width, height] = [this.area.clientWidth, this.overview.clientHeight];
    const key = JSON.stringify([String(view.start), String(view.span), width, height, rows.totalPx, sort, filter, lit, property, value, isDark]);
    if (key !== this.wanted) {
      this.wanted = key;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.add(), this.counts ? REST_MS : 0);
    }
    this.place();
    const part = Math.min(1, this.overview.clientHeight / Math.max(1, rows.totalPx));
    const frame = Math.max(LEAST_FRAME_PX, height * part);
    const room = Math.max(1, rows.totalPx - height);
    this.frame.style.height = `${frame}px`;
    this.frame.style.top = `${(rows.scrollPx / room) * (height - frame)}px`;
  }

  /** Draws the counts where the time is that they are of. */
  private place(): void {
    const { counts, picture, areaCanvas, area } = this;
    const scale = devicePixelRatio || 1;
    const [width, height] = [Math.round(area.clientWidth * scale), Math.round(area.clientHeight * scale)];
    if (areaCanvas.width !== width || areaCanvas.height !== height) [areaCanvas.width, areaCanvas.height] = [width, height];
    const pen = areaCanvas.getContext("2d")!;
    pen.clearRect(0, 0, width, height);
    if (!counts || !picture || !width) return;
    const { view } = this.session;
    const left = Math.round(view.ratio(counts.startNs) * width);
    const right = Math.round(view.ratio(counts.endNs) * width);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture, left, 0, Math.max(1, right - left), height);
  }

  private add(): void {
    const { session } = this;
    const key = this.wanted;
    const { view } = session;
    const columns = Math.max(1, this.area.clientWidth);
    const paints = this.paints();
    const still: Pick<Viewport, "start" | "span"> = { start: view.start, span: view.span };
    const work = this.work(view, columns, paints);
    const step = () => {
      // what has moved meanwhile is added up when it rests
      if (key !== this.wanted || view.start !== still.start || view.span !== still.span) return;
      const until = performance.now() + SLICE_MS;
      while (performance.now() < until) if (work.next().done) return;
      this.timer = setTimeout(step);
    };
    step();
  }

  /** Adds up all rows, band by band, and then shows what was found. */
  private *work(view: Viewport, columns: number, paints: Paint[]): Generator<void> {
    const { rows, model } = this.session;
    const { main } = this;
    const adder = new Adder();
    const collector = new RowColumns();
    const paint = paints[main.index]!;
    const layers = Math.max(...paints.map(({ pixels }) => pixels.length));
    const sums = new Float64Array(paint.pixels.length * columns);
    adder.columns = columns;
    adder.sums = new Float64Array(layers * columns);
    const tall = rows.totalPx > this.overview.clientHeight ? this.overview.clientHeight : 0;
    const image = tall ? new ImageData(OVERVIEW_PX, tall) : null;
    const pixels = image && new Uint32Array(image.data.buffer);
    let line = 0;
    let inBand = 0;
    let band: Panel = main;
    const settle = (next: number) => {
      if (inBand) {
        const { pixels: colors } = paints[band.index]!;
        if (band.legend === main.legend) for (let at = 0; at < sums.length; at++) sums[at]! += adder.sums[at]!;
        if (pixels) paintBand(pixels, adder.sums, columns, colors, inBand, line, Math.min(tall, Math.max(next, line + 1)));
        adder.sums.fill(0);
      }
      line = next;
      inBand = 0;
    };
    let done = 0;
    for (const panel of model.panels) {
      const order = rows.order(panel);
      for (let place = 0; place < order.length; place++) {
        const at = tall ? Math.floor((rows.topOfPlace(panel, place) / rows.totalPx) * tall) : 0;
        if (at !== line || band !== panel) settle(at);
        band = panel;
        collector.collect(panel, order[place]!, view, columns, paints[panel.index]!, adder);
        inBand++;
        if (++done % 64 === 0) yield;
      }
    }
    settle(tall);
    this.show({ startNs: view.startNs, endNs: view.endNs, columns, sums, paint, most: 0 }, image);
  }

  private show(counts: Counts, image: ImageData | null): void {
    const { columns, sums, paint } = counts;
    const layers = paint.pixels.length;
    for (let x = 0; x < columns; x++) {
      let all = 0;
      for (let layer = 0; layer < layers; layer++) all += sums[layer * columns + x]!;
      counts.most = Math.max(counts.most, all);
    }
    const tall = Math.max(1, Math.round(this.area.clientHeight * (devicePixelRatio || 1)));
    const stacked = new ImageData(columns, tall);
    const pixels = new Uint32Array(stacked.data.buffer);
    for (let x = 0; x < columns && counts.most; x++) {
      let [sum, bottom] = [0, tall];
      for (let layer = 0; layer < layers; layer++) {
        sum += sums[layer * columns + x]!;
        const top = tall - Math.round((sum / counts.most) * tall);
        for (let y = top; y < bottom; y++) pixels[y * columns + x] = paint.pixels[layer]!;
        bottom = Math.min(bottom, top);
      }
    }
    this.counts = counts;
    this.picture = canvasOf(stacked);
    this.most.textContent = `at most ${grouped(Math.round(counts.most))} at once`;
    if (image) {
      [this.overviewCanvas.width, this.overviewCanvas.height] = [image.width, image.height];
      this.overviewCanvas.getContext("2d")!.putImageData(image, 0, 0);
    }
    this.place();
  }

  /** How many rows are in each state in the column at a place, the most first. */
  private at(x: number): Node[] | null {
    const { counts, session } = this;
    if (!counts) return null;
    const { view, model, lit } = session;
    const ns = view.at(Math.min(1, Math.max(0, x / Math.max(1, this.area.clientWidth))));
    const column = Math.floor((Number(ns - counts.startNs) / Math.max(1, Number(counts.endNs - counts.startNs))) * counts.columns);
    if (column < 0 || column >= counts.columns) return null;
    const { main } = this;
    const namesOf = counts.paint.part
      ? [lit ? main.states[lit.state]?.name ?? "" : "found", "others"]
      : Array.from(counts.paint.pixels, (_, layer) => main.states[counts.paint.layers.indexOf(layer)]!.name);
    const found = namesOf
      .map((label, layer) => ({ label, count: counts.sums[layer * counts.columns + column]!, pixel: counts.paint.pixels[layer]! }))
      .filter(({ count }) => count > 0)
      .sort((a, b) => b.count - a.count);
    const all = found.reduce((sum, { count }) => sum + count, 0);
    const time = model.origin === null ? exact(ns + model.start) : dateIn(model.origin + model.start + ns, model.zone);
    const rows = found.slice(0, MOST_LISTED).map(({ label, count, pixel }) =>
      h(
        "tr",
        {},
        h("td", {}, h("span", { class: "swatch", style: `background:rgb(${pixel & 255} ${(pixel >>> 8) & 255} ${(pixel >>> 16) & 255})` }), " ", name(label)),
        h("td", { class: "number" }, grouped(Math.round(count * 10) / 10)),
        h("td", { class: "number muted" }, share(count / all)),
      ),
    );
    return [h("div", {}, h("b", {}, `${grouped(Math.round(all))} at ${time}`)), h("table", { class: "states" }, ...rows)];
  }

  private listen(): void {
    const { area, overview, session, tooltip } = this;
    area.addEventListener("pointermove", (event) => {
      if (event.buttons) return tooltip.hide();
      const content = this.at(event.clientX - area.getBoundingClientRect().left);
      if (content) tooltip.show(event.clientX, event.clientY, content);
      else tooltip.hide();
    });
    area.addEventListener("pointerleave", () => tooltip.hide());
    const scroll = (event: PointerEvent) => {
      const { top, height } = overview.getBoundingClientRect();
      const { rows } = session;
      rows.scrollTo(((event.clientY - top) / height) * rows.totalPx - height / 2);
      session.changed("view");
    };
    overview.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      overview.setPointerCapture(event.pointerId);
      scroll(event);
    });
    overview.addEventListener("pointermove", (event) => overview.hasPointerCapture(event.pointerId) && scroll(event));
  }
}

/** Draws the lines of a band of rows: each pixel shows one of the states of its part of the time. */
function paintBand(pixels: Uint32Array, sums: Float64Array, columns: number, colors: Uint32Array, rows: number, from: number, to: number): void {
  for (let x = 0; x < OVERVIEW_PX; x++) {
    const first = Math.floor((x * columns) / OVERVIEW_PX);
    const end = Math.max(first + 1, Math.floor(((x + 1) * columns) / OVERVIEW_PX));
    const whole = rows * (end - first);
    for (let y = from; y < to; y++) {
      const limit = limitAt(y, x) * whole;
      let sum = 0;
      for (let layer = 0; layer < colors.length; layer++) {
        for (let column = first; column < end; column++) sum += sums[layer * columns + column]!;
        if (sum <= limit) continue;
        pixels[y * OVERVIEW_PX + x] = colors[layer]!;
        break;
      }
    }
  }
}

function canvasOf(image: ImageData): HTMLCanvasElement {
  const canvas = h("canvas", {});
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}
