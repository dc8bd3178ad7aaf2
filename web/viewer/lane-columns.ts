/** Columns of lanes as they come from the server: with many lanes, most repeat their values. */

import type { LaneTable } from "./protocol";

type Packed<T> = T[] | { runs: (T | number)[] };

/** A table whose columns may be packed. */
type PackedTable = { [Name in keyof LaneTable]: LaneTable[Name] extends (infer T)[] ? Packed<T> : LaneTable[Name] } & {
  handle: Packed<string | null> | { folder: Packed<string | null>; name: Packed<string | null> };
  quark: Packed<number> | { first: number; steps: number[] };
};

export function unpacked(table: PackedTable): LaneTable {
  const found: Record<string, unknown> = {};
  for (const [name, column] of Object.entries(table)) found[name] = column && typeof column === "object" ? listed(column as object) : column;
  return found as unknown as LaneTable;
}

function listed(column: object): unknown[] {
  if ("runs" in column) return repeated(column.runs as unknown[]);
  if ("steps" in column && "first" in column) {
    const values = [column.first as number];
    for (const step of repeated(column.steps as unknown[])) values.push(values.at(-1)! + (step as number));
    return values;
  }
  if ("folder" in column && "name" in column) {
    const folders = listed(column.folder as object) as (string | null)[];
    return (listed(column.name as object) as (string | null)[]).map((name, lane) => (name === null ? null : folders[lane]! + name));
  }
  return column as unknown[];
}

/** The values of runs: each with how often it follows. */
function repeated(runs: unknown[]): unknown[] {
  const values: unknown[] = [];
  for (let at = 0; at < runs.length; at += 2) for (let count = runs[at + 1] as number; count > 0; count--) values.push(runs[at]);
  return values;
}
