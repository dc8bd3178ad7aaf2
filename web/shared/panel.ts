/** The panel below the lanes: facts of what is selected at the left, a tab at the right. */

import { h } from "./dom";

export interface Tab {
  /** As in the address. */
  id: string;
  title: string;
  element: HTMLElement;
}

const LEAST_PX = 34;
const LANES_PX = 240;
const HEIGHT = "--panel-height";

export class Panel {
  readonly element: HTMLElement;
  readonly facts = h("div", { class: "facts" });
  private readonly tabs: HTMLButtonElement[];
  private readonly content = h("div", { class: "content", attributes: { role: "tabpanel" } });
  private shown: Tab;

  constructor(
    private readonly choices: readonly Tab[],
    private readonly changed: (tab: Tab) => void,
  ) {
    const grip = h("div", { class: "grip", attributes: { role: "separator", "aria-orientation": "horizontal" } });
    this.tabs = choices.map((tab) => {
      const made = h("button", { attributes: { role: "tab" }, on: { click: () => this.choose(tab.id) } }, tab.title);
      made.type = "button";
      return made;
    });
    const head = h("div", { class: "tabs", attributes: { role: "tablist" } }, ...this.tabs);
    this.element = h("section", { class: "panel" }, grip, this.facts, h("div", { class: "tabbed" }, head, this.content));
    this.shown = choices[0]!;
    this.choose(this.shown.id);
    grip.addEventListener("pointerdown", (event) => {
      grip.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    grip.addEventListener("pointermove", (event) => {
      if (!grip.hasPointerCapture(event.pointerId)) return;
      const bottom = this.element.getBoundingClientRect().bottom;
      const height = Math.max(LEAST_PX, Math.min(innerHeight - LANES_PX, bottom - event.clientY));
      document.body.style.setProperty(HEIGHT, `${height}px`);
    });
    grip.addEventListener("dblclick", () => document.body.style.removeProperty(HEIGHT));
  }

  get tab(): Tab {
    return this.shown;
  }

  choose(id: string): void {
    const index = Math.max(0, this.choices.findIndex((tab) => tab.id === id));
    this.shown = this.choices[index]!;
    this.tabs.forEach((tab, each) => tab.setAttribute("aria-selected", String(each === index)));
    this.content.replaceChildren(this.shown.element);
    this.changed(this.shown);
  }
}
