/** Lanes that draw tiles: states, spans, short-lived entities, numbers, samples, points and groups. */

import { css } from "../shared/name-colors";
import { duration, grouped } from "../shared/format";
import { FAINTEST, LABEL_PX, NARROW_PX, PADDING_PX, ROW_PX, opacityOf } from "../shared/flame-lane";
import { LABEL_FONT } from "../shared/box-labels";
import type { LaneImage } from "../shared/lane-image";
import { FEW_PIXELS, mixed } from "../shared/lane-image";
import type { Lane } from "../shared/lane-tree";
import { AREA, Scale, extentOf, number, quantity } from "../shared/counter-lane";
import { OTHER } from "./model";
import type { FileModel } from "./model";
import { BINS } from "./protocol";
import type { Kind } from "./protocol";
import type { Inks, Scene } from "./scene";
import { ShareColumns, unlit } from "./share-columns";
import type { Run } from "./share-columns";
import type { Piece, Tile } from "./tile-store";

const PACKED_ROW_PX = 15;
const CLOSED_PX = 36;
const FILE_PX = 24;
const GROUP_PX = 22;
const GROUP_CLOSED_PX = 40;
const STATE_PX = 20;
const BIG_STATE_PX = 36;
const BAND_PX = 40;
const SMALL_ROW_PX = 11;
const ITEM_LABEL_PX = 34;
const ITEM_MARGIN_PX = 10;
const EDGE_FROM_PX = 3;
const BAR_PX = 3;
/** How far the lines of a hatch are apart. */
export const HATCH_PX = 6;
/** Lower rows have no labels. */
const LEAST_LABEL_PX = 12;

/** There names are above their lanes, and have one line. */
const NARROW = matchMedia("(max-width: 720px)");

const columns = new ShareColumns();

/** A box under a point. */
export interface BoxHit {
  name: string;
  /** In the time of the file. */
  startNs: bigint;
  endNs: bigint;
  row: number;
  span: number;
}

export abstract class TileLane implements Lane {
  title: string;
  readonly level: number;
  readonly kind: Kind;
  readonly isEstimated: boolean;
  open = true;
  sub = "";
  stretches = false;
  stretch = 1;
  /** The states that were drawn. */
  readonly seen = new Set<number>();
  /** Which of two runs it is of, on a page that compares them. */
  side = "";

  constructor(
    readonly scene: Scene,
    readonly file: FileModel,
    /** The lane's number in the file. */
    readonly index: number,
    level: number,
  ) {
    const table = file.table!;
    this.title = table.name[index] ?? "";
    this.kind = table.kind[index]!;
    this.level = level;
    this.isEstimated = table.estimated[index] === 1;
  }

  get detail(): string {
    return this.withSide(this.file.table!.detail[this.index] ?? "");
  }

  /** What is beside the name of the lane, after its side. */
  protected withSide(text: string): string {
    return [this.side, text].filter(Boolean).join(" · ");
  }

  get opens(): boolean {
    return false;
  }

  get handle(): string {
    return this.file.table!.handle[this.index] ?? "";
  }

  /** The lane's name among all, which stays when a page is opened again. */
  get key(): string {
    return this.file.keyOf(this.index);
  }

  abstract height(): number;
  abstract draw(image: LaneImage, top: number): void;

  /** Makes the lane as high as what is in view needs; whether its height has changed. */
  fit(): boolean {
    return false;
  }

  /** The row at a height in CSS pixels, and where it begins and ends. */
  rowAt(_y: number): { row: number; top: number; height: number } {
    return { row: 0, top: 0, height: this.height() };
  }

  /** Where a row is. */
  rowBox(_row: number): { top: number; height: number } {
    return { top: 0, height: this.height() };
  }

  /** The box at a point, if the lane has boxes. */
  boxAt(_x: number, _y: number): BoxHit | null {
    return null;
  }

  /** The block of its tiles. */
  protected get block(): number {
    return this.kind === "group" ? this.index : this.file.table!.block[this.index]!;
  }

  protected pieces(): Piece[] {
    return this.scene.pieces(this.file, this.kind, this.block);
  }

  /** Calls with each bin of a tile in view: its index in the columns and its edges in device pixels. */
  protected bins(image: LaneImage, each: (tile: Tile, at: number, left: number, right: number) => void): void {
    const scale = image.width / this.scene.spanNs;
    for (const { tile, from, to, origin } of this.pieces()) {
      const row = tile.laneIndex.get(this.index);
      if (row === undefined || (tile.damaged && !tile.damaged_bins)) continue;
      const { binNs } = tile;
      const first = Math.max(0, Math.floor((from - origin) / binNs));
      const last = Math.min(BINS, Math.ceil((to - origin) / binNs));
      for (let bin = first; bin < last; bin++) {
        const left = Math.max(from, origin + bin * binNs);
        const right = Math.min(to, origin + (bin + 1) * binNs);
        if (left < right) each(tile, row * BINS + bin, left * scale, right * scale);
      }
    }
  }

