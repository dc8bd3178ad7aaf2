/** The columns inside a one-file page, decoded: boxes in rows, counters, samples, instants and arrows. */

import { mergedNames } from "../shared/addresses";
import type { Conclusion, Finding, LaneTable } from "./protocol";

export interface ColumnInfo {
  width: number;
  count: number;
}

export interface EmbeddedFile {
  origin_ns: string;
  boxes: number;
  rows: { lane: number[]; row: number[]; count: number[] };
  names: string[];
  /** Of names that are states: the index of the name, its class and its place in the stack. */
  states: [name: number, of: string | null, rank: number][];
  entities: string[];
  tags: Record<string, unknown>[];
  frames: string[];
  /** Whether samples are counted before spans, as by the trace's own tool. */
  samples_first: boolean;
  counters: { lane: number[]; count: number[] };
  samples: { lane: number[]; count: number[] };
  points: number;
  flows: number;
  columns: Record<string, ColumnInfo>;
  missing: string | null;
  conclusions?: Conclusion[];
  summary?: string;
  findings?: Finding[];
}

/** Boxes of one row of a lane: [first, last) of the columns. */
export interface Row {
  lane: number;
  row: number;
  first: number;
  last: number;
  /** Of a packed lane, where each entity's boxes begin; ends with `last`. */
  items: Int32Array | null;
  itemEntities: Int32Array | null;
}

type Numbers = Float64Array | Uint32Array | Uint16Array | Uint8Array;

/** Of a box that is inside the one of the row above that covers it. */
const ABOVE = -2;

