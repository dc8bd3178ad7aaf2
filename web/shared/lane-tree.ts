/** Lanes below each other: their names at the left, what they draw at the right, in one image. */

import { h, name } from "./dom";
import { LABEL_FONT } from "./box-labels";
import { LaneImage } from "./lane-image";
import type { View } from "./lane-image";

export interface Lane {
  readonly title: string;
  /** What is shown in faint behind the title. */
  readonly detail: string;
  /** 1 for a group, 2 for what is inside of it. */
  readonly level: number;
  /** Whether it can be closed and opened. */
  readonly opens: boolean;
  open: boolean;
  /** The height in CSS pixels. */
  height(): number;
  /** Writes pixels; `top` is in CSS pixels. */
  draw(image: LaneImage, top: number, view: View): void;
  /** Draws above the pixels of all lanes. */
  drawOver?(context: CanvasRenderingContext2D, top: number, view: View, width: number): void;
}

export interface Hit {
  lane: Lane;
  /** In CSS pixels from the top of the lane. */
  y: number;
}

const GAP_PX = 3;
/** In a narrow window a name has no room at the left, and is above its lane. */
const NAME_PX = 18;
const NARROW = matchMedia("(max-width: 720px)");

export class LaneTree {
  readonly element: HTMLElement;
  readonly canvas = h("canvas", {
    attributes: { tabindex: "0", role: "application", "aria-label": "Lanes over time" },
  });
  private readonly gutter = h("div", { class: "lane-names", attributes: { role: "tree", "aria-label": "Lanes" } });
  private readonly spacer = h("div", { class: "lane-space" });
  private readonly image = new LaneImage(this.canvas);
  private lanes: Lane[] = [];
  private shown: Lane[] = [];
  private tops: number[] = [];
  private bottom = 0;
  private filter: (lane: Lane) => boolean = () => true;
  private drawnNames = "";
  private drawnPixels = "";
  /** Sizes in CSS pixels, kept as reading them makes the browser lay the page out. */
  private size = { width: 0, height: 0 };
  private top = 0;

  /** @param changed Called when a lane was opened or closed, or the lanes were scrolled. */
  constructor(private readonly changed: () => void) {
    this.element = h("div", { class: "lane-tree" }, this.spacer);
    this.spacer.append(this.gutter, this.canvas);
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    NARROW.addEventListener("change", () => this.arrange());
    new ResizeObserver(() => {
      this.size = { width: this.canvas.clientWidth, height: this.element.clientHeight };
      this.canvas.style.height = `${this.size.height}px`;
      this.spacer.style.height = `${Math.max(this.bottom, this.size.height)}px`;
      this.changed();
    }).observe(this.element);
  }

  private scrolled(): void {
    this.top = this.element.scrollTop;
    this.changed();
  }

  /** Makes the next frame draw all pixels again. */
  invalidate(): void {
    this.drawnPixels = "";
  }

  show(lanes: Lane[]): void {
    this.lanes = lanes;
    this.arrange();
  }

  /** Shows only the lanes that pass; a group is shown while one of its lanes is. */
  filtered(passes: (lane: Lane) => boolean): void {
    this.filter = passes;
    this.arrange();
  }

  get visible(): readonly Lane[] {
    return this.shown;
  }

  /** All lanes that pass the filter, closed groups included. */
  get passing(): Lane[] {
    return this.lanes.filter((lane) => lane.level > 1 && this.filter(lane));
  }

  get widthPx(): number {
    return this.size.width;
  }

  get heightPx(): number {
    return this.size.height;
  }

  /** Lays the lanes out again; a lane that is given keeps its place in the window. */
  arrange(anchor: Lane | null = null): void {
    const before = anchor && this.topOf(anchor);
    this.shown = [];
    let group: Lane | null = null;
    let isPending = false;
    for (const lane of this.lanes) {
      if (lane.level === 1) {
        group = lane;
        isPending = true;
        continue;
      }
      if (!this.filter(lane)) continue;
      if (group && isPending) this.shown.push(group);
      isPending = false;
      if (!group || group.open) this.shown.push(lane);
    }
    this.tops = [];
    let top = 0;
    for (const lane of this.shown) {
      top += this.above(lane);
      this.tops.push(top);
      top += lane.height() + GAP_PX;
    }
    this.bottom = top;
    this.spacer.style.height = `${Math.max(this.bottom, this.size.height)}px`;
    this.drawnNames = this.drawnPixels = "";
    const after = anchor && this.topOf(anchor);
    if (before !== null && after !== null && after !== before) this.scrollBy(after - before);
    this.changed();
  }

