/** The command that shows what is in the selected cells. */

import { DAY, type Model, hour, plain } from "../../shared/heat-model";
import type { HeatState } from "../../shared/heat-state";
import { type Selection, isOneRange } from "../../shared/selection";

/** A word as a shell takes it. */
function quoted(word: string): string {
  return /^[\w./+:@%=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Seconds with as many digits as needed: a time of the recording is never minutes or days. */
function seconds(ns: bigint): string {
  const text = plain(ns);
  if (/(ns|us|ms|\ds)$/.test(text)) return text;
  return `${ns / 1_000_000_000n}s`;
}

function offsets(model: Model, { from, to }: Selection, offsetNs: bigint): string[] {
  const { periodNs } = model;
  // an offset counts from whole periods of the file's own clock
  const at = (row: number) => (((model.originNs - offsetNs + model.offsetNs(row)) % periodNs) + periodNs) % periodNs;
  const band = ["--band", `${seconds(at(from.row))}..${seconds(at(to.row + 1) || periodNs)}`];
  return periodNs === 1_000_000_000n ? band : [...band, "--period", seconds(periodNs)];
}

/** Names as the value of an option. */
function listed({ model }: HeatState, chosen: Iterable<number>): string {
  return [...chosen].map((at) => model.names[at]!.replaceAll(",", "\\,")).join(",");
}

/** The options that decide which names are drawn, and in which colours; null if no options draw the same. */
function drawing(state: HeatState): string[] | null {
  const { head } = state.model;
  const { mode, method, selected } = state;
  const words = [...head.command!.drawn];
  // the names that are hidden at first are those of the idle task
  if (head.hidden.length && !state.hidden.size) words.push("--idle");
  else if (state.hidden.size < head.hidden.length) return null;
  if (mode === "decompose") words.push("--decompose");
  else if (selected.length) words.push(`--${mode}`, listed(state, selected));
  if (method === "linear" && head.largest !== null) return [...words, "--scale", String(head.largest)];
  if (method !== (head.value === "ns" ? "linear" : "rank")) words.push("--color", method);
  return state.lock ? [...words, "--scale", "lock"] : words;
}

/** The command that prints what distinguishes selected cells from the rest; null if none does. */
function againstCommand(state: HeatState, { from, to }: Selection): string | null {
  const { model, before } = state;
  const columns = model.between(from.place, to.place);
  if (before || state.compared || !columns) return null;
  const words: string[] = [];
  if (columns[0] > 0 || columns[1] < model.head.columns - 1) {
    const [first, end] = model.inFile([model.timeNs(columns[0], 0), model.timeNs(columns[1] + 1, 0)]);
    const at = (ns: bigint) => `abs:${seconds(ns - BigInt(model.head.command!.offset_ns))}`;
    words.push("--during", model.y!.kind === "weekday" ? `${hour(columns[0])}..${hour(columns[1] + 1)}` : `${at(first)}..${at(end)}`);
  }
  if (from.row > 0 || to.row < model.rows - 1) {
    const rows = model.rowOption(from.row, to.row);
    if (rows === null) return null;
    words.push("--between", rows);
  }
  const made = mapWords(state, model.head.command!.drawn);
  return words.length && made ? [...made, ...words].map(quoted).join(" ") : null;
}

/** The command that draws the map; null if none draws the same. */
function mapCommand(state: HeatState): string | null {
  const drawn = drawing(state);
  const words = drawn && mapWords(state, drawn);
  return words && [...words.map(quoted), "-o", "heatmap.svg"].join(" ");
}

/** The words of the command that makes the map; null if none makes the same. */
function mapWords(state: HeatState, drawn: string[]): string[] | null {
  const { model } = state;
  const command = model.head.command!;
  const offsetNs = BigInt(command.offset_ns);
  const [first, end] = command.bounds.map((ns) => `abs:${seconds(BigInt(ns) - offsetNs)}`) as [string, string];
  const words = ["meantime", "heatmap", command.file, "--from", first, "--to", end];
  if (!model.y) words.push("--period", seconds(model.periodNs), "--rows", String(model.rows));
  // without it, columns begin at whole periods
  const originNs = model.originNs - offsetNs;
  const { zone } = model.head;
  if (model.y) {
    // what it is drawn with says so
  } else if (zone) {
    // of local time: weeks begin on Mondays
    const since = model.originNs + BigInt(model.head.utc_ns!) - (model.periodNs % (7n * DAY) ? 0n : 4n * DAY);
    if (since % model.periodNs) return null;
    words.push("--zone", zone.name);
  } else if (originNs % model.periodNs) words.push("--origin", `abs:${seconds(originNs)}`);
  if (command.by !== null) words.push("--by", command.by);
  if (command.event !== null) words.push("--event", command.event);
  for (const state of command.states) words.push("--state", state);
  if (command.filter !== null) words.push("--filter", command.filter);
  if (command.provider !== null) words.push("--provider", command.provider);
  return [...words, ...drawn];
}

/** The command for the selection, or for the map; null if no single one shows the same. */
export function selectionCommand(state: HeatState): string | null {
  const { model, selection, before } = state;
  const { command } = model.head;
  if (!command) return null;
  if (!selection) return mapCommand(state);
  if (model.y) return againstCommand(state, selection);
  const bounds = command.bounds.map(BigInt) as [bigint, bigint];
  const offsetNs = BigInt(command.offset_ns);
  const range = (chosen: Selection): [string, string] | null => {
    const chosenNs = model.rangeOf(chosen);
    if (!chosenNs) return null;
    const times = model.inFile(chosenNs);
    const first = times[0] > bounds[0] ? times[0] : bounds[0];
    const end = times[1] < bounds[1] ? times[1] : bounds[1];
    return first < end ? [`abs:${seconds(first - offsetNs)}`, `abs:${seconds(end - offsetNs)}`] : null;
  };
  const times = range(selection);
  if (!times) return null;
  const isStates = command.kind === "states";
  // the command prints all states
  if (command.states.length) return null;
  const words = ["meantime", isStates ? "stats" : "flame", command.file, "--from", times[0], "--to", times[1]];
  if (isStates) words.push("--by", "entity");
  const isBand = !isOneRange(selection, model.rows);
  // only samples are selected by offsets and by names
  if (command.kind !== "samples" && (isBand || state.counted)) return null;
  // the command's offsets are of the file's own clock
  if (isBand && model.head.zone) return null;
  if (isBand) words.push(...offsets(model, selection, offsetNs));
  if (command.event !== null) words.push("--event", command.event);
  if (command.filter !== null) words.push("--filter", command.filter);
  if (command.provider !== null) words.push("--provider", command.provider);
  if (command.kind === "samples") words.push(...names(state));
  if (before) {
    const other = range(before);
    const rows = (chosen: Selection) => `${chosen.from.row} ${chosen.to.row}`;
    // the offsets apply to both ranges
    const isAlike = isBand ? rows(before) === rows(selection) && before.shape === "band" : isOneRange(before, model.rows);
    if (!other || !isAlike) return null;
    words.push("--against", `${other[0]}..${other[1]}`);
  }
  return [...words.map(quoted), ...(isStates ? [] : ["-o", "flame.svg"])].join(" ");
}

/** The names to which the graph is limited. */
function names(state: HeatState): string[] {
  const { model, selected, hidden, mode } = state;
  const { command } = model.head;
  // a single input has a single host
  if (command!.by === "host") return [];
  const by = command!.by === null ? [] : ["--by", command!.by];
  if (selected.length && mode !== "decompose" && mode !== "exclude") {
    return [...by, "--isolate", listed(state, selected.filter((at) => !hidden.has(at)))];
  }
  const away = new Set([...hidden, ...(mode === "exclude" ? selected : [])]);
  return away.size ? [...by, "--exclude", listed(state, away)] : [];
}
