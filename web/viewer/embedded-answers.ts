/** Answers from the data inside a page: the same questions that a server answers. */

import { withoutAddresses } from "../shared/addresses";
import { isCalled } from "./lane-filter";
import { FIGURES } from "../shared/figures";
import { BARS } from "./bars";
import type { Data, Row } from "./embedded-data";
import { lowerBound } from "./embedded-data";
import { heatOf } from "./embedded-heat";
import { contextOf } from "./embedded-context";
import { activityOf, momentOf } from "./embedded-moment";
import type { Group } from "./embedded-spans";
import { hasSpans, sampledTree, samplesIn, spanOf, spanTree, spansByName } from "./embedded-spans";
import type { Arrows, At, Counted, EntityItem, Figures, Flame, Flow, Hit, LaneShares, PointInfo, SearchResult, SpanItem, StateItem, Statistics, StatisticsRow, Summary } from "./protocol";
import type { Answers } from "./source";

/** Arguments of a question: numbers, texts and times. */
export type Asked = Record<string, string | number | bigint | null | undefined>;

const BINS = 512;
/** What sums of parts of bars may be off by, in hundredths of the highest. */
const ROUNDING = 1e-6;
const MOST_ROWS = 1000;
/** So many functions have bars. */
const MOST_BARS = 300;
const MOST_ARROWS = 60;

export class Answering {
  constructor(private readonly data: Data) {}

