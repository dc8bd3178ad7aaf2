/** What a chart's page shows and what is selected on it, and how to get from one to the other. */

import { ROW_PX } from "../../shared/flame-lane";
import { exact } from "../../shared/format";
import type { View } from "../../shared/lane-image";
import { LaneTree } from "../../shared/lane-tree";
import type { Lane } from "../../shared/lane-tree";
import type { SpanColumns } from "../../shared/span-columns";
import { GRAINS, Viewport } from "../../shared/viewport";
import { fields } from "./details";
import { flowsOf } from "./flows";
import type { FlowColumns } from "./flows";
import { SpanLane } from "./lanes";
import type { PanelHead, Pens } from "./lanes";
import { nextMatch } from "./matches";

export interface ChartHead {
  title: string;
  subtitle: string;
  notes: string[];
  /** The time of the left edge, in nanoseconds. */
  origin: string;
  width: number;
  frames: string[];
  /** How many spans each row has. */
  rows: number[];
  panels: PanelHead[];
  counters: { title: string; process: string; points: number }[];
  flows: number;
  flowNames: string[];
  /** The path of the trace, for the command. */
  source: string;
  /** The argument whose value labels have. */
  label: string | null;
}

/** How lanes are ordered inside their processes. */
export type Order = "trace" | "name" | "busy";

export interface Range {
  from: number;
  to: number;
}

/** More arrows than this are unreadable. */
const MOST_FLOWS = 100;

export class Session {
  readonly origin: bigint;
  readonly view: Viewport;
  readonly tree: LaneTree;
  /** The lane of each panel. */
  readonly panelLanes: readonly SpanLane[];
  /** The flows that begin or end in the selected span. */
  shownFlows: number[] = [];
  range: Range | null = null;
  span = -1;
  hovered = -1;
  labelField: string | null;
  /** The function that was selected last, in any view. */
  named: string | null = null;
  order: Order = "trace";
  private readonly argumentFields = new Map<number, Map<string, string>>();

  /**
   * @param changed Called when what is in view changes.
   * @param selected Called when another span is selected.
   */
  constructor(
    readonly head: ChartHead,
    readonly columns: SpanColumns,
    readonly flows: FlowColumns,
    readonly lanes: readonly Lane[],
    readonly pens: Pens,
    private readonly changed: () => void,
    private readonly selected: () => void,
  ) {
    this.origin = BigInt(head.origin);
    this.view = new Viewport(BigInt(Math.max(1, head.width)));
    this.labelField = head.label;
    this.tree = new LaneTree(changed);
    const spanLanes = lanes.filter((lane): lane is SpanLane => lane instanceof SpanLane);
    this.panelLanes = head.panels.map((panel) => spanLanes.find((lane) => lane.head === panel)!);
  }

  get window(): View {
    const from = Number(this.view.start) / Number(GRAINS);
    return { from, to: from + Number(this.view.span) / Number(GRAINS) };
  }

  /** The lanes that pass the filter. */
  get spanLanes(): SpanLane[] {
    return this.tree.passing.filter((lane): lane is SpanLane => lane instanceof SpanLane);
  }

  /** The innermost row of a lane with a span at a time. */
  rowAt(lane: SpanLane, time: number): number {
    const { boxes } = this.columns;
    for (let row = lane.flame.depth - 1; row > 0; row--) {
      const box = boxes.firstVisible(lane.firstRow + row, time);
      if (box < boxes.rowStart[lane.firstRow + row + 1]! && boxes.start[box]! <= time) return row;
    }
    return 0;
  }

  /** Shows the flows of the selected span. */
  private findFlows(): void {
    this.shownFlows = [];
    const found = this.span < 0 ? null : this.laneOf(this.span);
    if (!found || !this.flows.count) return;
    const { boxes } = this.columns;
    const panels = new Set<number>();
    this.panelLanes.forEach((lane, panel) => {
      if (lane === found.lane || lane.head.thread === found.lane.head.thread) panels.add(panel);
    });
    const [from, to] = [boxes.start[this.span]!, boxes.end(this.span)];
    this.shownFlows = flowsOf(this.flows, panels, from, to).slice(0, MOST_FLOWS);
  }

