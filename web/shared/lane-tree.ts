/** Lanes below each other: their names at the left, what they draw at the right, in one image. */

import { button, h, name } from "./dom";
import { LABEL_FONT } from "./box-labels";
import { elide, measureIn } from "./fit";
import { icon } from "./icon";
import { LaneImage } from "./lane-image";
import type { View } from "./lane-image";
import { LaneQuads } from "./lane-quads";

export interface Lane {
  readonly title: string;
  /** What is shown in faint behind the title. */
  readonly detail: string;
  /** A second line below the title. */
  readonly sub?: string;
  /** A word of warning beside the title. */
  readonly badge?: string;
  /** 1 for the outermost; a lane contains those of higher levels that follow it. */
  readonly level: number;
  /** Whether it is drawn as a heading: it then can neither be pinned nor marked by the keys. Level 1 always is. */
  readonly heads?: boolean;
  /** Whether lanes inside of it may not have been given, as it was never open. */
  readonly holdsMore?: boolean;
  /** Whether it becomes higher where there is room, by the factor `stretch`. */
  readonly stretches?: boolean;
  stretch?: number;
  /** Whether it can be closed and opened. */
  readonly opens: boolean;
  open: boolean;
  /** The height in CSS pixels. */
  height(): number;
  /** Writes pixels; `top` is in CSS pixels. */
  draw(image: LaneImage, top: number, view: View): void;
  /** Whether it writes each of its pixels, so that they need not be cleared. */
  readonly covers?: boolean;
  /** Draws above the pixels of all lanes. */
  drawOver?(context: CanvasRenderingContext2D, top: number, view: View, width: number): void;
}

export interface Hit {
  lane: Lane;
  /** In CSS pixels from the top of the lane. */
  y: number;
}

const GAP_PX = 3;
/** Lanes become at most this much higher. */
const MOST_STRETCH = 2.4;
/** Pinned lanes stay in view up to this part of the height; higher ones are scrolled with the others. */
const MOST_PINNED = 0.6;
/** In a narrow window a name has no room at the left, and is above its lane. */
const NAME_PX = 18;
const DRAG_PX = 5;
const NARROW = matchMedia("(max-width: 720px)");

export class LaneTree {
  readonly element: HTMLElement;
  readonly canvas = h("canvas", {
    attributes: { tabindex: "0", role: "application", "aria-label": "Lanes over time" },
  });
  readonly gutter = h("div", { class: "lane-names", attributes: { role: "tree", "aria-label": "Lanes", tabindex: "0" } });
  private readonly spacer = h("div", { class: "lane-space" });
  private readonly image = new LaneImage(this.canvas, true);
  private readonly canvases = [this.canvas];
  private isFirst = true;
  private lanes: Lane[] = [];
  private shown: Lane[] = [];
  /** The lane that contains each, and those that each contains. */
  private readonly parents = new Map<Lane, Lane>();
  private readonly children = new Map<Lane | null, Lane[]>();
  private tops: number[] = [];
  private readonly indices = new Map<Lane, number>();
  private bottom = 0;
  private filter: ((lane: Lane) => boolean) | null = null;
  private readonly pins = new Set<Lane>();
  private readonly hidden = new Set<Lane>();
  /** How lanes are ordered inside their groups; null for the order in which they were given. */
  private order: ((one: Lane, other: Lane) => number) | null = null;
  /** Lanes that were moved, each before another one of its group, or to the end. */
  private byHand: [lane: Lane, before: Lane | null][] = [];
  /** How many of the shown lanes stay at the top, and how high they are. */
  private sticky = 0;
  private stickyPx = 0;
  private marked: Lane | null = null;
  /** The lane of what is selected, from which the keys go on. */
  private chosen: Lane | null = null;
  private drawnNames = "";
  private drawnPixels = "";
  /** Sizes in CSS pixels, kept as reading them makes the browser lay the page out. */
  private size = { width: 0, height: 0 };
  private top = 0;

