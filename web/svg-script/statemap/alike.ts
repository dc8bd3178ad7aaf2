/**
 * Rows by likeness: those that are in the same states at the same times stand together, the largest
 * kind first.
 *
 * A row is a vector: the part of each state in each of a few parts of the time. Kinds are found by
 * k-means, which begins with rows that are far from each other, so that the result is always the
 * same.
 */

import { type Paint, RowColumns, type Sink, WHOLE } from "../../shared/row-columns";
import { Viewport } from "../../shared/viewport";
import type { Panel } from "./model";

const PARTS = 12;
const KINDS = 12;
const MOST_STATES = 24;
const SAMPLE = 512;
const ROUNDS = 6;

class Vector implements Sink {
  constructor(readonly values: Float32Array) {}
  at = 0;

  solid(from: number, to: number, layer: number): void {
    for (let x = from; x < to; x++) this.values[this.at + layer * PARTS + x]! += 1;
  }

  mixed(from: number, to: number, layers: Int32Array, parts: Float64Array, count: number): void {
    for (let each = 0; each < count; each++) {
      for (let x = from; x < to; x++) this.values[this.at + layers[each]! * PARTS + x]! += parts[each]! / WHOLE;
    }
  }
}

/** The rows of a panel in an order in which like ones are neighbours. */
export function alike(panel: Panel, rows: Int32Array, widthNs: bigint): Int32Array {
  const states = Math.min(MOST_STATES, panel.states.length);
  const size = states * PARTS;
  const vector = new Vector(new Float32Array(rows.length * size));
  // of very many states the last ones count as one
  const paint: Paint = {
    pixels: new Uint32Array(states),
    noticed: [],
    layers: Uint32Array.from(panel.states, (_, state) => Math.min(state, states - 1)),
    part: null,
  };
  const [view, columns] = [new Viewport(widthNs, 1n), new RowColumns()];
  rows.forEach((row, at) => {
    vector.at = at * size;
    columns.collect(panel, row, view, PARTS, paint, vector);
  });
  const { values } = vector;
  const far = (at: number, center: Float64Array) => {
    let sum = 0;
    for (let i = 0; i < size; i++) sum += (values[at * size + i]! - center[i]!) ** 2;
    return sum;
  };
  const centers = seeds(rows.length, (at) => Float64Array.from(values.subarray(at * size, (at + 1) * size)), far);
  const kind = new Int32Array(rows.length);
  const distance = new Float64Array(rows.length);
  for (let round = 0; round < ROUNDS; round++) {
    for (let at = 0; at < rows.length; at++) {
      distance[at] = Infinity;
      centers.forEach((center, each) => {
        const apart = far(at, center);
        if (apart < distance[at]!) [distance[at], kind[at]] = [apart, each];
      });
    }
    const counts = centers.map(() => 0);
    for (const center of centers) center.fill(0);
    for (let at = 0; at < rows.length; at++) {
      counts[kind[at]!]!++;
      for (let i = 0; i < size; i++) centers[kind[at]!]![i]! += values[at * size + i]!;
    }
    centers.forEach((center, each) => counts[each] && center.forEach((sum, i) => (center[i] = sum / counts[each]!)));
  }
  const counts = centers.map(() => 0);
  for (const each of kind) counts[each]!++;
  const order = Array.from(rows, (_, at) => at);
  order.sort((a, b) => counts[kind[b]!]! - counts[kind[a]!]! || kind[a]! - kind[b]! || distance[a]! - distance[b]! || a - b);
  return Int32Array.from(order, (at) => rows[at]!);
}

/** Centres that are far from each other: each next one is the row that is furthest from those before. */
function seeds(count: number, vectorOf: (at: number) => Float64Array, far: (at: number, center: Float64Array) => number): Float64Array[] {
  const every = Math.max(1, Math.floor(count / SAMPLE));
  const sample = Array.from({ length: Math.ceil(count / every) }, (_, at) => at * every);
  const centers = count ? [vectorOf(0)] : [];
  const nearest = sample.map(() => Infinity);
  while (centers.length < KINDS) {
    let furthest = 0;
    sample.forEach((at, i) => {
      nearest[i] = Math.min(nearest[i]!, far(at, centers.at(-1)!));
      if (nearest[i]! > nearest[furthest]!) furthest = i;
    });
    if (!count || !nearest[furthest]) break;
    centers.push(vectorOf(sample[furthest]!));
  }
  return centers;
}
