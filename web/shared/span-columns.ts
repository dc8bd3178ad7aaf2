/** The spans of a chart's page: columns by row and time, decoded once when the page is opened. */

import { decodeVarints, readDeflated } from "./blocks";
import { BoxRows } from "./box-rows";

export interface SpanColumns {
  names: readonly string[];
  /** Times are nanoseconds from the chart's left edge. */
  boxes: BoxRows;
  /** The span that each is inside; -1 without one. */
  parent: Int32Array;
  /** 1 more than the index of the arguments in `texts`; 0 without any. */
  argument: Int32Array | null;
  /** The distinct arguments, mostly JSON. */
  texts: readonly string[];
  /** How many spans each box represents; null if each is one. */
  count: Int32Array | null;
}

/** Reads the columns from the page; `rows` has the number of spans of each row. */
export async function readSpans(names: readonly string[], rows: readonly number[]): Promise<SpanColumns> {
  const rowStart = new Int32Array(rows.length + 1);
  rows.forEach((count, row) => (rowStart[row + 1] = rowStart[row]! + count));
  const spans = rowStart[rows.length]!;
  const doubles = async (name: string) => decodeVarints(await readDeflated(name), new Float64Array(spans));
  const integers = async (name: string) => decodeVarints(await readDeflated(name), new Int32Array(spans));
  const optional = async (name: string) => {
    const bytes = await readDeflated(name);
    return bytes.length ? decodeVarints(bytes, new Int32Array(spans)) : null;
  };
  const start = await doubles("gap");
  const length = await doubles("length");
  for (let row = 0; row < rows.length; row++) {
    let end = 0;
    for (let span = rowStart[row]!; span < rowStart[row + 1]!; span++) {
      start[span]! += end;
      end = start[span]! + length[span]!;
    }
  }
  const parent = await integers("parent");
  let last = -1;
  for (let span = 0; span < spans; span++) {
    const step = parent[span]!;
    last += (step >>> 1) ^ -(step & 1);
    parent[span] = last;
  }
  const texts = await readDeflated("texts");
  return {
    names,
    boxes: new BoxRows({ start, length, name: await integers("name"), rowStart }),
    parent,
    argument: await optional("argument"),
    texts: texts.length ? (JSON.parse(new TextDecoder().decode(texts)) as string[]) : [],
    count: await optional("count"),
  };
}
