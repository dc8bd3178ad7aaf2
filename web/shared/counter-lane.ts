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
const AREA = 0.22;

export class CounterLane implements Lane {
  readonly level = 2;
  readonly opens = false;
  open = true;
  readonly title: string;
  readonly detail: string;
  private readonly least: number;
  private readonly greatest: number;

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
    this.detail = `${number(least)} to ${number(greatest)}`;
    // an area begins at 0
    this.least = Math.min(0, least);
    this.greatest = Math.max(greatest, this.least + 1e-12);
  }

  height(): number {
    return HEIGHT_PX;
  }

  draw(image: LaneImage, top: number, view: View): void {
    const { time, value } = this.columns;
    const { background, line } = this.pens;
    const perPixel = (view.to - view.from) / image.width;
    const high = (HEIGHT_PX - 2) * image.ratio;
    const bottom = Math.round((top + HEIGHT_PX - 1) * image.ratio);
    const y = (amount: number) => Math.round(bottom - ((amount - this.least) / (this.greatest - this.least)) * high);
    const area = mixed(background, line, AREA);
    const thick = Math.max(1, Math.round(image.ratio));
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
      const [upper, lower] = [y(greatest), y(least)];
      image.fill(x, lower, 1, bottom - lower, area);
      image.fill(x, upper, 1, Math.max(thick, lower - upper), line);
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
  if (unit === "ns") return duration(BigInt(Math.round(value)));
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** A value as text, with up to three decimals. */
export function number(value: number): string {
  return Number.isInteger(value) ? grouped(value) : String(Number(value.toPrecision(6)));
}
