/**
 * A column of nanoseconds up to 2^63, as two columns of 32 bits: a double would lose the last
 * digits beyond 104 days, and bigint columns are too slow to draw from.
 */

export const HIGH = 2 ** 32;

export class Times {
  readonly hi: Uint32Array;
  readonly lo: Uint32Array;

  constructor(length: number) {
    this.hi = new Uint32Array(length);
    this.lo = new Uint32Array(length);
  }

  get(index: number): bigint {
    return (BigInt(this.hi[index]!) << 32n) | BigInt(this.lo[index]!);
  }

  /** As a double, exact up to 2^53. */
  number(index: number): number {
    return this.hi[index]! * HIGH + this.lo[index]!;
  }

  /** The signed distance from an instant, exact when it is under 2^53. */
  since(index: number, hi: number, lo: number): number {
    return (this.hi[index]! - hi) * HIGH + (this.lo[index]! - lo);
  }
}

/** The two halves of a time. */
export function halves(ns: bigint): [hi: number, lo: number] {
  return [Number(ns >> 32n), Number(ns & 0xffffffffn)];
}

/** The first index in [from, to) whose time is above `ns`; the column ascends there. */
export function firstAbove(times: Times, from: number, to: number, ns: bigint): number {
  if (ns < 0n) return from;
  const [hi, lo] = halves(ns);
  while (from < to) {
    const middle = (from + to) >>> 1;
    const above = times.hi[middle]! > hi || (times.hi[middle] === hi && times.lo[middle]! > lo);
    if (above) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** Adds up times without losing a nanosecond, one sum for each slot. */
export class Sums {
  private readonly hi: Float64Array;
  private readonly lo: Float64Array;

  constructor(slots: number) {
    this.hi = new Float64Array(slots);
    this.lo = new Float64Array(slots);
  }

  add(slot: number, ns: number): void {
    const hi = Math.floor(ns / HIGH);
    this.addHalves(slot, hi, ns - hi * HIGH);
  }

  addHalves(slot: number, hi: number, lo: number): void {
    this.hi[slot]! += hi;
    this.lo[slot]! += lo;
  }

  get(slot: number): bigint {
    return (BigInt(this.hi[slot]!) << 32n) + BigInt(this.lo[slot]!);
  }
}