  /** @param changed Called when a lane was opened or closed, or the lanes were scrolled. */
  constructor(private readonly changed: () => void) {
    this.element = h("div", { class: "lane-tree" }, this.spacer);
    this.spacer.append(this.gutter, ...this.canvases);
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    NARROW.addEventListener("change", () => this.arrange());
    this.listenToDrags();
    const sizes = new ResizeObserver(() => {
      const size = { width: this.canvas.clientWidth, height: this.element.clientHeight };
      if (size.width === this.size.width && size.height === this.size.height) return;
      this.size = size;
      // what is above and below has the same time at the same place
      document.documentElement.style.setProperty("--scrollbar", `${this.element.offsetWidth - this.element.clientWidth}px`);
      for (const canvas of this.canvases) canvas.style.height = `${this.size.height}px`;
      // on paper, the lanes are as high as the picture of them
      this.element.style.setProperty("--drawn-height", `${this.size.height}px`);
      // how much may be pinned depends on the height
      this.arrange();
    });
    sizes.observe(this.element);
    // the gutter can be wider
    sizes.observe(this.canvas);
  }

  /** Lets a GPU draw the pixels, if there is one. */
  private useQuads(): void {
    const canvas = h("canvas", { attributes: { "aria-hidden": "true" } });
    const redraw = () => {
      this.invalidate();
      this.changed();
    };
    this.image.below = LaneQuads.of(canvas, redraw);
    if (!this.image.below) return;
    canvas.style.height = this.canvas.style.height;
    this.canvases.push(canvas);
    this.canvas.before(canvas);
    redraw();
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
    this.parents.clear();
    this.children.clear();
    const open: Lane[] = [];
    for (const lane of lanes) {
      while (open.length && open.at(-1)!.level >= lane.level) open.pop();
      const parent = open.at(-1) ?? null;
      if (parent) this.parents.set(lane, parent);
      const siblings = this.children.get(parent);
      if (siblings) siblings.push(lane);
      else this.children.set(parent, [lane]);
      open.push(lane);
    }
    this.arrange();
  }

  /** The lane that contains another; null if it is an outermost one. */
  parentOf(lane: Lane): Lane | null {
    return this.parents.get(lane) ?? null;
  }

  /** The lanes that a lane contains. */
  childrenOf(lane: Lane): readonly Lane[] {
    return this.children.get(lane) ?? [];
  }

  /** Shows only the lanes that pass, with null all; a group is shown while one of its lanes is. */
  filtered(passes: ((lane: Lane) => boolean) | null): void {
    this.filter = passes;
    this.arrange();
  }

  get visible(): readonly Lane[] {
    return this.shown;
  }

  /** All lanes that pass the filter, closed groups included. */
  get passing(): Lane[] {
    return this.lanes.filter((lane) => !heads(lane) && this.passes(lane));
  }

  /** How many lanes are hidden. */
  get hiddenCount(): number {
    return this.hidden.size;
  }

  /** The lane that the keys for lanes are about. */
  get current(): Lane | null {
    return this.marked && this.shown.includes(this.marked) ? this.marked : null;
  }

  set current(lane: Lane | null) {
    this.marked = lane;
    this.drawnNames = "";
    this.changed();
  }

  /** Takes the lane of what is selected. */
  choose(lane: Lane | null): void {
    if (lane === this.chosen) return;
    this.chosen = lane;
    this.drawnNames = "";
  }

  /** The pinned and the hidden lanes, as indices of the lanes that were given. */
  get marks(): { pins: number[]; hidden: number[] } {
    const indices = (of: Set<Lane>) => this.lanes.flatMap((lane, index) => (of.has(lane) ? [index] : []));
    return { pins: indices(this.pins), hidden: indices(this.hidden) };
  }

  set marks({ pins, hidden }: { pins: number[]; hidden: number[] }) {
    const mark = (indices: number[], of: Set<Lane>) => {
      of.clear();
      for (const index of indices) if (this.lanes[index] && !heads(this.lanes[index])) of.add(this.lanes[index]!);
    };
    mark(pins, this.pins);
    mark(hidden, this.hidden);
    this.arrange();
  }

  isPinned(lane: Lane): boolean {
    return this.pins.has(lane);
  }

  /** Keeps a lane at the top, or no longer. */
  pin(lane: Lane): void {
    if (heads(lane)) return;
    if (!this.pins.delete(lane)) this.pins.add(lane);
    this.arrange();
  }

