/** Tiles of the data inside a page, as a server would send them. */

import type { Data, Row } from "./embedded-data";
import { lowerBound } from "./embedded-data";
import { BINS } from "./protocol";
import type { Column, Kind, RawTile } from "./protocol";

const NO_NAME = 0xffffffff;
/** The load of a group has so many names of spans. */
const MOST_NAMES = 32;
/** The first tags of an entity that may say which request it handles. */
const TAGS_OF_ENTITY = 8;

/** Codes of names in order of their appearance, and the names. */
class Names {
  readonly names: string[] = [];
  private readonly codes = new Map<number, number>();

  constructor(private readonly all: readonly string[]) {}

  code(name: number): number {
    let code = this.codes.get(name);
    if (code === undefined) {
      code = this.names.length;
      this.codes.set(name, code);
      this.names.push(this.all[name]!);
    }
    return code;
  }
}

/** How long a bin is in each state. */
class BinStates {
  private readonly ns = new Map<number, number>();

  add(state: number, ns: number): void {
    this.ns.set(state, (this.ns.get(state) ?? 0) + ns);
  }

  get isEmpty(): boolean {
    return this.ns.size === 0;
  }

  get entries(): [number, number][] {
    return [...this.ns];
  }

  clear(): void {
    this.ns.clear();
  }

  /** Writes 255ths of a bin: without state, in the three longest, in others. */
  write(binNs: number, shares: Uint8Array, codes: Uint16Array, at: number, names: Names): void {
    const sorted = this.entries.sort((a, b) => b[1] - a[1]);
    let covered = 0;
    let others = 0;
    const part = (ns: number) => (ns > 0 ? Math.max(1, Math.floor((255 * ns) / binNs)) : 0);
    sorted.forEach(([state, ns], index) => {
      covered += ns;
      if (index < 3) {
        shares[5 * at + 1 + index] = part(ns);
        codes[3 * at + index] = names.code(state);
      } else others += ns;
    });
    shares[5 * at] = part(binNs - covered);
    shares[5 * at + 4] = part(others);
  }
}

export class Tiles {
  constructor(private readonly data: Data) {}

  tile(kind: Kind, block: number, level: number, index: bigint): RawTile {
    const bin = 2 ** level;
    const startNs = index * BigInt(BINS) * BigInt(bin);
    // in the data's time, which counts from its origin
    const from = Number(startNs - this.data.originNs);
    const { table } = this.data;
    const lanes = kind === "group" ? [block] : table.kind.flatMap((each, lane) => (each === kind && table.block[lane] === block ? [lane] : []));
    const made = this.make(kind, lanes, from, bin);
    const bytes = Object.values(made.columns).reduce((sum, column) => sum + column.byteLength, 0);
    return { kind, start_ns: String(startNs), bin_ns: String(bin), bins: BINS, lanes, damaged: null, bytes, ...made };
  }

  private make(kind: Kind, lanes: number[], from: number, bin: number): Partial<RawTile> & { columns: Record<string, Column> } {
    switch (kind) {
      case "state":
        return this.states(lanes, from, bin);
      case "packed":
        return this.packed(lanes, from, bin);
      case "stack":
      case "async":
        return this.spans(lanes, from, bin);
      case "counter":
        return this.counters(lanes, from, bin);
      case "density":
        return this.density(lanes, from, bin);
      case "points":
        return this.instants(lanes, from, bin);
      case "group":
        return this.group(lanes[0]!, from, bin);
    }
  }

