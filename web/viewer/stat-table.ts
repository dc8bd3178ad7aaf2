/** The statistics of states or names: what each took, with a bar and the distribution of its durations. */

import { h, nameOrNone, shown } from "../shared/dom";
import { csv, download } from "../shared/download";
import { FIGURES } from "../shared/figures";
import { duration, exact, grouped, share } from "../shared/format";
import { css } from "../shared/name-colors";
import { BARS } from "./bars";
import { differenceTable } from "./difference-table";
import type { FigureKey, Statistics, StatisticsRow } from "./protocol";
import { keyOf } from "./sparklines";
import type { Loads } from "./sparklines";

type Figure = (typeof FIGURES)[number];
/** A column: the name of a row, or a figure. */
type Key = "key" | FigureKey;

/** The powers of two between which histograms are drawn: 1 µs to 17 s. */
const [LEAST_POWER, MOST_POWER] = [10, 34];
const HISTOGRAM = { width: 96, height: 18 };
const SPARKLINE = { width: 128, height: 18 };
const MOST_ROWS = 300;
/** Of fewer durations the highest quantiles are the longest. */
const QUANTILES_FROM = 20;
const HIGH_PERCENT = 95;
/** The share has a bar, and a place of its own. */
const COLUMNS = FIGURES.filter(({ isInTables, form }) => isInTables && form !== "share");

/** A figure of a row as a number; amounts that are not times have the same name without the unit. */
function valueOf(row: StatisticsRow, { key, percent }: Figure): bigint | null {
  if (percent !== null && percent > HIGH_PERCENT && row.count < QUANTILES_FROM) return null;
  return integer(row[key] ?? (key === "self_ns" ? row.self : key === "total_ns" ? row.total : null));
}

/** The class of a column. */
const named = (key: Key) => key.replace(/_ns$/, "");

function integer(value: string | number | null | undefined): bigint | null {
  return value === null || value === undefined ? null : BigInt(typeof value === "number" ? Math.round(value) : value);
}

/** A part of a row's time. */
export interface Part {
  name: string;
  share: number;
  pixel: number;
}

/** What depends on the file that the rows are of. */
export interface RowActions {
  /** The colour of a row, as a pixel. */
  color(row: StatisticsRow, by: string): number | null;
  /** The states that a row's time consists of, in the order of stacking. */
  parts(row: StatisticsRow): Part[];
  /** What a click on a row does; null if nothing. */
  chosen(row: StatisticsRow, by: string): (() => void) | null;
}

export class StatTable {
  readonly element = h("div", { class: "stat-table" });
  /** The name of the row that is lit. */
  lit: string | null = null;
  /** Null: by the time that adds up. */
  private sorted: Key | null = null;
  private shownBy: Key = "total_ns";
  private statistics: Statistics | null = null;
  /** Its rows as they are sorted. */
  private inOrder: StatisticsRow[] = [];
  private before: Statistics | null = null;
  private loads: Loads | null = null;

  /** @param isMerged Whether what is short was merged, so that figures are not exact. */
  constructor(
    private readonly actions: RowActions,
    private readonly isMerged: boolean,
  ) {}

  /** @param before The statistics of another range, with which these are compared. */
  show(statistics: Statistics, before: Statistics | null = null): void {
    this.statistics = statistics;
    this.before = before;
    this.loads = null;
    this.inOrder = statistics.rows;
    this.draw();
  }

  /** Adds how much of each state there is over the range. */
  showLoads(loads: Loads): void {
    this.loads = loads;
    this.draw();
  }

