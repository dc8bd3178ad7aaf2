/** The data inside a one-file page as a source: a worker decodes it and answers. */

import type { EmbeddedFile } from "./embedded-data";
import type { Message, Reply } from "./embedded-worker";
import type { LaneNames, LaneTable, Note, RawTile, SessionInfo } from "./protocol";
import type { Answers, Arguments, Source } from "./source";
import { SourceError } from "./source";

interface EmbeddedSession extends SessionInfo {
  embedded: { files: EmbeddedFile[]; notes?: Note[] };
}

/** The session inside the page; null if it has none. */
export function embeddedSession(): EmbeddedSession | null {
  const block = document.getElementById("meantime-session");
  return block && (JSON.parse(block.textContent!) as EmbeddedSession);
}

type Question = Message extends infer Each ? (Each extends Message ? Omit<Each, "id"> : never) : never;

export class EmbeddedSource implements Source {
  readonly isEmbedded = true;
  readonly missing: string | null;
  private readonly worker = new Worker(URL.createObjectURL(new Blob([document.getElementById("meantime-worker")!.textContent!], { type: "text/javascript" })));
  private readonly waiting = new Map<number, { resolve(answer: unknown): void; reject(reason: Error): void }>();
  private readonly opened = new Map<number, Promise<LaneTable>>();
  private id = 0;

  /** What the file has beside the data: its head, and the elements in its body. */
  private readonly shell = { head: document.head.outerHTML, body: [...document.body.children] };
  /** What was in elements that the page has given up. */
  private readonly taken = new Map<Element, Blob>();
  private noted: Note[];

  constructor(private readonly info: EmbeddedSession) {
    this.noted = info.embedded.notes ?? [];
    this.missing = info.embedded.files.find((file) => file.missing)?.missing ?? null;
    this.worker.addEventListener("error", (event) => {
      // such as a lack of memory
      for (const { reject } of this.waiting.values()) reject(new SourceError(0, `The data of this page cannot be decoded: ${event.message || "its worker has ended"}.`));
      this.waiting.clear();
    });
    this.worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => {
      const waiting = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if ("error" in data) waiting?.reject(new SourceError(404, data.error));
      else waiting?.resolve(data.answer);
    });
  }

  private send<T>(question: Question, signal?: AbortSignal): Promise<T> {
    const id = ++this.id;
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (answer: unknown) => void, reject });
      signal?.addEventListener("abort", () => {
        if (this.waiting.delete(id)) reject(new DOMException("no longer wanted", "AbortError"));
      });
      this.worker.postMessage({ id, ...question });
    });
  }

  session(): Promise<SessionInfo> {
    return Promise.resolve(this.info);
  }

  names(): Promise<LaneNames> {
    throw new Error("all lanes of the page have names");
  }

  lanes(file: number): Promise<LaneTable> {
    let opened = this.opened.get(file);
    if (!opened) this.opened.set(file, (opened = this.open(file)));
    return opened;
  }

  /** Hands the columns of a file to the worker; the page then forgets them. */
  private async open(file: number): Promise<LaneTable> {
    const table = JSON.parse(document.getElementById(`meantime-lanes-${file}`)!.textContent!) as LaneTable;
    const info = this.info.embedded.files[file]!;
    const texts: Record<string, string> = {};
    for (const name of Object.keys(info.columns)) {
      const block = document.getElementById(`meantime-${file}-${name}`);
      if (!block) continue;
      texts[name] = block.textContent!;
      // the browser may put this on a disk
      this.taken.set(block, new Blob([texts[name]]));
      block.replaceChildren();
      block.remove();
    }
    await this.send({ what: "open", file, info, table, texts });
    return table;
  }

  tile(key: string, signal: AbortSignal): Promise<RawTile> {
    return this.send({ what: "tile", key }, signal);
  }

  ask<K extends keyof Answers>(question: K, asked: Arguments, signal?: AbortSignal): Promise<Answers[K]> {
    return this.send({ what: "ask", question, asked }, signal);
  }

  notes(): Promise<Note[]> {
    return Promise.resolve(this.noted);
  }

  /** Keeps the notes until a copy of the page is saved. */
  saveNotes(notes: Note[]): Promise<void> {
    this.noted = notes;
    return Promise.resolve();
  }

  /** A copy of the file with the notes that the page has now. */
  copy(): Blob {
    const parts: BlobPart[] = [`<!DOCTYPE html>\n<html lang="en">\n${this.shell.head}\n<body>\n`];
    for (const element of this.shell.body) {
      const taken = this.taken.get(element);
      if (element.id === "meantime-session") {
        const session = JSON.parse(element.textContent!) as EmbeddedSession;
        session.embedded.notes = this.noted;
        element.textContent = JSON.stringify(session).replaceAll("<", "\\u003c");
      }
      const text = element.outerHTML;
      const end = text.lastIndexOf("</");
      parts.push(...(taken ? [text.slice(0, end), taken, text.slice(end)] : [text]), "\n");
    }
    parts.push("</body>\n</html>\n");
    return new Blob(parts, { type: "text/html" });
  }
}
