/** The data of a heat map: the cells of each name, the division of time, and the columns shown. */

import { readBlock, readHead } from "./blocks";
import { type HeadZone, duration, exact, ticks, utc } from "./format";
import { type Cells, joined, lowerBound, moved, readCells } from "./heat-cells";
import { type Selection, rowsAt } from "./selection";
import type { Chosen } from "./stack-cells";

interface Shade {
  empty: [number, number, number];
  alone: string;
  ramps: string[];
}

export type Mode = "highlight" | "isolate" | "exclude" | "decompose";
export type Method = "rank" | "linear";
type Range = [first: number, last: number];

/** What a click on a finding selects, as `Finding` in finding.py. */
export interface HeadFinding {
  kind: "period" | "stripe" | "gap" | "burst" | "filler" | "apart";
  text: string;
  names: string[];
  span_ns: [string, string] | null;
  /** The first and the last row, if rows are not offsets. */
  rows: Range | null;
}

/** What is in the cells. */
export type Kind = "samples" | "spans" | "states";

/** The parts of the command that draws flame graphs, as `FlameCommand` in command.py. */
export interface HeadCommand {
  kind: Kind;
  file: string;
  event: string | null;
  by: string | null;
  bounds: [string, string];
  offset_ns: string;
  states: string[];
  filter: string | null;
  provider: string | null;
  drawn: string[];
}

/** What rows are, as `Axis` in axis.py; edges of nanoseconds are texts. */
export interface HeadRows {
  kind: "duration" | "utilisation" | "row" | "weekday";
  unit: "ns" | "share" | "name";
  edges?: (string | number)[];
  labels?: string[];
  spacing?: "log" | "linear";
}

interface Head {
  title: string;
  subtitle: string;
  samples: boolean;
  command: HeadCommand | null;
  /** Stacks with less than this are merged into their callers; null without stacks. */
  least: number | null;
  /** Traits with less than this are merged into their attribute; null without traits. */
  least_trait: number | null;
  /** What the stacks are of; null without stacks. */
  holds: Kind | null;
  origin_ns: string;
  /** Where printed times count from: the beginning of the first input. */
  begin_ns: string;
  /** What UTC is at the clock's zero. */
  utc_ns: string | null;
  period_ns: string;
  rows: number;
  /** What rows are; null if they are offsets in their column. */
  y: HeadRows | null;
  columns: number;
  value: string;
  names: string[];
  selected: string[];
  mode: Mode;
  hidden: string[];
  method: Method;
  lock: boolean;
  /** The value of the strongest colour in proportion; null for the largest value. */
  largest: number | null;
  /** The strength of the least value. */
  least_strength: number;
  runs: [number, number][];
  recorded: Range[];
  lost: Range[];
  /** Cells of local times that occur twice. */
  repeated: Range[];
  /** The zone whose local times these are, and from when to when (as the file counts) it is how far ahead. */
  zone: HeadZone | null;
  /** Whether the rules of Cloud Analytics apply, as `Palette.is_cloud` in palette.py. */
  cloud: boolean;
  palette: { light: Shade; dark: Shade };
  notes: string[];
  findings: HeadFinding[];
}

export interface Colors {
  empty: [number, number, number];
  alone: Uint8Array;
  ramps: Uint8Array[];
}

const BREAK_COLUMNS = 3;
const MOST_ROWS = 400;
/** How far apart the names of rows are. */
const NAME_PX = 15;
const MOST_PLACES = 2 ** 20;

export class Model {
  readonly head = readHead<Head>();
  readonly names = this.head.names;
  readonly y = this.head.y;
  readonly light = colors(this.head.palette.light);
  readonly dark = colors(this.head.palette.dark);
  /** How time is cut now. */
  periodNs = BigInt(this.head.period_ns);
  originNs = BigInt(this.head.origin_ns);
  rows = this.head.rows;
  /** The column that stands at each place, or -1 where some are left out. */
  columns = new Float64Array();
  /** Of each name, numbered place * rows + row. */
  cells: Cells[] = [];
  /** Ranges of places * rows + row, first and last. */
  recorded: Range[] = [];
  lost: Range[] = [];
  repeated: Range[] = [];
  /** A cell now is `by` cells of the file, of which the first has number -shift. */
  private by = 1;
  private shift = 0;
  private readonly read = readCells(readBlock("cells"), this.names.length);

