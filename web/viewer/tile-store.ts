/**
 * Tiles: those that a frame needs are asked for once it is drawn, those that it no longer needs are
 * not waited for, and the ones that were used last are kept.
 */

import { BINS } from "./protocol";
import type { Kind, RawTile } from "./protocol";
import type { Source } from "./source";
import { SourceError } from "./source";

const MOST_BYTES = 100e6;
const MOST_REQUESTS = 6;
const DEEPEST_LEVEL = 53;
/** So many levels above the wanted one are looked through for a coarser tile. */
const COARSER = 40;
/** If there is none, the one so many levels above is asked for first, of kinds of which a server has sums of wide bins. */
const FIRST = 3;
const SUMMED = new Set<Kind>(["state", "group"]);
/** And so many below it, of a trace that has grown since. */
const FINER = 3;
/** A tile that could not be had is asked for again after this time. */
const RETRY_MS = 3000;

/** A tile in memory, with what lanes compute from it once. */
export interface Tile extends RawTile {
  startNs: bigint;
  binNs: number;
  /** Another number for each tile that arrives. */
  serial: number;
  /** By number in `states` and `names`, those of the file. */
  stateIds: Int32Array;
  nameIds: Int32Array;
  /** By lane, its index in the tile. */
  laneIndex: Map<number, number>;
  /** Where the rows begin in the columns of boxes and of cells. */
  boxStart: Int32Array;
  cellStart: Int32Array;
}

/** A part of the view and the tile that has it. */
export interface Piece {
  tile: Tile;
  /** The part, and where the tile begins, in nanoseconds from the left edge of the view. */
  from: number;
  to: number;
  origin: number;
}

interface Entry {
  tile: Tile | null;
  stale: boolean;
  used: number;
  failed: number;
}

export interface Wanted {
  file: number;
  layout: number;
  kind: Kind;
  block: number;
}

export class TileStore {
  private readonly entries = new Map<string, Entry>();
  private readonly running = new Map<string, AbortController>();
  private wanted: string[] = [];
  private bytes = 0;
  private frame = 0;
  /** A sentence about tiles that could not be had; empty if all could. */
  problem = "";
  /** A sentence about data of a file that could not be read; null if all could. */
  damage: { file: number; text: string } | null = null;

  /**
   * @param adopt Completes a tile that has arrived.
   * @param arrived Called when a frame may look different now.
   */
  constructor(
    private readonly source: Source,
    private readonly adopt: (raw: RawTile, of: Wanted) => Tile,
    private readonly arrived: () => void,
  ) {}

  /** Whether tiles of the last frame are still to come. */
  get isIncomplete(): boolean {
    return this.running.size > 0 || this.wanted.length > 0;
  }

  /** Whether this frame wants tiles that are not there. */
  get isWanting(): boolean {
    return this.wanted.some((key) => !this.entries.get(key)?.tile);
  }

  /** Begins a frame: what it needs is collected from here on. */
  begin(): void {
    this.frame++;
    this.wanted = [];
  }

  /**
   * The pieces that cover a range of a file's time, sharp where they are there, else coarser or finer.
   *
   * @param level The wanted bins are 2^level nanoseconds wide.
   * @param originNs What the pieces' times count from, which may be a fraction later.
   */
  cover(of: Wanted, level: number, fromNs: bigint, toNs: bigint, originNs: bigint, fraction = 0): Piece[] {
    const at = Math.max(0, Math.min(DEEPEST_LEVEL, level));
    const shift = BigInt(at);
    const last = (toNs - 1n) >> (shift + 9n);
    const pieces: Piece[] = [];
    for (let index = fromNs >> (shift + 9n); index <= last; index++) {
      const start = index << (shift + 9n);
      const end = (index + 1n) << (shift + 9n);
      const entry = this.need(of, at, index);
      const low = Number((start > fromNs ? start : fromNs) - originNs) - fraction;
      const high = Number((end < toNs ? end : toNs) - originNs) - fraction;
      if (entry.tile) pieces.push(piece(entry.tile, originNs, fraction, low, high));
      else if (!this.substitute(of, at, index, originNs, fraction, low, high, pieces)) this.needFirst(of, at, index);
    }
    return pieces;
  }

  /** Ends a frame: asks for what is missing, the first wanted first, and stops asking for the rest. */
  end(): void {
    const wanted = new Set(this.wanted);
    for (const [key, request] of this.running) if (!wanted.has(key)) request.abort();
    this.fetchNext();
    this.shrink();
  }

  /** Makes all tiles of a file be checked again; they are drawn until then. */
  refresh(file: number): void {
    for (const [key, entry] of this.entries) {
      if (!key.startsWith(`${file}/`)) continue;
      entry.stale = true;
      entry.failed = 0;
    }
  }

  /** Asks again at once for what could not be had. */
  retry(): void {
    for (const entry of this.entries.values()) entry.failed = 0;
    this.problem = "";
    this.arrived();
  }

  /** Drops the tiles of a file whose lanes have other numbers now. */
  drop(file: number): void {
    for (const [key, entry] of this.entries) {
      if (!key.startsWith(`${file}/`)) continue;
      this.bytes -= entry.tile?.bytes ?? 0;
      this.entries.delete(key);
    }
  }

