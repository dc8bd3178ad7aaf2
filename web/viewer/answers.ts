/** The panel: facts of the selection in the gutter, and answers about the range in tabs. */

import { withoutAddresses } from "../shared/addresses";
import { below } from "../shared/call-tree";
import type { CallTree } from "../shared/call-tree";
import { button, h, name, nameOrNone, replaceContent, setText, shown } from "../shared/dom";
import { FlameGraph } from "../shared/flame-graph";
import { LibraryFold } from "../shared/library-fold";
import { duration, grouped, instant } from "../shared/format";
import { css } from "../shared/name-colors";
import { number } from "../shared/counter-lane";
import { openByKeys } from "../shared/keys";
import { Panel } from "../shared/panel";
import { addGrip } from "../shared/panel-grip";
import { Sandwich } from "../shared/sandwich";
import type { Tooltip } from "../shared/tooltip";
import { plain } from "../shared/heat-model";
import { ComparisonTab } from "./comparison-tab";
import { command, diffCommand, input, isWhole, laneOptions, quoted } from "./command";
import { describeRange, describeThing, subject, withTimes } from "./facts";
import { HeatTab } from "./heat-tab";
import { HitsTab } from "./hits-tab";
import { GroupLane, PackedLane, StateLane, TileLane } from "./lanes";
import { OF_SAMPLES, OF_SPANS, OF_STATES, OTHER } from "./model";
import type { FileModel } from "./model";
import { MomentTab } from "./moment-tab";
import type { Conclusion, Counted, Finding, Hit, Placed, StatisticsRow, Summary } from "./protocol";
import { Notes } from "./notes";
import { RequestsTab, hasRequests } from "./requests-tab";
import type { Search } from "./search";
import type { Range, Session, Thing } from "./session";
import { SelectionTab } from "./selection-tab";
import { SqlTab } from "./sql-tab";
import { SourceError } from "./source";
import { loadsOf } from "./sparklines";
import { StatTable } from "./stat-table";
import type { Part } from "./stat-table";
import { WhyTab, isScheduled } from "./why-tab";

export type By = "state" | "entity" | "name" | "category" | "thread" | "request" | "function" | "site" | "service" | "operation";
/** What is counted of a file that has both. */
const KINDS: [Counted, string][] = [["spans", "spans"], ["samples", "samples"]];

export type FlameMode = "heavy" | "callers";

const FLAMES = new Set([...OF_SPANS, ...OF_SAMPLES]);
const BYS: By[] = ["state", "entity", "name", "category", "thread"];
/** More groupings than these are in a menu. */
const MOST_SEGMENTS = 4;
const MOST_LEGEND = 14;
const NOTHING = "Nothing is in this range. Select a longer one, or press 0 to see the whole trace.";
/** What stands out in a file that grows is looked for this often. */
const FIND_MS = 10_000;

export interface Actions {
  /** Lights a name in all lanes; null none. */
  light(name: string | null): void;
  /** Goes to the worst place of a finding. */
  goTo(file: FileModel, place: Placed): void;
  /** Selects a thing and shows where it is. */
  select(file: FileModel, hit: Hit): void;
  /** Selects what is at a time of a row. */
  goToEnd(file: FileModel, lane: number, row: number, ns: bigint): void;
  /** Goes to the longest of a name. */
  longest(name: string): void;
  /** A file has been searched for what stands out: all of it was read. */
  examined(): void;
  /** Shows the lane that has a name, about which the answers are then. */
  showLane(lane: TileLane): void;
  /** Selects a hit and shows it as large as the page. */
  fit(file: FileModel, hit: Hit): void;
  /** Searches again, in another order or in other lanes. */
  searchAgain(): void;
  say(text: string): void;
}

export class Answers {
  readonly panel: Panel;
  by: By | null = null;
  private readonly facts = h("aside", { class: "facts", attributes: { "aria-label": "Facts", tabindex: "0" } });
  private readonly overview = h("div", { class: "overview" });
  private readonly table: StatTable;
  private readonly graph: FlameGraph;
  private readonly sandwich: Sandwich;
  private readonly flame: HTMLElement;
  readonly heat: HeatTab;
  readonly notes: Notes;
  private readonly moment: MomentTab;
  private readonly why: WhyTab;
  private readonly requests: RequestsTab;
  private readonly selection: SelectionTab;
  readonly hits: HitsTab;
  readonly sql: SqlTab | null;
  /** What changed between two runs, if the page compares some. */
  private readonly comparison: ComparisonTab | null;
  private readonly tools = h("span", { class: "tools" });
  /** What the facts are about. */
  private readonly about = h("h2", { class: "about" });
  mode: FlameMode = "heavy";
  /** What flame graphs and statistics by name count of a file that has spans and samples; null for what its own tool shows. */
  of: Counted | null = null;
  /** What was counted last. */
  private counted: Counted = "spans";
  /** Folded at first: own code would be far down in a panel. */
  readonly fold = new LibraryFold(true, () => {
    this.showTree();
    // another command prints them
    this.redo();
  });
  private tree: CallTree | null = null;
  private flameUnit = "ns";
  /** What is before amounts that are estimates. */
  private flameSign = "";
  /** As a regular expression. */
  private searched = "";
  private answered = "";
  private described: Thing | null = null;
  private request: AbortController | null = null;
  /** What happened in the range, and the range, file and version that it is of. */
  private summary: { of: string; found: Summary } | null = null;
  private summing = "";
  /** In how many files it is being looked for what stands out. */
  private finding = 0;
  /** Settles once the present question is answered. */
  answering: Promise<void> = Promise.resolve();
  /** The command that prints what is shown. */
  command: string | null = null;

