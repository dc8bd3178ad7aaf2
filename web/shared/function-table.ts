/** A table of functions by weight, sorted by the header that was clicked; a click selects one. */

import type { FunctionWeight } from "./call-tree";
import { h, name, shown } from "./dom";
import { grouped, share } from "./format";

const MOST = 500;

type Column = "own" | "total" | "count" | "name";

export class FunctionTable {
  readonly element = h("div", { class: "function-table" });
  private readonly body = h("tbody");
  private readonly more = h("p", { class: "muted" });
  private readonly heads: Map<Column, HTMLElement>;
  private rows: FunctionWeight[] = [];
  private names: readonly string[] = [];
  private whole = 1;
  private by: Column = "own";
  private chosen = -1;

  constructor(
    private readonly amount: (value: number) => string,
    private readonly selected: (name: number) => void,
  ) {
    const titles: [Column, string][] = [["own", "Itself"], ["total", "Total"], ["count", "Count"], ["name", "Function"]];
    this.heads = new Map(
      titles.map(([column, title]) => {
        const sort = h("button", { class: "bare", on: { click: () => this.sort(column) } }, title);
        return [column, h("th", { class: column, attributes: { scope: "col" } }, sort)];
      }),
    );
    this.element.append(h("table", {}, h("thead", {}, h("tr", {}, ...this.heads.values())), this.body), this.more);
  }

  show(rows: FunctionWeight[], names: readonly string[], whole: number): void {
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
    else this.rows.sort((a, b) => b[by] - a[by]);
    this.body.replaceChildren(...this.rows.slice(0, MOST).map((row) => this.row(row)));
    this.more.textContent = this.rows.length > MOST ? `${grouped(MOST)} of ${grouped(this.rows.length)} functions` : "";
  }

  private row({ name: code, own, total, count }: FunctionWeight): HTMLElement {
    const bar = h("i", { class: "bar", style: `width:${((100 * own) / this.whole).toFixed(1)}%` });
    const choose = () => this.selected(code);
    const row = h(
      "tr",
      { attributes: { tabindex: "0", "data-name": String(code), "aria-selected": String(code === this.chosen) } },
      h("td", {}, `${this.amount(own)} `, h("span", { class: "faint" }, share(own / this.whole)), bar),
      h("td", {}, `${this.amount(total)} `, h("span", { class: "faint" }, share(total / this.whole))),
      h("td", {}, grouped(count)),
      h("td", { title: shown(this.names[code]!) }, name(this.names[code]!)),
    );
    row.addEventListener("click", choose);
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose();
    });
    return row;
  }
}