  message(title: string, text: string): void {
    this.statistics = null;
    this.element.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, title), h("p", {}, shown(text))));
  }

  draw(): void {
    const { statistics } = this;
    if (!statistics) return;
    if (!statistics.rows.length) {
      this.message("Nothing in this range", "Select a longer range, or press 0 to see the whole trace.");
      return;
    }
    const unit = statistics.unit ?? "ns";
    // times that samples stand for are estimates, how many samples there are is not
    const isSampled = statistics.estimated === true || statistics.unit === "ns";
    const nearly = { times: this.isMerged || isSampled ? "≈ " : "", counts: this.isMerged || statistics.estimated ? "≈ " : "" };
    if (this.before) {
      this.element.replaceChildren(differenceTable(statistics, this.before, this.actions, nearly));
      return;
    }
    const columns = COLUMNS.filter((figure) => statistics.rows.some((row) => (figure.ifAny || figure.key === "failed" ? valueOf(row, figure) : valueOf(row, figure) !== null)));
    const hasSelf = columns.some(({ key }) => key === "self_ns");
    const rows = [...statistics.rows];
    const shareAfter = hasSelf ? "self_ns" : "total_ns";
    const wanted = this.sorted ?? shareAfter;
    const sorted = wanted === "key" ? null : (columns.find(({ key }) => key === wanted) ?? columns[0]!);
    this.shownBy = sorted?.key ?? "key";
    if (sorted) rows.sort((a, b) => compare(valueOf(b, sorted), valueOf(a, sorted)));
    else rows.sort((a, b) => ((a.key ?? "") < (b.key ?? "") ? -1 : 1));
    // time in nested spans counts more than once: their own time adds up to the whole
    const hasShares = rows.some((row) => row.share !== undefined);
    const own = (row: StatisticsRow) => Number(integer(row.self_ns ?? row.self) ?? 0n);
    const whole = rows.reduce((sum, row) => sum + own(row), 0);
    const shareOf = (row: StatisticsRow) => (hasShares ? (row.share ?? 0) : whole ? own(row) / whole : 0);
    const isKinds = new Set(rows.map(({ kind }) => kind)).size > 1;
    const head = h("tr", {}, this.head("key", statistics.by));
    for (const { key, title, sentence } of columns) {
      head.append(this.head(key, title, sentence));
      if (key === shareAfter) head.append(h("th", { class: "part", title: hasShares && !hasSelf ? "of the time in any state" : "of all time, each moment counted once" }, hasShares || !hasSelf ? "share" : "self share"));
    }
    const hasHistograms = rows.some((row) => row.histogram?.[1].length);
    if (hasHistograms) head.append(h("th", { class: "wide", title: "1 µs to 17 s, logarithmic; the height is the square root of the count" }, "durations"));
    const hasParts = rows.some((row) => row.states);
    if (hasParts) head.append(h("th", { class: "states", title: "What they did for how much of their time" }, "time in states"));
    const hasBlocks = rows.some((row) => row.blocks?.length);
    if (hasBlocks) head.append(h("th", { class: "blocks", title: "Code whose steps blocked the event loop" }, "blocked the loop"));
    const { loads } = this;
    const hasBars = rows.some((row) => row.bars);
    const isOver = loads !== null || hasBars;
    const what = statistics.unit !== undefined ? "How much it has itself" : `How many are ${hasBars ? "open" : "in the state"} at once`;
    if (isOver) head.append(h("th", { class: "wide over", title: `${what}; the highest bar is the greatest of the row` }, "over the range"));
    const amount = (value: bigint | null) => (value === null ? "–" : unit === "ns" ? duration(value) : grouped(Number(value)));
    const body = rows.slice(0, MOST_ROWS).map((row) => {
      const pixel = this.actions.color(row, statistics.by);
      const made = h(
        "tr",
        { attributes: { tabindex: "0", "aria-selected": String(this.lit === row.key) } },
        h("td", { class: "key" }, pixel === null ? null : h("i", { class: "swatch", style: `background:${css(pixel)}` }), nameOrNone(row.key, { title: row.key ?? "" }), isKinds || row.entity ? h("span", { class: "faint" }, [row.kind, row.entity].filter(Boolean).join(" · ")) : null),
      );
      for (const figure of columns) {
        const { key } = figure;
        const value = valueOf(row, figure);
        const isCount = figure.form === "count";
        const sign = value === null ? "" : isCount ? nearly.counts : nearly.times;
        const text = sign + (isCount ? grouped(Number(value)) : amount(value));
        made.append(h("td", { class: named(key), title: value !== null && !isCount && unit === "ns" ? exact(value) : "" }, text));
        if (key !== shareAfter) continue;
        const part = shareOf(row);
        const bar = h("i", { style: `width:${Math.min(100, 100 * part).toFixed(1)}%${pixel === null ? "" : `;background:${css(pixel)}`}` });
        made.append(h("td", { class: "part" }, h("span", {}, nearly.times + share(part)), h("span", { class: "bar" }, bar)));
      }
      if (hasHistograms) made.append(h("td", { class: "wide" }, row.histogram ? histogram(row.histogram, pixel) : null));
      if (hasParts) made.append(h("td", { class: "states" }, this.parts(row)));
      if (hasBlocks) made.append(blocks(row));
      if (isOver) {
        const bars = row.bars ?? loads?.get(keyOf(row));
        made.append(h("td", { class: "wide over" }, bars ? sparkline(bars, pixel) : null));
      }
      const choose = this.actions.chosen(row, statistics.by);
      if (!choose) {
        made.classList.add("still");
        return made;
      }
      made.addEventListener("click", choose);
      made.addEventListener("keydown", (event) => {
        if (event.key === "Enter") choose();
      });
      return made;
    });
    this.inOrder = rows;
    const rest = statistics.rest + Math.max(0, rows.length - MOST_ROWS);
    this.element.replaceChildren(
      h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)),
      statistics.idle ? h("p", { class: "muted" }, `${grouped(statistics.idle)} ${statistics.idle === 1 ? "sample of idle CPUs is" : "samples of idle CPUs are"} left out; select the lane of the idle task to count them`) : "",
      rest ? h("p", { class: "muted" }, `and ${grouped(rest)} more; the command below prints all`) : "",
    );
  }

  /** Saves the rows as they are sorted. */
  save(): void {
    if (!this.statistics) return;
    const figures = FIGURES.filter(({ key }) => this.inOrder.some((row) => row[key] !== undefined)).map(({ key }) => key);
    const fields = ["kind", "key", "entity", ...figures] as const;
    const rows = this.inOrder.map((row) => fields.map((field) => String(row[field] ?? "")));
    download("statistics.csv", csv([fields, ...rows]));
  }

  private parts(row: StatisticsRow): HTMLElement {
    const parts = this.actions.parts(row);
    const title = [...parts].sort((a, b) => b.share - a.share).map((part) => `${part.name} ${share(part.share)}`).join(", ");
    return h("span", { class: "bar", title: shown(title) }, ...parts.map((part) => h("i", { style: `width:${(100 * part.share).toFixed(2)}%;background:${css(part.pixel)}` })));
  }

  private head(key: Key, title: string, sentence = ""): HTMLElement {
    const sort = h("button", { class: "bare printed", title: sentence, on: { click: () => this.sort(key) } }, title);
    return h("th", { class: named(key), attributes: { scope: "col", "aria-sort": key !== this.shownBy ? "none" : key === "key" ? "ascending" : "descending" } }, sort);
  }

  private sort(key: Key): void {
    this.sorted = key;
    this.draw();
  }
}