  /** Hatches what could not be read. */
  protected damage(image: LaneImage, top: number, height: number): void {
    const scale = image.width / this.scene.spanNs;
    for (const { tile, from, to, origin } of this.pieces()) {
      if (!tile.damaged) continue;
      for (const [first, last] of tile.damaged_bins ?? [[0, BINS]]) {
        const [left, right] = [Math.max(from, origin + first * tile.binNs), Math.min(to, origin + last * tile.binNs)];
        if (left < right) hatch(image, left * scale, right * scale, top, height, this.scene.inks);
      }
    }
  }
}

/** Draws thin lines of 45 degrees over what is not known. */
export function hatch(image: LaneImage, left: number, right: number, top: number, height: number, { background, faint }: Inks): void {
  const pixel = mixed(background, faint, 0.34);
  const step = Math.round(HATCH_PX * image.ratio);
  const y0 = Math.max(0, Math.round(top * image.ratio));
  const y1 = Math.min(image.height, Math.round((top + height) * image.ratio));
  const x0 = Math.max(0, Math.round(left));
  const x1 = Math.min(image.width, Math.max(x0 + 1, Math.round(right)));
  for (let y = y0; y < y1; y++) {
    for (let x = x0 + ((step - ((x0 + y) % step)) % step); x < x1; x += step) image.fill(x, y, 1, 1, pixel);
  }
}

/** Adds the shares of one bin of a state tile to the columns. */
function addShares(tile: Tile, at: number, left: number, right: number, shares: ArrayLike<number>, codes: ArrayLike<number>): void {
  const base = at * 5;
  if (shares[base] === 255) return;
  for (let part = 1; part < 4; part++) {
    const share = shares[base + part]!;
    if (!share) break;
    columns.add(left, right, tile.stateIds[codes[at * 3 + part - 1]!]!, share / 255);
  }
  if (shares[base + 4]) columns.add(left, right, OTHER, shares[base + 4]! / 255);
}

