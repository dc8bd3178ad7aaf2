/** What stands around the map: title and tools. */

import { button, h, name, shown } from "../../shared/dom";
import { icon } from "../../shared/icon";
import { dateIn, duration, exact } from "../../shared/format";
import type { Command } from "./command";
import type { Panel } from "./model";
import { ALIKE, BY_NAME } from "./rows";
import type { Session } from "./session";
import type { Side } from "./side";
import type { Stage } from "./stage";

const LEAST_PANEL_PX = 212;
/** What is above the table of states, and how high a line of it is. */
const PANEL_HEAD_PX = 104;
const STATE_PX = 26;

export interface Tools {
  zoomIn(): void;
  zoomOut(): void;
  pan(by: number): void;
  reset(): void;
  resize(factor: number): void;
  toggleEvents(): void;
  toggleTheme(): void;
  toggleHelp(): void;
  found(by: number): void;
}

export class Frame {
  readonly element: HTMLElement;
  private readonly span = h("div", { class: "span" });
  private readonly number = h("kbd", { class: "typed" });
  private readonly note = h("span", { class: "muted note", attributes: { role: "status" } });
  private readonly input = h("input", {
    class: "search",
    attributes: { type: "search", placeholder: "Search rows", "aria-label": "Search rows: a part of the name, or /a regular expression/" },
  });
  private readonly found = h("span", { class: "muted found" });
  private readonly sort = h("select", { class: "sort", attributes: { "aria-label": "Sort rows" } });
  private readonly eventsButton: HTMLButtonElement | null = null;
  private readonly smaller: HTMLButtonElement;

  constructor(
    private readonly session: Session,
    stage: Stage,
    side: Side,
    command: Command,
    tools: Tools,
  ) {
    const { model } = session;
    const count = session.eventCount;
    this.number.hidden = true;
    if (count) {
      const text = `${count.toLocaleString("en")} events`;
      const title = "Show or hide events (e); dense events appear when you zoom in or select a row";
      this.eventsButton = button(text, title, tools.toggleEvents);
    }
    this.fillSort();
    this.smaller = button(icon("minus"), "Zoom out (-)", tools.zoomOut);
    const header = h(
      "header",
      {},
      h("div", { class: "titles" }, h("h1", {}, name(model.title)), h("div", { class: "muted" }, shown(model.subtitle))),
      h(
        "div",
        { class: "controls" },
        this.found,
        this.input,
        this.sort,
        button(icon("theme"), "Switch between light and dark (t)", tools.toggleTheme),
        button(icon("help"), "Keys and gestures (?)", tools.toggleHelp),
      ),
    );
    const toolbar = h(
      "div",
      { class: "toolbar" },
      this.span,
      this.number,
      this.note,
      h(
        "div",
        { class: "controls" },
        this.eventsButton,
        h(
          "span",
          { class: "group by-hand" },
          button(icon("flatter"), "Flatter rows ([)", () => tools.resize(1 / 1.3)),
          button(icon("taller"), "Taller rows (])", () => tools.resize(1.3)),
        ),
        h(
          "span",
          { class: "group" },
          button(icon("left"), "Earlier (←)", () => tools.pan(-1), { class: "by-hand" }),
          this.smaller,
          button(icon("whole"), "Show everything (r)", tools.reset),
          button(icon("plus"), "Zoom in (+)", tools.zoomIn),
          button(icon("right"), "Later (→)", () => tools.pan(1), { class: "by-hand" }),
        ),
      ),
    );
    // the panel is as high as its longest table of states; it stays so, whatever is selected
    const most = Math.max(...model.panels.map((panel) => panel.states.filter((_, index) => session.occurs(panel, index)).length));
    const needed = Math.max(LEAST_PANEL_PX, PANEL_HEAD_PX + STATE_PX * most);
    this.element = h(
      "div",
      { class: "page", style: `--panel-needed:${needed}px` },
      header,
      h("main", {}, h("div", { class: "map" }, toolbar, stage.element), side.element),
      command.element,
    );
    this.input.addEventListener("input", () => {
      session.filter = this.input.value;
      session.arrange();
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") tools.found(event.shiftKey ? -1 : 1);
    });
    this.sort.addEventListener("change", () => {
      const { value } = this.sort;
      session.sort = value === BY_NAME || value === ALIKE ? value : value ? { state: value.slice(1) } : null;
      session.arrange();
    });
    session.onChange(() => this.update());
  }

  search(): void {
    this.input.focus();
    this.input.select();
  }

  typed(digits: string): void {
    this.number.textContent = `show ${digits} … s m u n`;
    this.number.hidden = !digits;
  }

  /** Shows a note until something changes. */
  say(text: string): void {
    this.note.textContent = text;
  }

  private fillSort(): void {
    const { model } = this.session;
    const option = (value: string, text: string) => h("option", { attributes: { value } }, shown(text));
    const given = model.sort === null ? "Sort by name" : `Sort by ${model.sort} (as drawn)`;
    const occurring = (panel: Panel) => panel.states.filter((_, index) => this.session.occurs(panel, index));
    const states = new Set(model.panels.flatMap((panel) => occurring(panel).map((state) => state.name)));
    this.sort.append(option("", given));
    if (model.sort !== null) this.sort.append(option(BY_NAME, "Sort by name"));
    // tasks that share rows stay where they are
    if (model.panels.some(({ shared, entities }) => !shared && entities.length > 2)) this.sort.append(option(ALIKE, "Like rows together"));
    for (const state of states) this.sort.append(option(`=${state}`, `Most ${state} first`));
  }

  private update(): void {
    const { session } = this;
    const { view, model, rows } = session;
    const start = view.startNs;
    this.say("");
    const parts = [`span ${duration(view.endNs - start, 4)}`];
    if (!view.isWhole || model.start !== 0n) {
      parts.push(`offset ${exact(start)}`);
      if (model.start !== 0n) parts.push(`${exact(start + model.start)} overall`);
      if (model.origin !== null) parts.push(dateIn(model.origin + model.start + start, model.zone));
    }
    this.span.replaceChildren(h("b", {}, parts[0]!), ...parts.slice(1).map((part) => h("span", { class: "muted" }, part)));
    this.smaller.disabled = view.isWhole;
    this.found.textContent = session.filter ? `${rows.shownCount} of ${rows.count}` : "";
    if (session.found?.count) {
      const { count } = session.found;
      const kind = model.panels.find(({ shared }) => shared)!.kind.toLowerCase();
      this.found.textContent = `${count.toLocaleString("en")} ${shown(kind)}${count === 1 ? "" : "s"}`;
      this.found.title = `In ${rows.shownCount} of ${rows.count} rows; Enter goes to the next, Shift+Enter to the one before`;
    }
    if (this.input.value !== session.filter) this.input.value = session.filter;
    const { sort } = session;
    this.sort.value = typeof sort === "string" ? sort : sort ? `=${sort.state}` : "";
    this.eventsButton?.setAttribute("aria-pressed", `${session.events}`);
  }
}
