/**
 * Colours for the cells in view: values become ranks or proportions, those become colours, and mix.
 *
 * Where columns are finer than the screen, each column drawn is several added up, as in the picture
 * that `meantime heatmap` draws; and only tiles that come into view are painted.
 */

import { type Cells, grouped, lowerBound } from "./heat-cells";
import type { Colors, Model } from "./heat-model";
import type { HeatState } from "./heat-state";

export const TILE_COLUMNS = 512;

const KEY = [0.02, 0.2, 0.4, 0.6, 0.8, 1];

/** How strong the colour of a value is, and which value has a strength. */
interface Scale {
  norm(value: number): number;
  at(strength: number): number;
}

const NONE: Scale = { norm: () => 0, at: () => 0 };

/** The cells of one colour: those that are not zero, or all of them. */
interface Layer {
  index: number;
  cells: Cells | Float64Array;
  /** Whether it is everything that is not selected. */
  isRest: boolean;
}

/** As LEAST_STRENGTH in look.py: selected names stay visible where they have little. */
const LEAST_STRENGTH = 0.4;

export class Painter {
  private group = 0;
  private rowGroup = 1;
  private layers: Layer[] = [];
  private scales: { rest: Scale; selected: Scale } = { rest: NONE, selected: NONE };
  private known = new Uint8Array();
  private tiles = new Map<number, HTMLCanvasElement>();
  private readonly totals = new Map<number, Float64Array>();
  private cacheGroup = 0;
  private readonly cache = new Map<number, Cells>();

  constructor(
    private readonly session: HeatState,
    private readonly colors: () => Colors,
  ) {}

  /** How many columns drawn there are, at this many columns in each. */
  count(group: number): number {
    return Math.ceil(this.session.model.columns.length / group);
  }

  /** Forgets what was painted, as what is selected or how it is coloured has changed. */
  repaint(): void {
    this.group = 0;
  }

  /** Forgets all, as time is cut otherwise. */
  refold(): void {
    this.totals.clear();
    this.cache.clear();
    this.repaint();
  }

  /** Returns a tile of one pixel a cell, painted when it is first asked for. */
  tile(number: number, group: number, rowGroup = 1): HTMLCanvasElement {
    if (group !== this.group) this.prepare(group);
    if (rowGroup !== this.rowGroup) this.tiles.clear();
    this.rowGroup = rowGroup;
    let tile = this.tiles.get(number);
    if (!tile) this.tiles.set(number, (tile = this.painted(number)));
    return tile;
  }

  /** Returns values and their colours, from the least to the most, of what is selected first. */
  key(group: number): { value: number; color: string }[] {
    if (group !== this.group) this.prepare(group);
    const layer = this.layers.find(({ isRest }) => !isRest) ?? this.layers[0];
    if (!layer || !valuesOf(layer.cells).length) return [];
    const { norm, at } = this.scaleOf(layer);
    const ramp = this.ramp(layer);
    const values = new Set(KEY.map(at));
    return [...values].map((value) => {
      const from = 3 * Math.round(norm(value) * 255);
      return { value, color: `rgb(${ramp.slice(from, from + 3).join(" ")})` };
    });
  }

  private scaleOf({ isRest }: Layer): Scale {
    return isRest ? this.scales.rest : this.scales.selected;
  }

  private ramp({ index }: Layer): Uint8Array {
    const { alone, ramps } = this.colors();
    if (this.layers.length === 1 && !this.session.selected.length) return alone;
    return ramps[index < ramps.length ? index : 1 + ((index - 1) % (ramps.length - 1))]!;
  }

