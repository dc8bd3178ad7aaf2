/** A search in all files: how many there are, where they are, and the next one. */

import type { FileModel } from "./model";
import type { Hit } from "./protocol";
import type { Session } from "./session";

const MOST_HITS = 10_000;
export const BINS = 512;

export interface FoundHit {
  file: FileModel;
  hit: Hit;
  /** From the left edge of the whole. */
  ns: bigint;
}

export class Search {
  count = 0;
  hits: FoundHit[] = [];
  /** By 512th of the whole, how many begin in it. */
  bins: number[] | null = null;
  private request: AbortController | null = null;
  private text = "";

  constructor(private readonly session: Session) {}

  /** Looks for a text; resolves to false if another search has begun meanwhile. */
  async look(text: string): Promise<boolean> {
    this.request?.abort();
    this.text = text;
    this.count = 0;
    this.hits = [];
    this.bins = null;
    if (!text) return true;
    const { session } = this;
    const request = (this.request = new AbortController());
    const bins = new Array<number>(BINS).fill(0);
    const hits: FoundHit[] = [];
    let count = 0;
    for (const file of session.files) {
      if (!file.table || file.info.start_ns === null || file.info.end_ns === null) continue;
      const found = await session.source.ask("search", { file: file.index, layout: file.table.layout, text, from: file.info.start_ns, to: file.info.end_ns, limit: MOST_HITS }, request.signal);
      if (this.text !== text || request.signal.aborted) return false;
      count += found.count;
      const first = Number(session.inView(file, BigInt(file.info.start_ns)));
      const width = Number(BigInt(file.info.end_ns) - BigInt(file.info.start_ns));
      found.bins.forEach((amount, bin) => {
        if (!amount) return;
        const at = (first + ((bin + 0.5) / found.bins.length) * width) / Number(session.view.widthNs);
        bins[Math.max(0, Math.min(BINS - 1, Math.floor(at * BINS)))]! += amount;
      });
      for (const hit of found.hits) hits.push({ file, hit, ns: session.inView(file, BigInt(hit.start_ns)) });
    }
    hits.sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0));
    [this.count, this.hits, this.bins] = [count, hits, bins];
    return true;
  }

  /** The hit after the selected thing, or with -1 before it; the first or last one without any. */
  next(step: 1 | -1): { found: FoundHit; rank: number } | null {
    const { hits, session } = this;
    if (!hits.length) return null;
    const { thing } = session;
    let at = -1;
    if (thing) {
      const ns = session.inView(thing.lane.file, thing.startNs);
      at = hits.findIndex(({ file, hit }) => file === thing.lane.file && hit.lane === thing.lane.index && hit.row === thing.row && BigInt(hit.start_ns) === thing.startNs);
      if (at < 0) {
        const after = hits.findIndex((hit) => hit.ns > ns);
        at = step > 0 ? (after < 0 ? hits.length : after) - 1 : after < 0 ? hits.length : after;
      }
    } else if (step < 0) at = 0;
    const to = (at + step + hits.length) % hits.length;
    return { found: hits[to]!, rank: to + 1 };
  }
}
