/** A box beside the pointer. */

import { h } from "./dom";

const AWAY_PX = 14;

export class Tooltip {
  private readonly box = h("div", { class: "tooltip", attributes: { role: "tooltip" } });

  constructor(body: HTMLElement) {
    this.box.hidden = true;
    body.append(this.box);
    // a key may change what is below the pointer
    document.addEventListener("keydown", () => this.hide());
  }

  show(x: number, y: number, content: Node[]): void {
    this.box.replaceChildren(...content);
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const right = x + AWAY_PX + width <= innerWidth;
    const below = y + AWAY_PX + height <= innerHeight;
    this.box.style.left = `${Math.max(4, right ? x + AWAY_PX : x - AWAY_PX - width)}px`;
    this.box.style.top = `${Math.max(4, below ? y + AWAY_PX : y - AWAY_PX - height)}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}
