/** Elements of a page. Text goes in as text: nothing here parses markup. */

const XHTML = "http://www.w3.org/1999/xhtml";

type Child = Node | string | null | undefined;

export interface Properties {
  class?: string;
  id?: string;
  title?: string;
  style?: string;
  attributes?: Record<string, string>;
  on?: Record<string, (event: never) => void>;
}

/** Makes an XHTML element, in a document that may be SVG. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElementNS(XHTML, tag) as HTMLElementTagNameMap[K];
  if (properties.class) made.className = properties.class;
  if (properties.id) made.id = properties.id;
  if (properties.title) made.title = properties.title;
  if (properties.style) made.setAttribute("style", properties.style);
  for (const [name, value] of Object.entries(properties.attributes ?? {})) {
    made.setAttribute(name, value);
  }
  for (const [name, listener] of Object.entries(properties.on ?? {})) {
    made.addEventListener(name, listener as EventListener);
  }
  for (const child of children) if (child != null) made.append(child);
  return made;
}

/** A button with a name for those who cannot see its sign; the name has the words that are seen, which others say to press it. */
export function button(
  sign: Child,
  name: string,
  action: () => void,
  properties: Properties = {},
): HTMLButtonElement {
  const made = h("button", { title: name, ...properties }, sign);
  made.type = "button";
  const isSaid = typeof sign === "string" && /\p{L}/u.test(sign) && !name.toLowerCase().includes(sign.toLowerCase());
  made.setAttribute("aria-label", isSaid ? `${sign}: ${name}` : name);
  made.addEventListener("click", action);
  return made;
}

/** Sets the text of an element; one that has it already is not laid out again. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces an element's content; the control with the focus keeps it if the new content has it too. */
export function replaceContent(parent: HTMLElement, ...content: Node[]): void {
  const focused = document.activeElement;
  const name = parent.contains(focused) ? focused!.getAttribute("aria-label") : null;
  const controls = () => [...parent.querySelectorAll<HTMLElement>("button")];
  const index = name === null ? -1 : controls().indexOf(focused as HTMLElement);
  parent.replaceChildren(...content);
  if (index < 0) return;
  const found = controls();
  // a control whose name says what it acts on may have another name now
  const same = found.find((control) => control.getAttribute("aria-label") === name) ?? found[index];
  same?.focus({ preventScroll: true });
}

/** A name from a trace, whose direction of writing does not reach what stands beside it. */
export function name(text: string, properties: Properties = {}): HTMLElement {
  return h("bdi", properties, shown(text));
}

/** A function and where it is: `f (/lib/python3.11/random.py:367)`. */
const LOCATED = /^(.+) \((?:[^()]*[/\\])?([^()/\\]+:\d+)\)$/s;

/** A name that stands alone: one that is empty is `(none)`, as commands print it; of a location, the folders are left out. */
export function nameOrNone(text: string | null, properties: Properties = {}): HTMLElement {
  const located = LOCATED.exec(text ?? "");
  if (!located) return name(text || "(none)", properties);
  return h("span", { title: text ?? "", ...properties }, name(located[1]!), " ", name(`(${located[2]!})`, { class: "faint" }));
}

const UNFIT =
  /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** A text on one line in which every character can be seen, as `shown` in views/svg.py. */
export function shown(text: string): string {
  return text.replace(UNFIT, (found) => {
    const code = found.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}
