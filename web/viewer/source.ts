/** Where the page has its data from: a server, or the page itself. */

import { unpacked } from "./lane-columns";
import { readTile } from "./protocol";
import type { Activity, At, Context, Findings, Flame, Flow, Heat, Hit, LaneNames, LaneShares, LaneTable, Moment, Note, PointInfo, RawTile, RequestWithCalls, RequestsOfServices, Rows, SearchResult, SessionInfo, Statistics, Summary, TimeOf, Why } from "./protocol";

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
  requests: RequestsOfServices;
  request: RequestWithCalls;
}

export interface Source {
  /** Whether it is the page itself, which knows no commands and does not change. */
  readonly isEmbedded: boolean;
  /** What it lacks of the traces; null if nothing. */
  readonly missing: string | null;
  /** Whether the server answers, if it is one. */
  readonly connection?: Connection;
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
/** A server that does not answer is asked again after these pauses, and then after the last one each time. */
const PAUSES_MS = [500, 1000, 2000, 4000, 8000, 15_000, 30_000];
const SILENT = "The server has ended or does not answer.";
const STRANGER = "Another server answers here now: open the address that it has printed.";
/** Requests with this header are answered with success whatever the status, which browsers would report as an error: the answer has the other header with it. It names the session, without which a server that was started again would answer for other files. */
const PAGE = "Meantime-Page";
const STATUS = "Meantime-Status";

/** An answer that is an error, with the server's sentence. */
export class SourceError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Whether the server answers. While it does not, it is asked again after growing pauses, and nothing else is asked. */
export class Connection {
  /** Why there is none; null while there is. */
  problem: string | null = null;
  private tried = 0;
  private timer = 0;
  private changed: (problem: string | null) => void = () => {};

  /** @param ask Asks the server for something; it fails if that does. */
  constructor(private readonly ask: () => Promise<unknown>) {}

  /** Calls a function when the server no longer answers, with the reason, and when it does again. */
  listen(changed: (problem: string | null) => void): void {
    this.changed = changed;
    const now = () => this.problem !== null && !document.hidden && this.retry();
    addEventListener("online", now);
    document.addEventListener("visibilitychange", now);
  }

  /** Notes that there is no answer. */
  lose(problem: string): void {
    const isNew = this.problem !== problem;
    if (this.problem === null) {
      this.tried = 0;
      this.wait();
    }
    this.problem = problem;
    if (isNew) this.changed(problem);
  }

  /** Asks now. */
  retry(): void {
    clearTimeout(this.timer);
    void this.ask().then(
      () => {
        if (this.problem === null) return;
        this.problem = null;
        this.changed(null);
      },
      () => this.wait(),
    );
  }

  private wait(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.retry(), PAUSES_MS[Math.min(this.tried++, PAUSES_MS.length - 1)]);
  }
}

export class ServerSource implements Source {
  readonly isEmbedded = false;
  readonly missing = null;
  readonly connection = new Connection(() => this.request("session.json", { cache: "no-store" }, true));
  private tag: string | null = null;
  private notesTag: string | null = null;
  private page = "1";
  /** The first answers, which came with the page. */
  private readonly first = new Map(Object.entries(JSON.parse(document.getElementById("meantime-first")?.textContent ?? "{}") as Record<string, unknown>));

  async session(): Promise<SessionInfo | null> {
    const headers: Record<string, string> = this.tag === null ? {} : { "If-None-Match": this.tag };
    const reply = await this.request("session.json", { headers, cache: "no-store" });
    if (reply.status === 304) return null;
    const info = await json<SessionInfo>(reply);
    this.tag = reply.headers.get("ETag");
    if (this.page === "1") this.page = info.session ?? "1";
    return info;
  }

  async lanes(file: number, layout: number): Promise<LaneTable> {
    return unpacked(await json(await this.request(`lanes/${file}/${layout}`, { cache: "no-cache" })));
  }

  async names(file: number, layout: number, of: NamesOf): Promise<LaneNames> {
    const query = new URLSearchParams("paths" in of ? of.paths.map((path) => ["path", path]) : Object.entries(of).map(([name, value]) => [name, String(value)]));
    return json(await this.request(`names/${file}/${layout}?${query}`, { cache: "no-cache" }));
  }

  async tile(key: string, signal: AbortSignal): Promise<RawTile> {
    // the browser asks whether its copy is still right
    const reply = await this.request(`tile/${key}`, { signal, cache: "no-cache" });
    if (statusOf(reply) !== 200) await json(reply);
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
      return await json(await this.request(address, signal ? { signal, cache: "no-cache" } : { cache: "no-cache" }));
    } finally {
      clearInterval(timer);
    }
  }

  /** Reports how far the server is with an answer that takes a while. */
  private async share(address: string, onShare: (share: number) => void): Promise<void> {
    try {
      const { running } = await json<{ running: { question: string; share: number }[] }>(await this.request("progress", { cache: "no-store" }));
      const own = running.find((each) => each.question === address);
      if (own) onShare(own.share);
    } catch (reason) {
      // the question itself reports what is wrong
      if (!(reason instanceof SourceError)) throw reason;
    }
  }

  async notes(): Promise<Note[]> {
    const reply = await this.request("notes", { cache: "no-store" });
    const found = await json<{ notes: Note[] }>(reply);
    this.notesTag = reply.headers.get("ETag");
    return found.notes;
  }

  async saveNotes(notes: Note[]): Promise<void> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.notesTag !== null) headers["If-Match"] = this.notesTag;
    const reply = await this.request("notes", { method: "PUT", headers, body: JSON.stringify({ notes }) });
    if (statusOf(reply) !== 200) await json(reply);
    this.notesTag = reply.headers.get("ETag") ?? this.notesTag;
  }

  private async request(address: string, options: RequestInit, isAttempt = false): Promise<Response> {
    const { connection } = this;
    if (connection.problem !== null && !isAttempt) throw new SourceError(0, connection.problem);
    const known = this.first.get(address);
    this.first.delete(address);
    if (known !== undefined) return Response.json(known);
    let reply: Response;
    try {
      reply = await fetch(address, { ...options, headers: { ...options.headers, [PAGE]: this.page } });
    } catch (reason) {
      if (reason instanceof DOMException) throw reason;
      connection.lose(SILENT);
      throw new SourceError(0, SILENT);
    }
    if (statusOf(reply) !== 403) return reply;
    // a server that was started again has another token
    connection.lose(STRANGER);
    throw new SourceError(0, STRANGER);
  }
}

function statusOf(reply: Response): number {
  return Number(reply.headers.get(STATUS) ?? reply.status);
}

async function json<T>(reply: Response): Promise<T> {
  const status = statusOf(reply);
  if (status === 200) return (await reply.json()) as T;
  let text = `the server answered ${status}`;
  try {
    const { error } = (await reply.json()) as { error?: string };
    if (error) text = error;
  } catch {
    // the status is all that there is
  }
  throw new SourceError(status, text);
}
