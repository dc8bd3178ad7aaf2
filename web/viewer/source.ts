/** Where the page has its data from: a server, or the page itself. */

import { unpacked } from "./lane-columns";
import { readTile } from "./protocol";
import type { Activity, At, Context, Findings, Flame, Flow, Heat, Hit, LaneNames, LaneShares, LaneTable, Moment, Note, PointInfo, RawTile, Rows, SearchResult, SessionInfo, Statistics, Summary, TimeOf, Why } from "./protocol";

export type NamesOf = { within: number } | { paths: string[] } | { text: string };

/** Arguments of a question; those without a value are left out. */
export type Arguments = Record<string, string | number | bigint | null | undefined>;

export interface Answers {
  at: At;
  span: At;
  context: Context;
  statistics: Statistics;
  flame: Flame;
  heat: Heat;
  search: SearchResult;
  time: TimeOf;
  summary: Summary;
  neighbors: { previous: Hit | null; next: Hit | null };
  points: { points: PointInfo[]; rest: number };
  flows: { flows: Flow[]; rest: number };
  findings: Findings;
  moment: Moment;
  activity: Activity;
  shares: LaneShares;
  sql: Rows;
  why: Why;
}

export interface Source {
  /** Whether it is the page itself, which knows no commands and does not change. */
  readonly isEmbedded: boolean;
  /** What it lacks of the traces; null if nothing. */
  readonly missing: string | null;
  /** The session; null if it has not changed since the last time. */
  session(): Promise<SessionInfo | null>;
  lanes(file: number, layout: number): Promise<LaneTable>;
  /** The names of lanes whose table lacks them: in a group, at paths, or with a text, the first in each group. */
  names(file: number, layout: number, of: NamesOf): Promise<LaneNames>;
  tile(key: string, signal: AbortSignal): Promise<RawTile>;
  ask<K extends keyof Answers>(question: K, parameters: Arguments, signal?: AbortSignal, onShare?: (share: number) => void): Promise<Answers[K]>;
  notes(): Promise<Note[]>;
  saveNotes(notes: Note[]): Promise<void>;
  /** Of a page that has its data inside, the file with the notes that it has now. */
  copy?(): Blob;
}

const PROGRESS_MS = 500;

/** An answer that is an error, with the server's sentence. */
export class SourceError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export class ServerSource implements Source {
  readonly isEmbedded = false;
  readonly missing = null;
  private tag: string | null = null;
  private notesTag: string | null = null;

  async session(): Promise<SessionInfo | null> {
    const headers: Record<string, string> = this.tag === null ? {} : { "If-None-Match": this.tag };
    const reply = await request("session.json", { headers, cache: "no-store" });
    if (reply.status === 304) return null;
    const info = await json<SessionInfo>(reply);
    this.tag = reply.headers.get("ETag");
    return info;
  }

  async lanes(file: number, layout: number): Promise<LaneTable> {
    return unpacked(await json(await request(`lanes/${file}/${layout}`, { cache: "no-cache" })));
  }

  async names(file: number, layout: number, of: NamesOf): Promise<LaneNames> {
    const query = new URLSearchParams("paths" in of ? of.paths.map((path) => ["path", path]) : Object.entries(of).map(([name, value]) => [name, String(value)]));
    return json(await request(`names/${file}/${layout}?${query}`, { cache: "no-cache" }));
  }

  async tile(key: string, signal: AbortSignal): Promise<RawTile> {
    // the browser asks whether its copy is still right
    const reply = await request(`tile/${key}`, { signal, cache: "no-cache" });
    if (!reply.ok) await json(reply);
    return readTile(await reply.arrayBuffer());
  }

  async ask<K extends keyof Answers>(question: K, parameters: Arguments, signal?: AbortSignal, onShare?: (share: number) => void): Promise<Answers[K]> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
    }
    const address = `${question}?${query}`;
    const timer = onShare ? setInterval(() => void this.share(address, onShare), PROGRESS_MS) : undefined;
    try {
      return await json(await request(address, signal ? { signal, cache: "no-cache" } : { cache: "no-cache" }));
    } finally {
      clearInterval(timer);
    }
  }

  /** Reports how far the server is with an answer that takes a while. */
  private async share(address: string, onShare: (share: number) => void): Promise<void> {
    try {
      const { running } = await json<{ running: { question: string; share: number }[] }>(await request("progress", { cache: "no-store" }));
      const own = running.find((each) => each.question === address);
      if (own) onShare(own.share);
    } catch (reason) {
      // the question itself reports what is wrong
      if (!(reason instanceof SourceError)) throw reason;
    }
  }

  async notes(): Promise<Note[]> {
    const reply = await request("notes", { cache: "no-store" });
    const found = await json<{ notes: Note[] }>(reply);
    this.notesTag = reply.headers.get("ETag");
    return found.notes;
  }

  async saveNotes(notes: Note[]): Promise<void> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.notesTag !== null) headers["If-Match"] = this.notesTag;
    const reply = await request("notes", { method: "PUT", headers, body: JSON.stringify({ notes }) });
    if (!reply.ok) await json(reply);
    this.notesTag = reply.headers.get("ETag") ?? this.notesTag;
  }
}

async function request(address: string, options: RequestInit): Promise<Response> {
  try {
    return await fetch(address, options);
  } catch (reason) {
    if (reason instanceof DOMException) throw reason;
    throw new SourceError(0, "The server does not answer.");
  }
}

async function json<T>(reply: Response): Promise<T> {
  if (reply.ok) return (await reply.json()) as T;
  let text = `the server answered ${reply.status}`;
  try {
    const { error } = (await reply.json()) as { error?: string };
    if (error) text = error;
  } catch {
    // the status is all that there is
  }
  throw new SourceError(reply.status, text);
}
