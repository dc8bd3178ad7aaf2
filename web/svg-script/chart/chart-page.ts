/** The page of a flame chart, assembled from lanes, axis, minimap and panel. */

import { BoxLabels } from "../../shared/box-labels";
import { CounterLane, number } from "../../shared/counter-lane";
import type { CounterColumns } from "../../shared/counter-lane";
import { button, h, shown } from "../../shared/dom";
import { FlameGraph } from "../../shared/flame-graph";
import { ROW_PX } from "../../shared/flame-lane";
import { flameStyle } from "../../shared/flame-style";
import { duration, exact, grouped, share } from "../../shared/format";
import { FunctionTable } from "../../shared/function-table";
import { listen as listenToHands } from "../../shared/gestures";
import { icon } from "../../shared/icon";
import type { Key } from "../../shared/keys";
import { listen as listenToKeys } from "../../shared/keys";
import { pixelOf } from "../../shared/lane-image";
import type { View } from "../../shared/lane-image";
import { LaneTree } from "../../shared/lane-tree";
import type { Lane } from "../../shared/lane-tree";
import { Minimap } from "../../shared/minimap";
import { css } from "../../shared/name-colors";
import { Help, Theme, themeColor } from "../../shared/page";
import { Panel } from "../../shared/panel";
import { Sandwich } from "../../shared/sandwich";
import { SearchField } from "../../shared/search-field";
import type { SpanColumns } from "../../shared/span-columns";
import { Scratch, SpanRange } from "../../shared/span-statistics";
import { TimeAxis } from "../../shared/time-axis";
import { Tooltip } from "../../shared/tooltip";
import { readAddress, writeAddress } from "../../shared/url-state";
import { GRAINS, Viewport } from "../../shared/viewport";
import { describeRange, describeSpan, fields } from "./details";
import { flowsOf } from "./flows";
import type { FlowColumns } from "./flows";
import { SpanLane, makeLanes, threadsOf } from "./lanes";
import type { PanelHead, Pens } from "./lanes";
import { matching, nextMatch } from "./matches";

export interface ChartHead {
  title: string;
  subtitle: string;
  notes: string[];
  /** The time of the left edge, in nanoseconds. */
  origin: string;
  width: number;
  frames: string[];
  /** How many spans each row has. */
  rows: number[];
  panels: PanelHead[];
  counters: { title: string; process: string; points: number }[];
  flows: number;
  flowNames: string[];
  /** The path of the trace, for the command. */
  source: string;
  /** The argument whose value labels have. */
  label: string | null;
}

interface Range {
  from: number;
  to: number;
}

const REST_MS = 140;
/** More arrows than this are unreadable. */
const MOST_FLOWS = 100;

export class ChartPage {
  private readonly origin: bigint;
  private readonly view: Viewport;
  private readonly pens: Pens;
  private readonly tooltip: Tooltip;
  private readonly tree = new LaneTree(() => this.redraw());
  private readonly axis: TimeAxis;
  private readonly minimap: Minimap;
  private readonly panel: Panel;
  private readonly search: SearchField;
  private readonly filter: HTMLInputElement;
  private readonly theme: Theme;
  private readonly help: Help;
  private readonly command = h("code");
  private readonly spoken = h("div", { class: "spoken", attributes: { "aria-live": "polite" } });
  private readonly graph: FlameGraph;
  private readonly sandwich: Sandwich;
  private readonly table: FunctionTable;
  private readonly scratch = new Scratch();
  private readonly argumentFields = new Map<number, Map<string, string>>();
  private readonly lanes: Lane[];
  /** The lane of each panel. */
  private readonly panelLanes: SpanLane[];
  private shownFlows: number[] = [];
  private inks = { line: 0, busy: 0, faint: "", accent: "", accentPixel: 0 };
  private range: Range | null = null;
  private span = -1;
  private hovered = -1;
  private labelField: string | null;
  private named: string | null = null;
  private pending = 0;
  private resting = 0;
  private answered = "";
  private mapped = "";