  constructor(
    private readonly session: Session,
    private readonly search: Search,
    tooltip: Tooltip,
    private readonly actions: Actions,
    private readonly changed: () => void,
  ) {
    this.table = new StatTable(
      { color: (row, by) => this.rowColor(row, by), parts: (row) => this.partsOf(row), chosen: (row, by) => this.choiceOf(row, by) },
      session.source.missing !== null,
    );
    const amount = (value: number) => this.flameSign + (this.flameUnit === "ns" ? duration(BigInt(Math.round(value))) : `${grouped(value)} ${this.flameUnit}`);
    this.graph = new FlameGraph(tooltip, { amount, selected: (node) => node !== null && actions.light(this.graph.nameOf(node)) });
    this.sandwich = new Sandwich(tooltip, amount, () => {});
    this.flame = h("div", { class: "flame-tab" }, this.graph.element, this.sandwich.element);
    this.heat = new HeatTab(session, tooltip, () => {
      this.invalidate();
      changed();
    });
    this.notes = new Notes(session, changed);
    this.moment = new MomentTab(session, { goTo: (file, hit) => actions.select(file, hit), light: (each) => actions.light(each) });
    this.selection = new SelectionTab(session, {
      select: (file, hit) => actions.select(file, hit),
      goToEnd: (...end) => actions.goToEnd(...end),
      light: (each) => actions.light(each),
      openFlame: () => this.panel.open("flame"),
    });
    this.hits = new HitsTab(session, search, { select: (file, hit) => actions.fit(file, hit), changed: () => actions.searchAgain(), say: (text) => actions.say(text) });
    this.why = new WhyTab(session, { goToEnd: (...end) => actions.goToEnd(...end), changed: () => this.redo() });
    this.requests = new RequestsTab(session, { fit: (file, hit) => actions.fit(file, hit), select: (file, hit) => actions.select(file, hit) });
    this.sql = session.info.sql ? new SqlTab(session, () => this.redo()) : null;
    const { differences } = session;
    this.comparison = differences && new ComparisonTab(session, differences, { select: (file, hit) => actions.select(file, hit), light: (each) => actions.light(each) });
    this.panel = new Panel(
      this.facts,
      [
        ...(this.comparison ? [{ id: "changes", label: "What changed", key: "X", content: this.comparison.element }] : []),
        { id: "over", label: "What stands out", key: "Shift + 1", content: this.overview },
        { id: "requests", label: "Requests", key: "R", content: this.requests.element },
        { id: "thing", label: "Selection", key: "I", content: this.selection.element },
        { id: "stats", label: "Statistics", key: "Shift + 2", content: this.table.element },
        { id: "flame", label: "Flame graph", key: "Shift + 3", content: this.flame },
        { id: "heat", label: "Heat map", key: "Shift + 4", content: this.heat.element },
        { id: "hits", label: "Search", key: "Shift + 5", content: this.hits.element },
        { id: "moment", label: "At a moment", key: "K", content: this.moment.element },
        { id: "why", label: "Why", key: "Y", content: this.why.element },
        { id: "notes", label: "Notes", key: "M", content: this.notes.element },
        ...(this.sql ? [{ id: "sql", label: "SQL", key: "Q", content: this.sql.element }] : []),
      ],
      this.tools,
      () => {
        this.invalidate();
        changed();
      },
    );
    this.panel.element.querySelector(".panel-head")!.prepend(this.about);
    addGrip(this.panel.element);
  }

  invalidate(): void {
    this.answered = "";
  }

  /** Opens the tab of the selection in place of what stands out, and leaves it with the selection. */
  follow(thing: Thing | null): void {
    const { tab } = this.panel;
    if (thing && (tab === "over" || (tab === "hits" && this.hits.isOffered))) this.panel.open("thing");
    else if (!thing && tab === "thing") this.panel.open(this.session.firstTab);
  }

  /** Opens the tab of what is searched in place of what stands out or is selected; it goes with the search unless it was used. */
  offerHits(isSearch: boolean): void {
    const { tab } = this.panel;
    if (isSearch && (tab === "over" || tab === "thing")) {
      this.panel.open("hits");
      this.hits.isOffered = true;
    } else if (!isSearch && tab === "hits" && this.hits.isOffered) this.panel.open(this.session.thing ? "thing" : this.session.firstTab);
  }

  /** Shows what was found. */
  drawHits(): void {
    const { count, isAny, isKnown } = this.search;
    this.panel.count("hits", isAny && isKnown ? grouped(count) : "");
    if (this.panel.tab === "hits") this.redo();
  }

  /** Shows what is around the selected thing, once that is known. */
  drawSelection(): void {
    this.selection.draw();
  }

  recolor(): void {
    this.graph.recolor();
    this.sandwich.recolor();
    this.table.draw();
    this.heat.draw();
    this.moment.draw();
    this.why.draw();
    this.requests.draw();
    this.selection.draw();
    this.comparison?.draw();
    this.invalidate();
  }

  /** Lights the functions of the flame graph that contain a text. */
  lightFunctions(text: string): void {
    this.searched = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    this.graph.search(this.searched);
  }

  /** Whether what is shown is what was asked for last, with what stands out. */
  get isSettled(): boolean {
    return this.finding === 0 && (this.answered !== "" || !this.session.file?.table);
  }

  /** What is lit in the table. */
  set lit(text: string | null) {
    this.table.lit = text;
    this.table.draw();
  }

