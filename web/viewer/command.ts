/** The command that prints or draws what the page shows. */

import { plain } from "../shared/heat-model";
import type { FileModel } from "./model";
import type { Session } from "./session";

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./+:@%=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command for a file and a range of the session, which is left out if it is the whole file. */
export function command(session: Session, file: FileModel, name: string, options = ""): string {
  const { from, to } = session.asked;
  const start = BigInt(file.info.start_ns ?? "0");
  const end = BigInt(file.info.end_ns ?? "0");
  const [first, last] = [session.inFile(file, from), session.inFile(file, to)];
  const range = name === "info" || (first === start && last === end) ? "" : ` --from ${plain(first - start)} --to ${plain(last - start)}`;
  return `meantime ${name} ${quoted(file.info.path)}${options}${range}`;
}

/** More lanes are in no command. */
const MOST_LANES = 12;
const THREAD = /^Processes\/([^/]+)\/Threads\/([^/]+)$/;

/** The options that restrict a command to a lane and those below it; null if there are none. */
export function laneOptions(file: FileModel, lane: number, name: string): string | null {
  const { pattern, handle, kind } = file.table!;
  if (name === "heatmap" && kind[lane] === "state") return ` --filter ${quoted(handle[lane]!)}`;
  const below = (each: number): number[] => [each, ...file.children[each]!.flatMap(below)];
  const own = pattern[lane] ?? handle[lane] ?? "";
  let patterns = [own];
  if (!own) patterns = below(lane).filter((each) => each !== lane && !file.children[each]!.length).map((each) => handle[each] ?? "");
  patterns = [...new Set(patterns)];
  if (!patterns.length || patterns.length > MOST_LANES || patterns.includes("")) return null;
  if (name === "stats") return patterns.map((each) => ` --lane ${quoted(each)}`).join("");
  // the others choose threads by their ids
  const thread = patterns.length === 1 ? THREAD.exec(patterns[0]!) : null;
  return thread && ` --filter ${quoted(`${thread[1]}/${thread[2]}`)}`;
}
