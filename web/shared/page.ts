/** The frame of a page: it takes the picture's place, with the look, the theme and the help. */

import { button, h, shown } from "./dom";
import { icon } from "./icon";
import type { Key } from "./keys";
import look from "./page.css?inline";
import tokens from "./tokens.css?inline";

/**
 * Puts a page in the place of the SVG that is the document, once `build` has made its body; if
 * that fails, the picture stays.
 */
export function openPage(title: string, style: string, build: (body: HTMLElement) => void): void {
  const picture = document.documentElement;
  const body = h("body");
  const viewport = { name: "viewport", content: "width=device-width, initial-scale=1" };
  const head = h(
    "head",
    {},
    h("meta", { attributes: viewport }),
    h("title", {}, shown(title)),
    h("style", {}, tokens + look + style),
  );
  const page = h("html", { attributes: { lang: "en" } }, head, body);
  picture.replaceWith(page);
  try {
    build(body);
  } catch (reason) {
    page.replaceWith(picture);
    throw reason;
  }
}

const THEME = "meantime-theme";

function stored(): string | null {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null; // a page from a file may have no storage
  }
}

/** Light or dark: what was chosen before, else what the system says. On paper it is light. */
export class Theme {
  private readonly system = matchMedia("(prefers-color-scheme: dark)");
  private chosen = stored();
  /** Whether the page is being drawn for paper. */
  printing = false;

  constructor(private readonly changed: () => void) {
    this.system.addEventListener("change", () => this.apply());
    for (const [event, printing] of [["beforeprint", true], ["afterprint", false]] as const) {
      addEventListener(event, () => {
        this.printing = printing;
        this.apply();
      });
    }
    this.apply();
  }

  get dark(): boolean {
    if (this.printing) return false;
    return this.chosen ? this.chosen === "dark" : this.system.matches;
  }

  toggle(): void {
    this.chosen = this.dark ? "light" : "dark";
    try {
      localStorage.setItem(THEME, this.chosen);
    } catch {
      // then it holds until the page is closed
    }
    this.apply();
  }

  private apply(): void {
    document.documentElement.dataset.theme = this.dark ? "dark" : "light";
    this.changed();
  }
}

/** The value of a colour of the look, such as `--bg`. */
export function themeColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export interface MouseHelp {
  what: string;
  help: string;
}

const MOST_IN_COLUMN = 20;

/** A list of keys and gestures over the page. */
export class Help {
  private readonly dialog: HTMLDialogElement;

  constructor(body: HTMLElement, keys: Key[], mouse: MouseHelp[]) {
    const row = (what: string, help: string) =>
      h(
        "tr",
        {},
        h("th", { attributes: { scope: "row" } }, ...kbds(what)),
        h("td", {}, help),
      );
    this.dialog = h(
      "dialog",
      { class: "help", attributes: { "aria-label": "Keys and gestures" } },
      h("h2", {}, "Keys and gestures"),
      button(icon("close"), "Close", () => this.close(), { class: "close" }),
      h(
        "div",
        { class: "columns" },
        h("table", {}, ...mouse.map(({ what, help }) => row(what, help))),
        ...halves(keys).map((part) => h("table", {}, ...part.map(({ keys: names, label, help }) => row(label ?? names[0]!, help)))),
      ),
    );
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.close();
    });
    body.append(this.dialog);
  }

  get isOpen(): boolean {
    return this.dialog.open;
  }

  toggle(): void {
    if (this.isOpen) this.close();
    else this.dialog.showModal();
  }

  close(): void {
    this.dialog.close();
  }
}

/** A list in two parts, if it is long. */
function halves<T>(list: T[]): T[][] {
  const middle = list.length > MOST_IN_COLUMN ? Math.ceil(list.length / 2) : list.length;
  return [list.slice(0, middle), list.slice(middle)].filter((part) => part.length);
}

function kbds(what: string): (Node | string)[] {
  return what.split(/( \/ | \+ | then )/).map((part, i) => (i % 2 ? part : h("kbd", {}, part)));
}