/** The ink of a label on a colour. */
function inkOn(pixel: number): string {
  const part = (shift: number) => {
    const value = ((pixel >>> shift) & 255) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(0) + 0.7152 * part(8) + 0.0722 * part(16) > 0.19 ? "#14161b" : "#ffffff";
}

export class StateLane extends TileLane {
  override stretches = true;
  private runs: Run[] = [];

  /** @param isBig Whether it is one of the most important lanes. */
  constructor(scene: Scene, file: FileModel, index: number, level: number, private readonly isBig: boolean) {
    super(scene, file, index, level);
    if (this.isEstimated) this.sub = "≈ sampled";
  }

  height(): number {
    return Math.round((this.isBig ? BIG_STATE_PX : STATE_PX) * this.stretch * this.scene.density);
  }

  draw(image: LaneImage, top: number): void {
    const { scene, file } = this;
    this.seen.clear();
    columns.begin(image.width);
    this.bins(image, (tile, at, left, right) => addShares(tile, at, left, right, tile.columns.shares!, tile.columns.codes!));
    const y = Math.round(top * image.ratio);
    const tall = Math.round((top + this.height()) * image.ratio) - y;
    const lit = scene.lit && ((state: number) => scene.lit!(file.states.names[state]!));
    this.runs = columns.draw(image, y, tall, file.states, this.seen, scene.inks.line2, scene.inks.background, 1, lit);
    this.damage(image, top, this.height());
  }

  /** The colours of the state that lasts from one place to another; null if several do. */
  runAt(left: number, right: number): { color: string; ink: string; left: number } | null {
    const ratio = devicePixelRatio || 1;
    const run = this.runs.find(({ state, from, to }) => state !== OTHER && from / ratio <= left + 2 && to / ratio >= right - 2);
    if (!run) return null;
    const pixel = this.pixelOf(run.state);
    return { color: css(pixel), ink: inkOn(pixel), left: run.from / ratio };
  }

  /** The colour in which a state is drawn: fainter while others are lit. */
  private pixelOf(state: number): number {
    const { scene, file } = this;
    const pixel = file.states.pixels[state]!;
    return scene.lit && !scene.lit(file.states.names[state]!) ? unlit(pixel, scene.inks.background) : pixel;
  }

  drawOver(context: CanvasRenderingContext2D, top: number): void {
    const ratio = devicePixelRatio || 1;
    const { states } = this.file;
    for (const { state, from, to } of this.runs) {
      const room = (to - from) / ratio;
      if (room < LABEL_PX || state === OTHER || this.height() < 12) continue;
      const label = this.scene.labels.fit(states.names[state]!, room - 2 * PADDING_PX);
      if (!label) continue;
      context.fillStyle = inkOn(this.pixelOf(state));
      context.fillText(label, from / ratio + PADDING_PX, top + this.height() / 2);
    }
  }
}

/** Boxes in rows: what spans, operations and entities have in common. */
abstract class BoxLane extends TileLane {
  protected depth: number;
  protected readonly rows: number;

  constructor(scene: Scene, file: FileModel, index: number, level: number) {
    super(scene, file, index, level);
    this.rows = Math.max(1, file.table!.rows[index]!);
    this.depth = this.rows;
  }

  override get opens(): boolean {
    return this.rows > 1;
  }

  protected abstract get rowPx(): number;

  override fit(): boolean {
    if (!this.open) return false;
    let depth = 1;
    let isKnown = false;
    for (const { tile, from, to, origin } of this.pieces()) {
      isKnown = true;
      const first = this.firstRow(tile);
      if (first < 0) continue;
      for (let row = this.rows - 1; row >= depth; row--) {
        if (this.hasAny(tile, first + row, from - origin, to - origin)) {
          depth = row + 1;
          break;
        }
      }
    }
    if (!isKnown || depth === this.depth) return false;
    this.depth = depth;
    return true;
  }

  private hasAny(tile: Tile, row: number, from: number, to: number): boolean {
    const { start, end, cell_bin } = tile.columns;
    for (let at = tile.boxStart[row]!; at < tile.boxStart[row + 1]!; at++) if (start![at]! < to && end![at]! > from) return true;
    const [low, high] = [from / tile.binNs, to / tile.binNs];
    for (let at = tile.cellStart[row]!; at < tile.cellStart[row + 1]!; at++) if (cell_bin![at]! + 1 > low && cell_bin![at]! < high) return true;
    return false;
  }

  /** The first row of this lane among those of a tile; -1 if the tile does not have it. */
  protected firstRow(tile: Tile): number {
    const at = tile.laneIndex.get(this.index);
    return at === undefined ? -1 : tile.row_offsets![at]!;
  }

  override rowAt(y: number): { row: number; top: number; height: number } {
    if (!this.open) return { row: 0, top: 0, height: this.height() };
    const row = Math.max(0, Math.min(this.depth - 1, Math.floor(y / this.rowPx)));
    return { row, top: row * this.rowPx, height: this.rowPx - 1 };
  }

  override rowBox(row: number): { top: number; height: number } {
    if (!this.open) return { top: 0, height: this.height() };
    return { top: row * this.rowPx, height: this.rowPx - 1 };
  }

  /** Makes a row visible. */
  reveal(row: number): boolean {
    if (this.open && row < this.depth) return false;
    this.open = true;
    this.depth = Math.max(this.depth, row + 1);
    return true;
  }

  override boxAt(x: number, y: number): BoxHit | null {
    const { scene } = this;
    if (!this.open && this.kind === "packed") return null;
    const { row } = this.rowAt(y);
    const perPixel = scene.spanNs / scene.widthPx;
    const time = x * perPixel;
    let best: BoxHit | null = null;
    let nearest = Infinity;
    for (const { tile, from, to, origin } of this.pieces()) {
      if (time < from - perPixel || time > to + perPixel) continue;
      const first = this.firstRow(tile);
      if (first < 0) continue;
      const { start, end, name, span, entity } = tile.columns;
      for (let at = tile.boxStart[first + row]!; at < tile.boxStart[first + row + 1]!; at++) {
        const [left, right] = [origin + start![at]!, origin + end![at]!];
        const far = Math.max(left - time, time - right, 0);
        // narrow boxes are at least a pixel wide
        if (far > perPixel || far >= nearest) continue;
        nearest = far;
        best = {
          name: tile.names![name![at]!]!,
          startNs: tile.startNs + BigInt(start![at]!),
          endNs: tile.startNs + BigInt(end![at]!),
          row,
          span: (span ?? entity)![at]!,
        };
      }
    }
    return best;
  }
}

interface Label {
  name: string;
  x: number;
  room: number;
  row: number;
  ink: string;
}

export class SpanLane extends BoxLane {
  readonly covers = true;
  private readonly labels: Label[] = [];
  private weights = new Float64Array(0);
  private longest = new Float64Array(0);
  private cellNames = new Int32Array(0);
  /** Of the row that is drawn: whether its columns have nothing yet, and its boxes of more than a pixel: left, right, name. */
  private isEmpty = true;
  private wides = 0;
  private wide = new Float64Array(768);

  /** @param bandPx If given, the height of all rows together, which then have no labels. */
  constructor(scene: Scene, file: FileModel, index: number, level: number, private readonly bandPx = 0) {
    super(scene, file, index, level);
    if (this.isEstimated) this.sub = "≈ sampled";
  }

  protected get rowPx(): number {
    if (this.bandPx) return Math.max(1, this.bandPx / this.rows);
    return this.open ? Math.round(ROW_PX * this.scene.density) : SMALL_ROW_PX;
  }

  height(): number {
    if (this.bandPx) return this.bandPx;
    return this.open ? this.depth * this.rowPx + (this.depth > 1 ? 3 : 0) : SMALL_ROW_PX * Math.min(3, this.rows);
  }

  draw(image: LaneImage, top: number): void {
    this.labels.length = 0;
    if (this.weights.length < image.width) {
      this.weights = new Float64Array(image.width);
      this.longest = new Float64Array(image.width);
      this.cellNames = new Int32Array(image.width);
    }
    const { ratio } = image;
    const { rowPx } = this;
    const shown = this.bandPx ? this.rows : this.open ? this.depth : Math.min(3, this.rows);
    const gap = this.bandPx ? 0 : Math.max(1, Math.round(ratio));
    const first = Math.max(0, Math.floor(-top / rowPx));
    const last = Math.min(shown, Math.ceil((image.height / ratio - top) / rowPx));
    const pieces = this.pieces();
    for (let row = first; row < last; row++) {
      const y = Math.round((top + row * rowPx) * ratio);
      const below = Math.round((top + (row + 1) * rowPx) * ratio);
      const drawn = this.drawRow(image, row, pieces) ? Math.max(1, below - y - gap) : 0;
      image.repeat(y, drawn);
      image.clear(y + drawn, below);
    }
    image.clear(Math.round((top + shown * rowPx) * ratio), Math.round((top + this.height()) * ratio));
    this.damage(image, top, this.height());
  }

  /** Writes one row into `image.line`; false if nothing is in it. */
  private drawRow(image: LaneImage, row: number, pieces: readonly Piece[]): boolean {
    const { scene } = this;
    const { width } = image;
    const scale = width / scene.spanNs;
    this.isEmpty = true;
    this.wides = 0;
    let done = -Infinity;
    for (const { tile, from, to, origin } of pieces) {
      const firstRow = this.firstRow(tile);
      if (firstRow < 0) continue;
      const { start, end, name, cell_bin: bins, cell_ns: covered, cell_name: names } = tile.columns;
      const { binNs, nameIds, boxStart, cellStart } = tile;
      const at = firstRow + row;
      const lastCell = cellStart[at + 1]!;
      for (let cell = lowerBound(bins!, cellStart[at]!, lastCell, (from - origin) / binNs - 1); cell < lastCell; cell++) {
        const left = origin + bins![cell]! * binNs;
        if (left >= to) break;
        const low = left > from ? left : from;
        const high = left + binNs < to ? left + binNs : to;
        if (low < high) this.cover(image, low * scale, high * scale, covered![cell]! / binNs, nameIds[names![cell]!]!);
      }
      const lastBox = boxStart[at + 1]!;
      const edge = to * scale < width ? to * scale : width;
      for (let box = lowerBound(end!, boxStart[at]!, lastBox, from - origin); box < lastBox; box++) {
        const left = (origin + start![box]!) * scale;
        if (left >= edge) break;
        const right = (origin + end![box]!) * scale;
        // the tile before had it too
        if (right <= done + 0.01) continue;
        const id = nameIds[name![box]!]!;
        if (right - left < NARROW_PX) this.cover(image, left > done ? left : done, right, 1, id);
        else this.addWide(left, right, id);
        done = right;
      }
    }
    if (this.isEmpty && !this.wides) return false;
    if (this.isEmpty) image.clearLine();
    else this.drawCovered(image);
    this.drawWide(image, row);
    return true;
  }

  /** Adds to the columns what a box or a cell covers of them. */
  private cover(image: LaneImage, left: number, right: number, share: number, name: number): void {
    const { weights, longest } = this;
    const { width } = image;
    if (this.isEmpty) {
      this.isEmpty = false;
      weights.fill(0, 0, width);
      longest.fill(0, 0, width);
    }
    const { scene } = this;
    // a name that is searched for is seen in whatever crowd
    const extra = scene.lit !== null && scene.isLit(this.file, name) ? 2 : 0;
    for (let x = left > 0 ? Math.floor(left) : 0; x < right && x < width; x++) {
      const part = ((right < x + 1 ? right : x + 1) - (left > x ? left : x)) * share;
      if (part <= 0) continue;
      weights[x]! += part;
      if (part + extra <= longest[x]!) continue;
      longest[x] = part + extra;
      this.cellNames[x] = name;
    }
  }

  private addWide(left: number, right: number, name: number): void {
    const at = 3 * this.wides++;
    if (at + 3 > this.wide.length) {
      const larger = new Float64Array(2 * this.wide.length);
      larger.set(this.wide);
      this.wide = larger;
    }
    this.wide[at] = left;
    this.wide[at + 1] = right;
    this.wide[at + 2] = name;
  }

  /** The pixel of a name, mixed with the background. */
  private paint(id: number, opacity: number): number {
    const { scene, file } = this;
    const { background, found } = scene.inks;
    if (scene.lit === null) return opacity === 1 ? file.names.colors[id]! : mixed(background, file.names.colors[id]!, opacity);
    return scene.isLit(file, id) ? mixed(background, found, opacity) : mixed(background, file.names.colors[id]!, opacity * FAINTEST);
  }

  private drawCovered(image: LaneImage): void {
    const { weights, longest, cellNames } = this;
    const { line, width } = image;
    image.clearLine();
    for (let x = 0; x < width; x++) {
      if (longest[x]! > 0) line[x] = this.paint(cellNames[x]!, opacityOf(weights[x]! < 1 ? weights[x]! : 1));
    }
  }

  private drawWide({ line, width, ratio }: LaneImage, row: number): void {
    const { scene, file, wide } = this;
    const isLighting = scene.lit !== null;
    const gap = Math.max(1, Math.round(ratio));
    const hasLabels = this.open && !this.bandPx;
    for (let at = 0; at < 3 * this.wides; at += 3) {
      const right = wide[at + 1]!;
      const x0 = Math.max(0, Math.round(wide[at]!));
      const x1 = Math.min(width, Math.round(right));
      if (x1 < x0) continue;
      const name = wide[at + 2]!;
      const stop = Math.max(x0 + 1, right <= width && x1 - x0 > 3 * gap ? x1 - gap : x1);
      const pixel = this.paint(name, 1);
      if (stop - x0 < FEW_PIXELS) for (let x = x0; x < stop; x++) line[x] = pixel;
      else line.fill(pixel, x0, stop);
      if (hasLabels && x1 - x0 >= LABEL_PX * ratio) {
        const isLit = isLighting && scene.isLit(file, name);
        const ink = isLit ? scene.inks.foundInk : isLighting ? scene.inks.muted : scene.inks.dark ? "#f2f3f6" : "#14161b";
        this.labels.push({ name: file.names.names[name]!, x: x0 / ratio, room: (stop - x0) / ratio, row, ink });
      }
    }
  }

  drawOver(context: CanvasRenderingContext2D, top: number): void {
    if (this.rowPx < LEAST_LABEL_PX) return;
    for (const { name, x, room, row, ink } of this.labels) {
      const label = this.scene.labels.fit(name, room - 2 * PADDING_PX);
      if (!label) continue;
      context.fillStyle = ink;
      context.fillText(label, x + PADDING_PX, top + (row + 0.5) * this.rowPx);
    }
  }
}

/** The first index in [from, to) whose value is above a limit; the column ascends there. */
function lowerBound(column: ArrayLike<number>, from: number, to: number, above: number): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (column[middle]! > above) to = middle;
    else from = middle + 1;
  }
  return from;
}

