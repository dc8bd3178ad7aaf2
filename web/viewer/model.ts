/** The files that are open: their lanes, their states and names with colours, their place on the axis. */

import { Division, atNight, isLibrary, legendColors, markColor, nameColor } from "../shared/name-colors";
import { withoutPrefix } from "../shared/fit";
import { pixelOf } from "../shared/lane-image";
import { CLASS_COLORS } from "../shared/state-classes";
import { numbered } from "./lane-filter";
import type { Conclusion, FileInfo, Finding, Kind, LaneNames, LaneTable, RawTile } from "./protocol";
import type { Tile, Wanted } from "./tile-store";

/** A table of names to which tiles add theirs, with the colour of each in the present theme. */
export class NameTable {
  readonly names: string[] = [];
  colors = new Uint32Array(64);
  marks = new Uint32Array(64);
  private readonly ids = new Map<string, number>();
  private readonly division = new Division();
  private isDark = false;

  id(name: string): number {
    let id = this.ids.get(name);
    if (id !== undefined) return id;
    id = this.names.length;
    this.ids.set(name, id);
    this.names.push(name);
    const wereDivided = this.division.isKnown;
    this.division.add(name);
    if (id >= this.colors.length) {
      this.colors = grown(this.colors);
      this.marks = grown(this.marks);
    }
    if (wereDivided === this.division.isKnown) this.paint(id);
    else this.recolor(this.isDark);
    return id;
  }

  recolor(dark: boolean): void {
    this.isDark = dark;
    for (let id = 0; id < this.names.length; id++) this.paint(id);
  }

  private paint(id: number): void {
    const name = this.names[id]!;
    const quiet = this.division.isKnown ? isLibrary(name) : null;
    this.colors[id] = nameColor(name, quiet, this.isDark);
    this.marks[id] = markColor(name, quiet, this.isDark);
  }
}

function grown(colors: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(2 * colors.length);
  larger.set(colors);
  return larger;
}

const RANK = 8; // of states without a class: below sleeping
const OTHER_RANK = 8.5; // below the quiet states, which may fill the rest

/** The states of a file: their names, colours and order of stacking. */
export class StateTable {
  readonly names: string[] = [];
  readonly ranks: number[] = [];
  readonly quiet: boolean[] = [];
  private colors = new Uint32Array(64);
  private isPainted = false;
  private readonly ids = new Map<string, number>();
  private readonly given: ({ light: number; dark: number } | null)[] = [];
  private isDark = false;
  /** How many states there were when they were declared last. */
  private declared = 0;

  declare(table: LaneTable): void {
    for (const state of table.states) {
      const id = this.id(state.name);
      const light = state.color ? pixelOf(state.color) : null;
      const own = state.class === null ? undefined : CLASS_COLORS[state.class];
      // the colours of a class belong together
      const dark = own && light === pixelOf(own[0]) ? pixelOf(own[1]) : null;
      this.given[id] = light === null ? null : { light, dark: dark ?? atNight(light) };
      this.classify(id, state.class, state.rank);
    }
    this.declared = this.names.length;
  }

  /** Returns states in the order in which they are stacked and listed, whichever came first. */
  ordered(ids: readonly number[]): number[] {
    const rank = (id: number) => (id === OTHER ? OTHER_RANK : this.ranks[id]!);
    const place = (id: number) => Math.min(id, this.declared);
    return [...ids].sort((a, b) => rank(a) - rank(b) || place(a) - place(b) || (this.names[a]! < this.names[b]! ? -1 : 1));
  }

  /** Takes the class and the rank of a state. */
  classify(id: number, name: string | null, rank: number): void {
    this.ranks[id] = rank;
    this.quiet[id] = name === "sleep" || name === "idle";
    const text = this.names[id]!;
    if (name === "span") this.given[id] ??= { light: markColor(text, null, false), dark: markColor(text, null, true) };
    const colors = name === null ? undefined : CLASS_COLORS[name];
    if (colors) this.given[id] ??= { light: pixelOf(colors[0]), dark: pixelOf(colors[1]) };
    this.isPainted = false;
  }

  id(name: string): number {
    let id = this.ids.get(name);
    if (id !== undefined) return id;
    id = this.names.length;
    this.ids.set(name, id);
    this.names.push(name);
    this.ranks.push(RANK);
    this.quiet.push(false);
    this.given.push(null);
    if (id >= this.colors.length) this.colors = grown(this.colors);
    this.isPainted = false;
    return id;
  }

