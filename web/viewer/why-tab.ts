/** Why a thread took its time: its critical path over a range, as lanes and as shares. */

import { h, name, replaceContent, shown } from "../shared/dom";
import { duration, exact, grouped, instant, share } from "../shared/format";
import { plain } from "../shared/heat-model";
import { css } from "../shared/name-colors";
import { input, quoted } from "./command";
import type { TileLane } from "./lanes";
import type { FileModel } from "./model";
import type { Why } from "./protocol";
import type { Session, Thing } from "./session";

const MOST_LANES = 6;
const MOST_ROWS = 200;
/** The units in which lanes are drawn, whatever their width on the page. */
const WIDTH = 2000;
const HEIGHT = 14;
const LEAST = 1.5;
/** The state of a path where the thread has none. */
const UNKNOWN = "unknown";
const THREAD = /(^|\/)Threads\/[^/]+\//;
const SVG = "http://www.w3.org/2000/svg";

export interface WhyActions {
  /** Selects what is at a time of a lane. */
  goToEnd(file: FileModel, lane: number, row: number, ns: bigint): void;
  changed(): void;
}

/** Whose path is asked for: a thread of a lane, or one that was typed, in the time of the file. */
interface Subject {
  file: FileModel;
  lane: TileLane | null;
  from: bigint;
  to: bigint;
}

/** Whether a file has what a scheduler says of threads. */
export function isScheduled({ table }: FileModel): boolean {
  return table?.scheduled ?? false;
}

function isOfThread(lane: TileLane): boolean {
  return THREAD.test(`${lane.handle}/`) && lane.kind !== "group";
}

export class WhyTab {
  readonly element = h("div", { class: "why" });
  private readonly field = h("input", { attributes: { type: "search", placeholder: "Thread: id or name", "aria-label": "Thread whose time is explained" } });
  private readonly result = h("div", { class: "why-result", attributes: { "aria-live": "polite" } });
  private typed = "";
  /** What was selected when a thread was typed. */
  private before: unknown[] = [];
  private subject: Subject | null = null;
  /** Where a click here went, and what was selected until then: what is selected there is not what is asked about. */
  private gone: { lane: number; ns: bigint; before: Thing | null } | null = null;
  private found: Why | null = null;
  /** The command that prints what is shown. */
  command: string | null = null;

  constructor(
    private readonly session: Session,
    private readonly actions: WhyActions,
  ) {
    this.field.addEventListener("change", () => {
      this.typed = this.field.value.trim();
      this.before = [session.thing, session.tree.current];
      actions.changed();
    });
    this.element.append(h("div", { class: "why-new" }, this.field), this.result);
  }

  /** Finds whose path is asked for; the text changes with that. */
  ask(file: FileModel): string {
    const { session } = this;
    const { thing } = session;
    const { subject } = this;
    const { gone } = this;
    const isThere = gone !== null && thing !== null && thing.lane.index === gone.lane && thing.startNs <= gone.ns && gone.ns < thing.endNs;
    // what is there is selected once the server has answered
    const isOnTheWay = gone !== null && thing === gone.before;
    if (isThere) gone.before = thing;
    if ((isThere || isOnTheWay) && subject?.file === file) return this.key;
    this.gone = null;
    const current = session.tree.current as TileLane | null;
    const selected = thing && thing.lane.file === file && isOfThread(thing.lane) ? thing : null;
    const lane = selected?.lane ?? (current && "handle" in current && current.file === file && isOfThread(current) ? current : null);
    if (lane && (thing !== this.before[0] || current !== this.before[1])) this.field.value = this.typed = "";
    const { from, to } = session.asked;
    const range = selected && !session.range && !this.typed ? waitOf(selected) : null;
    this.subject = { file, lane: this.typed ? null : (lane ?? (subject?.file === file ? subject.lane : null)), from: range?.from ?? session.inFile(file, from), to: range?.to ?? session.inFile(file, to) };
    return this.key;
  }

  private get key(): string {
    const { subject } = this;
    return subject ? `${subject.lane?.key} ${this.typed} ${subject.from} ${subject.to}` : "";
  }

