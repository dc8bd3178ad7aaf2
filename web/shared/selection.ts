/** A selection of cells: a band of offsets in some columns, or a range in the order of time. */

export type Shape = "band" | "time";

/** A cell: the place of its column among those shown, and its row. */
export interface Cell {
  place: number;
  row: number;
}

/**
 * Cells from `from` to `to`, both included. Of a band, these are two corners of a box, the lower left
 * and the upper right; of a range of time, the first and the last cell.
 */
export interface Selection {
  shape: Shape;
  from: Cell;
  to: Cell;
}

const isAfter = (one: Cell, other: Cell) => one.place > other.place || (one.place === other.place && one.row > other.row);

/** The selection between two cells, in any order. */
export function between(shape: Shape, one: Cell, other: Cell): Selection {
  if (shape === "time") return isAfter(one, other) ? { shape, from: other, to: one } : { shape, from: one, to: other };
  return {
    shape,
    from: { place: Math.min(one.place, other.place), row: Math.min(one.row, other.row) },
    to: { place: Math.max(one.place, other.place), row: Math.max(one.row, other.row) },
  };
}

/** The rows of a column that are selected, the first and the last; null if there are none. */
export function rowsAt({ shape, from, to }: Selection, place: number, rows: number): [number, number] | null {
  if (place < from.place || place > to.place) return null;
  if (shape === "band") return [from.row, to.row];
  return [place === from.place ? from.row : 0, place === to.place ? to.row : rows - 1];
}

/** Whether it is one range of time: in its order, of one column, or of whole columns. */
export function isOneRange({ shape, from, to }: Selection, rows: number): boolean {
  return shape === "time" || from.place === to.place || (from.row === 0 && to.row === rows - 1);
}
