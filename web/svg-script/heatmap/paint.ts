/** Colours for all cells: values become ranks or proportions, those become colours, and mix. */

import type { Colors } from "./model";
import type { Session } from "./session";

export const TILE_COLUMNS = 4096;

/** Paints every cell into tiles of one pixel a cell. */
export function paint(session: Session, colors: Colors): HTMLCanvasElement[] {
  const { model } = session;
  const { rows } = model;
  const size = model.columns.length * rows;
  const strength = new Float32Array(size);
  const mixed = new Float32Array(size * 3);
  const layers = drawn(session);
  const norm = scale(session, session.lock ? [total(session, new Set())] : layers.map(({ grid }) => grid));
  const several = layers.length > 1 || session.selected.length > 0;
  for (const { grid, index } of layers) {
    const ramp = several ? colors.ramps[index < colors.ramps.length ? index : 1 + ((index - 1) % (colors.ramps.length - 1))]! : colors.alone;
    grid.forEach((at, value) => {
      const part = norm(value);
      const step = 3 * Math.round(part * 255);
      strength[at]! += part;
      mixed[3 * at]! += ramp[step]! * part;
      mixed[3 * at + 1]! += ramp[step + 1]! * part;
      mixed[3 * at + 2]! += ramp[step + 2]! * part;
    });
  }
  const known = recorded(session);
  const tiles = [];
  for (let first = 0; first < model.columns.length; first += TILE_COLUMNS) {
    const width = Math.min(TILE_COLUMNS, model.columns.length - first);
    const image = new ImageData(width, rows);
    for (let x = 0; x < width; x++) {
      for (let row = 0; row < rows; row++) {
        const at = (first + x) * rows + row;
        const to = 4 * ((rows - 1 - row) * width + x);
        if (!known[at] && !strength[at]) continue;
        for (let c = 0; c < 3; c++) {
          image.data[to + c] = strength[at] ? mixed[3 * at + c]! / strength[at]! : colors.empty[c]!;
        }
        image.data[to + 3] = 255;
      }
    }
    const tile = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas") as HTMLCanvasElement;
    tile.width = width;
    tile.height = rows;
    tile.getContext("2d")!.putImageData(image, 0, 0);
    tiles.push(tile);
  }
  return tiles;
}

class Grid {
  constructor(
    private readonly places: Float64Array | null,
    private readonly values: Float64Array,
  ) {}

  forEach(visit: (at: number, value: number) => void): void {
    for (let i = 0; i < this.values.length; i++) {
      const at = this.places ? this.places[i]! : i;
      if (this.values[i]! > 0 && at >= 0) visit(at, this.values[i]!);
    }
  }
}

function placed(session: Session, name: number): Float64Array {
  const { rows, cells } = session.model;
  const { numbers } = cells[name]!;
  const places = new Float64Array(numbers.length);
  let column = -1;
  let place = -1;
  for (let i = 0; i < numbers.length; i++) {
    const at = Math.floor(numbers[i]! / rows);
    if (at !== column) place = session.model.place((column = at));
    places[i] = place < 0 ? -1 : place * rows + (numbers[i]! - at * rows);
  }
  return places;
}

/** All cells, without those of some names. */
function total(session: Session, without: Set<number>): Grid {
  const { model } = session;
  const sum = new Float64Array(model.columns.length * model.rows);
  model.cells.forEach(({ values }, name) => {
    if (without.has(name)) return;
    const places = placed(session, name);
    for (let i = 0; i < values.length; i++) if (places[i]! >= 0) sum[places[i]!]! += values[i]!;
  });
  return new Grid(null, sum);
}

function drawn(session: Session): { grid: Grid; index: number }[] {
  const own = [...session.colored].map(([name, index]) => ({
    grid: new Grid(placed(session, name), session.model.cells[name]!.values),
    index,
  }));
  if (session.mode === "decompose" || (session.mode === "isolate" && own.length)) return own;
  const rest = { grid: total(session, new Set([...session.hidden, ...session.selected])), index: 0 };
  return session.mode === "exclude" ? [rest] : [rest, ...own];
}

function scale(session: Session, grids: Grid[]): (value: number) => number {
  let largest = 1;
  let count = 0;
  for (const grid of grids)
    grid.forEach((_, value) => {
      largest = Math.max(largest, value);
      count++;
    });
  if (session.method === "linear") return (value) => Math.min(1, value / largest);
  const values = new Float64Array(count);
  let i = 0;
  for (const grid of grids) grid.forEach((_, value) => (values[i++] = value));
  values.sort();
  const ranks = new Map<number, number>();
  for (let at = 0; at < count; at++) ranks.set(values[at]!, (at + 1) / count);
  return (value) => ranks.get(value) ?? Math.max(1 / count, upper(values, value) / count);
}

function upper(values: Float64Array, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

function recorded(session: Session): Uint8Array {
  const { model } = session;
  const { rows } = model;
  const known = new Uint8Array(model.columns.length * rows);
  for (const [first, last] of model.head.recorded) {
    model.columns.forEach((column, place) => {
      if (column < 0) return;
      const low = Math.max(first - column * rows, 0);
      const high = Math.min(last - column * rows, rows - 1);
      if (low <= high) known.fill(1, place * rows + low, place * rows + high + 1);
    });
  }
  return known;
}