  /** The kinds of statistics that a file has, or one of its lanes. */
  private bysOf(file: FileModel, lane: number | undefined): By[] {
    const { spans, samples } = file.info.counts;
    const index = lane ?? null;
    const hasStates = file.has(OF_STATES, index);
    const hasSpans = (spans ?? 0) > 0 && file.has(OF_SPANS, index);
    const hasSamples = (samples ?? 0) > 0 && file.has(OF_SAMPLES, index);
    const { isEmbedded } = this.session.source;
    // a page without a server knows neither categories nor threads, and no groups
    const known = isEmbedded ? BYS.slice(0, 3) : BYS;
    const groupings = isEmbedded || index !== null ? [] : (file.info.groupings as By[]);
    return [...known.filter((by) => (by === "state" || by === "entity" ? hasStates : by === "name" ? hasSpans || hasSamples : hasSpans)), ...groupings];
  }

  /** Whether a file, or one of its lanes, has spans and samples. */
  private hasBoth(file: FileModel, lane: number | undefined): boolean {
    const { spans, samples } = file.info.counts;
    const index = lane ?? null;
    return (spans ?? 0) > 0 && (samples ?? 0) > 0 && file.has(OF_SPANS, index) && file.has(OF_SAMPLES, index);
  }

  /** What to ask for and the option of a command, where there are both. */
  private counting(file: FileModel, lane: number | undefined): { of?: Counted } {
    return this.of && this.hasBoth(file, lane) ? { of: this.of } : {};
  }

  /** What chooses between spans and samples. */
  private kinds(): HTMLElement {
    return segments(KINDS, this.counted, (each) => {
      this.of = each as Counted;
      this.redo();
    });
  }

  private byOf(file: FileModel, lane: number | undefined): By | null {
    const bys = this.bysOf(file, lane);
    return this.by && bys.includes(this.by) ? this.by : (bys[0] ?? null);
  }

  /** The lane to which the answers are restricted; null for all. */
  get lane(): TileLane | null {
    const { current } = this.session.tree;
    return current instanceof TileLane ? current : null;
  }

  /** Asks for what the open tab shows of the selection, if that has changed. */
  answer(): void {
    this.describe();
    const { session } = this;
    for (const each of session.files) void this.find(each);
    const { file } = session;
    if (!file?.table) return;
    this.panel.offer("why", session.files.some(isScheduled));
    this.panel.offer("requests", session.files.some(hasRequests));
    const { tab } = this.panel;
    const { from, to } = session.asked;
    void this.summarize(file, from, to);
    const lane = this.lane;
    const ofFile = lane && lane.file === file ? lane : null;
    // what was found is of the whole, and stays where it is while one zooms
    const about = tab === "hits" ? [thingKey(session.thing)] : tab === "requests" ? [session.range?.from, session.range?.to] : [from, to];
    const key = [tab, file.index, file.info.version, file.info.offset_ns, ...about, this.by, this.mode, this.of, ofFile?.key, tab === "moment" ? session.moment : "", tab === "thing" || tab === "flame" || tab === "requests" ? thingKey(session.thing) : "", tab === "why" ? this.why.ask(file) : "", tab === "stats" && session.base ? `${session.base.from} ${session.base.to}` : "", tab === "heat" ? `${this.heat.periodNs} ${this.heat.rows} ${session.view.start} ${session.view.span}` : ""].join(" ");
    if (tab === "heat") this.heat.draw();
    if (key === this.answered) return;
    this.answered = key;
    this.drawTools(file, ofFile);
    this.request?.abort();
    this.request = new AbortController();
    const range = { file: file.index, layout: file.table.layout, from: session.inFile(file, from), to: session.inFile(file, to), lanes: ofFile?.index };
    const { signal } = this.request;
    const body = this.panel.element.querySelector(".panel-body")!;
    body.setAttribute("aria-busy", "true");
    body.removeAttribute("data-share");
    const isDone = () => {
      if (signal === this.request?.signal) body.setAttribute("aria-busy", "false");
    };
    this.answering = this.ask(tab, file, range, signal).then(isDone, (reason: unknown) => {
      isDone();
      if (reason instanceof DOMException && reason.name === "AbortError") return;
      if (reason instanceof SourceError && reason.status === 410) return;
      if (!(reason instanceof SourceError)) throw reason;
      this.fail(tab, reason.message);
    });
  }

  /** Asks what loops and requests did in the range. */
  private async summarize(file: FileModel, from: bigint, to: bigint): Promise<void> {
    const { handle, layout } = file.table!;
    if (!file.info.groupings.includes("request") && !handle.some((each) => each?.startsWith("Loops/"))) {
      this.summary = null;
      return;
    }
    const of = `${file.index} ${file.info.version} ${file.offsetNs} ${from} ${to}`;
    if (of === this.summing) return;
    this.summing = of;
    const [start, end] = [this.session.inFile(file, from), this.session.inFile(file, to)];
    if (start >= end) return;
    try {
      const found = await this.session.source.ask("summary", { file: file.index, layout, from: start, to: end });
      if (of !== this.summing) return;
      this.summary = { of, found };
    } catch (reason) {
      // lanes that have other numbers now are asked about again
      if (!(reason instanceof SourceError)) throw reason;
    }
    this.changed();
  }

  /** Shows how far an answer is that takes a while. */
  private readonly onShare = (share: number): void => {
    this.panel.element.querySelector(".panel-body")!.setAttribute("data-share", `${Math.floor(share * 100)} %`);
  };

