/** What the page holds: the cells of each name, and which columns are shown. */

import { Varints, readBlock, readHead } from "../../shared/blocks";

interface Shade {
  empty: [number, number, number];
  alone: string;
  ramps: string[];
}

export type Mode = "highlight" | "isolate" | "exclude" | "decompose";
export type Method = "rank" | "linear";

interface Head {
  title: string;
  subtitle: string;
  origin_ns: string;
  period_ns: string;
  rows: number;
  columns: number;
  value: string;
  names: string[];
  selected: string[];
  mode: Mode;
  hidden: string[];
  method: Method;
  lock: boolean;
  runs: [number, number][];
  recorded: [number, number][];
  lost: [number, number][];
  palette: { light: Shade; dark: Shade };
  notes: string[];
  findings: string[];
}

/** Cells that are not zero, in order of their numbers: column * rows + row. */
export interface Cells {
  numbers: Float64Array;
  values: Float64Array;
  total: number;
}

export interface Colors {
  empty: [number, number, number];
  alone: Uint8Array;
  ramps: Uint8Array[];
}

const BREAK_COLUMNS = 3;

export class Model {
  readonly head = readHead<Head>();
  readonly rows = this.head.rows;
  readonly originNs = BigInt(this.head.origin_ns);
  readonly periodNs = BigInt(this.head.period_ns);
  readonly names = this.head.names;
  readonly cells: Cells[];
  /** The column that stands at each place, or -1 where some are left out. */
  readonly columns: Float64Array;
  readonly light = colors(this.head.palette.light);
  readonly dark = colors(this.head.palette.dark);
  private readonly starts: number[] = [];

  constructor() {
    const numbers = new Varints(readBlock("cells"));
    this.cells = this.names.map(() => readCells(numbers));
    const shown: number[] = [];
    this.head.runs.forEach(([first, count], run) => {
      if (run) for (let i = 0; i < BREAK_COLUMNS; i++) shown.push(-1);
      this.starts.push(shown.length);
      for (let i = 0; i < count; i++) shown.push(first + i);
    });
    this.columns = Float64Array.from(shown);
  }

  /** Where a column stands; -1 if it is left out. */
  place(column: number): number {
    const { runs } = this.head;
    for (let run = 0; run < runs.length; run++) {
      const [first, count] = runs[run]!;
      if (column >= first && column < first + count) return this.starts[run]! + column - first;
    }
    return -1;
  }

  /** When a cell begins, from the clock's zero; row may be `rows`. */
  timeNs(column: number, row: number): bigint {
    return this.originNs + BigInt(column) * this.periodNs + this.offsetNs(row);
  }

  offsetNs(row: number): bigint {
    const rows = BigInt(this.rows);
    return (BigInt(row) * this.periodNs + rows - 1n) / rows;
  }

  /** Adds up what lies in columns [c0, c1] and rows [r0, r1], by name. */
  within(c0: number, c1: number, r0: number, r1: number): number[] {
    return this.cells.map(({ numbers, values }) => {
      let sum = 0;
      const end = (c1 + 1) * this.rows;
      for (let i = lowerBound(numbers, c0 * this.rows); i < numbers.length && numbers[i]! < end; i++) {
        const row = numbers[i]! % this.rows;
        if (row >= r0 && row <= r1) sum += values[i]!;
      }
      return sum;
    });
  }
}

export function lowerBound(numbers: Float64Array, wanted: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

function readCells(from: Varints): Cells {
  const count = from.small();
  const numbers = new Float64Array(count);
  const values = new Float64Array(count);
  let at = 0;
  let total = 0;
  for (let i = 0; i < count; i++) {
    from.next();
    at += from.hi * 2 ** 32 + from.lo;
    numbers[i] = at;
    from.next();
    total += values[i] = from.hi * 2 ** 32 + from.lo;
  }
  return { numbers, values, total };
}

function colors(shade: Shade): Colors {
  const bytes = (text: string) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return { empty: shade.empty, alone: bytes(shade.alone), ramps: shade.ramps.map(bytes) };
}
