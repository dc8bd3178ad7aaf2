/** The stacks of the samples in each cell of the file, and the call tree of a selection of cells. */

import { Varints, inflate, readBlock } from "./blocks";
import type { CallTree } from "./call-tree";

/** Which cells of the file are chosen: those from first to last that `has` accepts. */
export interface Chosen {
  first: number;
  last: number;
  has(number: number): boolean;
}

/** The blocks of a page, still compressed. */
export interface PackedStacks {
  cells: Uint8Array;
  table: Uint8Array;
  names: Uint8Array;
}

/** The blocks with stacks, which are in the page until it replaces the picture; null without them. */
export function readStacks(prefix = "stack"): PackedStacks | null {
  const cells = readBlock(`${prefix}-cells`);
  return cells.length ? { cells, table: readBlock(`${prefix}-table`), names: readBlock(`${prefix}-names`) } : null;
}

export class StackCells {
  private constructor(
    private readonly numbers: Float64Array,
    private readonly names: Int32Array,
    private readonly stacks: Int32Array,
    private readonly values: Float64Array,
    private readonly parent: Int32Array,
    private readonly frame: Int32Array,
    private readonly frames: string[],
  ) {}

  static async from(packed: PackedStacks): Promise<StackCells> {
    const [cells, table, text] = await Promise.all([packed.cells, packed.table, packed.names].map(inflate));
    const numbers: number[] = [];
    const names: number[] = [];
    const stacks: number[] = [];
    const values: number[] = [];
    const entries = new Varints(cells!);
    let number = 0;
    while (!entries.isAtEnd) {
      const step = entries.number();
      number += Math.floor(step / 2);
      numbers.push(number);
      names.push(entries.small());
      stacks.push(entries.small() - 1);
      values.push(step % 2 ? entries.number() : 1);
    }
    const parent: number[] = [];
    const frame: number[] = [];
    const rows = new Varints(table!);
    while (!rows.isAtEnd) {
      // the distance of the caller, which is before; that of none is one more than the rows before
      parent.push(parent.length - rows.small());
      frame.push(rows.small());
    }
    return new StackCells(
      Float64Array.from(numbers),
      Int32Array.from(names),
      Int32Array.from(stacks),
      Float64Array.from(values),
      Int32Array.from(parent),
      Int32Array.from(frame),
      JSON.parse(new TextDecoder().decode(text)) as string[],
    );
  }

  /**
   * The call tree of chosen cells and names; with `before`, of both, compared.
   *
   * @param names Which names count; null for all.
   */
  tree(chosen: Chosen, names: Set<number> | null, before: Chosen | null = null): CallTree {
    const { parent, frame, frames } = this;
    const own = new Float64Array(parent.length);
    const value = new Float64Array(parent.length);
    const earlier = before ? new Float64Array(parent.length) : undefined;
    this.add(chosen, names, own);
    value.set(own);
    if (before && earlier) {
      this.add(before, names, earlier);
      for (let node = 0; node < own.length; node++) {
        own[node]! += earlier[node]!;
        value[node] = own[node]!;
      }
    }
    for (let node = parent.length - 1; node >= 0; node--) {
      const caller = parent[node]!;
      if (caller < 0) continue;
      value[caller]! += value[node]!;
      if (earlier) earlier[caller]! += earlier[node]!;
    }
    return { names: frames, parent, name: frame, value, own, count: own, before: earlier };
  }

  private add(chosen: Chosen, names: Set<number> | null, sums: Float64Array): void {
    const { numbers, stacks, values } = this;
    let low = 0;
    let high = numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle]! < chosen.first) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < numbers.length && numbers[i]! <= chosen.last; i++) {
      if (stacks[i]! >= 0 && (!names || names.has(this.names[i]!)) && chosen.has(numbers[i]!)) sums[stacks[i]!]! += values[i]!;
    }
  }
}
