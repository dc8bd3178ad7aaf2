/** What spans and samples inside a page took: by name, and as call trees, as a server computes them. */

import { TreeBuilder } from "../shared/call-tree";
import type { CallTree } from "../shared/call-tree";
import { BARS, addTo } from "./bars";
import type { Data, Row, Samples } from "./embedded-data";
import { lowerBound } from "./embedded-data";

export interface Group {
  total: number;
  /** The time outside of the spans directly inside. */
  self: number;
  durations: number[];
  /** How many of them have no end in the trace, and none in the range, and the time of these. */
  open: number;
  openNs: number;
  /** How long the longest is, with what is outside of the range. */
  whole: number;
  /** Of spans, how many are open at once in each part of the range. */
  bars?: Float64Array;
}

/** Whether threads have spans that were recorded, not only those that samples show. */
export function hasSpans(data: Data): boolean {
  return data.rows.some(({ lane }) => data.table.kind[lane] === "stack" && !data.table.estimated[lane]);
}

/** The rows of the spans of threads; operations count only if their lanes are chosen. */
function wanted(data: Data, lanes: Set<number> | null): Row[] {
  const { kind, estimated, handle } = data.table;
  // instants and samples are of the thread whose spans are beside them
  const threads = lanes && new Set([...lanes].map((lane) => handle[lane]!).filter(Boolean));
  return data.rows.filter(({ lane }) => !estimated[lane] && (threads ? (kind[lane] === "stack" && threads.has(handle[lane]!)) || (kind[lane] === "async" && lanes!.has(lane)) : kind[lane] === "stack"));
}

/** Boxes in the order in which they contain each other: by start, the longest first. */
export function inOrder(data: Data, boxes: number[]): number[] {
  return boxes.sort((a, b) => data.start[a]! - data.start[b]! || data.end(b) - data.end(a) || a - b);
}

export function boxesIn(data: Data, row: Row, from: number, to: number, each: (box: number) => void): void {
  for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) each(box);
}

/** Statistics of the spans in a range, by the index of their merged name. Durations are clipped to it. */
export function spansByName(data: Data, from: number, to: number, lanes: Set<number> | null): Map<number, Group> {
  const groups = new Map<number, Group>();
  const groupOf = (box: number) => {
    const name = data.merged.code[data.name[box]!]!;
    let group = groups.get(name);
    if (!group) groups.set(name, (group = { total: 0, self: 0, durations: [], open: 0, openNs: 0, whole: 0, bars: new Float64Array(BARS) }));
    return group;
  };
  const perBar = (to - from) / BARS;
  const tangled: number[] = [];
  for (const row of wanted(data, lanes)) {
    const isTangled = data.isTangled(row);
    const below = isTangled ? undefined : data.ofLane.get(row.lane)?.[row.row + 1];
    let child = below ? data.firstEndingAfter(below, from) : 0;
    boxesIn(data, row, from, to, (box) => {
      const [low, high] = [Math.max(from, data.start[box]!), Math.min(to, data.end(box))];
      const group = groupOf(box);
      const ns = data.coverage(box) * (high - low);
      group.total += ns;
      group.self += ns;
      group.durations.push(high - low);
      group.whole = Math.max(group.whole, data.end(box) - data.start[box]!);
      if (data.open.has(box) && data.end(box) <= to) {
        group.open++;
        group.openNs += ns;
      }
      addTo(group.bars!, (low - from) / perBar, (high - from) / perBar, data.coverage(box));
      if (isTangled) tangled.push(box);
      if (!below) return;
      for (; child < below.last && data.start[child]! < high; child++) {
        if (data.end(child) <= low) continue;
        group.self -= data.coverage(child) * (Math.min(high, data.end(child)) - Math.max(low, data.start[child]!));
        if (data.end(child) > high) break;
      }
    });
  }
  // spans inside of one may overlap each other: what they cover together is not its own
  const covered = new Map<number, number>();
  for (const box of inOrder(data, tangled)) {
    const parent = data.parentOf(box);
    if (parent < 0) continue;
    const end = Math.min(to, data.end(box));
    const until = covered.get(parent) ?? -Infinity;
    groupOf(parent).self -= data.coverage(box) * Math.max(0, end - Math.max(from, data.start[box]!, until));
    covered.set(parent, Math.max(until, end));
  }
  return groups;
}

/** The boxes that are directly inside of a span. */
export function insideOf(data: Data, box: number, row: Row): number[] {
  const [start, end] = [data.start[box]!, data.end(box)];
  const inside: number[] = [];
  if (data.isTangled(row)) {
    for (const each of data.rowsOfThread(row.lane)) boxesIn(data, each, start, end, (child) => data.parentOf(child) === box && inside.push(child));
  } else {
    const below = data.ofLane.get(row.lane)?.[row.row + 1];
    if (below) boxesIn(data, below, start, end, (child) => inside.push(child));
  }
  return inside;
}

/** Of a span: the time that is its own, how many are directly inside of it, and how deep it is. */
export function spanOf(data: Data, box: number, row: Row): { self: number; children: number; depth: number } {
  const [start, end] = [data.start[box]!, data.end(box)];
  const isTangled = data.isTangled(row);
  const inside = insideOf(data, box, row);
  let self = data.coverage(box) * (end - start);
  let until = start;
  for (const child of inOrder(data, inside)) {
    const stop = Math.min(end, data.end(child));
    self -= data.coverage(child) * Math.max(0, stop - Math.max(until, data.start[child]!));
    until = Math.max(until, stop);
  }
  let depth = isTangled ? 0 : row.row;
  if (isTangled) for (let above = data.parentOf(box); above >= 0; above = data.parentOf(above)) depth++;
  return { self, children: inside.length, depth };
}