  constructor() {
    this.lay(this.read, this.head.runs, (ranges) => ranges);
  }

  get isRefolded(): boolean {
    return this.periodNs !== BigInt(this.head.period_ns) || this.rows !== this.head.rows;
  }

  /**
   * Cuts time into other columns, of which each row is whole cells of the file.
   *
   * @param rows How many; undefined takes what is nearest to the file's.
   * @returns What is wrong, or null if it is done.
   */
  refold(periodNs: bigint, rows?: number): string | null {
    const { head } = this;
    if (this.y) return "only offsets can be folded otherwise";
    const fileRows = BigInt(head.rows);
    const filePeriodNs = BigInt(head.period_ns);
    if (filePeriodNs % fileRows) {
      return `the cells are ${head.period_ns}/${head.rows} ns, not a whole number`;
    }
    const binNs = filePeriodNs / fileRows;
    if (periodNs <= 0n || periodNs % binNs) return `the period must be a multiple of the cell, ${plain(binNs)}`;
    const bins = periodNs / binNs;
    const chosen = rows ?? nearest(bins, head.rows);
    if (chosen < 1 || chosen > MOST_ROWS || bins % BigInt(chosen)) {
      return `${plain(periodNs)} is ${bins} cells of ${plain(binNs)}; choose a number of rows that divides it`;
    }
    const by = Number(bins / BigInt(chosen));
    const fileOriginNs = BigInt(head.origin_ns);
    // Whole periods of the clock where they begin at cells, else from where the file begins.
    const back = ((fileOriginNs % periodNs) + periodNs) % periodNs;
    const shift = back % binNs ? 0 : Number(back / binNs);
    const number = (bin: number) => Math.floor((bin + shift) / by);
    const runs: [number, number][] = [];
    for (const [first, count] of head.runs) {
      const from = Math.floor(number(first * head.rows) / chosen);
      const to = Math.floor(number((first + count) * head.rows - 1) / chosen);
      const last = runs[runs.length - 1];
      if (last && from < last[0] + last[1]) last[1] = to + 1 - last[0];
      else runs.push([from, to + 1 - from]);
    }
    if (runs.reduce((sum, [, count]) => sum + count, 0) > MOST_PLACES) return "that is too many columns";
    this.periodNs = periodNs;
    this.originNs = fileOriginNs - BigInt(shift) * binNs;
    this.rows = chosen;
    this.by = by;
    this.shift = shift;
    const ranges = (each: Range[]): Range[] => each.map(([first, last]) => [number(first), number(last)]);
    const cells = by === 1 && !shift ? this.read : this.read.map((each) => joined(each, by, shift));
    this.lay(cells, runs, ranges);
    return null;
  }

  /** When a cell begins, from the clock's zero; row may be `rows`. */
  timeNs(column: number, row: number): bigint {
    return this.originNs + BigInt(column) * this.periodNs + this.offsetNs(row);
  }

  /** What a number of rows, or of their entities, is called. */
  get rowNoun(): string {
    return this.y ? { duration: "duration", utilisation: "share", row: "row", weekday: "day" }[this.y.kind] : "offset";
  }

  /** What the rows from one to another are, in words. */
  rowWords(first: number, last: number): string {
    const { y } = this;
    if (!y) return `${exact(this.offsetNs(first))} to ${exact(this.offsetNs(last + 1))}`;
    if (y.labels) return first === last ? y.labels[first]! : `${y.labels[last]!} to ${y.labels[first]!}`;
    return `${this.edge(first)} to ${this.edge(last + 1)}`;
  }

  /** Rows as `--between` takes them; null if no words say so. */
  rowOption(first: number, last: number): string | null {
    const y = this.y!;
    if (y.labels) {
      const names = first === last ? [y.labels[first]!] : [y.labels[last]!, y.labels[first]!];
      return names.some((each) => each.includes("..")) ? null : names.join("..");
    }
    const at = (row: number) => (typeof y.edges![row] === "string" ? plain(BigInt(y.edges![row]!)) : this.edge(row).replace(" ", ""));
    return `${at(first)}..${at(last + 1)}`;
  }