  answer(question: keyof Answers, asked: Asked): Answers[keyof Answers] {
    switch (question) {
      case "at":
        return this.at(Number(asked.lane), asked.row === "all" ? null : Number(asked.row ?? 0), this.time(asked.time), Number(asked.width ?? 1));
      case "span":
        return this.span(Number(asked.span));
      case "context":
        return contextOf(this.data, Number(asked.lane), Number(asked.row ?? 0), this.time(asked.time), {
          hit: (row, box) => this.hit(row, box),
          shares: (row, time, width) => this.sharesIn(row, time, width),
          flows: (from, to, lane, row) => this.arrows(from, to, lane, row),
          neighbors: (lane, row, time) => this.neighbors(lane, row, time),
        });
      case "statistics":
        return this.statistics(String(asked.by), asked.of as Counted | undefined, this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes));
      case "flame":
        return this.flame(asked.of as Counted | undefined, this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes));
      case "search":
        return this.search(asked, this.time(asked.from), this.time(asked.to));
      case "neighbors":
        return this.neighbors(Number(asked.lane), Number(asked.row ?? 0), this.time(asked.time));
      case "flows":
        return this.flows(this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes), Number(asked.limit ?? 1000));
      case "heat":
        return heatOf(this.data, this.time(asked.from), this.time(asked.to), this.lanes(asked.lanes), Number(asked.period), Number(asked.rows));
      case "moment":
        return momentOf(this.data, this.time(asked.time), String(asked.time), (row, box) => this.hit(row, box));
      case "summary":
        return this.summary(this.time(asked.from), this.time(asked.to));
      case "activity":
        return activityOf(this.data, this.time(asked.from), this.time(asked.to), asked.state ? String(asked.state) : null, asked.work === 1);
      case "shares":
        return this.shares(String(asked.lanes).split(",").map(Number), String(asked.name), this.time(asked.from), this.time(asked.to), Number(asked.bins));
      case "findings":
        return { conclusions: this.data.info.conclusions ?? [], summary: this.data.info.summary ?? "", findings: this.data.info.findings ?? [] };
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
    const { parent, kind, handle } = this.data.table;
    const found = new Set(String(chosen).split(",").map(Number));
    parent.forEach((above, lane) => found.has(above) && found.add(lane));
    // the spans of a thread that overlap are in several lanes
    const threads = new Set([...found].flatMap((lane) => (kind[lane] === "stack" ? [handle[lane]!] : [])));
    kind.forEach((each, lane) => each === "stack" && threads.has(handle[lane]!) && found.add(lane));
    return found;
  }

  private handle(lane: number, time: number): string {
    const path = this.data.table.handle[lane]!;
    return path ? `${path}@abs:${this.ns(time)}` : "";
  }

  // what is at a point ----------------------------------------------------------------------------

  private at(lane: number, row: number | null, time: number, width: number): At {
    const { data } = this;
    const kind = data.table.kind[lane]!;
    const made: At = { kind, lane, row: row ?? 0, handle: this.handle(lane, time), path: data.table.handle[lane]!, in_width: null, shares: null, item: null };
    if (kind === "counter") made.item = this.counterAt(lane, time, width);
    else if (kind === "density") made.item = this.samplesAt(lane, time, width);
    else if (kind === "points") made.item = { points: this.pointsIn(time, time + width, lane), rest: 0 };
    else if (kind === "group" || (kind === "packed" && row === null)) return { ...made, shares: this.loadAt(lane, time, width) };
    const found = data.ofLane.get(lane)?.[row ?? 0];
    if (!found) return made;
    const first = data.firstEndingAfter(found, time);
    if (kind === "state" || kind === "packed") made.shares = this.sharesIn(found, time, width);
    if (kind === "stack" || kind === "async") {
      let count = 0;
      let covered = 0;
      let longest = -1;
      for (let box = first; box < found.last && data.start[box]! < time + width; box++) {
        count++;
        covered += Math.min(time + width, data.end(box)) - Math.max(time, data.start[box]!);
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
    return this.data.end(box) - this.data.start[box]!;
  }

  /** How many of the entities of a lane, or of a group of lanes, are in each state. */
  private loadAt(lane: number, time: number, width: number): NonNullable<At["shares"]> {
    const { data } = this;
    const sums = new Map<string, number>();
    const { kind } = data.table;
    for (const each of this.lanes(lane)!) {
      for (const row of kind[each] === "state" || kind[each] === "packed" ? (data.ofLane.get(each) ?? []) : []) {
        for (const { state, share } of this.sharesIn(row, time, width)) if (state !== null) sums.set(state, (sums.get(state) ?? 0) + share);
      }
    }
    return [...sums].map(([state, share]) => ({ state, time_ns: String(Math.round(share * width)), share })).sort((a, b) => b.share - a.share);
  }

  private sharesIn(row: Row, time: number, width: number): NonNullable<At["shares"]> {
    const { data } = this;
    const sums = new Map<number, number>();
    let rest = width;
    for (let box = data.firstEndingAfter(row, time); box < row.last && data.start[box]! < time + width; box++) {
      const ns = data.coverage(box) * (Math.min(time + width, data.end(box)) - Math.max(time, data.start[box]!));
      sums.set(data.name[box]!, (sums.get(data.name[box]!) ?? 0) + ns);
      rest -= ns;
    }
    const shares: NonNullable<At["shares"]> = [...sums].map(([state, ns]) => ({ state: data.info.names[state]!, time_ns: String(Math.round(ns)), share: ns / width }));
    if (rest >= 0.5) shares.push({ state: null, time_ns: String(Math.round(rest)), share: rest / width });
    return shares.sort((a, b) => b.share - a.share);
  }

  /** How much of each bin a state, or spans of a name, take in each lane. */
  private shares(lanes: number[], name: string, from: number, to: number, bins: number): LaneShares {
    const { data } = this;
    const { kind } = data.table;
    const width = (to - from) / bins;
    const shares = lanes.map((lane) => {
      const sums = new Float64Array(bins);
      const isOfSpans = kind[lane] === "stack" || kind[lane] === "async";
      const isNamed = (box: number) => (isOfSpans ? data.merged.names[data.merged.code[data.name[box]!]!] : data.info.names[data.name[box]!]) === name;
      const within = kind[lane] === "group" ? [...this.lanes(lane)!].filter((each) => kind[each] === "state" || kind[each] === "packed") : [lane];
      for (const row of within.flatMap((each) => data.ofLane.get(each) ?? [])) {
        for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) {
          if (!isNamed(box)) continue;
          const [begin, end] = [Math.max(from, data.start[box]!), Math.min(to, data.end(box))];
          const share = data.coverage(box) / width;
          for (let bin = Math.floor((begin - from) / width); bin < bins && from + bin * width < end; bin++) {
            sums[bin]! += share * Math.max(0, Math.min(end, from + (bin + 1) * width) - Math.max(begin, from + bin * width));
          }
        }
      }
      // spans that contain each other count once
      return Array.from(sums, (sum) => (isOfSpans ? Math.min(1, sum) : sum));
    });
    return { lanes, shares };
  }

  private tag(box: number): Record<string, unknown> | null {
    const code = this.data.columns.get("tag")?.[box] ?? 0;
    return code ? this.data.info.tags[code - 1]! : null;
  }

  private stateItem(box: number): StateItem {
    const { data } = this;
    return { name: data.info.names[data.name[box]!]!, start_ns: this.ns(data.start[box]!), end_ns: this.ns(data.end(box)), ongoing: false, tag: this.tag(box) };
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
      end_ns: this.ns(data.end(last)),
      state: this.stateItem(box),
      times: sorted.map(([state, ns]) => ({ state: data.info.names[state]!, time_ns: String(Math.round(ns)) })),
      tag: this.tag(box),
    };
  }

  private spanItem(box: number, row: Row): SpanItem {
    const { data } = this;
    const { self, children, depth } = spanOf(data, box, row);
    const code = data.columns.get("argument")?.[box] ?? 0;
    const text = code ? data.texts[code - 1]! : null;
    const made: SpanItem = {
      name: data.info.names[data.name[box]!]!,
      start_ns: this.ns(data.start[box]!),
      end_ns: this.ns(data.end(box)),
      self_ns: String(Math.max(0, Math.round(self))),
      depth,
      span: box,
      arguments: parsed(text),
      children,
      unfinished: data.open.has(box),
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

  private statistics(by: string, of: Counted | undefined, from: number, to: number, lanes: Set<number> | null): Statistics {
    const { data } = this;
    const isSpans = by === "name";
    if (isSpans && this.counted(of) === "samples") return this.sampleStatistics(from, to, lanes);
    const texts = isSpans ? data.merged.names : data.info.names;
    const names = texts.length;
    const groups = isSpans ? spansByName(data, from, to, lanes) : new Map<number, Group>();
    // States of different kinds of entities are not added up: a task runs while its loop does.
    const existed = new Map<number, number>();
    const roots = new Map<number, number>();
    const laneOf = new Map<number, number>();
    for (const row of isSpans ? [] : data.rows) {
      const kind = data.table.kind[row.lane];
      if ((kind !== "state" && kind !== "packed") || (lanes && !lanes.has(row.lane))) continue;
      const firsts = row.items ?? [row.first, row.last];
      for (let item = 0; item + 1 < firsts.length; item++) {
        const [first, last] = [firsts[item]!, firsts[item + 1]!];
        const whose = by === "state" ? this.root(row.lane) : row.itemEntities ? data.table.count + row.itemEntities[item]! : row.lane;
        roots.set(whose, this.root(row.lane));
        laneOf.set(whose, row.lane);
        // each exists from its first state to its last
        const lives = first < last ? Math.min(to, data.end(last - 1)) - Math.max(from, data.start[first]!) : 0;
        if (lives > 0) existed.set(whose, (existed.get(whose) ?? 0) + lives);
        const part = { ...row, first, last };
        for (let box = data.firstEndingAfter(part, from); box < last && data.start[box]! < to; box++) {
          const length = Math.min(to, data.end(box)) - Math.max(from, data.start[box]!);
          const key = whose * names + data.name[box]!;
          let group = groups.get(key);
          if (!group) groups.set(key, (group = { total: 0, self: 0, durations: [], open: 0, openNs: 0, whole: 0 }));
          group.total += data.coverage(box) * length;
          group.durations.push(length);
        }
      }
    }
    const rows = [...groups].map(([key, { total, self, durations, open, openNs, whole, bars }]): StatisticsRow => {
      const sorted = Float64Array.from(durations).sort();
      const whose = Math.floor(key / names);
      const made: StatisticsRow = {
        key: texts[key % names]!,
        count: sorted.length,
        total_ns: String(Math.round(total)),
        mean_ns: String(toEven(total / sorted.length)),
        ...quantiles(sorted),
        min_ns: String(sorted[0]),
        max_ns: String(sorted.at(-1)),
        histogram: histogram(sorted),
      };
      if (bars) made.bars = heights(bars);
      if (isSpans) {
        made.self_ns = String(Math.max(0, Math.round(self)));
        made.unfinished = open;
        made.unfinished_ns = String(Math.round(openNs));
        made.whole_max_ns = String(whole);
      } else made.share = total / existed.get(whose)!;
      if (by === "state") made.kind = data.table.name[whose]!;
      else if (by === "entity") {
        made.kind = data.table.name[roots.get(whose)!]!;
        made.entity = whose < data.table.count ? data.table.handle[whose]! : this.pathOf(laneOf.get(whose)!, data.info.entities[whose - data.table.count]!);
      }
      return made;
    });
    const ranks = new Map(rows.map(({ kind = "" }) => [kind, 0]));
    [...ranks.keys()].forEach((kind, at) => ranks.set(kind, at));
    rows.sort((a, b) => ranks.get(a.kind ?? "")! - ranks.get(b.kind ?? "")! || Number(b.self_ns ?? b.total_ns) - Number(a.self_ns ?? a.total_ns));
    return { by, ...(isSpans ? { of: "spans" } : {}), range_ns: [this.ns(from), this.ns(to)], rows: rows.slice(0, MOST_ROWS), rest: Math.max(0, rows.length - MOST_ROWS) };
  }

  private summary(from: number, to: number): Summary {
    const { data } = this;
    const { kind, handle, name, parent } = data.table;
    let [loopNs, runningNs, requests]: (number | null)[] = [null, null, null];
    for (const row of data.rows) {
      if (kind[row.lane] === "state" && handle[row.lane]!.startsWith("Loops/")) {
        for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) {
          const ns = data.coverage(box) * (Math.min(to, data.end(box)) - Math.max(from, data.start[box]!));
          loopNs = (loopNs ?? 0) + ns;
          if (data.states.get(data.info.names[data.name[box]!]!)?.of === "running") runningNs = (runningNs ?? 0) + ns;
        }
      } else if (row.items && name[parent[row.lane]!] === "Requests") {
        requests ??= 0;
        for (let item = 0; item + 1 < row.items.length; item++) if (data.start[row.items[item]!]! < to && data.end(row.items[item + 1]! - 1) > from) requests++;
      }
    }
    const text = (ns: number | null) => (ns === null ? null : String(Math.round(ns)));
    return { loop_ns: text(loopNs), running_ns: text(runningNs ?? (loopNs === null ? null : 0)), requests };
  }

  /** Functions by their weight in samples; recursive calls count once. */
  private sampleStatistics(from: number, to: number, lanes: Set<number> | null): Statistics {
    const { tree, unit, idle } = sampledTree(this.data, from, to, lanes);
    const rows = new Map<number, StatisticsRow>();
    tree.parent.forEach((above, node) => {
      const name = tree.name[node]!;
      let row = rows.get(name);
      if (!row) rows.set(name, (row = { key: tree.names[name]!, count: 0, self: 0, total: 0 }));
      row.count += tree.count[node]!;
      row.self! += tree.own[node]!;
      while (above >= 0 && tree.name[above] !== name) above = tree.parent[above]!;
      if (above < 0) row.total! += tree.value[node]!;
    });
    const sorted = [...rows.values()].sort((a, b) => b.self! - a.self! || b.total! - a.total!);
    this.addSampleBars(sorted.slice(0, MOST_BARS), from, to, lanes);
    return { by: "name", of: "samples", range_ns: [this.ns(from), this.ns(to)], unit, rows: sorted.slice(0, MOST_ROWS), rest: Math.max(0, sorted.length - MOST_ROWS), idle };
  }

  /** Adds how much each function has itself over a range. */
  private addSampleBars(rows: StatisticsRow[], from: number, to: number, lanes: Set<number> | null): void {
    const { data } = this;
    const of = new Map(rows.map((row) => [row.key, new Float64Array(BARS)]));
    const own = data.info.frames.map((name) => of.get(withoutAddresses(name)));
    samplesIn(data, from, to, lanes, (stack, weight, time) => {
      const bars = stack ? own[this.frames[stack - 1]!] : undefined;
      if (bars) bars[Math.min(BARS - 1, Math.floor(((time - from) / (to - from)) * BARS))]! += weight;
    });
    for (const row of rows) row.bars = heights(of.get(row.key)!);
  }

  /** The path of an entity of a packed lane: its name replaces the wildcard of the lane. */
  private pathOf(lane: number, name: string): string {
    const parts = (this.data.table.pattern[lane] ?? "").split("*");
    return parts.length === 2 ? parts.join(name) : name;
  }

  /** The group at the top of the tree that a lane is in. */
  private root(lane: number): number {
    const { parent } = this.data.table;
    while (parent[lane]! >= 0) lane = parent[lane]!;
    return lane;
  }

  /** What is counted: what is wanted or, without that, what the trace's own tool shows. */
  private counted(wanted: Counted | undefined): Counted {
    if (wanted) return wanted;
    return hasSpans(this.data) && !this.data.info.samples_first ? "spans" : "samples";
  }

  private flame(wanted: Counted | undefined, from: number, to: number, lanes: Set<number> | null): Flame {
    const { data } = this;
    const of = this.counted(wanted);
    const { tree, unit, idle } = of === "spans" ? { tree: spanTree(data, from, to, lanes), unit: "ns", idle: 0 } : sampledTree(data, from, to, lanes);
    return {
      unit,
      of,
      names: [...tree.names],
      parent: [...tree.parent],
      name: [...tree.name],
      total: [...tree.value],
      self: [...tree.own],
      count: [...tree.count],
      dropped: 0,
      idle,
    };
  }

  // finding ---------------------------------------------------------------------------------------

  private hit(row: Row, box: number): Hit {
    const { data } = this;
    const kind = data.table.kind[row.lane]!;
    if (kind === "packed") {
      const item = data.itemOf(row, box);
      return { kind: "entity", lane: row.lane, row: row.row, name: data.info.entities[row.itemEntities![item]!]!, start_ns: this.ns(data.start[row.items![item]!]!), end_ns: this.ns(data.end(row.items![item + 1]! - 1)), span: null };
    }
    return { kind: kind === "state" ? "state" : "span", lane: row.lane, row: row.row, name: data.info.names[data.name[box]!]!, start_ns: this.ns(data.start[box]!), end_ns: this.ns(data.end(box)), span: kind === "state" ? null : box };
  }

  /** Finds what contains a text, or has it as its name: the longest, the nearest before and after a time, or the first of all. */
  private search(asked: Asked, from: number, to: number): SearchResult {
    const { data } = this;
    const [text, limit, isName, isLongest] = [String(asked.text), Number(asked.limit ?? 100), asked.whole === 1, asked.longest === 1];
    const wanted = text.toLowerCase();
    const contains = (each: string) => (isName ? withoutAddresses(each) === text : each.toLowerCase().includes(wanted));
    const named = data.info.names.map(contains);
    const entities = data.info.entities.map(contains);
    const tags = data.info.tags.map((tag) => !isName && contains(JSON.stringify(tag)));
    const texts = data.texts.map((each) => !isName && contains(each));
    const tag = data.columns.get("tag");
    const argument = data.columns.get("argument");
    const lanes = this.lanes(asked.lanes);
    const filter = String(asked.filter ?? "").toLowerCase();
    const { name, handle } = data.table;
    const isSearched = name.map((each, lane) => (!lanes || lanes.has(lane)) && (!filter || isCalled(each!, handle[lane]!, filter)));
    const bins = new Array<number>(BINS).fill(0);
    const hits: { time: number; row: Row; box: number }[] = [];
    for (const row of data.rows) {
      if (!isSearched[row.lane]) continue;
      for (let box = row.first; box < row.last; box++) {
        let isHit = named[data.name[box]!]! || (tag?.[box] ? tags[tag[box]! - 1]! : false) || (argument?.[box] ? texts[argument[box]! - 1]! : false);
        if (!isHit && row.items) {
          const item = data.itemOf(row, box);
          isHit = row.items[item] === box && entities[row.itemEntities![item]!]!;
        }
        const time = data.start[box]!;
        if (!isHit || time >= to || data.end(box) < from) continue;
        hits.push({ time, row, box });
        bins[Math.max(0, Math.min(BINS - 1, Math.floor(((time - from) / (to - from)) * BINS)))]!++;
      }
    }
    const lengthOf = ({ box }: { box: number }) => data.end(box) - data.start[box]!;
    hits.sort((a, b) => (isLongest && lengthOf(b) - lengthOf(a)) || a.time - b.time);
    let first = 0;
    if (asked.around !== undefined && !isLongest) {
      const around = this.time(asked.around);
      const after = hits.findIndex(({ time }) => time >= around);
      first = Math.max(0, (after < 0 ? hits.length : after) - Math.floor(limit / 2));
    }
    const characters = Number(asked.texts ?? 0);
    const known = hits.slice(first, first + limit).map(({ row, box }): Hit => {
      const code = argument?.[box] ?? 0;
      const said = code ? data.texts[code - 1]! : tag?.[box] ? JSON.stringify(this.tag(box)) : "";
      return { ...this.hit(row, box), ...(data.open.has(box) ? { unfinished: true } : {}), ...(characters && said ? { arguments: said.slice(0, characters) } : {}) };
    });
    return { count: hits.length, names: [], hits: known, first, rest: hits.length - known.length, bins };
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

  /** The arrows of a lane, or of one of its rows, in [from, to], with what is at both ends. */
  private arrows(from: number, to: number, lane: number, row: number | null): Arrows {
    const found = this.flows(from, to + 1, new Set([lane]), MOST_ROWS);
    const own = row === null ? found.flows : found.flows.filter((flow) => (flow.from_lane === lane && flow.from_row === row) || (flow.to_lane === lane && flow.to_row === row));
    const flows = own.slice(0, MOST_ARROWS).map((flow) => ({ ...flow, from_name: this.nameAt(flow.from_lane, flow.from_row, flow.from_ns), to_name: this.nameAt(flow.to_lane, flow.to_row, flow.to_ns) }));
    return { flows, rest: own.length - flows.length };
  }

  /** What a lane does at a time: its state, or the innermost span of its thread. */
  private nameAt(lane: number | null, row: number, ns: string): string | null {
    if (lane === null) return null;
    const { data } = this;
    const isSpans = data.table.kind[lane] === "stack";
    const rows = isSpans ? data.rowsOfThread(lane) : [data.ofLane.get(lane)?.[row]];
    const time = this.time(ns);
    let best = -1;
    for (const each of rows) {
      if (!each) continue;
      for (let box = data.firstEndingAfter(each, time); box < each.last && data.start[box]! <= time; box++) if (best < 0 || data.start[box]! >= data.start[best]!) best = box;
    }
    return best < 0 ? null : data.info.names[data.name[best]!]!;
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

/** Bars as hundredths of the highest. */
function heights(bars: Float64Array): number[] {
  const most = Math.max(...bars);
  return Array.from(bars, (each) => (most > 0 ? Math.max(0, Math.ceil(each * (100 / most) - ROUNDING)) : 0));
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

/** All quantiles of sorted durations, by nearest rank. */
function quantiles(sorted: Float64Array): Figures {
  const found: Figures = {};
  for (const { key, percent } of FIGURES) {
    if (percent !== null) found[key] = String(sorted[Math.max(0, Math.ceil((percent * sorted.length) / 100) - 1)]);
  }
  return found;
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

/** Rounded as the command rounds: a half to the even number. */
function toEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}
