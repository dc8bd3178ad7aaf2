/** The lanes of a chart: its processes, and the threads and operations inside of them. */

import type { BoxLabels } from "../../shared/box-labels";
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
  kind: "spans" | "async" | "samples";
  rows: number;
  /** The thread, the same for all lanes of one; -1 if it is none. */
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

export function makeLanes(panels: readonly PanelHead[], columns: SpanColumns, pens: Pens): Lane[] {
  const groups = new Map<string, { group: GroupLane; lanes: SpanLane[] }>();
  let row = 0;
  for (const head of panels) {
    let entry = groups.get(head.process);
    if (!entry) {
      entry = { group: new GroupLane(head.process || "No process", pens), lanes: [] };
      groups.set(head.process, entry);
    }
    const prefix = `${head.process} / `;
    const title = head.title.startsWith(prefix) ? head.title.slice(prefix.length) : head.title;
    const spans = columns.boxes.rowStart[row + head.rows]! - columns.boxes.rowStart[row]!;
    const noun = head.kind === "samples" ? "≈ sampled" : head.kind === "async" ? "operations" : "spans";
    entry.lanes.push(new SpanLane(title, `${grouped(spans)} ${noun}`, head, columns, row, pens));
    row += head.rows;
  }
  const made: Lane[] = [];
  for (const { group, lanes } of groups.values()) {
    group.detail = `${grouped(lanes.length)} ${lanes.length === 1 ? "lane" : "lanes"}`;
    made.push(group, ...lanes);
  }
  return made;
}

/** The rows of the threads of some lanes, those of one thread together. */
export function threadsOf(lanes: readonly SpanLane[]): ThreadRows[] {
  const threads = new Map<number, { first: number; last: number }[]>();
  const rest: ThreadRows[] = [];
  for (const lane of lanes) {
    if (lane.head.thread < 0) {
      rest.push([lane.rows]);
      continue;
    }
    const rows = threads.get(lane.head.thread);
    if (rows) rows.push(lane.rows);
    else threads.set(lane.head.thread, [lane.rows]);
  }
  return [...threads.values(), ...rest];
}
