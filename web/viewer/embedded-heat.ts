/** Heat maps of the data inside a page: when in each period something happens. */

import type { Data, Row } from "./embedded-data";
import { eachSample } from "./embedded-spans";
import type { Heat } from "./protocol";

const MOST_CELLS = 1 << 22;
const MAPPED: Readonly<Record<string, string>> = { state: "states", packed: "states", stack: "spans", async: "spans", density: "samples" };

/** Counts samples, or adds up the time of the outermost spans or of states, by period and offset. */
export function heatOf(data: Data, from: number, to: number, lanes: Set<number> | null, period: number, rows: number): Heat {
  if (to <= from) throw new Error("nothing of the file is in the range");
  if (!(rows >= 1 && rows <= period)) throw new Error(`a column of ${period} ns cannot have ${rows} rows`);
  const last = Math.floor((to - 1 - from) / period);
  if ((last + 1) * rows > MOST_CELLS) throw new Error("the map would have more than 4 million cells; choose a longer period");
  const kinds = new Set([...(lanes ?? [])].flatMap((lane) => MAPPED[data.table.kind[lane]!] ?? []));
  if (lanes && kinds.size !== 1) throw new Error("a heat map is of lanes of states, of spans or of samples");
  const kind = lanes ? [...kinds][0]! : data.samples.size ? "samples" : data.rows.some(({ lane }) => MAPPED[data.table.kind[lane]!] === "spans") ? "spans" : "states";
  const values = new Float64Array((last + 1) * rows);
  const edges = Float64Array.from({ length: rows + 1 }, (_, row) => Math.ceil((row * period) / rows));
  const cellAt = (time: number) => {
    const column = Math.floor((time - from) / period);
    const offset = time - from - column * period;
    let row = Math.min(rows - 1, Math.floor((offset * rows) / period));
    // products of long periods are rounded
    while (edges[row]! > offset) row--;
    while (edges[row + 1]! <= offset) row++;
    return column * rows + row;
  };
  const endOf = (cell: number) => from + Math.floor(cell / rows) * period + edges[(cell % rows) + 1]!;
  const add = (start: number, end: number, part: number) => {
    let [at, stop] = [Math.max(from, start), Math.min(to, end)];
    for (let cell = at < stop ? cellAt(at) : 0; at < stop; cell++) {
      const next = Math.min(stop, endOf(cell));
      values[cell]! += part * (next - at);
      at = next;
    }
  };
  const counted = kind === "states" ? active(data, from, to, lanes) : null;
  if (kind === "samples") {
    eachSample(data, from, to, lanes, ({ time }, at) => values[cellAt(time[at]!)]!++);
  } else {
    const isWanted = counted ? (_: Row, box: number) => counted.has(data.name[box]!) : outermost(data);
    for (const row of data.rows) {
      if (MAPPED[data.table.kind[row.lane]!] !== kind || (lanes && !lanes.has(row.lane))) continue;
      for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) {
        if (isWanted(row, box)) add(data.start[box]!, data.end(box), data.coverage(box));
      }
    }
  }
  const cells: Heat["cells"] = [];
  values.forEach((value, cell) => value && cells.push([Math.floor(cell / rows), cell % rows, Math.round(value)]));
  return { origin_ns: String(data.originNs + BigInt(Math.round(from))), period_ns: String(period), rows, value: kind === "samples" ? "count" : "ns", columns: [0, last], cells, recorded: [[0, last]], lost_ns: [], states: [...(counted ?? [])].map((name) => pattern(data.info.names[name]!)).sort() };
}

function outermost(data: Data): (row: Row, box: number) => boolean {
  return (row, box) => (data.isTangled(row) ? data.parentOf(box) < 0 : row.row === 0);
}

/** The names of states that count: of those in which something is done or waited for, if there are any, otherwise of all. */
function active(data: Data, from: number, to: number, lanes: Set<number> | null): Set<number> {
  const { names } = data.info;
  const used = new Set<number>();
  for (const row of data.rows) {
    if (MAPPED[data.table.kind[row.lane]!] !== "states" || (lanes && !lanes.has(row.lane))) continue;
    for (let box = data.firstEndingAfter(row, from); box < row.last && data.start[box]! < to; box++) used.add(data.name[box]!);
  }
  const isQuiet = (name: number) => ["sleep", "idle"].includes(data.states.get(names[name]!)?.of ?? "");
  const found = [...used].filter((name) => !isQuiet(name));
  return new Set(found.length ? found : used);
}

/** A text as a pattern that means nothing else. */
function pattern(text: string): string {
  return text.replace(/[*?[]/g, "[$&]");
}