  private async ask(tab: string, file: FileModel, range: { file: number; layout: number; from: bigint; to: bigint; lanes: number | undefined }, signal: AbortSignal): Promise<void> {
    const { session } = this;
    const isEmpty = range.from >= range.to;
    if (tab === "over") await this.showOverview(file, range, signal);
    else if (tab === "hits") {
      this.command = null;
      this.hits.draw();
      this.changed();
    }
    else if (tab === "changes") await this.showChanges();
    else if (tab === "thing") {
      const read = input(file);
      const { thing } = session;
      this.command = !thing || read === null ? null : `meantime query ${read} ${spanHandle(thing) ?? quoted(thing.at?.handle ?? "")}`;
      this.selection.draw();
      this.changed();
    }
    else if (tab === "stats") {
      const by = this.byOf(file, range.lanes);
      if (!by || isEmpty) return this.fail(tab, NOTHING);
      const counting = by === "name" ? this.counting(file, range.lanes) : {};
      const found = await session.source.ask("statistics", { ...range, by, ...counting }, signal, this.onShare);
      const { base } = session;
      const before = base && { ...range, from: session.inFile(file, base.from), to: session.inFile(file, base.to) };
      const compared = before && before.from < before.to ? await session.source.ask("statistics", { ...before, by, ...counting }, signal) : null;
      this.counts(found.of, file, range.lanes);
      this.setCommand(file, range.lanes, "stats", ` --by ${by}${counting.of ? ` --${counting.of}` : ""}`);
      this.table.show(found, compared);
      if (by !== "state" || compared || found.estimated) return;
      const kinds = new Set(found.rows.map(({ kind }) => kind ?? ""));
      const loads = await loadsOf(session.source, file, kinds, range.lanes, range.from, range.to, signal);
      if (!signal.aborted && loads.size) this.table.showLoads(loads);
    } else if (tab === "flame") {
      const counting = this.counting(file, range.lanes);
      const option = counting.of ? ` --${counting.of}` : "";
      const { thing } = this;
      // its callers are known with the rest that is around it
      if (thing && !thing.context) return;
      const asked = thing ? { ...range, from: thing.startNs, to: thing.endNs, lanes: thing.lane.index } : range;
      const found = asked.from >= asked.to ? null : await session.source.ask("flame", { ...asked, ...counting }, signal);
      this.counts(found?.of, file, range.lanes);
      // functions whose libraries are folded are in no table of a command
      const part = thing && ([thing.startNs, thing.endNs] as const);
      if (found?.parent.length && this.mode === "callers" && !this.fold.isOn) this.setCommand(file, asked.lanes, "stats", ` --by name${option}`, part);
      else if (found?.parent.length) this.setCommand(file, asked.lanes, "flame", `${option} -o flame.svg`, part);
      else if (range.lanes !== undefined && !file.has(FLAMES, range.lanes)) return this.fail("flame", `The lane ${file.titleOf(range.lanes)} has neither spans nor samples. Press Esc for all lanes.`);
      else return this.fail("flame", file.info.counts.spans || file.info.counts.samples ? "Neither spans nor samples with stacks are in this range. Select a longer one, or press 0." : "A flame graph needs spans or samples; this trace has neither.");
      this.flameUnit = found.unit;
      const isSampled = found.unit === "ns" && found.of === "samples";
      this.flameSign = isSampled || session.source.missing !== null ? "≈ " : "";
      this.tree = {
        names: found.names,
        parent: Int32Array.from(found.parent),
        name: Int32Array.from(found.name),
        value: Float64Array.from(found.total),
        own: Float64Array.from(found.self),
        count: Float64Array.from(found.count),
      };
      if (thing) this.tree = below(this.tree, [...thing.context!.callers, thing].map((each) => withoutAddresses(each.name)));
      this.clearFailure();
      this.showTree();
    } else if (tab === "heat") {
      const period = this.heat.periodFor(range.to - range.from);
      // of states the most important lane, as all lanes together are in some state nearly always
      const { mainLane } = session;
      const isOfStates = !file.info.counts.spans && !file.info.counts.samples;
      if (range.lanes === undefined && isOfStates && mainLane?.file === file) {
        range.lanes = mainLane.index;
      }
      if (isEmpty) return this.fail(tab, NOTHING);
      const found = await session.source.ask("heat", { ...range, period, rows: this.heat.rows }, signal);
      const states = (found.states ?? []).map((each) => ` --state ${quoted(each)}`).join("");
      this.setCommand(file, range.lanes, "heatmap", `${states} --period ${plain(period)} --rows ${found.rows} --origin abs:${found.origin_ns}ns -o heatmap.svg`);
      this.heat.show(found, file, shown(HeatTab.subject(found, file, range.lanes)));
    } else if (tab === "moment") {
      const ns = session.moment === null ? null : session.momentIn(file);
      const read = input(file);
      this.command = ns === null || read === null ? null : `meantime query ${read} at ${plain(ns - BigInt(file.info.start_ns ?? "0"))}`;
      await this.moment.show(session.moment, signal);
      this.changed();
    } else if (tab === "why") {
      await this.why.show(file, signal);
      this.command = this.why.command;
      this.changed();
    } else if (tab === "requests") {
      // they stay where they are while one zooms
      const { from, to } = session.range ?? { from: 0n, to: session.view.widthNs };
      await this.requests.show(file, session.inFile(file, from), session.inFile(file, to), signal);
      const id = this.requests.traceId;
      this.setCommand(file, undefined, "stats", ` --by operation${id ? ` --filter ${quoted(id)}` : ""}`);
    } else if (tab === "sql") {
      // a comment ends with its line
      const statement = this.sql?.statement?.includes("--") ? this.sql.statement : this.sql?.statement?.replace(/\s*\n\s*/g, " ");
      const read = this.sql?.file ? input(this.sql.file) : null;
      this.command = statement && read !== null ? `meantime sql ${read} ${quoted(statement)}` : null;
      this.changed();
    }
  }