function compare(one: bigint | null, other: bigint | null): number {
  const [a, b] = [one ?? -1n, other ?? -1n];
  return a < b ? -1 : a > b ? 1 : 0;
}

/** What blocked an event loop for most of a row's time, and how much of it that was. */
function blocks(row: StatisticsRow): HTMLElement {
  const total = Math.max(1, Number(row.total_ns ?? 0));
  const texts = (row.blocks ?? []).map(({ code, time_ns }) => `${code} ${share(Number(time_ns) / total)}`);
  return h("td", { class: "blocks", title: shown(texts.join("\n")) }, texts.length ? shown(texts[0]! + (texts.length > 1 ? ` and ${texts.length - 1} more` : "")) : "");
}

const SVG = "http://www.w3.org/2000/svg";

/** Durations by powers of two; with a mark at one of them. */
export function histogram([first, counts]: [number, number[]], pixel: number | null, size = HISTOGRAM, own?: bigint): SVGElement {
  const { width, height } = size;
  const powers = MOST_POWER - LEAST_POWER;
  const bars = new Float64Array(powers);
  counts.forEach((count, index) => (bars[Math.max(0, Math.min(powers - 1, first + index - LEAST_POWER))]! += count));
  const most = Math.sqrt(Math.max(1, ...bars));
  const step = width / powers;
  let d = "";
  bars.forEach((count, index) => {
    if (!count) return;
    const high = Math.max(1.5, (Math.sqrt(count) / most) * (height - 1));
    d += `M${(index + 0.5) * step} ${height}v${-high.toFixed(1)}`;
  });
  const made = chart(size, d, pixel, step - 1);
  if (own !== undefined) {
    const power = Math.log2(Math.max(1, Number(own))) - LEAST_POWER;
    const mark = document.createElementNS(SVG, "path");
    mark.setAttribute("d", `M${(Math.max(0, Math.min(powers, power)) * step).toFixed(1)} 0v${height}`);
    mark.setAttribute("class", "own");
    made.append(mark);
  }
  return made;
}

function sparkline(bars: ArrayLike<number>, pixel: number | null): SVGElement {
  const { width, height } = SPARKLINE;
  const most = Math.max(...Array.from(bars));
  const step = width / BARS;
  let d = "";
  Array.from(bars).forEach((load, bar) => {
    if (load > 0) d += `M${(bar + 0.5) * step} ${height}v${-Math.max(1, (load / most) * (height - 1)).toFixed(1)}`;
  });
  return chart(SPARKLINE, d, pixel, step);
}

/** Bars on a line, as strokes of a width. */
function chart({ width, height }: { width: number; height: number }, d: string, pixel: number | null, stroke: number): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  svg.setAttribute("aria-hidden", "true");
  const base = document.createElementNS(SVG, "path");
  base.setAttribute("d", `M0 ${height - 0.5}H${width}`);
  base.setAttribute("class", "base");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", d);
  path.setAttribute("style", `stroke:${pixel === null ? "var(--faint)" : css(pixel)};stroke-width:${stroke}`);
  svg.append(base, path);
  return svg;
}
