/** What all lanes of the data inside a page do at one time, and when each is active. */

import type { Data, Row } from "./embedded-data";
import type { Activity, Hit, Moment } from "./protocol";

const MOST_NAMED = 100;

export interface Found extends Hit {
  who: string | null;
}

/** The box of a row that is open at a time: of several the one that began last; -1 if none is. */
function openAt(data: Data, row: Row, time: number): number {
  let found = -1;
  for (let box = data.firstEndingAfter(row, time); box < row.last && data.start[box]! <= time; box++) found = box;
  return found;
}

export function momentOf(data: Data, time: number, ns: string, hit: (row: Row, box: number) => Hit): Moment {
  const { kind, handle, parent } = data.table;
  const root = parent.map(() => 0);
  parent.forEach((above, lane) => (root[lane] = above < 0 ? lane : root[above]!));
  const found: Found[] = [];
  /** By thread or operation, the innermost span. */
  const inner = new Map<string, { row: Row; box: number }>();
  for (const row of data.rows) {
    const of = kind[row.lane]!;
    if (of === "state" || of === "packed") {
      const box = openAt(data, row, time);
      if (box < 0) continue;
      const thing = hit(row, box);
      const who = of === "packed" ? thing.name : null;
      found.push({ ...thing, kind: of, name: data.info.names[data.name[box]!]!, start_ns: String(data.originNs + BigInt(data.start[box]!)), end_ns: String(data.originNs + BigInt(data.end(box))), who });
      continue;
    }
    for (let box = data.firstEndingAfter(row, time); box < row.last && data.start[box]! <= time; box++) {
      const whose = of === "async" ? `operation ${data.outermostOf(box)}` : handle[row.lane]!;
      const known = inner.get(whose);
      const later = known ? data.start[box]! - data.start[known.box]! || data.end(known.box) - data.end(box) || box - known.box : 1;
      if (later > 0) inner.set(whose, { row, box });
    }
  }
  for (const { row, box } of inner.values()) found.push({ ...hit(row, box), kind: kind[row.lane]!, who: null });
  const groups = new Map<string, Moment["groups"][number]>();
  for (const thing of found.sort((a, b) => Number(BigInt(a.start_ns) - BigInt(b.start_ns)))) {
    const lane = root[thing.lane!]!;
    const key = `${lane} ${thing.name}`;
    const group = groups.get(key) ?? { lane, name: thing.name, kind: thing.kind, count: 0, things: [] };
    groups.set(key, group);
    if (group.count++ < MOST_NAMED) group.things.push(thing);
  }
  return { time_ns: ns, groups: [...groups.values()].sort((a, b) => a.lane - b.lane || b.count - a.count || (a.name < b.name ? -1 : 1)) };
}

/** @param isWork Whether only states count in which something runs, or without such all but quiet ones. */
export function activityOf(data: Data, from: number, to: number, state: string | null, isWork = false): Activity {
  const { table, info } = data;
  const first = new Array<number | null>(table.count).fill(null);
  const times = new Array<number>(table.count).fill(0);
  const see = (lane: number, time: number | undefined) => {
    if (time !== undefined && (first[lane] === null || time < first[lane]!)) first[lane] = time;
  };
  const hasRunning = [...data.states.values()].some(({ of }) => of === "running");
  const isWorking = (name: string) => {
    const of = data.states.get(name)?.of ?? null;
    return hasRunning ? of === "running" : of !== "sleep" && of !== "idle";
  };
  const counts = info.names.map((name) => (state !== null ? name === state : !isWork || isWorking(name)));
  for (const row of data.rows) {
    see(row.lane, data.start[row.first]);
    const isSpans = table.kind[row.lane] === "stack" || table.kind[row.lane] === "async";
    if (isSpans && (state !== null || row.row > 0)) continue;
    for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) {
      if (!isSpans && !counts[data.name[box]!]) continue;
      times[row.lane]! += data.coverage(box) * (Math.min(to, data.end(box)) - Math.max(from, data.start[box]!));
    }
  }
  for (const [lane, { time }] of data.counters) see(lane, time[0]);
  for (const [lane, { time }] of data.samples) see(lane, time[0]);
  data.points.time.forEach((time, at) => see(data.points.lane[at]!, time));
  return { first_ns: first.map((time) => (time === null ? null : String(data.originNs + BigInt(time)))), time_ns: times.map((ns) => String(Math.round(ns))) };
}