  /** Calls with each bin of a row in which there is any state. */
  private eachBin(row: Row, from: number, bin: number, visit: (at: number, states: BinStates) => void): void {
    const { data } = this;
    const states = new BinStates();
    let current = -1;
    const flush = () => {
      if (current >= 0 && !states.isEmpty) visit(current, states);
      states.clear();
    };
    const end = from + BINS * bin;
    for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < end; box++) {
      const [low, high] = [Math.max(from, data.start[box]!), Math.min(end, data.end(box))];
      const part = data.coverage(box);
      const name = data.name[box]!;
      const last = Math.min(BINS - 1, Math.floor((high - from - 1) / bin));
      for (let at = Math.floor((low - from) / bin); at <= last; at++) {
        if (at !== current) {
          flush();
          current = at;
        }
        states.add(name, part * (Math.min(high, from + (at + 1) * bin) - Math.max(low, from + at * bin)));
      }
    }
    flush();
  }

  private statesOf({ names }: Names): { states: string[]; classes: (string | null)[]; ranks: number[] } {
    const known = names.map((name) => this.data.states.get(name));
    return { states: names, classes: known.map((state) => state?.of ?? null), ranks: known.map((state) => state?.rank ?? 0) };
  }

  private rowsOf(lane: number): Row[] {
    return (this.data.ofLane.get(lane) ?? []).filter(Boolean);
  }

  private states(lanes: number[], from: number, bin: number): ReturnType<Tiles["make"]> {
    const names = new Names(this.data.info.names);
    const shares = new Uint8Array(lanes.length * BINS * 5);
    for (let at = 0; at < lanes.length * BINS; at++) shares[5 * at] = 255;
    const codes = new Uint16Array(lanes.length * BINS * 3);
    lanes.forEach((lane, index) => {
      for (const row of this.rowsOf(lane)) this.eachBin(row, from, bin, (at, states) => states.write(bin, shares, codes, index * BINS + at, names));
    });
    return { columns: { shares, codes }, ...this.statesOf(names) };
  }

  private offsets(lanes: number[]): number[] {
    const offsets = [0];
    for (const lane of lanes) offsets.push(offsets.at(-1)! + Math.max(1, this.data.table.rows[lane]!));
    return offsets;
  }

  private packed(lanes: number[], from: number, bin: number): ReturnType<Tiles["make"]> {
    const { data } = this;
    const names = new Names(data.info.entities);
    const states = new Names(data.info.names);
    const requests = new Map<string, number>();
    const offsets = this.offsets(lanes);
    const items: number[][] = [];
    const cells: [row: number, bin: number][] = [];
    const shares: number[] = [];
    const codes: number[] = [];
    const [oneShares, oneCodes] = [new Uint8Array(5), new Uint16Array(3)];
    const end = from + BINS * bin;
    lanes.forEach((lane, index) => {
      for (const row of this.rowsOf(lane)) {
        const at = offsets[index]! + row.row;
        for (let item = row.first < row.last ? data.itemOf(row, Math.min(row.last - 1, data.firstEndingAfter(row, from))) : 0; item < row.items!.length - 1; item++) {
          const start = data.start[row.items![item]!]!;
          const stop = data.end(row.items![item + 1]! - 1);
          if (start >= end) break;
          if (stop - start < bin || stop <= from) continue;
          const request = this.requestOf(row.items![item]!, row.items![item + 1]!);
          if (request && !requests.has(request)) requests.set(request, requests.size + 1);
          items.push([at, start - from, stop - from, names.code(row.itemEntities![item]!), row.items![item]!, requests.get(request) ?? 0]);
        }
        this.eachBin(row, from, bin, (cell, found) => {
          oneShares.fill(0);
          oneCodes.fill(0);
          found.write(bin, oneShares, oneCodes, 0, states);
          cells.push([at, cell]);
          shares.push(...oneShares);
          codes.push(...oneCodes);
        });
      }
    });
    const column = (field: number) => Float64Array.from(items, (item) => item[field]!);
    const columns = {
      row: Uint32Array.from(column(0)),
      start: column(1),
      end: column(2),
      name: Uint32Array.from(column(3)),
      entity: Uint32Array.from(column(4)),
      request: Uint32Array.from(column(5)),
      cell_row: Uint32Array.from(cells, ([row]) => row),
      cell_bin: Uint16Array.from(cells, ([, at]) => at),
      cell_shares: Uint8Array.from(shares),
      cell_codes: Uint16Array.from(codes),
    };
    return { columns, names: names.names, requests: [...requests.keys()], ...this.statesOf(states), row_offsets: offsets };
  }

  /** The request that an entity handles as the first tags of its boxes say; empty if they do not. */
  private requestOf(first: number, last: number): string {
    const tags = this.data.columns.get("tag");
    if (!tags) return "";
    for (let box = first, seen = 0; box < last && seen < TAGS_OF_ENTITY; box++) {
      if (!tags[box]) continue;
      seen++;
      const { method, path } = this.data.info.tags[tags[box]! - 1]!;
      if (method !== undefined && path !== undefined) return `${method} ${path}`;
    }
    return "";
  }

  private spans(lanes: number[], from: number, bin: number): ReturnType<Tiles["make"]> {
    const { data } = this;
    const names = new Names(data.info.names);
    const offsets = this.offsets(lanes);
    const wide: number[][] = [];
    const cells: { row: number; bin: number; ns: number; name: number; longest: number }[] = [];
    const end = from + BINS * bin;
    lanes.forEach((lane, index) => {
      for (const row of this.rowsOf(lane)) {
        const at = offsets[index]! + row.row;
        for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < end; box++) {
          const [start, stop] = [data.start[box]!, data.end(box)];
          const length = stop - start;
          if (length >= bin && data.coverage(box) === 1) {
            wide.push([at, start - from, stop - from, names.code(data.name[box]!), box]);
            continue;
          }
          const part = data.coverage(box);
          const [low, high] = [Math.max(from, start), Math.min(end, Math.max(stop, start + 1e-3))];
          const last = Math.min(BINS - 1, Math.floor((high - from - 1e-3) / bin));
          for (let cell = Math.floor((low - from) / bin); cell <= last; cell++) {
            const ns = part * Math.max(0, Math.min(high, from + (cell + 1) * bin) - Math.max(low, from + cell * bin));
            const before = cells.at(-1);
            if (before?.row === at && before.bin === cell) {
              before.ns += ns;
              if (length > before.longest) [before.longest, before.name] = [length, data.name[box]!];
            } else cells.push({ row: at, bin: cell, ns, name: data.name[box]!, longest: length });
          }
        }
      }
    });
    const column = (field: number) => Float64Array.from(wide, (each) => each[field]!);
    const columns = {
      row: Uint32Array.from(column(0)),
      start: column(1),
      end: column(2),
      name: Uint32Array.from(column(3)),
      span: Uint32Array.from(column(4)),
      cell_row: Uint32Array.from(cells, ({ row }) => row),
      cell_bin: Uint16Array.from(cells, (cell) => cell.bin),
      cell_ns: Float64Array.from(cells, ({ ns }) => ns),
      cell_name: Uint32Array.from(cells, ({ name }) => names.code(name)),
    };
    return { columns, names: names.names, row_offsets: offsets };
  }

  private counters(lanes: number[], from: number, bin: number): ReturnType<Tiles["make"]> {
    const count = lanes.length * BINS;
    const [least, greatest] = [new Float64Array(count).fill(NaN), new Float64Array(count).fill(NaN)];
    lanes.forEach((lane, index) => {
      const counter = this.data.counters.get(lane);
      if (!counter) return;
      const { time, value } = counter;
      let at = lowerBound(time, from + 1e-3) - 1;
      for (let each = 0; each < BINS; each++) {
        const stop = from + (each + 1) * bin;
        let [low, high] = at >= 0 ? [value[at]!, value[at]!] : [NaN, NaN];
        while (at + 1 < time.length && time[at + 1]! < stop) {
          at++;
          if (!(low <= value[at]!)) low = value[at]!;
          if (!(high >= value[at]!)) high = value[at]!;
        }
        [least[index * BINS + each], greatest[index * BINS + each]] = [low, high];
      }
    });
    return { columns: { least, greatest } };
  }

  /** Samples of lanes, or of all together. */
  private density(lanes: number[], from: number, bin: number, isSum = false): ReturnType<Tiles["make"]> {
    const rows = isSum ? Math.min(1, lanes.length) : lanes.length;
    const count = new Uint32Array(rows * BINS);
    const weight = new Float64Array(rows * BINS);
    lanes.forEach((lane, row) => {
      const index = isSum ? 0 : row;
      const samples = this.data.samples.get(lane);
      if (!samples) return;
      for (let at = lowerBound(samples.time, from); at < samples.time.length; at++) {
        const each = Math.floor((samples.time[at]! - from) / bin);
        if (each >= BINS) break;
        if (samples.counted?.[at] === 0) continue;
        count[index * BINS + each]!++;
        weight[index * BINS + each]! += samples.weight[at]!;
      }
    });
    return { columns: { count, weight }, unit: lanes.length ? this.data.table.unit[lanes[0]!]! : "" };
  }

  private instants(lanes: number[], from: number, bin: number): ReturnType<Tiles["make"]> {
    const { points, info } = this.data;
    const names = new Names(info.names);
    const count = new Uint32Array(lanes.length * BINS);
    const name = new Uint32Array(lanes.length * BINS).fill(NO_NAME);
    const indices = new Map(lanes.map((lane, index) => [lane, index]));
    for (let at = lowerBound(points.time, from); at < points.time.length; at++) {
      const each = Math.floor((points.time[at]! - from) / bin);
      if (each >= BINS) break;
      const index = indices.get(points.lane[at]!);
      if (index === undefined) continue;
      if (!count[index * BINS + each]!++) name[index * BINS + each] = names.code(points.name[at]!);
    }
    return { columns: { count, name }, names: names.names };
  }

  private group(group: number, from: number, bin: number): ReturnType<Tiles["make"]> {
    const { data } = this;
    const { kind } = data.table;
    const below = kind.map((_, lane) => this.isBelow(lane, group));
    const loads = new Map<number, Float32Array>();
    const spans = new Map<number, { load: Float32Array; count: number }>();
    for (const row of data.rows) {
      const isSpans = kind[row.lane] === "stack" || kind[row.lane] === "async";
      // of the spans of a thread, only the outermost
      if (!below[row.lane] || (kind[row.lane] === "stack" && row.row)) continue;
      this.eachBin(row, from, bin, (at, states) => {
        for (const [name, ns] of states.entries) {
          let load = loads.get(name);
          if (isSpans) {
            const found = spans.get(name) ?? { load: new Float32Array(BINS), count: 0 };
            spans.set(name, found);
            found.count++;
            load = found.load;
          } else if (!load) loads.set(name, (load = new Float32Array(BINS)));
          load![at]! += ns / bin;
        }
      });
    }
    const areSpans = new Set([...spans.keys()].filter((name) => !loads.has(name)).map((name) => data.info.names[name]!));
    const rest = new Float32Array(BINS);
    [...spans]
      .sort(([, one], [, other]) => other.count - one.count)
      .forEach(([name, { load }], at) => {
        const sum = at < MOST_NAMES ? loads.get(name) : rest;
        if (sum) load.forEach((amount, each) => (sum[each]! += amount));
        else loads.set(name, load);
      });
    const names = new Names(data.info.names);
    const load = new Float32Array((loads.size + 1) * BINS);
    for (const [name, each] of loads) load.set(each, names.code(name) * BINS);
    load.set(rest, loads.size * BINS);
    const { states, classes, ranks } = this.statesOf(names);
    const sampled = this.density(
      kind.flatMap((each, lane) => (each === "density" && below[lane] ? [lane] : [])),
      from,
      bin,
      true,
    );
    const own = classes.map((each, at) => each ?? (areSpans.has(states[at]!) ? "span" : null));
    return { ...sampled, columns: { load, ...sampled.columns }, states: [...states, ""], classes: [...own, null], ranks: [...ranks, 0] };
  }

  private isBelow(lane: number, group: number): boolean {
    for (let at = lane; at >= 0; at = this.data.table.parent[at]!) if (at === group) return true;
    return false;
  }
}
