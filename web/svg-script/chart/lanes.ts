/** The lanes of a chart: its processes, and the threads and operations inside of them. */

import type { BoxLabels } from "../../shared/box-labels";
import { CounterLane } from "../../shared/counter-lane";
import type { CounterColumns, CounterPens } from "../../shared/counter-lane";
import { FlameLane, ROW_PX } from "../../shared/flame-lane";
import type { FlameStyle } from "../../shared/flame-lane";
import { grouped } from "../../shared/format";
import type { LaneImage, View } from "../../shared/lane-image";
import type { Lane } from "../../shared/lane-tree";
import type { SpanColumns } from "../../shared/span-columns";
import type { ThreadRows } from "../../shared/span-statistics";

export interface PanelHead {
  title: string;
  process: string;
  kind: "spans" | "async" | "instants" | "samples";
  rows: number;
  /** The thread, the same for all lanes of one; -1 for operations. */
  thread: number;
}

const GROUP_PX = 22;
const PADDING_PX = 3;

/** What all lanes draw with. */
export interface Pens {
  style: FlameStyle;
  labels: BoxLabels;
  /** The text of a box's label. */
  text(box: number): string;
  band: number;
  counter: CounterPens;
}

export class GroupLane implements Lane {
  readonly level = 1;
  readonly opens = true;
  open = true;
  detail = "";

  constructor(
    readonly title: string,
    private readonly pens: Pens,
  ) {}

  height(): number {
    return GROUP_PX;
  }

  draw(image: LaneImage, top: number): void {
    const y = Math.round(top * image.ratio);
    image.fill(0, y, image.width, Math.round((top + GROUP_PX) * image.ratio) - y, this.pens.band);
  }
}

export class SpanLane implements Lane {
  readonly level = 2;
  readonly opens: boolean;
  readonly flame: FlameLane;
  private isOpen = true;

  constructor(
    readonly title: string,
    readonly detail: string,
    readonly head: PanelHead,
    private readonly columns: SpanColumns,
    readonly firstRow: number,
    private readonly pens: Pens,
  ) {
    this.flame = new FlameLane(columns.boxes, firstRow, head.rows);
    this.opens = head.rows > 1;
  }

  get open(): boolean {
    return this.isOpen;
  }

  /** A closed lane shows its outermost spans. */
  set open(open: boolean) {
    this.isOpen = open;
    this.flame.depth = open ? this.head.rows : 1;
  }

  height(): number {
    return this.flame.depth * ROW_PX + PADDING_PX;
  }

  /** Makes an open lane as high as what is in view needs; true if that changed. */
  fit(view: View): boolean {
    if (!this.isOpen) return false;
    const { boxes } = this.columns;
    let depth = this.head.rows;
    for (; depth > 1; depth--) {
      const row = this.firstRow + depth - 1;
      const box = boxes.firstVisible(row, view.from);
      if (box < boxes.rowStart[row + 1]! && boxes.start[box]! < view.to) break;
    }
    const changed = depth !== this.flame.depth;
    this.flame.depth = depth;
    return changed;
  }

  draw(image: LaneImage, top: number, view: View): void {
    this.flame.draw(image, top, view, this.pens.style);
  }

  drawOver(context: CanvasRenderingContext2D): void {
    const { style, labels, text } = this.pens;
    this.flame.drawLabels(context, style, (box, roomPx) => labels.fit(text(box), roomPx));
  }

  /** The span at a point in CSS pixels from the lane's left and top; -1 without one. */
  hit(x: number, y: number, view: View, width: number): number {
    return this.flame.hit(x, y, view, width);
  }

  get rows(): { first: number; last: number } {
    return { first: this.firstRow, last: this.firstRow + this.head.rows };
  }

  /** How much of a range the outermost spans cover. */
  covered(from: number, to: number): number {
    return this.columns.boxes.content(this.firstRow, from, to).covered;
  }
}

const NOUNS = { spans: "spans", async: "operations", instants: "instants", samples: "≈ sampled" };

export function makeLanes(
  panels: readonly PanelHead[],
  columns: SpanColumns,
  counters: readonly CounterColumns[],
  pens: Pens,
): Lane[] {
  const groups = new Map<string, { group: GroupLane; lanes: Lane[] }>();
  const groupOf = (process: string) => {
    let entry = groups.get(process);
    if (!entry) groups.set(process, (entry = { group: new GroupLane(process || "No process", pens), lanes: [] }));
    return entry;
  };
  let row = 0;
  for (const head of panels) {
    const { lanes } = groupOf(head.process);
    const prefix = `${head.process} / `;
    const own = head.title.startsWith(prefix) ? head.title.slice(prefix.length) : head.title;
    // titles are elided at their end
    const title = own.replace(/^(.*), (lane \d+)$/, "$2: $1");
    const spans = columns.boxes.rowStart[row + head.rows]! - columns.boxes.rowStart[row]!;
    const made = new SpanLane(title, `${grouped(spans)} ${NOUNS[head.kind]}`, head, columns, row, pens);
    // instants follow the lanes of their thread
    const after = lanes.filter((lane) => lane instanceof SpanLane && lane.head.thread === head.thread).at(-1);
    if (head.kind === "instants" && after) lanes.splice(lanes.indexOf(after) + 1, 0, made);
    else lanes.push(made);
    row += head.rows;
  }
  for (const counter of counters) groupOf(counter.process).lanes.push(new CounterLane(counter, pens.counter));
  const made: Lane[] = [];
  for (const { group, lanes } of groups.values()) {
    group.detail = `${grouped(lanes.length)} ${lanes.length === 1 ? "lane" : "lanes"}`;
    made.push(group, ...lanes);
  }
  return made;
}

/**
 * The rows of the threads of some lanes, those of one thread together. As in `meantime stats`,
 * operations count only where there are no threads.
 */
export function threadsOf(lanes: readonly SpanLane[]): ThreadRows[] {
  const threads = new Map<number, { first: number; last: number }[]>();
  const operations: ThreadRows[] = [];
  for (const { head, rows } of lanes) {
    if (head.kind === "instants") continue;
    if (head.kind === "async") operations.push([rows]);
    else if (threads.has(head.thread)) threads.get(head.thread)!.push(rows);
    else threads.set(head.thread, [rows]);
  }
  return threads.size ? [...threads.values()] : operations;
}
