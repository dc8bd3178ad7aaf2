/** A flame graph that grows downwards: a caller is above the functions that it calls. */

import { BoxLabels, LABEL_FONT } from "./box-labels";
import type { CallTree, Layout } from "./call-tree";
import { leftHeavy } from "./call-tree";
import { h, shown } from "./dom";
import { FlameLane, ROW_PX, Wanted } from "./flame-lane";
import type { FlameStyle } from "./flame-lane";
import { grouped, share } from "./format";
import { flameStyle } from "./flame-style";
import { LaneImage } from "./lane-image";
import { packed } from "./name-colors";
import { themeColor } from "./page";
import { matcher } from "./search";
import { Tooltip } from "./tooltip";

const MOST_ROW_PX = 25;
const CLICK_PX = 4;
/** Between a name and the share and value at the right end of its box. */
const AMOUNT_GAP_PX = 12;
/** Of a comparison: grew, shrank, neither. */
const CHANGE = [[0xe9, 0x5a, 0x4f], [0x4f, 0x8f, 0xe9], [0xe9, 0xe9, 0xe9]] as const;

export interface FlameGraphOptions {
  /** A value with its unit. */
  amount(value: number): string;
  /** What is called when a node is selected; null when none is. */
  selected?(node: number | null): void;
  /** What is called when a node, or null for all, fills the width. */
  zoomed?(node: number | null): void;
}

export interface Found {
  /** How many boxes match. */
  count: number;
  /** The share of the whole that they take; one inside another counts once. */
  share: number;
}

/**
 * The graph of a call tree, in an element that scrolls if it is lower than the graph.
 *
 * Click selects a box, double click or Enter zooms to it; the wheel zooms at the pointer, a drag
 * moves, and arrow keys go from box to box.
 */
export class FlameGraph {
  readonly element = h("div", { class: "flame-graph" });
  private readonly canvas = h("canvas", {
    attributes: { tabindex: "0", role: "application", "aria-label": "Flame graph" },
  });
  private readonly spacer = h("div", { class: "spacer" }, this.canvas);
  private readonly spoken = h("div", { class: "spoken", attributes: { "aria-live": "polite" } });
  private readonly image = new LaneImage(this.canvas);
  private readonly labels = new BoxLabels();
  private tree: CallTree | null = null;
  private layout: Layout | null = null;
  private lane: FlameLane | null = null;
  private from = 0;
  private to = 1;
  private rowPx = ROW_PX;
  private style!: FlameStyle;
  private selectedBox = -1;
  private hovered = -1;
  private zoomedBox = -1;
  private matches: number[] = [];
  /** The boxes of this frame whose share and value are drawn. */
  private readonly withAmounts: number[] = [];
  private match = -1;
  private pending = 0;

  constructor(
    private readonly tooltip: Tooltip,
    private readonly options: FlameGraphOptions,
  ) {
    this.element.append(this.spacer, this.spoken);
    this.element.addEventListener("scroll", () => this.redraw(), { passive: true });
    new ResizeObserver(() => this.resized()).observe(this.element);
    this.listen();
  }

  /** Shows a tree as a whole. */
  show(tree: CallTree): void {
    this.tree = tree;
    this.layout = leftHeavy(tree);
    if (this.style) this.style.wanted = null;
    this.lane = new FlameLane(this.layout.boxes, 0, this.layout.boxes.rows);
    this.selectedBox = this.hovered = this.zoomedBox = this.match = -1;
    this.matches = [];
    this.from = 0;
    this.to = this.layout.width || 1;
    this.recolor();
    this.resized();
  }

  /** Computes the colours again, once the theme has changed. */
  recolor(): void {
    if (!this.tree || !this.layout) return;
    this.style = flameStyle(this.tree.names, this.style);
    if (this.tree.before) {
      this.style.ink = "#14161b";
      this.style.boxColors = Uint32Array.from(this.layout.node, (node) => changeColor(this.change(node)));
    }
    this.redraw();
  }

  /** Highlights the names that match, and returns how many boxes have them; null without a text. */
  search(text: string): Found | null {
    const { tree, layout } = this;
    if (!tree || !layout) return null;
    const matches = matcher(text);
    this.match = -1;
    this.matches = [];
    if (!matches) {
      this.style.wanted = null;
      this.redraw();
      return null;
    }
    const named = Uint8Array.from(tree.names, (each) => Number(matches(each)));
    const isHit = Uint8Array.from(tree.name, (name, node) => named[name]! || Number(hiddenIn(tree, node).some((each) => named[each])));
    this.style.wanted = new Wanted(Uint8Array.from(layout.node, (node) => isHit[node]!));
    const inside = new Uint8Array(tree.parent.length);
    let covered = 0;
    for (let node = 0; node < tree.parent.length; node++) {
      const caller = tree.parent[node]!;
      const within = caller >= 0 && inside[caller] === 1;
      const hit = isHit[node] === 1;
      if (hit && layout.box[node]! >= 0) this.matches.push(node);
      if (hit && !within) covered += tree.value[node]!;
      inside[node] = within || hit ? 1 : 0;
    }
    this.matches.sort((a, b) => tree.value[b]! - tree.value[a]!);
    this.redraw();
    return { count: this.matches.length, share: covered / (layout.width || 1) };
  }