  constructor(
    body: HTMLElement,
    private readonly head: ChartHead,
    private readonly columns: SpanColumns,
    counters: readonly CounterColumns[],
    private readonly flows: FlowColumns,
  ) {
    this.origin = BigInt(head.origin);
    this.view = new Viewport(BigInt(Math.max(1, head.width)));
    this.labelField = head.label;
    this.tooltip = new Tooltip(body);
    this.axis = new TimeAxis(this.origin);
    this.minimap = new Minimap((middle) => this.moveTo(middle), () => this.redraw());
    const amount = (ns: number) => duration(BigInt(Math.round(ns)), 4);
    this.graph = new FlameGraph(this.tooltip, {
      amount,
      selected: (node) => node !== null && this.chooseName(this.graph.nameOf(node)),
    });
    this.sandwich = new Sandwich(this.tooltip, amount, (name) => (this.named = name));
    this.pens = {
      style: undefined as never,
      labels: new BoxLabels(),
      text: (box) => this.labelOf(box),
      band: 0,
      counter: { background: 0, line: 0 },
    };
    this.theme = new Theme(() => this.recolor());
    this.table = new FunctionTable(amount, (name) => this.chooseName(columns.names[name]!), [
      "own",
      "total",
      "count",
      "mean",
      "longest",
      "name",
    ]);
    this.panel = new Panel(
      [
        { id: "statistics", title: "Statistics", element: this.table.element },
        { id: "heavy", title: "Left heavy", element: this.graph.element },
        { id: "callers", title: "Callers and callees", element: this.sandwich.element },
      ],
      () => this.panelChanged(),
    );
    this.search = new SearchField(
      {
        searched: (text) => {
          this.pens.style.wanted = matching(columns, text);
          this.tree.invalidate();
          this.mapped = "";
          this.redraw();
          const { wanted } = this.pens.style;
          return wanted ? `${grouped(wanted.count)} found` : "";
        },
        next: (step) => this.nextMatch(step),
      },
      "Search names and arguments",
    );
    this.lanes = makeLanes(head.panels, columns, counters, this.pens);
    const spanLanes = this.lanes.filter((lane): lane is SpanLane => lane instanceof SpanLane);
    this.panelLanes = head.panels.map((panel) => spanLanes.find((lane) => lane.head === panel)!);
    this.filter = h("input", {
      class: "filter",
      attributes: { type: "search", placeholder: "Filter lanes", "aria-label": "Filter lanes" },
      on: { input: () => this.filterLanes() },
    });
    const keys = this.keys();
    this.help = new Help(body, keys, HANDS);
    this.build(body);
    this.tree.show(this.lanes);
    this.listen();
    listenToKeys(keys);
    this.readAddress();
    this.redraw();
  }

  private build(body: HTMLElement): void {
    const { head } = this;
    const copy = button("Copy", "Copy the command (C)", () => this.copyCommand(), { class: "small" });
    const note = head.notes.length ? h("div", { class: "notice" }, ...head.notes.map((each) => h("p", {}, each))) : null;
    if (note) note.append(button(icon("close"), "Close", () => note.remove(), { class: "bare" }));
    body.append(
      h(
        "header",
        { class: "top" },
        h("h1", {}, shown(head.title)),
        h("p", {}, head.subtitle),
        h(
          "nav",
          {},
          this.search.element,
          button("Show all", "Show all (0)", () => this.showAll(), { class: "reset" }),
          button(icon("theme"), "Light or dark (T)", () => this.theme.toggle()),
          button(icon("help"), "Keys (?)", () => this.help.toggle()),
        ),
      ),
      note ?? "",
      h("div", { class: "band map" }, h("div", { class: "gutter" }, this.lengthInView, this.filter), this.minimap.element),
      h("div", { class: "band" }, h("div", { class: "gutter" }, this.axis.base), this.axis.element),
      h("main", {}, this.tree.element),
      this.panel.element,
      h("footer", { class: "foot" }, this.command, copy, this.spoken),
    );
  }

  private readonly lengthInView = h("output", { class: "place" });

  private get window(): View {
    const from = Number(this.view.start) / Number(GRAINS);
    return { from, to: from + Number(this.view.span) / Number(GRAINS) };
  }

