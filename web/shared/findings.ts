/** What stands out: each finding is a button that shows it. */

import { h, name } from "./dom";

export interface FindingItem {
  text: string;
  /** When it was, as the page prints times; empty if the text says all. */
  at: string;
  /** Selects it; null if there is nothing to select. */
  show: (() => void) | null;
}

export class Findings {
  readonly element: HTMLElement;

  /**
   * @param notes What has to be known to read the page with care.
   * @param nothing What is said if there are none.
   */
  constructor(items: FindingItem[], notes: string[], nothing = "No periods, stripes, gaps or bursts were found.") {
    const lines = items.map(({ text, at, show }) => {
      const words = [name(text), ...(at ? [" ", h("span", { class: "muted" }, at)] : [])];
      if (!show) return h("li", {}, ...words);
      const line = h("button", { class: "finding" }, ...words);
      line.type = "button";
      line.addEventListener("click", () => {
        for (const other of lines) other.firstElementChild?.removeAttribute("aria-current");
        line.setAttribute("aria-current", "true");
        show();
      });
      return h("li", {}, line);
    });
    this.element = h(
      "section",
      { class: "findings" },
      lines.length ? h("ul", {}, ...lines) : h("p", { class: "muted" }, nothing),
      ...(notes.length ? [h("h3", {}, "Read with care"), ...notes.map((note) => h("p", { class: "muted" }, name(note)))] : []),
    );
  }
}
