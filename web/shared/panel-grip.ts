/** The upper edge of a panel, which is dragged to make the panel higher or lower. */

import { h } from "./dom";

const LEAST_PX = 34;
/** What stays for the lanes above it. */
const LANES_PX = 240;
const HEIGHT = "--panel-height";

/** Adds a grip to a panel whose height is `--panel-height`; a double click resets it. */
export function addGrip(panel: HTMLElement): void {
  const grip = h("div", { class: "grip", attributes: { role: "separator", "aria-orientation": "horizontal" } });
  panel.append(grip);
  grip.addEventListener("pointerdown", (event) => {
    grip.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  grip.addEventListener("pointermove", (event) => {
    if (!grip.hasPointerCapture(event.pointerId)) return;
    const { bottom } = panel.getBoundingClientRect();
    const height = Math.max(LEAST_PX, Math.min(innerHeight - LANES_PX, bottom - event.clientY));
    document.body.style.setProperty(HEIGHT, `${height}px`);
  });
  grip.addEventListener("dblclick", () => document.body.style.removeProperty(HEIGHT));
}
