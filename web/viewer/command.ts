/** The command that prints or draws what the page shows. */

import { plain } from "../shared/heat-model";
import type { FileModel } from "./model";
import type { Session } from "./session";

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./+:@%=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The words of a file in a command: its path, which is not an option, and how it was read. */
function words([path, ...options]: string[]): string {
  return [path!.startsWith("-") ? `./${path}` : path!, ...options].map(quoted).join(" ");
}

/** The command that compares some runs with others. */
export function diffCommand(before: string[][], after: string[][], options: string[]): string {
  return ["meantime diff", ...before.map(words), "--", ...after.map(words), ...options.map(quoted)].join(" ");
}

/** A file as a command reads it: its path, and how it was read; null if no command can name it. */
export function input({ info }: FileModel): string | null {
  if (!info.path) return null;
  return words([info.path, ...info.options]);
}

/** The command for a file and a range, that of the session unless given, which is left out if it is the whole file; null if there is none. */
export function command(session: Session, file: FileModel, name: string, options = "", given: readonly [bigint, bigint] | null = null): string | null {
  const read = input(file);
  if (read === null) return null;
  const [first, last] = given ?? ends(session, file);
  const start = BigInt(file.info.start_ns ?? "0");
  const range = !given && isWhole(session, file) ? "" : ` --from ${plain(first - start)} --to ${plain(last - start)}`;
  return `meantime ${name} ${read}${options}${range}`;
}

/** Whether the range of the session is all of a file. */
export function isWhole(session: Session, file: FileModel): boolean {
  const [first, last] = ends(session, file);
  return first === BigInt(file.info.start_ns ?? "0") && last === BigInt(file.info.end_ns ?? "0");
}

function ends(session: Session, file: FileModel): [bigint, bigint] {
  const { from, to } = session.asked;
  return [session.inFile(file, from), session.inFile(file, to)];
}

/** More lanes are in no command. */
const MOST_LANES = 12;
const THREAD = /^Processes\/([^/]+)\/Threads\/([^/]+)$/;

/** The options that restrict a command to a lane and those below it; null if there are none. */
export function laneOptions(file: FileModel, lane: number, name: string): string | null {
  const { pattern, handle, kind } = file.table!;
  const below = (each: number): number[] => [each, ...file.children[each]!.flatMap(below)];
  const own = pattern[lane] ?? handle[lane] ?? "";
  if (name === "heatmap" && kind[lane] === "state") return ` --filter ${quoted(handle[lane]!)}`;
  if (name === "heatmap" && pattern[lane]) return ` --filter ${quoted(regularExpression(pattern[lane]))}`;
  let patterns = [own];
  if (!own) patterns = below(lane).filter((each) => each !== lane && !file.children[each]!.length).map((each) => handle[each] ?? "");
  patterns = [...new Set(patterns)];
  if (!patterns.length || patterns.length > MOST_LANES || patterns.includes("")) return null;
  if (name === "stats") return patterns.map((each) => ` --lane ${quoted(each)}`).join("");
  // the others choose threads by their ids
  const thread = patterns.length === 1 ? THREAD.exec(patterns[0]!) : null;
  return thread && ` --filter ${quoted(`${thread[1]}/${thread[2]}`)}`;
}

/** Any name in a path, in which a backslash escapes the next character. */
const ANY = "(?:[^/\\\\]|\\\\.)+";

/** A pattern of paths, whose elements `*` are any name, as a regular expression of paths. */
function regularExpression(pattern: string): string {
  const elements = pattern.match(/(?:[^/\\]|\\.)+/gs) ?? [];
  // what ends in any names begins with the others
  let named = elements.length;
  while (named && elements[named - 1] === "*") named--;
  const texts = elements.slice(0, named).map((element) => (element === "*" ? ANY : element.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  return `^${texts.join("/")}${named === elements.length ? "$" : named ? "/" : ""}`;
}