export class PackedLane extends BoxLane {
  private readonly labels: Label[] = [];
  private most = 0;

  constructor(scene: Scene, file: FileModel, index: number, level: number) {
    super(scene, file, index, level);
    this.open = this.rows <= 2;
    const { entities, median_ns: medians, p99_ns: p99s } = file.table!;
    const [median, p99] = [medians[index] ?? null, p99s[index] ?? null];
    this.sub = [grouped(entities[index]!) + (median ? "" : " in all"), median && `p50 ${duration(BigInt(median))}`, p99 && `p99 ${duration(BigInt(p99))}`].filter(Boolean).join(" · ");
  }

  protected get rowPx(): number {
    return Math.round(PACKED_ROW_PX * this.scene.density);
  }

  height(): number {
    return this.open ? Math.max(this.depth * this.rowPx + 5, this.rows > 2 ? CLOSED_PX : 0) : CLOSED_PX;
  }

  draw(image: LaneImage, top: number): void {
    this.labels.length = 0;
    this.seen.clear();
    if (this.open) this.drawRows(image, top);
    else this.drawLoad(image, top);
    this.damage(image, top, this.height());
  }

  /** Draws how many are in each state at once. */
  private drawLoad(image: LaneImage, top: number): void {
    const { scene, file } = this;
    const scale = image.width / scene.spanNs;
    columns.begin(image.width);
    for (const { tile, from, to, origin } of this.pieces()) {
      const first = this.firstRow(tile);
      if (first < 0) continue;
      for (let row = 0; row < this.rows; row++) this.addCells(tile, first + row, from, to, origin, scale);
    }
    this.most = columns.most;
    const y = Math.round(top * image.ratio);
    const tall = Math.round((top + CLOSED_PX) * image.ratio) - y;
    columns.draw(image, y, tall, file.states, this.seen, scene.inks.line2, scene.inks.background, Math.max(1, this.most) * 1.0001, this.lit);
  }

