/** Answers from the data inside a page: the same questions that a server answers. */

import { TreeBuilder } from "../shared/call-tree";
import type { Data, Row } from "./embedded-data";
import { lowerBound } from "./embedded-data";
import type { At, EntityItem, Flame, Flow, Hit, PointInfo, SearchResult, SpanItem, StateItem, Statistics, StatisticsRow } from "./protocol";
import type { Answers } from "./source";

/** Arguments of a question: numbers, texts and times. */
export type Asked = Record<string, string | number | bigint | null | undefined>;

const BINS = 512;
const MOST_ROWS = 1000;

export class Answering {
  constructor(private readonly data: Data) {}

  answer(question: keyof Answers, asked: Asked): Answers[keyof Answers] {
    switch (question) {
      case "at":
        return this.at(Number(asked.lane), Number(asked.row ?? 0), this.time(asked.time), Number(asked.width ?? 1));
      case "span":
        return this.span(Number(asked.span));
      case "statistics":
        return this.statistics(String(asked.by), this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes));
      case "flame":
        return this.flame(this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes));
      case "search":
        return this.search(String(asked.text), this.time(asked.from), this.time(asked.to), Number(asked.limit ?? 100));
      case "neighbors":
        return this.neighbors(Number(asked.lane), Number(asked.row ?? 0), this.time(asked.time));
      case "flows":
        return this.flows(this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes), Number(asked.limit ?? 1000));
      case "findings":
        return { findings: this.data.info.findings ?? [] };
      default:
        throw new Error("This is not in the file; `meantime view` of the trace has it.");
    }
  }

  /** A time of the file as one of the data. */
  private time(ns: Asked[string]): number {
    return Number(BigInt(ns ?? 0) - this.data.originNs);
  }

  private ns(time: number): string {
    return String(this.data.originNs + BigInt(Math.round(time)));
  }

  /** The chosen lanes and those below them; null for all. */
  private lanes(chosen: Asked[string]): Set<number> | null {
    if (chosen === null || chosen === undefined || chosen === "") return null;
    const { parent } = this.data.table;
    const found = new Set(String(chosen).split(",").map(Number));
    parent.forEach((above, lane) => found.has(above) && found.add(lane));
    return found;
  }

  private handle(lane: number, time: number): string {
    const path = this.data.table.handle[lane]!;
    return path ? `${path}@abs:${this.ns(time)}` : "";
  }

  // what is at a point ----------------------------------------------------------------------------

  private at(lane: number, row: number, time: number, width: number): At {
    const { data } = this;
    const kind = data.table.kind[lane]!;
    const made: At = { kind, lane, row, handle: this.handle(lane, time), path: data.table.handle[lane]!, in_width: null, shares: null, item: null };
    if (kind === "counter") made.item = this.counterAt(lane, time, width);
    else if (kind === "density") made.item = this.samplesAt(lane, time, width);
    else if (kind === "points") made.item = { points: this.pointsIn(time, time + width, lane), rest: 0 };
    else if (kind === "group") return made;
    const found = data.ofLane.get(lane)?.[row];
    if (!found) return made;
    const first = data.firstEndingAfter(found, time);
    if (kind === "state" || kind === "packed") made.shares = this.sharesIn(found, time, width);
    if (kind === "stack" || kind === "async") {
      let count = 0;
      let covered = 0;
      let longest = -1;
      for (let box = first; box < found.last && data.start[box]! < time + width; box++) {
        count++;
        covered += Math.min(time + width, data.end[box]!) - Math.max(time, data.start[box]!);
        if (longest < 0 || this.length(box) > this.length(longest)) longest = box;
      }
      made.in_width = { count, covered_ns: String(Math.round(covered)), share: covered / width };
      if (longest >= 0) made.item = this.spanItem(longest, found);
      return made;
    }
    if (first >= found.last || data.start[first]! >= time + width) return made;
    made.item = kind === "packed" ? this.entityItem(found, first) : this.stateItem(first);
    return made;
  }

  private length(box: number): number {
    return this.data.end[box]! - this.data.start[box]!;
  }

  private sharesIn(row: Row, time: number, width: number): NonNullable<At["shares"]> {
    const { data } = this;
    const sums = new Map<number, number>();
    let rest = width;
    for (let box = data.firstEndingAfter(row, time); box < row.last && data.start[box]! < time + width; box++) {
      const ns = data.coverage(box) * (Math.min(time + width, data.end[box]!) - Math.max(time, data.start[box]!));
      sums.set(data.name[box]!, (sums.get(data.name[box]!) ?? 0) + ns);
      rest -= ns;
    }
    const shares: NonNullable<At["shares"]> = [...sums].map(([state, ns]) => ({ state: data.info.names[state]!, time_ns: String(Math.round(ns)), share: ns / width }));
    if (rest >= 0.5) shares.push({ state: null, time_ns: String(Math.round(rest)), share: rest / width });
    return shares.sort((a, b) => b.share - a.share);
  }

  private tag(box: number): Record<string, unknown> | null {
    const code = this.data.columns.get("tag")?.[box] ?? 0;
    return code ? this.data.info.tags[code - 1]! : null;
  }

  private stateItem(box: number): StateItem {
    const { data } = this;
    return { name: data.info.names[data.name[box]!]!, start_ns: this.ns(data.start[box]!), end_ns: this.ns(data.end[box]!), ongoing: false, tag: this.tag(box) };
  }

  private entityItem(row: Row, box: number): EntityItem {
    const { data } = this;
    const item = data.itemOf(row, box);
    const [first, last] = [row.items![item]!, row.items![item + 1]! - 1];
    const times = new Map<number, number>();
    for (let each = first; each <= last; each++) times.set(data.name[each]!, (times.get(data.name[each]!) ?? 0) + data.coverage(each) * this.length(each));
    const sorted = [...times].sort((a, b) => b[1] - a[1]);
    return {
      name: data.info.entities[row.itemEntities![item]!]!,
      entity: first,
      path: "",
      handle: "",
      start_ns: this.ns(data.start[first]!),
      end_ns: this.ns(data.end[last]!),
      state: this.stateItem(box),
      times: sorted.map(([state, ns]) => ({ state: data.info.names[state]!, time_ns: String(Math.round(ns)) })),
      tag: this.tag(box),
    };
  }

  private spanItem(box: number, row: Row): SpanItem {
    const { data } = this;
    const below = data.ofLane.get(row.lane)?.[row.row + 1];
    let self = this.length(box);
    let children = 0;
    if (below) {
      for (let each = data.firstEndingAfter(below, data.start[box]!); each < below.last && data.start[each]! < data.end[box]!; each++) {
        self -= Math.min(data.end[box]!, data.end[each]!) - Math.max(data.start[box]!, data.start[each]!);
        children++;
      }
    }
    const code = data.columns.get("argument")?.[box] ?? 0;
    const text = code ? data.texts[code - 1]! : null;
    const made: SpanItem = {
      name: data.info.names[data.name[box]!]!,
      start_ns: this.ns(data.start[box]!),
      end_ns: this.ns(data.end[box]!),
      self_ns: String(Math.max(0, Math.round(self))),
      depth: row.row,
      span: box,
      arguments: parsed(text),
      children,
    };
    return made;
  }

  private span(box: number): At {
    const row = this.data.rows.find(({ first, last }) => first <= box && box < last)!;
    return this.at(row.lane, row.row, this.data.start[box]!, Math.max(1, this.length(box)));
  }

  private counterAt(lane: number, time: number, width: number): At["item"] {
    const counter = this.data.counters.get(lane);
    if (!counter) return null;
    const at = lowerBound(counter.time, time + 0.5) - 1;
    let [least, greatest] = [Infinity, -Infinity];
    for (let each = Math.max(0, at); each < counter.time.length && counter.time[each]! < time + width; each++) {
      least = Math.min(least, counter.value[each]!);
      greatest = Math.max(greatest, counter.value[each]!);
    }
    const value = at < 0 || Number.isNaN(counter.value[at]) ? null : counter.value[at]!;
    const isAny = least <= greatest;
    return { value, start_ns: this.ns(at < 0 ? 0 : counter.time[at]!), end_ns: this.ns(counter.time[at + 1] ?? time + width), least: isAny ? least : null, greatest: isAny ? greatest : null, mean: null };
  }

  private samplesAt(lane: number, time: number, width: number): At["item"] {
    const samples = this.data.samples.get(lane);
    if (!samples) return null;
    const counts = new Map<number, number>();
    let [count, weight] = [0, 0];
    for (let at = lowerBound(samples.time, time); at < samples.time.length && samples.time[at]! < time + width; at++) {
      count++;
      weight += samples.weight[at]!;
      const frame = this.frames[(samples.stack?.[at] ?? 0) - 1];
      if (frame !== undefined) counts.set(frame, (counts.get(frame) ?? 0) + 1);
    }
    const functions = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 10);
    return { samples: count, weight, unit: this.data.table.unit[lane]!, functions: functions.map(([frame, each]) => ({ name: this.data.info.frames[frame]!, count: each })) };
  }

  private get frames(): ArrayLike<number> {
    return this.data.columns.get("stack_frame") ?? [];
  }

  private pointsIn(from: number, to: number, lane: number): PointInfo[] {
    const { points, info, table } = this.data;
    const found: PointInfo[] = [];
    for (let at = lowerBound(points.time, from); at < points.time.length && points.time[at]! < to && found.length < 100; at++) {
      if (points.lane[at] !== lane) continue;
      found.push({ time_ns: this.ns(points.time[at]!), lane, path: table.handle[lane]!, name: info.names[points.name[at]!]!, arguments: null });
    }
    return found;
  }

  // about ranges ----------------------------------------------------------------------------------

  private statistics(by: string, from: number, to: number, lanes: Set<number> | null): Statistics {
    const { data } = this;
    const isSpans = by === "name";
    const groups = new Map<number, { total: number; self: number; durations: number[] }>();
    // States of different kinds of entities are not added up: a task runs while its loop does.
    const existed = new Map<number, number>();
    const names = data.info.names.length;
    const isWanted = (row: Row) => {
      const kind = data.table.kind[row.lane];
      return (isSpans ? kind === "stack" || kind === "async" : kind === "state" || kind === "packed") && (!lanes || lanes.has(row.lane));
    };
    for (const row of data.rows) {
      if (!isWanted(row)) continue;
      const root = by === "state" ? this.root(row.lane) : 0;
      if (by === "state") existed.set(root, (existed.get(root) ?? 0) + this.existed(row, from, to));
      const below = isSpans ? data.ofLane.get(row.lane)?.[row.row + 1] : undefined;
      let child = below ? data.firstEndingAfter(below, from) : 0;
      for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) {
        const [low, high] = [Math.max(from, data.start[box]!), Math.min(to, data.end[box]!)];
        const key = by === "entity" ? row.lane : root * names + data.name[box]!;
        let group = groups.get(key);
        if (!group) groups.set(key, (group = { total: 0, self: 0, durations: [] }));
        const ns = data.coverage(box) * (high - low);
        group.total += ns;
        group.self += ns;
        group.durations.push(high - low);
        if (!below) continue;
        for (; child < below.last && data.start[child]! < high; child++) {
          if (data.end[child]! <= low) continue;
          group.self -= Math.min(high, data.end[child]!) - Math.max(low, data.start[child]!);
          if (data.end[child]! > high) break;
        }
      }
    }
    let whole = 0;
    for (const { total } of groups.values()) whole += total;
    const rows = [...groups].map(([key, { total, self, durations }]): StatisticsRow => {
      const sorted = Float64Array.from(durations).sort();
      const rank = (part: number) => String(sorted[Math.max(0, Math.ceil((part * sorted.length) / 100) - 1)]);
      const name = by === "entity" ? data.table.name[key]! : data.info.names[key % names]!;
      const root = Math.floor(key / names);
      const of = by === "state" ? existed.get(root)! : whole;
      const made: StatisticsRow = {
        key: name,
        count: sorted.length,
        total_ns: String(Math.round(total)),
        mean_ns: String(Math.round(total / sorted.length)),
        median_ns: rank(50),
        p90_ns: rank(90),
        p99_ns: rank(99),
        min_ns: String(sorted[0]),
        max_ns: String(sorted.at(-1)),
        histogram: histogram(sorted),
      };
      if (isSpans) made.self_ns = String(Math.max(0, Math.round(self)));
      else made.share = of ? total / of : 0;
      if (by === "state") made.kind = data.table.name[root]!;
      return made;
    });
    rows.sort((a, b) => Number(b.total_ns) - Number(a.total_ns));
    return { by, range_ns: [this.ns(from), this.ns(to)], rows: rows.slice(0, MOST_ROWS), rest: Math.max(0, rows.length - MOST_ROWS) };
  }

  /** The group at the top of the tree that a lane is in. */
  private root(lane: number): number {
    const { parent } = this.data.table;
    while (parent[lane]! >= 0) lane = parent[lane]!;
    return lane;
  }

  /** For how long of a range the entities of a row existed, each from its first state to its last. */
  private existed(row: Row, from: number, to: number): number {
    const { data } = this;
    const firsts = row.items ?? [row.first, row.last];
    let sum = 0;
    for (let item = 0; item + 1 < firsts.length; item++) {
      const [first, next] = [firsts[item]!, firsts[item + 1]!];
      if (first < next) sum += Math.max(0, Math.min(to, data.end[next - 1]!) - Math.max(from, data.start[first]!));
    }
    return sum;
  }

  private flame(from: number, to: number, lanes: Set<number> | null): Flame {
    const { data } = this;
    const hasSpans = data.rows.some(({ lane }) => data.table.kind[lane] === "stack");
    const names = hasSpans ? data.info.names : data.info.frames;
    const builder = new TreeBuilder(names);
    if (hasSpans) this.addSpans(builder, from, to, lanes);
    else this.addSamples(builder, from, to, lanes);
    const tree = builder.summed();
    return {
      unit: hasSpans ? "ns" : "samples",
      names: [...names],
      parent: [...tree.parent],
      name: [...tree.name],
      total: [...tree.value],
      self: [...tree.own],
      count: [...tree.count],
      dropped: 0,
    };
  }

  /** Each moment counts for the span that began last, also where spans of a thread overlap. */
  private addSpans(builder: TreeBuilder, from: number, to: number, lanes: Set<number> | null): void {
    const { data } = this;
    const threads = new Map<string, number[]>();
    for (const [lane, rows] of data.ofLane) {
      if (data.table.kind[lane] !== "stack" || (lanes && !lanes.has(lane))) continue;
      const thread = data.table.handle[lane]!;
      const boxes = threads.get(thread) ?? [];
      threads.set(thread, boxes);
      for (const row of rows) {
        if (!row) continue;
        for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) boxes.push(box);
      }
    }
    for (const boxes of threads.values()) {
      boxes.sort((a, b) => data.start[a]! - data.start[b]! || data.end[b]! - data.end[a]! || a - b);
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
        const end = Math.min(to, data.end[box]!);
        let parent = open.length - 1;
        while (parent >= 0 && open[parent]!.end < end) parent--;
        const node = builder.child(parent < 0 ? -1 : open[parent]!.node, data.name[box]!);
        builder.count[node]!++;
        open.push({ end, node, part: data.coverage(box) });
      }
      advance(to);
    }
  }

  private addSamples(builder: TreeBuilder, from: number, to: number, lanes: Set<number> | null): void {
    const parents = this.data.columns.get("stack_parent") ?? new Uint32Array(0);
    const { frames } = this;
    const nodes = new Map<number, number>();
    const nodeOf = (stack: number): number => {
      if (!stack) return -1;
      let node = nodes.get(stack);
      if (node === undefined) nodes.set(stack, (node = builder.child(nodeOf(parents[stack - 1]!), frames[stack - 1]!)));
      return node;
    };
    for (const [lane, { time, stack }] of this.data.samples) {
      if (!stack || (lanes && !lanes.has(lane))) continue;
      for (let at = lowerBound(time, from); at < time.length && time[at]! < to; at++) {
        const node = nodeOf(stack[at]!);
        if (node < 0) continue;
        builder.own[node]!++;
        builder.count[node]!++;
      }
    }
  }

  // finding ---------------------------------------------------------------------------------------

  private hit(row: Row, box: number): Hit {
    const { data } = this;
    const kind = data.table.kind[row.lane]!;
    if (kind === "packed") {
      const item = data.itemOf(row, box);
      return { kind: "entity", lane: row.lane, row: row.row, name: data.info.entities[row.itemEntities![item]!]!, start_ns: this.ns(data.start[row.items![item]!]!), end_ns: this.ns(data.end[row.items![item + 1]! - 1]!), span: null };
    }
    return { kind: kind === "state" ? "state" : "span", lane: row.lane, row: row.row, name: data.info.names[data.name[box]!]!, start_ns: this.ns(data.start[box]!), end_ns: this.ns(data.end[box]!), span: kind === "state" ? null : box };
  }

  private search(text: string, from: number, to: number, limit: number): SearchResult {
    const { data } = this;
    const wanted = text.toLowerCase();
    const contains = (each: string) => each.toLowerCase().includes(wanted);
    const named = data.info.names.map(contains);
    const entities = data.info.entities.map(contains);
    const tags = data.info.tags.map((tag) => contains(JSON.stringify(tag)));
    const texts = data.texts.map(contains);
    const tag = data.columns.get("tag");
    const argument = data.columns.get("argument");
    const bins = new Array<number>(BINS).fill(0);
    const hits: { time: number; row: Row; box: number }[] = [];
    for (const row of data.rows) {
      for (let box = row.first; box < row.last; box++) {
        let isHit = named[data.name[box]!]! || (tag?.[box] ? tags[tag[box]! - 1]! : false) || (argument?.[box] ? texts[argument[box]! - 1]! : false);
        if (!isHit && row.items) {
          const item = data.itemOf(row, box);
          isHit = row.items[item] === box && entities[row.itemEntities![item]!]!;
        }
        const time = data.start[box]!;
        if (!isHit || time >= to || data.end[box]! < from) continue;
        hits.push({ time, row, box });
        bins[Math.max(0, Math.min(BINS - 1, Math.floor(((time - from) / (to - from)) * BINS)))]!++;
      }
    }
    hits.sort((a, b) => a.time - b.time);
    return { count: hits.length, names: [], hits: hits.slice(0, limit).map(({ row, box }) => this.hit(row, box)), rest: Math.max(0, hits.length - limit), bins };
  }

  private neighbors(lane: number, index: number, time: number): { previous: Hit | null; next: Hit | null } {
    const { data } = this;
    const row = data.ofLane.get(lane)?.[index];
    if (!row) return { previous: null, next: null };
    if (row.items) {
      const count = row.items.length - 1;
      const starts = Float64Array.from({ length: count }, (_, item) => data.start[row.items![item]!]!);
      const at = lowerBound(starts, time);
      const after = starts[at] === time ? at + 1 : at;
      return { previous: at > 0 ? this.hit(row, row.items[at - 1]!) : null, next: after < count ? this.hit(row, row.items[after]!) : null };
    }
    const starts = data.start.subarray(row.first, row.last);
    const at = lowerBound(starts, time);
    const after = starts[at] === time ? at + 1 : at;
    return { previous: at > 0 ? this.hit(row, row.first + at - 1) : null, next: after < starts.length ? this.hit(row, row.first + after) : null };
  }

  private flows(from: number, to: number, lanes: Set<number> | null, limit: number): { flows: Flow[]; rest: number } {
    const { data } = this;
    const count = data.info.flows;
    const column = (name: string) => data.column(name, count);
    const [gap, length, name] = [column("flow_gap"), column("flow_length"), column("flow_name")];
    const [fromLane, fromRow] = [column("flow_from_lane"), column("flow_from_row")];
    const [toLane, toRow] = [column("flow_to_lane"), column("flow_to_row")];
    const flows: Flow[] = [];
    let begin = 0;
    let rest = 0;
    for (let at = 0; at < count; at++) {
      begin += gap[at]!;
      const end = begin + (length[at]! % 2 ? -(length[at]! + 1) / 2 : length[at]! / 2);
      const leaves = begin >= from && begin < to && (!lanes || lanes.has(fromLane[at]! - 1));
      const arrives = end >= from && end < to && (!lanes || lanes.has(toLane[at]! - 1));
      if (!leaves && !arrives) continue;
      if (flows.length >= limit) {
        rest++;
        continue;
      }
      flows.push({ from_ns: this.ns(begin), from_lane: fromLane[at] ? fromLane[at]! - 1 : null, from_row: fromRow[at]!, to_ns: this.ns(end), to_lane: toLane[at] ? toLane[at]! - 1 : null, to_row: toRow[at]!, name: data.info.names[name[at]!] ?? "" });
    }
    return { flows, rest };
  }
}

/** Arguments as an object if they are one. */
function parsed(text: string | null): SpanItem["arguments"] {
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    if (value && typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // shown as it is
  }
  return text;
}

/** Counts by powers of two, from the least power on. */
function histogram(sorted: Float64Array): [number, number[]] | null {
  const positive = sorted.subarray(lowerBound(sorted, 1));
  if (!positive.length) return null;
  const power = (ns: number) => Math.floor(Math.log2(ns));
  const least = power(positive[0]!);
  const counts = new Array<number>(power(positive.at(-1)!) - least + 1).fill(0);
  for (const ns of positive) counts[power(ns) - least]!++;
  return [least, counts];
}
