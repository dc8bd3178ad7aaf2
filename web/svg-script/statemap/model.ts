/** What the page shows: panels of rectangles, decoded once into columns. */

import { Varints, decodeVarints, readBlock, readDeflated, readHead } from "../../shared/blocks";
import { type HeadZone, type Zone, zoneOf } from "../../shared/format";
import { pixelOf } from "../../shared/lane-image";
import { Times, firstAbove } from "../../shared/times";
import { type SharedHead, SharedRows } from "./shared";

export interface State {
  name: string;
  value: number;
  color: string;
  /** Its colour on dark ground; null for the same. */
  dark: string | null;
  /** How far from the bottom of a stack it is drawn. */
  rank: number;
  /** Whether a share that is too small to be drawn is not missed. */
  quiet: boolean;
}

export type Tag = Record<string, unknown>;

export interface Events {
  times: BigInt64Array;
  rows: Int32Array;
  names: Int32Array;
  targets: Int32Array;
}

export interface Panel {
  index: number;
  title: string;
  kind: string;
  /** UTC of the panel's time 0. */
  origin: bigint | null;
  /** Where the window begins, from the panel's origin; all other times count from here. */
  start: bigint;
  states: State[];
  /** What it is called among the panels of its trace. */
  label: string;
  /** Panels of one label with equal tables of states share a legend: the first one's number. */
  legend: number;
  tags: Tag[];
  entities: string[];
  /** The rows in the order of their names; null if they already are. */
  byName: number[] | null;
  descriptions: Record<string, string>;
  /** How many there are in the window, before some are merged. */
  intervals: number;
  /** Row r has rectangles [rows[r], rows[r + 1]). */
  rows: Uint32Array;
  starts: Times;
  ends: Times;
  /** Rectangle i holds states [stateAt[i], stateAt[i + 1]). */
  stateAt: Uint32Array;
  state: Uint32Array;
  stateNs: Times;
  tagAt: Uint32Array;
  tag: Uint32Array;
  tagNs: Times;
  events: Events;
  eventNames: string[];
  /** The entities of the rows, if several share one; otherwise each row is one. */
  shared: SharedRows | null;
  /** Entities exist while they have a state, from the first rectangle of a row to its last, or always. */
  existence: "state" | "row" | "always";
  /** By row, when it existed, if its rectangles do not show that. */
  existed: Map<number, [start: bigint, end: bigint]>;
}

interface PanelHead {
  title: string;
  label: string;
  kind: string;
  origin: string | null;
  start: string;
  end: string;
  states: State[];
  tags: Tag[];
  entities: string[];
  byName: number[] | null;
  descriptions: Record<string, string>;
  intervals: number;
  rectangles: number;
  stateEntries: number;
  tagEntries: number;
  events: number;
  eventNames: string[];
  shared: SharedHead | null;
  existence: Panel["existence"];
  existed: Record<string, [start: string, end: string]>;
}

/** Command lines without their window. */
export interface Commands {
  draw: string;
  figures: string | null;
}

interface Head {
  title: string;
  subtitle: string;
  footer: string[];
  sort: string | null;
  rowHeight: number;
  commands: Commands | null;
  zone: HeadZone | null;
  panels: PanelHead[];
}

export interface Model extends Omit<Head, "panels" | "zone"> {
  panels: Panel[];
  /** The zone of dates; null is UTC. */
  zone: Zone | null;
  widthNs: bigint;
  /** Of the first panel: what all times that are shown count from. */
  start: bigint;
  origin: bigint | null;
}

export async function readModel(): Promise<Model> {
  const head = readHead<Head>();
  const panels = await Promise.all(head.panels.map(decode));
  for (const panel of panels) {
    // two kinds of entities are never added up
    const key = ({ label, states }: Panel) => JSON.stringify([label, states]);
    const same = key(panel);
    panel.legend = panels.findIndex((other) => key(other) === same);
  }
  const first = head.panels[0]!;
  return {
    ...head,
    zone: zoneOf(head.zone),
    panels,
    // a window may be without length
    widthNs: BigInt(first.end) > BigInt(first.start) ? BigInt(first.end) - BigInt(first.start) : 1n,
    start: panels[0]!.start,
    origin: panels[0]!.origin,
  };
}

