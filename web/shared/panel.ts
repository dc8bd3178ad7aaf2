/** The panel below a picture: facts in the gutter, and a tab beside them. */

import { h } from "./dom";

export interface Tab {
  id: string;
  label: string;
  /** The key that opens it. */
  key: string;
  content: HTMLElement;
}

/** Tabs, and nothing below them. */
const FOLDED_PX = 60;

export class Panel {
  readonly element: HTMLElement;
  private readonly buttons: Map<string, HTMLButtonElement>;
  private current = "";

  constructor(
    facts: HTMLElement,
    private readonly tabs: Tab[],
    tools: HTMLElement,
    private readonly opened: (id: string) => void,
  ) {
    this.buttons = new Map(tabs.map((tab) => [tab.id, this.button(tab)]));
    for (const { id, content } of tabs) {
      content.id = `tab-${id}`;
      content.setAttribute("role", "tabpanel");
      content.setAttribute("aria-labelledby", `tab-of-${id}`);
    }
    const list = h("div", { class: "tabs", attributes: { role: "tablist", "aria-label": "Answers" } }, ...this.buttons.values());
    list.addEventListener("keydown", (event) => this.step(event));
    this.element = h(
      "section",
      { class: "panel", attributes: { "aria-label": "Details" } },
      h("div", { class: "panel-head" }, list, tools),
      facts,
      h("div", { class: "panel-body" }, ...tabs.map(({ content }) => content)),
    );
    this.open(tabs[0]!.id);
  }

  get tab(): string {
    return this.current;
  }

  open(id: string): void {
    if (!this.buttons.has(id) || id === this.current) return;
    this.current = id;
    for (const tab of this.tabs) {
      const isOpen = tab.id === id;
      tab.content.hidden = !isOpen;
      const made = this.buttons.get(tab.id)!;
      made.setAttribute("aria-selected", String(isOpen));
      made.tabIndex = isOpen ? 0 : -1;
      // where the tabs are wider than the page
      if (isOpen && made.isConnected) made.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    this.opened(id);
  }

  /** The tabs that can be opened. */
  get offered(): readonly Tab[] {
    return this.tabs.filter(({ id }) => !this.buttons.get(id)!.hidden);
  }

  /** Offers a tab, or no longer, unless it is open. */
  offer(id: string, isOffered: boolean): void {
    const made = this.buttons.get(id);
    if (made) made.hidden = !isOffered && id !== this.current;
  }

  /** Gives a panel of which only the tabs are seen half of the page. */
  private unfold(): void {
    if (this.element.clientHeight <= FOLDED_PX) document.documentElement.style.setProperty("--panel-height", `${Math.round(innerHeight / 2)}px`);
  }

  /** Says beside the name of a tab how much is in it. */
  count(id: string, amount: string): void {
    const made = this.buttons.get(id)!;
    const { label } = this.tabs.find((tab) => tab.id === id)!;
    const text = amount ? `${label} ${amount}` : label;
    made.setAttribute("aria-label", text);
    made.textContent = text;
  }

  private button({ id, label, key }: Tab): HTMLButtonElement {
    const made = h("button", { title: `${label} (${key})`, attributes: { id: `tab-of-${id}`, role: "tab", "aria-controls": `tab-${id}`, "aria-label": label, "data-key": key.replace("Shift + ", "⇧") } }, label);
    made.type = "button";
    made.addEventListener("click", () => {
      this.unfold();
      this.open(id);
    });
    return made;
  }

  private step(event: KeyboardEvent): void {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    const { offered } = this;
    const at = offered.findIndex(({ id }) => id === this.current);
    const next = offered[(at + by + offered.length) % offered.length]!;
    event.preventDefault();
    event.stopPropagation();
    this.open(next.id);
    this.buttons.get(next.id)!.focus();
  }
}