  /** The selected range, otherwise what is in view. */
  get asked(): Range {
    const { from, to } = this.window;
    return this.range ?? { from: Math.max(0, from), to: Math.min(this.head.width, to) };
  }

  nameOf(span: number): string {
    return this.columns.names[this.columns.boxes.name[span]!]!;
  }

  argumentsOf(span: number): string | null {
    const code = this.columns.argument?.[span] ?? 0;
    return code ? this.columns.texts[code - 1]! : null;
  }

  /** A span's name and, if one is chosen, the value of an argument. */
  labelOf(span: number): string {
    const name = this.nameOf(span);
    const code = this.columns.argument?.[span] ?? 0;
    if (!code || this.labelField === null) return name;
    let parsed = this.argumentFields.get(code);
    if (!parsed) this.argumentFields.set(code, (parsed = new Map(fields(this.columns.texts[code - 1]!))));
    const value = parsed.get(this.labelField);
    return value === undefined ? name : `${name} · ${value}`;
  }

  /** The lane of a span, and its row in it. */
  laneOf(span: number): { lane: SpanLane; row: number } | null {
    const row = this.columns.boxes.rowOf(span);
    for (const lane of this.lanes) {
      if (lane instanceof SpanLane && lane.rows.first <= row && row < lane.rows.last) {
        return { lane, row: row - lane.firstRow };
      }
    }
    return null;
  }

  /** The span at a point of the lanes, in CSS pixels; -1 without one. */
  hit(x: number, y: number): number {
    const found = this.tree.at(y);
    if (!(found?.lane instanceof SpanLane)) return -1;
    return found.lane.hit(x, found.y, this.window, this.tree.widthPx);
  }

  select(span: number): void {
    this.span = span;
    this.findFlows();
    if (span >= 0) this.named = this.nameOf(span);
    this.selected();
    this.changed();
  }

  /** Makes a span visible: its lane, its row and its time. */
  reveal(span: number): void {
    const found = this.laneOf(span);
    if (!found) return;
    if (found.row >= found.lane.flame.depth) {
      found.lane.open = true;
      this.tree.arrange();
    }
    this.tree.reveal(found.lane, found.row * ROW_PX, ROW_PX);
    const { boxes } = this.columns;
    const { from, to } = this.window;
    const [start, end] = [boxes.start[span]!, boxes.end(span)];
    const perPixel = (to - from) / Math.max(1, this.tree.widthPx);
    if (start < from || end > to || end - start < 3 * perPixel) this.fit(start, end, 4);
    this.changed();
  }

  /** Shows a range, with so many times its length around it. */
  fit(from: number, to: number, around: number): void {
    const margin = ((to - from) * around) / 2;
    this.view.show(BigInt(Math.floor(from - margin)), BigInt(Math.ceil(to + margin)));
    this.changed();
  }

  fitSelection(): void {
    const { boxes } = this.columns;
    if (this.range) this.fit(this.range.from, this.range.to, 0);
    else if (this.span >= 0) this.fit(boxes.start[this.span]!, boxes.end(this.span), 0.1);
  }

  showAll(): void {
    this.view.reset();
    this.changed();
  }

  /** Moves the view so that its middle is at a fraction of the whole. */
  moveTo(middle: number): void {
    const { view } = this;
    const half = view.span / 2n;
    const start = BigInt(Math.round(middle * Number(view.widthNs * GRAINS))) - half;
    view.pan(Number(start - view.start) / Number(view.span));
    this.changed();
  }

  /** Selects the next match, or with -1 the previous; its rank, from 1, or 0 without one. */
  nextMatch(step: 1 | -1): number {
    const { wanted } = this.pens.style;
    if (!wanted) return 0;
    const { box, rank } = nextMatch(this.columns, wanted, this.span, step);
    if (box < 0) return 0;
    this.select(box);
    this.reveal(box);
    return rank;
  }

