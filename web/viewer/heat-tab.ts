/** A heat map below the time axis: columns are periods, rows the offset within one. */

import { button, h, shown } from "../shared/dom";
import { duration, exact, grouped } from "../shared/format";
import { packed, oklch } from "../shared/name-colors";
import { LaneImage } from "../shared/lane-image";
import { hatch } from "./lanes";
import { themeColor } from "../shared/page";
import { parsed } from "../shared/heat-model";
import type { Tooltip } from "../shared/tooltip";
import { OF_SPANS } from "./model";
import type { Heat } from "./protocol";
import type { Session } from "./session";
import type { FileModel } from "./model";

const STOPS = {
  light: [[0.975, 0.012, 95], [0.9, 0.08, 90], [0.78, 0.14, 65], [0.62, 0.18, 35], [0.46, 0.16, 10], [0.3, 0.09, 330]],
  dark: [[0.2, 0.02, 280], [0.32, 0.09, 300], [0.45, 0.15, 340], [0.6, 0.17, 25], [0.76, 0.15, 60], [0.93, 0.1, 100]],
} as const;
/** Where the least value is on the ramp. */
const LEAST = 0.12;
const HEAD_PX = 20;
const DRAG_PX = 5;
/** More states are counted in the caption. */
const MOST_NAMED = 3;

export function ramp(part: number, dark: boolean): number {
  const stops = dark ? STOPS.dark : STOPS.light;
  const at = Math.max(0, Math.min(0.9999, part)) * (stops.length - 1);
  const [a, b] = [stops[Math.floor(at)]!, stops[Math.floor(at) + 1]!];
  const by = at - Math.floor(at);
  const turn = ((b[2] - a[2] + 540) % 360) - 180;
  return packed(oklch(a[0] + (b[0] - a[0]) * by, a[1] + (b[1] - a[1]) * by, a[2] + turn * by));
}

export class HeatTab {
  readonly element = h("div", { class: "heat-tab" });
  readonly tools: HTMLElement;
  periodNs: bigint | null = null;
  private about = "";
  private readonly canvas = h("canvas", { attributes: { role: "img", "aria-label": "Heat map: columns are time, rows are the offset within the period" } });
  private readonly image = new LaneImage(this.canvas);
  private readonly period = h("input", { class: "period", attributes: { "aria-label": "Period of a column", size: "8" } });
  private readonly message = h("div", { class: "heat-message" });
  private heat: Heat | null = null;
  private file: FileModel | null = null;
  private values = new Map<number, number>();

