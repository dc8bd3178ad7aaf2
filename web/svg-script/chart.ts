/** The script of a flame chart's page: every span over time, what is selected and its statistics. */

import { readHead } from "../shared/blocks";
import { openPage } from "../shared/page";
import graphStyle from "../shared/flame-graph.css?inline";
import laneStyle from "../shared/lanes.css?inline";
import { readSpans } from "../shared/span-columns";
import { ChartPage } from "./chart/chart-page";
import type { ChartHead } from "./chart/chart-page";
import style from "./chart/chart.css?inline";

const head = readHead<ChartHead>();

// the static picture is shown until the spans are read
void readSpans(head.frames, head.rows).then((columns) => {
  for (const block of document.querySelectorAll("[data-block]")) block.remove();
  openPage(head.title, graphStyle + laneStyle + style, (body) => void new ChartPage(body, head, columns));
});
