/** What a frame is drawn with: the range in view, the tiles that cover it, and the colours. */

import { BoxLabels } from "../shared/box-labels";
import { pixelOf } from "../shared/lane-image";
import { themeColor } from "../shared/page";
import { GRAINS } from "../shared/viewport";
import type { Viewport } from "../shared/viewport";
import type { FileModel } from "./model";
import type { Kind } from "./protocol";
import type { Piece, TileStore } from "./tile-store";

export interface Inks {
  dark: boolean;
  background: number;
  chrome: number;
  line: number;
  line2: number;
  faint: number;
  accent: number;
  blocked: number;
  found: number;
  text: string;
  muted: string;
  faintText: string;
  accentText: string;
  foundInk: string;
}

const FOUND = { light: "#b14cf0", dark: "#be78ff" };

export class Scene {
  readonly labels = new BoxLabels();
  inks!: Inks;
  /** Nanoseconds in view and in a device pixel, and the level of bins that are at most that wide. */
  spanNs = 1;
  perPixel = 1;
  level = 0;
  widthPx = 0;
  /** In axis time. */
  private leftNs = 0n;
  private fraction = 0;
  private rightNs = 0n;
  private readonly cache = new Map<string, Piece[]>();
  /** The names that are lit: those of a search, or of a row of a table; null if none are. */
  lit: ((name: string) => boolean) | null = null;
  /** How high lanes are, as a factor. */
  density = 1;
  private litIds = new Map<FileModel, Int8Array>();

  constructor(
    readonly tiles: TileStore,
    /** The axis time of the left edge of the whole. */
    public originNs: bigint,
  ) {
    this.recolor();
  }

  recolor(): void {
    const dark = document.documentElement.dataset.theme === "dark";
    const pixel = (name: string) => pixelOf(themeColor(name));
    this.inks = {
      dark,
      background: pixel("--bg"),
      chrome: pixel("--chrome"),
      line: pixel("--line"),
      line2: pixel("--line2"),
      faint: pixel("--faint"),
      accent: pixel("--accent"),
      blocked: pixelOf(dark ? "#f2482c" : "#b90005"),
      found: pixelOf(dark ? FOUND.dark : FOUND.light),
      text: themeColor("--text"),
      muted: themeColor("--muted"),
      faintText: themeColor("--faint"),
      accentText: themeColor("--accent"),
      foundInk: dark ? "#14161b" : "#ffffff",
    };
  }

  /** Begins a frame. */
  begin(view: Viewport, widthPx: number): void {
    this.tiles.begin();
    this.enter(view, widthPx);
  }

  /** Joins a frame that another scene has begun. */
  enter(view: Viewport, widthPx: number): void {
    this.widthPx = widthPx;
    this.spanNs = Number(view.span) / Number(GRAINS);
    this.perPixel = this.spanNs / Math.max(1, Math.round(widthPx * (devicePixelRatio || 1)));
    this.level = Math.max(0, Math.floor(Math.log2(this.perPixel)));
    this.leftNs = this.originNs + view.startNs;
    this.rightNs = this.originNs + view.endNs;
    this.fraction = Number(view.start % GRAINS) / Number(GRAINS);
    this.cache.clear();
  }

  /** Differs when the tiles of a block are others than before. */
  signature(file: FileModel, kind: Kind, block: number): string {
    return this.pieces(file, kind, block)
      .map(({ tile, from }) => `${tile.start_ns}:${tile.bin_ns}:${tile.serial}:${from}`)
      .join();
  }

  end(): void {
    this.tiles.end();
  }

  /** Whether nothing that the frame has asked for so far is missing. */
  get isComplete(): boolean {
    return !this.tiles.isWanting;
  }

  /** The tiles of a block that cover what is in view. */
  pieces(file: FileModel, kind: Kind, block: number): Piece[] {
    const key = `${file.index} ${kind} ${block}`;
    let found = this.cache.get(key);
    if (!found) {
      const left = this.leftNs - file.offsetNs;
      const of = { file: file.index, layout: file.table!.layout, kind, block };
      found = this.tiles.cover(of, this.level, left, this.rightNs - file.offsetNs, left, this.fraction);
      this.cache.set(key, found);
    }
    return found;
  }

  /** The tiles of a block that cover a whole file, of at most some hundred bins. */
  overview(file: FileModel, kind: Kind, block: number, bins: number): Piece[] {
    const { start_ns, end_ns } = file.info;
    if (start_ns === null || end_ns === null || !file.table) return [];
    const [from, to] = [BigInt(start_ns), BigInt(end_ns)];
    const level = Math.max(0, Math.ceil(Math.log2(Math.max(1, Number(to - from) / bins))));
    return this.tiles.cover({ file: file.index, layout: file.table.layout, kind, block }, level, from, to > from ? to : from + 1n, from);
  }

  /** The nanoseconds from the left edge of the view to a time of a file. */
  since(file: FileModel, ns: bigint): number {
    return Number(ns + file.offsetNs - this.leftNs) - this.fraction;
  }

  /** The time of a file at so many nanoseconds from the left edge. */
  fileTime(file: FileModel, ns: number): bigint {
    return this.leftNs - file.offsetNs + BigInt(Math.floor(ns + this.fraction));
  }

  /** Lights the names that match, and nothing else. */
  light(matches: ((name: string) => boolean) | null): void {
    this.lit = matches;
    this.litIds.clear();
  }

  /** Whether a name of a file is lit. */
  isLit(file: FileModel, id: number): boolean {
    if (!this.lit) return false;
    let known = this.litIds.get(file);
    if (!known || known.length < file.names.names.length) {
      const longer = new Int8Array(Math.max(256, 2 * file.names.names.length));
      if (known) longer.set(known);
      this.litIds.set(file, (known = longer));
    }
    if (!known[id]) known[id] = this.lit(file.names.names[id]!) ? 1 : -1;
    return known[id] === 1;
  }
}
