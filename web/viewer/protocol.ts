/** What the server answers, or the page itself for data inside it; see docs/reference/tiles.md. */

import type { FIGURES } from "../shared/figures";
import type { HeadZone } from "../shared/format";
import type { TourInfo } from "./tour";

/** An integer of nanoseconds as decimal digits. */
export type Ns = string;

export interface FileInfo {
  name: string;
  /** Empty if no command can name it. */
  path: string;
  /** The options with which it is read. */
  options: string[];
  what: string;
  status: "reading" | "ready" | "following" | "failed";
  read_bytes: number;
  total_bytes: number;
  error: string | null;
  /** What happened to the file since it was read, such as `was deleted`. */
  changed?: string | null;
  layout: number | null;
  version: number;
  start_ns: Ns | null;
  end_ns: Ns | null;
  offset_ns: Ns;
  aligned: string;
  clock: { kind: string | null; host: string | null; utc_at_origin_ns: Ns | null };
  lost_ns: [Ns, Ns][];
  lost_rest: number;
  /** What is missing in these ranges: only samples, or events (null). */
  lost_of: "samples" | null;
  anomalies: { name: string; count: number; explanation: string }[];
  /** Where nearly everything begins, if that is a small part; how much begins elsewhere. */
  core: { start_ns: Ns; end_ns: Ns; before: number; after: number; count: number } | null;
  entities: number;
  facts: Record<string, string>;
  /** By what statistics can be, besides those of states and spans. */
  groupings: string[];
  counts: Record<string, number>;
}

export interface SessionInfo {
  /** Differs between servers. */
  session?: string;
  title: string;
  files: FileInfo[];
  axis: { start_ns: Ns; end_ns: Ns } | null;
  notes: { writable: boolean; reason: string | null };
  tour?: TourInfo;
  /** The zone in which times are shown first. */
  zone?: HeadZone;
  /** Whether it answers SQL. */
  sql?: boolean;
  /** What the two files are compared for, the first of which is before. */
  comparison?: ComparisonInfo;
}

/** A row of a comparison, as `meantime.query.compare` has it. */
export interface ComparedRow {
  key: string[];
  /** Its figures, in order of `figures`; null if it does not occur there. */
  before: (number | null)[] | null;
  after: (number | null)[] | null;
  /** The compared figure of each run. */
  runs_before: (number | null)[];
  runs_after: (number | null)[];
  change: number | null;
  relative: number | null;
  interval: [number, number] | null;
  /** How likely the change is if nothing changed, corrected for the number of rows. */
  corrected: number | null;
  part: number | null;
  noticeable: boolean;
}

export interface ComparisonInfo {
  by: string;
  names: string[];
  figure: string;
  figures: string[];
  unit: string;
  /** How many runs each side has, and which of them is shown. */
  runs: [number, number];
  shown: [number, number];
  /** What is at one time: the `start`, the `end`, or where something of this name first begins. */
  align: string;
  /** By side and run the words that name a run in a command, then those of the comparison; null if no command can. */
  inputs: [before: string[][], after: string[][], options: string[]] | null;
  /** What the last part of a key is in lanes: the name of a state or of spans; null if it is neither. */
  lanes_of: "state" | "span" | null;
  /** In the light and the dark theme. */
  colors: { more: [string, string]; less: [string, string] };
  sentences: string[];
  adds_up: boolean;
  /** The compared ranges, on the axis; null if they are all of the files. */
  range_ns: [Ns, Ns] | null;
  rows: ComparedRow[];
  /** How many rows there are besides. */
  rest: number;
  /** Lanes that are the same one in both files. */
  pairs: [before: number, after: number][];
}

/** Of each lane, how much of each bin something takes. */
export interface LaneShares {
  lanes: number[];
  shares: number[][];
}

/** The first rows that a statement returns. */
export interface Rows {
  columns: [name: string, kind: "number" | "text"][];
  rows: (string | null)[][];
  more: boolean;
}