/** The call tree of spans: each moment of a thread counts for the open one that began last. */
export function spanTree(data: Data, from: number, to: number, lanes: Set<number> | null): CallTree {
  const builder = new TreeBuilder(data.info.names);
  const threads = new Map<string, { boxes: number[]; rows: Row[] }>();
  for (const row of wanted(data, lanes)) {
    const isAsync = data.table.kind[row.lane] === "async";
    const threadOf = (name: string) => {
      const found = threads.get(name) ?? { boxes: [], rows: [] };
      threads.set(name, found);
      if (found.rows.at(-1) !== row) found.rows.push(row);
      return found.boxes;
    };
    const boxes = isAsync ? null : threadOf(data.table.handle[row.lane]!);
    boxesIn(data, row, from, to, (box) => {
      // each operation is like a thread of its own
      (boxes ?? threadOf(`operation ${data.outermostOf(box)}`)).push(box);
    });
  }
  for (const { boxes, rows } of threads.values()) addThread(builder, data, from, to, inOrder(data, boxes), rows);
  return builder.summed();
}

function addThread(builder: TreeBuilder, data: Data, from: number, to: number, boxes: number[], rows: Row[]): void {
  const isTangled = data.isTangled(rows[0]!);
  const nodes = new Map<number, number>();
  /** By row, the node of the latest box in it. */
  const above: number[] = [];
  const rowOf = (box: number) => {
    let [low, high] = [0, rows.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (rows[middle]!.first <= box) low = middle;
      else high = middle - 1;
    }
    return rows[low]!.row;
  };
  const open: { end: number; node: number; part: number }[] = [];
  let now = from;
  const advance = (until: number) => {
    while (open.length && now < until) {
      const { end, node, part } = open.at(-1)!;
      const stop = Math.min(until, end);
      if (stop > now) {
        builder.own[node]! += part * (stop - now);
        now = stop;
      }
      if (end <= now) open.pop();
    }
    now = Math.max(now, until);
  };
  for (const box of boxes) {
    advance(Math.max(from, data.start[box]!));
    const row = isTangled ? 0 : rowOf(box);
    const parent = (isTangled ? nodes.get(data.parentOf(box)) : row ? above[row - 1] : undefined) ?? -1;
    const node = builder.child(parent, data.name[box]!);
    if (isTangled) nodes.set(box, node);
    else above[row] = node;
    builder.count[node]!++;
    open.push({ end: Math.min(to, data.end(box)), node, part: data.coverage(box) });
  }
  advance(to);
}

/**
 * Calls with the index of each sample of a range, of some lanes or of all, and returns how many are left out: those of idle CPUs,
 * unless all that was chosen is the idle task.
 */
export function eachSample(data: Data, from: number, to: number, lanes: Set<number> | null, each: (samples: Samples, at: number) => void): number {
  const { handle } = data.table;
  // samples that are drawn as stacks are of the lane of samples beside them
  const threads = lanes && new Set([...lanes].map((lane) => handle[lane]!).filter(Boolean));
  const chosen: [samples: Samples, first: number, last: number][] = [];
  for (const [lane, samples] of data.samples) {
    if (lanes && !lanes.has(lane) && !threads!.has(handle[lane]!)) continue;
    chosen.push([samples, lowerBound(samples.time, from), lowerBound(samples.time, to)]);
  }
  const isIdleTask = ([{ idle }, first, last]: (typeof chosen)[number]) => first === last || (idle !== null && idle[first] !== 0);
  const isWanted = lanes !== null && chosen.every(isIdleTask);
  let count = 0;
  for (const [samples, first, last] of chosen) {
    for (let at = first; at < last; at++) {
      if (samples.idle?.[at] === 1 && !isWanted) count++;
      else each(samples, at);
    }
  }
  return count;
}

/** Calls with each sample of a range that has a stack, as `eachSample`: 1 + its stack, its weight and its time. */
export function samplesIn(data: Data, from: number, to: number, lanes: Set<number> | null, each: (stack: number, weight: number, time: number) => void): number {
  return eachSample(data, from, to, lanes, ({ time, weight, stack }, at) => {
    if (stack) each(stack[at]!, weight[at]!, time[at]!);
  });
}

/** The call tree of samples, the unit of their weights, and how many samples of idle CPUs are left out. */
export function sampledTree(data: Data, from: number, to: number, lanes: Set<number> | null): { tree: CallTree; unit: string; idle: number } {
  const builder = new TreeBuilder(data.info.frames ?? []);
  const parents = data.columns.get("stack_parent") ?? new Uint32Array(0);
  const frames = data.columns.get("stack_frame") ?? new Uint32Array(0);
  const { kind, unit } = data.table;
  const nodes = new Map<number, number>();
  const nodeOf = (stack: number): number => {
    if (!stack) return -1;
    let node = nodes.get(stack);
    if (node === undefined) nodes.set(stack, (node = builder.child(nodeOf(parents[stack - 1]!), frames[stack - 1]!)));
    return node;
  };
  const idle = samplesIn(data, from, to, lanes, (stack, weight) => {
    const node = nodeOf(stack);
    if (node < 0) return;
    builder.own[node]! += weight;
    builder.count[node]!++;
  });
  return { tree: builder.summed(), unit: unit[kind.indexOf("density")] ?? "ns", idle };
}
