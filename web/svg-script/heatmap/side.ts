/** Beside the map: the names, which are the legend, and what lies in the box. */

import { button, h, name, shown } from "../../shared/dom";
import { exact, short } from "../../shared/time";
import { plain } from "./model";
import type { Session } from "./session";

const MOST_ROWS = 300;

export class Side {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "names", attributes: { role: "listbox", "aria-label": "Names", "aria-multiselectable": "true" } });
  private readonly details = h("section", { class: "details" });
  private readonly input = h("input", {
    class: "search",
    attributes: { type: "search", placeholder: "Search names", "aria-label": "Search names" },
  });
  /** Names from the most to the least. */
  private readonly order: number[];
  private pending = 0;

  constructor(
    private readonly session: Session,
    private readonly isDark: () => boolean,
  ) {
    const { model } = session;
    this.order = model.names.map((_, at) => at).sort((a, b) => model.cells[b]!.total - model.cells[a]!.total);
    this.input.addEventListener("input", () => this.fill());
    const findings = model.head.findings;
    this.element = h(
      "aside",
      {},
      h("div", { class: "names-head" }, h("h2", {}, `${model.names.length.toLocaleString("en")} ${model.names.length === 1 ? "name" : "names"}`), this.input),
      this.list,
      this.details,
      findings.length ? h("section", { class: "found" }, h("h2", {}, "Findings"), h("ul", {}, ...findings.map((text) => h("li", {}, name(text))))) : null,
      ...model.head.notes.map((note) => h("p", { class: "muted note" }, note)),
    );
    session.listen((change) => {
      if (change === "cells") this.fill();
      // A drag changes the box more often than a screen is drawn.
      cancelAnimationFrame(this.pending);
      if (change !== "view") this.pending = requestAnimationFrame(() => this.drawDetails());
    });
  }

  amount(value: number): string {
    return this.session.model.head.value === "ns" ? short(BigInt(value)) : value.toLocaleString("en");
  }

  /** Moves the selection up or down the list. */
  step(by: number): void {
    const { session } = this;
    const last = session.selected[session.selected.length - 1];
    const at = last === undefined ? -1 : this.order.indexOf(last);
    const next = this.order[Math.min(this.order.length - 1, Math.max(0, at + by))]!;
    session.selected = [next];
    if (session.mode === "decompose") session.mode = "highlight";
    session.changed("cells");
    this.list.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  color(index: number): string {
    const { model } = this.session;
    const { ramps } = this.isDark() ? model.dark : model.light;
    const ramp = ramps[index < ramps.length ? index : 1 + ((index - 1) % (ramps.length - 1))]!;
    return `rgb(${ramp.slice(3 * 200, 3 * 200 + 3).join(" ")})`;
  }

  fill(): void {
    const { session } = this;
    const { model } = session;
    const colored = session.colored;
    const wanted = this.input.value.toLowerCase();
    const found = this.order.filter((at) => model.names[at]!.toLowerCase().includes(wanted));
    const all = model.cells.reduce((sum, { total }) => sum + total, 0) || 1;
    const rows = found.slice(0, MOST_ROWS).map((at) => {
      const index = colored.get(at);
      const { total } = model.cells[at]!;
      const row = h(
        "div",
        { class: "name", attributes: { role: "option", "aria-selected": String(session.selected.includes(at)), tabindex: "-1" } },
        h("span", { class: "swatch", style: index === undefined ? "" : `background:${this.color(index)}` }),
        name(model.names[at] || "all", { class: "what" }),
        h("span", { class: "muted" }, this.amount(total)),
        h("span", { class: "muted share" }, `${((100 * total) / all).toFixed(1)} %`),
      );
      if (session.hidden.has(at)) row.classList.add("hidden-name");
      row.addEventListener("click", (event) => {
        if (session.hidden.delete(at)) session.changed("cells");
        else session.select(at, event.shiftKey || event.ctrlKey || event.metaKey);
      });
      return row;
    });
    if (found.length > MOST_ROWS) rows.push(h("div", { class: "muted name" }, `and ${found.length - MOST_ROWS} more`));
    this.list.replaceChildren(...rows);
  }

  private drawDetails(): void {
    const { session } = this;
    const { box, model } = session;
    if (!box) {
      this.details.replaceChildren();
      return;
    }
    const columns = model.between(box.c0, box.c1);
    if (!columns) {
      this.details.replaceChildren();
      return;
    }
    const [first, last] = columns;
    const sums = model.within(box.c0, box.c1, box.r0, box.r1);
    const all = sums.reduce((sum, value) => sum + value, 0);
    const rows = sums
      .map((value, at) => ({ value, at }))
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value);
    const from = model.when(model.timeNs(first, 0));
    const to = model.when(model.timeNs(last + 1, 0));
    const band = `${exact(model.offsetNs(box.r0))} to ${exact(model.offsetNs(box.r1 + 1))}`;
    const of = session.selected.length ? session.selected : model.names.map((_, at) => at).filter((at) => !session.hidden.has(at));
    const found = box.r0 === box.r1 ? null : model.offsets(of, box.c0, box.c1, box.r0, box.r1);
    const at = (ns: number) => short(BigInt(Math.round(ns)));
    const middle = found && `${at(found.meanNs)}, median ${at(found.medianNs)}${session.selected.length ? ", of the selected" : ""}`;
    const save = () => {
      const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
      const place = [model.timeNs(first, 0), model.timeNs(last + 1, 0), model.offsetNs(box.r0), model.offsetNs(box.r1 + 1)].join();
      const lines = rows.map(({ value, at }) => `${place},${quoted(model.names[at]!)},${value}`);
      const text = ["from_ns,to_ns,from_offset_ns,to_offset_ns,name,value", ...lines, ""].join("\n");
      const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      const link = h("a", { attributes: { href: url, download: "selection.csv" } });
      link.click();
      URL.revokeObjectURL(url);
    };
    const command = this.flame(first, last, box.r0, box.r1);
    const copy = button("Copy", "Copy the command that draws the flame graph of the selection", () => {
      void navigator.clipboard?.writeText(command ?? "");
      copy.textContent = "Copied";
    }, { class: "small" });
    this.details.replaceChildren(
      h(
        "div",
        { class: "details-head" },
        h("h2", {}, "Selection"),
        button("Save CSV", "Save what is in the selection as CSV", save, { class: "small" }),
      ),
      h("p", {}, h("span", { class: "muted" }, "time "), first === last ? from : `${from} to ${to}`),
      h("p", {}, h("span", { class: "muted" }, "offset "), band),
      middle ? h("p", {}, h("span", { class: "muted" }, "mean offset "), middle) : "",
      h("p", {}, h("span", { class: "muted" }, "total "), h("b", {}, this.amount(all))),
      h(
        "table",
        {},
        ...rows.slice(0, 40).map(({ value, at }) =>
          h(
            "tr",
            {},
            h("td", {}, name(model.names[at] || "all")),
            h("td", { class: "number" }, this.amount(value)),
            h("td", { class: "number muted" }, `${((100 * value) / all).toFixed(1)} %`),
          ),
        ),
      ),
      rows.length > 40 ? h("p", { class: "muted" }, `and ${rows.length - 40} more`) : "",
      command ? h("div", { class: "command" }, h("div", { class: "details-head" }, h("h2", {}, "Flame graph"), copy), h("code", {}, shown(command))) : "",
    );
  }

  /** The command that draws the stacks of a part of the map; null if it is not of samples. */
  private flame(first: number, last: number, r0: number, r1: number): string | null {
    const { model } = this.session;
    const { head } = model;
    const file = head.inputs[0];
    if (!head.samples || head.inputs.length !== 1 || file === undefined) return null;
    const parts = ["meantime flame", /^[\w./+-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`];
    const is = { from: model.timeNs(first, 0), to: model.timeNs(last + 1, 0) };
    if (first !== last || r1 - r0 + 1 === model.rows) {
      parts.push(`--from abs:${plain(is.from)} --to abs:${plain(is.to)}`);
      if (r1 - r0 + 1 < model.rows) {
        const { periodNs } = model;
        const offset = (row: number) => (((model.originNs + model.offsetNs(row)) % periodNs) + periodNs) % periodNs;
        parts.push(`--band ${plain(offset(r0))}..${plain(offset(r1 + 1) || periodNs)}`);
        if (periodNs !== 1_000_000_000n) parts.push(`--period ${plain(periodNs)}`);
      }
    } else parts.push(`--from abs:${plain(model.timeNs(first, r0))} --to abs:${plain(model.timeNs(first, r1 + 1))}`);
    return [...parts, "-o flame.svg"].join(" ");
  }
}
