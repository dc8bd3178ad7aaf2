/** The panel beside the map: what is selected, the states with their shares, tags by property. */

import { button, h, name, replaceContent } from "../../shared/dom";
import { icon } from "../../shared/icon";
import { addGrip } from "../../shared/panel-grip";
import { dateIn, duration, exact, range as timeRange } from "../../shared/format";
import { describe, percent } from "./describe";
import type { Command } from "./command";
import { type Panel, cssColor, mainState } from "./model";
import type { Session } from "./session";
import { type Counts, type Totals, counts, existence, existing, totals } from "./shares";
import { byValue, propertiesOf } from "./tags";

/** What moves the selection: given by the keys' owner, so that buttons and keys do the same. */
export interface Moves {
  found(by: number): void;
  rectangle(by: number): void;
  row(by: number): void;
  occurrence(by: number): void;
  zoomToChoice(): void;
}

const SETTLE_MS = 120;

export class Side {
  readonly element: HTMLElement;
  private readonly selection = h("section", { class: "selection", attributes: { "aria-live": "polite" } });
  private readonly states = h("section", { class: "states-section" });
  private readonly tags = h("section", { class: "tags-section" });
  private timer = 0;
  private merged = 0;
  private isAllShown = false;

  constructor(
    private readonly session: Session,
    private readonly moves: Moves,
    private readonly command: Command,
    footer: HTMLElement,
  ) {
    this.element = h("aside", { class: "side" }, this.selection, this.states, this.tags, footer);
    addGrip(this.element);
    session.onChange((change) => {
      // sums over everything in view wait until a zoom or a pan has come to rest
      clearTimeout(this.timer);
      if (change === "choice") this.update();
      else this.timer = setTimeout(() => this.update(), SETTLE_MS);
    });
  }

  update(): void {
    this.merged = 0;
    // of a selected row only its own kind has figures
    const { model, row } = this.session;
    const inSight = model.panels.filter((panel) => this.session.rows.order(panel).length);
    const panels = row ? [row.panel] : inSight.length ? inSight : model.panels;
    const legends = [...new Set(panels.map(({ legend }) => legend))];
    this.drawSelection();
    replaceContent(
      this.states,
      ...legends.map((legend) => this.legend(legend)),
    );
    this.drawTags();
    this.command.update(this.merged);
  }

  private scopeText(): Node {
    const { session } = this;
    const { start, end, chosen } = session.range;
    const row = session.row;
    const what = h("div", { class: "scope muted" });
    if (row) {
      what.append(
        name(row.panel.kind),
        " ",
        h("b", {}, name(row.panel.entities[row.row]!)),
        button(icon("close"), "All rows", () => {
          session.row = null;
          session.changed("choice");
        }, { class: "bare" }),
        ", ",
      );
    }
    what.append(`${chosen ? "selected range" : "visible span"} ${exact(end - start)}`);
    if (!row && session.filter) what.append(`, ${session.rows.shownCount} rows shown`);
    return what;
  }

  private drawSelection(): void {
    const { session, moves } = this;
    const { mark, second, model, row } = session;
    if (mark === null) {
      const touch = matchMedia("(hover: none)").matches;
      const text = touch
        ? "Tap the map to mark a time and select a row."
        : "Click the map to mark a time and select a row. Shift-click measures from there.";
      const { start, end } = session.range;
      replaceContent(
        this.selection,
        h("div", { class: "figure", title: exact(end - start) }, duration(end - start, 4)),
        h("div", { class: "muted" }, timeRange(start + model.start, end + model.start)),
        ...(model.origin === null ? [] : [h("div", { class: "muted" }, `from ${dateIn(model.origin + model.start + start, model.zone)}`)]),
        h("p", { class: "muted" }, text),
      );
      return;
    }
    const made: Node[] = [];
    const time = h("table", { class: "facts" });
    const line = (label: string, text: string) =>
      time.append(h("tr", {}, h("th", { attributes: { scope: "row" } }, label), h("td", {}, text)));
    line("at", exact(mark + model.start));
    if (model.origin !== null) line(model.zone?.name ?? "UTC", dateIn(model.origin + model.start + mark, model.zone));
    if (second !== null) {
      line("to", exact(second + model.start));
      line("apart", exact(second > mark ? second - mark : mark - second));
    }
    made.push(time);
    if (row) {
      made.push(h("div", { class: "described" }, ...describe(model, row, mark, null)));
      const i = session.rectangle;
      const state = i < 0 ? null : row.panel.states[mainState(row.panel, i)]!.name;
      made.push(
        h(
          "div",
          { class: "moves" },
          h(
            "span",
            { class: "group" },
            button(icon("left"), "Previous state of this row (Shift+←)", () => moves.rectangle(-1)),
            button(icon("right"), "Next state of this row (Shift+→)", () => moves.rectangle(1)),
            button(icon("up"), "Row above (Shift+↑)", () => moves.row(-1)),
            button(icon("down"), "Row below (Shift+↓)", () => moves.row(1)),
          ),
          i < 0 && !session.lit
            ? null
            : h(
                "span",
                { class: "group" },
                button("previous", `Previous ${state ?? "occurrence"} (p)`, () => moves.occurrence(-1)),
                button("next", `Next ${state ?? "occurrence"} (n)`, () => moves.occurrence(1)),
              ),
          button("zoom", "Zoom to it (z)", () => moves.zoomToChoice()),
        ),
      );
    } else if (second !== null) {
      made.push(h("div", { class: "moves" }, button("Zoom to range", "Zoom to it (z)", () => moves.zoomToChoice())));
    }
    replaceContent(this.selection, ...made);
  }

