/** A table of functions by weight, sorted by the header that was clicked; a click selects one. */

import { h, name, shown } from "./dom";
import { grouped, share } from "./format";

const MOST = 500;

export type Column = "own" | "total" | "count" | "mean" | "longest" | "name";

export interface FunctionRow {
  name: number;
  own: number;
  total: number;
  count: number;
  longest?: number;
}

const TITLES: Record<Column, string> = {
  own: "Itself",
  total: "Total",
  count: "Count",
  mean: "Mean",
  longest: "Longest",
  name: "Function",
};

function valueOf(row: FunctionRow, column: Column): number {
  if (column === "mean") return row.total / row.count;
  return column === "longest" ? row.longest! : row[column];
}

export class FunctionTable {
  readonly element = h("div", { class: "function-table" });
  private readonly body = h("tbody");
  private readonly more = h("p", { class: "muted" });
  private readonly heads: Map<Column, HTMLElement>;
  private rows: FunctionRow[] = [];
  private names: readonly string[] = [];
  private whole = 1;
  private by: Column = "own";
  private chosen = -1;

  constructor(
    private readonly amount: (value: number) => string,
    private readonly selected: (name: number) => void,
    private readonly columns: readonly Column[],
  ) {
    this.heads = new Map(
      columns.map((column) => {
        const sort = h("button", { class: "bare", on: { click: () => this.sort(column) } }, TITLES[column]);
        return [column, h("th", { class: column, attributes: { scope: "col" } }, sort)];
      }),
    );
    this.element.append(h("table", {}, h("thead", {}, h("tr", {}, ...this.heads.values())), this.body), this.more);
  }

  show(rows: FunctionRow[], names: readonly string[], whole: number): void {
    this.rows = rows;
    this.names = names;
    this.whole = whole || 1;
    this.sort(this.by);
  }

  /** Marks a function as the chosen one. */
  choose(name: number): void {
    this.chosen = name;
    for (const row of this.body.children) {
      (row as HTMLElement).setAttribute("aria-selected", String(row.getAttribute("data-name") === String(name)));
    }
  }

  private sort(by: Column): void {
    this.by = by;
    for (const [column, head] of this.heads) head.setAttribute("aria-sort", column === by ? "descending" : "none");
    const names = this.names;
    if (by === "name") this.rows.sort((a, b) => (names[a.name]! < names[b.name]! ? -1 : 1));
    else this.rows.sort((a, b) => valueOf(b, by) - valueOf(a, by));
    this.body.replaceChildren(...this.rows.slice(0, MOST).map((row) => this.row(row)));
    this.more.textContent = this.rows.length > MOST ? `${grouped(MOST)} of ${grouped(this.rows.length)} functions` : "";
  }

  private row(row: FunctionRow): HTMLElement {
    const code = row.name;
    const choose = () => this.selected(code);
    const made = h(
      "tr",
      { attributes: { tabindex: "0", "data-name": String(code), "aria-selected": String(code === this.chosen) } },
      ...this.columns.map((column) => this.cell(row, column)),
    );
    made.addEventListener("click", choose);
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose();
    });
    return made;
  }

  private cell(row: FunctionRow, column: Column): HTMLElement {
    const text = this.names[row.name]!;
    if (column === "name") return h("td", { class: column, title: shown(text) }, name(text));
    const value = valueOf(row, column);
    if (column === "count") return h("td", { class: column }, grouped(value));
    if (column === "mean" || column === "longest") return h("td", { class: column }, this.amount(value));
    const part = h("span", { class: "faint" }, share(value / this.whole));
    const bar = column === "own" ? h("i", { class: "bar", style: `width:${((100 * value) / this.whole).toFixed(1)}%` }) : null;
    return h("td", { class: column }, `${this.amount(value)} `, part, bar);
  }
}
