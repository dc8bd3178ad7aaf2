/** What is around a thing of a one-file page, as the server answers it. */

import type { Data, Row } from "./embedded-data";
import { lowerBound } from "./embedded-data";
import { boxesIn, inOrder, insideOf } from "./embedded-spans";
import type { Arrows, Context, Hit, Standing } from "./protocol";

const MOST_INSIDE = 100;
const ON_CPU = /^CPUs\/([^/]+)\/Thread$/;
const THREAD = /^(.*Threads\/((?:[^/\\]|\\.)+))(\/.*)?$/s;

/** What the answers of a page already know. */
export interface Helpers {
  hit(row: Row, box: number): Hit;
  /** How the time of a row divides, the longest first. */
  shares(row: Row, time: number, width: number): { state: string | null; time_ns: string; share: number }[];
  flows(from: number, to: number, lane: number, row: number | null): Arrows;
  neighbors(lane: number, row: number, time: number): { previous: Hit | null; next: Hit | null };
}

/** @throws Error If there is no thing then. */
export function contextOf(data: Data, lane: number, index: number, time: number, helpers: Helpers): Context {
  const row = data.ofLane.get(lane)?.[index];
  const box = row ? data.firstEndingAfter(row, time) : -1;
  if (!row || box >= row.last || data.start[box]! > time) throw new Error("Nothing is there at that time.");
  const { hit } = helpers;
  const kind = data.table.kind[lane]!;
  const found = kind === "packed" ? ofEntity(data, row, box, hit) : kind === "state" ? ofState(data, row, box, hit) : ofSpan(data, row, box, hit);
  const [start, end] = found.times;
  return {
    callers: [],
    ...found.context,
    ...ofThread(data, lane, start, end, helpers),
    flows: helpers.flows(start, end, lane, kind === "packed" ? index : null),
    ...helpers.neighbors(lane, index, start),
  };
}

interface Found {
  times: [start: number, end: number];
  context: Pick<Context, "inside" | "standing"> & Partial<Context>;
}

/** A box or an item of a row: where it is, and how long it took. */
interface Each {
  row: Row;
  box: number;
  ns: number;
}

function longest(all: Each[], hit: Helpers["hit"]): Context["inside"] {
  return { count: all.length, hits: [...all].sort((a, b) => b.ns - a.ns).slice(0, MOST_INSIDE).map(({ row, box }) => hit(row, box)) };
}

function standing(of: string, all: Each[], own: number, hit: Helpers["hit"]): Standing {
  const sorted = Float64Array.from(all, ({ ns }) => ns).sort();
  const power = (ns: number) => Math.floor(Math.log2(Math.max(1, ns)));
  const first = power(sorted[0]!);
  const counts = new Array<number>(power(sorted.at(-1)!) - first + 1).fill(0);
  for (const ns of sorted) counts[power(ns) - first]!++;
  const best = all.reduce((most, each) => (each.ns > most.ns ? each : most));
  return {
    of,
    count: sorted.length,
    rank: 1 + sorted.length - lowerBound(sorted, own + 0.5),
    total_ns: String(Math.round(sorted.reduce((sum, ns) => sum + ns, 0))),
    min_ns: String(sorted[0]),
    median_ns: String(sorted[Math.ceil(sorted.length / 2) - 1]),
    max_ns: String(sorted.at(-1)),
    histogram: [first, counts],
    longest: hit(best.row, best.box),
  };
}

function rowOf(data: Data, box: number): Row {
  let [low, high] = [0, data.rows.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (data.rows[middle]!.first <= box) low = middle;
    else high = middle - 1;
  }
  return data.rows[low]!;
}