  private get lit(): ((state: number) => boolean) | null {
    const { scene, file } = this;
    return scene.lit && ((state) => scene.lit!(file.states.names[state]!));
  }

  private addCells(tile: Tile, row: number, from: number, to: number, origin: number, scale: number): void {
    const { cell_bin, cell_shares, cell_codes } = tile.columns;
    const { binNs } = tile;
    for (let cell = tile.cellStart[row]!; cell < tile.cellStart[row + 1]!; cell++) {
      const left = Math.max(from, origin + cell_bin![cell]! * binNs);
      const right = Math.min(to, origin + (cell_bin![cell]! + 1) * binNs);
      if (left < right) addShares(tile, cell, left * scale, right * scale, cell_shares!, cell_codes!);
    }
  }

  private drawRows(image: LaneImage, top: number): void {
    const { scene, file } = this;
    const { ratio, width } = image;
    const scale = width / scene.spanNs;
    const pieces = this.pieces();
    const first = Math.max(0, Math.floor(-top / this.rowPx));
    const last = Math.min(this.depth, Math.ceil((image.height / ratio - top) / this.rowPx));
    for (let row = first; row < last; row++) {
      columns.begin(width);
      for (const { tile, from, to, origin } of pieces) {
        const firstRow = this.firstRow(tile);
        if (firstRow >= 0) this.addCells(tile, firstRow + row, from, to, origin, scale);
      }
      const y = Math.round((top + 2 + row * this.rowPx) * ratio);
      const tall = Math.round((this.rowPx - 2) * ratio);
      columns.draw(image, y, tall, file.states, this.seen, scene.inks.line2, scene.inks.background, 1, this.lit);
      if (scene.lit) this.drawLit(image, pieces, row, y, tall);
      let done = -Infinity;
      for (const { tile, from, origin } of pieces) {
        const firstRow = this.firstRow(tile);
        if (firstRow < 0) continue;
        const { start, end } = tile.columns;
        const at = firstRow + row;
        for (let box = lowerBound(end!, tile.boxStart[at]!, tile.boxStart[at + 1]!, from - origin); box < tile.boxStart[at + 1]!; box++) {
          const left = (origin + start![box]!) * scale;
          const right = (origin + end![box]!) * scale;
          if (left >= width) break;
          if (right <= done + 0.01) continue;
          done = right;
          if (right - left >= EDGE_FROM_PX * ratio && left >= 0) image.fill(Math.round(left), y, Math.max(1, Math.round(ratio)), tall, scene.inks.faint);
          const x0 = Math.max(0, left);
          const room = (Math.min(width, right) - x0) / ratio;
          if (room >= ITEM_LABEL_PX) this.labels.push({ name: this.labelOf(tile, box, room), x: x0 / ratio, room, row, ink: "" });
        }
      }
    }
  }

