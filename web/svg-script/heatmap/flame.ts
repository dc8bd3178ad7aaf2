/** The flame graph of the selected cells, from the stacks in the page. */

import { button, h } from "../../shared/dom";
import { FlameGraph } from "../../shared/flame-graph";
import { LibraryFold } from "../../shared/library-fold";
import { duration, grouped, share } from "../../shared/format";
import type { HeatState } from "../../shared/heat-state";
import { SearchField } from "../../shared/search-field";
import { type PackedStacks, StackCells } from "../../shared/stack-cells";
import type { Tooltip } from "../../shared/tooltip";

const REST_MS = 90;

export class SelectionFlame {
  readonly element: HTMLElement;
  readonly search: SearchField;
  private readonly graph: FlameGraph;
  private readonly amount: (value: number) => string;
  private readonly fold = new LibraryFold(false, () => this.show());
  private readonly about = h("p", { class: "about muted" });
  private readonly empty = h("p", { class: "empty muted" });
  private stacks: StackCells | null = null;
  private timer = 0;

  /**
   * @param packed The stacks of the page.
   * @param found What is called when the text of the search has changed.
   */
  constructor(
    private readonly state: HeatState,
    packed: PackedStacks,
    tooltip: Tooltip,
    found: () => void,
  ) {
    const { head } = state.model;
    const unit = head.value === "weight" ? "weight" : "samples";
    this.amount = head.holds === "samples" ? (value) => `${grouped(value)} ${unit}` : (value) => duration(BigInt(Math.round(value)), 4);
    this.graph = new FlameGraph(tooltip, { amount: this.amount });
    this.search = new SearchField(
      {
        searched: (text) => {
          const matches = this.graph.search(text);
          found();
          return matches ? `${grouped(matches.count)} found, ${share(matches.share)}` : "";
        },
        next: (step) => this.graph.next(step),
      },
      "Search functions",
    );
    const whole = button("Reset zoom", "Show the whole graph", () => this.graph.zoom(null), { class: "small" });
    this.element = h("div", { class: "selection-flame" }, h("div", { class: "flame-head" }, this.about, this.search.element, this.fold.button, whole), this.graph.element, this.empty);
    state.listen((change) => change !== "view" && this.showSoon());
    void this.load(packed);
  }

  recolor(): void {
    this.graph.recolor();
  }

  private async load(packed: PackedStacks): Promise<void> {
    this.empty.textContent = "Reading the stacks…";
    this.show();
    try {
      this.stacks = await StackCells.from(packed);
    } catch {
      this.empty.textContent = "This browser cannot read the stacks in the page; use the command below.";
      return;
    }
    this.show();
  }

  /** The names that count, or those that do not, whichever are fewer. */
  private listed(counted: Set<number> | null): string {
    if (!counted) return "";
    const { names } = this.state.model;
    const away = names.filter((_, at) => !counted.has(at));
    const [few, prefix] = away.length < counted.size ? [away, "without "] : [names.filter((_, at) => counted.has(at)), ""];
    return few.length > 3 ? `${counted.size} of ${names.length} names` : prefix + few.join(", ");
  }

  private showSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.show(), REST_MS);
  }

  private show(): void {
    const { model, selection, before } = this.state;
    const chosen = selection && model.chosen(selection);
    this.graph.element.hidden = true;
    this.empty.hidden = false;
    this.about.textContent = "";
    if (!this.stacks || !chosen) {
      if (this.stacks) this.empty.textContent = before ? "Select the cells to compare with A." : "Select cells to see their flame graph.";
      return;
    }
    const { counted } = this.state;
    const tree = this.stacks.tree(chosen, counted, before && model.chosen(before));
    const listed = this.listed(counted);
    let total = 0;
    for (let node = 0; node < tree.parent.length; node++) if (tree.parent[node]! < 0) total += tree.value[node]!;
    this.graph.element.dataset.total = String(total);
    if (!total) {
      this.empty.textContent = `There are no ${model.head.holds} ${listed ? `of ${listed} ` : ""}in the selected cells.`;
      return;
    }
    this.graph.element.hidden = false;
    this.empty.hidden = true;
    this.graph.show(this.fold.of(tree));
    this.search.look();
    const compared = before ? "B compared with A: red has a larger share in B, blue in A" : "";
    const { least } = model.head;
    const merged = least !== null && least > 1 ? `stacks with less than ${this.amount(least)} are merged into their callers` : "";
    this.about.textContent = [listed, compared, merged].filter(Boolean).join(" · ");
  }
}