  private prepare(group: number): void {
    const { session } = this;
    if (this.cacheGroup !== group) this.cache.clear();
    this.cacheGroup = group;
    this.group = group;
    this.tiles = new Map();
    this.layers = this.drawn(group);
    const { cloud, largest } = session.model.head;
    this.known = recorded(session.model, group, this.count(group));
    if (largest !== null && session.method === "linear") {
      const fixed = proportion([[largest]], 0);
      this.scales = { rest: fixed, selected: fixed };
      return;
    }
    const values = (layers: Layer[]) => (session.lock ? [this.total(group)] : layers.map(({ cells }) => valuesOf(cells)));
    const scale = (maps: Cells["values"][], least: number) =>
      session.method === "linear" ? proportion(maps, least) : rank(maps, least, cloud);
    const rest = scale(values(this.layers), session.model.head.least_strength);
    const named = this.layers.filter(({ isRest }) => !isRest);
    const isOver = !cloud && named.length > 0 && named.length < this.layers.length;
    this.scales = { rest, selected: isOver ? scale(values(named), LEAST_STRENGTH) : rest };
  }

  private drawn(group: number): Layer[] {
    const { session } = this;
    const own = [...session.colored].map(([name, index]) => ({ index, cells: this.of(name, group), isRest: false }));
    if (session.mode === "decompose" || (session.mode === "isolate" && own.length)) return own;
    const away = new Set([...session.hidden, ...session.selected]);
    const rest = away.size ? this.total(group).slice() : this.total(group);
    for (const name of away) {
      const { numbers, values } = this.of(name, group);
      for (let i = 0; i < numbers.length; i++) rest[numbers[i]!]! -= values[i]!;
    }
    const left = { index: 0, cells: rest, isRest: true };
    return session.mode === "exclude" ? [left] : [left, ...own];
  }

  private of(name: number, group: number): Cells {
    let cells = this.cache.get(name);
    if (!cells) this.cache.set(name, (cells = grouped(this.session.model.cells[name]!, this.session.model.rows, group)));
    return cells;
  }

  /** All cells of all names. */
  private total(group: number): Float64Array {
    let total = this.totals.get(group);
    if (total) return total;
    const { model } = this.session;
    const { rows } = model;
    total = new Float64Array(this.count(group) * rows);
    if (group > 1) {
      const finer = this.total(group / 2);
      for (let at = 0, to = 0; at < finer.length; to += rows) {
        for (let both = 0; both < 2 && at < finer.length; both++) {
          for (let row = 0; row < rows; row++) total[to + row]! += finer[at++]!;
        }
      }
    } else {
      for (const { numbers, values } of model.cells) {
        for (let i = 0; i < numbers.length; i++) total[numbers[i]!]! += values[i]!;
      }
    }
    this.totals.set(group, total);
    return total;
  }

  private painted(number: number): HTMLCanvasElement {
    const { layers, known } = this;
    const { rows, head } = this.session.model;
    const colors = this.colors();
    const first = number * TILE_COLUMNS;
    const width = Math.max(1, Math.min(TILE_COLUMNS, this.count(this.group) - first));
    const [from, to] = [first * rows, (first + width) * rows];
    const strength = new Float32Array(width * rows);
    const mixed = new Float32Array(width * rows * 3);
    const isCovered = new Uint8Array(width * rows);
    for (const layer of layers) {
      const ramp = this.ramp(layer);
      const { norm } = this.scaleOf(layer);
      const covers = !layer.isRest && !head.cloud;
      const put = (at: number, value: number) => {
        const part = norm(value);
        if (covers && !isCovered[at]) {
          // selected names are mixed with each other, and drawn over the rest
          isCovered[at] = 1;
          strength[at] = 0;
          mixed.fill(0, 3 * at, 3 * at + 3);
        }
        const step = 3 * Math.round(part * 255);
        strength[at]! += part;
        mixed[3 * at]! += ramp[step]! * part;
        mixed[3 * at + 1]! += ramp[step + 1]! * part;
        mixed[3 * at + 2]! += ramp[step + 2]! * part;
      };
      const { cells } = layer;
      if (cells instanceof Float64Array) {
        for (let at = 0; at < to - from; at++) if (cells[from + at]! > 0) put(at, cells[from + at]!);
      } else {
        const { numbers, values } = cells;
        for (let i = lowerBound(numbers, from); i < numbers.length && numbers[i]! < to; i++) put(numbers[i]! - from, values[i]!);
      }
    }
    const { rowGroup } = this;
    const tall = Math.ceil(rows / rowGroup);
    const image = new ImageData(width, tall);
    for (let x = 0; x < width; x++) {
      for (let line = 0; line < tall; line++) {
        let at = x * rows + line * rowGroup;
        const end = Math.min((x + 1) * rows, at + rowGroup);
        for (let other = at + 1; other < end; other++) if (strength[other]! > strength[at]!) at = other;
        if (!known[from + at] && !strength[at]) continue;
        const pixel = 4 * ((tall - 1 - line) * width + x);
        for (let c = 0; c < 3; c++) {
          image.data[pixel + c] = strength[at] ? mixed[3 * at + c]! / strength[at]! : colors.empty[c]!;
        }
        image.data[pixel + 3] = 255;
      }
    }
    const tile = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas") as HTMLCanvasElement;
    tile.width = width;
    tile.height = tall;
    tile.getContext("2d")!.putImageData(image, 0, 0);
    return tile;
  }
}