  /** What an item is: the request that it handles, or what runs and its own name if both fit. */
  private labelOf(tile: Tile, box: number, room: number): string {
    const { request, name } = tile.columns;
    const handled = request?.[box];
    // what differs in a lane is at the end: `/cart/51`, or 51
    if (handled) {
      const whole = tile.requests![handled - 1]!;
      const path = whole.slice(whole.indexOf(" ") + 1);
      return [whole, path, path.slice(path.lastIndexOf("/") + 1)].find((each) => each && this.scene.labels.fits(each, room - ITEM_MARGIN_PX)) ?? whole;
    }
    const own = this.file.names.names[tile.nameIds[name![box]!]!]!;
    const whole = `${this.title.slice(this.title.lastIndexOf(".") + 1)} ${own}`;
    return this.scene.labels.fits(whole, room - ITEM_MARGIN_PX) ? whole : own;
  }

  /** Draws entities whose own names are lit in full colour. */
  private drawLit(image: LaneImage, pieces: readonly Piece[], row: number, y: number, tall: number): void {
    const { scene, file } = this;
    const scale = image.width / scene.spanNs;
    let any = false;
    columns.begin(image.width);
    for (const { tile, from, to, origin } of pieces) {
      const first = this.firstRow(tile);
      if (first < 0) continue;
      const { start, end, name } = tile.columns;
      const at = first + row;
      for (let box = lowerBound(end!, tile.boxStart[at]!, tile.boxStart[at + 1]!, from - origin); box < tile.boxStart[at + 1]!; box++) {
        if (origin + start![box]! >= to) break;
        if (!scene.isLit(file, tile.nameIds[name![box]!]!)) continue;
        any = true;
        this.addCells(tile, at, Math.max(from, origin + start![box]!), Math.min(to, origin + end![box]!), origin, scale);
      }
    }
    if (any) columns.draw(image, y, tall, file.states, this.seen, scene.inks.line2, scene.inks.background, 1, null);
  }

  drawOver(context: CanvasRenderingContext2D, top: number): void {
    const { scene } = this;
    if (!this.open) {
      if (this.most > 0.01) atRight(context, atOnce(this.most), scene, top + 8);
      return;
    }
    if (this.rowPx < LEAST_LABEL_PX) return;
    for (const { name, x, room, row } of this.labels) {
      const label = scene.labels.fit(name, room - ITEM_MARGIN_PX);
      if (!label) continue;
      const y = top + 2 + row * this.rowPx;
      context.globalAlpha = 0.72;
      context.fillStyle = css(scene.inks.background);
      context.fillRect(x + 2, y + 1, context.measureText(label).width + 6, this.rowPx - 4);
      context.globalAlpha = 1;
      context.fillStyle = scene.inks.text;
      context.fillText(label, x + 5, y + (this.rowPx - 2) / 2);
    }
  }
}

/** What the full height stands for: the mean of the column of pixels in which it is greatest. */
function atOnce(most: number): string {
  return `to ${number(Number(most.toPrecision(2)))} at once`;
}

/** Writes a scale at the right end of a lane. */
export function atRight(context: CanvasRenderingContext2D, text: string, scene: Scene, y: number): void {
  context.font = LABEL_FONT;
  const wide = context.measureText(text).width;
  context.globalAlpha = 0.8;
  context.fillStyle = css(scene.inks.background);
  context.fillRect(scene.widthPx - wide - 12, y - 8, wide + 8, 16);
  context.globalAlpha = 1;
  context.fillStyle = scene.inks.faintText;
  context.fillText(text, scene.widthPx - wide - 8, y);
}

export class CounterLane extends TileLane {
  override stretches = true;
  private least = 0;
  private greatest = 0;

  private get unit(): string {
    return this.file.table!.unit[this.index] ?? "";
  }

  height(): number {
    return Math.round(BAND_PX * this.stretch * this.scene.density);
  }

