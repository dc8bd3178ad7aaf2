/** The field that searches names: how many were found, and the next and the previous one. */

import { button, h } from "./dom";
import { grouped } from "./format";
import { icon } from "./icon";

export interface Searched {
  /** What the field shows beside itself; empty without a search. */
  searched(text: string): string;
  /** Goes to the next match or with -1 to the previous; its rank, from 1, or 0 without one. */
  next(step: 1 | -1): number | Promise<number>;
}

export class SearchField {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly found = h("output", { class: "found" });
  private readonly buttons: HTMLButtonElement[];
  private count = "";

  constructor(
    private readonly searched: Searched,
    placeholder: string,
  ) {
    this.input = h("input", {
      attributes: { type: "search", placeholder, "aria-label": placeholder, spellcheck: "false" },
      on: { input: () => this.look() },
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.go(event.shiftKey ? -1 : 1);
    });
    this.buttons = [
      button(icon("up"), "Previous match (P)", () => this.go(-1), { class: "bare" }),
      button(icon("down"), "Next match (N)", () => this.go(1), { class: "bare" }),
    ];
    this.element = h("div", { class: "search", attributes: { role: "search" } }, icon("search"), this.input, h("kbd", { attributes: { "aria-hidden": "true" } }, "/"), this.found, ...this.buttons);
    this.look();
  }

  get text(): string {
    return this.input.value;
  }

  set text(text: string) {
    if (text === this.input.value) return;
    this.input.value = text;
    this.look();
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  /** Searches again, in what is shown now. */
  look(): void {
    this.count = this.searched.searched(this.text);
    this.found.textContent = this.count;
    for (const each of this.buttons) each.hidden = !this.text;
  }

  /** Shows what was found, if that takes longer. */
  report(count: string): void {
    this.count = count;
    this.found.textContent = count;
  }

  /** Shows which of what was found is selected: its rank, from 1; 0 if none is. */
  place(rank: number): void {
    if (rank) this.found.textContent = `${grouped(rank)} of ${this.count}`;
  }

  go(step: 1 | -1): void {
    const rank = this.searched.next(step);
    if (typeof rank === "number") this.place(rank);
    else void rank.then((each) => this.place(each));
  }
}