  /** Notes what was counted, which chooses between the two if there are both. */
  private counts(of: Counted | undefined, file: FileModel, lane: number | undefined): void {
    if (!of || of === this.counted) return;
    this.counted = of;
    this.drawTools(file, lane === undefined ? null : this.lane);
  }

  /** Shows the call tree as a graph, or by function. */
  private showTree(): void {
    if (!this.tree) return;
    const tree = this.fold.of(this.tree);
    this.graph.element.hidden = this.mode !== "heavy";
    this.sandwich.element.hidden = this.mode !== "callers";
    if (this.mode === "heavy") {
      this.graph.show(tree);
      this.graph.search(this.searched);
    } else this.sandwich.show(tree, null);
  }

  /** The selected span, of which the flame graph is then; null if there is none. */
  private get thing(): Thing | null {
    const { thing } = this.session;
    return thing && FLAMES.has(thing.lane.kind) && thing.endNs > thing.startNs ? thing : null;
  }

  private setCommand(file: FileModel, lane: number | undefined, name: string, options: string, range: readonly [bigint, bigint] | null = null): void {
    const chosen = lane === undefined ? "" : laneOptions(file, lane, name);
    this.command = chosen === null ? null : command(this.session, file, name, options + chosen, range);
    this.changed();
  }

  private fail(tab: string, text: string): void {
    this.command = null;
    this.changed();
    if (tab === "stats") this.table.message("Nothing to show", text);
    else if (tab === "why") this.why.message("Nothing to show", text);
    else if (tab === "requests") this.requests.fail("Nothing to show", text);
    else if (tab === "heat") this.heat.fail(text);
    else if (tab === "moment") this.moment.fail(text);
    else if (tab === "flame") {
      this.tree = null;
      this.graph.element.hidden = this.sandwich.element.hidden = true;
      this.clearFailure();
      this.flame.append(h("div", { class: "nothing" }, h("p", {}, shown(text))));
    } else if (tab === "over") this.overview.replaceChildren(h("div", { class: "nothing" }, h("p", {}, shown(text))));
  }

  private clearFailure(): void {
    for (const each of this.flame.querySelectorAll(":scope > .nothing")) each.remove();
  }

  private drawTools(file: FileModel, lane: TileLane | null): void {
    const { tab } = this.panel;
    const parts: Node[] = [];
    if (lane && tab !== "over" && tab !== "thing" && tab !== "hits" && tab !== "moment" && tab !== "why" && tab !== "requests" && tab !== "notes" && tab !== "changes") {
      parts.push(h("span", { class: "chip" }, name(lane.title), button("×", "Answers about all lanes", () => (this.session.tree.current = null), { class: "bare" })));
    }
    // the others are about all files
    if (this.session.files.length > 1 && tab !== "thing" && tab !== "hits" && tab !== "moment" && tab !== "notes" && tab !== "changes") parts.push(h("span", { class: "muted" }, shown(file.info.name)));
    if (tab === "stats") {
      const by = this.byOf(file, lane?.index);
      const bys = this.bysOf(file, lane?.index).map((each): [string, string] => [each, each === "entity" ? "lane" : each]);
      const choose = (each: string) => {
        this.by = each as By;
        this.redo();
      };
      parts.push(
        ...(by === "name" && this.hasBoth(file, lane?.index) ? [this.kinds()] : []),
        bys.length > MOST_SEGMENTS ? menu("Statistics by", bys, by ?? "", choose) : segments(bys, by ?? "", choose),
        this.otherRange(),
        button("CSV", "Save as CSV", () => this.save(), { class: "small" }),
      );
    } else if (tab === "flame") {
      const { thing } = this;
      if (thing) parts.push(h("span", { class: "chip" }, "only ", name(thing.name), button("×", "Flame graph of the range", () => this.session.select(null), { class: "bare" })));
      if (this.hasBoth(file, lane?.index)) parts.push(this.kinds());
      parts.push(
        segments([["heavy", "left heavy"], ["callers", "functions, callers"]], this.mode, (each) => {
          this.mode = each as FlameMode;
          this.redo();
        }),
        this.fold.button,
      );
    } else if (tab === "heat") parts.push(this.heat.tools);
    else if (tab === "hits") parts.push(...this.hits.tools);
    else if (tab === "moment" && this.session.mark !== null) {
      parts.push(
        button("Clear the mark", "Remove the marked time", () => {
          this.session.mark = null;
          this.redo();
        }, { class: "small" }),
      );
    }
    replaceContent(this.tools, ...parts);
  }

  /** Keeps a range for comparison, or forgets it. */
  compare(base: Range | null): void {
    this.session.base = base;
    this.redo();
  }

  private otherRange(): HTMLElement {
    const { session } = this;
    if (!session.base) return button("Compare", "Keep this range, then select another one to compare it with", () => this.compare({ ...session.asked }), { class: "small" });
    const { from, to } = session.base;
    return h("span", { class: "chip" }, `before: ${instant(from)} to ${instant(to)}`, button("×", "Compare no longer", () => this.compare(null), { class: "bare" }));
  }

  private redo(): void {
    this.invalidate();
    this.changed();
  }

  save(): void {
    this.table.save();
  }

