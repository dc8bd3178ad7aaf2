/** The names of a picture with their colours and amounts: to search, and to select by mouse or keys. */

import { h, name } from "./dom";
import { share } from "./format";

const MOST_ROWS = 300;

export interface LegendEntry {
  /** The index of the name. */
  at: number;
  name: string;
  amount: number;
  /** What stands beside it instead of its amount and its part of all. */
  figure?: string;
  /** The colour in which it is drawn; null if it has none of its own. */
  color: string | null;
  isSelected: boolean;
  isHidden: boolean;
}

export interface LegendOptions {
  /** All names in order of their amounts. */
  entries(): LegendEntry[];
  amount(value: number): string;
  /** A name is clicked, or chosen by key. */
  choose(at: number, more: boolean): void;
}

export class Legend {
  readonly element: HTMLElement;
  private readonly list = h("div", {
    class: "names",
    attributes: { role: "listbox", "aria-label": "Names", "aria-multiselectable": "true", tabindex: "0" },
  });
  private readonly input = h("input", {
    class: "search",
    attributes: { type: "search", placeholder: "Search names", "aria-label": "Search names", spellcheck: "false" },
  });
  private readonly heading = h("h2");
  private readonly note = h("p", { class: "muted note" });
  private shown: LegendEntry[] = [];
  /** The name that keys move to. */
  private current = 0;

  constructor(private readonly options: LegendOptions) {
    this.input.addEventListener("input", () => this.fill());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.list.focus();
      else if (event.key === "Enter" && this.shown[0]) options.choose(this.shown[0].at, event.shiftKey);
      else return;
      event.preventDefault();
    });
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("focus", () => this.mark());
    this.list.addEventListener("blur", () => this.mark());
    this.element = h("section", { class: "legend" }, h("div", { class: "legend-head" }, this.heading, this.input), this.list, this.note);
  }

  focusSearch(): void {
    this.input.focus();
    this.input.select();
  }

  /** Shows a sentence below the names; an empty text removes it. */
  remark(text: string): void {
    this.note.textContent = text;
  }

  fill(): void {
    const wanted = this.input.value.toLowerCase();
    const entries = this.options.entries();
    const all = entries.reduce((sum, { amount }) => sum + amount, 0) || 1;
    this.heading.textContent = `${entries.length.toLocaleString("en")} ${entries.length === 1 ? "name" : "names"}`;
    const found = entries.filter((entry) => entry.name.toLowerCase().includes(wanted));
    this.shown = found.slice(0, MOST_ROWS);
    const rows: HTMLElement[] = this.shown.map((entry) => this.row(entry, entry.amount / all));
    if (found.length > MOST_ROWS) rows.push(h("div", { class: "muted" }, `and ${found.length - MOST_ROWS} more`));
    if (!found.length) rows.push(h("div", { class: "muted" }, `No name contains “${this.input.value}”`));
    this.list.replaceChildren(...rows);
    this.current = Math.min(this.current, Math.max(0, this.shown.length - 1));
    this.mark();
  }

  /** Brings the selected name into view. */
  reveal(): void {
    this.list.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  private row(entry: LegendEntry, part: number): HTMLElement {
    const row = h(
      "div",
      {
        class: entry.isHidden ? "name hidden-name" : "name",
        id: `name-${entry.at}`,
        title: entry.isHidden ? "Hidden: click to draw it too" : entry.name,
        attributes: { role: "option", "aria-selected": String(entry.isSelected) },
      },
      h("span", { class: "swatch", style: entry.color ? `background:${entry.color}` : "" }),
      name(entry.name, { class: "what" }),
      h("span", { class: "muted" }, entry.figure === undefined ? this.options.amount(entry.amount) : ""),
      h("span", { class: "muted share" }, entry.figure ?? share(part)),
    );
    row.addEventListener("click", (event) => {
      this.current = this.shown.indexOf(entry);
      this.options.choose(entry.at, event.shiftKey || event.ctrlKey || event.metaKey);
    });
    return row;
  }

  private key(event: KeyboardEvent): void {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const entry = this.shown[this.current];
    if (by) this.current = Math.max(0, Math.min(this.shown.length - 1, this.current + by));
    else if ((event.key === "Enter" || event.key === " ") && entry) this.options.choose(entry.at, event.shiftKey || event.key === " ");
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.mark();
    this.list.children[this.current]?.scrollIntoView({ block: "nearest" });
  }

  private mark(): void {
    const isFocused = document.activeElement === this.list;
    [...this.list.children].forEach((row, at) => row.classList.toggle("current", isFocused && at === this.current));
    const entry = this.shown[this.current];
    if (entry) this.list.setAttribute("aria-activedescendant", `name-${entry.at}`);
  }
}