  async show(file: FileModel, signal: AbortSignal): Promise<void> {
    const { subject, session } = this;
    this.command = this.found = null;
    if (!isScheduled(file)) return this.message("No scheduler", "This needs the switches and wake-ups of threads, as perf, ftrace, LTTng or Perfetto record them.");
    if (session.source.isEmbedded) return this.message("Not in this page", "Critical paths are computed by the server: open the trace with meantime view, or run meantime why.");
    if (!subject || (!subject.lane && !this.typed)) return this.message("Why did a thread take its time?", "Click a state of a thread, or the name of its lane, or type its id. A selected range is explained, otherwise the state, or what is in view.");
    if (subject.from >= subject.to) return this.message("Nothing in this range", "Select a longer range, or press 0 to see the whole trace.");
    const [start, end] = [BigInt(file.info.start_ns ?? "0"), BigInt(file.info.end_ns ?? "0")];
    // of the whole trace, what is explained is the time in which the thread has states
    const isAll = subject.from === start && subject.to === end;
    const range = isAll ? {} : { from: subject.from, to: subject.to };
    const found = await session.source.ask("why", { file: file.index, layout: file.table!.layout, lane: subject.lane?.index, thread: subject.lane ? "" : this.typed, ...range }, signal);
    this.found = found;
    const options = isAll ? "" : ` --from ${plain(subject.from - start)} --to ${plain(subject.to - start)}`;
    const read = input(file);
    this.command = read === null ? null : `meantime why ${read} --thread ${quoted(found.threads[found.thread]!.tid)}${options}`;
    this.draw();
  }

  message(title: string, text: string): void {
    this.found = null;
    replaceContent(this.result, h("div", { class: "nothing" }, h("h2", {}, title), h("p", {}, shown(text))));
  }

  draw(): void {
    const { found, subject, session } = this;
    if (!found || !subject) return;
    const [from, to] = found.range_ns.map(BigInt) as [bigint, bigint];
    const { file } = subject;
    const heading = h(
      "p",
      { class: "moment-head" },
      h("b", {}, "Why ", name(found.threads[found.thread]!.title), ` took ${duration(to - from)}`),
      h("span", { class: "muted" }, `from ${instant(session.inView(file, from))} to ${instant(session.inView(file, to))}: where it waits, what it waited for. Click to go there.`),
    );
    replaceContent(this.result, heading, this.lanes(found, file, from, to), this.table(found, file));
  }

  /** The threads on the path, with what each did for the thread. */
  private lanes(found: Why, file: FileModel, from: bigint, to: bigint): HTMLElement {
    const { path } = found;
    const parts = path.start_ns.map((start, part) => [BigInt(start), BigInt(path.end_ns[part]!)] as const);
    const total = new Array<bigint>(found.threads.length).fill(0n);
    for (const row of found.shares) total[row.thread]! += BigInt(row.total_ns);
    const order = [...total.keys()].filter((thread) => total[thread]! > 0n || thread === found.thread);
    // the thread itself, then who took most
    order.sort((a, b) => Number(b === found.thread) - Number(a === found.thread) || (total[b]! > total[a]! ? 1 : total[b]! < total[a]! ? -1 : a - b));
    const length = Number(to - from);
    const scale = (ns: bigint) => (Number(ns - from) / length) * WIDTH;
    const made = order.slice(0, MOST_LANES).map((thread) => {
      const { title, lane } = found.threads[thread]!;
      const shapes = new Map<number, string>();
      parts.forEach(([start, end], part) => {
        if (path.thread[part] !== thread) return;
        const left = scale(start);
        const state = path.state[part]!;
        shapes.set(state, `${shapes.get(state) ?? ""}M${left.toFixed(1)} 0h${Math.max(LEAST, scale(end) - left).toFixed(1)}v${HEIGHT}H${left.toFixed(1)}z`);
      });
      const picture = document.createElementNS(SVG, "svg");
      picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
      picture.setAttribute("preserveAspectRatio", "none");
      picture.setAttribute("aria-hidden", "true");
      for (const [state, d] of shapes) {
        const shape = document.createElementNS(SVG, "path");
        shape.setAttribute("d", d);
        shape.setAttribute("style", `fill:${colorOf(file, path.states[state]!)}`);
        picture.append(shape);
      }
      picture.addEventListener("click", (event) => {
        const box = picture.getBoundingClientRect();
        const ns = from + BigInt(Math.round(((event.clientX - box.left) / box.width) * length));
        this.goTo(nearest(parts, path.thread, thread, ns));
      });
      const amount = h("span", { class: "amount" }, duration(total[thread]!));
      const label = h("button", { class: "bare", title: `${title}: its longest part of the path`, on: { click: () => this.goTo(longest(parts, (part) => path.thread[part] === thread)) } }, name(title));
      label.type = "button";
      label.disabled = lane === null;
      return h("div", { class: "why-lane" }, label, amount, picture as unknown as Node);
    });
    const rest = order.length - made.length;
    const left = found.parts - parts.length;
    const notes = [rest > 0 ? `and ${grouped(rest)} more ${rest === 1 ? "thread" : "threads"}` : "", left > 0 ? `the longest ${grouped(parts.length)} of ${grouped(found.parts)} parts are drawn` : ""];
    if (rest > 0 || left > 0) made.push(h("p", { class: "muted" }, notes.filter(Boolean).join("; ")));
    return h("div", { class: "why-lanes" }, ...made);
  }

