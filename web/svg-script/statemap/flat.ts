/**
 * A row that is too flat to be stacked: one line of pixels, each the exact average of what it covers.
 * The rectangles of a row come in order of time, so one running pixel is enough.
 */

import { firstAbove, halves } from "../../shared/times";
import { GRAINS, type Viewport } from "../../shared/viewport";
import { type Panel, coverage } from "./model";

const THIN = 0.5; // as in kernels/text.pyx: a lone thin rectangle is half a pixel wide
const ROOM = 4;
const OPAQUE = 0xff000000;

/**
 * Draws a row into a line of `width` pixels; `colorOf` is the pixel of a rectangle, of which a part
 * may be gaps.
 */
export function drawFlat(
  pixels: Uint32Array,
  base: number,
  width: number,
  scale: number,
  panel: Panel,
  row: number,
  view: Viewport,
  colorOf: (rectangle: number) => number,
): void {
  const { starts, ends } = panel;
  const last = panel.rows[row + 1]!;
  const [hi, lo] = halves(view.startNs);
  const within = Number(view.start % GRAINS) / Number(GRAINS);
  const pxPerNs = width / (Number(view.span) / Number(GRAINS));
  const thin = THIN * scale;
  const room = ROOM * scale;

  let first = firstAbove(ends, panel.rows[row]!, last, view.startNs);
  if (first > panel.rows[row]!) first--; // a thin one may lend its neighbour's edge to the view
  let at = -1; // the pixel being mixed
  let covered = 0;
  let red = 0;
  let green = 0;
  let blue = 0;

  // to the left of the row's first rectangle is the window's start, as in the kernel
  const from = view.ratio(0n) * width;
  const to = view.ratio(view.widthNs) * width;
  const hasBefore = first > panel.rows[row]!;
  let lastLeft = hasBefore ? (starts.since(first - 1, hi, lo) - within) * pxPerNs : from;
  let lastRight = hasBefore ? (ends.since(first - 1, hi, lo) - within) * pxPerNs : from;
  let lent = 0; // by how much the rectangle before reaches into this one
  let nextLeft = first < last ? (starts.since(first, hi, lo) - within) * pxPerNs : 0;
  let nextRight = first < last ? (ends.since(first, hi, lo) - within) * pxPerNs : 0;
  for (let i = first; i < last && nextLeft < width + room; i++) {
    const ownLeft = nextLeft;
    const ownRight = nextRight;
    if (i + 1 < last) {
      nextLeft = (starts.since(i + 1, hi, lo) - within) * pxPerNs;
      nextRight = (ends.since(i + 1, hi, lo) - within) * pxPerNs;
    } else {
      nextLeft = nextRight = to;
    }
    let left = ownLeft + lent;
    let right = ownRight;
    lent = 0;
    const grow = thin - (ownRight - ownLeft);
    if (grow > 0) {
      const touchesLast =
        i > panel.rows[row]! && starts.lo[i] === ends.lo[i - 1] && starts.hi[i] === ends.hi[i - 1];
      const before = touchesLast ? lastRight - lastLeft : ownLeft - lastRight;
      const touchesNext =
        i + 1 < last && starts.lo[i + 1] === ends.lo[i] && starts.hi[i + 1] === ends.hi[i];
      const after = touchesNext ? nextRight - nextLeft : nextLeft - ownRight;
      const both = before >= room && after >= room;
      if (before >= room) left -= both ? grow / 2 : grow;
      if (after >= room) {
        right += both ? grow / 2 : grow;
        if (touchesNext) lent = right - ownRight;
      }
    } else if (i + 1 < last && starts.lo[i + 1] === ends.lo[i] && starts.hi[i + 1] === ends.hi[i]) {
      // the next may be thin and lone, and then takes some of this one's end
      const need = thin - (nextRight - nextLeft);
      if (need > 0 && ownRight - ownLeft >= room) {
        const beyond = beyondNext(panel, i + 1, last, hi, lo, pxPerNs, to - nextRight);
        right -= beyond >= room ? need / 2 : need;
      }
    }
    lastLeft = ownLeft;
    lastRight = ownRight;

    if (left < 0) left = 0;
    if (right > width) right = width;
    if (right <= left) continue;
    const color = colorOf(i);
    const dense = panel.shared ? coverage(panel, i) : 1;
    let pixel = Math.floor(left);
    if (pixel !== at) {
      if (covered > 0) pixels[base + at] = mix(red, green, blue, covered);
      at = pixel;
      covered = red = green = blue = 0;
    }
    if (right >= pixel + 1) {
      const part = (pixel + 1 - left) * dense;
      if (part === 1) pixels[base + pixel] = color | OPAQUE;
      else {
        red += (color & 255) * part;
        green += ((color >>> 8) & 255) * part;
        blue += ((color >>> 16) & 255) * part;
        pixels[base + pixel] = mix(red, green, blue, covered + part);
      }
      const whole = Math.floor(right);
      if (whole > pixel + 1) pixels.fill(color | alphaOf(dense), base + pixel + 1, base + whole);
      at = whole;
      covered = red = green = blue = 0;
      left = pixel = whole;
      if (right === whole) continue;
    }
    const part = (right - left) * dense;
    covered += part;
    red += (color & 255) * part;
    green += ((color >>> 8) & 255) * part;
    blue += ((color >>> 16) & 255) * part;
  }
  if (covered > 0 && at < width) pixels[base + at] = mix(red, green, blue, covered);
}

/** The room that a thin rectangle has on its far side. */
function beyondNext(
  panel: Panel,
  thin: number,
  last: number,
  hi: number,
  lo: number,
  pxPerNs: number,
  toEnd: number,
): number {
  if (thin + 1 >= last) return toEnd;
  const end = panel.ends.since(thin, hi, lo);
  const gap = (panel.starts.since(thin + 1, hi, lo) - end) * pxPerNs;
  if (gap > 0) return gap;
  return (panel.ends.since(thin + 1, hi, lo) - end) * pxPerNs;
}

function alphaOf(covered: number): number {
  return (covered >= 0.999 ? 255 : Math.round(covered * 255)) << 24;
}

function mix(red: number, green: number, blue: number, covered: number): number {
  return (
    (Math.round(red / covered) |
      (Math.round(green / covered) << 8) |
      (Math.round(blue / covered) << 16) |
      alphaOf(covered)) >>>
    0
  );
}