  /** @param asked Called when another period is asked for. */
  constructor(
    private readonly session: Session,
    tooltip: Tooltip,
    private readonly asked: () => void,
  ) {
    const caption = h("span", { class: "muted" }, "one column is");
    this.tools = h("span", { class: "heat-tools" }, caption, this.period, button("Auto", "Choose the period by the range", () => this.set(null), { class: "small" }));
    this.period.addEventListener("change", () => this.set(parsed(this.period.value)));
    this.element.append(this.canvas, this.message);
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.canvas.addEventListener("pointermove", (event) => {
      const text = this.describe(event);
      if (text) tooltip.show(event.clientX, event.clientY, text.map((line) => h("div", {}, line)));
      else tooltip.hide();
    });
    this.canvas.addEventListener("pointerleave", () => tooltip.hide());
    let begun: { row: number; y: number } | null = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      const found = this.cellAt(event);
      begun = found && { row: found.row, y: event.clientY };
      if (found) this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const found = begun && Math.abs(event.clientY - begun.y) >= DRAG_PX ? this.cellAt(event) : null;
      if (begun && found) this.select(Math.min(begun.row, found.row), Math.max(begun.row, found.row) + 1);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const found = begun && Math.abs(event.clientY - begun.y) < DRAG_PX ? this.cellAt(event) : null;
      begun = null;
      if (!found) return;
      const from = this.session.inView(this.file!, found.startNs);
      this.session.band = null;
      this.session.setRange({ from: from < 0n ? 0n : from, to: found.endNs - found.startNs + from });
    });
    this.canvas.addEventListener("pointercancel", () => (begun = null));
  }

  /** Selects rows: what happens at these offsets of every period. */
  private select(first: number, last: number): void {
    const heat = this.heat!;
    const periodNs = BigInt(heat.period_ns);
    const edge = (row: number) => (BigInt(row) * periodNs + BigInt(heat.rows) - 1n) / BigInt(heat.rows);
    this.session.thing = null;
    this.session.band = { periodNs, originNs: this.session.inView(this.file!, BigInt(heat.origin_ns)), from: edge(first), to: edge(last) };
    this.session.setRange(null);
    this.draw();
  }

  private set(periodNs: bigint | null): void {
    this.periodNs = periodNs;
    this.asked();
  }

  /** The period to ask for: as chosen, otherwise so that there are some 200 columns. */
  periodFor(rangeNs: bigint): bigint {
    if (this.periodNs !== null) return this.periodNs;
    for (let decade = 1n; ; decade *= 10n) for (const digit of [1n, 2n, 5n]) if (digit * decade * 160n >= rangeNs) return digit * decade;
  }

  get rows(): number {
    return Math.max(10, Math.min(50, Math.floor((this.element.clientHeight - HEAD_PX - 8) / 6)));
  }

  /** Shows a sentence instead of a map. */
  fail(text: string): void {
    this.heat = null;
    this.canvas.hidden = true;
    this.message.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, "Nothing to show"), h("p", {}, shown(text))));
  }

  /** @param about What it counts. */
  show(heat: Heat, file: FileModel, about: string): void {
    this.message.replaceChildren();
    this.canvas.hidden = false;
    this.heat = heat;
    this.file = file;
    this.about = about;
    this.values = new Map(heat.cells.map(([column, row, value]) => [column * heat.rows + row, value]));
    this.period.value = exact(BigInt(heat.period_ns)).replace(" ", "");
    this.draw();
  }

  /** What a map counts, in words. */
  static subject(heat: Heat, file: FileModel, lane: number | undefined): string {
    const of = lane === undefined ? (file.has(OF_SPANS, null) || heat.value !== "ns" ? "all threads" : "all lanes") : file.titleOf(lane);
    if (heat.value !== "ns") return `samples of ${of}`;
    if (!heat.states?.length) return `spans of ${of}`;
    // patterns, in which a name is as it is but for these
    const states = heat.states.map((each) => each.replace(/\[([*?[])\]/g, "$1"));
    if (heat.states.join() === "*") return `states of ${of}`;
    const rest = states.length - MOST_NAMED;
    return `${states.slice(0, MOST_NAMED).join(", ")}${rest > 0 ? ` and ${rest} more states` : ""} of ${of}`;
  }

  draw(): void {
    const { heat, file, session, image } = this;
    const { clientWidth: width, clientHeight } = this.element;
    if (!heat || !file || !width || !clientHeight) return;
    const dark = document.documentElement.dataset.theme === "dark";
    const height = Math.max(120, clientHeight);
    this.canvas.style.height = `${height}px`;
    image.begin(width, height, session.scene.inks.background);
    const { ratio } = image;
    const top = Math.round(HEAD_PX * ratio);
    const tall = image.height - top - Math.round(4 * ratio);
    const scale = image.width / session.scene.spanNs;
    const period = Number(heat.period_ns);
    const first = session.scene.since(file, BigInt(heat.origin_ns));
    const empty = ramp(0, dark);
    const sorted = Float64Array.from(heat.cells, ([, , value]) => value).sort();
    const isTime = heat.value === "ns";
    const cell = period / heat.rows;
    const colors = Array.from({ length: 256 }, (_, step) => ramp(LEAST + (step / 255) * (1 - LEAST), dark));
    // counts by rank, the middle of equal ones; times as a part of the cell
    const shade = (value: number) => {
      if (isTime) return Math.min(1, value / cell);
      const low = lowerBound(sorted, value - 1e-9);
      const high = lowerBound(sorted, value + 1e-9);
      return sorted.length > 1 ? ((low + high - 1) / 2 / (sorted.length - 1)) : 1;
    };
    const columnAt = (column: number) => Math.round((first + column * period) * scale);
    // of columns that are wide enough to be distinguished; what was recorded is one ground
    const gap = period * scale > 12 * ratio ? Math.max(1, Math.round(ratio)) : 0;
    const rowAt = (row: number) => top + Math.round(tall * (1 - row / heat.rows));
    for (const [low, high] of heat.recorded) {
      for (let column = Math.max(low, Math.floor(-first / period)); column <= high && columnAt(column) < image.width; column++) {
        image.fill(columnAt(column), top, Math.max(1, columnAt(column + 1) - columnAt(column)), tall, empty);
      }
    }
    for (const [column, row, value] of heat.cells) {
      const x = columnAt(column);
      const y = rowAt(row + 1);
      image.fill(x, y, Math.max(1, columnAt(column + 1) - x - gap), Math.max(1, rowAt(row) - y), colors[Math.round(shade(value) * 255)]!);
    }
    // of samples that are missing, only a map of samples has less
    if (file.info.lost_of === null || !isTime) this.drawLost(columnAt, rowAt);
    image.put();
    this.drawBand(image.context, width, height);
    this.drawText(image.context, width, height, isTime, dark);
  }

  /** Hatches what was not recorded, cell by cell. */
  private drawLost(columnAt: (column: number) => number, rowAt: (row: number) => number): void {
    const { image, session } = this;
    const heat = this.heat!;
    const [origin, period] = [BigInt(heat.origin_ns), BigInt(heat.period_ns)];
    const cell = Number(period) / heat.rows;
    const { ratio } = image;
    const rows = (from: number, to: number, column: number) => {
      const [left, right] = [columnAt(column), columnAt(column + 1)];
      if (right > 0 && left < image.width) hatch(image, left, right, rowAt(to) / ratio, (rowAt(from) - rowAt(to)) / ratio, session.scene.inks);
    };
    for (const [start, end] of this.file!.info.lost_ns) {
      const [from, to] = [BigInt(start) - origin, BigInt(end) - origin];
      if (to <= 0n) continue;
      const [first, last] = [from < 0n ? 0n : from / period, (to - 1n) / period];
      const seen = { first: Number(first), last: Math.min(Number(last), heat.columns[1]) };
      for (let column = seen.first; column <= seen.last; column++) {
        const begin = BigInt(column) * period;
        const [low, high] = [from > begin ? Number(from - begin) : 0, to < begin + period ? Number(to - begin) : Number(period)];
        rows(Math.floor(low / cell), Math.min(heat.rows, Math.ceil(high / cell)), column);
      }
    }
  }

  private drawBand(context: CanvasRenderingContext2D, width: number, height: number): void {
    const { band } = this.session;
    if (!band || band.periodNs !== BigInt(this.heat!.period_ns)) return;
    const y = (ns: bigint) => HEAD_PX + (height - HEAD_PX - 4) * (1 - Number(ns) / Number(band.periodNs));
    context.strokeStyle = themeColor("--accent");
    context.lineWidth = 2;
    context.strokeRect(-2, y(band.to), width + 4, y(band.from) - y(band.to));
  }

  private drawText(context: CanvasRenderingContext2D, width: number, height: number, isTime: boolean, dark: boolean): void {
    const { heat } = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = themeColor("--muted");
    const ends = isTime ? ["0 %", "100 %"] : ["least", "most, by rank"];
    const key = Math.min(120, width / 5);
    const right = width - context.measureText(ends[1]!).width - 10;
    for (let x = 0; x < key; x++) {
      const pixel = ramp(LEAST + (x / key) * (1 - LEAST), dark);
      context.fillStyle = `rgb(${pixel & 255} ${(pixel >>> 8) & 255} ${(pixel >>> 16) & 255})`;
      context.fillRect(right - key - 4 + x, 5, 1, 10);
    }
    context.fillStyle = themeColor("--muted");
    context.fillText(ends[1]!, right, 10);
    const left = right - key - 10 - context.measureText(ends[0]!).width;
    context.fillText(ends[0]!, left, 10);
    const within = `offset within each ${duration(BigInt(heat!.period_ns))}`;
    const captions = [`${this.about}, ${within}; columns are below their time`, `${this.about}, ${within}`, this.about];
    const caption = captions.find((text) => context.measureText(text).width < left - 16);
    if (caption) context.fillText(caption, 8, 10);
    for (const part of [0.25, 0.5, 0.75]) {
      const y = HEAD_PX + (height - HEAD_PX - 4) * (1 - part);
      const text = duration(BigInt(Math.round(Number(heat!.period_ns) * part)));
      context.globalAlpha = 0.8;
      context.fillStyle = themeColor("--bg");
      context.fillRect(3, y - 8, context.measureText(text).width + 8, 16);
      context.globalAlpha = 1;
      context.fillStyle = themeColor("--text");
      context.fillText(text, 7, y);
    }
  }

  private cellAt(event: MouseEvent): { column: number; row: number; startNs: bigint; endNs: bigint; value: number } | null {
    const { heat, file, session } = this;
    if (!heat || !file) return null;
    const area = this.canvas.getBoundingClientRect();
    const ns = ((event.clientX - area.left) / area.width) * session.scene.spanNs;
    const period = Number(heat.period_ns);
    const column = Math.floor((ns - session.scene.since(file, BigInt(heat.origin_ns))) / period);
    const row = Math.floor((1 - (event.clientY - area.top - HEAD_PX) / (area.height - HEAD_PX - 4)) * heat.rows);
    if (row < 0 || row >= heat.rows) return null;
    const start = BigInt(heat.origin_ns) + BigInt(column) * BigInt(heat.period_ns);
    const edge = (at: number) => start + (BigInt(at) * BigInt(heat.period_ns) + BigInt(heat.rows) - 1n) / BigInt(heat.rows);
    return { column, row, startNs: edge(row), endNs: edge(row + 1), value: this.values.get(column * heat.rows + row) ?? 0 };
  }

  private describe(event: MouseEvent): string[] | null {
    const found = this.cellAt(event);
    if (!found) return null;
    const amount = this.heat!.value === "ns" ? exact(BigInt(Math.round(found.value))) : grouped(found.value);
    const from = this.session.inView(this.file!, found.startNs);
    return [amount, `${exact(from)} to ${exact(from + found.endNs - found.startNs)}`];
  }
}

function lowerBound(sorted: Float64Array, value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