  /** Hides a lane, and goes on to the next one. */
  hide(lane: Lane): void {
    if (lane.level === 1) return;
    if (this.marked === lane) this.marked = this.besides(lane, 1) ?? this.besides(lane, -1);
    this.hidden.add(lane);
    this.arrange();
  }

  showHidden(): void {
    this.hidden.clear();
    this.arrange();
  }

  /** Orders lanes inside their groups; null is the order in which they were given. */
  ordered(order: ((one: Lane, other: Lane) => number) | null): void {
    this.order = order;
    this.arrange();
  }

  get moves(): readonly [lane: Lane, before: Lane | null][] {
    return this.byHand;
  }

  set moves(moves: [lane: Lane, before: Lane | null][]) {
    if (!moves.length && !this.byHand.length) return;
    this.byHand = moves;
    this.arrange();
  }

  /** Moves a lane before another one of its group, or to the end of it. */
  move(lane: Lane, before: Lane | null): void {
    if (lane === before) return;
    this.byHand = [...this.byHand.filter(([each]) => each !== lane), [lane, before]];
    this.arrange(lane);
  }

  /** Moves a lane up or down among those of its group that are shown. */
  shift(lane: Lane, by: 1 | -1): void {
    const parent = this.parentOf(lane);
    const siblings = this.shown.filter((each) => this.parentOf(each) === parent && !this.pins.has(each));
    const at = siblings.indexOf(lane);
    if (at < 0 || !siblings[at + by]) return;
    this.move(lane, by < 0 ? siblings[at - 1]! : (siblings[at + 2] ?? null));
    this.reveal(lane, 0, Math.min(lane.height(), this.size.height / 2));
  }

  /** Marks the next lane, with -1 the previous one, or the first or last of all. */
  step(by: 1 | -1 | "first" | "last"): void {
    const from = by === "first" || by === "last" ? null : this.current;
    const lanes = this.shown.filter((lane) => lane.level > 1);
    const to = from ? this.besides(from, by === 1 ? 1 : -1) : lanes.at(by === 1 || by === "first" ? 0 : -1);
    if (!to) return;
    this.current = to;
    this.reveal(to, 0, Math.min(to.height(), this.size.height / 2));
  }

  private besides(lane: Lane, by: 1 | -1): Lane | null {
    const lanes = this.shown.filter((each) => each.level > 1);
    return lanes[lanes.indexOf(lane) + by] ?? null;
  }

  private passes(lane: Lane): boolean {
    return !this.hidden.has(lane) && (this.filter?.(lane) ?? true);
  }

  get widthPx(): number {
    return this.size.width;
  }

  get heightPx(): number {
    return this.size.height;
  }

  /** Lays the lanes out again; a lane that is given keeps its place in the window. */
  arrange(anchor: Lane | null = null): void {
    const before = anchor && !this.pins.has(anchor) ? this.topOf(anchor) : null;
    this.shown = this.lanes.filter((lane) => this.pins.has(lane) && this.passes(lane));
    const pinned = this.shown.length;
    this.place(null);
    this.stretchLanes();
    this.tops = [];
    this.indices.clear();
    this.sticky = this.stickyPx = 0;
    let top = 0;
    for (const [index, lane] of this.shown.entries()) {
      top += this.above(lane);
      this.tops.push(top);
      this.indices.set(lane, index);
      top += lane.height() + GAP_PX;
      if (index + 1 === pinned && top <= MOST_PINNED * this.size.height) [this.sticky, this.stickyPx] = [pinned, top];
    }
    this.bottom = top;
    this.spacer.style.height = `${Math.max(this.bottom, this.size.height)}px`;
    this.drawnNames = this.drawnPixels = "";
    const after = anchor && before !== null ? this.topOf(anchor) : null;
    if (before !== null && after !== null && after !== before) this.scrollBy(after - before);
    this.changed();
  }

  /** Adds the lanes inside of another that are shown; returns whether there are any, open or not. */
  private place(parent: Lane | null): boolean {
    const lanes = this.children.get(parent) ?? [];
    const ordered = this.moved(parent, this.order && parent ? [...lanes].sort(this.order) : lanes);
    let any = false;
    for (const lane of ordered) {
      if (!this.children.has(lane)) {
        if ((heads(lane) && (!lane.holdsMore || this.filter)) || !this.passes(lane)) continue;
        any = true;
        if (!this.pins.has(lane)) this.shown.push(lane);
        continue;
      }
      if (this.hidden.has(lane)) continue;
      const at = this.shown.push(lane) - 1;
      const inside = this.place(lane);
      const alone = this.shown.length === at + 1;
      any ||= inside;
      if (!inside || alone) this.shown.length = at;
      else if (!lane.open) this.shown.length = at + 1;
    }
    return any;
  }