  /** The scale is that of the whole trace, so that it stays while one moves. */
  private measure(): void {
    let [least, greatest] = [Infinity, -Infinity];
    const { file, scene } = this;
    for (const { tile } of scene.overview(file, this.kind, this.block, BINS)) {
      const row = tile.laneIndex.get(this.index);
      if (row === undefined) continue;
      const { least: low, greatest: high } = tile.columns;
      for (let bin = row * BINS; bin < (row + 1) * BINS; bin++) {
        if (low![bin]! < least) least = low![bin]!;
        if (high![bin]! > greatest) greatest = high![bin]!;
      }
    }
    if (least > greatest) return;
    [this.least, this.greatest] = [least, greatest];
    this.sub = extentOf(least, greatest, (value) => quantity(value, this.unit));
  }

  draw(image: LaneImage, top: number): void {
    this.measure();
    const { accent: line, background } = this.scene.inks;
    const scale = new Scale(this.least, this.greatest);
    scale.place((top + this.height() - 1) * image.ratio, (this.height() - 2) * image.ratio);
    const area = mixed(background, line, AREA);
    let column = -1;
    let [low, high] = [NaN, NaN];
    const flush = (next: number) => {
      for (let x = Math.max(0, column); x < next && x < image.width; x++) {
        if (Number.isNaN(high)) break;
        scale.column(image, x, low, high, line, area);
      }
    };
    this.bins(image, (tile, at, left) => {
      const x = Math.max(0, Math.floor(left + 1e-6));
      const [least, greatest] = [tile.columns.least![at]!, tile.columns.greatest![at]!];
      if (x !== column) {
        flush(x);
        column = x;
        low = high = NaN;
      }
      if (!(low <= least) && !Number.isNaN(least)) low = least;
      if (!(high >= greatest) && !Number.isNaN(greatest)) high = greatest;
    });
    if (column >= 0) flush(image.width);
    this.damage(image, top, this.height());
  }

  /** The scale is below the name, except where names are above their lanes. */
  drawOver(context: CanvasRenderingContext2D, top: number): void {
    if (NARROW.matches && this.sub) atRight(context, this.sub, this.scene, top + 8);
  }
}

/** Bars of how many samples there are. */
class Bars {
  private readonly heights: Float64Array;
  private readonly barPx: number;
  private readonly barNs: number;
  private isTime = false;
  private most = 0;

  constructor(image: LaneImage, spanNs: number) {
    this.barPx = Math.max(1, Math.round(BAR_PX * image.ratio));
    this.heights = new Float64Array(Math.ceil(image.width / this.barPx) + 1);
    this.barNs = (this.barPx / image.width) * spanNs;
  }

  /** Adds a bin of a tile that has samples. */
  add(tile: Tile, at: number, left: number, right: number): void {
    this.isTime = tile.unit === "ns" || this.isTime;
    const count = tile.columns.count![at]!;
    const amount = this.isTime ? tile.columns.weight![at]! : count;
    const { barPx } = this;
    // a sample represents the time before it, which may be longer than a bin
    const from = this.isTime ? Math.min(left, right - ((amount / count) * barPx) / this.barNs) : left;
    // a bin at the edge of two bars is divided between them
    const last = Math.min(this.heights.length - 1, Math.floor((right - 1e-9) / barPx));
    for (let each = Math.max(0, Math.floor(from / barPx)); each <= last; each++) {
      this.heights[each]! += (amount * (Math.min(right, (each + 1) * barPx) - Math.max(from, each * barPx))) / (right - from);
    }
  }

  draw(image: LaneImage, bottom: number, tall: number, pixel: number): void {
    this.most = Math.max(0, ...this.heights);
    this.heights.forEach((height, each) => {
      if (!height) return;
      const high = Math.max(1, Math.round((height / this.most) * tall));
      image.fill(each * this.barPx, bottom - high, Math.max(1, this.barPx - 1), high, pixel);
    });
  }

  /** What the highest bar stands for; empty without any. */
  get scale(): string {
    if (!this.most) return "";
    if (this.isTime) {
      const threads = number(Number((this.most / this.barNs).toPrecision(2)));
      return `to ${threads} ${threads === "1" ? "thread" : "threads"}`;
    }
    return `to ${number(Math.ceil(this.most))} in ${duration(BigInt(Math.max(1, Math.round(this.barNs))), 2)}`;
  }
}

/** Samples over time, or points: bars of how many there are. */
export class DensityLane extends TileLane {
  override stretches = true;
  private bars: Bars | null = null;

  height(): number {
    return Math.round((this.kind === "points" ? STATE_PX : BAND_PX * this.stretch) * this.scene.density);
  }

  draw(image: LaneImage, top: number): void {
    const bars = (this.bars = new Bars(image, this.scene.spanNs));
    const names = new Int32Array(this.kind === "points" ? image.width : 0).fill(-1);
    this.bins(image, (tile, at, left, right) => {
      const count = tile.columns.count![at]!;
      if (!count) return;
      if (this.kind === "points") {
        names[Math.min(image.width - 1, Math.floor(left))] = tile.nameIds[tile.columns.name![at]!] ?? -1;
        return;
      }
      bars.add(tile, at, left, right);
    });
    const bottom = Math.round((top + this.height() - 1) * image.ratio);
    const tall = (this.height() - 3) * image.ratio;
    if (this.kind === "points") {
      const thick = Math.max(1, Math.round(image.ratio));
      for (let x = 0; x < image.width; x++) {
        if (names[x]! < 0) continue;
        const isLit = this.scene.lit !== null && this.scene.isLit(this.file, names[x]!);
        const pixel = isLit ? this.scene.inks.found : this.file.names.marks[names[x]!]!;
        image.fill(x, bottom - Math.round(tall), thick, Math.round(tall), this.scene.lit && !isLit ? mixed(this.scene.inks.background, pixel, 0.3) : pixel);
      }
      return;
    }
    bars.draw(image, bottom, tall, this.file.names.marks[this.file.names.id(this.title)]!);
    this.damage(image, top, this.height());
  }

