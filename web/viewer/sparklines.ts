/** How much of each state there is over a range, for the rows of a table. */

import { BARS, addTo } from "./bars";
import type { FileModel } from "./model";
import { OF_STATES } from "./model";
import { BINS } from "./protocol";
import type { StatisticsRow } from "./protocol";
import type { Source } from "./source";

/** Each costs one or two tiles. */
const MOST_GROUPS = 24;

/** By kind and state, how many entities are in the state on average during each bar. */
export type Loads = Map<string, Float64Array>;

export function keyOf({ kind, key }: Pick<StatisticsRow, "kind" | "key">): string {
  return `${kind ?? ""}\n${key}`;
}

/**
 * Sums the groups of states in a range of a file's time.
 *
 * @param lane A group to which it is restricted; no other lane has sums.
 */
export async function loadsOf(source: Source, file: FileModel, kinds: ReadonlySet<string>, lane: number | undefined, from: bigint, to: bigint, signal: AbortSignal): Promise<Loads> {
  const loads: Loads = new Map();
  const { kind, parent, name, layout } = file.table!;
  const isWithin = (group: number) => {
    for (let at = group; at >= 0; at = parent[at]!) if (at === lane) return true;
    return lane === undefined;
  };
  // a part of a large group has another name
  const groups = kind.flatMap((each, group) => (each === "group" && kinds.has(name[group] ?? "") && file.has(OF_STATES, group) && isWithin(group) ? [group] : []));
  if (!groups.length || groups.length > MOST_GROUPS || to <= from) return loads;
  const level = Math.max(0, Math.ceil(Math.log2(Number(to - from) / BINS)));
  const shift = BigInt(level + Math.log2(BINS));
  const perBar = Number(to - from) / BARS;
  for (const group of groups) {
    for (let index = from >> shift; index <= (to - 1n) >> shift; index++) {
      const raw = await source.tile(`${file.index}/${layout}/group/${group}/${level}/${index}`, signal);
      const { load } = raw.columns;
      if (!load || !raw.states) continue;
      const first = Number((index << shift) - from) / perBar;
      const wide = 2 ** level / perBar;
      raw.states.forEach((state, at) => {
        if (!state) return;
        const key = keyOf({ kind: name[group] ?? "", key: state });
        let bars = loads.get(key);
        if (!bars) loads.set(key, (bars = new Float64Array(BARS)));
        for (let bin = 0; bin < BINS; bin++) {
          const amount = load[at * BINS + bin]!;
          if (amount > 0) addTo(bars, first + bin * wide, first + (bin + 1) * wide, amount);
        }
      });
    }
  }
  return loads;
}