  /** Selects the next match, the widest first, or with -1 the one before; its rank, 1 is the first. */
  next(step: 1 | -1): number {
    if (!this.matches.length) return 0;
    const { length } = this.matches;
    this.match = this.match < 0 ? (step > 0 ? 0 : length - 1) : (this.match + step + length) % length;
    const node = this.matches[this.match]!;
    this.select(node);
    this.reveal(this.layout!.box[node]!);
    return this.match + 1;
  }

  select(node: number | null): void {
    this.selectedBox = node === null ? -1 : this.layout!.box[node]!;
    this.options.selected?.(this.selectedBox < 0 ? null : node);
    if (node !== null) this.spoken.textContent = this.facts(node).join(", ");
    this.redraw();
  }

  get selection(): number | null {
    return this.selectedBox < 0 ? null : this.layout!.node[this.selectedBox]!;
  }

  /** Makes a node fill the width; null shows all. */
  zoom(node: number | null): void {
    this.zoomedBox = node === null ? -1 : this.layout!.box[node]!;
    const { boxes, width } = this.layout!;
    if (this.zoomedBox < 0) this.fit(0, width || 1);
    else this.fit(boxes.start[this.zoomedBox]!, boxes.end(this.zoomedBox));
    this.options.zoomed?.(this.zoomedBox < 0 ? null : node);
  }

  /** Shows `factor` times as much around the middle. */
  scale(factor: number): void {
    this.zoomAt(factor, 0.5);
  }

  /** Moves by a fraction of what is in view. */
  pan(part: number): void {
    const by = Math.max(-this.from, Math.min(this.layout!.width - this.to, (this.to - this.from) * part));
    this.fit(this.from + by, this.to + by);
  }

  /** The part of the whole that is in view. */
  get inView(): number {
    return (this.to - this.from) / (this.layout?.width || 1);
  }

