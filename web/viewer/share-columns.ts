/** Shares of states by column of pixels, of which each has a few states, and their drawing as stacks. */

import type { LaneImage } from "../shared/lane-image";
import { mixed } from "../shared/lane-image";
import { stackHeights } from "../shared/staterow";
import { OTHER } from "./model";
import type { StateTable } from "./model";

/** More states than this of a column are drawn as others. */
const SLOTS = 16;
const OTHER_RANK = 8.5 * 65536;
/** From this share on, a column is drawn as if the state were alone. */
const ALONE = 0.998;

export interface Run {
  state: number;
  /** In device pixels. */
  from: number;
  to: number;
}

/** The colour of what is not lit while something else is. */
export function unlit(pixel: number, background: number): number {
  return mixed(background, pixel, 0.28);
}

export class ShareColumns {
  private ids = new Int32Array(0);
  private parts = new Float32Array(0);
  private counts = new Uint8Array(0);
  private readonly heights = new Int32Array(SLOTS);
  private readonly noticed = new Array<boolean>(SLOTS);
  private width = 0;

  begin(width: number): void {
    this.width = width;
    if (this.counts.length < width) {
      this.counts = new Uint8Array(width);
      this.ids = new Int32Array(width * SLOTS);
      this.parts = new Float32Array(width * SLOTS);
    } else this.counts.fill(0, 0, width);
  }

  /** Adds a share of a state to the columns between two places in device pixels. */
  add(from: number, to: number, state: number, share: number): void {
    let x = Math.max(0, Math.floor(from));
    const last = Math.min(this.width, Math.ceil(to));
    for (; x < last; x++) {
      const part = Math.min(to, x + 1) - Math.max(from, x);
      if (part > 0) this.put(x, state, part * share);
    }
  }

  private put(x: number, state: number, part: number): void {
    const base = x * SLOTS;
    const count = this.counts[x]!;
    for (let at = base; at < base + count; at++) {
      if (this.ids[at] === state) {
        this.parts[at]! += part;
        return;
      }
    }
    if (count < SLOTS) {
      this.ids[base + count] = state;
      this.parts[base + count] = part;
      this.counts[x]!++;
    } else {
      this.ids[base + SLOTS - 1] = OTHER;
      this.parts[base + SLOTS - 1]! += part;
    }
  }

  /** The share of a state, or of all, in a column. */
  shareAt(x: number, state: number | null = null): number {
    let sum = 0;
    for (let at = x * SLOTS; at < x * SLOTS + this.counts[x]!; at++) if (state === null || this.ids[at] === state) sum += this.parts[at]!;
    return sum;
  }

  /** The greatest sum of a column. */
  get most(): number {
    let most = 0;
    for (let x = 0; x < this.width; x++) most = Math.max(most, this.shareAt(x));
    return most;
  }

  /**
   * Draws the columns as stacks into the lines [top, top + tall).
   *
   * @param seen To which the states are added.
   * @param scale What fills the height.
   * @param lit If given, which states are lit; the others are pale.
   * @returns The runs of columns of one state.
   */
  draw(image: LaneImage, top: number, tall: number, states: StateTable, seen: Set<number>, other: number, background: number, scale = 1, lit: ((state: number) => boolean) | null = null): Run[] {
    const { counts, ids, parts, width } = this;
    const runs: Run[] = [];
    let run: Run | null = null;
    const pixelOf = (state: number) => {
      const pixel = state === OTHER ? other : states.pixels[state]!;
      return lit && (state === OTHER || !lit(state)) ? unlit(pixel, background) : pixel;
    };
    // below the quiet states, which may fill the rest
    const rank = (state: number) => (state === OTHER ? OTHER_RANK : states.ranks[state]! * 65536 + state);
    for (let x = 0; x < width; x++) {
      const count = counts[x]!;
      const base = x * SLOTS;
      const isAlone = count === 1 && scale === 1 && parts[base]! >= ALONE;
      if (run && (!isAlone || ids[base] !== run.state)) {
        run.to = x;
        image.fill(run.from, top, x - run.from, tall, pixelOf(run.state));
        runs.push(run);
        seen.add(run.state);
        run = null;
      }
      if (!count) continue;
      if (isAlone) {
        run ??= { state: ids[base]!, from: x, to: x };
        continue;
      }
      // a few states: sorted by insertion
      for (let at = base + 1; at < base + count; at++) {
        const [id, part] = [ids[at]!, parts[at]!];
        const place = rank(id);
        let below = at - 1;
        while (below >= base && rank(ids[below]!) > place) {
          ids[below + 1] = ids[below]!;
          parts[below + 1] = parts[below]!;
          below--;
        }
        ids[below + 1] = id;
        parts[below + 1] = part;
      }
      for (let slot = 0; slot < count; slot++) {
        if (scale !== 1) parts[base + slot]! /= scale;
        const id = ids[base + slot]!;
        seen.add(id);
        this.noticed[slot] = id !== OTHER && !states.quiet[id];
      }
      stackHeights(parts.subarray(base, base + count), this.noticed, tall, this.heights);
      let y = top + tall;
      for (let slot = 0; slot < count; slot++) {
        const pixel = pixelOf(ids[base + slot]!);
        for (let left = this.heights[slot]!; left > 0 && y > top; left--) {
          y--;
          if (y >= 0 && y < image.height) image.pixels[y * image.width + x] = pixel;
        }
      }
    }
    if (run) {
      run.to = width;
      seen.add(run.state);
      image.fill(run.from, top, width - run.from, tall, pixelOf(run.state));
      runs.push(run);
    }
    return runs;
  }
}