async function decode(head: PanelHead, index: number): Promise<Panel> {
  const count = head.rectangles;
  const panel: Panel = {
    ...head,
    index,
    origin: head.origin === null ? null : BigInt(head.origin),
    start: BigInt(head.start),
    legend: index,
    rows: new Uint32Array(head.entities.length + 1),
    starts: new Times(count),
    ends: new Times(count),
    stateAt: new Uint32Array(count + 1),
    state: new Uint32Array(head.stateEntries),
    stateNs: new Times(head.stateEntries),
    tagAt: new Uint32Array(count + 1),
    tag: new Uint32Array(head.tagEntries),
    tagNs: new Times(head.tagEntries),
    events: events(await readDeflated(`e${index}`), head.events),
    shared: await SharedRows.read(head.shared, index),
    existed: new Map(
      Object.entries(head.existed).map(([row, [start, end]]) => [+row, [BigInt(start), BigInt(end)]]),
    ),
  };
  decodeRectangles(panel, new Varints(readBlock(`p${index}`)));
  return panel;
}

/** Undoes `records` of kernels/text.pyx. */
function decodeRectangles(panel: Panel, read: Varints): void {
  const { starts, ends, state, stateNs, tag, tagNs } = panel;
  let at = 0;
  let states = 0;
  let tags = 0;
  for (let row = 0; row < panel.entities.length; row++) {
    const after = at + read.small();
    let hi = 0;
    let lo = 0;
    for (; at < after; at++) {
      read.next();
      lo += read.lo;
      hi += read.hi + (lo > 0xffffffff ? 1 : 0);
      lo >>>= 0;
      starts.hi[at] = hi;
      starts.lo[at] = lo;
      read.next();
      const lengthHi = read.hi;
      const lengthLo = read.lo;
      lo += lengthLo;
      hi += lengthHi + (lo > 0xffffffff ? 1 : 0);
      lo >>>= 0;
      ends.hi[at] = hi;
      ends.lo[at] = lo;
      const code = read.small();
      if (code & 1) {
        for (let left = code >>> 1; left; left--) {
          state[states] = read.small();
          read.next();
          stateNs.hi[states] = read.hi;
          stateNs.lo[states++] = read.lo;
        }
      } else {
        state[states] = code >>> 1;
        stateNs.hi[states] = lengthHi;
        stateNs.lo[states++] = lengthLo;
      }
      panel.stateAt[at + 1] = states;
      const tagged = read.small();
      if (tagged === 1) {
        tag[tags] = read.small();
        tagNs.hi[tags] = lengthHi;
        tagNs.lo[tags++] = lengthLo;
      } else {
        for (let left = tagged; left > 1; left--) {
          tag[tags] = read.small();
          read.next();
          tagNs.hi[tags] = read.hi;
          tagNs.lo[tags++] = read.lo;
        }
      }
      panel.tagAt[at + 1] = tags;
    }
    panel.rows[row + 1] = at;
  }
}

/** Undoes `_events` of packed.py. */
function events(block: Uint8Array, count: number): Events {
  const numbers = decodeVarints(block, new Float64Array(4 * count));
  const times = new BigInt64Array(count);
  let time = 0n;
  for (let i = 0; i < count; i++) times[i] = time += BigInt(numbers[i]!);
  const column = (number: number) => Int32Array.from(numbers.subarray(number * count, (number + 1) * count));
  const targets = column(3);
  for (let i = 0; i < count; i++) targets[i]!--;
  return { times, rows: column(1), names: column(2), targets };
}

/** `#rrggbb`, or `#rgb` of a minified style, as a pixel without its alpha. */
export function rgb(color: string): number {
  return pixelOf(color) & 0xffffff;
}

