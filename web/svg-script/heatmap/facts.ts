/** The facts of the selected cells: when, how much, and of which names. */

import { button, h, name } from "../../shared/dom";
import { download } from "../../shared/download";
import { duration, exact } from "../../shared/format";
import type { HeatState } from "../../shared/heat-state";
import { type Selection, rowsAt } from "../../shared/selection";

const MOST_NAMES = 40;

/** A name, and how much there is of it. */
interface Row {
  value: number;
  at: number;
}

export class Facts {
  readonly element = h("div", { class: "facts details" });
  private pending = 0;

  constructor(
    private readonly state: HeatState,
    private readonly amount: (value: number) => string,
  ) {
    state.listen((change) => {
      // a drag changes the selection more often than a screen is drawn
      cancelAnimationFrame(this.pending);
      if (change !== "view") this.pending = requestAnimationFrame(() => this.draw());
    });
    this.draw();
  }

  private draw(): void {
    const { selection, before } = this.state;
    if (!selection) {
      const how = before ? "Select what to compare with A." : "Select cells: click, drag, or use the arrow keys and Enter.";
      this.element.replaceChildren(...this.of(before, "A"), h("p", { class: "muted" }, how));
      return;
    }
    this.element.replaceChildren(...this.of(before, "A"), ...this.of(selection, before ? "B" : ""), this.table(selection));
  }

  private of(selection: Selection | null, letter: string): Node[] {
    const { model } = this.state;
    const range = selection && model.rangeOf(selection);
    if (!selection || !range) return [];
    const { from, to, shape } = selection;
    const { selected, hidden } = this.state;
    const shown = this.shown(selection);
    const sum = (rows: Row[]) => rows.reduce((all, { value }) => all + value, 0);
    const fact = (label: string, ...text: (Node | string)[]) => h("p", {}, h("span", { class: "muted" }, `${label} `), ...text);
    const lines = [
      h("h2", {}, letter ? `Selection ${letter}` : "Selection"),
      h("p", { class: "figure" }, this.amount(sum(shown))),
      model.y ? fact(model.y.kind === "weekday" ? "hours" : "time", model.columnWords(...model.between(from.place, to.place)!)) : fact("time", model.range(range)),
    ];
    const isCell = from.place === to.place;
    if (model.y) lines.push(fact(model.rowNoun, model.rowWords(from.row, to.row)));
    else if (shape === "band" || isCell) {
      const column = isCell ? ` of the column at ${model.when(model.timeNs(model.columns[from.place]!, 0))}` : " of each column";
      lines.push(fact("offset", `${exact(model.offsetNs(from.row))} to ${exact(model.offsetNs(to.row + 1))}${column}`));
    }
    if (selected.length) lines.push(fact("of the selected names", this.amount(sum(shown.filter(({ at }) => selected.includes(at))))));
    const counted = selected.length ? selected : model.names.map((_, at) => at).filter((at) => !hidden.has(at));
    const found = shape === "time" || from.row === to.row ? null : model.offsets(counted, selection);
    const at = (ns: number) => duration(BigInt(Math.round(ns)), 4);
    if (found) lines.push(fact("mean offset", `${at(found.meanNs)}, median ${at(found.medianNs)}${selected.length ? ", of the selected" : ""}`));
    return lines;
  }

  /** What a selection has of each name that is not hidden, the most first. */
  private shown(selection: Selection): Row[] {
    const { model, hidden } = this.state;
    return model
      .within(selection)
      .map((value, at) => ({ value, at }))
      .filter(({ value, at }) => value > 0 && !hidden.has(at))
      .sort((a, b) => b.value - a.value);
  }

  private table(selection: Selection): Node {
    const { model } = this.state;
    const rows = this.shown(selection);
    const all = rows.reduce((sum, { value }) => sum + value, 0) || 1;
    const cells = rows.slice(0, MOST_NAMES).map(({ value, at }) =>
      h(
        "tr",
        {},
        h("td", {}, name(model.names[at] || "all")),
        h("td", { class: "number" }, this.amount(value)),
        h("td", { class: "number muted" }, `${((100 * value) / all).toFixed(1)} %`),
      ),
    );
    const save = button("Save CSV", "Save what is in the selection as CSV", () => this.save(selection, rows), { class: "small" });
    const more = rows.length > MOST_NAMES ? h("p", { class: "muted" }, `and ${rows.length - MOST_NAMES} more`) : "";
    return h("div", {}, h("table", {}, ...cells), more, save);
  }

  private save(selection: Selection, rows: Row[]): void {
    const { model } = this.state;
    const range = model.inFile(model.rangeOf(selection)!);
    const inside = selection.shape === "band" ? rowsAt(selection, selection.from.place, model.rows)! : [0, model.rows - 1];
    const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
    const band = model.y ? [quote(model.rowWords(inside[0]!, inside[1]!))] : [model.offsetNs(inside[0]!), model.offsetNs(inside[1]! + 1)];
    const lines = rows.map(({ value, at }) => [...range, ...band, quote(model.names[at] || "all"), value].join(","));
    const text = [`from_ns,to_ns,${model.y ? model.rowNoun : "from_offset_ns,to_offset_ns"},name,value`, ...lines, ""].join("\n");
    download("selection.csv", new Blob([text], { type: "text/csv" }));
  }
}
