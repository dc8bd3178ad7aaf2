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
