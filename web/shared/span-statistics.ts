/** What spans took in a range: by name, and as a call tree. Times are clipped to the range. */

import { TreeBuilder } from "./call-tree";
import type { CallTree } from "./call-tree";
import type { SpanColumns } from "./span-columns";

/** The rows of one thread: [first, last) of the boxes' rows for each lane. */
export type ThreadRows = readonly { first: number; last: number }[];

export interface NameStatistics {
  name: number;
  count: number;
  /** The sum of durations; every call of a recursive function counts. */
  total: number;
  /** The time outside of the spans directly inside. */
  own: number;
  longest: number;
}

/** The spans of threads that are in a range, with the time that is each one's own. */
export class SpanRange {
  private readonly boxes: SpanColumns["boxes"];
  /** Ranges of boxes, those of one thread together. */
  private readonly parts: [first: number, last: number][] = [];
  /** By box: the time outside the boxes inside it, and the time in which it is the innermost. */
  private readonly own: Float64Array;
  private readonly inner: Float64Array;
  count = 0;

  constructor(
    private readonly columns: SpanColumns,
    threads: Iterable<ThreadRows>,
    readonly from: number,
    readonly to: number,
    scratch: Scratch,
  ) {
    this.boxes = columns.boxes;
    ({ own: this.own, inner: this.inner } = scratch.for(this.boxes.count));
    for (const lanes of threads) this.add(lanes);
  }

  private add(lanes: ThreadRows): void {
    const { boxes, own, inner, from, to } = this;
    const first = this.parts.length;
    for (const lane of lanes) {
      for (let row = lane.first; row < lane.last; row++) {
        const low = boxes.firstVisible(row, from);
        const high = boxes.firstFrom(row, to);
        if (low >= high) continue;
        this.parts.push([low, high]);
        this.count += high - low;
        for (let box = low; box < high; box++) own[box] = this.clipped(box);
      }
    }
    const parts = this.parts.slice(first);
    if (lanes.length === 1) this.subtractChildren(parts);
    else this.sweep(parts);
    if (lanes.length === 1) for (const [low, high] of parts) inner.set(own.subarray(low, high), low);
  }

  /** The part of a box that is in the range. */
  private clipped(box: number): number {
    const start = Math.max(this.from, this.boxes.start[box]!);
    return Math.min(this.to, this.boxes.end(box)) - start;
  }

  private subtractChildren(parts: readonly [number, number][]): void {
    const { own } = this;
    const { parent } = this.columns;
    for (const [low, high] of parts) {
      for (let box = low; box < high; box++) {
        if (parent[box]! >= 0) own[parent[box]!]! -= this.clipped(box);
      }
    }
  }

  /** The same for spans that overlap: what several cover counts once, for the latest one. */
  private sweep(parts: readonly [number, number][]): void {
    const { boxes, own, inner, from, to } = this;
    const { parent } = this.columns;
    const order: number[] = [];
    for (const [low, high] of parts) {
      for (let box = low; box < high; box++) {
        order.push(box);
        inner[box] = 0;
      }
    }
    order.sort((a, b) => boxes.start[a]! - boxes.start[b]! || boxes.length[b]! - boxes.length[a]! || a - b);
    const covered = new Map<number, number>();
    const open: number[] = [];
    let now = from;
    const advance = (until: number) => {
      while (open.length && now < until) {
        const box = open.at(-1)!;
        const end = Math.min(until, boxes.end(box));
        if (end > now) {
          inner[box]! += end - now;
          now = end;
        }
        if (boxes.end(box) <= now) open.pop();
      }
      now = Math.max(now, until);
    };
    for (const box of order) {
      const start = Math.max(from, boxes.start[box]!);
      const end = Math.min(to, boxes.end(box));
      const caller = parent[box]!;
      if (caller >= 0) {
        const until = covered.get(caller) ?? -Infinity;
        own[caller]! -= Math.max(0, end - Math.max(start, until));
        covered.set(caller, Math.max(until, end));
      }
      advance(start);
      open.push(box);
    }
    advance(to);
  }

  /** The time of a box outside of those directly inside it. */
  ownOf(box: number): number {
    return this.own[box]!;
  }

  byName(): NameStatistics[] {
    const { columns, boxes, own } = this;
    const names = columns.names.length;
    const count = new Float64Array(names);
    const total = new Float64Array(names);
    const self = new Float64Array(names);
    const longest = new Float64Array(names);
    for (const [low, high] of this.parts) {
      for (let box = low; box < high; box++) {
        const name = boxes.name[box]!;
        const length = this.clipped(box);
        count[name]! += columns.count ? columns.count[box]! : 1;
        total[name]! += length;
        self[name]! += own[box]!;
        if (length > longest[name]!) longest[name] = length;
      }
    }
    const found: NameStatistics[] = [];
    for (let name = 0; name < names; name++) {
      if (count[name]) {
        found.push({ name, count: count[name]!, total: total[name]!, own: self[name]!, longest: longest[name]! });
      }
    }
    return found;
  }

  tree(): CallTree {
    const { columns, boxes, inner } = this;
    const { parent } = columns;
    const builder = new TreeBuilder(columns.names);
    const nodes = new Int32Array(boxes.count).fill(-1);
    const waiting: number[] = [];
    for (const [low, high] of this.parts) {
      for (let box = low; box < high; box++) {
        // a caller in another lane may come later
        for (let each = box; each >= 0 && nodes[each]! < 0; each = parent[each]!) waiting.push(each);
        while (waiting.length) {
          const each = waiting.pop()!;
          const caller = parent[each]!;
          nodes[each] = builder.child(caller < 0 ? -1 : nodes[caller]!, boxes.name[each]!);
        }
        const node = nodes[box]!;
        builder.own[node]! += inner[box]!;
        builder.count[node]! += columns.count ? columns.count[box]! : 1;
      }
    }
    return builder.summed();
  }
}

/** Columns that are filled again for each range. */
export class Scratch {
  own = new Float64Array(0);
  inner = new Float64Array(0);

  for(count: number): this {
    if (this.own.length !== count) {
      this.own = new Float64Array(count);
      this.inner = new Float64Array(count);
    }
    return this;
  }
}