  redraw(): void {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  private fit(from: number, to: number): void {
    this.from = from;
    this.to = to > from ? to : from + 1;
    this.redraw();
  }

  private zoomAt(factor: number, ratio: number): void {
    const { width } = this.layout!;
    const least = Math.min(width, Math.max(1e-6 * width, 1));
    const span = Math.max(least, Math.min(width, (this.to - this.from) * factor));
    const kept = this.from + (this.to - this.from) * ratio;
    const from = Math.max(0, Math.min(width - span, kept - span * ratio));
    this.fit(from, from + span);
    if (span === width && this.zoomedBox >= 0) this.zoom(null);
  }

  private reveal(box: number): void {
    const { boxes } = this.layout!;
    const [start, end] = [boxes.start[box]!, boxes.end(box)];
    if (start < this.from || end > this.to || (end - start) / (this.to - this.from) < 0.02) {
      const around = (end - start) * 2;
      const from = Math.max(0, start - around);
      this.fit(from, Math.min(this.layout!.width, Math.max(end + around, from + 1e-9)));
    }
    const y = boxes.rowOf(box) * this.rowPx;
    if (y < this.element.scrollTop || y + this.rowPx > this.element.scrollTop + this.element.clientHeight) {
      this.element.scrollTop = y - this.element.clientHeight / 2;
    }
  }

  private resized(): void {
    if (!this.layout) return;
    const rows = Math.max(1, this.layout.boxes.rows);
    const high = this.element.clientHeight;
    this.rowPx = Math.max(ROW_PX, Math.min(MOST_ROW_PX, Math.floor(high / rows)));
    this.spacer.style.height = `${Math.max(rows * this.rowPx, high)}px`;
    this.draw();
  }

  private draw(): void {
    const { lane, layout, tree, image } = this;
    if (!lane || !layout || !tree) return;
    const { clientWidth, clientHeight, scrollTop } = this.element;
    if (!clientWidth || !clientHeight) return;
    this.canvas.style.transform = `translateY(${scrollTop}px)`;
    this.canvas.style.height = `${clientHeight}px`;
    image.begin(clientWidth, clientHeight, this.style.background);
    const view = { from: this.from, to: this.to };
    lane.draw(image, -scrollTop, view, this.style, this.rowPx);
    image.put();
    const { context } = image;
    context.font = LABEL_FONT;
    context.textBaseline = "middle";
    lane.drawLabels(context, this.style, (box, roomPx) => this.label(box, roomPx));
    this.drawAmounts(context, -scrollTop);
    this.outline(this.hovered, themeColor("--faint"), 1);
    this.outline(this.selectedBox, themeColor("--accent"), 2);
  }

  /** As much of the name as fits beside the share and the value, if these are drawn. */
  private label(box: number, roomPx: number): string {
    const name = shown(this.tree!.names[this.layout!.boxes.name[box]!]!);
    const amount = this.amountWidth(box);
    const left = roomPx - amount - AMOUNT_GAP_PX;
    if (left > 0 && this.labels.fit(name, left) === name) this.withAmounts.push(box);
    return this.labels.fit(name, roomPx);
  }

  private amountText(box: number): string {
    const value = this.layout!.boxes.length[box]!;
    return `${share(value / this.layout!.width)}  ${this.options.amount(value)}`;
  }

  private amountWidth(box: number): number {
    return this.image.context.measureText(this.amountText(box)).width;
  }

  /** Draws the share and the value at the right end of boxes that have room for them. */
  private drawAmounts(context: CanvasRenderingContext2D, top: number): void {
    const { boxes } = this.layout!;
    const scale = this.element.clientWidth / (this.to - this.from);
    context.textAlign = "right";
    context.globalAlpha = 0.72;
    context.fillStyle = this.style.ink;
    for (const box of this.withAmounts) {
      const right = Math.min(this.element.clientWidth, (boxes.start[box]! + boxes.length[box]! - this.from) * scale);
      context.fillText(this.amountText(box), right - AMOUNT_GAP_PX / 2, top + (boxes.rowOf(box) + 0.5) * this.rowPx);
    }
    context.globalAlpha = 1;
    context.textAlign = "left";
    this.withAmounts.length = 0;
  }

  private outline(box: number, color: string, width: number): void {
    if (box < 0) return;
    const { boxes } = this.layout!;
    const { context } = this.image;
    const scale = this.element.clientWidth / (this.to - this.from);
    const left = (boxes.start[box]! - this.from) * scale;
    const right = left + boxes.length[box]! * scale;
    if (right < 0 || left > this.element.clientWidth) return;
    const x = Math.max(-2, left);
    const wide = Math.max(2, Math.min(this.element.clientWidth + 2, right) - x);
    const y = boxes.rowOf(box) * this.rowPx - this.element.scrollTop;
    context.strokeStyle = color;
    context.lineWidth = width;
    context.strokeRect(x + width / 2, y + width / 2, wide - width, this.rowPx - 1 - width);
  }

  private hit(event: MouseEvent): number {
    const area = this.element.getBoundingClientRect();
    const y = event.clientY - area.top + this.element.scrollTop;
    const view = { from: this.from, to: this.to };
    return this.lane?.hit(event.clientX - area.left, y, view, this.element.clientWidth) ?? -1;
  }

  /** By how much the share of a node grew, -1 to 1. */
  private change(node: number): number {
    const { tree, layout } = this;
    const before = tree!.before![node]!;
    const all = totalBefore(tree!);
    return (tree!.value[node]! - before) / Math.max(1, layout!.width - all) - before / Math.max(1, all);
  }

  /** The name of the function of a node. */
  nameOf(node: number): string {
    const { name, names, folds } = this.tree!;
    return names[folds ? folds.plain(name[node]!) : name[node]!]!;
  }

  /** What a node took: its name, then facts. */
  facts(node: number): [name: string, ...facts: string[]] {
    const { tree, layout, options } = this;
    const { name, value, own, count, before, names } = tree!;
    const whole = value[node]!;
    const title = shown(names[name[node]!]!);
    const calls = `${grouped(count[node]!)} times`;
    if (before) {
      const after = whole - before[node]!;
      const only = before[node] === 0 ? ", new" : after === 0 ? ", gone" : "";
      const grown = this.change(node) * 100;
      const points = `${grown < 0 ? "" : "+"}${grown.toFixed(2)} points of share`;
      return [title, `${options.amount(after)}, against ${options.amount(before[node]!)}${only} (${points})`, calls];
    }
    const part = `${options.amount(whole)} (${share(whole / layout!.width)})`;
    const hidden = hiddenIn(tree!, node).length;
    if (hidden) return [title, part, `in it and ${hidden === 1 ? "a function" : `${grouped(hidden)} functions`} of libraries ${options.amount(own[node]!)}`, calls];
    return [title, part, `itself ${options.amount(own[node]!)}`, calls];
  }

  private describe(box: number): Node[] {
    const [name, ...facts] = this.facts(this.layout!.node[box]!);
    return [h("strong", {}, name), ...facts.map((fact) => h("p", {}, fact))];
  }

  private listen(): void {
    let pressed: { x: number; y: number; from: number; top: number; moved: boolean } | null = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pressed = { x: event.clientX, y: event.clientY, from: this.from, top: this.element.scrollTop, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (pressed) {
        const by = event.clientX - pressed.x;
        pressed.moved ||= Math.hypot(by, event.clientY - pressed.y) > CLICK_PX;
        if (!pressed.moved) return;
        this.tooltip.hide();
        const span = this.to - this.from;
        const from = pressed.from - (by / this.element.clientWidth) * span;
        const clamped = Math.max(0, Math.min(this.layout!.width - span, from));
        if (event.pointerType !== "touch") this.element.scrollTop = pressed.top - (event.clientY - pressed.y);
        this.fit(clamped, clamped + span);
        return;
      }
      if (event.pointerType === "touch") return;
      const box = this.hit(event);
      if (box !== this.hovered) {
        this.hovered = box;
        this.redraw();
      }
      if (box < 0) this.tooltip.hide();
      else this.tooltip.show(event.clientX, event.clientY, this.describe(box));
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const clicked = pressed && !pressed.moved;
      pressed = null;
      if (!clicked) return;
      const box = this.hit(event);
      this.select(box < 0 ? null : this.layout!.node[box]!);
    });
    this.canvas.addEventListener("pointercancel", () => (pressed = null));
    this.canvas.addEventListener("dblclick", (event) => {
      const box = this.hit(event);
      if (box >= 0) this.zoom(this.layout!.node[box]!);
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.tooltip.hide();
      this.hovered = -1;
      this.redraw();
    });
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!this.layout || event.shiftKey) return;
        event.preventDefault();
        this.tooltip.hide();
        if (event.ctrlKey && Math.abs(event.deltaY) > 40) this.element.scrollTop += event.deltaY;
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.element.clientWidth);
        else {
          const area = this.element.getBoundingClientRect();
          const power = Math.max(-0.7, Math.min(0.7, event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)));
          this.zoomAt(Math.exp(power), (event.clientX - area.left) / area.width);
        }
      },
      { passive: false },
    );
    this.canvas.addEventListener("keydown", (event) => {
      const node = this.selection;
      if (event.key === "Enter" && node !== null) this.zoom(node);
      else if (event.key.startsWith("Arrow") && !event.shiftKey) this.step(event.key);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Goes from the selected box to the one beside, above or below it. */
  private step(key: string): void {
    const { tree, layout } = this;
    if (!tree || !layout || !layout.boxes.count) return;
    const box = this.selectedBox;
    let to = 0;
    if (box >= 0) {
      const { boxes, node } = layout;
      const row = boxes.rowOf(box);
      if (key === "ArrowLeft") to = Math.max(boxes.rowStart[row]!, box - 1);
      else if (key === "ArrowRight") to = Math.min(boxes.rowStart[row + 1]! - 1, box + 1);
      else if (key === "ArrowUp") to = Math.max(0, layout.box[Math.max(0, tree.parent[node[box]!]!)]!);
      else {
        const below = row + 1 < boxes.rows ? boxes.firstVisible(row + 1, boxes.start[box]!) : box;
        to = row + 1 < boxes.rows && below < boxes.rowStart[row + 2]! ? below : box;
        if (to !== box && tree.parent[node[to]!] !== node[box]) to = box;
      }
      if (key === "ArrowUp" && tree.parent[node[box]!]! < 0) to = box;
    }
    this.select(layout.node[to]!);
    this.reveal(to);
  }
}

/** The names that are folded into a node. */
function hiddenIn(tree: CallTree, node: number): number[] {
  return [...(tree.folds?.hidden.get(node) ?? [])];
}

const sums = new WeakMap<CallTree, number>();

/** The sum of the outermost from before. */
function totalBefore(tree: CallTree): number {
  let sum = sums.get(tree);
  if (sum === undefined) {
    sum = 0;
    for (let node = 0; node < tree.parent.length; node++) if (tree.parent[node]! < 0) sum += tree.before![node]!;
    sums.set(tree, sum);
  }
  return sum;
}

function changeColor(change: number): number {
  // most changes are small: the square root makes them visible
  const far = Math.sqrt(Math.min(1, Math.abs(change)));
  const end = change > 0 ? CHANGE[0] : CHANGE[1];
  const [red, green, blue] = CHANGE[2].map((part, index) => Math.round(part + (end[index]! - part) * far));
  return packed([red!, green!, blue!]);
}