  private table(found: Why, file: FileModel): HTMLElement {
    const { path } = found;
    const parts = path.start_ns.map((start, part) => [BigInt(start), BigInt(path.end_ns[part]!)] as const);
    const heads = [["key", "thread"], ["state", "state"], ["total", "time"], ["part", "share"], ["reason", "because"], ["mean", "parts"], ["longest", "longest"]];
    const rows = found.shares.slice(0, MOST_ROWS).map((row) => {
      const fill = colorOf(file, row.state);
      const go = () => this.goTo(longest(parts, (part) => path.thread[part] === row.thread && path.states[path.state[part]!] === row.state && path.reasons[path.because[part]!] === row.because));
      const made = h(
        "tr",
        { attributes: { tabindex: "0" } },
        h("td", { class: "key" }, name(found.threads[row.thread]!.title, { title: found.threads[row.thread]!.title }), h("div", { class: "reason-below" }, name(row.because))),
        h("td", { class: "state" }, h("i", { class: "swatch", style: `background:${fill}` }), name(row.state)),
        h("td", { class: "total", title: exact(BigInt(row.total_ns)) }, duration(BigInt(row.total_ns))),
        h("td", { class: "part" }, h("span", {}, share(row.share)), h("span", { class: "bar" }, h("i", { style: `width:${Math.min(100, 100 * row.share).toFixed(1)}%;background:${fill}` }))),
        h("td", { class: "reason" }, name(row.because, { title: row.because })),
        h("td", { class: "mean" }, grouped(row.parts)),
        h("td", { class: "longest", title: exact(BigInt(row.max_ns)) }, duration(BigInt(row.max_ns))),
      );
      made.addEventListener("click", go);
      made.addEventListener("keydown", (event) => {
        if (event.key === "Enter") go();
      });
      return made;
    });
    const rest = found.rest + found.shares.length - rows.length;
    return h(
      "div",
      { class: "stat-table" },
      h("table", {}, h("thead", {}, h("tr", {}, ...heads.map(([kind, text]) => h("th", { class: kind!, attributes: { scope: "col" } }, text!)))), h("tbody", {}, ...rows)),
      rest ? h("p", { class: "muted" }, `and ${grouped(rest)} more; the command below prints all with --json`) : "",
    );
  }

  /** Selects a part of the path in its lane. */
  private goTo(part: number): void {
    const { found, subject } = this;
    if (!found || !subject || part < 0) return;
    const { lane } = found.threads[found.path.thread[part]!]!;
    if (lane === null) return;
    const ns = BigInt(found.path.start_ns[part]!);
    this.gone = { lane, ns, before: this.session.thing };
    this.actions.goToEnd(subject.file, lane, 0, ns);
  }
}

function colorOf(file: FileModel, state: string): string {
  return state === UNKNOWN ? "var(--line2)" : css(file.states.colorOf(state));
}

/** What is explained of a selected state: all of it, unless the thread just runs. */
function waitOf(thing: Thing): { from: bigint; to: bigint } | null {
  return thing.lane.kind === "state" && thing.name !== "running" ? { from: thing.startNs, to: thing.endNs } : null;
}

type Parts = readonly (readonly [bigint, bigint])[];

function longest(parts: Parts, isMeant: (part: number) => boolean): number {
  let best = -1;
  parts.forEach(([start, end], part) => {
    if (isMeant(part) && (best < 0 || end - start > parts[best]![1] - parts[best]![0])) best = part;
  });
  return best;
}

/** The part of a thread at a time, or the nearest one; -1 if it has none. */
function nearest(parts: Parts, of: readonly number[], thread: number, ns: bigint): number {
  let [best, away] = [-1, 0n];
  parts.forEach(([start, end], part) => {
    if (of[part] !== thread) return;
    const distance = ns < start ? start - ns : ns >= end ? ns - end + 1n : 0n;
    if (best < 0 || distance < away) [best, away] = [part, distance];
  });
  return best;
}