  private legend(legend: number): HTMLElement {
    const { session } = this;
    const { model, lit, mark } = session;
    const panels = model.panels.filter((panel) => panel.legend === legend);
    const { start, end } = session.range;
    const scopes = panels.map((panel) => session.scope(panel));
    const sums = panels.map((panel, k) => totals(panel, scopes[k]!, start, end));
    this.merged += sums.reduce((sum, { merged }) => sum + merged, 0);
    const counted =
      mark === null ? [] : panels.map((panel) => counts(panel, session.rows.order(panel), mark));
    const existed = panels.reduce((sum, panel, k) => sum + existence(panel, scopes[k]!, start, end, sums[k]!.states), 0);
    const entityCount =
      mark === null ? 0 : panels.reduce((sum, panel) => sum + existing(panel, session.rows.order(panel), mark), 0);
    const many = model.panels.some((panel) => panel.legend !== legend);

    const head = h(
      "tr",
      {},
      h("th", {}, "state"),
      h("th", { class: "number", title: "Share of the time in which these existed" }, "share"),
      h("th", { class: "number" }, "time"),
      mark === null ? null : h("th", { class: "number", title: "Rows in this state at the marked time" }, session.row ? "all at mark" : "rows at mark"),
    );
    const table = h("table", { class: "legend bars" }, h("thead", {}, head));
    const body = h("tbody");
    table.append(body);
    let estimated = false;
    panels[0]!.states.forEach((state, index) => {
      const ns = sums.reduce((sum, { states }) => sum + states.get(index), 0n);
      const error = sums.reduce((sum, { stateErrors }) => sum + stateErrors[index]!, 0);
      estimated ||= error > 0;
      const share = existed ? Number(ns) / existed : 0;
      const isLit = lit?.legend === legend && lit.state === index;
      const toggle = button(
        h("span", { class: "swatch", style: `background:${cssColor(state)}` }),
        `Light up ${state.name}`,
        () => {
          session.light(isLit ? null : { legend, state: index });
          if (!isLit) this.tags.scrollIntoView({ block: "nearest" });
        },
        { class: "bare state printed", attributes: { "aria-pressed": `${isLit}` } },
      );
      toggle.append(name(state.name));
      const row = h(
        "tr",
        { class: isLit ? "lit" : "" },
        h("td", {}, toggle),
        bar(share, cssColor(state), timeError(error)),
        figure(ns || error ? duration(ns, 4) : "–", "number muted", timeError(error)),
      );
      if (mark !== null) {
        const count = counted.reduce((sum, { states }) => sum + states[index]!, 0);
        const wrong = counted.reduce((sum, { stateErrors }) => sum + stateErrors[index]!, 0);
        estimated ||= wrong > 0;
        const text = count ? `${tidy(count)} (${Math.floor((100 * count) / entityCount)} %)` : "–";
        row.append(figure(text, "number count", rowError(wrong)));
      }
      row.hidden = !this.isAllShown && !isLit && !panels.some((panel) => session.occurs(panel, index));
      body.append(row);
    });
    const hidden = [...body.children].filter((row) => (row as HTMLElement).hidden).length;
    const title = many ? h("h2", {}, "States of ", ...joined(panels)) : h("h2", {}, "States");
    const more = hidden || this.isAllShown ? [this.absent(hidden)] : [];
    return h("div", { class: "legend-of" }, title, this.scopeText(), table, ...more, ...(estimated ? [estimates()] : []));
  }

  /** A button for the states that never occur. */
  private absent(hidden: number): HTMLElement {
    const text = hidden === 1 ? "1 state that does not occur" : `${hidden} states that do not occur`;
    return button(
      hidden ? text : "Hide the states that do not occur",
      "Show or hide the states that do not occur",
      () => {
        this.isAllShown = !this.isAllShown;
        this.update();
      },
      { class: "bare absent" },
    );
  }

  private drawTags(): void {
    const { session } = this;
    const { lit, model } = session;
    if (!lit) {
      replaceContent(this.tags);
      return;
    }
    const panels = model.panels.filter((panel) => panel.legend === lit.legend);
    const state = panels[0]!.states[lit.state]!;
    const properties = propertiesOf(panels, lit.state);
    const title = h("h2", {}, "Tags of ", name(state.name));
    if (!properties.length) {
      replaceContent(this.tags, title, h("p", { class: "muted" }, "This state has no tags."));
      return;
    }
    const chips = h("div", { class: "chips" });
    for (const property of properties) {
      const chosen = session.property === property;
      chips.append(
        button(name(property), `By ${property}`, () => {
          session.property = chosen ? null : property;
          session.value = null;
          session.changed("choice");
        }, { attributes: { "aria-pressed": `${chosen}` } }),
      );
    }
    const made: Node[] = [title, chips];
    if (session.property !== null) made.push(...this.values(panels, session.property));
    replaceContent(this.tags, ...made);
  }