  /** Siblings with those that were moved by hand in their places. */
  private moved(parent: Lane | null, lanes: readonly Lane[]): readonly Lane[] {
    const moves = this.byHand.filter(([lane]) => (this.parents.get(lane) ?? null) === parent);
    if (!moves.length) return lanes;
    const found = [...lanes];
    for (const [lane, before] of moves) {
      found.splice(found.indexOf(lane), 1);
      const at = before ? found.indexOf(before) : -1;
      found.splice(at < 0 ? found.length : at, 0, lane);
    }
    return found;
  }

  /** Makes lanes higher where there is room below the last one. */
  private stretchLanes(): void {
    let natural = 0;
    let stretchable = 0;
    for (const lane of this.shown) if (lane.stretches) lane.stretch = 1;
    for (const lane of this.shown) {
      const height = lane.height();
      natural += height + GAP_PX + this.above(lane);
      if (lane.stretches) stretchable += height;
      if (natural > this.size.height) return;
    }
    if (!stretchable) return;
    const stretch = Math.min(MOST_STRETCH, 1 + (this.size.height - natural) / stretchable);
    for (const lane of this.shown) if (lane.stretches) lane.stretch = stretch;
  }

  /** Clears what lanes in view do not draw: a large image takes long to write twice. */
  private clear(first: number, last: number, top: number): void {
    const { image } = this;
    let done = 0;
    for (let index = first; index < last; index++) {
      const lane = this.shown[index]!;
      if (!lane.covers) continue;
      const y = this.tops[index]! - top;
      image.clear(done, Math.round(y * image.ratio));
      done = Math.round((y + lane.height()) * image.ratio);
    }
    image.clear(done, image.height);
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
      for (const canvas of this.canvases) canvas.style.transform = `translateY(${top}px)`;
      image.prepare(width, height, background, grid, line);
      this.clear(first, last, top);
      for (let index = first; index < last; index++) this.shown[index]!.draw(image, this.tops[index]! - top, view);
      this.drawPinned(view, background, grid, line);
    }
    image.put();
    // making its context takes as long as a frame or more: not before the first one
    if (this.isFirst) (globalThis.requestIdleCallback ?? setTimeout)(() => this.useQuads());
    this.isFirst = false;
    image.context.font = LABEL_FONT;
    image.context.textBaseline = "middle";
    for (let index = first; index < last; index++) {
      this.shown[index]!.drawOver?.(image.context, this.tops[index]! - top, view, width);
    }
    // not by a clip, which Chromium may also apply to the image that was put before
    if (this.sticky) image.uncover(Math.round(this.stickyPx * image.ratio));
    for (let index = 0; index < this.sticky; index++) {
      this.shown[index]!.drawOver?.(image.context, this.tops[index]!, view, width);
    }
    this.drawNames(first, last, top);
  }

  /** Draws the lanes that stay at the top over what was scrolled below them. */
  private drawPinned(view: View, background: number, grid: readonly number[], line: number): void {
    const { image } = this;
    const height = Math.round(this.stickyPx * image.ratio);
    if (!height) return;
    image.fill(0, 0, image.width, height, background);
    for (const x of grid) image.fill(Math.round(x * image.ratio), 0, 1, height, line);
    for (let index = 0; index < this.sticky; index++) this.shown[index]!.draw(image, this.tops[index]!, view);
    image.fill(0, height - 1, image.width, 1, line);
  }

  get context(): CanvasRenderingContext2D {
    return this.image.context;
  }

  /** What is seen of the lanes. */
  get picture(): HTMLCanvasElement {
    return this.image.picture;
  }

  /** The lane at a height in CSS pixels from the top of the canvas. */
  at(y: number): Hit | null {
    const at = y < this.stickyPx ? y : y + this.top;
    const index = this.indexAt(at);
    const lane = this.shown[index];
    const below = at - (this.tops[index] ?? 0);
    return lane && below < lane.height() ? { lane, y: below } : null;
  }

  /** The lane at the top of the window. */
  get uppermost(): Lane | null {
    return this.shown[this.indexAt(this.top + this.stickyPx)] ?? null;
  }

  /** The top of a lane in CSS pixels from the top of the canvas; null if it is not shown. */
  topOf(lane: Lane): number | null {
    const index = this.indices.get(lane);
    if (index === undefined) return null;
    return this.tops[index]! - (index < this.sticky ? 0 : this.top);
  }

  scrollBy(px: number): void {
    this.element.scrollTop += px;
    this.scrolled();
  }

  /** Scrolls until a height of a lane is in view. */
  reveal(lane: Lane, y: number, height: number): void {
    let isShut = this.hidden.delete(lane);
    for (let group = this.parentOf(lane); group; group = this.parentOf(group)) {
      if (group.open) continue;
      isShut = group.open = true;
      this.toggled(group);
    }
    if (isShut) this.arrange();
    const top = this.topOf(lane);
    if (top === null) return;
    if (this.indices.get(lane)! < this.sticky) return;
    if (top + y < this.stickyPx || top + y + height > this.size.height) {
      this.scrollBy(top + y - this.size.height / 2);
    }
  }

  /** Scrolls until a lane is at the top. */
  showAtTop(lane: Lane): void {
    const top = this.topOf(lane);
    if (top !== null) this.scrollBy(top - this.stickyPx);
  }

  /** Called when a lane was opened or closed. */
  toggled: (lane: Lane) => void = () => {};

  toggle(lane: Lane): void {
    lane.open = !lane.open;
    this.toggled(lane);
    this.arrange(lane);
  }

  /** A name that is dragged moves its lane among those of its group. */
  private listenToDrags(): void {
    const { gutter } = this;
    const line = h("div", { class: "lane-drop" });
    let dragged: { lane: Lane; y: number; isMoving: boolean } | null = null;
    let before: Lane | null = null;
    const laneAt = (y: number) => this.at(y)?.lane ?? null;
    const end = () => {
      line.remove();
      gutter.classList.remove("dragging");
      dragged = null;
    };
    const placeOf = (event: PointerEvent) => event.clientY - this.canvas.getBoundingClientRect().top;
    gutter.addEventListener("pointerdown", (event) => {
      const lane = event.button === 0 && event.pointerType === "mouse" && !(event.target as Element).closest("button") ? laneAt(placeOf(event)) : null;
      dragged = lane && lane.level > 1 && !this.pins.has(lane) ? { lane, y: event.clientY, isMoving: false } : null;
    });
    gutter.addEventListener("pointermove", (event) => {
      if (!dragged || (!dragged.isMoving && Math.abs(event.clientY - dragged.y) < DRAG_PX)) return;
      if (!dragged.isMoving) {
        dragged.isMoving = true;
        gutter.setPointerCapture(event.pointerId);
        gutter.classList.add("dragging");
        this.spacer.append(line);
      }
      const y = placeOf(event);
      const parent = this.parentOf(dragged.lane);
      const siblings = this.shown.filter((each) => this.parentOf(each) === parent && !this.pins.has(each));
      before = siblings.find((each) => y < this.topOf(each)! + Math.min(each.height(), NAME_PX) / 2) ?? null;
      const last = siblings.at(-1)!;
      const at = before ? this.topOf(before)! : this.topOf(last)! + last.height();
      line.style.top = `${at + this.top - 2}px`;
    });
    gutter.addEventListener("pointerup", () => {
      if (dragged?.isMoving) {
        this.move(dragged.lane, before);
        // the click that follows does not open it
        gutter.addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
        setTimeout(() => gutter.dispatchEvent(new Event("click")));
      }
      end();
    });
    gutter.addEventListener("pointercancel", end);
  }

  /** The room for a lane's name above it; an open group is nothing but its name. */
  private above(lane: Lane): number {
    return NARROW.matches && lane.level > 1 && !(heads(lane) && lane.open) ? NAME_PX : 0;
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
    const first = Math.max(this.sticky, this.indexAt(top + this.stickyPx));
    return [first, this.indexAt(top + this.size.height) + 1];
  }

  private tools(lane: Lane): HTMLElement {
    const isPinned = this.pins.has(lane);
    const pin = button(icon("pin"), isPinned ? "Do not keep at the top (.)" : "Keep at the top (.)", () => this.pin(lane), { class: "bare" });
    pin.setAttribute("aria-pressed", String(isPinned));
    const hide = button(icon("hide"), "Hide (h)", () => this.hide(lane), { class: "bare" });
    const made = h("span", { class: "lane-tools" }, pin, hide);
    // the name itself opens and closes the lane
    made.addEventListener("click", (event) => event.stopPropagation());
    return made;
  }

  /** Shows names that have no room without their middle, as siblings differ at the end; what is read aloud and copied is all of it. */
  private cutNames(): void {
    const titles = [...this.gutter.querySelectorAll<HTMLElement>(".title")].filter((each) => each.scrollWidth > each.clientWidth);
    const rooms = titles.map((each) => each.clientWidth);
    const fonts = titles.map((each) => {
      const { fontWeight, fontSize, fontFamily } = getComputedStyle(each);
      return `${fontWeight} ${fontSize} ${fontFamily}`;
    });
    titles.forEach((each, at) => {
      each.dataset.cut = elide(each.textContent!, rooms[at]!, measureIn(fonts[at]!));
    });
  }

  /** The names of the lanes in view; each stays in view while its lane is. */
  private drawNames(first: number, last: number, top: number): void {
    // a second line may follow from what was drawn
    const state = `${first} ${last} ${top} ${this.shown.slice(first, last).map(({ sub }) => sub ?? "").join()}`;
    if (state === this.drawnNames) return;
    this.drawnNames = state;
    const rows = [];
    const seen = top + this.stickyPx;
    const indices = Array.from({ length: this.sticky }, (_, index) => index);
    for (let index = first; index < last; index++) indices.push(index);
    for (const index of indices) {
      const lane = this.shown[index]!;
      const isSticky = index < this.sticky;
      const at = this.tops[index]! + (isSticky ? top : 0);
      const height = lane.height();
      const above = this.above(lane);
      const sign = lane.opens ? h("i", { class: lane.open ? "open" : "closed" }) : null;
      const row = h(
        "div",
        {
          id: `lane-${index}`,
          class: `lane-name level${lane.level}${heads(lane) ? " heads" : ""}${isSticky ? " sticky" : ""}${lane === this.marked ? " current" : ""}`,
          style: `top:${at - above}px;height:${above || height}px`,
          title: lane.title,
          attributes: { role: "treeitem", "aria-label": [lane.title, lane.badge, lane.detail, lane.sub].filter(Boolean).join(" "), "aria-level": String(lane.level), ...(lane.opens ? { "aria-expanded": String(lane.open) } : {}), "aria-selected": String(lane === this.marked) },
        },
        h(
          "div",
          { style: height < NAME_PX && !above ? `height:${height}px;line-height:${height}px` : !isSticky && at < seen && height > 36 && !above ? `margin-top:${Math.min(seen - at, height - 18)}px` : "" },
          sign,
          name(lane.title, { class: "title" }),
          " ",
          lane.badge ? h("span", { class: "badge" }, lane.badge) : null,
          " ",
          lane.detail ? h("span", { class: "detail" }, name(lane.detail)) : null,
          heads(lane) ? null : this.tools(lane),
        ),
        " ",
        lane.sub && height >= 34 && !above ? name(lane.sub, { class: "sub" }) : null,
      );
      row.addEventListener("click", () => {
        if (lane.opens) this.toggle(lane);
        if (!heads(lane)) this.current = lane;
      });
      rows.push(row);
    }
    this.gutter.replaceChildren(...rows);
    this.cutNames();
    const active = this.marked ?? this.chosen;
    const marked = active ? this.indices.get(active) : undefined;
    if (marked === undefined) this.gutter.removeAttribute("aria-activedescendant");
    else this.gutter.setAttribute("aria-activedescendant", `lane-${marked}`);
  }
}

/** Whether a lane is the heading of others, and nothing by itself. */
function heads(lane: Lane): boolean {
  return lane.heads ?? lane.level === 1;
}