  recolor(dark: boolean): void {
    this.isDark = dark;
    this.isPainted = false;
  }

  isKnown(name: string): boolean {
    return this.ids.has(name);
  }

  /** The colour of a name, which need not be a state that is drawn: those would have other colours with it. */
  colorOf(name: string): number {
    const id = this.ids.get(name);
    return id === undefined ? markColor(name, null, this.isDark) : this.pixels[id]!;
  }

  isQuiet(name: string): boolean {
    return this.quiet[this.ids.get(name) ?? -1] ?? false;
  }

  /** The colours of states, by id. */
  get pixels(): Uint32Array {
    if (!this.isPainted) {
      this.isPainted = true;
      const { names, given, isDark } = this;
      const own = legendColors(names.filter((_, id) => !given[id]), isDark);
      names.forEach((name, id) => {
        const colors = given[id];
        this.colors[id] = colors ? (isDark ? colors.dark : colors.light) : own.get(name)!;
      });
    }
    return this.colors;
  }
}

let serial = 0;

/** Time that is in none of the three longest states of a bin. */
export const OTHER = -1;

/** The kinds of lanes that statistics of states, of spans and of samples are about. */
export const OF_STATES: ReadonlySet<Kind> = new Set<Kind>(["state", "packed"]);
export const OF_SPANS: ReadonlySet<Kind> = new Set<Kind>(["stack", "async"]);
export const OF_SAMPLES: ReadonlySet<Kind> = new Set<Kind>(["stack", "density"]);

/** What is in a lane that is not a group. */
const NONE: number[] = [];
/** A shorter prefix is kept, as it is easier to read than what remains. */
const LONG_PREFIX = 8;

export class FileModel {
  readonly states = new StateTable();
  readonly names = new NameTable();
  table: LaneTable | null = null;
  children: number[][] = [];
  /** Whether lanes have yet to be called. */
  hasNameless = false;
  roots: number[] = [];
  private titles: string[] = [];
  /** What stands out in the whole file; null if nobody has looked for it. */
  findings: Finding[] | null = null;
  /** What limited it; null as long as that is not known. */
  conclusions: Conclusion[] | null = null;
  summary = "";
  /** The version of the file in which that was looked for. */
  foundIn = -1;
  /** When a file that grows is to be asked again. */
  findAgain = 0;

  constructor(
    readonly index: number,
    public info: FileInfo,
  ) {}

  /** By how much it was moved by hand. */
  movedNs = 0n;

  get offsetNs(): bigint {
    return BigInt(this.info.offset_ns) + this.movedNs;
  }

  /** Takes the lanes of the file's present layout. */
  adopt(table: LaneTable): void {
    this.table = table;
    this.hasNameless = table.name.includes(null);
    this.children = table.kind.map((kind) => (kind === "group" ? [] : NONE));
    this.titles = [];
    this.roots = [];
    table.parent.forEach((parent, lane) => parent < 0 && this.roots.push(lane));
    table.parent.forEach((parent, lane) => parent >= 0 && this.children[parent]!.push(lane));
    this.states.declare(table);
  }

  /** Takes the names of lanes that had none. */
  call({ lane, name, detail, handle }: LaneNames): void {
    const table = this.table!;
    lane.forEach((index, at) => {
      table.name[index] = name[at]!;
      table.detail[index] = detail[at]!;
      table.handle[index] = handle[at]!;
    });
    this.titles = [];
  }

  /** The name of a lane with what distinguishes it from its siblings. */
  titleOf(index: number): string {
    if (this.titles[index] === undefined) {
      const above = this.table!.parent[index]!;
      this.shorten(above < 0 ? this.roots : this.children[above]!);
    }
    return this.titles[index]!;
  }

  /** The lanes in the same group as one, which is among them. */
  siblingsOf(index: number): readonly number[] {
    const above = this.table!.parent[index]!;
    return above < 0 ? this.roots : this.children[above]!;
  }

