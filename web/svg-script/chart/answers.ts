/** The panel below a chart: what is selected, and the statistics of a range. */

import { button, h } from "../../shared/dom";
import { download } from "../../shared/download";
import { FlameGraph } from "../../shared/flame-graph";
import { duration, exact } from "../../shared/format";
import { FunctionTable } from "../../shared/function-table";
import { LibraryFold } from "../../shared/library-fold";
import { Panel } from "../../shared/panel";
import { addGrip } from "../../shared/panel-grip";
import { Sandwich } from "../../shared/sandwich";
import { Scratch, SpanRange } from "../../shared/span-statistics";
import type { Tooltip } from "../../shared/tooltip";
import { describeRange, describeSpan } from "./details";
import { threadsOf } from "./lanes";
import type { Session } from "./session";

export class Answers {
  readonly panel: Panel;
  private readonly facts = h("div", { class: "facts" });
  private readonly graph: FlameGraph;
  private readonly sandwich: Sandwich;
  private readonly table: FunctionTable;
  private readonly scratch = new Scratch();
  private readonly fold = new LibraryFold(false, () => {
    this.invalidate();
    this.answer();
  });
  private answered = "";

  /**
   * @param named Called with the name of a function that was selected.
   * @param changed Called when another tab is chosen, or other labels.
   */
  constructor(
    private readonly session: Session,
    tooltip: Tooltip,
    named: (name: string) => void,
    private readonly changed: () => void,
  ) {
    const amount = (ns: number) => duration(BigInt(Math.round(ns)), 4);
    const { names } = session.columns;
    this.graph = new FlameGraph(tooltip, {
      amount,
      selected: (node) => node !== null && named(this.graph.nameOf(node)),
    });
    this.sandwich = new Sandwich(tooltip, amount, (name) => (session.named = name));
    const columns = ["own", "total", "count", "mean", "longest", "name"] as const;
    this.table = new FunctionTable(amount, (name) => named(names[name]!), columns);
    this.panel = new Panel(
      this.facts,
      [
        { id: "statistics", label: "Statistics", key: "Shift+1", content: this.table.element },
        { id: "heavy", label: "Left heavy", key: "Shift+2", content: this.graph.element },
        { id: "callers", label: "Callers and callees", key: "Shift+3", content: this.sandwich.element },
      ],
      h("span", { class: "tools" }, this.fold.button, button("Save CSV", "Save the statistics as CSV (e)", () => this.save(), { class: "small" })),
      changed,
    );
    addGrip(this.panel.element);
  }

  recolor(): void {
    this.graph.recolor();
    this.sandwich.recolor();
  }

  /** Saves the statistics of the selection, or of what is in view, with exact times. */
  save(): void {
    const { session } = this;
    const { from, to } = session.asked;
    const { names } = session.columns;
    const rows = new SpanRange(session.columns, threadsOf(session.spanLanes), from, to, new Scratch()).byName();
    rows.sort((a, b) => b.own - a.own || (names[a.name]! < names[b.name]! ? -1 : 1));
    const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
    const lines = rows.map(({ name, count, own, total, longest }) => [quote(names[name]!), count, own, total, longest].join(","));
    const text = ["name,count,self_ns,total_ns,longest_ns", ...lines, ""].join("\n");
    download("statistics.csv", new Blob([text], { type: "text/csv" }));
  }

  /** Answers again even if it is about the same range. */
  invalidate(): void {
    this.answered = "";
  }

  /** Shows the answers about the selection, or about what is in view. */
  answer(): void {
    const { session } = this;
    const { from, to } = session.asked;
    const lanes = session.spanLanes;
    const key = [from, to, session.tree.marks.hidden, lanes.length, this.panel.tab, session.span, session.labelField].join(" ");
    if (key === this.answered) return;
    this.answered = key;
    const statistics = new SpanRange(session.columns, threadsOf(lanes), from, to, this.scratch);
    if (this.panel.tab === "statistics") {
      const rows = statistics.byName();
      let whole = 0;
      for (const { own } of rows) whole += own;
      this.table.show(rows, session.columns.names, whole);
    } else {
      const tree = this.fold.of(statistics.tree());
      if (this.panel.tab === "heavy") this.graph.show(tree);
      else this.sandwich.show(tree, session.named);
    }
    if (session.span >= 0) this.describe();
    else {
      const facts = describeRange({ from, to }, session.origin, statistics.count, lanes.length, session.range !== null);
      this.facts.replaceChildren(...facts);
    }
  }

  private describe(): void {
    const { session } = this;
    const { span, columns } = session;
    const found = session.laneOf(span);
    if (!found) return;
    const { boxes } = columns;
    const [start, length] = [boxes.start[span]!, boxes.length[span]!];
    const lanes = session.panelLanes.filter(({ head }) => head.thread === found.lane.head.thread);
    const own = found.lane.head.kind === "spans" ? threadsOf(lanes) : [[found.lane.rows]];
    const inside = new SpanRange(columns, own, start, start + length, new Scratch());
    let depth = 0;
    for (let each = columns.parent[span]!; each >= 0; each = columns.parent[each]!) depth++;
    this.facts.replaceChildren(
      ...describeSpan(
        {
          name: session.nameOf(span),
          start,
          length,
          own: length ? inside.ownOf(span) : 0,
          depth,
          thread: found.lane.head.title,
          count: columns.count?.[span] ?? 1,
          isSampled: found.lane.head.kind === "samples",
          arguments: session.argumentsOf(span),
          flows: session.shownFlows.map((flow) => this.flowEnd(flow, start, start + length)),
        },
        session.origin,
        {
          used: session.labelField,
          use: (field) => {
            session.labelField = field;
            this.changed();
          },
        },
      ),
    );
  }

  /** The other end of a flow that begins or ends in a range. */
  private flowEnd(flow: number, from: number, to: number): { text: string; go(): void } {
    const { session } = this;
    const { flows, head, columns } = session;
    const leaves = flows.fromTime[flow]! >= from && flows.fromTime[flow]! <= to;
    const panel = (leaves ? flows.toPanel : flows.fromPanel)[flow]!;
    const time = (leaves ? flows.toTime : flows.fromTime)[flow]!;
    const lane = session.panelLanes[panel]!;
    return {
      text: `${leaves ? "→" : "←"} ${head.flowNames[flows.name[flow]!]!}, ${lane.title}, ${exact(session.origin + BigInt(time))}`,
      go: () => {
        const row = lane.firstRow + session.rowAt(lane, time);
        const box = columns.boxes.firstVisible(row, time);
        if (box >= columns.boxes.rowStart[row + 1]!) return;
        session.select(box);
        session.reveal(box);
      },
    };
  }
}