  /** Draws a frame, with vertical lines at `grid`. */
  draw(view: View, background: number, grid: readonly number[], line: number): void {
    const { image } = this;
    const { width, height } = this.size;
    if (!width || !height) return;
    const { top } = this;
    const [first, last] = this.inView(top);
    // only the outlines change while the pointer moves
    const state = `${view.from} ${view.to} ${top} ${width} ${height} ${devicePixelRatio}`;
    if (state !== this.drawnPixels) {
      this.drawnPixels = state;
      this.canvas.style.transform = `translateY(${top}px)`;
      image.begin(width, height, background, grid, line);
      for (let index = first; index < last; index++) this.shown[index]!.draw(image, this.tops[index]! - top, view);
    }
    image.put();
    image.context.font = LABEL_FONT;
    image.context.textBaseline = "middle";
    for (let index = first; index < last; index++) {
      this.shown[index]!.drawOver?.(image.context, this.tops[index]! - top, view, width);
    }
    this.drawNames(first, last, top);
  }

  get context(): CanvasRenderingContext2D {
    return this.image.context;
  }

  /** The lane at a height in CSS pixels from the top of the canvas. */
  at(y: number): Hit | null {
    const at = y + this.top;
    const index = this.indexAt(at);
    const lane = this.shown[index];
    const below = at - (this.tops[index] ?? 0);
    return lane && below < lane.height() ? { lane, y: below } : null;
  }

  /** The lane at the top of the window. */
  get uppermost(): Lane | null {
    return this.shown[this.indexAt(this.top)] ?? null;
  }

  /** The top of a lane in CSS pixels from the top of the canvas; null if it is not shown. */
  topOf(lane: Lane): number | null {
    const index = this.shown.indexOf(lane);
    return index < 0 ? null : this.tops[index]! - this.top;
  }

  scrollBy(px: number): void {
    this.element.scrollTop += px;
    this.scrolled();
  }

  /** Scrolls until a height of a lane is in view. */
  reveal(lane: Lane, y: number, height: number): void {
    const group = this.groupOf(lane);
    if (group && !group.open) {
      group.open = true;
      this.arrange();
    }
    const top = this.topOf(lane);
    if (top === null) return;
    if (top + y < 0 || top + y + height > this.size.height) {
      this.scrollBy(top + y - this.size.height / 2);
    }
  }

  toggle(lane: Lane): void {
    lane.open = !lane.open;
    this.arrange();
  }

  /** The room for a lane's name above it. */
  private above(lane: Lane): number {
    return NARROW.matches && lane.level > 1 ? NAME_PX : 0;
  }

  private groupOf(lane: Lane): Lane | null {
    let group: Lane | null = null;
    for (const each of this.lanes) {
      if (each.level === 1) group = each;
      if (each === lane) return group;
    }
    return null;
  }

  private indexAt(y: number): number {
    let low = 0;
    let high = this.tops.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.tops[middle]! <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private inView(top: number): [number, number] {
    if (!this.shown.length) return [0, 0];
    return [this.indexAt(top), this.indexAt(top + this.size.height) + 1];
  }

  /** The names of the lanes in view; each stays in view while its lane is. */
  private drawNames(first: number, last: number, top: number): void {
    const state = `${first} ${last} ${top}`;
    if (state === this.drawnNames) return;
    this.drawnNames = state;
    const rows = [];
    for (let index = first; index < last; index++) {
      const lane = this.shown[index]!;
      const at = this.tops[index]!;
      const height = lane.height();
      const above = this.above(lane);
      const sign = lane.opens ? h("i", { class: lane.open ? "open" : "closed" }) : null;
      const row = h(
        "div",
        {
          class: `lane-name level${lane.level}`,
          style: `top:${at - above}px;height:${above || height}px`,
          title: lane.title,
          attributes: { role: "treeitem", "aria-level": String(lane.level), "aria-expanded": String(lane.open) },
        },
        h(
          "div",
          { style: at < top && height > 36 && !above ? `margin-top:${Math.min(top - at, height - 18)}px` : "" },
          sign,
          name(lane.title, { class: "title" }),
          lane.detail ? h("span", { class: "detail" }, lane.detail) : null,
        ),
      );
      if (lane.opens) row.addEventListener("click", () => this.toggle(lane));
      rows.push(row);
    }
    this.gutter.replaceChildren(...rows);
  }
}