  private edge(row: number): string {
    const edge = this.y!.edges![row]!;
    return typeof edge === "string" ? duration(BigInt(edge), 3) : `${Number((100 * edge).toPrecision(4))} %`;
  }

  /** Ticks of the rows, from the bottom: at the edge of a row, or in the middle of one with a name. */
  rowMarks(heightPx: number): { row: number; label: string }[] {
    const { y, rows } = this;
    if (y?.labels) {
      const step = Math.max(1, Math.ceil((NAME_PX * rows) / heightPx));
      return y.labels.flatMap((label, row) => ((rows - 1 - row) % step ? [] : [{ row: row + 0.5, label }]));
    }
    if (y) {
      const powers = y.spacing === "log" ? y.edges!.flatMap((edge, row) => (/^(0|10*)$/.test(String(edge)) ? [row] : [])) : [];
      const most = Math.max(2, Math.floor(heightPx / 40));
      const round = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((each) => each * most >= rows) ?? rows;
      const even = Array.from({ length: Math.floor(rows / round) + 1 }, (_, at) => at * round);
      const chosen = powers.length > 1 ? powers : even;
      const step = Math.ceil(chosen.length / (most + 1));
      return chosen.filter((_, at) => at % step === 0).map((row) => ({ row, label: this.edge(row) }));
    }
    return ticks(0n, this.periodNs, 6).marks.map(({ ns, label }) => ({ row: (Number(ns) * rows) / Number(this.periodNs), label: this.clockAt(ns) ?? label }));
  }

  /** The mean share of a name: each of its cells has the middle of its row; null if rows are not shares. */
  meanShare(name: number): number | null {
    if (this.y?.kind !== "utilisation") return null;
    const { numbers, values, total } = this.cells[name]!;
    const edges = this.y.edges as number[];
    let sum = 0;
    for (let i = 0; i < numbers.length; i++) {
      const row = numbers[i]! % this.rows;
      sum += (values[i]! * (edges[row]! + edges[row + 1]!)) / 2;
    }
    return total ? sum / total : 0;
  }

  /** When the columns from one to another are, in words. */
  columnWords(first: number, last: number): string {
    if (this.y?.kind === "weekday") return `${hour(first)} to ${hour(last + 1)}`;
    return this.range([this.timeNs(first, 0), this.timeNs(last + 1, 0)]);
  }

  /** The time of the day or the week at an offset, as `Wording.offset` in wording.py; null if columns are neither. */
  clockAt(offset: bigint): string | null {
    const { utc_ns } = this.head;
    if (utc_ns === null) return null;
    const isOf = (period: bigint) => this.periodNs === period && (this.originNs + BigInt(utc_ns) - MONDAY) % period === 0n;
    const two = (count: bigint) => count.toString().padStart(2, "0");
    const clock = `${two((offset / (DAY / 24n)) % (offset === DAY ? 25n : 24n))}:${two((offset / (DAY / 1440n)) % 60n)}`;
    if (isOf(DAY)) return clock;
    return isOf(7n * DAY) ? WEEKDAYS[Number((offset / DAY) % 7n)]! + (offset % DAY ? ` ${clock}` : "") : null;
  }

  offsetNs(row: number): bigint {
    // all rows of a column are of its whole time
    if (this.y) return row === this.rows ? this.periodNs : 0n;
    const rows = BigInt(this.rows);
    return (BigInt(row) * this.periodNs + rows - 1n) / rows;
  }

  /** A range of time as people read it. */
  range([from, to]: readonly [bigint, bigint]): string {
    const [first, last] = [this.when(from), this.when(to)];
    // of two times of a day, the second needs no date
    const isDated = this.head.utc_ns !== null && first.slice(0, 11) === last.slice(0, 11);
    return isDated ? `${first.replace(/ UTC$/, "")} to ${last.slice(11)}` : `${first} to ${last}`;
  }