export type Kind = "group" | "state" | "packed" | "stack" | "async" | "counter" | "density" | "points";

export interface DeclaredState {
  name: string;
  color: string | null;
  class: string | null;
  rank: number;
}

export interface LaneTable {
  layout: number;
  count: number;
  parent: number[];
  kind: Kind[];
  /** Null where the names in a part of a large group have yet to be read, as are `detail` and `handle`. */
  name: (string | null)[];
  detail: (string | null)[];
  rows: number[];
  block: number[];
  quark: number[];
  handle: (string | null)[];
  /** What `meantime stats --lane` takes for it; null if that is the handle. */
  pattern: (string | null)[];
  entities: number[];
  /** How long the entities of a packed lane lived, as far as that is known; p99 of 20 and more. */
  median_ns: (Ns | null)[];
  p99_ns: (Ns | null)[];
  unit: string[];
  states: DeclaredState[];
  /** Whether there is what a scheduler says of threads. */
  scheduled: boolean;
  estimated: number[];
}

/** What some lanes are called. */
export interface LaneNames {
  lane: number[];
  name: string[];
  detail: string[];
  handle: string[];
}

export interface StateItem {
  name: string;
  start_ns: Ns;
  end_ns: Ns;
  ongoing: boolean;
  tag: Record<string, unknown> | null;
}

export interface SpanItem {
  name: string;
  category?: string;
  start_ns: Ns;
  end_ns: Ns;
  self_ns?: Ns;
  depth?: number;
  span?: number;
  /** Of spans whose number the trace has: not in one-file pages, which number what they contain. */
  handle?: string;
  parent?: number | null;
  unfinished?: boolean;
  thread?: string;
  arguments?: Record<string, unknown> | string | null;
  children?: number;
  samples?: number;
}

export interface EntityItem {
  name: string;
  entity: number;
  path: string;
  handle: string;
  start_ns: Ns;
  end_ns: Ns;
  state: StateItem | null;
  times: { state: string; time_ns: Ns }[];
  tag: Record<string, unknown> | null;
}

export interface CounterItem {
  value: number | null;
  start_ns: Ns;
  end_ns: Ns;
  least: number | null;
  greatest: number | null;
  mean: number | null;
}

export interface DensityItem {
  samples: number;
  weight: number;
  unit: string;
  functions: { name: string; count: number }[];
}

export interface PointInfo {
  time_ns: Ns;
  lane: number | null;
  path: string;
  name: string;
  arguments: Record<string, unknown> | string | null;
}

/** What is at a point: exact. */
export interface At {
  kind: string;
  lane: number;
  row: number;
  handle: string;
  path: string;
  in_width: { count: number; covered_ns: Ns; share: number } | null;
  shares: { state: string | null; time_ns: Ns; share: number }[] | null;
  item: StateItem | SpanItem | EntityItem | CounterItem | DensityItem | { points: PointInfo[]; rest: number } | null;
}

type Of<Form> = Extract<(typeof FIGURES)[number], { form: Form }>["key"];

export type FigureKey = Of<"time" | "count" | "share">;

/** The figures that a row may have; times are null where there is nothing to count. */
export type Figures = { [Key in Of<"time">]?: Ns | null } & { [Key in Of<"count" | "share">]?: number };

export interface StatisticsRow extends Figures {
  kind?: string;
  /** Null of spans without a category. */
  key: string | null;
  entity?: string;
  count: number;
  covered_ns?: Ns;
  /** Of spans, how long the longest is with what is outside of the range. */
  whole_max_ns?: Ns;
  histogram?: [number, number[]] | null;
  /** How many spans are open at once over the range, 0 to 100. */
  bars?: number[];
  self?: number;
  total?: number;
  /** Of requests and tasks: their time in each state, and in steps that blocked a loop, by their code. */
  states?: { state: string; time_ns: Ns; class: string | null; rank: number }[];
  blocks?: { code: string; time_ns: Ns }[];
}

