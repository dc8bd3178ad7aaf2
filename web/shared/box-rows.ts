/**
 * Boxes in rows, and what a pixel of a row contains. Boxes of one row ascend and never overlap, as
 * the spans of one depth of a thread do, and the functions of one depth of a flame graph.
 *
 * A pixel may contain a million boxes. Sums and maxima of blocks of 4, 16, 64 ... boxes make the
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

const SHIFT = 2;
/** The boxes of a row with cells. */
const LEAST_FOR_GRID = 4096;
const BLOCK = 1 << SHIFT;

/** The least number of cells in a pixel that is drawn from cells: its edges are then exact to 1/8. */
const CELLS_IN_PIXEL = 8;

/**
 * A row as equal cells of time, for frames in which pixels have many boxes: what a pixel needs is
 * adjacent in memory, while its boxes are not.
 */
export interface Grid {
  /** The time at which the first cell starts, and the length of a cell. */
  origin: number;
  cell: number;
  cells: number;
  /** The length of boxes before each cell. */
  before: Float64Array;
  /** A heap: the longest box that starts in cell c of level l, of 2^l cells, is at cells / 2^l + c; l > 0. */
  longest: Int32Array;
  longestLength: Float32Array;
  /** Its name: the names of boxes are far from each other in memory. */
  longestName: Int32Array;
}

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
  /** The longest box of each block, of each block of blocks, and so on, and its length. */
  private readonly longestOf: Int32Array[] = [];
  private readonly longestLength: Float32Array[] = [];
  /** Per row, equal cells of time: the first box that starts in each cell or after it. */
  private readonly cells: Int32Array;
  private readonly cellStart: Int32Array;
  private readonly cellScale: Float64Array;
  private readonly grids: (Grid | null)[] = [];
  /** The last answer of `lengthBefore`, as the end of a pixel is the start of the next. */
  private summed = -1;
  private sum = 0;

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
    this.addMaxima(longest);
    this.cellStart = new Int32Array(this.rows + 1);
    this.cellScale = new Float64Array(this.rows);
    for (let row = 0; row < this.rows; row++) {
      const boxes = this.rowStart[row + 1]! - this.rowStart[row]!;
      this.cellStart[row + 1] = this.cellStart[row]! + (boxes >> SHIFT) + 1;
    }
    this.cells = new Int32Array(this.cellStart[this.rows]!);
    for (let row = 0; row < this.rows; row++) this.index(row);
    for (let row = 0; row < this.rows; row++) this.grids.push(this.makeGrid(row));
  }

  /** The cells of a row if a pixel of this length has enough of them, otherwise null. */
  grid(row: number, pixel: number): Grid | null {
    const grid = this.grids[row]!;
    return grid && grid.cell * CELLS_IN_PIXEL <= pixel ? grid : null;
  }

  private makeGrid(row: number): Grid | null {
    const [low, high] = [this.rowStart[row]!, this.rowStart[row + 1]!];
    if (high - low < LEAST_FOR_GRID) return null;
    const cells = 2 ** Math.floor(Math.log2((high - low) / 2));
    const origin = this.start[low]!;
    const cell = (this.end(high - 1) - origin) / cells;
    const before = new Float64Array(cells + 1);
    const longest = new Int32Array(cells).fill(-1);
    const longestLength = new Float32Array(cells).fill(-1);
    let sum = 0;
    let edge = 0;
    for (let box = low; box < high; box++) {
      const start = this.start[box]!;
      const length = this.length[box]!;
      for (; edge <= cells && origin + edge * cell <= start; edge++) before[edge] = sum;
      for (; edge <= cells && origin + edge * cell < start + length; edge++) {
        before[edge] = sum + (origin + edge * cell - start);
      }
      sum += length;
      const leaf = (cells >> 1) + (Math.min(cells - 1, Math.floor((start - origin) / cell)) >> 1);
      if (length > longestLength[leaf]!) {
        longestLength[leaf] = length;
        longest[leaf] = box;
      }
    }
    for (; edge <= cells; edge++) before[edge] = sum;
    for (let node = (cells >> 1) - 1; node > 0; node--) {
      const best = longestLength[2 * node]! >= longestLength[2 * node + 1]! ? 2 * node : 2 * node + 1;
      longestLength[node] = longestLength[best]!;
      longest[node] = longest[best]!;
    }
    const longestName = longest.map((box) => (box < 0 ? 0 : this.name[box]!));
    return { origin, cell, cells, before, longest, longestLength, longestName };
  }

  private addMaxima(longest: Int32Array): void {
    const { length } = this;
    for (let below = longest; ; ) {
      this.longestOf.push(below);
      const lengths = Float32Array.from(below, (box) => length[box]!);
      this.longestLength.push(lengths);
      if (below.length <= BLOCK) return;
      const above = new Int32Array(Math.ceil(below.length / BLOCK));
      for (let block = 0; block < above.length; block++) {
        const end = Math.min(below.length, (block + 1) * BLOCK);
        let best = block * BLOCK;
        for (let each = best + 1; each < end; each++) if (lengths[each]! > lengths[best]!) best = each;
        above[block] = below[best]!;
      }
      below = above;
    }
  }

  /** Fills the cells of a row. */
  private index(row: number): void {
    const { start, cells } = this;
    const [low, high] = [this.rowStart[row]!, this.rowStart[row + 1]!];
    const first = this.cellStart[row]!;
    const count = this.cellStart[row + 1]! - first;
    const scale = high > low ? (count - 1) / Math.max(1, start[high - 1]! - start[low]!) : 0;
    this.cellScale[row] = scale;
    let cell = 0;
    for (let box = low; box < high; box++) {
      const of = Math.min(count - 1, Math.floor((start[box]! - start[low]!) * scale));
      for (; cell <= of; cell++) cells[first + cell] = box;
    }
    for (; cell < count; cell++) cells[first + cell] = high;
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

  /** The first box of a row that starts at or after `at`. */
  firstFrom(row: number, at: number): number {
    const { start } = this;
    const low = this.rowStart[row]!;
    const high = this.rowStart[row + 1]!;
    if (low === high || at <= start[low]!) return low;
    const cell = Math.floor((at - start[low]!) * this.cellScale[row]!);
    const first = this.cellStart[row]!;
    if (cell >= this.cellStart[row + 1]! - first) return high;
    let box = this.cells[first + cell]!;
    if (box < high && start[box]! < at) {
      let step = 1;
      while (box + step < high && start[box + step]! < at) {
        box += step;
        step *= 2;
      }
      let end = Math.min(high, box + step);
      box++;
      while (box < end) {
        const middle = (box + end) >>> 1;
        if (start[middle]! < at) box = middle + 1;
        else end = middle;
      }
    }
    return box;
  }

  /** The first box of a row that ends after `at`, or is empty and at it. */
  firstVisible(row: number, at: number): number {
    const low = this.rowStart[row]!;
    const found = this.firstFrom(row, at);
    return found > low && this.end(found - 1) > at ? found - 1 : found;
  }

  /** The length of all boxes before this one. */
  lengthBefore(box: number): number {
    if (box !== this.summed) {
      const block = box >> SHIFT;
      let sum = this.before[block]!;
      for (let each = block << SHIFT; each < box; each++) sum += this.length[each]!;
      this.sum = sum;
      this.summed = box;
    }
    return this.sum;
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
    let most = length[best]!;
    for (let level = 0; low < high; level++) {
      const boxes = this.longestOf[level]!;
      const lengths = this.longestLength[level]!;
      const isTop = level + 1 === this.longestOf.length;
      const from = isTop ? high : Math.min(high, (low + BLOCK - 1) & -BLOCK);
      const to = Math.max(from, high & -BLOCK);
      for (; low < from; low++) {
        if (lengths[low]! > most) {
          most = lengths[low]!;
          best = boxes[low]!;
        }
      }
      for (let each = to; each < high; each++) {
        if (lengths[each]! > most) {
          most = lengths[each]!;
          best = boxes[each]!;
        }
      }
      low >>= SHIFT;
      high = to >> SHIFT;
    }
    return best;
  }

  /** What a row contains in [from, to). */
  content(row: number, from: number, to: number): Content {
    const first = this.firstVisible(row, from);
    const last = Math.max(first, this.firstFrom(row, to));
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
    let sum = 0;
    if (last - first < BLOCK) for (let box = first; box < last; box++) sum += this.length[box]!;
    else {
      const before = this.lengthBefore(first);
      sum = this.lengthBefore(last) - before;
    }
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
