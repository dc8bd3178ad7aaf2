/** What changed between two sides of runs: a table, and of the selected row what is behind it on both sides. */

import { button, h, name, replaceContent, shown } from "../shared/dom";
import { FIGURES } from "../shared/figures";
import { duration, exact, grouped, share } from "../shared/format";
import type { Differences } from "./differences";
import type { FileModel } from "./model";
import type { ComparedRow, ComparisonInfo, Hit } from "./protocol";
import type { Session } from "./session";
import { SourceError } from "./source";

const MOST_HITS = 5;
const RUNS = { width: 320, height: 44, edge: 6 };
const SVG = "http://www.w3.org/2000/svg";

export interface ComparisonActions {
  /** Selects a thing and shows where it is. */
  select(file: FileModel, hit: Hit): void;
  light(name: string | null): void;
}

export class ComparisonTab {
  readonly element = h("div", { class: "comparison" });
  private readonly evidence = h("section", { class: "evidence", attributes: { "aria-label": "Evidence", tabindex: "0" } });
  private readonly rows: HTMLTableRowElement[] = [];
  private readonly info: ComparisonInfo;
  private request: AbortController | null = null;
  private hits: { file: FileModel; hits: Hit[] }[] = [];

  constructor(
    private readonly session: Session,
    private readonly differences: Differences,
    private readonly actions: ComparisonActions,
  ) {
    this.info = differences.info;
    const { sentences, runs, shown: which } = this.info;
    const [first, ...others] = sentences;
    if (Math.max(...runs) > 1) others.push(`Shown are the runs nearest to the means of their sides: ${which.map((at, side) => `${grouped(at + 1)} of ${grouped(runs[side]!)} ${side ? "after" : "before"}`).join(" and ")}.`);
    this.element.append(
      h("div", { class: "said" }, h("p", { class: "first printed" }, ...withNames(first ?? "")), others.length ? h("p", { class: "muted printed" }, ...withNames(others.join(" "))) : null),
      h("div", { class: "stat-table compared" }, this.table()),
      this.evidence,
    );
  }

  private table(): HTMLElement {
    const { info } = this;
    const hasKinds = info.names[0] === "kind" && new Set(info.rows.map(({ key }) => key[0])).size > 1;
    const names = info.names.flatMap((each, at) => (each === "kind" && !hasKinds ? [] : [at]));
    const last = names.at(-1)!;
    const isCertain = info.rows.some(({ corrected }) => corrected !== null);
    const most = Math.max(1e-9, ...info.rows.map((row) => Math.abs(this.weight(row))));
    const heads: [string, string, string][] = [
      [info.names[last]!, "key", ""],
      [`${this.title(info.figure)} before`, "", "the mean of the runs"],
      ["after", "", "the mean of the runs"],
      ["change", "", "as a part of what was before"],
      ["", "part", info.adds_up ? "the part of the change of the whole" : "the change"],
      ...(isCertain ? ([["95 %", "over", "how large the change may be"], ["p", "over", "how likely it is if nothing changed, corrected for the number of rows"]] as [string, string, string][]) : []),
      ...(info.adds_up ? ([["points", "", "in hundredths of the whole before: they add up to its change"]] as [string, string, string][]) : []),
    ];
    const body = info.rows.map((row) => {
      const change = this.weight(row);
      const wide = `width:${(50 * Math.abs(change)) / most}%;${change < 0 ? "right" : "left"}:50%`;
      const made = h(
        "tr",
        { attributes: { tabindex: "0" } },
        h("td", { class: "key", title: names.map((at) => row.key[at]!).join(" · ") }, name(row.key[last] || "(none)"), names.length > 1 ? name(names.slice(0, -1).map((at) => row.key[at]!).join(" · "), { class: "faint" }) : null),
        h("td", {}, this.text(row.before && this.mean(row.runs_before))),
        h("td", {}, this.text(row.after && this.mean(row.runs_after))),
        h("td", { class: "change" }, row.before === null ? "new" : row.after === null ? "gone" : signed(row.relative), row.noticeable ? h("b", { title: "certain, and large enough to be noticed" }, " *") : null),
        h("td", { class: "part" }, h("span", { class: "bar both" }, change ? h("i", { class: change > 0 ? "more" : "less", style: wide }) : null)),
        ...(isCertain ? [h("td", { class: "over" }, row.interval ? row.interval.map((each) => signed(each)).join(" to ") : ""), h("td", { class: "over" }, row.corrected === null ? "" : probability(row.corrected))] : []),
        ...(info.adds_up ? [h("td", {}, row.part === null ? "" : `${row.part < 0 ? "−" : row.part > 0 ? "+" : ""}${(100 * Math.abs(row.part)).toFixed(2)}`)] : []),
      );
      made.addEventListener("click", () => this.choose(row));
      made.addEventListener("keydown", (event) => event.key === "Enter" && this.choose(row));
      this.rows.push(made);
      return made;
    });
    if (info.rest) body.push(h("tr", { class: "still" }, h("td", { class: "key muted" }, `and ${grouped(info.rest)} more rows: \`meantime diff\` prints them`)));
    return h("table", {}, h("thead", {}, h("tr", {}, ...heads.map(([text, of, title]) => h("th", { class: of, title, attributes: { scope: "col" } }, text)))), h("tbody", {}, ...body));
  }

