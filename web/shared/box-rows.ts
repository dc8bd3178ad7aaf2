/**
 * Boxes in rows, and what a pixel of a row contains. Boxes of one row ascend and never overlap, as
 * the spans of one depth of a thread do, and the functions of one depth of a flame graph.
 *
 * A pixel may contain a million boxes. Sums and maxima of blocks of 8, 64, 512 ... boxes make the
 * answer for a range of boxes logarithmic, so a frame costs as much as it has pixels.
 */

export interface BoxColumns {
  start: Float64Array;
  length: Float64Array;
  /** Index of the name, whose colour the box has. */
  name: Int32Array;
  /** Row r has boxes [rowStart[r], rowStart[r + 1]). */
  rowStart: Int32Array;
}

const SHIFT = 3;
const BLOCK = 1 << SHIFT;

/** What is in a pixel or in another range of a row. */
export interface Content {
  /** The boxes that are at least partly inside: [first, last). */
  first: number;
  last: number;
  /** The length that boxes cover in it. */
  covered: number;
  /** The longest of them; -1 without any. */
  longest: number;
}

export class BoxRows {
  readonly start: Float64Array;
  readonly length: Float64Array;
  readonly name: Int32Array;
  readonly rowStart: Int32Array;
  readonly count: number;
  readonly rows: number;
  /** The length of all boxes before a block. */
  private readonly before: Float64Array;
  /** The longest box of each block, of each block of blocks, and so on. */
  private readonly longestOf: Int32Array[] = [];

  constructor(columns: BoxColumns) {
    ({ start: this.start, length: this.length, name: this.name, rowStart: this.rowStart } = columns);
    this.count = this.start.length;
    this.rows = this.rowStart.length - 1;
    const { length, count } = this;
    const blocks = Math.ceil(count / BLOCK);
    this.before = new Float64Array(blocks + 1);
    const longest = new Int32Array(blocks);
    for (let block = 0; block < blocks; block++) {
      const end = Math.min(count, (block + 1) * BLOCK);
      let best = block * BLOCK;
      let sum = 0;
      for (let box = best; box < end; box++) {
        sum += length[box]!;
        if (length[box]! > length[best]!) best = box;
      }
      longest[block] = best;
      this.before[block + 1] = this.before[block]! + sum;
    }
    this.longestOf.push(longest);
    for (let below: Int32Array = longest; below.length > BLOCK; below = this.longestOf.at(-1)!) {
      const above = new Int32Array(Math.ceil(below.length / BLOCK));
      for (let block = 0; block < above.length; block++) {
        const end = Math.min(below.length, (block + 1) * BLOCK);
        let best = below[block * BLOCK]!;
        for (let each = block * BLOCK + 1; each < end; each++) {
          if (length[below[each]!]! > length[best]!) best = below[each]!;
        }
        above[block] = best;
      }
      this.longestOf.push(above);
    }
  }

  end(box: number): number {
    return this.start[box]! + this.length[box]!;
  }

  /** The row of a box. */
  rowOf(box: number): number {
    let low = 0;
    let high = this.rows - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.rowStart[middle]! <= box) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The first box of [low, high), all of one row, that starts at or after `at`; near `low` is fast. */
  firstFrom(at: number, low: number, high: number): number {
    const { start } = this;
    let step = 1;
    while (low + step <= high && start[low + step - 1]! < at) {
      low += step;
      step *= 2;
    }
    high = Math.min(high, low + step - 1);
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (start[middle]! < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first box of a row that ends after `at`, or is empty and at it. */
  firstVisible(row: number, at: number): number {
    const low = this.rowStart[row]!;
    const found = this.firstFrom(at, low, this.rowStart[row + 1]!);
    return found > low && this.end(found - 1) > at ? found - 1 : found;
  }

  /** The length of all boxes before this one. */
  lengthBefore(box: number): number {
    const block = box >> SHIFT;
    let sum = this.before[block]!;
    for (let each = block << SHIFT; each < box; each++) sum += this.length[each]!;
    return sum;
  }

  /** The longest of [first, last), which are of one row; -1 if that is empty. */
  longest(first: number, last: number): number {
    if (first >= last) return -1;
    const { length } = this;
    let best = first;
    let low = first;
    let high = last;
    const edgeLow = Math.min(high, (low + BLOCK - 1) & -BLOCK);
    for (; low < edgeLow; low++) if (length[low]! > length[best]!) best = low;
    const edgeHigh = Math.max(low, high & -BLOCK);
    for (let each = edgeHigh; each < high; each++) if (length[each]! > length[best]!) best = each;
    low >>= SHIFT;
    high = edgeHigh >> SHIFT;
    for (let level = 0; low < high; level++) {
      const blocks = this.longestOf[level]!;
      const top = level + 1 === this.longestOf.length;
      const from = top ? high : Math.min(high, (low + BLOCK - 1) & -BLOCK);
      for (; low < from; low++) if (length[blocks[low]!]! > length[best]!) best = blocks[low]!;
      if (low >= high) break;
      const to = Math.max(low, high & -BLOCK);
      for (let each = to; each < high; each++) {
        if (length[blocks[each]!]! > length[best]!) best = blocks[each]!;
      }
      low >>= SHIFT;
      high = to >> SHIFT;
    }
    return best;
  }

  /** What a row contains in [from, to). */
  content(row: number, from: number, to: number): Content {
    const first = this.firstVisible(row, from);
    const last = this.firstFrom(to, first, this.rowStart[row + 1]!);
    return {
      first,
      last,
      covered: this.coveredIn(first, last, from, to),
      longest: this.longest(first, last),
    };
  }

  /** The length that [first, last) cover in [from, to), if these are the boxes in that range. */
  coveredIn(first: number, last: number, from: number, to: number): number {
    if (first >= last) return 0;
    let sum = last - first < BLOCK ? 0 : this.lengthBefore(last) - this.lengthBefore(first);
    if (last - first < BLOCK) for (let box = first; box < last; box++) sum += this.length[box]!;
    if (this.start[first]! < from) sum -= from - this.start[first]!;
    const end = this.end(last - 1);
    return end > to ? sum - (end - to) : sum;
  }

  /** The box of a row that is nearest to `at`, at most `slack` from it; -1 without one. */
  at(row: number, at: number, slack: number): number {
    const { first, last, longest } = this.content(row, at - slack, at + slack);
    for (let box = first; box < last; box++) {
      if (this.start[box]! <= at && at < this.end(box) && last - first < 64) return box;
    }
    return longest;
  }
}
