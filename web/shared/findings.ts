/** What stands out: each finding is a button that shows it. */

import { h, name } from "./dom";

export interface FindingItem {
  text: string;
  /** Selects it; null if there is nothing to select. */
  show: (() => void) | null;
}

export class Findings {
  readonly element: HTMLElement;

  /**
   * @param notes What has to be known to read the page with care.
   */
  constructor(items: FindingItem[], notes: string[]) {
    const lines = items.map(({ text, show }) => {
      if (!show) return h("li", {}, name(text));
      const line = h("button", { class: "finding" }, name(text));
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
      lines.length ? h("ul", {}, ...lines) : h("p", { class: "muted" }, "No periods, stripes, gaps or bursts were found."),
      ...(notes.length ? [h("h3", {}, "Read with care"), ...notes.map((note) => h("p", { class: "muted" }, name(note)))] : []),
    );
  }
}