/** A state's colour in a style: that of the page's theme. */
export function cssColor({ color, dark }: State): string {
  return dark === null ? color : `light-dark(${color},${dark})`;
}

/** The rectangle of a row at a time, or -1 where the row has no state. */
export function rectangleAt(panel: Panel, row: number, ns: bigint): number {
  const last = panel.rows[row + 1]!;
  const found = firstAbove(panel.ends, panel.rows[row]!, last, ns);
  return found < last && panel.starts.get(found) <= ns ? found : -1;
}

/** The state that a rectangle mostly is in. */
export function mainState(panel: Panel, rectangle: number): number {
  let main = panel.stateAt[rectangle]!;
  for (let i = main + 1; i < panel.stateAt[rectangle + 1]!; i++) {
    if (panel.stateNs.number(i) > panel.stateNs.number(main)) main = i;
  }
  return panel.state[main]!;
}

/** Whether a rectangle stands for several intervals, or for gaps too, whose order is not known. */
export function isMerged(panel: Panel, rectangle: number): boolean {
  return (
    panel.stateAt[rectangle + 1]! - panel.stateAt[rectangle]! > 1 ||
    panel.tagAt[rectangle + 1]! - panel.tagAt[rectangle]! > 1 ||
    (panel.shared !== null && panel.stateNs.number(panel.stateAt[rectangle]!) < length(panel, rectangle))
  );
}

/** The part of a rectangle's length, 0 to 1, that is spent in any state. */
export function coverage(panel: Panel, rectangle: number): number {
  let ns = 0;
  for (let i = panel.stateAt[rectangle]!; i < panel.stateAt[rectangle + 1]!; i++) ns += panel.stateNs.number(i);
  return ns / length(panel, rectangle);
}

/** What a row is called at a time: its entity, or of a row that several share the one that is there. */
export function nameAt(panel: Panel, row: number, ns: bigint): string {
  const { shared } = panel;
  if (!shared) return panel.entities[row]!;
  const { first } = shared.between(row, ns, ns + 1n);
  return `${shared.siteOf(row)}/${shared.names[first] ?? ""}`;
}

/** When an entity of a shared row exists; null if its end lies within a merged rectangle. */
export function lifeOf(panel: Panel, entity: number): { start: bigint; end: bigint } | null {
  const shared = panel.shared!;
  const row = shared.rowOf(entity);
  const start = shared.starts.get(entity);
  const after = entity + 1 < shared.rows[row + 1]! ? shared.starts.get(entity + 1) : null;
  const [from, to] = [panel.rows[row]!, panel.rows[row + 1]!];
  const last = (after === null ? to : firstAbove(panel.starts, from, to, after - 1n)) - 1;
  if (last < from) return null;
  const end = panel.ends.get(last);
  return isMerged(panel, last) || end <= start || (after !== null && end > after) ? null : { start, end };
}

/** The part of a rectangle's length, 0 to 1, that is spent in a state. */
export function shareOf(panel: Panel, rectangle: number, state: number): number {
  for (let i = panel.stateAt[rectangle]!; i < panel.stateAt[rectangle + 1]!; i++) {
    if (panel.state[i] === state) return panel.stateNs.number(i) / length(panel, rectangle);
  }
  return 0;
}

/** The part of a rectangle's length, 0 to 1, that is spent with any of some tags. */
export function taggedShare(panel: Panel, rectangle: number, tags: ReadonlySet<number>): number {
  let ns = 0;
  for (let i = panel.tagAt[rectangle]!; i < panel.tagAt[rectangle + 1]!; i++) {
    if (tags.has(panel.tag[i]!)) ns += panel.tagNs.number(i);
  }
  return ns / length(panel, rectangle);
}

export function length(panel: Panel, rectangle: number): number {
  return panel.ends.since(rectangle, panel.starts.hi[rectangle]!, panel.starts.lo[rectangle]!);
}
