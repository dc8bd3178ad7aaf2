/** The script of a flame chart's page: every span over time, what is selected and its statistics. */

import { decodeVarints, readDeflated, readHead } from "../shared/blocks";
import type { CounterColumns } from "../shared/counter-lane";
import { openPage } from "../shared/page";
import graphStyle from "../shared/flame-graph.css?inline";
import laneStyle from "../shared/lanes.css?inline";
import panelStyle from "../shared/panel.css?inline";
import { readSpans } from "../shared/span-columns";
import { ChartPage } from "./chart/chart-page";
import type { ChartHead } from "./chart/session";
import { readFlows } from "./chart/flows";
import style from "./chart/chart.css?inline";

const head = readHead<ChartHead>();

async function readCounters(): Promise<CounterColumns[]> {
  const counters: CounterColumns[] = [];
  for (const [index, { title, process, points }] of head.counters.entries()) {
    const time = decodeVarints(await readDeflated(`counter${index}`), new Float64Array(points));
    for (let point = 1; point < points; point++) time[point]! += time[point - 1]!;
    const value = new Float64Array((await readDeflated(`value${index}`)).buffer);
    counters.push({ title, process, time, value });
  }
  return counters;
}

async function open(): Promise<void> {
  const columns = await readSpans(head.frames, head.rows);
  const counters = await readCounters();
  const flows = await readFlows(head.flows);
  for (const block of document.querySelectorAll("[data-block]")) block.remove();
  const styles = graphStyle + panelStyle + laneStyle + style;
  openPage(head.title, styles, (body) => void new ChartPage(body, head, columns, counters, flows));
}

// the static picture is shown until the spans are read
void open();
