/** A number over time: a line from its least to its greatest value, above a fainter area. */

import { duration, grouped } from "./format";
import type { LaneImage, View } from "./lane-image";
import { mixed } from "./lane-image";
import type { Lane } from "./lane-tree";

export interface CounterColumns {
  title: string;
  process: string;
  /** When it got each value; ascending. */
  time: Float64Array;
  /** NaN where it has none. */
  value: Float64Array;
}

export interface CounterPens {
  background: number;
  line: number;
}

const HEIGHT_PX = 40;
export const AREA = 0.22;

/** Where values are in a lane whose area begins at 0, which is therefore always in it. */
export class Scale {
  private readonly low: number;
  private readonly range: number;
  private bottom = 0;
  private tall = 0;

  constructor(least: number, greatest: number) {
    this.low = Math.min(0, least);
    // the difference of two large numbers may be infinite
    this.range = Math.max(Math.max(0, greatest) / 2 - this.low / 2, Number.MIN_VALUE);
  }

  /** In pixels. */
  place(bottom: number, tall: number): void {
    this.bottom = Math.round(bottom);
    this.tall = tall;
  }

  /** Draws the values in one column of pixels. */
  column(image: LaneImage, x: number, least: number, greatest: number, line: number, area: number): void {
    const y = (value: number) => Math.round(this.bottom - ((value / 2 - this.low / 2) / this.range) * this.tall);
    const [upper, lower, zero] = [y(greatest), y(least), y(0)];
    if (lower < zero) image.fill(x, lower, 1, zero - lower, area);
    else if (upper > zero) image.fill(x, zero, 1, upper - zero, area);
    image.fill(x, upper, 1, Math.max(1, Math.round(image.ratio), lower - upper), line);
  }
}

/** From where to where values are. */
export function extentOf(least: number, greatest: number, text: (value: number) => string): string {
  if (!(least <= greatest)) return "";
  return least === greatest ? text(least) : `${text(least)} to ${text(greatest)}`;
}

export class CounterLane implements Lane {
  readonly level = 2;
  readonly opens = false;
  open = true;
  readonly title: string;
  readonly detail: string;
  private readonly scale: Scale;

  constructor(
    readonly columns: CounterColumns,
    private readonly pens: CounterPens,
  ) {
    this.title = columns.title;
    let least = Infinity;
    let greatest = -Infinity;
    for (const value of columns.value) {
      if (value < least) least = value;
      if (value > greatest) greatest = value;
    }
    this.detail = extentOf(least, greatest, number);
    this.scale = new Scale(least, greatest);
  }

  height(): number {
    return HEIGHT_PX;
  }

  draw(image: LaneImage, top: number, view: View): void {
    const { time, value } = this.columns;
    const { background, line } = this.pens;
    const perPixel = (view.to - view.from) / image.width;
    this.scale.place((top + HEIGHT_PX - 1) * image.ratio, (HEIGHT_PX - 2) * image.ratio);
    const area = mixed(background, line, AREA);
    let index = this.before(view.from);
    for (let x = 0; x < image.width; x++) {
      const to = view.from + (x + 1) * perPixel;
      let least = index >= 0 ? value[index]! : NaN;
      let greatest = least;
      while (index + 1 < time.length && time[index + 1]! < to) {
        index++;
        // a comparison with NaN is false, so that a missing value is passed over
        if (!(least <= value[index]!)) least = value[index]!;
        if (!(greatest >= value[index]!)) greatest = value[index]!;
      }
      if (Number.isNaN(greatest)) continue;
      this.scale.column(image, x, least, greatest, line, area);
    }
  }

  /** The value at a time; NaN without one. */
  at(time: number): number {
    const index = this.before(time);
    return index < 0 ? NaN : this.columns.value[index]!;
  }

  /** The last index whose time is not after `at`; -1 before the first. */
  private before(at: number): number {
    const { time } = this.columns;
    let low = 0;
    let high = time.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (time[middle]! <= at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

/** A value with its unit; nanoseconds as a duration. */
export function quantity(value: number, unit: string): string {
  if (unit === "ns" && Number.isFinite(value)) return duration(BigInt(Math.round(value)));
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** Beyond this, digits are neither read nor exact. */
const LONGEST = 1e15;

/** A value as text: an integer with all digits, otherwise six of them. */
export function number(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) <= LONGEST) return grouped(value);
  const rounded = Number(value.toPrecision(6));
  return (Math.abs(rounded) > LONGEST ? rounded.toExponential() : String(rounded)).replace("e+", "e");
}
