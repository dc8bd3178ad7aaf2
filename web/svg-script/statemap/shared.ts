/** The entities of rows that several share: which is where, and what it is called. */

import { Varints, decodeVarints, readDeflated } from "../../shared/blocks";
import { Times, firstAbove } from "../../shared/times";

export interface SharedHead {
  count: number;
  sites: string[];
  /** By row, the index of its site. */
  site: number[];
}

export class SharedRows {
  /** By site, how many rows it has. */
  readonly rowsOf: number[];
  private list: string[] | null = null;

  private constructor(
    readonly sites: string[],
    /** By row, the index of its site. */
    readonly site: number[],
    /** Row r has entities [rows[r], rows[r + 1]). */
    readonly rows: Uint32Array,
    /** When each first has a state. */
    readonly starts: Times,
    private readonly readNames: () => string[],
  ) {
    this.rowsOf = sites.map(() => 0);
    for (const each of site) this.rowsOf[each]!++;
  }

  static async read(head: SharedHead | null, index: number): Promise<SharedRows | null> {
    if (!head) return null;
    const read = new Varints(await readDeflated(`s${index}`));
    const rows = new Uint32Array(head.site.length + 1);
    for (let row = 0; row < head.site.length; row++) rows[row + 1] = rows[row]! + read.small();
    const starts = new Times(head.count);
    for (let row = 0; row < head.site.length; row++) {
      let hi = 0;
      let lo = 0;
      for (let i = rows[row]!; i < rows[row + 1]!; i++) {
        read.next();
        lo += read.lo;
        hi += read.hi + (lo > 0xffffffff ? 1 : 0);
        lo >>>= 0;
        starts.hi[i] = hi;
        starts.lo[i] = lo;
      }
    }
    const [names, ids] = [await readDeflated(`n${index}`), await readDeflated(`i${index}`)];
    const readNames = () => (ids.length ? idNames(ids, head.count) : texts(names, head.count));
    return new SharedRows(head.sites, head.site, rows, starts, readNames);
  }

  get count(): number {
    return this.starts.lo.length;
  }

  /** What the site of a row is called. */
  siteOf(row: number): string {
    return this.sites[this.site[row]!]!;
  }

  /** What each is called; decoded when it is first needed. */
  get names(): string[] {
    return (this.list ??= this.readNames());
  }

  /** The entities of a row that a range may show: from the one at its start to the last that begins in it. */
  between(row: number, start: bigint, end: bigint): { first: number; last: number } {
    const from = this.rows[row]!;
    const to = this.rows[row + 1]!;
    const first = Math.max(from, firstAbove(this.starts, from, to, start) - 1);
    return { first, last: Math.max(first + 1, firstAbove(this.starts, first, to, end - 1n)) };
  }

  /** The row of an entity. */
  rowOf(entity: number): number {
    let from = 0;
    let to = this.rows.length - 1;
    while (to - from > 1) {
      const middle = (from + to) >>> 1;
      if (this.rows[middle]! > entity) to = middle;
      else from = middle;
    }
    return from;
  }
}

function texts(packed: Uint8Array, count: number): string[] {
  return count ? new TextDecoder().decode(packed).split("\0") : [];
}

/** Names that are numbers, from the steps between them: odd ones are negative. */
function idNames(packed: Uint8Array, count: number): string[] {
  const steps = decodeVarints(packed, new Float64Array(count));
  let id = 0;
  return Array.from(steps, (step) => `${(id += step % 2 ? -(step + 1) / 2 : step / 2)}`);
}