  private get spanLanes(): SpanLane[] {
    return this.tree.passing.filter((lane): lane is SpanLane => lane instanceof SpanLane);
  }

  private redraw(): void {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  private draw(): void {
    const width = this.tree.widthPx;
    const { view, tree } = this;
    const marks = this.axis.draw(view, width, this.range);
    tree.draw(this.window, this.pens.style.background, marks.map(({ x }) => x), this.inks.line);
    this.drawSelection(width);
    this.minimap.show(view);
    this.drawMap();
    const whole = duration(view.widthNs);
    this.lengthInView.replaceChildren(h("b", {}, duration(view.endNs - view.startNs)), view.isWhole ? "" : ` of ${whole}`);
    this.rest();
  }

  /** The minimap changes with the filter, the theme and the search only. */
  private drawMap(): void {
    const state = `${this.minimap.widthPx} ${this.filter.value} ${this.search.text} ${this.theme.dark}`;
    if (state === this.mapped) return;
    this.mapped = state;
    const lanes = this.spanLanes;
    const { wanted } = this.pens.style;
    const { boxes } = this.columns;
    this.minimap.draw(
      (from, to) => {
        let sum = 0;
        for (const lane of lanes) sum += lane.covered(from, to);
        return sum / (to - from);
      },
      wanted &&
        ((from, to) =>
          lanes.some(({ rows }) => {
            for (let row = rows.first; row < rows.last; row++) {
              const { first, last } = boxes.content(row, from, to);
              if (wanted.any(first, last)) return true;
            }
            return false;
          })),
      this.head.width,
      { background: this.pens.style.background, busy: this.inks.busy, found: this.pens.style.found },
    );
  }

  private drawSelection(width: number): void {
    const { context } = this.tree;
    const { from, to } = this.window;
    const scale = width / (to - from);
    const high = this.tree.heightPx;
    if (this.range) {
      const left = (this.range.from - from) * scale;
      const right = (this.range.to - from) * scale;
      context.globalAlpha = 6 / 11;
      context.fillStyle = css(this.pens.style.background);
      if (left > 0) context.fillRect(0, 0, Math.min(width, left), high);
      if (right < width) context.fillRect(Math.max(0, right), 0, width, high);
      context.globalAlpha = 1;
      context.fillStyle = this.inks.accent;
      context.fillRect(Math.round(left), 0, 1, high);
      context.fillRect(Math.round(right), 0, 1, high);
    }
    for (const flow of this.shownFlows) this.arrow(flow, scale);
    this.outline(this.hovered, this.inks.faint, 1, scale);
    this.outline(this.span, this.inks.accent, 2, scale);
  }

  /** An arrow from where a flow begins to where it ends: a dot and a head. */
  private arrow(flow: number, scale: number): void {
    const { flows } = this;
    const ends = [
      this.point(flows.fromPanel[flow]!, flows.fromTime[flow]!, scale),
      this.point(flows.toPanel[flow]!, flows.toTime[flow]!, scale),
    ];
    const [from, to] = ends;
    if (!from || !to) return;
    const { context } = this.tree;
    const bend = Math.max(12, Math.min(80, Math.abs(to.x - from.x) / 2));
    context.strokeStyle = context.fillStyle = this.inks.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x - 4, to.y);
    context.stroke();
    context.beginPath();
    context.arc(from.x, from.y, 2.5, 0, 2 * Math.PI);
    context.moveTo(to.x, to.y);
    context.lineTo(to.x - 6, to.y - 3.5);
    context.lineTo(to.x - 6, to.y + 3.5);
    context.fill();
  }

  /** Where an end of a flow is: on the innermost span at its time; null if its lane is not shown. */
  private point(panel: number, time: number, scale: number): { x: number; y: number } | null {
    const lane = this.panelLanes[panel];
    const top = lane && this.tree.topOf(lane);
    if (!lane || top === null || top === undefined) return null;
    return { x: (time - this.window.from) * scale, y: top + (this.rowAt(lane, time) + 0.5) * ROW_PX };
  }

