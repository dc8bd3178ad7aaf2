/** The selected thing: what called it, what is inside, what it did and compares to, and its arrows. */

import { button, h, name, nameOrNone, shown } from "../shared/dom";
import { duration, exact, grouped, instant, share } from "../shared/format";
import { css } from "../shared/name-colors";
import { pixelOfName, textOf } from "./facts";
import type { FileModel } from "./model";
import type { Arrows, Context, EntityItem, Hit, SpanItem, StateItem } from "./protocol";
import type { Session, Thing } from "./session";
import { histogram } from "./stat-table";

export interface SelectionActions {
  select(file: FileModel, hit: Hit): void;
  goToEnd(file: FileModel, lane: number, row: number, ns: bigint): void;
  /** Lights a name, so that N goes through the longest. */
  light(name: string): void;
  openFlame(): void;
}

/** Arguments that contain others are open down to this depth. */
const OPEN_DEPTH = 2;
const LONGEST_VALUE = 2000;
const MOST_MEMBERS = 200;
const DISTRIBUTION = { width: 260, height: 44 };

export class SelectionTab {
  readonly element = h("div", { class: "overview selection" });

  constructor(
    private readonly session: Session,
    private readonly actions: SelectionActions,
  ) {}

  /** Shows a sentence instead of what it has. */
  fail(text: string): void {
    this.element.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, "Nothing is selected"), h("p", {}, shown(text))));
  }

  draw(): void {
    const { thing } = this.session;
    if (!thing) {
      this.fail("Click a span, a task or a state, or press → for the first in view.");
      return;
    }
    const { context } = thing;
    if (!context) return;
    this.element.replaceChildren(this.around(thing, context), this.compared(thing, context), this.said(thing));
  }

  /** Its callers, and what is inside of it or beside it. */
  private around(thing: Thing, context: Context): HTMLElement {
    const { callers, inside, previous, next } = context;
    const whole = Number(thing.endNs - thing.startNs);
    const rows: Node[] = [];
    if (callers.length) {
      rows.push(h("h3", {}, "Called by"));
      rows.push(...callers.map((hit, depth) => this.line(thing, hit, thing.lane.file.titleOf(hit.lane ?? thing.lane.index), depth)));
    } else if (thing.lane.kind === "stack" || thing.lane.kind === "async") rows.push(h("p", {}, "Nothing calls it: it is the outermost."));
    if (inside.count) {
      rows.push(h("h3", {}, thing.lane.kind === "packed" ? `Its ${grouped(inside.count)} states, the longest first` : `Inside, ${grouped(inside.count)}, the longest first`));
      rows.push(...inside.hits.map((hit) => this.line(thing, hit, whole > 0 ? share(Number(lengthOf(hit)) / whole) : "")));
      const rest = inside.count - inside.hits.length;
      if (rest) rows.push(h("p", {}, `and ${grouped(rest)} more, each at most ${duration(lengthOf(inside.hits.at(-1)!))}`));
    } else if (callers.length) rows.push(h("p", {}, "It calls nothing that was recorded."));
    if (previous || next) {
      rows.push(h("h3", {}, "Beside it in its row"));
      if (previous) rows.push(this.line(thing, previous, "before"));
      if (next) rows.push(this.line(thing, next, "after"));
    }
    return h("section", { class: "card" }, ...rows);
  }

  /** Its rank among others, what its thread did meanwhile, and its arrows. */
  private compared(thing: Thing, context: Context): HTMLElement {
    const { standing, states, cpus, flows } = context;
    const { file } = thing.lane;
    const own = thing.endNs - thing.startNs;
    const nearly = thing.lane.isEstimated || this.session.source.missing !== null ? "≈ " : "";
    const pixel = thing.lane.kind === "packed" ? null : pixelOfName(thing.lane, thing.name);
    const where = thing.lane.kind === "state" || thing.lane.kind === "packed" ? " in this lane" : "";
    const rows: Node[] = [
      h("h3", { class: "ranked" }, standing.count === 1 ? `The only ${shown(standing.of)}${where}` : `${ordinal(standing.rank)} longest of ${grouped(standing.count)} ${shown(standing.of)}${where}`),
    ];
    if (standing.count > 1) {
      rows.push(
        histogram(standing.histogram, pixel, DISTRIBUTION, own),
        h("p", { class: "figures" }, `${nearly}median ${duration(BigInt(standing.median_ns))}, ${duration(BigInt(standing.min_ns))} to ${duration(BigInt(standing.max_ns))}, ${duration(BigInt(standing.total_ns))} in all`),
      );
      if (standing.unfinished) rows.push(h("p", {}, `${grouped(standing.unfinished)} of them ${standing.unfinished === 1 ? "has" : "have"} no end in the trace: ${standing.unfinished === 1 ? "it counts" : "they count"} up to where the trace ends`));
      if (standing.rank > 1) rows.push(this.line(thing, standing.longest, "the longest"));
      if (thing.lane.kind !== "packed") rows.push(button("Light all of this name", "Lights it in all lanes; N and P then go through the longest", () => this.actions.light(thing.name), { class: "link" }));
    }
    if (thing.lane.kind === "stack") rows.push(button("Flame graph of it", "Flame graph of this alone (Shift + 3)", () => this.actions.openFlame(), { class: "link" }));
    if (states.length) {
      rows.push(h("h3", {}, "Its thread meanwhile"));
      rows.push(...states.map(({ state, time_ns, share: part }) => amount(css(file.states.colorOf(state)), state, BigInt(time_ns), share(part))));
    }
    if (cpus.length) {
      rows.push(h("h3", {}, cpus.length === 1 ? "Where it ran" : `Where it ran, ${grouped(cpus.length)} CPUs`));
      rows.push(...cpus.map(({ cpu, time_ns }) => amount(null, `CPU ${cpu}`, BigInt(time_ns), share(Number(time_ns) / Math.max(1, Number(own))))));
    }
    rows.push(...this.flows(thing, flows));
    return h("section", { class: "card" }, ...rows);
  }

  /** Its arrows with what is at both ends. */
  private flows(thing: Thing, { flows, rest }: Arrows): Node[] {
    const { file, index, kind } = thing.lane;
    const isHere = (lane: number | null, row: number, ns: string) => lane === index && (kind !== "packed" || row === thing.row) && BigInt(ns) >= thing.startNs && BigInt(ns) <= thing.endNs;
    const made = (title: string, isOut: boolean): Node[] => {
      const chosen = flows.filter((flow) => isHere(flow.from_lane, flow.from_row, flow.from_ns) === isOut);
      if (!chosen.length) return [];
      const lines = chosen.map((flow) => {
        const [lane, row, ns, far, near] = isOut ? [flow.to_lane, flow.to_row, flow.to_ns, flow.to_name, flow.from_name] : [flow.from_lane, flow.from_row, flow.from_ns, flow.from_name, flow.to_name];
        const at = BigInt(ns);
        const who = lane === null ? "what is in no lane" : file.titleOf(lane);
        const line = h(
          "button",
          { class: "finding printed flow", title: `${flow.name} ${isOut ? "to" : "from"} ${who}${far ? `, in ${far}` : ""}, at ${exact(this.session.inView(file, at))}${near ? `; here in ${near}` : ""}: go there` },
          h("b", {}, isOut ? "→" : "←"),
          h("span", { class: "what" }, name(who), h("span", { class: "faint" }, far ? ", " : " ", name(far ?? flow.name))),
          h("span", { class: "muted" }, instant(this.session.inView(file, at))),
        );
        line.type = "button";
        line.disabled = lane === null;
        if (lane !== null) line.addEventListener("click", () => this.actions.goToEnd(file, lane, row, at));
        return line;
      });
      return [h("h3", {}, `${title} (${grouped(lines.length)})`), ...lines];
    };
    // an arrow of the scheduler is a wake-up
    const isWaking = flows.some(({ name: of }) => /wak/i.test(of));
    return [
      ...made(isWaking ? "What woke it" : "Arrows to it", false),
      ...made(isWaking ? "What it woke" : "Arrows from it", true),
      ...(rest ? [h("p", {}, `and ${grouped(rest)} more arrows`)] : []),
    ];
  }

  /** Its arguments or tags as a tree. */
  private said(thing: Thing): HTMLElement {
    const item = thing.at?.item as SpanItem | StateItem | EntityItem | null | undefined;
    const said = item && "arguments" in item ? item.arguments : item && "tag" in item ? item.tag : null;
    const title = item && "tag" in item ? "Tags" : "Arguments";
    const isAny = said && (typeof said === "string" || Object.keys(said).length > 0);
    return h("section", { class: "card" }, h("h3", {}, title), ...(isAny ? [tree(said, 0)] : [h("p", {}, title === "Tags" ? "It has none." : "None were recorded.")]));
  }

  private line(thing: Thing, hit: Hit, more: string, depth = 0): HTMLElement {
    const { file } = thing.lane;
    const pixel = hit.kind === "entity" ? null : pixelOfName(hit.lane === null ? thing.lane : (this.session.laneOf(file, hit.lane) ?? thing.lane), hit.name);
    const made = h(
      "button",
      { class: "finding printed", style: depth ? `padding-left:${6 + 10 * Math.min(depth, 12)}px` : "" },
      h("b", { title: exact(lengthOf(hit)) }, duration(lengthOf(hit))),
      h("i", { class: "swatch", style: pixel === null ? "" : `background:${css(pixel)}` }),
      nameOrNone(hit.name, { class: "what" }),
      h("span", { class: "muted" }, shown(more)),
    );
    made.type = "button";
    made.addEventListener("click", () => this.actions.select(file, hit));
    return made;
  }
}

