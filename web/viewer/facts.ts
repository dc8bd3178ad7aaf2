/** What is under the pointer or selected, in words. */

import { h, name, shown } from "../shared/dom";
import { dateIn, duration, exact, grouped, instant, range as timeRange, share } from "../shared/format";
import { css } from "../shared/name-colors";
import { number, quantity } from "../shared/counter-lane";
import type { TileLane } from "./lanes";
import type { FileModel } from "./model";
import type { At, CounterItem, DensityItem, EntityItem, Kind, PointInfo, SpanItem, StateItem, Summary } from "./protocol";
import type { Session, Thing } from "./session";

const MOST_SHARES = 6;
const MOST_POINTS = 8;
const LONGEST_VALUE = 2000;
const LONGEST_FACT = 160;
/** A longer value has two lines of its own. */
const LONG_FACT = 50;
const MOST_FACTS = 12;

export function fact(label: string, value: string | Node, title = "", kind = ""): HTMLElement {
  return h("div", { class: `fact ${kind}` }, h("span", { class: "muted" }, label), h("span", title ? { title } : {}, value));
}

/** When something is, in nanoseconds since 1970, by the clock of the page. */
function date(utcNs: bigint, { zone }: Session): HTMLElement {
  const text = dateIn(utcNs, zone);
  return fact(zone?.name ?? "UTC", text.slice(11, 26), text);
}

export function swatch(pixel: number): HTMLElement {
  return h("i", { class: "swatch", style: `background:${css(pixel)}` });
}

function statePixel(file: FileModel, state: string | null): number | null {
  return state === null || state === "" ? null : file.states.colorOf(state);
}

/** The colour of what a lane has of this name. */
export function pixelOfName(lane: TileLane, text: string): number {
  return pixelOfKind(lane.file, lane.kind, text);
}

export function pixelOfKind(file: FileModel, kind: Kind, text: string): number {
  if (kind === "state" || kind === "packed" || kind === "group") return file.states.colorOf(text);
  return file.names.marks[file.names.id(text)]!;
}

function head(pixel: number | null, text: string, amount: string): HTMLElement {
  return h("div", { class: "tip-head" }, pixel === null ? null : swatch(pixel), name(text), h("span", { class: "amount" }, amount));
}

/** A sentence of the server with its ranges of a file's time as the page writes times. */
export function withTimes(session: Session, file: FileModel, text: string): string {
  return text.replace(/from (-?\d{1,19}) ns to (-?\d{1,19}) ns/g, (_, ...ends: string[]) => {
    const [from, to] = ends.slice(0, 2).map((ns) => instant(session.inView(file, BigInt(ns)), 9));
    return `from ${from} to ${to}`;
  });
}

/** How many there are on average, with two digits. */
function atOnce(count: number): string {
  return count > 0 && count < 0.01 ? "< 0.01" : number(Number(count.toPrecision(count < 10 ? 2 : 3)));
}

const length = (item: { start_ns: string; end_ns: string }) => BigInt(item.end_ns) - BigInt(item.start_ns);

