/** The entities of shared rows whose name passes a filter which the name of their row does not pass. */

import type { Panel } from "./model";

export class Found {
  count = 0;
  /** By panel with shared rows, how many of the entities before each are found. */
  private readonly before = new Map<Panel, Uint32Array>();

  constructor(panels: Panel[], passes: (name: string) => boolean) {
    for (const panel of panels) {
      const { shared } = panel;
      if (!shared) continue;
      const before = new Uint32Array(shared.count + 1);
      const { names } = shared;
      for (let row = 0; row < panel.entities.length; row++) {
        const site = shared.siteOf(row);
        const isWhole = passes(panel.entities[row]!);
        for (let i = shared.rows[row]!; i < shared.rows[row + 1]!; i++) {
          before[i + 1] = before[i]! + (!isWhole && passes(`${site}/${names[i]!}`) ? 1 : 0);
        }
      }
      this.before.set(panel, before);
      this.count += before[shared.count]!;
    }
  }

  /** How many of the entities [first, last) of a panel are found. */
  of(panel: Panel, first: number, last: number): number {
    const before = this.before.get(panel);
    return before ? before[last]! - before[first]! : 0;
  }

  isIn(panel: Panel, row: number): boolean {
    const { shared } = panel;
    return shared !== null && this.of(panel, shared.rows[row]!, shared.rows[row + 1]!) > 0;
  }

  /** The part of a rectangle's entities, 0 to 1, that is found. */
  share(panel: Panel, rectangle: number): number {
    const { shared } = panel;
    if (!shared) return 0;
    const { first, last } = shared.between(rowOf(panel, rectangle), panel.starts.get(rectangle), panel.ends.get(rectangle));
    return this.of(panel, first, last) / (last - first);
  }

  /** The entity that is found next after a time, or before it; null if there is none. */
  next(panels: Panel[], from: bigint, by: number): { panel: Panel; row: number; entity: number; ns: bigint } | null {
    let nearest: { panel: Panel; row: number; entity: number; ns: bigint } | null = null;
    for (const panel of panels) {
      const { shared } = panel;
      if (!shared || !this.of(panel, 0, shared.count)) continue;
      for (let row = 0; row < panel.entities.length; row++) {
        if (!this.isIn(panel, row)) continue;
        for (let entity = shared.rows[row]!; entity < shared.rows[row + 1]!; entity++) {
          if (!this.of(panel, entity, entity + 1)) continue;
          const ns = shared.starts.get(entity);
          if (by > 0 ? ns <= from : ns >= from) continue;
          if (!nearest || (by > 0 ? ns < nearest.ns : ns > nearest.ns)) nearest = { panel, row, entity, ns };
        }
      }
    }
    return nearest;
  }
}

function rowOf(panel: Panel, rectangle: number): number {
  let from = 0;
  let to = panel.rows.length - 1;
  while (to - from > 1) {
    const middle = (from + to) >>> 1;
    if (panel.rows[middle]! > rectangle) to = middle;
    else from = middle;
  }
  return from;
}