function valuesOf(cells: Cells | Float64Array): Cells["values"] {
  return cells instanceof Float64Array ? cells : cells.values;
}

function proportion(maps: ArrayLike<number>[], least: number): Scale {
  let largest = 1;
  for (const values of maps) for (let i = 0; i < values.length; i++) if (values[i]! > largest) largest = values[i]!;
  return { norm: (value) => least + (1 - least) * Math.min(1, value / largest), at: (strength) => Math.max(1, Math.round(strength * largest)) };
}

const word = new Float32Array(1);
const bits = new Uint32Array(word.buffer);

/** A place among 2^19 that grows with a value; whole numbers have their own up to 4096. */
function step(value: number): number {
  word[0] = value;
  return bits[0]! >>> 12;
}

/** The rank of a value among all cells: the middle of those of equal values, or the upper end. */
function rank(maps: Cells["values"][], least: number, isUpper: boolean): Scale {
  const counts = new Uint32Array(2 ** 19);
  let count = 0;
  for (const values of maps) {
    for (let i = 0; i < values.length; i++) {
      if (values[i]! <= 0) continue;
      counts[step(values[i]!)]!++;
      count++;
    }
  }
  for (let i = 1; i < counts.length; i++) counts[i]! += counts[i - 1]!;
  return {
    norm: (value) => {
      if (!count) return 0;
      const at = step(value);
      const upper = counts[at]!;
      const position = isUpper ? Math.max(1, upper) : Math.max(0.5, (upper + (at ? counts[at - 1]! : 0)) / 2);
      return least + ((1 - least) * position) / count;
    },
    at: (strength) => {
      const wanted = Math.max(1, Math.ceil(strength * count));
      let low = 0;
      let high = counts.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (counts[middle]! < wanted) low = middle + 1;
        else high = middle;
      }
      bits[0] = low << 12;
      return Math.round(word[0]!);
    },
  };
}

/** Of which cells drawn a part was recorded. */
function recorded({ recorded, rows }: Model, group: number, count: number): Uint8Array<ArrayBuffer> {
  const known = new Uint8Array(count * rows);
  const mark = (column: number, low: number, high: number) => {
    const at = Math.floor(column / group) * rows;
    known.fill(1, at + low, at + high + 1);
  };
  for (const [first, last] of recorded) {
    const from = Math.floor(first / rows);
    const to = Math.floor(last / rows);
    const low = first - from * rows;
    const high = last - to * rows;
    if (from === to) mark(from, low, high);
    else {
      mark(from, low, rows - 1);
      if (to > from + 1) known.fill(1, Math.floor((from + 1) / group) * rows, (Math.floor((to - 1) / group) + 1) * rows);
      mark(to, 0, high);
    }
  }
  return known;
}