  drawOver(context: CanvasRenderingContext2D, top: number): void {
    if (this.kind !== "points" && this.bars?.scale) atRight(context, this.bars.scale, this.scene, top + 8);
  }
}

export class GroupLane extends TileLane {
  readonly heads = true;
  readonly holdsMore = true;
  private most = 0;
  private bars: Bars | null = null;

  override get opens(): boolean {
    return true;
  }

  override get detail(): string {
    const { file, index } = this;
    const own = file.table!.detail[index]!;
    const isOfGroups = file.children[index]!.some((child) => file.table!.kind[child] === "group");
    return this.withSide(own && isOfGroups ? own : [own, grouped(file.countIn(index))].filter(Boolean).join(" · "));
  }

  height(): number {
    return this.open ? GROUP_PX : GROUP_CLOSED_PX;
  }

  draw(image: LaneImage, top: number): void {
    if (this.open) return;
    this.seen.clear();
    const { scene, file } = this;
    const scale = image.width / scene.spanNs;
    columns.begin(image.width);
    const bars = new Bars(image, scene.spanNs);
    for (const { tile, from, to, origin } of this.pieces()) {
      const { load, count } = tile.columns;
      const { binNs } = tile;
      const first = Math.max(0, Math.floor((from - origin) / binNs));
      const last = Math.min(BINS, Math.ceil((to - origin) / binNs));
      for (let bin = first; bin < last; bin++) {
        if (count?.[bin]) bars.add(tile, bin, Math.max(from, origin + bin * binNs) * scale, Math.min(to, origin + (bin + 1) * binNs) * scale);
      }
      for (let state = 0; state < tile.stateIds.length; state++) {
        for (let bin = first; bin < last; bin++) {
          const amount = load![state * BINS + bin]!;
          if (amount > 0) columns.add(Math.max(from, origin + bin * binNs) * scale, Math.min(to, origin + (bin + 1) * binNs) * scale, tile.stateIds[state]!, amount);
        }
      }
    }
    this.most = columns.most;
    const y = Math.round(top * image.ratio);
    const tall = Math.round((top + GROUP_CLOSED_PX) * image.ratio) - y;
    const lit = scene.lit && ((state: number) => scene.lit!(file.states.names[state]!));
    columns.draw(image, y, tall, file.states, this.seen, scene.inks.line2, scene.inks.background, Math.max(1, this.most) * 1.0001, lit);
    this.bars = this.most > 0 ? null : bars;
    this.bars?.draw(image, y + tall - image.ratio, tall - 2 * image.ratio, file.names.marks[file.names.id(this.title)]!);
  }

  drawOver(context: CanvasRenderingContext2D, top: number): void {
    if (!this.open && this.bars?.scale) atRight(context, this.bars.scale, this.scene, top + 8);
    if (!this.open && this.most > 0.01) atRight(context, atOnce(this.most), this.scene, top + 8);
  }
}

/** The heading of a file. */
export class FileLane implements Lane {
  readonly level = 1;
  readonly heads = true;
  open = true;

  /** @param side Which of two runs it is, on a page that compares them: the lanes of both follow the last one. */
  constructor(
    private readonly scene: Scene,
    readonly file: FileModel,
    private readonly side = "",
    private readonly about = "",
  ) {}

  get opens(): boolean {
    return this.side !== "before";
  }

  get holdsMore(): boolean {
    return this.side === "before";
  }

  get title(): string {
    return this.side ? `${this.side}: ${this.file.info.name}` : this.file.info.name;
  }

  get detail(): string {
    return [this.about, this.file.info.what].filter(Boolean).join(" · ");
  }

  get badge(): string {
    const { aligned, status } = this.file.info;
    if (aligned === "start") return "not aligned";
    return status === "failed" ? "not read" : status === "reading" ? "reading" : "";
  }

  height(): number {
    return FILE_PX;
  }

  draw(image: LaneImage, top: number): void {
    const y = Math.round(top * image.ratio);
    image.fill(0, y, image.width, Math.round(FILE_PX * image.ratio), this.scene.inks.chrome);
    const { start_ns, end_ns } = this.file.info;
    if (start_ns === null || end_ns === null) return;
    const scale = image.width / this.scene.spanNs;
    const left = this.scene.since(this.file, BigInt(start_ns)) * scale;
    const right = this.scene.since(this.file, BigInt(end_ns)) * scale;
    // where the file has anything
    const bar = Math.max(1, Math.round(2 * image.ratio));
    const x = Math.max(0, Math.round(left));
    image.fill(x, y + Math.round((FILE_PX / 2) * image.ratio), Math.round(Math.min(image.width, right)) - x, bar, this.scene.inks.line2);
  }
}