  /** By what rows are drawn: their part of the change of the whole, otherwise their own change. */
  private weight(row: ComparedRow): number {
    return (this.info.adds_up ? row.part : row.relative) ?? 0;
  }

  private title(figure: string): string {
    return FIGURES.find(({ key }) => key === figure)?.title ?? figure;
  }

  private mean(runs: readonly (number | null)[]): number | null {
    const known = runs.filter((each) => each !== null);
    return known.length === runs.length && runs.length ? known.reduce((sum, each) => sum + each, 0) / runs.length : null;
  }

  private text(value: number | null, figure = this.info.figure): string {
    if (value === null) return "–";
    const form = FIGURES.find(({ key }) => key === figure)?.form ?? "count";
    if (form === "time" && this.info.unit === "ns") return duration(BigInt(Math.round(value)));
    return form === "share" ? share(value) : grouped(Math.round(value));
  }

  private choose(row: ComparedRow): void {
    this.differences.choose(row);
    this.actions.light(this.litName);
    this.draw();
    void this.look();
  }

  /** The name that the selected row has in lanes; null if it has none. */
  private get litName(): string | null {
    const { lanes_of, by, unit } = this.info;
    const isSampled = lanes_of === null && by === "name" && unit !== "";
    return this.differences.row && (lanes_of !== null || isSampled) ? this.differences.row.key.at(-1)! : null;
  }

  /** Looks for the longest of the selected row on both sides. */
  async look(): Promise<void> {
    const { session, differences } = this;
    this.request?.abort();
    this.hits = [];
    const text = differences.name;
    if (text === null || text === "") return;
    const { signal } = (this.request = new AbortController());
    try {
      this.hits = await Promise.all(
        session.files.map(async (file) => {
          const { start_ns, end_ns } = file.info;
          if (!file.table || start_ns === null || end_ns === null) return { file, hits: [] };
          const found = await session.source.ask("search", { file: file.index, layout: file.table.layout, text, from: start_ns, to: end_ns, limit: MOST_HITS, longest: 1 }, signal);
          return { file, hits: found.hits.slice(0, MOST_HITS) };
        }),
      );
    } catch (reason) {
      if (reason instanceof DOMException) return;
      if (!(reason instanceof SourceError)) throw reason;
      // lanes that have other numbers now are looked through again with the next row
      return;
    }
    if (!signal.aborted) this.draw();
  }

  draw(): void {
    const { row } = this.differences;
    this.info.rows.forEach((each, at) => this.rows[at]!.setAttribute("aria-selected", String(each === row)));
    this.element.style.setProperty("--more", this.differences.ink(true));
    this.element.style.setProperty("--less", this.differences.ink(false));
    if (!row) {
      this.evidence.replaceChildren(h("p", { class: "muted" }, "There is nothing to compare."));
      return;
    }
    const named = this.differences.name;
    const legend = named === null
      ? h("p", { class: "muted" }, "Rows of this kind are in no lane; compare by state or by name to see differences between lanes.")
      : h("p", { class: "key-of muted" }, "Between the lanes: ", h("i", { class: "swatch more" }), "more", h("i", { class: "swatch less" }), "less of it after, as a part of the time");
    replaceContent(this.evidence, h("h3", {}, name(row.key.filter(Boolean).join(" · ") || "(none)")), legend, this.runsOf(row), this.figuresOf(row), ...this.longest());
  }

