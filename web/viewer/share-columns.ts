/** Shares of states by column of pixels, of which each has a few states, and their drawing as stacks. */

import type { LaneImage } from "../shared/lane-image";
import { mixed } from "../shared/lane-image";
import { stackHeights } from "../shared/staterow";
import { OTHER } from "./model";
import type { StateTable } from "./model";

/** More states than this of a lane are drawn as others. */
const MOST_LAYERS = 256;
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
  /** The states in the order in which they came: each has a layer of the shares of all columns. */
  private readonly states: number[] = [];
  /** By state, its layer; -1 without one. The first is that of `OTHER`. */
  private layers = new Int32Array(0);
  private parts = new Float32Array(0);
  private width = 0;
  /** Of a column: the shares of the states in it, which of these are noticed, and how high they are. */
  private readonly shares = new Float32Array(MOST_LAYERS);
  private readonly noticed = new Uint8Array(MOST_LAYERS);
  private readonly heights = new Int32Array(MOST_LAYERS);
  private readonly here = new Uint8Array(MOST_LAYERS);

  begin(width: number): void {
    this.width = width;
    for (const state of this.states) this.layers[state - OTHER] = -1;
    this.states.length = 0;
  }

  /** Adds a share of a state to the columns between two places in device pixels. */
  add(from: number, to: number, state: number, share: number): void {
    const { width } = this;
    const left = Math.max(0, from);
    const right = Math.min(width, to);
    if (left >= right) return;
    const known = this.layers[state - OTHER] ?? -1;
    const base = (known < 0 ? this.layer(state) : known) * width;
    const { parts } = this;
    let x = Math.floor(left);
    if (right <= x + 1) {
      parts[base + x]! += (right - left) * share;
      return;
    }
    parts[base + x]! += (x + 1 - left) * share;
    for (x++; x + 1 <= right; x++) parts[base + x]! += share;
    if (x < right) parts[base + x]! += (right - x) * share;
  }

  /** Makes a layer for a state. */
  private layer(state: number): number {
    const { states, width } = this;
    if (state - OTHER >= this.layers.length) {
      const longer = new Int32Array(2 * (state - OTHER + 1)).fill(-1);
      longer.set(this.layers);
      this.layers = longer;
    }
    if (states.length >= MOST_LAYERS - 1 && state !== OTHER) return this.layers[0]! < 0 ? this.layer(OTHER) : this.layers[0]!;
    const layer = states.push(state) - 1;
    this.layers[state - OTHER] = layer;
    if (this.parts.length < (layer + 1) * width) {
      const larger = new Float32Array(2 * (layer + 1) * width);
      larger.set(this.parts);
      this.parts = larger;
    }
    this.parts.fill(0, layer * width, (layer + 1) * width);
    return layer;
  }

  /** The greatest sum of a column. */
  get most(): number {
    let most = 0;
    for (let x = 0; x < this.width; x++) {
      let sum = 0;
      for (let layer = 0; layer < this.states.length; layer++) sum += this.parts[layer * this.width + x]!;
      most = Math.max(most, sum);
    }
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
    const { parts, width, shares, noticed, heights, here } = this;
    const ordered = states.ordered(this.states);
    const bases = Int32Array.from(ordered, (state) => this.layers[state - OTHER]! * width);
    const pixels = Uint32Array.from(ordered, (state) => {
      const pixel = state === OTHER ? other : states.pixels[state]!;
      return lit && (state === OTHER || !lit(state)) ? unlit(pixel, background) : pixel;
    });
    const isNoticed = Uint8Array.from(ordered, (state) => Number(state !== OTHER && !states.quiet[state]));
    for (const state of ordered) seen.add(state);
    const runs: Run[] = [];
    // the index of the state that is alone in the columns since `from`
    let run = -1;
    let from = 0;
    const end = (x: number) => {
      if (run < 0) return;
      image.fill(from, top, x - from, tall, pixels[run]!);
      runs.push({ state: ordered[run]!, from, to: x });
    };
    for (let x = 0; x < width; x++) {
      let count = 0;
      for (let at = 0; at < bases.length; at++) {
        const share = parts[bases[at]! + x]!;
        if (share === 0) continue;
        shares[count] = share / scale;
        noticed[count] = isNoticed[at]!;
        here[count++] = at;
      }
      const alone = count === 1 && scale === 1 && shares[0]! >= ALONE ? here[0]! : -1;
      if (alone !== run) {
        end(x);
        run = alone;
        from = x;
      }
      if (alone >= 0 || !count) continue;
      stackHeights(shares, noticed, count, tall, heights);
      let bottom = top + tall;
      for (let slot = 0; slot < count; slot++) {
        const high = Math.min(heights[slot]!, bottom - top);
        bottom -= high;
        image.fill(x, bottom, 1, high, pixels[here[slot]!]!);
      }
    }
    end(width);
    return runs;
  }
}
