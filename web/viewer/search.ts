/** A search in all files: how many there are, where they are, and the next one. */

import type { FileModel } from "./model";
import type { Hit } from "./protocol";
import type { Session } from "./session";

/** So many are known at once, around where one is looking. */
const MOST_HITS = 10_000;
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

export class Search {
  count = 0;
  /** In order of time, or the longest first. */
  hits: FoundHit[] = [];
  /** By 512th of the whole, how many begin in it. */
  bins: number[] | null = null;
  /** How many hits are before the known ones. */
  private first = 0;
  private isLongest = false;
  private request: AbortController | null = null;
  private text = "";

  constructor(private readonly session: Session) {}

  /** Looks for a text; resolves to false if another search has begun meanwhile. */
  look(text: string): Promise<boolean> {
    this.clear(text, false);
    return text ? this.ask(this.session.view.startNs) : Promise.resolve(true);
  }

  /** Looks for what has a name, the longest first; resolves as `look`. */
  lookForLongest(name: string): Promise<boolean> {
    this.clear(name, true);
    return this.ask(0n);
  }

  private clear(text: string, isLongest: boolean): void {
    this.request?.abort();
    this.text = text;
    this.isLongest = isLongest;
    this.count = this.first = 0;
    this.hits = [];
    this.bins = null;
  }

  /** Asks for the hits around a time of the view. */
  private async ask(around: bigint): Promise<boolean> {
    const { session, text, isLongest } = this;
    const request = (this.request = new AbortController());
    const bins = new Array<number>(BINS).fill(0);
    const parts: Part[] = [];
    for (const file of session.files) {
      if (!file.table || file.info.start_ns === null || file.info.end_ns === null) continue;
      const where = { file: file.index, layout: file.table.layout, text, from: file.info.start_ns, to: file.info.end_ns, limit: MOST_HITS };
      const found = await session.source.ask("search", isLongest ? { ...where, longest: 1 } : { ...where, around: session.inFile(file, around) }, request.signal);
      if (this.text !== text || request.signal.aborted) return false;
      const first = Number(session.inView(file, BigInt(file.info.start_ns)));
      const width = Number(BigInt(file.info.end_ns) - BigInt(file.info.start_ns));
      found.bins.forEach((amount, bin) => {
        if (!amount) return;
        const at = (first + ((bin + 0.5) / found.bins.length) * width) / Number(session.view.widthNs);
        bins[Math.max(0, Math.min(BINS - 1, Math.floor(at * BINS)))]! += amount;
      });
      parts.push({ count: found.count, first: found.first, hits: found.hits.map((hit) => ({ file, hit, ns: session.inView(file, BigInt(hit.start_ns)) })) });
    }
    this.count = parts.reduce((sum, { count }) => sum + count, 0);
    this.bins = bins;
    if (isLongest) this.hits = parts.flatMap(({ hits }) => hits).sort((a, b) => compare(lengthOf(b), lengthOf(a)));
    else this.join(parts);
    return true;
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

  /** The hit after the selected thing, or with -1 before it; without one, after or before the left edge of the view. */
  async next(step: 1 | -1): Promise<{ found: FoundHit; rank: number } | null> {
    if (!this.hits.length) return null;
    let to = this.besides(step);
    const isKnown = () => to >= 0 && to < this.hits.length;
    if (!isKnown() && (this.first > 0 || this.first + this.hits.length < this.count) && !this.isLongest) {
      const isLast = step > 0 ? this.first + this.hits.length >= this.count : this.first <= 0;
      const { widthNs } = this.session.view;
      // after the last one comes the first
      const around = isLast ? (step > 0 ? 0n : widthNs) : this.hits.at(step > 0 ? -1 : 0)!.ns;
      if (!(await this.ask(around)) || !this.hits.length) return null;
      to = isLast ? (step > 0 ? 0 : this.hits.length - 1) : this.besides(step);
    }
    const { length } = this.hits;
    to = (to + length) % length;
    return { found: this.hits[to]!, rank: this.first + to + 1 };
  }

  private besides(step: 1 | -1): number {
    const { hits, session } = this;
    const { thing } = session;
    const at = thing ? hits.findIndex(({ file, hit }) => file === thing.lane.file && hit.lane === thing.lane.index && hit.row === thing.row && BigInt(hit.start_ns) === thing.startNs) : -1;
    if (at >= 0) return at + step;
    if (this.isLongest) return step > 0 ? 0 : hits.length - 1;
    // one that begins where the view does is in view
    const ns = thing ? session.inView(thing.lane.file, thing.startNs) : session.view.startNs - 1n;
    const after = hits.findIndex((hit) => hit.ns > ns);
    const first = after < 0 ? hits.length : after;
    return step > 0 ? first : first - 1;
  }
}

function lengthOf({ hit }: FoundHit): bigint {
  return BigInt(hit.end_ns) - BigInt(hit.start_ns);
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
