/** The worker of a one-file page: decodes the columns and answers questions about them. */

import { Answering } from "./embedded-answers";
import type { Asked } from "./embedded-answers";
import { Data } from "./embedded-data";
import type { EmbeddedFile } from "./embedded-data";
import { Tiles } from "./embedded-tiles";
import type { Kind, LaneTable } from "./protocol";
import type { Answers } from "./source";

export type Message =
  | { id: number; what: "open"; file: number; info: EmbeddedFile; table: LaneTable; texts: Record<string, string> }
  | { id: number; what: "tile"; key: string }
  | { id: number; what: "ask"; question: keyof Answers; asked: Asked };

export type Reply = { id: number; answer: unknown } | { id: number; error: string };

const files: { tiles: Tiles; answering: Answering }[] = [];

async function answer(message: Message): Promise<unknown> {
  if (message.what === "open") {
    const data = await Data.read(message.info, message.table, message.texts);
    files[message.file] = { tiles: new Tiles(data), answering: new Answering(data) };
    return null;
  }
  if (message.what === "tile") {
    const [file, , kind, block, level, index] = message.key.split("/") as [string, string, Kind, string, string, string];
    return files[Number(file)]!.tiles.tile(kind, Number(block), Number(level), BigInt(index));
  }
  return files[Number(message.asked.file)]!.answering.answer(message.question, message.asked);
}

// answered one by one, in order
let last: Promise<void> = Promise.resolve();

addEventListener("message", ({ data }: MessageEvent<Message>) => {
  last = last.then(async () => {
    let reply: Reply;
    try {
      reply = { id: data.id, answer: await answer(data) };
    } catch (reason) {
      reply = { id: data.id, error: reason instanceof Error ? reason.message : String(reason) };
    }
    (self as unknown as { postMessage(reply: Reply): void }).postMessage(reply);
  });
});