  private rowColor(row: StatisticsRow, by: string): number | null {
    const { file } = this.session;
    if (!file) return null;
    const key = row.key ?? "";
    if (by === "state") return file.states.colorOf(key);
    return by === "name" || by === "operation" ? file.names.marks[file.names.id(key)]! : null;
  }

  /** What requests or tasks did, active states first. */
  private partsOf({ states = [], total_ns }: StatisticsRow): Part[] {
    const table = this.session.file!.states;
    const total = Math.max(1, Number(total_ns ?? 0));
    for (const { state, class: of, rank } of states) if (!table.isKnown(state)) table.classify(table.id(state), of, rank);
    const parts = [...states].sort((a, b) => a.rank - b.rank || Number(b.time_ns) - Number(a.time_ns));
    return parts.map(({ state, time_ns }) => ({ name: state, share: Number(time_ns) / total, pixel: table.colorOf(state) }));
  }

  /** What a click on a row of statistics does: it lights its name, or shows its lane. */
  private choiceOf(row: StatisticsRow, by: string): (() => void) | null {
    if (by === "category" || by === "thread" || by === "service") return null;
    if (by === "state" || by === "entity" || by === "name" || by === "operation") return () => this.choose(row);
    const lane = this.session.tileLanes.find((each) => each instanceof PackedLane && each.file === this.session.file && row.key === (each.detail ? `${each.title} (${each.detail})` : each.title));
    return lane ? () => this.actions.showLane(lane) : null;
  }

  private choose(row: StatisticsRow): void {
    const lit = this.table.lit === row.key ? null : row.key;
    this.lit = lit;
    this.actions.light(lit);
  }

  /** What changed between two runs, and the command that prints it. */
  private async showChanges(): Promise<void> {
    const { inputs } = this.session.info.comparison!;
    this.command = inputs && diffCommand(...inputs);
    this.comparison!.draw();
    await this.comparison!.look();
    this.changed();
  }

  /** What is longest, and what has to be known to read the trace with care. */
  private async showOverview(file: FileModel, range: { file: number; layout: number; from: bigint; to: bigint }, signal: AbortSignal): Promise<void> {
    const { session } = this;
    const bys = this.bysOf(file, undefined);
    const by = bys.includes("name") && (file.info.counts.spans ?? 0) > 0 ? "name" : bys[0];
    // a summary has no range
    if (by === undefined || isWhole(session, file)) this.setCommand(file, undefined, "info", "");
    else this.setCommand(file, undefined, "stats", ` --by ${by}`);
    const cards: HTMLElement[] = [];
    // what is to be read with care has a card of its own
    const findings = file.findings?.filter(({ kind }) => kind !== "care" && (kind !== "lost" || !file.info.lost_ns.length)) ?? [];
    if (findings.length || file.conclusions?.length || file.summary) cards.push(this.sentencesCard(file, findings));
    if (by && range.from < range.to) {
      const found = await session.source.ask("statistics", { ...range, by, lanes: undefined }, signal, this.onShare);
      const isQuiet = (row: StatisticsRow) => by === "state" && file.states.isQuiet(row.key ?? "");
      const rows = found.rows.filter((row) => row.max_ns && !isQuiet(row)).sort((a, b) => Number(b.whole_max_ns ?? b.max_ns) - Number(a.whole_max_ns ?? a.max_ns));
      if (rows.length && !findings.length && !file.conclusions?.length) cards.push(this.longestCard(rows.slice(0, 12), by));
      const sampled = found.rows.filter((row) => row.self).sort((a, b) => b.self! - a.self!);
      if (sampled.length) cards.push(this.sampledCard(sampled.slice(0, 12), by, found.unit));
      const heavy = found.rows.filter((row) => row.total_ns && !isQuiet(row)).sort((a, b) => weightOf(b) - weightOf(a));
      if (heavy.length) cards.push(this.heavyCard(heavy.slice(0, 12), by));
    }
    cards.push(this.careCard());
    this.overview.replaceChildren(...cards);
  }

  /** Asks what stands out in a file, once it is read: what blocks is marked in the lanes, too. */
  private async find(file: FileModel): Promise<void> {
    const { status, version } = file.info;
    const now = performance.now();
    const isKnown = file.foundIn === version || (status === "following" && now < file.findAgain);
    if (!file.table || status === "reading" || isKnown) return;
    file.foundIn = version;
    file.findAgain = now + FIND_MS;
    this.finding++;
    try {
      const found = await this.session.source.ask("findings", { file: file.index, layout: file.table.layout });
      // a newer version may have been asked about meanwhile
      if (file.foundIn !== version) return;
      file.findings = found.findings;
      file.conclusions = found.conclusions;
      file.summary = found.summary;
      this.actions.examined();
    } catch (reason) {
      if (!(reason instanceof SourceError)) throw reason;
      // it is asked again with the next version
    } finally {
      this.finding--;
    }
    this.redo();
  }

  /** What limited a file, and what stands out in it. */
  private sentencesCard(file: FileModel, findings: readonly Finding[]): HTMLElement {
    const said = new Set(findings.map(({ sentence }) => `${sentence}.`));
    const limits = file.conclusions?.filter(({ sentence }) => !said.has(sentence)).map((each) => this.conclusionLine(file, each)) ?? [];
    if (file.summary) limits.push(h("p", { class: "conclusion printed" }, shown(printed(file.summary))));
    const explained = findings.filter(({ cause }) => cause).length;
    if (explained) limits.push(h("p", { class: "muted" }, `That explains ${grouped(explained)} of what stands out.`));
    const lines = this.findingLines(file, findings.filter(({ cause }) => !cause));
    const many = `${grouped(lines.length)} ${lines.length === 1 ? "thing stands" : "things stand"} out`;
    return h("section", { class: "card sentences" }, ...(limits.length ? [h("h3", {}, "What limited it"), ...limits] : []), ...(lines.length ? [h("h3", {}, many), ...lines] : []));
  }

