/** Which part of a span of time is on the screen: exact, and finer than a nanosecond. */

/** Grains in a nanosecond: a pan at the deepest zoom moves by less than a pixel. */
export const GRAINS = 1024n;

const clamp = (value: bigint, low: bigint, high: bigint) =>
  value < low ? low : value > high ? high : value;

export class Viewport {
  /** In grains since the window's start. */
  start = 0n;
  span: bigint;
  widthNs: bigint;
  private whole: bigint;
  private readonly fewest: bigint;

  /** @param fewestNs What is shown at the deepest zoom. */
  constructor(widthNs: bigint, fewestNs = 10n) {
    this.widthNs = widthNs;
    this.whole = widthNs * GRAINS;
    this.span = this.whole;
    const fewest = fewestNs * GRAINS;
    this.fewest = fewest < this.whole ? fewest : this.whole;
  }

  /** Makes the whole longer; all of it stays in view if it was. */
  grow(widthNs: bigint): void {
    const { isWhole } = this;
    this.widthNs = widthNs;
    this.whole = widthNs * GRAINS;
    if (isWhole) this.span = this.whole;
  }

  get isWhole(): boolean {
    return this.span === this.whole;
  }

  /** The nanoseconds that are at least partly in view: [startNs, endNs). */
  get startNs(): bigint {
    return this.start / GRAINS;
  }

  get endNs(): bigint {
    return (this.start + this.span + GRAINS - 1n) / GRAINS;
  }

  /** Where a time is, 0 at the left edge and 1 at the right. */
  ratio(ns: bigint): number {
    return Number(ns * GRAINS - this.start) / Number(this.span);
  }

  /** The nanosecond at a place between 0 and 1. */
  at(ratio: number): bigint {
    const ns = (this.start + BigInt(Math.floor(Number(this.span) * ratio))) / GRAINS;
    return clamp(ns, 0n, this.widthNs - 1n);
  }

  /** Shows `factor` times as much, with what is at `ratio` kept in place. */
  zoom(factor: number, ratio: number): void {
    const span = clamp(BigInt(Math.round(Number(this.span) * factor)), this.fewest, this.whole);
    const kept = this.start + BigInt(Math.round(Number(this.span) * ratio));
    this.set(kept - BigInt(Math.round(Number(span) * ratio)), span);
  }

  pan(ratio: number): void {
    this.set(this.start + BigInt(Math.round(Number(this.span) * ratio)), this.span);
  }

  /** Shows [start, end). */
  show(startNs: bigint, endNs: bigint): void {
    this.set(startNs * GRAINS, (endNs - startNs) * GRAINS);
  }

  /** Shows this many nanoseconds about the place that is at `ratio`. */
  resize(ns: bigint, ratio: number): void {
    const span = clamp(ns * GRAINS, this.fewest, this.whole);
    const kept = this.start + BigInt(Math.round(Number(this.span) * ratio));
    this.set(kept - BigInt(Math.round(Number(span) * ratio)), span);
  }

  reset(): void {
    this.set(0n, this.whole);
  }

  /** Moves by as little as brings a time into view. */
  reveal(ns: bigint): void {
    const place = ns * GRAINS;
    if (place < this.start || place >= this.start + this.span) {
      this.set(place - this.span / 2n, this.span);
    }
  }

  private set(start: bigint, span: bigint): void {
    this.span = clamp(span, this.fewest, this.whole);
    this.start = clamp(start, 0n, this.whole - this.span);
  }
}
