/** A search in all files: how many there are, where they are, and the next one. */

import type { TileLane } from "./lanes";
import type { FileModel } from "./model";
import type { Hit } from "./protocol";
import type { Session } from "./session";
import type { Arguments } from "./source";

/** So many are known at once: around where one is looking, or the longest. */
const FEWEST_HITS = 2_000;
/** More are never asked for. */
export const MOST_HITS = 10_000;
/** So many characters of the arguments of each. */
const TEXTS = 160;
const MOST_TEXTS = 10_000;
export const BINS = 512;

export interface FoundHit {
  file: FileModel;
  hit: Hit;
  /** From the left edge of the whole. */
  ns: bigint;
}

/** What of a file is known. */
interface Part {
  count: number;
  /** How many hits of the file begin before the known ones. */
  first: number;
  hits: FoundHit[];
}

/** In which order hits are listed and stepped through: the longest first, or by time. */
export type HitOrder = "longest" | "time";

export class Search {
  count = 0;
  /** As they are listed. */
  hits: FoundHit[] = [];
  /** By 512th of the whole, how many begin in it. */
  bins: number[] | null = null;
  /** How many hits are before the known ones. */
  first = 0;
  text = "";
  /** Whether the text is a whole name. */
  isName = false;
  order: HitOrder = "longest";
  /** The lane that is searched; null is all that pass the filter. */
  lane: TileLane | null = null;
  /** What the names or paths of the lanes contain that are searched. */
  filter = "";
  /** Whether the answer is of what is asked for now. */
  isKnown = true;
  private limit = FEWEST_HITS;
  private request: AbortController | null = null;

  constructor(private readonly session: Session) {}

  /** Whether anything is looked for: nothing is a name, too. */
  get isAny(): boolean {
    return this.isName || this.text !== "";
  }

  /**
   * Looks for a text, or for what has it as its whole name; resolves to false if another search has begun meanwhile.
   *
   * @param lane Where it is looked for; null is everywhere.
   */
  look(text: string, isName = false, lane: TileLane | null = null): Promise<boolean> {
    this.request?.abort();
    this.text = text;
    this.isName = isName;
    this.lane = lane;
    this.limit = FEWEST_HITS;
    return this.again();
  }

  /** Looks for the same again, in another order or in other lanes. */
  async again(): Promise<boolean> {
    this.count = this.first = 0;
    this.hits = [];
    this.bins = null;
    return this.isAny ? this.ask(this.session.view.startNs) : true;
  }

  /** What is asked of a file; null if it is not searched. */
  private where(file: FileModel): Arguments | null {
    const { text, isName, lane, filter, order } = this;
    if (!file.table || file.info.start_ns === null || file.info.end_ns === null || (lane && lane.file !== file)) return null;
    return {
      file: file.index,
      layout: file.table.layout,
      text,
      from: file.info.start_ns,
      to: file.info.end_ns,
      limit: this.limit,
      texts: TEXTS,
      ...(isName ? { whole: 1 } : {}),
      ...(order === "longest" ? { longest: 1 } : {}),
      ...(lane ? { lanes: lane.index } : {}),
      ...(filter ? { filter } : {}),
    };
  }

  /** Asks for the longest hits, or for those around a time of the view. */
  private async ask(around: bigint): Promise<boolean> {
    const { session, order } = this;
    const request = (this.request = new AbortController());
    this.isKnown = false;
    const bins = new Array<number>(BINS).fill(0);
    const parts: Part[] = [];
    for (const file of session.files) {
      const where = this.where(file);
      if (!where) continue;
      const found = await session.source.ask("search", order === "longest" ? where : { ...where, around: session.inFile(file, around) }, request.signal);
      if (this.request !== request || request.signal.aborted) return false;
      const first = Number(session.inView(file, BigInt(file.info.start_ns!)));
      const width = Number(BigInt(file.info.end_ns!) - BigInt(file.info.start_ns!));
      found.bins.forEach((amount, bin) => {
        if (!amount) return;
        const at = (first + ((bin + 0.5) / found.bins.length) * width) / Number(session.view.widthNs);
        bins[Math.max(0, Math.min(BINS - 1, Math.floor(at * BINS)))]! += amount;
      });
      parts.push({ count: found.count, first: found.first, hits: this.placed(file, found.hits) });
    }
    if (this.request !== request) return false;
    this.isKnown = true;
    this.count = parts.reduce((sum, { count }) => sum + count, 0);
    this.bins = bins;
    this.first = 0;
    if (order === "longest") this.hits = longestFirst(parts.flatMap(({ hits }) => hits)).slice(0, this.limit);
    else this.join(parts);
    return true;
  }

  private placed(file: FileModel, hits: readonly Hit[]): FoundHit[] {
    return hits.map((hit) => ({ file, hit, ns: this.session.inView(file, BigInt(hit.start_ns)) }));
  }