  /** The innermost row of a lane with a span at a time. */
  private rowAt(lane: SpanLane, time: number): number {
    const { boxes } = this.columns;
    for (let row = lane.flame.depth - 1; row > 0; row--) {
      const box = boxes.firstVisible(lane.firstRow + row, time);
      if (box < boxes.rowStart[lane.firstRow + row + 1]! && boxes.start[box]! <= time) return row;
    }
    return 0;
  }

  /** Shows the flows of the selected span. */
  private findFlows(): void {
    this.shownFlows = [];
    const found = this.span < 0 ? null : this.laneOf(this.span);
    if (!found || !this.flows.count) return;
    const { boxes } = this.columns;
    const panels = new Set<number>();
    this.panelLanes.forEach((lane, panel) => {
      if (lane === found.lane || lane.head.thread === found.lane.head.thread) panels.add(panel);
    });
    const [from, to] = [boxes.start[this.span]!, boxes.end(this.span)];
    this.shownFlows = flowsOf(this.flows, panels, from, to).slice(0, MOST_FLOWS);
  }

  private outline(box: number, color: string, thick: number, scale: number): void {
    const found = box < 0 ? null : this.laneOf(box);
    const top = found && this.tree.topOf(found.lane);
    if (!found || top === null || found.row >= found.lane.flame.depth) return;
    const { boxes } = this.columns;
    const left = (boxes.start[box]! - this.window.from) * scale;
    const right = left + boxes.length[box]! * scale;
    const x = Math.max(-4, left);
    const wide = Math.min(this.tree.widthPx + 4, right) - x;
    if (wide < 0 || x > this.tree.widthPx) return;
    const { context } = this.tree;
    context.strokeStyle = color;
    context.lineWidth = thick;
    const y = top + found.row * ROW_PX;
    context.strokeRect(x + thick / 2, y + thick / 2, Math.max(2, wide - thick), ROW_PX - 1 - thick);
  }