  /** Goes to the next or the previous span in the row of the selected one, or to its caller or first callee. */
  step(key: string): void {
    const { boxes, parent } = this.columns;
    let to = this.span;
    if (to < 0) {
      const first = this.spanLanes[0];
      to = first ? boxes.firstVisible(first.firstRow, this.window.from) : -1;
      if (to < 0 || to >= boxes.count) return;
    } else {
      const row = boxes.rowOf(to);
      const [low, high] = [boxes.rowStart[row]!, boxes.rowStart[row + 1]! - 1];
      if (key === "ArrowLeft") to = Math.max(low, to - 1);
      else if (key === "ArrowRight") to = Math.min(high, to + 1);
      else if (key === "ArrowUp") to = parent[to]! < 0 ? to : parent[to]!;
      else if (row + 1 < boxes.rows) {
        const below = boxes.firstVisible(row + 1, boxes.start[to]!);
        if (below < boxes.rowStart[row + 2]! && parent[below] === to) to = below;
      }
    }
    this.select(to);
    this.reveal(to);
  }

  /**
   * Makes lanes as high as what is in view needs.
   *
   * @param y The height of the pointer, whose lane stays in place; null if it is elsewhere.
   */
  fitLanes(y: number | null): void {
    const { window, tree } = this;
    const changed = this.panelLanes.filter((lane) => lane.fit(window));
    if (changed.length) tree.arrange((y === null ? null : tree.at(y)?.lane) ?? tree.uppermost);
  }

  /** Orders the lanes; the busiest are those of the range that is asked about now. */
  sortLanes(order: Order): void {
    this.order = order;
    if (order === "trace") return this.tree.ordered(null);
    const { from, to } = this.asked;
    const ranks = new Map<number, { name: string; covered: number }>();
    // lanes of one thread stay together
    for (const lane of this.panelLanes) {
      const { thread } = lane.head;
      if (thread < 0) continue;
      const rank = ranks.get(thread) ?? { name: lane.title, covered: 0 };
      rank.covered = Math.max(rank.covered, lane.covered(from, to));
      ranks.set(thread, rank);
    }
    const rankOf = (lane: Lane) => {
      if (!(lane instanceof SpanLane)) return { name: lane.title, covered: -1 };
      return ranks.get(lane.head.thread) ?? { name: lane.title, covered: lane.covered(from, to) };
    };
    const ranked = new Map(this.lanes.map((lane) => [lane, rankOf(lane)]));
    this.tree.ordered((one, other) => {
      const [a, b] = [ranked.get(one)!, ranked.get(other)!];
      return order === "name" ? a.name.localeCompare(b.name, "en", { numeric: true }) : b.covered - a.covered;
    });
  }

  /** The lane that the keys for lanes are about: the marked one, otherwise that of the selection. */
  get currentLane(): Lane | null {
    return this.tree.current ?? (this.span < 0 ? null : (this.laneOf(this.span)?.lane ?? null));
  }

  clear(): void {
    if (this.range || this.span >= 0) {
      this.range = null;
      this.select(-1);
    } else this.showAll();
  }

  toggleLane(): void {
    const lane = this.currentLane;
    if (lane?.opens) this.tree.toggle(lane);
  }

  /** The command that draws the visible range. */
  get command(): string {
    const { source, width } = this.head;
    const { from, to } = this.asked;
    const time = (ns: number) => exact(this.origin + BigInt(Math.round(ns))).replace(" ", "").replace("μ", "u");
    const range = from <= 0 && to >= width ? "" : ` --from ${time(from)} --to ${time(to)}`;
    const file = /^[\w./-]+$/.test(source) ? source : `'${source.replaceAll("'", "'\\''")}'`;
    return `meantime flame ${file} --chart${range} -o chart.svg`;
  }
}