  /** The figure of each run as a mark: those before above the line, those after below. */
  private runsOf(row: ComparedRow): HTMLElement {
    const { width, height, edge } = RUNS;
    const sides = [row.runs_before, row.runs_after].map((runs) => runs.filter((each) => each !== null));
    const values = sides.flat();
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (values.length < 3 || !(high > low)) return h("div");
    const x = (value: number) => edge + ((value - low) / (high - low)) * (width - 2 * edge);
    const svg = document.createElementNS(SVG, "svg");
    const [shownBefore, shownAfter] = this.info.shown;
    for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${sides[0]!.length} runs before and ${sides[1]!.length} after, from ${this.text(low)} to ${this.text(high)}` })) svg.setAttribute(key, String(value));
    const line = (of: string, at: [number, number, number, number]) => {
      const made = document.createElementNS(SVG, "line");
      made.setAttribute("class", of);
      (["x1", "y1", "x2", "y2"] as const).forEach((each, index) => made.setAttribute(each, String(at[index])));
      svg.append(made);
    };
    line("base", [0, height / 2, width, height / 2]);
    sides.forEach((runs, side) => {
      const [top, bottom] = side ? [height / 2 + 3, height - 4] : [4, height / 2 - 3];
      runs.forEach((value, run) => line(`run ${(side ? shownAfter : shownBefore) === run ? "shown" : ""}`, [x(value), top, x(value), bottom]));
    });
    return h("div", { class: "runs" }, h("span", { class: "muted" }, "before", h("br"), "after"), svg, h("span", { class: "muted ends" }, `${this.text(low)} to ${this.text(high)}`));
  }

  private figuresOf(row: ComparedRow): HTMLElement {
    const { figures } = this.info;
    const lines = figures.map((figure, at) => {
      const [before, after] = [row.before?.[at] ?? null, row.after?.[at] ?? null];
      const change = before && after !== null ? signed(after / before - 1) : "";
      return h("tr", {}, h("th", { attributes: { scope: "row" } }, this.title(figure)), h("td", {}, this.text(before, figure)), h("td", {}, this.text(after, figure)), h("td", { class: "change" }, change));
    });
    return h("table", { class: "figures" }, h("thead", {}, h("tr", {}, h("td"), h("th", { attributes: { scope: "col" } }, "before"), h("th", { attributes: { scope: "col" } }, "after"), h("th", { attributes: { scope: "col" } }, "change"))), h("tbody", {}, ...lines));
  }

  /** The longest of each side: each goes there. */
  private longest(): HTMLElement[] {
    return this.hits.map(({ file, hits }) => {
      const lines = hits.map((hit) => {
        const length = BigInt(hit.end_ns) - BigInt(hit.start_ns);
        const lane = hit.lane === null ? "" : file.titleOf(hit.lane);
        const made = button(null, `Go to ${exact(length)} of ${shown(hit.name)} ${this.differences.sideOf(file)}`, () => this.actions.select(file, hit), { class: "finding" });
        made.append(h("b", {}, duration(length)), name(lane, { class: "what" }));
        return made;
      });
      return h("div", { class: "longest" }, h("h4", {}, `Longest ${this.differences.sideOf(file)}`), ...(lines.length ? lines : [h("p", { class: "muted" }, "none")]));
    });
  }
}

/** A sentence in which names, between backticks, are set apart. */
function withNames(sentence: string): (Node | string)[] {
  return sentence.split("`").map((part, at) => (at % 2 ? h("code", {}, name(part)) : shown(part)));
}

function signed(part: number | null): string {
  if (part === null) return "";
  const percent = 100 * Math.abs(part);
  const text = percent >= 1000 ? grouped(Math.round(percent)) : percent.toFixed(1);
  return `${text === "0.0" ? "" : part < 0 ? "−" : "+"}${text} %`;
}

function probability(value: number): string {
  return value < 0.001 ? value.toExponential(0).replace("e-", " × 10⁻").replace(/\d+$/, (power) => [...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("")) : String(Number(value.toPrecision(2)));
}