export interface Statistics {
  by: string;
  range_ns: [Ns, Ns];
  rows: StatisticsRow[];
  rest: number;
  /** By name, whether spans or samples are counted. */
  of?: Counted;
  /** Of samples, what their weights are; `ns` is time. */
  unit?: string;
  /** How many samples of idle CPUs are left out. */
  idle?: number;
  /** Whether these are states that samples show. */
  estimated?: boolean;
}

/** How much loops ran in a range, and how many requests there were; null without such lanes. */
export interface Summary {
  loop_ns: Ns | null;
  running_ns: Ns | null;
  requests: number | null;
}

export type Counted = "spans" | "samples";

export interface Flame {
  unit: string;
  /** What is counted: the wanted of the two or, without that, what the trace's own tool shows. */
  of: Counted;
  names: string[];
  parent: number[];
  name: number[];
  total: number[];
  self: number[];
  count: number[];
  dropped: number;
  /** How many samples of idle CPUs are left out. */
  idle: number;
}

export interface Heat {
  origin_ns: Ns;
  period_ns: Ns;
  rows: number;
  value: string;
  columns: [number, number];
  cells: [number, number, number][];
  recorded: [number, number][];
  lost_ns: [Ns, Ns][];
  /** The states that are counted; none for spans and samples. */
  states?: string[];
}

export interface Hit {
  kind: string;
  lane: number | null;
  row: number;
  name: string;
  start_ns: Ns;
  end_ns: Ns;
  span: number | null;
  /** Whether the trace has no end of it; only hits of a search have it. */
  unfinished?: boolean;
  /** What was searched for arguments or tags, as text that may be cut; only hits have it, and only where they have any. */
  arguments?: string;
}

/** A request to services, which is its outermost span. */
export interface RequestOfService extends Hit {
  /** Which of the kinds it is. */
  of: number;
  service: string;
  trace_id: string;
  /** The service and operation on which most of its time depended, and how much. */
  critical: string;
  critical_ns: Ns;
  spans: number;
  services: number;
  failed: number;
}

export interface RequestsOfServices {
  count: number;
  rest: number;
  kinds: { name: string; count: number; median_ns: Ns }[];
  requests: RequestOfService[];
}

export interface CallOfRequest extends Hit {
  depth: number;
  service: string;
  failed: boolean;
  /** Whether it waits for another service. */
  waits: boolean;
  /** How long the request depended on it itself. */
  own_ns: Ns;
}

export interface RequestWithCalls {
  trace_id: string;
  name: string;
  /** What it spent more time on than usual; null if it is not slow. */
  sentence: string | null;
  calls: CallOfRequest[];
  rest: number;
  /** What it depended on: the parts of its time and their calls, -1 for one that is not listed. */
  path: { start_ns: Ns[]; end_ns: Ns[]; call: number[] };
}

/** What a text says: a time, or the ends of a range. */
export interface TimeOf {
  start_ns: Ns;
  end_ns: Ns | null;
}

export interface SearchResult {
  count: number;
  names: { name: string; kind: string; count: number }[];
  hits: Hit[];
  /** How many are before these. */
  first: number;
  rest: number;
  bins: number[];
  searched?: { arguments: boolean };
}

/** What all lanes do at a time: equal things of an outermost lane together. */
export interface Moment {
  time_ns: Ns;
  groups: { lane: number; name: string; kind: string; count: number; things: (Hit & { who: string | null })[] }[];
}

/** By lane, when it is first active, and for how long it is in a state. */
export interface Activity {
  first_ns: (Ns | null)[];
  time_ns: Ns[];
}

/** The critical path of a thread: the longest parts, and shares of all. */
export interface Why {
  thread: number;
  range_ns: [Ns, Ns];
  threads: { title: string; tid: string; lane: number | null }[];
  shares: { thread: number; state: string; because: string; parts: number; total_ns: Ns; share: number; max_ns: Ns }[];
  rest: number;
  path: { start_ns: Ns[]; end_ns: Ns[]; thread: number[]; states: string[]; state: number[]; reasons: string[]; because: number[] };
  parts: number;
}