  /** Once the view rests, what is below follows it. */
  private rest(): void {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.answer();
      this.writeCommand();
      this.remember();
    }, REST_MS);
  }

  /** The selected range, otherwise what is in view. */
  private get asked(): Range {
    const { from, to } = this.window;
    return this.range ?? { from: Math.max(0, from), to: Math.min(this.head.width, to) };
  }

  private answer(): void {
    const { from, to } = this.asked;
    const lanes = this.spanLanes;
    const key = [from, to, lanes.length, this.filter.value, this.panel.tab.id, this.span, this.labelField].join(" ");
    if (key === this.answered) return;
    this.answered = key;
    const statistics = new SpanRange(this.columns, threadsOf(lanes), from, to, this.scratch);
    if (this.panel.tab.id === "statistics") {
      const rows = statistics.byName();
      let whole = 0;
      for (const { own } of rows) whole += own;
      this.table.show(rows, this.columns.names, whole);
    } else {
      const tree = statistics.tree();
      if (this.panel.tab.id === "heavy") this.graph.show(tree);
      else this.sandwich.show(tree, this.named);
    }
    if (this.span >= 0) this.describe();
    else {
      const facts = describeRange({ from, to }, this.origin, statistics.count, lanes.length, this.range !== null);
      this.panel.facts.replaceChildren(...facts);
    }
  }

  private panelChanged(): void {
    // the panel is made before the rest of the page
    if (this.panel) this.rest();
  }

  private describe(): void {
    const { span, columns } = this;
    const found = this.laneOf(span);
    if (!found) return;
    const { boxes } = columns;
    const [start, length] = [boxes.start[span]!, boxes.length[span]!];
    const lanes = this.panelLanes.filter(({ head }) => head.thread === found.lane.head.thread);
    const own = found.lane.head.kind === "spans" ? threadsOf(lanes) : [[found.lane.rows]];
    const inside = new SpanRange(columns, own, start, start + length, new Scratch());
    let depth = 0;
    for (let each = columns.parent[span]!; each >= 0; each = columns.parent[each]!) depth++;
    this.panel.facts.replaceChildren(
      ...describeSpan(
        {
          name: this.nameOf(span),
          start,
          length,
          own: length ? inside.ownOf(span) : 0,
          depth,
          thread: found.lane.head.title,
          count: columns.count?.[span] ?? 1,
          isSampled: found.lane.head.kind === "samples",
          arguments: this.argumentsOf(span),
          flows: this.shownFlows.map((flow) => this.flowEnd(flow, start, start + length)),
        },
        this.origin,
        {
          used: this.labelField,
          use: (field) => {
            this.labelField = field;
            this.redraw();
          },
        },
      ),
    );
  }

  /** The other end of a flow that begins or ends in a range. */
  private flowEnd(flow: number, from: number, to: number): { text: string; go(): void } {
    const { flows, head, columns } = this;
    const leaves = flows.fromTime[flow]! >= from && flows.fromTime[flow]! <= to;
    const panel = (leaves ? flows.toPanel : flows.fromPanel)[flow]!;
    const time = (leaves ? flows.toTime : flows.fromTime)[flow]!;
    const lane = this.panelLanes[panel]!;
    return {
      text: `${leaves ? "→" : "←"} ${head.flowNames[flows.name[flow]!]!}, ${lane.title}, ${exact(this.origin + BigInt(time))}`,
      go: () => {
        const row = lane.firstRow + this.rowAt(lane, time);
        const box = columns.boxes.firstVisible(row, time);
        if (box >= columns.boxes.rowStart[row + 1]!) return;
        this.select(box);
        this.reveal(box);
      },
    };
  }

  private nameOf(span: number): string {
    return this.columns.names[this.columns.boxes.name[span]!]!;
  }

  private argumentsOf(span: number): string | null {
    const code = this.columns.argument?.[span] ?? 0;
    return code ? this.columns.texts[code - 1]! : null;
  }

  /** A span's name and, if one is chosen, the value of an argument. */
  private labelOf(span: number): string {
    const name = this.nameOf(span);
    const code = this.columns.argument?.[span] ?? 0;
    if (!code || this.labelField === null) return name;
    let parsed = this.argumentFields.get(code);
    if (!parsed) this.argumentFields.set(code, (parsed = new Map(fields(this.columns.texts[code - 1]!))));
    const value = parsed.get(this.labelField);
    return value === undefined ? name : `${name} · ${value}`;
  }

  /** The lane of a span, and its row in it. */
  private laneOf(span: number): { lane: SpanLane; row: number } | null {
    const row = this.columns.boxes.rowOf(span);
    for (const lane of this.lanes) {
      if (lane instanceof SpanLane && lane.rows.first <= row && row < lane.rows.last) {
        return { lane, row: row - lane.firstRow };
      }
    }
    return null;
  }

  private hit(x: number, y: number): number {
    const found = this.tree.at(y);
    if (!(found?.lane instanceof SpanLane)) return -1;
    return found.lane.hit(x, found.y, this.window, this.tree.widthPx);
  }

  private hover(x: number, y: number): void {
    const span = this.hit(x, y);
    if (span !== this.hovered) {
      this.hovered = span;
      this.redraw();
    }
    const lines = span < 0 ? this.counterAt(x, y) : this.tooltipOf(span, x);
    if (!lines) {
      this.tooltip.hide();
      return;
    }
    const area = this.tree.canvas.getBoundingClientRect();
    this.tooltip.show(area.left + x, area.top + y, lines);
  }

  /** The tooltip of a counter at a point; null where there is none. */
  private counterAt(x: number, y: number): Node[] | null {
    const lane = this.tree.at(y)?.lane;
    if (!(lane instanceof CounterLane)) return null;
    const { from, to } = this.window;
    const time = from + (x / this.tree.widthPx) * (to - from);
    const value = lane.at(time);
    const shownValue = Number.isNaN(value) ? "no value" : number(value);
    return [
      h("strong", {}, shown(lane.title)),
      h("p", {}, `${shownValue}, at ${exact(this.origin + BigInt(Math.floor(time)))}`),
    ];
  }

  private tooltipOf(span: number, x: number): Node[] {
    const { boxes, count } = this.columns;
    const { from, to } = this.window;
    const perPixel = (to - from) / this.tree.widthPx;
    const [start, length] = [boxes.start[span]!, boxes.length[span]!];
    const isSampled = this.laneOf(span)?.lane.head.kind === "samples";
    const lines = [
      h("strong", {}, shown(this.nameOf(span))),
      h("p", {}, `${isSampled ? "≈ " : ""}${exact(BigInt(length))}, from ${exact(this.origin + BigInt(start))}`),
    ];
    if (count && (isSampled || count[span]! > 1)) {
      lines.push(h("p", {}, `${grouped(count[span]!)} ${isSampled ? "samples" : "short spans, merged"}`));
    }
    if (length < perPixel) {
      const left = from + Math.floor(x) * perPixel;
      const pixel = boxes.content(boxes.rowOf(span), left, left + perPixel);
      const others = pixel.last - pixel.first - 1;
      const fills = `fills ${share(Math.min(1, pixel.covered / perPixel))} of this pixel`;
      lines.push(h("p", {}, others > 0 ? `the longest of ${grouped(others + 1)} spans here, which ${fills.replace("fills", "fill")}` : fills));
    }
    const text = this.argumentsOf(span);
    if (text) lines.push(h("p", { class: "muted" }, shown(text.length > 300 ? `${text.slice(0, 300)}…` : text)));
    return lines;
  }

  private select(span: number): void {
    this.span = span;
    this.answered = "";
    this.findFlows();
    if (span >= 0) {
      const { boxes } = this.columns;
      this.spoken.textContent = `${this.nameOf(span)}, ${exact(BigInt(boxes.length[span]!))}`;
      this.named = this.nameOf(span);
    }
    this.redraw();
  }

  /** Makes a span visible: its lane, its row and its time. */
  private reveal(span: number): void {
    const found = this.laneOf(span);
    if (!found) return;
    if (found.row >= found.lane.flame.depth) {
      found.lane.open = true;
      this.tree.arrange();
    }
    this.tree.reveal(found.lane, found.row * ROW_PX, ROW_PX);
    const { boxes } = this.columns;
    const { from, to } = this.window;
    const [start, end] = [boxes.start[span]!, boxes.end(span)];
    const perPixel = (to - from) / Math.max(1, this.tree.widthPx);
    if (start < from || end > to || end - start < 3 * perPixel) this.fit(start, end, 4);
    this.redraw();
  }

  /** Shows a range, with so many times its length around it. */
  private fit(from: number, to: number, around: number): void {
    const margin = ((to - from) * around) / 2;
    this.view.show(BigInt(Math.floor(from - margin)), BigInt(Math.ceil(to + margin)));
    this.redraw();
  }

  private fitSelection(): void {
    const { boxes } = this.columns;
    if (this.range) this.fit(this.range.from, this.range.to, 0);
    else if (this.span >= 0) this.fit(boxes.start[this.span]!, boxes.end(this.span), 0.1);
  }

  private showAll(): void {
    this.view.reset();
    this.redraw();
  }

  private moveTo(middle: number): void {
    const { view } = this;
    const half = view.span / 2n;
    const start = BigInt(Math.round(middle * Number(view.widthNs * GRAINS))) - half;
    view.pan(Number(start - view.start) / Number(view.span));
    this.redraw();
  }

  private nextMatch(step: 1 | -1): number {
    const { wanted } = this.pens.style;
    if (!wanted) return 0;
    const { box, rank } = nextMatch(this.columns, wanted, this.span, step);
    if (box < 0) return 0;
    this.select(box);
    this.reveal(box);
    return rank;
  }

  /** Goes to the next or the previous span in the row of the selected one, or to its caller or first callee. */
  private step(key: string): void {
    const { boxes, parent } = this.columns;
    let to = this.span;
    if (to < 0) {
      const first = this.spanLanes[0];
      to = first ? boxes.firstVisible(first.firstRow, this.window.from) : -1;
      if (to < 0 || to >= boxes.count) return;
    } else {
      const row = boxes.rowOf(to);
      const [low, high] = [boxes.rowStart[row]!, boxes.rowStart[row + 1]! - 1];
      if (key === "ArrowLeft") to = Math.max(low, to - 1);
      else if (key === "ArrowRight") to = Math.min(high, to + 1);
      else if (key === "ArrowUp") to = parent[to]! < 0 ? to : parent[to]!;
      else if (row + 1 < boxes.rows) {
        const below = boxes.firstVisible(row + 1, boxes.start[to]!);
        if (below < boxes.rowStart[row + 2]! && parent[below] === to) to = below;
      }
    }
    this.select(to);
    this.reveal(to);
  }

  private chooseName(name: string): void {
    this.named = name;
    this.search.text = `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
  }

  private filterLanes(): void {
    const text = this.filter.value.toLowerCase();
    this.tree.filtered((lane) =>
      (lane instanceof SpanLane ? lane.head.title : lane.title).toLowerCase().includes(text),
    );
    this.answered = "";
    this.redraw();
  }

  private recolor(): void {
    this.pens.style = flameStyle(this.columns.names, this.pens.style);
    this.pens.band = pixelOf(themeColor("--chrome"));
    this.inks = {
      line: pixelOf(themeColor("--line")),
      busy: pixelOf(themeColor("--faint")),
      faint: themeColor("--faint"),
      accent: themeColor("--accent"),
      accentPixel: pixelOf(themeColor("--accent")),
    };
    this.pens.counter.background = this.pens.style.background;
    this.pens.counter.line = this.inks.accentPixel;
    this.tree.invalidate();
    this.graph.recolor();
    this.sandwich.recolor();
    this.redraw();
  }

  private listen(): void {
    const { tree, view } = this;
    const ratio = (x: number) => x / Math.max(1, tree.widthPx);
    listenToHands(tree.canvas, {
      zoom: (factor, x) => {
        view.zoom(factor, ratio(x));
        this.moved();
      },
      pan: (dx, dy) => {
        view.pan(-dx / Math.max(1, tree.widthPx));
        if (dy) tree.scrollBy(-dy);
        this.moved();
      },
      scroll: (dy) => tree.scrollBy(dy),
      click: (x, y) => {
        const span = this.hit(x, y);
        if (span < 0) this.range = null;
        this.select(span);
      },
      doubleClick: (x, y) => {
        const span = this.hit(x, y);
        if (span < 0) return;
        const { boxes } = this.columns;
        this.fit(boxes.start[span]!, boxes.end(span), 0.1);
      },
      range: (from, to, done) => {
        const { from: left, to: right } = this.window;
        const time = (x: number) =>
          Math.round(Math.max(0, Math.min(this.head.width, left + ratio(x) * (right - left))));
        this.range = { from: Math.min(time(from), time(to)), to: Math.max(time(from), time(to)) };
        if (this.range.to === this.range.from) this.range = null;
        if (done) this.select(-1);
        this.moved();
      },
      hover: (x, y) => this.hover(x, y),
      leave: () => {
        this.hovered = -1;
        this.tooltip.hide();
        this.redraw();
      },
    });
  }

  private moved(): void {
    this.tooltip.hide();
    this.redraw();
  }

  private keys(): Key[] {
    const zoom = (factor: number) => {
      this.view.zoom(factor, 0.5);
      this.moved();
    };
    const pan = (part: number) => {
      this.view.pan(part);
      this.moved();
    };
    const tab = (id: string) => this.panel.choose(id);
    return [
      { keys: ["w", "+", "="], label: "W", help: "zoom in", action: () => zoom(0.8) },
      { keys: ["s", "-"], label: "S", help: "zoom out", action: () => zoom(1.25) },
      { keys: ["a"], label: "A", help: "to the left", action: () => pan(-0.2) },
      { keys: ["d"], label: "D", help: "to the right", action: () => pan(0.2) },
      {
        keys: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"],
        label: "← → ↑ ↓",
        help: "previous or next span, its caller, its first callee",
        action: (key) => this.step(key),
      },
      { keys: ["f"], label: "F", help: "fit the selection", action: () => this.fitSelection() },
      { keys: ["0"], help: "show all", action: () => this.showAll() },
      { keys: ["/"], help: "search", action: () => this.search.focus() },
      { keys: ["n"], label: "N", help: "next match", action: () => this.search.go(1) },
      { keys: ["p"], label: "P", help: "previous match", action: () => this.search.go(-1) },
      { keys: [" "], label: "Space", help: "open or close the lane of the selection", action: () => this.toggleLane() },
      { keys: ["Escape"], help: "clear the selection, then show all", action: () => this.clear() },
      { keys: ["Shift+!", "!"], label: "Shift + 1", help: "statistics", action: () => tab("statistics") },
      { keys: ["Shift+@", "@", '"'], label: "Shift + 2", help: "left heavy", action: () => tab("heavy") },
      { keys: ["Shift+#", "#", "§"], label: "Shift + 3", help: "callers and callees", action: () => tab("callers") },
      { keys: ["c"], label: "C", help: "copy the command", action: () => this.copyCommand() },
      { keys: ["l"], label: "L", help: "copy the link", action: () => void navigator.clipboard?.writeText(location.href) },
      { keys: ["t"], label: "T", help: "light or dark", action: () => this.theme.toggle() },
      { keys: ["?"], help: "this list", action: () => this.help.toggle() },
    ];
  }

  private clear(): void {
    if (this.range || this.span >= 0) {
      this.range = null;
      this.select(-1);
    } else this.showAll();
  }

  private toggleLane(): void {
    const found = this.span < 0 ? null : this.laneOf(this.span);
    if (found?.lane.opens) this.tree.toggle(found.lane);
  }

  private writeCommand(): void {
    const { from, to } = this.asked;
    const time = (ns: number) => exact(this.origin + BigInt(Math.round(ns))).replace(" ", "").replace("μ", "u");
    const isWhole = from <= 0 && to >= this.head.width;
    const range = isWhole ? "" : ` --from ${time(from)} --to ${time(to)}`;
    const file = /^[\w./-]+$/.test(this.head.source) ? this.head.source : `'${this.head.source.replaceAll("'", "'\\''")}'`;
    this.command.textContent = `meantime flame ${file} --chart${range} -o chart.svg`;
  }

  private copyCommand(): void {
    void navigator.clipboard?.writeText(this.command.textContent ?? "");
  }

  private remember(): void {
    const { view, range } = this;
    const time = (ns: bigint | number) => String(this.origin + BigInt(ns));
    writeAddress({
      t: view.isWhole ? null : `${time(view.startNs)}..${time(view.endNs)}`,
      range: range && `${time(range.from)}..${time(range.to)}`,
      span: this.span < 0 ? null : String(this.span),
      q: this.search.text,
      lanes: this.filter.value,
      tab: this.panel.tab.id === "statistics" ? null : this.panel.tab.id,
      label: this.labelField === this.head.label ? null : (this.labelField ?? ""),
    });
  }

  private readAddress(): void {
    const address = readAddress();
    const times = (text: string | null): [bigint, bigint] | null => {
      const found = /^(-?\d{1,19})\.\.(-?\d{1,19})$/.exec(text ?? "");
      if (!found) return null;
      const [from, to] = [BigInt(found[1]!) - this.origin, BigInt(found[2]!) - this.origin];
      return from < to ? [from, to] : null;
    };
    const inView = times(address.get("t"));
    if (inView) this.view.show(...inView);
    const range = times(address.get("range"));
    if (range) this.range = { from: Math.max(0, Number(range[0])), to: Math.min(this.head.width, Number(range[1])) };
    const span = Number(address.get("span") ?? NaN);
    if (Number.isInteger(span) && span >= 0 && span < this.columns.boxes.count) this.select(span);
    this.labelField = address.get("label") ?? this.labelField;
    this.filter.value = address.get("lanes") ?? "";
    if (this.filter.value) this.filterLanes();
    this.search.text = address.get("q") ?? "";
    const tab = address.get("tab");
    if (tab) this.panel.choose(tab);
  }
}

const HANDS = [
  { what: "wheel", help: "zoom at the pointer" },
  { what: "Shift + wheel", help: "scroll the lanes" },
  { what: "drag", help: "move" },
  { what: "Shift + drag", help: "select a range" },
  { what: "click", help: "select a span" },
  { what: "double click", help: "fit a span" },
  { what: "drag in the band above", help: "move the part in view" },
];