  /** When that is, as people read it. */
  when(ns: bigint): string {
    const { begin_ns, utc_ns, zone } = this.head;
    // the subtitle names the zone
    return utc_ns === null ? exact(ns - BigInt(begin_ns)) : utc(BigInt(utc_ns) + ns).replace(/\.?0+ UTC$/, zone ? "" : " UTC");
  }

  /** The range of the file's own times with all of a range of the map's: of local times, both that are called so. */
  inFile([from, to]: readonly [bigint, bigint]): [bigint, bigint] {
    const { zone } = this.head;
    if (!zone) return [from, to];
    let [first, last]: [bigint | null, bigint] = [null, 0n];
    for (const piece of zone.pieces) {
      const [start, end, offset] = piece.map(BigInt) as [bigint, bigint, bigint];
      const [low, high] = [from - offset > start ? from - offset : start, to - offset < end ? to - offset : end];
      if (low >= high) continue;
      first ??= low;
      last = high;
    }
    return first === null ? [from, from] : [first, last];
  }

  /** The first and the last column at these places; null if there are only some left out. */
  between(first: number, last: number): Range | null {
    while (first <= last && this.columns[first]! < 0) first++;
    while (last >= first && this.columns[last]! < 0) last--;
    return first <= last ? [this.columns[first]!, this.columns[last]!] : null;
  }

  /** The place of the column in which a time is, the nearest one shown; and its row. */
  cellAt(ns: bigint): { place: number; row: number } {
    const since = ns - this.originNs;
    const column = Number((since - (((since % this.periodNs) + this.periodNs) % this.periodNs)) / this.periodNs);
    const offset = since - BigInt(column) * this.periodNs;
    const row = this.y ? 0 : Number((offset * BigInt(this.rows)) / this.periodNs);
    let place = this.columns.indexOf(column);
    // columns ascend apart from those left out
    if (place < 0) place = this.columns.findIndex((each) => each > column);
    return { place: place < 0 ? this.columns.length - 1 : place, row };
  }

  /** When a selection begins and ends; of a band, its first and its last column. */
  rangeOf({ shape, from, to }: Selection): [bigint, bigint] | null {
    const columns = this.between(from.place, to.place);
    if (!columns) return null;
    const isColumn = !this.y && (shape === "time" || from.place === to.place);
    return [this.timeNs(columns[0], isColumn ? from.row : 0), isColumn ? this.timeNs(columns[1], to.row + 1) : this.timeNs(columns[1] + 1, 0)];
  }

  /** Which cells of the file a selection has. */
  chosen({ shape, from, to }: Selection): Chosen | null {
    const columns = this.between(from.place, to.place);
    if (!columns) return null;
    const { by, shift, rows } = this;
    const first = columns[0] * rows + from.row;
    const last = columns[1] * rows + to.row;
    const isBox = shape === "band";
    return {
      first: first * by - shift,
      last: (last + 1) * by - 1 - shift,
      has: (bin) => {
        const number = Math.floor((bin + shift) / by);
        const row = number - Math.floor(number / rows) * rows;
        return number >= first && number <= last && (!isBox || (row >= from.row && row <= to.row));
      },
    };
  }

  /** Adds up what is in a selection, by name. */
  within(selection: Selection): number[] {
    const { rows } = this;
    const { from, to } = selection;
    return this.cells.map(({ numbers, values }) => {
      let sum = 0;
      const end = (to.place + 1) * rows;
      for (let i = lowerBound(numbers, from.place * rows); i < numbers.length && numbers[i]! < end; i++) {
        const place = Math.floor(numbers[i]! / rows);
        const inside = rowsAt(selection, place, rows)!;
        const row = numbers[i]! - place * rows;
        if (row >= inside[0] && row <= inside[1]) sum += values[i]!;
      }
      return sum;
    });
  }

