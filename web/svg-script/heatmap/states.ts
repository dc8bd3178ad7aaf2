/** The time of each entity in each state in the selected cells, from the data in the page. */

import { h, name } from "../../shared/dom";
import { duration, grouped, share } from "../../shared/format";
import type { HeatState } from "../../shared/heat-state";
import { type PackedStacks, StackCells } from "../../shared/stack-cells";

const REST_MS = 90;
const MOST_ENTITIES = 500;
const MOST_STATES = 8;

interface Row {
  name: string;
  total: number;
  /** By state: the time in the selection, and in the one it is compared with. */
  times: Map<number, number>;
  before: Map<number, number>;
}

export class SelectionStates {
  readonly element: HTMLElement;
  private readonly about = h("p", { class: "about muted" });
  private readonly filter = h("input", { class: "search", title: "Filter the entities (f)", attributes: { type: "search", placeholder: "Filter entities", "aria-label": "Filter entities" } });
  private readonly table = h("table", { class: "states-table" });
  private readonly empty = h("p", { class: "empty muted" });
  private cells: StackCells | null = null;
  private timer = 0;

  /**
   * @param packed The states of the page, each with the entities below it.
   * @param filtered What is called when the filter has changed.
   */
  constructor(
    private readonly state: HeatState,
    packed: PackedStacks,
    filtered: () => void,
  ) {
    const scroll = h("div", { class: "states-scroll", attributes: { tabindex: "0", role: "region", "aria-label": "Time of entities in states" } }, this.table);
    this.element = h("div", { class: "selection-states" }, h("div", { class: "flame-head" }, this.about, this.filter), scroll, this.empty);
    this.filter.addEventListener("input", () => {
      this.show();
      filtered();
    });
    state.listen((change) => {
      clearTimeout(this.timer);
      if (change !== "view") this.timer = setTimeout(() => this.show(), REST_MS);
    });
    void this.load(packed);
  }

  get text(): string {
    return this.filter.value;
  }

  set text(text: string) {
    this.filter.value = text;
  }

  focus(): void {
    this.filter.select();
  }

  private async load(packed: PackedStacks): Promise<void> {
    this.empty.textContent = "Reading the states…";
    try {
      this.cells = await StackCells.from(packed);
    } catch {
      this.empty.textContent = "This browser cannot read the states in the page; use the command below.";
      return;
    }
    this.show();
  }

  private show(): void {
    const { model, selection, before, counted } = this.state;
    const chosen = selection && model.chosen(selection);
    this.table.replaceChildren();
    this.about.textContent = "";
    this.empty.hidden = false;
    if (!this.cells || !chosen) {
      if (this.cells) this.empty.textContent = before ? "Select the cells to compare with A." : "Select cells to see the time of each entity in each state.";
      return;
    }
    const earlier = before && model.chosen(before);
    const tree = this.cells.tree(chosen, counted, earlier);
    const rows = new Map<number, Row>();
    const states = new Map<number, number>();
    let rest = 0;
    for (let node = 0; node < tree.parent.length; node++) {
      const value = tree.value[node]!;
      if (!value) continue;
      const up = tree.parent[node]!;
      const earlierValue = tree.before?.[node] ?? 0;
      if (up < 0) {
        states.set(tree.name[node]!, (states.get(tree.name[node]!) ?? 0) + value);
        rest += tree.own[node]!;
        continue;
      }
      const entity = tree.name[node]!;
      let row = rows.get(entity);
      if (!row) rows.set(entity, (row = { name: tree.names[entity]!, total: 0, times: new Map(), before: new Map() }));
      row.total += value;
      row.times.set(tree.name[up]!, value - earlierValue);
      row.before.set(tree.name[up]!, earlierValue);
    }
    this.draw([...rows.values()], states, tree.names, earlier !== null, rest);
  }

  private draw(rows: Row[], states: Map<number, number>, names: readonly string[], isCompared: boolean, rest: number): void {
    const text = this.filter.value.trim().toLowerCase();
    const matching = rows.filter((row) => row.name.toLowerCase().includes(text)).sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
    this.empty.hidden = matching.length > 0;
    if (!matching.length) {
      this.empty.textContent = text ? `No entity in the selected cells has “${this.filter.value.trim()}” in its name.` : "No entity is in a state in the selected cells.";
      return;
    }
    const ordered = [...states].sort((a, b) => b[1] - a[1]).map(([state]) => state);
    const columns = ordered.slice(0, MOST_STATES);
    const others = ordered.slice(MOST_STATES);
    const sum = (of: Row[], times: "times" | "before", chosen: number[]) =>
      of.reduce((all, row) => all + chosen.reduce((part, state) => part + (row[times].get(state) ?? 0), 0), 0);
    const whole = sum(matching, "times", ordered);
    const cell = (of: Row[], chosen: number[]) => {
      const now = sum(of, "times", chosen);
      const then = sum(of, "before", chosen);
      if (!now && !then) return h("td", {});
      const change = isCompared ? ` (${now < then ? "−" : "+"}${time(Math.abs(now - then))})` : "";
      return h("td", { title: whole ? share(now / whole) : "" }, time(now) + change);
    };
    const line = (title: Node | string, of: Row[]) =>
      h("tr", {}, h("th", { attributes: { scope: "row" } }, title), cell(of, ordered), ...columns.map((state) => cell(of, [state])), ...(others.length ? [cell(of, others)] : []));
    const heads = [...columns.map((state) => name(names[state]!)), ...(others.length ? [`${others.length} more states`] : [])];
    this.table.append(
      h("thead", {}, h("tr", {}, h("th", { attributes: { scope: "col" } }, "Entity"), h("th", { attributes: { scope: "col" } }, "Total"), ...heads.map((each) => h("th", { attributes: { scope: "col" } }, each)))),
      h("tbody", {}, line("All", matching), ...matching.slice(0, MOST_ENTITIES).map((row) => line(name(row.name), [row]))),
    );
    this.table.dataset.total = String(whole);
    const shown = matching.length > MOST_ENTITIES ? `${grouped(MOST_ENTITIES)} of ${grouped(matching.length)} entities` : "";
    const compared = isCompared ? "time in B, and how much more than in A" : "";
    const merged = rest ? `${time(rest)} of entities with less than ${time(this.state.model.head.least ?? 0)} in a state are not listed` : "";
    this.about.textContent = [shown, compared, merged].filter(Boolean).join(" · ");
  }
}

function time(ns: number): string {
  return duration(BigInt(Math.round(ns)), 4);
}