/** The content of the tooltip; nothing if there is nothing to say. */
export function tip(lane: TileLane, at: At, session: Session): Node[] {
  const { file } = lane;
  const lines: Node[] = [];
  const line = (text: string) => lines.push(h("div", { class: "muted" }, shown(text)));
  const estimate = lane.isEstimated ? "≈ " : "";
  const { item } = at;
  if (item && lane.kind === "counter") {
    const counter = item as CounterItem;
    const unit = file.table!.unit[lane.index] ?? "";
    lines.push(head(null, lane.title, counter.value === null ? "none" : quantity(counter.value, unit)));
    if (counter.least !== null && counter.least !== counter.greatest) line(`${quantity(counter.least, unit)} to ${quantity(counter.greatest!, unit)} in this pixel`);
  } else if (item && lane.kind === "density") {
    const density = item as DensityItem;
    if (!density.samples) return [];
    lines.push(head(null, lane.title, `${grouped(density.samples)} samples`));
    for (const { name: text, count } of density.functions.slice(0, MOST_SHARES)) lines.push(h("div", { class: "tip-row" }, swatch(pixelOfName(lane, text)), name(text), h("span", { class: "amount" }, grouped(count))));
  } else if (item && lane.kind === "points") {
    const { points, rest } = item as { points: PointInfo[]; rest: number };
    if (!points.length) return [];
    for (const point of points.slice(0, MOST_POINTS)) lines.push(head(pixelOfName(lane, point.name), point.name, instant(session.inView(file, BigInt(point.time_ns)), 9)));
    if (rest + points.length > MOST_POINTS) line(`and ${grouped(rest + points.length - MOST_POINTS)} more`);
  } else if (item && lane.kind === "state") {
    const state = item as StateItem;
    lines.push(head(statePixel(file, state.name), state.name, `${estimate}${exact(length(state))}`));
    for (const [key, value] of Object.entries(state.tag ?? {}).slice(0, MOST_SHARES)) line(`${key}: ${textOf(value)}`);
  } else if (item && lane.kind === "packed") {
    const entity = item as EntityItem;
    lines.push(head(null, nameOf(entity), exact(length(entity))));
    if (entity.state) lines.push(h("div", { class: "tip-row" }, swatch(statePixel(file, entity.state.name)!), name(entity.state.name), h("span", { class: "amount" }, exact(length(entity.state)))));
  } else if (item) {
    const span = item as SpanItem;
    lines.push(head(pixelOfName(lane, span.name), span.name, `${estimate}${exact(length(span))}`));
    if (span.samples) line(`${grouped(span.samples)} samples`);
    else if (span.self_ns !== undefined) line(`itself ${duration(BigInt(span.self_ns))}`);
    if (span.arguments && typeof span.arguments === "object") {
      for (const [key, value] of Object.entries(span.arguments).slice(0, 4)) line(`${key}: ${textOf(value).slice(0, 200)}`);
    }
  }
  if (at.shares && !item && (lane.kind === "group" || lane.kind === "packed")) {
    // entities together: a share is how many are in the state
    const count = at.shares.reduce((sum, { share: part }) => sum + part, 0);
    if (!count) return [];
    lines.push(head(null, lane.title, `${atOnce(count)} at once`));
    for (const { state, share: part } of at.shares.slice(0, MOST_SHARES)) lines.push(h("div", { class: "tip-row" }, swatch(statePixel(file, state) ?? 0), name(state || "other"), h("span", { class: "amount" }, atOnce(part))));
    const rest = at.shares.length - MOST_SHARES;
    if (rest > 0) line(`and ${rest} more states`);
    line("on average in this pixel");
  } else if (at.shares && at.shares.length > 1) {
    lines.push(h("div", { class: "tip-gap" }));
    for (const { state, time_ns, share: part } of at.shares.slice(0, MOST_SHARES)) {
      const pixel = statePixel(file, state);
      lines.push(h("div", { class: "tip-row" }, pixel === null ? h("i", { class: "swatch none" }) : swatch(pixel), name(state || (state === null ? "no state" : "other")), h("span", { class: "amount" }, `${exact(BigInt(time_ns))} · ${share(part)}`)));
    }
    line("in this pixel");
  } else if (at.in_width && at.in_width.count > 0 && (at.in_width.count > 1 || at.in_width.share < 0.5)) {
    const { count, share: part } = at.in_width;
    line(`${count > 1 ? `${grouped(count)} here, which fill` : "fills"} ${share(part)} of this pixel`);
  }
  return lines;
}