  /** Takes what is known of all files: of the time in which it is known of each. */
  private join(parts: readonly Part[]): void {
    let [from, to]: [bigint | null, bigint | null] = [null, null];
    for (const { count, first, hits } of parts) {
      if (first > 0 && hits.length && (from === null || hits[0]!.ns > from)) from = hits[0]!.ns;
      if (first + hits.length < count && hits.length && (to === null || hits.at(-1)!.ns < to)) to = hits.at(-1)!.ns;
    }
    const isKnown = ({ ns }: FoundHit) => (from === null || ns >= from) && (to === null || ns <= to);
    this.first = parts.reduce((sum, { first, hits }) => sum + first + hits.filter(({ ns }) => from !== null && ns < from).length, 0);
    this.hits = parts.flatMap(({ hits }) => hits.filter(isKnown)).sort((a, b) => compare(a.ns, b.ns));
  }

  /** The longest that has a name; null if nothing has. */
  async longestOf(text: string): Promise<FoundHit | null> {
    const found: FoundHit[] = [];
    for (const file of this.session.files) {
      const { start_ns, end_ns } = file.info;
      if (!file.table || start_ns === null || end_ns === null) continue;
      const where = { file: file.index, layout: file.table.layout, text, from: start_ns, to: end_ns, limit: 1, whole: 1, longest: 1 };
      found.push(...this.placed(file, (await this.session.source.ask("search", where)).hits));
    }
    return longestFirst(found)[0] ?? null;
  }

  /** All hits as they are listed, with their whole arguments, for a file: at most 10,000 of each. */
  async all(): Promise<FoundHit[]> {
    const found: FoundHit[] = [];
    for (const file of this.session.files) {
      const where = this.where(file);
      if (where) found.push(...this.placed(file, (await this.session.source.ask("search", { ...where, limit: MOST_HITS, texts: MOST_TEXTS })).hits));
    }
    return this.order === "longest" ? longestFirst(found) : found.sort((a, b) => compare(a.ns, b.ns));
  }

  /** Knows more of the longest, or what is beside the known ones; returns whether there is more. */
  async more(step: 1 | -1): Promise<boolean> {
    if (this.order === "longest") {
      if (step < 0 || this.limit >= MOST_HITS || this.hits.length >= this.count) return false;
      this.limit = MOST_HITS;
      return this.ask(0n);
    }
    if (step < 0 ? this.first <= 0 : this.first + this.hits.length >= this.count) return false;
    return this.ask(this.hits.at(step > 0 ? -1 : 0)!.ns);
  }

  /** Which of the known hits is selected; -1 if none is. */
  get selected(): number {
    const { thing } = this.session;
    if (!thing) return -1;
    return this.hits.findIndex(({ file, hit }) => file === thing.lane.file && hit.lane === thing.lane.index && hit.row === thing.row && BigInt(hit.start_ns) === thing.startNs && BigInt(hit.end_ns) === thing.endNs);
  }

  /** The hit after the selected thing as they are listed, or with -1 before it; by time, from where one looks. */
  async next(step: 1 | -1): Promise<FoundHit | null> {
    if (!this.hits.length) return null;
    let to = this.besides(step);
    if (to < 0 || to >= this.hits.length) {
      if (await this.more(step)) to = this.besides(step);
      else if (this.order === "time" && this.hits.length < this.count) {
        // after the last one comes the first
        if (!(await this.ask(step > 0 ? 0n : this.session.view.widthNs))) return null;
        to = step > 0 ? 0 : this.hits.length - 1;
      }
    }
    const { length } = this.hits;
    return this.hits[(to + length) % length] ?? null;
  }

  /** The first of the known hits that a reader wants to see: the selected one, the longest, or the first in view. */
  get foremost(): number {
    return this.selected >= 0 ? this.selected : Math.min(this.besides(1), this.hits.length - 1);
  }

  private besides(step: 1 | -1): number {
    const { hits, session, selected } = this;
    if (selected >= 0) return selected + step;
    if (this.order === "longest") return step > 0 ? 0 : hits.length - 1;
    // one that begins where the view does is in view
    const { thing } = session;
    const ns = thing ? session.inView(thing.lane.file, thing.startNs) : session.view.startNs - 1n;
    const after = hits.findIndex((hit) => hit.ns > ns);
    const first = after < 0 ? hits.length : after;
    return step > 0 ? first : first - 1;
  }
}

function longestFirst(hits: FoundHit[]): FoundHit[] {
  return hits.sort((a, b) => compare(lengthOf(b), lengthOf(a)));
}

export function lengthOf({ hit }: FoundHit): bigint {
  return BigInt(hit.end_ns) - BigInt(hit.start_ns);
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
