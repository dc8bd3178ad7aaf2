/** Edges that are dragged, or moved by the arrow keys: of the panel, and of the gutter. */

import { h } from "./dom";

const LEAST_PX = 34;
/** What stays for the lanes above the panel. */
const LANES_PX = 240;
const GUTTER_PX = { least: 160, most: 480 };
const STEP_PX = 16;

interface Edge {
  /** The CSS variable with the size. */
  variable: string;
  label: string;
  /** The element whose size it is. */
  sized: HTMLElement;
  orientation: "horizontal" | "vertical";
  /** The size now, and the one that a place of the pointer means. */
  size(): number;
  sizeAt(event: PointerEvent): number;
  least: number;
  most(): number;
  /** The keys that make it larger and smaller. */
  keys: [string, string];
}

function edge(of: Edge): HTMLElement {
  const grip = h("div", { class: `grip ${of.orientation}`, title: `${of.label}: drag, or use the arrow keys; a double click resets it`, attributes: { role: "separator", tabindex: "0", "aria-label": of.label, "aria-orientation": of.orientation } });
  const { style } = document.documentElement;
  const set = (px: number) => {
    style.setProperty(of.variable, `${Math.round(Math.max(of.least, Math.min(of.most(), px)))}px`);
  };
  // the size also changes with the window
  const describe = () => {
    const most = Math.round(Math.max(of.least, of.most()));
    const values = { now: Math.max(of.least, Math.min(most, of.size())), min: of.least, max: most };
    for (const [name, value] of Object.entries(values)) grip.setAttribute(`aria-value${name}`, String(value));
  };
  describe();
  new ResizeObserver(describe).observe(of.sized);
  grip.addEventListener("pointerdown", (event) => {
    grip.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  grip.addEventListener("pointermove", (event) => grip.hasPointerCapture(event.pointerId) && set(of.sizeAt(event)));
  grip.addEventListener("dblclick", () => style.removeProperty(of.variable));
  grip.addEventListener("keydown", (event) => {
    const at = of.keys.indexOf(event.key);
    if (at < 0) return;
    event.preventDefault();
    event.stopPropagation();
    set(of.size() + (at ? -STEP_PX : STEP_PX));
  });
  return grip;
}

/** Adds the upper edge of a panel, whose height is `--panel-height`. */
export function addGrip(panel: HTMLElement): void {
  panel.prepend(
    edge({
      variable: "--panel-height",
      label: "Height of the panel",
      sized: panel,
      orientation: "horizontal",
      size: () => panel.clientHeight,
      sizeAt: (event) => panel.getBoundingClientRect().bottom - event.clientY,
      least: LEAST_PX,
      most: () => innerHeight - LANES_PX,
      keys: ["ArrowUp", "ArrowDown"],
    }),
  );
}

/** Adds the edge between names and time, which is `--gutter-own` from the left. */
export function addGutterGrip(main: HTMLElement, gutter: HTMLElement): void {
  main.append(
    edge({
      variable: "--gutter-own",
      label: "Width of the names",
      sized: gutter,
      orientation: "vertical",
      size: () => gutter.clientWidth,
      sizeAt: (event) => event.clientX - main.getBoundingClientRect().left,
      least: GUTTER_PX.least,
      most: () => Math.min(GUTTER_PX.most, innerWidth / 2),
      keys: ["ArrowRight", "ArrowLeft"],
    }),
  );
}