function lengthOf(hit: Hit): bigint {
  return BigInt(hit.end_ns) - BigInt(hit.start_ns);
}

function amount(color: string | null, text: string, ns: bigint, more: string): HTMLElement {
  return h("div", { class: "finding" }, h("b", { title: exact(ns) }, duration(ns)), h("i", { class: "swatch", style: color === null ? "" : `background:${color}` }), name(text, { class: "what" }), h("span", { class: "muted" }, more));
}

const ENDINGS: Record<number, string> = { 1: "st", 2: "nd", 3: "rd" };

/** A rank as a word, of which the first is left out: `The longest`, `12th longest`. */
function ordinal(rank: number): string {
  if (rank === 1) return "The";
  const ending = rank % 100 >= 11 && rank % 100 <= 13 ? "th" : (ENDINGS[rank % 10] ?? "th");
  return `${grouped(rank)}${ending}`;
}

/** A value as a tree: members with others are opened and closed by keys, too. */
function tree(value: unknown, depth: number): HTMLElement {
  if (typeof value !== "object" || value === null) return h("span", { class: "value" }, shown(textOf(value).slice(0, LONGEST_VALUE)));
  const entries = Object.entries(value);
  const items = entries.slice(0, MOST_MEMBERS).map(([key, each]) => {
    const isDeep = typeof each === "object" && each !== null && Object.keys(each as object).length > 0;
    if (!isDeep) return h("li", {}, h("span", { class: "muted" }, shown(key)), " ", tree(Array.isArray(each) || typeof each === "object" ? JSON.stringify(each) : each, depth + 1));
    const details = h("details", {}, h("summary", {}, h("span", { class: "muted" }, shown(key)), ` ${Array.isArray(each) ? `[${grouped(each.length)}]` : `{${grouped(Object.keys(each).length)}}`}`), tree(each, depth + 1));
    details.open = depth < OPEN_DEPTH;
    return h("li", {}, details);
  });
  if (entries.length > MOST_MEMBERS) items.push(h("li", { class: "muted" }, `and ${grouped(entries.length - MOST_MEMBERS)} more`));
  return h("ul", { class: "tree" }, ...items);
}
