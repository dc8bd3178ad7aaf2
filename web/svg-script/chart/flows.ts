/** Flows: arrows from one lane to another, shown for the selected span. */

import { decodeVarints, readDeflated } from "../../shared/blocks";

export interface FlowColumns {
  count: number;
  fromTime: Float64Array;
  fromPanel: Int32Array;
  toTime: Float64Array;
  toPanel: Int32Array;
  name: Int32Array;
}

const FIELDS = 5;

export async function readFlows(count: number): Promise<FlowColumns> {
  const numbers = decodeVarints(await readDeflated("flows"), new Float64Array(FIELDS * count));
  const flows: FlowColumns = {
    count,
    fromTime: new Float64Array(count),
    fromPanel: new Int32Array(count),
    toTime: new Float64Array(count),
    toPanel: new Int32Array(count),
    name: new Int32Array(count),
  };
  let begin = 0;
  for (let flow = 0; flow < count; flow++) {
    const [step, fromPanel, later, toPanel, name] = numbers.subarray(FIELDS * flow, FIELDS * (flow + 1));
    begin += step!;
    flows.fromTime[flow] = begin;
    flows.fromPanel[flow] = fromPanel!;
    flows.toTime[flow] = begin + (later! % 2 ? -(later! + 1) / 2 : later! / 2);
    flows.toPanel[flow] = toPanel!;
    flows.name[flow] = name!;
  }
  return flows;
}

/** The flows that begin or end in a range on one of some panels. */
export function flowsOf(flows: FlowColumns, panels: ReadonlySet<number>, from: number, to: number): number[] {
  const found: number[] = [];
  for (let flow = 0; flow < flows.count; flow++) {
    const leaves = panels.has(flows.fromPanel[flow]!) && flows.fromTime[flow]! >= from && flows.fromTime[flow]! <= to;
    const arrives = panels.has(flows.toPanel[flow]!) && flows.toTime[flow]! >= from && flows.toTime[flow]! <= to;
    if (leaves || arrives) found.push(flow);
  }
  return found;
}