  private conclusionLine(file: FileModel, conclusion: Conclusion): HTMLElement {
    const text = name(printed(conclusion.sentence), { class: "what", title: conclusion.sentence });
    if (!conclusion.ranges.length) return h("p", { class: "conclusion printed" }, text);
    const made = h("button", { class: "finding conclusion printed" }, text);
    made.type = "button";
    made.addEventListener("click", () => this.actions.goTo(file, conclusion));
    return made;
  }

  private findingLines(file: FileModel, findings: readonly Finding[]): HTMLElement[] {
    return findings.map((finding) => {
      const [worst] = finding.ranges;
      const made = h(
        "button",
        { class: "finding printed" },
        h("b", {}, BigInt(finding.lost_ns) > 0n ? duration(BigInt(finding.lost_ns)) : ""),
        h("i", { class: `swatch kind-${finding.kind}` }),
        name(printed(finding.sentence), { class: "what", title: finding.sentence }),
        worst ? h("span", { class: "muted" }, `at ${instant(this.session.inView(file, BigInt(worst[0])))}`) : null,
      );
      made.type = "button";
      if (worst) made.addEventListener("click", () => this.actions.goTo(file, finding));
      return made;
    });
  }

  private longestCard(rows: StatisticsRow[], by: string): HTMLElement {
    const lines = rows.map((row) => {
      const whole = row.whole_max_ns ?? row.max_ns!;
      // what reaches beyond the range is longer than its part in it
      const part = whole === row.max_ns ? "" : `at most ${this.nearly(row.max_ns!)} of one here`;
      return this.line(this.nearly(whole), row, by, `${grouped(row.count)} in all`, () => this.actions.longest(row.key ?? ""), part);
    });
    return h("section", { class: "card" }, h("h3", {}, by === "name" ? "Longest spans" : by === "state" ? "Longest states" : "Longest"), ...lines);
  }

  private heavyCard(rows: StatisticsRow[], by: string): HTMLElement {
    const lines = rows.map((row) => this.line(this.nearly(row.self_ns ?? row.total_ns!), row, by, `median ${row.median_ns ? this.nearly(row.median_ns) : "–"}`, () => this.choose(row)));
    return h("section", { class: "card" }, h("h3", {}, by === "name" ? "Most time in the span itself" : "Most time"), ...lines);
  }

  /** A duration, which is not exact if what is short was merged. */
  private nearly(ns: string): string {
    return (this.session.source.missing === null ? "" : "≈ ") + duration(BigInt(ns));
  }

  private sampledCard(rows: StatisticsRow[], by: string, unit: string | undefined): HTMLElement {
    const amount = (value: number) => (unit === "ns" ? `≈ ${duration(BigInt(Math.round(value)))}` : number(value));
    const lines = rows.map((row) => this.line(amount(row.self!), row, by, `total ${amount(row.total!)}`, () => this.choose(row)));
    return h("section", { class: "card sampled" }, h("h3", {}, "Most samples in the function itself"), ...lines);
  }

  private line(amount: string, row: StatisticsRow, by: string, more: string, action: () => void, part = ""): HTMLElement {
    const pixel = this.rowColor(row, by);
    const made = h(
      "button",
      { class: "finding printed" },
      h("b", {}, amount),
      h("i", { class: "swatch", style: pixel === null ? "" : `background:${css(pixel)}` }),
      nameOrNone(row.key, { class: "what" }),
      part ? h("span", { class: "muted" }, part) : null,
      h("span", { class: row.kind ? "muted" : "muted more" }, row.kind ? shown(row.kind) : more),
    );
    made.type = "button";
    made.addEventListener("click", action);
    return made;
  }

  private careCard(): HTMLElement {
    const notes: Node[] = [];
    const { missing } = this.session.source;
    if (missing !== null) notes.push(h("p", {}, shown(`${missing}. Figures are of what was merged in its place.`)));
    for (const file of this.session.files) {
      const { info } = file;
      const of = this.session.files.length > 1 ? `${info.name}: ` : "";
      if (info.error) notes.push(h("p", {}, shown(of + withTimes(this.session, file, info.error))));
      for (const { name: what, count, explanation } of info.anomalies) notes.push(h("p", {}, h("b", {}, `${grouped(count)} × ${shown(what.replaceAll("_", " "))}`), ` ${shown(of + explanation)}`));
      if (info.lost_ns.length) {
        let lost = 0n;
        for (const [from, to] of info.lost_ns) lost += BigInt(to) - BigInt(from);
        const [first] = info.lost_ns;
        const count = info.lost_ns.length + info.lost_rest;
        const go = button(`first at ${instant(this.session.inView(file, BigInt(first![0])))}`, "Go to the first lost range", () => {
          this.session.fit(this.session.inView(file, BigInt(first![0])), this.session.inView(file, BigInt(first![1])), 1n);
        }, { class: "link" });
        const isOfSamples = info.lost_of === "samples";
        const what = isOfSamples ? "No samples were taken" : "Something was not recorded";
        const where = isOfSamples ? " in the lanes of samples" : "";
        notes.push(h("p", {}, `${of}${what} ${count === 1 ? `in a range of ${duration(lost)}; it is hatched${where}. ` : `in ${grouped(count)} ranges, ${duration(lost)} in all; they are hatched${where}. `}`, go));
      }
      if (info.aligned === "start") notes.push(h("p", {}, shown(`${info.name} shares no clock with the first file: its times cannot be compared with the others.`)));
    }
    if (!notes.length) notes.push(h("p", { class: "muted" }, "Nothing was lost, skipped or repaired while reading."));
    return h("section", { class: "card care", attributes: { tabindex: "0", "aria-label": "Read with care" } }, h("h3", {}, "Read with care"), ...notes);
  }