export interface Flow {
  from_ns: Ns;
  from_lane: number | null;
  from_row: number;
  to_ns: Ns;
  to_lane: number | null;
  to_row: number;
  name: string;
}

/** How long something took among the others of its name, or of the entities of its lane. */
export interface Standing {
  of: string;
  count: number;
  /** 1 is the longest. */
  rank: number;
  total_ns: Ns;
  min_ns: Ns;
  median_ns: Ns;
  max_ns: Ns;
  histogram: [number, number[]];
  longest: Hit;
  /** Of spans, how many have no end. */
  unfinished?: number;
}

/** Arrows with what is at both ends. */
export interface Arrows {
  flows: (Flow & { from_name: string | null; to_name: string | null })[];
  rest: number;
}

/** What is around a thing. */
export interface Context {
  /** The outermost first. */
  callers: Hit[];
  /** The spans directly inside, or the states of an entity: the longest first. */
  inside: { count: number; hits: Hit[] };
  standing: Standing;
  /** What its thread did meanwhile, and the CPUs on which it ran. */
  states: { state: string; time_ns: Ns; share: number }[];
  cpus: { cpu: string; time_ns: Ns }[];
  flows: Arrows;
  previous: Hit | null;
  next: Hit | null;
}

/** A sentence about places of the trace. */
export interface Placed {
  sentence: string;
  /** Where it is, the worst first. */
  ranges: [Ns, Ns][];
  /** The paths of what it is about, and their lanes. */
  rows: string[];
  lanes: (number | null)[];
  lane_rows: number[];
}

/** What limited the trace, as `meantime.query.explain` has it. */
export interface Conclusion extends Placed {
  id: string;
}

/** Something that stands out, as `meantime.query.findings` has it. */
export interface Finding extends Placed {
  kind: string;
  lost_ns: Ns;
  count: number;
  /** The id of the conclusion that explains it. */
  cause: string | null;
}

export interface Findings {
  conclusions: Conclusion[];
  /** What to say where nothing limited it. */
  summary: string;
  findings: Finding[];
}

export interface Note {
  id: string;
  text: string;
  file: number;
  start_ns: Ns;
  end_ns: Ns;
  handle?: string;
  made: string;
}

export type Column = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

/** How wide a tile is. */
export const BINS = 512;

/** A tile as it came: arrays by name, and what they mean. */
export interface RawTile {
  kind: Kind;
  start_ns: Ns;
  bin_ns: Ns;
  bins: number;
  lanes: number[];
  damaged: string | null;
  /** The ranges of bins that could not be read; all if it is not there. */
  damaged_bins?: [number, number][];
  states?: string[];
  /** Of each state, its class and its place in the stack. */
  classes?: (string | null)[];
  ranks?: number[];
  names?: string[];
  /** What items handle. */
  requests?: string[];
  row_offsets?: number[];
  unit?: string;
  columns: Record<string, Column>;
  /** In memory. */
  bytes: number;
}

const MAGIC = 0x3154544d; // MTT1
const TYPES = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

interface Directory extends Omit<RawTile, "columns" | "bytes"> {
  arrays: Record<string, { type: keyof typeof TYPES; shape: number[]; at: number }>;
}

/** Reads a tile; throws if it is none. */
export function readTile(buffer: ArrayBuffer): RawTile {
  const head = new DataView(buffer);
  if (head.byteLength < 8 || head.getUint32(0, true) !== MAGIC) throw new Error("the server sent no tile");
  const text = new TextDecoder().decode(new Uint8Array(buffer, 8, head.getUint32(4, true)));
  const { arrays, ...rest } = JSON.parse(text) as Directory;
  const columns: Record<string, Column> = {};
  for (const [name, { type, shape, at }] of Object.entries(arrays)) {
    const count = shape.reduce((size, each) => size * each, 1);
    columns[name] = new TYPES[type](buffer, at, count);
  }
  return { ...rest, columns, bytes: buffer.byteLength };
}