function ofSpan(data: Data, row: Row, box: number, hit: Helpers["hit"]): Found {
  const { kind, estimated } = data.table;
  const length = (each: number) => data.end(each) - data.start[each]!;
  const callers: Hit[] = [];
  if (data.isTangled(row)) {
    for (let above = data.parentOf(box); above >= 0; above = data.parentOf(above)) callers.unshift(hit(rowOf(data, above), above));
  } else {
    for (let at = row.row - 1; at >= 0; at--) {
      const upper = data.ofLane.get(row.lane)![at]!;
      const above = data.firstEndingAfter(upper, data.start[box]!);
      if (above < upper.last && data.start[above]! <= data.start[box]!) callers.unshift(hit(upper, above));
    }
  }
  const inside = inOrder(data, insideOf(data, box, row)).map((child) => ({ row: rowOf(data, child), box: child, ns: length(child) }));
  const code = data.merged.code[data.name[box]!]!;
  const same: Each[] = [];
  for (const each of data.rows) {
    if ((kind[each.lane] !== "stack" && kind[each.lane] !== "async") || estimated[each.lane] !== estimated[row.lane]) continue;
    for (let at = each.first; at < each.last; at++) if (data.merged.code[data.name[at]!] === code) same.push({ row: each, box: at, ns: length(at) });
  }
  return { times: [data.start[box]!, data.end(box)], context: { callers, inside: longest(inside, hit), standing: { ...standing(data.merged.names[code]!, same, length(box), hit), unfinished: same.filter((each) => data.open.has(each.box)).length } } };
}

function ofEntity(data: Data, row: Row, box: number, hit: Helpers["hit"]): Found {
  const item = data.itemOf(row, box);
  const [first, last] = [row.items![item]!, row.items![item + 1]! - 1];
  const lives = (data.ofLane.get(row.lane) ?? []).flatMap((each) => Array.from({ length: each.items!.length - 1 }, (_, at) => ({ row: each, box: each.items![at]!, ns: data.end(each.items![at + 1]! - 1) - data.start[each.items![at]!]! })));
  const [start, end] = [data.start[first]!, data.end(last)];
  const states: Each[] = [];
  for (let at = first; at <= last; at++) states.push({ row, box: at, ns: data.end(at) - data.start[at]! });
  return { times: [start, end], context: { inside: longest(states, (each, at) => stateHit(data, each, at, hit)), standing: standing(data.table.name[row.lane]!, lives, end - start, hit) } };
}

/** A state of an entity, in whose place its row otherwise has the entity. */
function stateHit(data: Data, row: Row, box: number, hit: Helpers["hit"]): Hit {
  const ns = (time: number) => String(data.originNs + BigInt(Math.round(time)));
  return { ...hit(row, box), kind: "state", name: data.info.names[data.name[box]!]!, start_ns: ns(data.start[box]!), end_ns: ns(data.end(box)) };
}

function ofState(data: Data, row: Row, box: number, hit: Helpers["hit"]): Found {
  const same: Each[] = [];
  for (let at = row.first; at < row.last; at++) if (data.name[at] === data.name[box]) same.push({ row, box: at, ns: data.end(at) - data.start[at]! });
  const [start, end] = [data.start[box]!, data.end(box)];
  return { times: [start, end], context: { inside: { count: 0, hits: [] }, standing: standing(data.info.names[data.name[box]!]!, same, end - start, hit) } };
}

/** What the thread of a lane did, and on which CPUs it ran. */
function ofThread(data: Data, lane: number, start: number, end: number, { shares }: Helpers): Pick<Context, "states" | "cpus"> {
  const { handle, kind } = data.table;
  const thread = THREAD.exec(handle[lane]!);
  if (!thread || end <= start) return { states: [], cpus: [] };
  const status = handle.findIndex((each, at) => kind[at] === "state" && each === `${thread[1]}/Status`);
  const rowOfLane = (at: number) => data.ofLane.get(at)?.[0];
  const known = status >= 0 && status !== lane ? rowOfLane(status) : undefined;
  const states = known ? shares(known, start, end - start).flatMap(({ state, ...rest }) => (state === null ? [] : [{ state, ...rest }])) : [];
  const cpus: Context["cpus"] = [];
  handle.forEach((each, at) => {
    const cpu = ON_CPU.exec(each ?? "");
    const row = cpu && kind[at] === "state" ? rowOfLane(at) : undefined;
    if (!row) return;
    let ns = 0;
    boxesIn(data, row, start, end, (box) => {
      if (data.info.names[data.name[box]!]!.endsWith(`(${thread[2]})`)) ns += data.coverage(box) * (Math.min(end, data.end(box)) - Math.max(start, data.start[box]!));
    });
    if (ns > 0) cpus.push({ cpu: cpu![1]!, time_ns: String(Math.round(ns)) });
  });
  return { states, cpus: cpus.sort((a, b) => Number(b.time_ns) - Number(a.time_ns)) };
}