  /**
   * Keeps the tiles of a file whose lanes have other numbers now, until there are newer ones.
   *
   * @param layout The layout with these numbers.
   * @param place Returns the numbers of some lanes of a kind, and their block; null if they are not together any more.
   * @returns Whether there are any.
   */
  carry(file: number, layout: number, place: (kind: Kind, lanes: readonly number[]) => { block: number; lanes: number[] } | null): boolean {
    let isAny = false;
    for (const [key, { tile, used }] of [...this.entries]) {
      if (!key.startsWith(`${file}/`)) continue;
      this.entries.delete(key);
      const [, , kind, , level, index] = key.split("/") as [string, string, Kind, string, string, string];
      const to = tile && place(kind, tile.lanes);
      if (!to) {
        this.bytes -= tile?.bytes ?? 0;
        continue;
      }
      const carried = { ...tile, lanes: to.lanes, laneIndex: new Map(to.lanes.map((lane, at) => [lane, at])) };
      const next = `${file}/${layout}/${kind}/${to.block}/${level}/${index}`;
      // lanes of two blocks may be in one now
      this.bytes -= this.entries.get(next)?.tile?.bytes ?? 0;
      this.entries.set(next, { tile: carried, stale: true, used, failed: 0 });
      isAny = true;
    }
    return isAny;
  }

  private need(of: Wanted, level: number, index: bigint): Entry {
    const key = keyOf(of, level, index);
    let entry = this.entries.get(key);
    if (!entry) this.entries.set(key, (entry = { tile: null, stale: false, used: 0, failed: 0 }));
    entry.used = this.frame;
    if (!entry.tile || entry.stale) this.wanted.push(key);
    return entry;
  }

  /** Asks for a coarser tile before all others. */
  private needFirst(of: Wanted, level: number, index: bigint): void {
    const above = Math.min(DEEPEST_LEVEL, level + FIRST);
    if (above === level || !SUMMED.has(of.kind)) return;
    const key = keyOf(of, above, index >> BigInt(above - level));
    if (this.wanted.includes(key)) return;
    this.need(of, above, index >> BigInt(above - level));
    this.wanted.unshift(...this.wanted.splice(-1));
  }

  /** Covers the range of a tile that is not there by a coarser one, or by finer ones; returns whether there is any. */
  private substitute(of: Wanted, level: number, index: bigint, originNs: bigint, fraction: number, from: number, to: number, into: Piece[]): boolean {
    let up = index;
    for (let above = level + 1; above <= Math.min(DEEPEST_LEVEL, level + COARSER); above++) {
      up >>= 1n;
      const entry = this.entries.get(keyOf(of, above, up));
      if (!entry?.tile) continue;
      entry.used = this.frame;
      into.push(piece(entry.tile, originNs, fraction, from, to));
      return true;
    }
    const before = into.length;
    this.divide(of, level, index, originNs, fraction, from, to, into, FINER);
    return into.length > before;
  }

  /** Covers the range of a tile by finer ones, down to so many levels. */
  private divide(of: Wanted, level: number, index: bigint, originNs: bigint, fraction: number, from: number, to: number, into: Piece[], levels: number): void {
    if (!level || !levels) return;
    for (const half of [2n * index, 2n * index + 1n]) {
      const entry = this.entries.get(keyOf(of, level - 1, half));
      if (!entry?.tile) {
        this.divide(of, level - 1, half, originNs, fraction, from, to, into, levels - 1);
        continue;
      }
      entry.used = this.frame;
      const start = Number(entry.tile.startNs - originNs) - fraction;
      const low = Math.max(from, start);
      const high = Math.min(to, start + BINS * entry.tile.binNs);
      if (low < high) into.push(piece(entry.tile, originNs, fraction, low, high));
    }
  }

  private fetchNext(): void {
    const now = performance.now();
    for (const key of this.wanted) {
      if (this.running.size >= MOST_REQUESTS) return;
      const entry = this.entries.get(key);
      if (!entry || (entry.tile && !entry.stale) || this.running.has(key) || now < entry.failed) continue;
      void this.fetch(key, entry);
    }
  }

  private async fetch(key: string, entry: Entry): Promise<void> {
    const request = new AbortController();
    this.running.set(key, request);
    try {
      const raw = await this.source.tile(key, request.signal);
      if (this.entries.get(key) !== entry) return;
      this.bytes += raw.bytes - (entry.tile?.bytes ?? 0);
      entry.tile = this.adopt(raw, parse(key));
      entry.stale = false;
      this.problem = "";
      if (raw.damaged) this.damage = { file: parse(key).file, text: raw.damaged };
    } catch (reason) {
      if (!request.signal.aborted) {
        entry.failed = performance.now() + RETRY_MS;
        // lanes that have other numbers now are read again with the session
        setTimeout(this.arrived, RETRY_MS + 1);
        if (!(reason instanceof SourceError)) throw reason;
        if (reason.status !== 410) this.problem = reason.message;
      }
    } finally {
      this.running.delete(key);
    }
    if (!request.signal.aborted) this.arrived();
    this.fetchNext();
  }

  /** Forgets the tiles that were not used for longest. */
  private shrink(): void {
    if (this.bytes <= MOST_BYTES && this.entries.size < 20_000) return;
    const old = [...this.entries].filter(([, { used }]) => used !== this.frame).sort(([, a], [, b]) => a.used - b.used);
    for (const [key, { tile }] of old) {
      if (this.bytes <= 0.8 * MOST_BYTES && this.entries.size < 10_000) return;
      this.bytes -= tile?.bytes ?? 0;
      this.entries.delete(key);
    }
  }
}

function keyOf({ file, layout, kind, block }: Wanted, level: number, index: bigint): string {
  return `${file}/${layout}/${kind}/${block}/${level}/${index}`;
}

function parse(key: string): Wanted {
  const [file, layout, kind, block] = key.split("/") as [string, string, Kind, string];
  return { file: Number(file), layout: Number(layout), kind, block: Number(block) };
}

function piece(tile: Tile, originNs: bigint, fraction: number, from: number, to: number): Piece {
  return { tile, from, to, origin: Number(tile.startNs - originNs) - fraction };
}