  /** The facts of the selection, and the states in view. */
  private describe(): void {
    const { session } = this;
    const summary = this.summary && { found: this.summary.found, isNow: this.summary.of === this.summing };
    const content = session.thing ? describeThing(session.thing, session) : describeRange(session, summary, this.legend());
    setText(this.about, subject(session));
    const shown = [...this.facts.childNodes];
    // what is the same keeps what is selected in it, and need not be laid out again
    const isSame = !session.thing && !this.described && content.length === shown.length && content.every((each, at) => each.isEqualNode(shown[at]!));
    if (!isSame) replaceContent(this.facts, ...content);
    if (session.thing !== this.described) this.facts.scrollTop = this.panel.element.scrollTop = 0;
    this.panel.element.classList.toggle("of-thing", session.thing !== null);
    this.described = session.thing;
  }

  private legend(): HTMLElement | null {
    const entries = this.states.map(({ name: text, color }) => h("span", text.includes(", ") ? { class: "several", title: text } : {}, h("i", { class: "swatch", style: `background:${color}` }), name(text)));
    return entries.length ? h("div", { class: "states" }, ...entries) : null;
  }

  /** The states in view, with their colours. */
  get states(): { name: string; color: string }[] {
    const entries: { name: string; color: string }[] = [];
    for (const file of this.session.files) {
      const seen = new Set<number>();
      for (const lane of this.session.tree.visible) {
        if (!(lane instanceof StateLane || lane instanceof PackedLane || lane instanceof GroupLane) || lane.file !== file) continue;
        if (lane instanceof GroupLane && lane.open) continue;
        const top = this.session.tree.topOf(lane)!;
        if (top > this.session.tree.heightPx || top + lane.height() < 0) continue;
        for (const state of lane.seen) seen.add(state);
      }
      const hasOther = seen.delete(OTHER);
      const order = file.states.ordered([...seen]);
      // states of one colour look the same in the picture: they are one entry
      const byColor = new Map<string, string[]>();
      for (const state of order) {
        const color = css(file.states.pixels[state]!);
        const names = byColor.get(color);
        if (names) names.push(file.states.names[state]!);
        else byColor.set(color, [file.states.names[state]!]);
      }
      const colors = [...byColor];
      for (const [color, names] of colors.slice(0, MOST_LEGEND)) entries.push({ name: namesTogether(names), color });
      const rest = colors.slice(MOST_LEGEND).reduce((sum, [, names]) => sum + names.length, 0);
      if (rest) entries.push({ name: `and ${grouped(rest)} more`, color: "transparent" });
      // in a pixel of more than three states
      if (hasOther) entries.push({ name: "other states", color: css(this.session.scene.inks.line2) });
    }
    const { differences } = this.session;
    // both runs have the same states
    if (differences) entries.splice(0, entries.length, ...new Map(entries.map((each) => [`${each.name} ${each.color}`, each])).values());
    if (differences?.name) for (const isMore of [true, false]) entries.push({ name: isMore ? "more after" : "less after", color: differences.ink(isMore) });
    return entries;
  }
}

/** Identifies the selected thing, and how much of it is known. */
function thingKey(thing: Thing | null): string {
  return thing ? `${thing.lane.key} ${thing.row} ${thing.startNs} ${thing.at?.handle ?? ""} ${thing.context !== undefined}` : "";
}

/** The name of a span that commands know. */
function spanHandle({ at }: Thing): string | null {
  const item = at?.item;
  return item && "handle" in item && item.handle?.startsWith("span ") ? item.handle : null;
}

const MOST_TOGETHER = 3;

/** Names of one colour: the first ones, and how many more there are. */
function namesTogether(names: readonly string[]): string {
  const rest = names.length - MOST_TOGETHER;
  return names.slice(0, MOST_TOGETHER).join(", ") + (rest > 0 ? ` and ${grouped(rest)} more` : "");
}

/** A sentence with the micro sign that a terminal may lack, and without folders of source files. */
function printed(sentence: string): string {
  return sentence.replace(/(\d) ?us\b/g, "$1 μs").replace(/\([^()\s]*[/\\]([^()\s/\\]+:\d+)\)/g, "($1)");
}

function weightOf(row: StatisticsRow): number {
  return Number(row.self_ns ?? row.total_ns ?? 0);
}

/** A choice of one of many. */
function menu(label: string, entries: [string, string][], chosen: string, choose: (id: string) => void): HTMLElement {
  const made = h("select", { class: "menu", attributes: { "aria-label": label } }, ...entries.map(([value, text]) => h("option", { attributes: { value } }, `by ${text}`)));
  made.value = chosen;
  openByKeys(made);
  made.addEventListener("change", () => choose(made.value));
  return made;
}

function segments(entries: [string, string][], chosen: string, choose: (id: string) => void): HTMLElement {
  return h(
    "span",
    { class: "segments", attributes: { role: "group" } },
    ...entries.map(([id, label]) => {
      const made = button(label, label, () => choose(id));
      made.setAttribute("aria-pressed", String(id === chosen));
      return made;
    }),
  );
}