  private values(panels: Panel[], property: string): Node[] {
    const { session } = this;
    const { lit, mark, second, row, model } = session;
    const atTime = mark !== null && second === null;
    const { start, end, chosen } = session.range;
    const shares = new Map<string, number>();
    const times = new Map<string, bigint>();
    const errors = new Map<string, number>();
    let whole = 0;
    for (const panel of panels) {
      const rows = session.scope(panel);
      const sums = atTime ? null : totals(panel, rows, start, end);
      const held: Counts | Totals = sums ?? counts(panel, rows, mark!);
      whole += sums ? existence(panel, rows, start, end, sums.states) : existing(panel, rows, mark!);
      for (const [value, tags] of byValue(panel, lit!.state, property)) {
        for (const tag of tags) {
          errors.set(value, (errors.get(value) ?? 0) + held.tagErrors[tag]!);
          if (held.tags instanceof Float64Array) {
            shares.set(value, (shares.get(value) ?? 0) + held.tags[tag]!);
          } else times.set(value, (times.get(value) ?? 0n) + held.tags.get(tag));
        }
      }
    }
    if (!atTime) for (const [value, ns] of times) shares.set(value, Number(ns));
    const sorted = [...shares].filter(([, held]) => held > 0).sort((a, b) => b[1] - a[1]);
    const errorText = (error: number) => (atTime ? rowError(error) : timeError(error));
    const caption = h("div", { class: "scope muted" });
    if (row) caption.append(name(row.panel.kind), " ", h("b", {}, name(row.panel.entities[row.row]!)), ": ");
    caption.append("by ", name(property), atTime
      ? ` at ${exact(mark + model.start)}`
      : ` over ${chosen ? "selected range" : "span"} ${exact(end - start)}`);
    const body = h("tbody");
    let total = 0;
    let totalError = 0;
    for (const [value, held] of sorted) {
      total += held;
      const error = errors.get(value)!;
      totalError += error;
      const isLit = session.value === value;
      const toggle = button(value === "" ? h("i", { class: "muted" }, "empty") : name(value), "Recolour where it occurs", () => {
        session.value = isLit ? null : value;
        session.changed("choice");
      }, { class: "bare state printed", attributes: { "aria-pressed": `${isLit}` } });
      body.append(
        h(
          "tr",
          { class: isLit ? "lit" : "" },
          h("td", {}, toggle),
          bar(whole ? held / whole : 0, "var(--accent)", errorText(error)),
          figure(atTime ? tidy(held) : duration(times.get(value)!, 4), "number muted", errorText(error)),
        ),
      );
    }
    const totalNs = [...times.values()].reduce((sum, ns) => sum + ns, 0n);
    const foot = h(
      "tr",
      {},
      h("td", {}, "total"),
      figure(percent(whole ? total / whole : 0), "number", errorText(totalError)),
      figure(atTime ? tidy(total) : duration(totalNs, 4), "number muted", errorText(totalError)),
    );
    const table = h("table", { class: "values bars" }, body, h("tfoot", {}, foot));
    return [caption, table, ...(totalError ? [estimates()] : [])];
  }
}

function bar(share: number, color: string, wrongBy: string | null): HTMLElement {
  const made = figure(share > 0 ? percent(share) : "–", share > 0 ? "number bar" : "number bar nothing", wrongBy);
  made.style.cssText = `--share:${Math.min(100, share * 100).toFixed(2)}%;--color:${color}`;
  return made;
}

/** A cell with a figure; with ≈ before it and the most it can be wrong by, if it is an estimate. */
function figure(text: string, kind: string, wrongBy: string | null): HTMLElement {
  if (wrongBy === null) return h("td", { class: kind }, text);
  return h("td", { class: kind, title: `estimated, wrong by at most ${wrongBy}` }, `≈ ${text}`);
}

/** An error bound as text; null if the figure is exact. */
function timeError(ns: number): string | null {
  return ns > 0 ? duration(BigInt(Math.ceil(ns)), 4) : null;
}

function rowError(rows: number): string | null {
  return rows > 0 ? `${tidy(Math.ceil(rows * 100) / 100)} rows` : null;
}

function estimates(): HTMLElement {
  return h(
    "p",
    { class: "estimates muted" },
    "≈ estimated: an edge of the range, or the mark, lies within merged rectangles, whose states " +
      "are known in total but not in order. The command below the map gives full detail.",
  );
}

function tidy(count: number): string {
  const rounded = Math.round(count * 100) / 100;
  return Number.isInteger(rounded) ? `${rounded}` : rounded.toFixed(2);
}

function joined(panels: Panel[]): (Node | string)[] {
  return panels.flatMap(({ title }, k) => [k ? " and " : "", name(title)]);
}
