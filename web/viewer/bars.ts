/** How much there is over a range, in bars of equal length. */

/** The bars of a line. */
export const BARS = 64;

/** Adds what lasts from one place to another, in bars, as the mean of each. */
export function addTo(bars: Float64Array, from: number, to: number, amount: number): void {
  const last = Math.min(BARS, Math.ceil(to));
  for (let bar = Math.max(0, Math.floor(from)); bar < last; bar++) bars[bar]! += amount * (Math.min(to, bar + 1) - Math.max(from, bar));
}