async function inflate(text: string): Promise<Uint8Array> {
  const decode = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  const bytes = decode ? decode.call(Uint8Array, text) : Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Integers from their planes of bytes, the lowest first; exact below 2^53. */
function integers(bytes: Uint8Array, { width, count }: ColumnInfo): Numbers {
  if (width === 1) return bytes;
  // as narrow as they are: a page may have millions of each
  const column = width === 2 ? new Uint16Array(count) : width <= 4 ? new Uint32Array(count) : new Float64Array(count);
  let scale = 1;
  for (let plane = 0; plane < width; plane++, scale *= 256) {
    const base = plane * count;
    for (let at = 0; at < count; at++) column[at]! += bytes[base + at]! * scale;
  }
  return column;
}

/** Boxes from the steps between them, in zigzag. */
function decoded(steps: Numbers): Int32Array {
  const boxes = new Int32Array(steps.length);
  let box = 0;
  for (let at = 0; at < steps.length; at++) {
    const step = steps[at]!;
    box += step % 2 ? -(step + 1) / 2 : step / 2;
    boxes[at] = box + ABOVE;
  }
  return boxes;
}

function doubles(bytes: Uint8Array, { count }: ColumnInfo): Float64Array {
  const raw = new Uint8Array(8 * count);
  for (let plane = 0; plane < 8; plane++) for (let at = 0; at < count; at++) raw[8 * at + plane] = bytes[plane * count + at]!;
  return new Float64Array(raw.buffer);
}

/** The samples of a lane; `idle` is 1 for those of idle CPUs, and 2 for other ones of the idle task. */
export interface Samples {
  time: Float64Array;
  weight: Numbers;
  stack: Numbers | null;
  counted: Numbers | null;
  idle: Numbers | null;
}

export class Data {
  readonly originNs: bigint;
  /** In nanoseconds since the origin. */
  readonly start: Float64Array;
  private readonly length: Numbers;
  readonly name: Numbers;
  /** The names without addresses, as statistics have them. */
  readonly merged: ReturnType<typeof mergedNames>;
  readonly rows: Row[] = [];
  /** By lane, its rows in order. */
  readonly ofLane = new Map<number, Row[]>();
  readonly counters = new Map<number, { time: Float64Array; value: Float64Array }>();
  readonly samples = new Map<number, Samples>();
  readonly points: { time: Float64Array; lane: Numbers; name: Numbers };
  readonly texts: string[];
  /** The spans that have no end in the trace. */
  readonly open: ReadonlySet<number>;
  /** By name, the class of a state and its place in the stack. */
  readonly states: ReadonlyMap<string, { of: string | null; rank: number }>;
  /** The box that each is inside, -1 outside of all; null where rows show it for every box. */
  private readonly parents: Int32Array | null;

  private constructor(
    readonly info: EmbeddedFile,
    readonly table: LaneTable,
    readonly columns: Map<string, Numbers>,
    bytes: ReadonlyMap<string, Uint8Array>,
  ) {
    this.originNs = BigInt(info.origin_ns);
    this.merged = mergedNames(info.names);
    this.start = new Float64Array(info.boxes);
    this.name = this.column("name", info.boxes);
    const gap = this.column("gap", info.boxes);
    this.length = this.column("length", info.boxes);
    const entity = columns.get("entity") ?? null;
    let first = 0;
    let packed = 0;
    info.rows.lane.forEach((lane, at) => {
      const last = first + info.rows.count[at]!;
      let time = 0;
      for (let box = first; box < last; box++) {
        this.start[box] = time + gap[box]!;
        time = this.end(box);
      }
      const row: Row = { lane, row: info.rows.row[at]!, first, last, items: null, itemEntities: null };
      if (table.kind[lane] === "packed") {
        const starts: number[] = [];
        const entities: number[] = [];
        for (let box = first; box < last; box++, packed++) {
          const code = entity?.[packed] ?? 0;
          if (box > first && code === entities.at(-1)) continue;
          starts.push(box);
          entities.push(code);
        }
        row.items = Int32Array.from([...starts, last]);
        row.itemEntities = Int32Array.from(entities);
      }
      this.rows.push(row);
      const rows = this.ofLane.get(lane);
      if (rows) rows[row.row] = row;
      else {
        const made: Row[] = [];
        made[row.row] = row;
        this.ofLane.set(lane, made);
      }
      first = last;
    });
    columns.delete("gap");
    this.states = new Map(info.states.map(([name, of, rank]) => [info.names[name]!, { of, rank }]));
    this.parents = columns.has("parent") ? decoded(columns.get("parent")!) : null;
    columns.delete("parent");
    this.readCounters(bytes);
    this.readSamples();
    const time = this.sums("point_gap", info.points);
    this.points = { time, lane: this.column("point_lane", info.points), name: this.column("point_name", info.points) };
    this.open = new Set(this.sums("open", info.columns.open?.count ?? 0));
    const texts = bytes.get("texts");
    this.texts = texts ? (JSON.parse(new TextDecoder().decode(texts)) as string[]) : [];
  }

  static async read(info: EmbeddedFile, table: LaneTable, texts: Record<string, string>): Promise<Data> {
    const columns = new Map<string, Numbers>();
    const bytes = new Map<string, Uint8Array>();
    for (const [name, column] of Object.entries(info.columns)) {
      const raw = texts[name] === undefined ? new Uint8Array(column.width * column.count) : await inflate(texts[name]);
      delete texts[name];
      if (raw.length !== column.width * column.count) throw new Error(`the column ${name} of this page is damaged`);
      if (name === "texts" || name === "counter_value") bytes.set(name, raw);
      else columns.set(name, integers(raw, column));
    }
    return new Data(info, table, columns, bytes);
  }

  column(name: string, count: number): Numbers {
    return this.columns.get(name) ?? new Uint32Array(count);
  }

  private sums(name: string, count: number): Float64Array {
    const sums = Float64Array.from(this.column(name, count));
    for (let at = 1; at < count; at++) sums[at]! += sums[at - 1]!;
    return sums;
  }

  private readCounters(bytes: ReadonlyMap<string, Uint8Array>): void {
    const { lane, count } = this.info.counters;
    const all = count.reduce((sum, each) => sum + each, 0);
    const gap = this.column("counter_gap", all);
    const raw = bytes.get("counter_value");
    const value = raw ? doubles(raw, { width: 8, count: all }) : new Float64Array(all);
    let first = 0;
    lane.forEach((each, at) => {
      const last = first + count[at]!;
      const time = new Float64Array(count[at]!);
      for (let index = first, sum = 0; index < last; index++) time[index - first] = sum += gap[index]!;
      this.counters.set(each, { time, value: value.subarray(first, last) });
      first = last;
    });
  }

  private readSamples(): void {
    const { lane, count } = this.info.samples;
    const all = count.reduce((sum, each) => sum + each, 0);
    const gap = this.column("sample_gap", all);
    const weight = this.column("sample_weight", all);
    const stack = this.columns.get("sample_stack") ?? null;
    const counted = this.columns.get("sample_counted") ?? null;
    const idle = this.columns.get("sample_idle") ?? null;
    let first = 0;
    lane.forEach((each, at) => {
      const last = first + count[at]!;
      const time = new Float64Array(count[at]!);
      for (let index = first, sum = 0; index < last; index++) time[index - first] = sum += gap[index]!;
      this.samples.set(each, { time, weight: weight.subarray(first, last), stack: stack && stack.subarray(first, last), counted: counted && counted.subarray(first, last), idle: idle && idle.subarray(first, last) });
      first = last;
    });
  }

  /** Whether the boxes of a row are inside of others than those of the row above. */
  isTangled(row: Row): boolean {
    return this.parents !== null && this.parents[row.first] !== ABOVE;
  }

  /** The box that one of a tangled row is inside; -1 if it is in none. */
  parentOf(box: number): number {
    return this.parents![box]!;
  }

  /** The outermost of the boxes that one of a tangled row is inside. */
  outermostOf(box: number): number {
    while (this.parents && this.parents[box]! >= 0) box = this.parents[box]!;
    return box;
  }

  /** The rows of the spans of a lane, and of all others of its thread. */
  rowsOfThread(lane: number): Row[] {
    const { kind, handle } = this.table;
    if (kind[lane] !== "stack") return this.ofLane.get(lane) ?? [];
    return this.rows.filter((row) => kind[row.lane] === "stack" && handle[row.lane] === handle[lane]);
  }

  /** The first box of a row that ends after a time, or is empty and at it. */
  firstEndingAfter(row: Row, time: number): number {
    let [low, high] = [row.first, row.last];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.end(middle) > time || this.start[middle]! >= time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The item of a packed row that has a box. */
  itemOf(row: Row, box: number): number {
    let [low, high] = [0, row.items!.length - 2];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (row.items![middle]! <= box) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** How much of a box is covered: less than all of it if it stands for several. */
  coverage(box: number): number {
    const covered = this.columns.get("covered");
    if (!covered || this.column("merged", this.info.boxes)[box] === 1) return 1;
    const length = this.length[box]!;
    return length ? covered[box]! / length : 1;
  }

  /** When a box ends, as `start`. */
  end(box: number): number {
    return this.start[box]! + this.length[box]!;
  }
}

/** The first index whose value is at least a limit; the column ascends. */
export function lowerBound(column: ArrayLike<number>, value: number): number {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