/** The name of an entity, after the request that it handles unless it says so itself. */
function nameOf({ name, tag }: EntityItem): string {
  if (tag?.method === undefined || tag.path === undefined) return name;
  const request = `${textOf(tag.method)} ${textOf(tag.path)}`;
  return name.includes(request) ? name : `${request} · ${name}`;
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** The facts of the selected thing. */
export function describeThing(thing: Thing, session: Session): Node[] {
  const { lane, at } = thing;
  const { file } = lane;
  const estimate = lane.isEstimated ? "≈ " : "";
  const item = at?.item ?? null;
  const rows: Node[] = [
    h("div", { class: "figure" }, `${estimate}${duration(thing.endNs - thing.startNs, 4)}`),
    h("p", { class: "named" }, lane.kind === "packed" ? "" : swatch(pixelOfName(lane, thing.name)), name(item && lane.kind === "packed" ? nameOf(item as EntityItem) : thing.name)),
  ];
  if (item && lane.kind === "packed") {
    for (const { state, time_ns } of (item as EntityItem).times) {
      rows.push(h("div", { class: "fact" }, h("span", { class: "muted chip" }, swatch(statePixel(file, state) ?? 0), name(state)), h("span", { title: exact(BigInt(time_ns)) }, duration(BigInt(time_ns)))));
    }
  }
  rows.push(
    fact("duration", exact(thing.endNs - thing.startNs)),
    fact("starts", instant(session.inView(file, thing.startNs), 9), `${exact(thing.startNs)} on the file's clock`),
  );
  const wall = file.info.clock.utc_at_origin_ns;
  if (wall !== null) rows.push(date(BigInt(wall) + thing.startNs, session));
  if (item && (lane.kind === "stack" || lane.kind === "async")) {
    const span = item as SpanItem;
    if (span.self_ns !== undefined) {
      const whole = Number(thing.endNs - thing.startNs);
      rows.push(fact("itself", `${duration(BigInt(span.self_ns))} (${share(whole ? Number(span.self_ns) / whole : 0)})`, exact(BigInt(span.self_ns))));
    }
    if (span.handle) rows.push(fact("number", h("span", { class: "mono" }, span.handle)));
    if (span.depth !== undefined) rows.push(fact("depth", String(span.depth)));
    if (span.category) rows.push(fact("category", shown(span.category)));
    if (span.thread) rows.push(fact("thread", shown(span.thread)));
    if (span.unfinished) rows.push(fact("end", "not recorded"));
    if (span.samples) rows.push(fact("samples", grouped(span.samples)));
  } else rows.push(fact("lane", shown(lane.title), "", "line"));
  if (at?.handle) rows.push(fact("handle", h("span", { class: "mono" }, shown(at.handle))));
  return rows;
}

/** A fact of a file as rows: of one that is JSON, its members. */
function factRows(key: string, text: string): HTMLElement[] {
  let value: unknown = text;
  if (/^[[{]/.test(text)) {
    try {
      value = JSON.parse(text);
    } catch {
      // shown as it is
    }
  }
  const row = (label: string, content: unknown) => {
    const words = Array.isArray(content) && content.every((each) => typeof each !== "object") ? content.join(", ") : textOf(content);
    return fact(shown(label), shown(words.slice(0, LONGEST_FACT)), words.slice(0, LONGEST_VALUE), words.length > LONG_FACT ? "line long" : "line");
  };
  const members = Array.isArray(value) && value.length === 1 ? value[0] : value;
  // a table in a table has no place in a line
  const isWords = (content: unknown) => typeof content !== "object" || content === null || (Array.isArray(content) && content.every((each) => typeof each !== "object"));
  if (members && typeof members === "object" && !Array.isArray(members)) return Object.entries(members).flatMap(([label, content]) => (isWords(content) ? [row(`${key}: ${label}`, content)] : []));
  return Array.isArray(members) && !members.length ? [] : [row(key, members)];
}

const THINGS: Partial<Record<Kind, string>> = { state: "State", packed: "Entity", stack: "Span", async: "Operation", counter: "Counter", density: "Samples", points: "Instants" };

/** What the entities of a lane are: one of what their group is called. */
function entityOf({ kind, file, index }: TileLane): string | null {
  const { name, parent } = file.table!;
  const group = kind === "packed" ? (name[parent[index]!] ?? "") : "";
  return /^(Requests|Tasks|Callbacks)$/.test(group) ? group.slice(0, -1) : null;
}

/** What the facts are about, in a word or two. */
export function subject({ thing, band, range, asked, view }: Session): string {
  if (thing) return thing.lane.isEstimated ? "Sampled stack" : (entityOf(thing.lane) ?? THINGS[thing.lane.kind] ?? "Selection");
  if (band) return "Band of the heat map";
  if (range) return "Selected range";
  return asked.from === 0n && asked.to === view.widthNs ? "Whole trace" : "Range in view";
}

/** How many steps of a range blocked an event loop, of those that stand out. */
function blockedIn(session: Session, from: bigint, to: bigint): number {
  let count = 0;
  for (const file of session.files) {
    for (const { kind, ranges } of file.findings ?? []) {
      if (kind === "block") count += ranges.filter(([start, end]) => session.inView(file, BigInt(start)) < to && session.inView(file, BigInt(end)) > from).length;
    }
  }
  return count;
}

/** What loops and requests did, and whether that is of the present range. */
export interface Summarized {
  found: Summary;
  isNow: boolean;
}

const TO_COME = "…";

function described({ found, isNow }: Summarized, file: FileModel): Node[] {
  const rows: Node[] = [];
  const { loop_ns, running_ns, requests } = found;
  if (loop_ns !== null && running_ns !== null && Number(loop_ns) > 0) {
    const label = h("span", { class: "muted chip" }, swatch(file.states.colorOf("running")), "loop running");
    rows.push(h("div", { class: "fact" }, label, h("span", { title: `${exact(BigInt(running_ns))} of ${exact(BigInt(loop_ns))}` }, isNow ? share(Number(running_ns) / Number(loop_ns)) : TO_COME)));
  }
  if (requests !== null) rows.push(fact("requests", isNow ? grouped(requests) : TO_COME));
  return rows;
}

/** The facts of the range in view, or of the selected one, and the states in view. */
export function describeRange(session: Session, summary: Summarized | null, legend: Node | null): Node[] {
  const { from, to } = session.asked;
  const isWhole = from === 0n && to === session.view.widthNs && !session.range;
  const rows: Node[] = [
    h("div", { class: "figure", title: exact(to - from) }, duration(to - from, 4)),
    h("p", { class: "muted", title: `${instant(from, 9)} to ${instant(to, 9)}` }, timeRange(from, to)),
  ];
  const { band, file } = session;
  if (band) {
    rows.push(h("h2", {}, "Band of the heat map"), fact("offsets", `${duration(band.from)} to ${duration(band.to)}`, `${exact(band.from)} to ${exact(band.to)}`), fact("of each", duration(band.periodNs), exact(band.periodNs)));
  }
  const wall = session.files[0]?.info.clock.utc_at_origin_ns ?? null;
  if (wall !== null) rows.push(date(BigInt(wall) + session.originNs + from, session));
  if (summary && file) rows.push(...described(summary, file));
  const blocked = blockedIn(session, from, to);
  if (blocked) rows.push(fact("blocking steps", grouped(blocked)));
  if (legend) rows.push(legend);
  if (isWhole) {
    for (const { info } of session.files) {
      if (session.files.length > 1) rows.push(h("h2", {}, shown(info.name)));
      if (info.entities) rows.push(fact("entities", grouped(info.entities)));
      for (const [what, count] of Object.entries(info.counts)) if (count) rows.push(fact(what, grouped(count)));
      rows.push(...Object.entries(info.facts).flatMap(([key, value]) => factRows(key, textOf(value))).slice(0, MOST_FACTS));
    }
  }
  return rows;
}