  private shorten(siblings: number[]): void {
    const { name, handle, kind } = this.table!;
    const { titles } = this;
    const names = new Set(siblings.flatMap((lane) => name[lane] ?? []));
    const short = siblings.length > 1 ? withoutPrefix([...names]) : (text: string) => text;
    for (const lane of siblings) {
      const own = name[lane] ?? "";
      const path = handle[lane] ?? "";
      // `main, lane 2` is below `main`
      const comma = own.lastIndexOf(", ");
      if (comma > 0 && names.has(own.slice(0, comma))) titles[lane] = own.slice(comma + 2);
      else if (own.length - short(own).length >= LONG_PREFIX && short(own).length > 3) titles[lane] = short(own);
      else titles[lane] = own;
      const title = titles[lane]!;
      // a number says little
      if (!/^\d+$/.test(title)) continue;
      const called = numbered(title, path);
      if (called !== null) titles[lane] = called;
      else if (kind[lane] === "group" && this.children[lane]!.some((child) => handle[child]?.startsWith(`Processes/${title}/`))) titles[lane] = `process ${title}`;
    }
  }

  /** The name of a lane among all of the page, which stays when the page is opened again. */
  keyOf(index: number): string {
    const { parent, name, handle } = this.table!;
    if (handle[index]) return `${this.index}:${handle[index]}`;
    if (name[index] === null) return `${this.index}:#${index}`;
    const parts: string[] = [];
    for (let at = index; at >= 0; at = parent[at]!) parts.unshift(name[at]!);
    return `${this.index}:${parts.join("/")}`;
  }

  /** The lane with a key, by its number; -1 if there is none. */
  withKey(key: string): number {
    const { handle } = this.table!;
    const own = `${this.index}:`;
    if (!key.startsWith(own)) return -1;
    const path = key.slice(own.length);
    return handle.findIndex((each, index) => (each ? each === path : each !== null && this.keyOf(index) === key));
  }

  /** Whether a lane with this number is of one of these kinds, or has such lanes in it; null is any lane. */
  has(kinds: ReadonlySet<Kind>, index: number | null): boolean {
    if (index !== null && kinds.has(this.table!.kind[index]!)) return true;
    return (index === null ? this.roots : this.children[index]!).some((child) => this.has(kinds, child));
  }

  /** How many lanes a group has, with those of the groups in it. */
  countIn(index: number): number {
    const { kind } = this.table!;
    return this.children[index]!.reduce((sum, child) => sum + (kind[child] === "group" ? this.countIn(child) : 1), 0);
  }

  recolor(dark: boolean): void {
    this.states.recolor(dark);
    this.names.recolor(dark);
  }

  /** Completes a tile of this file. */
  complete(raw: RawTile, of: Wanted): Tile {
    const columns = inRows(raw.columns);
    const rows = raw.row_offsets ? raw.row_offsets[raw.row_offsets.length - 1]! : 0;
    const known = this.states.names.length;
    const states = Int32Array.from(raw.states ?? [], (name) => (name === "" && of.kind === "group" ? OTHER : this.states.id(name)));
    states.forEach((id, at) => id >= known && this.states.classify(id, raw.classes?.[at] ?? null, raw.ranks?.[at] ?? RANK));
    return {
      ...raw,
      columns,
      startNs: BigInt(raw.start_ns),
      binNs: Number(raw.bin_ns),
      serial: serial++,
      stateIds: states,
      nameIds: Int32Array.from(raw.names ?? [], (name) => this.names.id(name)),
      laneIndex: new Map(raw.lanes.map((lane, at) => [lane, at])),
      boxStart: rowStarts(columns.row, rows),
      cellStart: rowStarts(columns.cell_row, rows),
    };
  }
}

const BOXES = ["row", "start", "end", "name", "span", "entity", "request"];

/** The columns of a tile with its boxes in order of their rows, and by time in them. */
function inRows(columns: RawTile["columns"]): RawTile["columns"] {
  const { row, start } = columns;
  if (!row || !start || row.every((each, at) => !at || row[at - 1]! < each || (row[at - 1] === each && start[at - 1]! <= start[at]!))) return columns;
  const order = Uint32Array.from(row.keys()).sort((a, b) => row[a]! - row[b]! || start[a]! - start[b]!);
  const sorted = { ...columns };
  for (const name of BOXES) {
    const column = columns[name];
    if (column) sorted[name] = column.map((_: number, at: number) => column[order[at]!]!);
  }
  return sorted;
}

/** Where each row begins in a column of ascending rows. */
function rowStarts(column: ArrayLike<number> | undefined, rows: number): Int32Array {
  const starts = new Int32Array(rows + 1);
  if (!column) return starts;
  for (let at = 0; at < column.length; at++) starts[column[at]! + 1]!++;
  for (let row = 0; row < rows; row++) starts[row + 1]! += starts[row]!;
  return starts;
}
