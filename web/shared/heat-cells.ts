/** The cells of each name: read from the page, and put into columns of any length. */

type Numbers = Uint32Array | Float64Array;

/** Cells that are not zero, in order of their numbers, and what is in each. */
export interface Cells {
  numbers: Numbers;
  values: Numbers;
  total: number;
}

const WORD = 2 ** 32;

/**
 * Reads a page's block: for each name how many cells, then of each its distance and its value. The
 * distance is doubled, and is odd where a value follows that is not 1.
 */
export function readCells(bytes: Uint8Array, names: number): Cells[] {
  let at = 0;
  const next = () => {
    let byte = bytes[at++]!;
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let unit = 128; byte > 127; unit *= 128) {
      byte = bytes[at++]!;
      value += (byte & 127) * unit;
    }
    return value;
  };
  const found: Cells[] = [];
  for (let name = 0; name < names; name++) {
    const count = next();
    let numbers: Numbers = new Uint32Array(count);
    let values: Numbers = new Uint32Array(count);
    let number = 0;
    let total = 0;
    for (let i = 0; i < count; i++) {
      const step = next();
      number += Math.floor(step / 2);
      const value = step % 2 ? next() : 1;
      if (number >= WORD && numbers instanceof Uint32Array) numbers = Float64Array.from(numbers);
      if (value >= WORD && values instanceof Uint32Array) values = Float64Array.from(values);
      numbers[i] = number;
      values[i] = value;
      total += value;
    }
    found.push({ numbers, values, total });
  }
  return found;
}

/** Adds up `by` neighbouring cells to one, the first of them at number -shift. */
export function joined({ numbers, values, total }: Cells, by: number, shift: number): Cells {
  const joinedNumbers = numbers.slice();
  const joinedValues = new Float64Array(values.length);
  let count = 0;
  for (let i = 0; i < numbers.length; i++) {
    const number = Math.floor((numbers[i]! + shift) / by);
    if (!count || joinedNumbers[count - 1] !== number) joinedNumbers[count++] = number;
    joinedValues[count - 1]! += values[i]!;
  }
  return { numbers: joinedNumbers.slice(0, count), values: joinedValues.slice(0, count), total };
}

/** Cells with the numbers moved run by run; each run is [first, end, by how much less]. */
export function moved({ numbers, values, total }: Cells, runs: [number, number, number][]): Cells {
  const places = new Uint32Array(numbers.length);
  let run = 0;
  let [, end, less] = runs[0] ?? [0, Infinity, 0];
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i]!;
    while (number >= end && run + 1 < runs.length) [, end, less] = runs[++run]!;
    places[i] = number - less;
  }
  return { numbers: places, values, total };
}

/** Adds up the cells of every `group` columns of `rows`. */
export function grouped({ numbers, values, total }: Cells, rows: number, group: number): Cells {
  if (group === 1) return { numbers, values, total };
  const groupNumbers = new Uint32Array(numbers.length);
  const groupValues = new Float64Array(numbers.length);
  const sums = new Float64Array(rows);
  const size = group * rows;
  let count = 0;
  for (let i = 0; i < numbers.length; ) {
    const column = Math.floor(numbers[i]! / size);
    const end = (column + 1) * size;
    let start = column * size;
    for (; i < numbers.length && numbers[i]! < end; i++) {
      while (numbers[i]! - start >= rows) start += rows;
      sums[numbers[i]! - start]! += values[i]!;
    }
    for (let row = 0; row < rows; row++) {
      if (!sums[row]) continue;
      groupNumbers[count] = column * rows + row;
      groupValues[count++] = sums[row]!;
      sums[row] = 0;
    }
  }
  return { numbers: groupNumbers.slice(0, count), values: groupValues.slice(0, count), total };
}

export function lowerBound(numbers: Numbers, wanted: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