  /**
   * The mean offset and the median of what is in a band, each row's spread evenly over it; null if
   * there is nothing.
   */
  offsets(names: number[], { from, to }: Selection): { meanNs: number; medianNs: number } | null {
    if (this.y) return null;
    const [r0, r1] = [from.row, to.row];
    const counts = new Float64Array(this.rows);
    for (const name of names) {
      const { numbers, values } = this.cells[name]!;
      const end = (to.place + 1) * this.rows;
      for (let i = lowerBound(numbers, from.place * this.rows); i < numbers.length && numbers[i]! < end; i++) {
        counts[numbers[i]! % this.rows]! += values[i]!;
      }
    }
    const rowNs = Number(this.periodNs) / this.rows;
    let all = 0;
    let weighed = 0;
    for (let row = r0; row <= r1; row++) {
      all += counts[row]!;
      weighed += counts[row]! * (row + 0.5) * rowNs;
    }
    if (!all) return null;
    let left = all / 2;
    let row = r0;
    while (counts[row]! < left) left -= counts[row++]!;
    return { meanNs: weighed / all, medianNs: (row + left / counts[row]!) * rowNs };
  }

  /** Lays the runs of columns side by side. */
  private lay(cells: Cells[], runs: [number, number][], refolded: (ranges: Range[]) => Range[]): void {
    const { rows, head } = this;
    const shown: number[] = [];
    const moves: [number, number, number][] = runs.map(([first, count], run) => {
      if (run) for (let i = 0; i < BREAK_COLUMNS; i++) shown.push(-1);
      const less = first - shown.length;
      for (let i = 0; i < count; i++) shown.push(first + i);
      return [first * rows, (first + count) * rows, less * rows];
    });
    const inPlaces = (ranges: Range[]): Range[] =>
      refolded(ranges).flatMap(([first, last]) =>
        moves
          .filter(([from, end]) => first < end && last >= from)
          .map(([from, end, less]): Range => [Math.max(first, from) - less, Math.min(last, end - 1) - less]),
      );
    this.columns = Float64Array.from(shown);
    this.cells = cells.map((each) => moved(each, moves));
    this.recorded = inPlaces(head.recorded);
    this.lost = inPlaces(head.lost);
    this.repeated = inPlaces(head.repeated);
  }
}

export function hour(of: number): string {
  return `${String(of).padStart(2, "0")}:00`;
}

/** The divisor of a number of cells that is nearest to the rows there were. */
function nearest(bins: bigint, rows: number): number {
  let best = 1;
  for (let each = 1; each <= MOST_ROWS; each++) {
    if (bins % BigInt(each) === 0n && Math.abs(each - rows) <= Math.abs(best - rows)) best = each;
  }
  return best;
}

export const DAY = 86_400_000_000_000n;
/** The first one of 1970. */
const MONDAY = 4n * DAY;
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** A time as the command line takes it, to the nanosecond: `20ms`, `1.1s`. */
export function plain(ns: bigint): string {
  const size = ns < 0n ? -ns : ns;
  for (const [scale, unit] of [[DAY, "d"], [DAY / 24n, "h"], [DAY / 1440n, "min"]] as const) {
    if (size && size % scale === 0n) return `${ns / scale}${unit}`;
  }
  const [scale, unit] = ([[1_000_000_000n, "s"], [1_000_000n, "ms"], [1_000n, "us"]] as const).find(([each]) => size >= each) ?? [1n, size ? "ns" : "s"];
  const digits = scale.toString().length - 1;
  const rest = (size % scale).toString().padStart(digits, "0").replace(/0+$/, "");
  return `${ns < 0n ? "-" : ""}${size / scale}${digits && rest ? `.${rest}` : ""}${unit}`;
}

const SCALES: Record<string, number> = { ns: 1, us: 1e3, "μs": 1e3, "µs": 1e3, ms: 1e6, s: 1e9, m: 6e10, min: 6e10, h: 36e11, d: 864e11 };

/** The nanoseconds of a duration such as `1.1s`; null if it is not one. */
export function parsed(text: string): bigint | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-zμµ]+)\s*$/.exec(text);
  const scale = match && SCALES[match[2]!];
  if (!match || !scale) return null;
  return BigInt(Math.round(Number(match[1]) * scale));
}

function colors(shade: Shade): Colors {
  const bytes = (text: string) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return { empty: shade.empty, alone: bytes(shade.alone), ramps: shade.ramps.map(bytes) };
}
