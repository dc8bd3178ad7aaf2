/** What distinguishes the selected cells from the rest, or from those they are compared with. */

import { h, name } from "../../shared/dom";
import { share } from "../../shared/format";
import type { HeatState } from "../../shared/heat-state";
import { type Chosen, type PackedStacks, StackCells } from "../../shared/stack-cells";

const REST_MS = 90;
/** Smaller differences of shares are not listed. */
const LEAST = 0.01;
const MOST_ROWS = 60;
const ALL: Chosen = { first: -Infinity, last: Infinity, has: () => true };

interface Row {
  attribute: string;
  value: string;
  amount: number;
  inside: number;
  outside: number;
}

export class SelectionTraits {
  readonly element: HTMLElement;
  private readonly about = h("p", { class: "about muted" });
  private readonly table = h("table", { class: "states-table traits-table" });
  private readonly empty = h("p", { class: "empty muted" });
  private cells: StackCells | null = null;
  private timer = 0;

  constructor(
    private readonly state: HeatState,
    packed: PackedStacks,
    private readonly amount: (value: number) => string,
  ) {
    const scroll = h("div", { class: "states-scroll", attributes: { tabindex: "0", role: "region", "aria-label": "What distinguishes the selected cells" } }, this.table);
    this.element = h("div", { class: "selection-states" }, h("div", { class: "flame-head" }, this.about), scroll, this.empty);
    state.listen((change) => {
      clearTimeout(this.timer);
      if (change !== "view") this.timer = setTimeout(() => this.show(), REST_MS);
    });
    void this.load(packed);
  }

  private async load(packed: PackedStacks): Promise<void> {
    this.empty.textContent = "Reading what is in the cells…";
    try {
      this.cells = await StackCells.from(packed);
    } catch {
      this.empty.textContent = "This browser cannot read what is in the cells; use the command below.";
      return;
    }
    this.show();
  }

  private show(): void {
    const { model, selection, before, compared: counted } = this.state;
    const chosen = selection && model.chosen(selection);
    const other = before && model.chosen(before);
    this.table.replaceChildren();
    this.about.textContent = "";
    this.empty.hidden = false;
    if (!this.cells) return;
    if (!chosen) {
      this.empty.textContent = before ? "Select the cells to compare with A." : "Select cells to see what distinguishes them from the rest.";
      return;
    }
    const rows = this.rows(this.cells, chosen, other, counted);
    if (!rows) {
      this.empty.textContent = other ? "There is nothing in A or in B." : "There is nothing in the selected cells, or nothing beside them.";
      return;
    }
    this.empty.hidden = rows.length > 0;
    this.empty.textContent = other ? "Nothing distinguishes A from B." : "Nothing distinguishes the selected cells from the rest.";
    if (rows.length) this.draw(rows, other !== null);
  }

  /** The values whose shares differ, by how much; null if there is nothing to compare. */
  private rows(cells: StackCells, chosen: Chosen, other: Chosen | null, counted: Set<number> | null): Row[] | null {
    const inside = cells.tree(chosen, counted);
    const { parent, names, name: frame } = inside;
    const all = cells.tree(other ?? ALL, counted).value;
    const rest = other ? all : all.map((value, node) => value - inside.value[node]!);
    const has = (values: ArrayLike<number>) => Array.prototype.some.call(values, (value: number) => value > 0);
    if (!has(inside.value) || !has(rest)) return null;
    const rows: Row[] = [];
    for (let node = 0; node < parent.length; node++) {
      const up = parent[node]!;
      if (up < 0) continue;
      const part = (values: ArrayLike<number>) => (values[up] ? values[node]! / values[up]! : 0);
      const row = { attribute: names[frame[up]!]!, value: names[frame[node]!]!, amount: inside.value[node]!, inside: part(inside.value), outside: part(rest) };
      if (Math.abs(row.inside - row.outside) >= LEAST) rows.push(row);
    }
    const gap = (row: Row) => Math.abs(row.inside - row.outside);
    return rows.sort((a, b) => gap(b) - gap(a) || (a.attribute + a.value < b.attribute + b.value ? -1 : 1));
  }

  private draw(rows: Row[], isCompared: boolean): void {
    const [here, there] = isCompared ? ["in B", "in A"] : ["selected", "rest"];
    const head = (text: string) => h("th", { attributes: { scope: "col" } }, text);
    const bar = (part: number, kind: string) =>
      h("td", { class: `bar-cell ${kind}` }, h("span", { class: "share-bar" }, h("span", { style: `width:${(100 * part).toFixed(2)}%` })), h("span", {}, share(part)));
    const shown = rows.slice(0, MOST_ROWS).map((row) =>
      h("tr", {}, h("th", { attributes: { scope: "row" } }, h("span", { class: "muted" }, `${row.attribute} `), this.value(row)), bar(row.inside, "here"), bar(row.outside, "there"), h("td", {}, this.amount(row.amount))),
    );
    this.table.append(h("thead", {}, h("tr", {}, head("What"), head(`Share ${here}`), head(`Share ${there}`), head(isCompared ? "In B" : "Selected"))), h("tbody", {}, ...shown));
    const { least_trait: least } = this.state.model.head;
    const merged = least !== null && least > 1 ? `values with less than ${this.amount(least)} are not compared` : "";
    const more = rows.length > MOST_ROWS ? `${MOST_ROWS} of ${rows.length} differences` : "";
    this.about.textContent = ["What is selected has these more or less often, the largest difference first", more, merged].filter(Boolean).join(" · ");
  }

  /** A value, which is a button if it is one of the names of the map. */
  private value({ value }: Row): HTMLElement {
    const at = this.state.model.names.indexOf(value);
    if (at < 0) return name(value);
    const made = h("button", { class: "link", title: "Select this name" }, name(value));
    made.type = "button";
    made.addEventListener("click", () => {
      this.state.selected = [at];
      if (this.state.mode === "decompose") this.state.mode = "highlight";
      this.state.changed("cells");
    });
    return made;
  }
}
