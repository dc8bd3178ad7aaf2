/** What the search field offers below itself: the time or range that was typed, what was found, and commands. */

import { h, name, shown } from "../shared/dom";
import type { SearchField } from "../shared/search-field";

export interface Offer {
  text: string;
  /** What it is, or the key that does the same. */
  note: string;
  run(): void;
  /** Whether Enter runs it, without being chosen by an arrow. */
  isFirst?: boolean;
}

export interface Offered {
  /** What is offered for a text at once. */
  now(text: string): Offer[];
  /** What takes a while, offered above the others; null if there is nothing. */
  later(text: string): Promise<Offer | null> | null;
}

const MOST_OFFERS = 12;

export class Palette {
  private readonly list = h("div", { id: "offers", class: "offers", attributes: { role: "listbox", "aria-label": "What can be done" } });
  private offers: Offer[] = [];
  private chosen = -1;
  private waiting: Promise<void> | null = null;

  constructor(
    private readonly field: SearchField,
    private readonly offered: Offered,
    /** What has the focus after something was chosen. */
    private readonly home: HTMLElement,
  ) {
    const { input } = field;
    for (const [key, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "offers", "aria-autocomplete": "list", autocomplete: "off" })) input.setAttribute(key, value);
    field.element.append(this.list);
    this.list.hidden = true;
    input.addEventListener("input", () => this.ask());
    input.addEventListener("focus", () => this.ask());
    input.addEventListener("blur", () => this.close());
    // before the field, whose Enter goes to what is found
    input.addEventListener("keydown", (event) => this.press(event), { capture: true });
    // the field keeps the focus
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  close(): void {
    this.offers = [];
    this.waiting = null;
    this.draw();
  }

  /** Asks again what is offered, such as when something was found. */
  ask(): void {
    if (document.activeElement !== this.field.input) return;
    const { text } = this.field;
    const now = this.offered.now(text);
    this.take(now);
    const later = this.offered.later(text);
    const waiting = later?.then((offer) => {
      if (this.waiting !== waiting) return;
      this.waiting = null;
      if (offer) this.take([offer, ...now]);
    });
    this.waiting = waiting ?? null;
  }

  private take(offers: Offer[]): void {
    const before = this.offers[this.chosen]?.text;
    this.offers = offers.slice(0, MOST_OFFERS);
    const same = this.offers.findIndex(({ text }) => text === before);
    this.chosen = same >= 0 ? same : this.offers.findIndex(({ isFirst }) => isFirst);
    this.draw();
  }

  private draw(): void {
    const { input } = this.field;
    this.list.hidden = !this.offers.length;
    input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.list.replaceChildren(
      ...this.offers.map(({ text, note, run }, at) => {
        const made = h("div", { id: `offer-${at}`, class: "offer", attributes: { role: "option", "aria-selected": String(at === this.chosen) } }, name(text), h("span", { class: "muted" }, shown(note)));
        made.addEventListener("click", () => this.run(run));
        return made;
      }),
    );
    if (this.chosen >= 0 && this.offers.length) input.setAttribute("aria-activedescendant", `offer-${this.chosen}`);
    else input.removeAttribute("aria-activedescendant");
  }

  private run(run: () => void): void {
    this.close();
    this.home.focus({ preventScroll: true });
    run();
  }

  private press(event: KeyboardEvent): void {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by && this.offers.length) {
      // above the first is the text itself
      const { length } = this.offers;
      this.chosen = ((this.chosen + 1 + by + length + 1) % (length + 1)) - 1;
      this.draw();
      event.preventDefault();
    } else if (event.key === "Enter" && !event.isComposing && !event.shiftKey) {
      const run = () => {
        const offer = this.offers[this.chosen];
        if (offer) this.run(() => offer.run());
        else {
          this.close();
          this.field.go(1);
        }
      };
      // who types and presses Enter does not wait for what is offered
      if (this.waiting && this.chosen < 0) void this.waiting.then(run);
      else run();
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  }
}
