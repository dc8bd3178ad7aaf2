/** Two runs on one page: where a state, or spans of a name, take more of the time of one, lane by lane. */

import { h, name } from "../shared/dom";
import { LABEL_FONT } from "../shared/box-labels";
import { number } from "../shared/counter-lane";
import { grouped, share } from "../shared/format";
import type { LaneImage } from "../shared/lane-image";
import { pixelOf } from "../shared/lane-image";
import type { Lane } from "../shared/lane-tree";
import { atRight } from "./lanes";
import type { TileLane } from "./lanes";
import type { FileModel } from "./model";
import type { ComparedRow, ComparisonInfo, Kind, LaneShares } from "./protocol";
import type { Session } from "./session";
import { SourceError } from "./source";

const HEIGHT_PX = 26;
/** Lanes so near to what is in view are asked for, too. */
const NEAR_PX = 200;
const MOST_LANES = 200;
const MOST_BINS = 4096;
const SCALES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

const KINDS: Record<"state" | "span", ReadonlySet<Kind>> = {
  state: new Set<Kind>(["group", "state", "packed"]),
  span: new Set<Kind>(["stack", "async"]),
};

/** The shares of both sides in bins of equal width. */
interface Found {
  key: string;
  /** In nanoseconds from the left edge of the whole. */
  from: bigint;
  to: bigint;
  /** By the number of the lane before. */
  before: Map<number, number[]>;
  after: Map<number, number[]>;
}

export class Differences {
  /** The selected row of the comparison; null if there is none. */
  row: ComparedRow | null;
  private found: Found | null = null;
  private asked = "";
  private failed = "";
  private request: AbortController | null = null;
  /** What fills half the height of a lane that is not a group. */
  private scale = 1;
  private readonly afterOf: ReadonlyMap<number, number>;
  private readonly beforeOf: ReadonlyMap<number, number>;

  constructor(
    private readonly session: Session,
    readonly info: ComparisonInfo,
    private readonly changed: () => void,
  ) {
    this.row = info.rows.find(({ noticeable }) => noticeable) ?? info.rows[0] ?? null;
    this.afterOf = new Map(info.pairs);
    this.beforeOf = new Map(info.pairs.map(([before, after]) => [after, before]));
  }

  /** What is drawn: the name of a state or of spans; null if rows have none. */
  get name(): string | null {
    return this.info.lanes_of === null ? null : (this.row?.key.at(-1) ?? null);
  }

  /** The lane that is the same one in the other file; -1 if there is none. */
  counterpart(file: FileModel, lane: number): number {
    return (file.index === 0 ? this.afterOf : this.beforeOf).get(lane) ?? -1;
  }

  /** What the side of a file is called. */
  sideOf(file: FileModel): "before" | "after" {
    return file.index === 0 ? "before" : "after";
  }

  /** Which run of its side a file is, and what it has at the same time as the other one. */
  aboutOf(file: FileModel): string {
    const { runs, shown, align } = this.info;
    const at = file.index === 0 ? 0 : 1;
    const run = runs[at] === 1 ? "" : `run ${grouped(shown[at] + 1)} of ${grouped(runs[at])}, nearest to their mean`;
    const place = align === "start" ? "begins with the other" : align === "end" ? "ends with the other" : `aligned at “${align}”`;
    return [run, at ? place : ""].filter(Boolean).join("; ");
  }

  /** Whether a kind of lanes has differences. */
  isOf(kind: Kind): boolean {
    return this.info.lanes_of !== null && KINDS[this.info.lanes_of].has(kind);
  }

  /** The colour of more, or of less. */
  ink(isMore: boolean): string {
    const { more, less } = this.info.colors;
    return (isMore ? more : less)[this.session.scene.inks.dark ? 1 : 0];
  }

  choose(row: ComparedRow): void {
    if (row === this.row) return;
    this.row = row;
    this.found = null;
    this.asked = "";
    // another kind of entities has other lanes
    this.session.list();
  }

  /** Whether a lane may have what is drawn: of states, those of the row's kind of entities. */
  isIn(lane: TileLane): boolean {
    const kind = this.info.names[0] === "kind" ? this.row?.key[0] : "";
    const { name: names, parent } = lane.file.table!;
    if (!this.isOf(lane.kind) || !kind || !names.includes(kind)) return this.isOf(lane.kind);
    for (let at = lane.index; at >= 0; at = parent[at]!) if (names[at] === kind) return true;
    return false;
  }

  /** Whether what is in view is not known yet. */
  get isWaiting(): boolean {
    return this.request !== null || (this.wanted !== "" && this.wanted !== this.failed && this.found?.key !== this.wanted);
  }

  private get inView(): DifferenceLane[] {
    const { tree } = this.session;
    return tree.visible
      .filter((lane): lane is DifferenceLane => {
        const top = lane instanceof DifferenceLane ? tree.topOf(lane) : null;
        return top !== null && top > -NEAR_PX && top < tree.heightPx + NEAR_PX;
      })
      .slice(0, MOST_LANES);
  }

  /** Names the range and the lanes that are to be known; empty if there are none. */
  private get wanted(): string {
    const { view, tree, originNs, files } = this.session;
    const lanes = this.inView;
    if (!lanes.length || !tree.widthPx || this.name === null) return "";
    const moved = files.map((file) => `${file.offsetNs} ${file.info.version}`);
    return [this.name, view.startNs, view.endNs, tree.widthPx, originNs, ...moved, ...lanes.map(({ before }) => before.index)].join(" ");
  }

  /** Asks for the shares of what is in view, unless they are known or asked for. */
  ask(): void {
    const key = this.wanted;
    if (!key || key === this.found?.key || key === this.asked) return;
    // what comes is drawn meanwhile: the next question follows it
    if (this.request) return;
    this.asked = key;
    const request = (this.request = new AbortController());
    void this.askFor(key, request.signal)
      .catch((reason: unknown) => {
        // lanes with other numbers are asked about again
        if (!(reason instanceof SourceError)) throw reason;
        if (reason.status !== 410) this.session.tiles.problem = reason.message;
        this.failed = key;
      })
      .finally(() => {
        this.request = null;
        this.changed();
      });
  }

  private async askFor(key: string, signal: AbortSignal): Promise<void> {
    const { session } = this;
    const { view, originNs } = session;
    const [from, to] = [view.startNs, view.endNs > view.startNs ? view.endNs : view.startNs + 1n];
    const width = Math.round(session.tree.widthPx * (devicePixelRatio || 1));
    const bins = Math.max(1, Math.min(MOST_BINS, width, Number(to - from)));
    const lanes = this.inView.map(({ before, after }) => [before.index, after.index] as const);
    const asking = ([0, 1] as const).map((side) => {
      const file = session.files[side]!;
      const start = from + originNs - file.offsetNs;
      const where = { file: file.index, layout: file.table!.layout, from: start, to: start + to - from };
      return session.source.ask("shares", { ...where, name: this.name, bins, lanes: lanes.map((pair) => pair[side]).join() }, signal);
    });
    const [before, after] = (await Promise.all(asking)) as [LaneShares, LaneShares];
    const sharesOf = (found: LaneShares) => new Map(lanes.map(([lane], at) => [lane, found.shares[at]!]));
    this.found = { key, from, to, before: sharesOf(before), after: sharesOf(after) };
    const most = Math.max(0, ...this.inView.filter((lane) => !lane.isCount).map((lane) => this.most(lane)));
    this.scale = SCALES.find((each) => each >= most - 1e-6) ?? most;
    session.tree.invalidate();
  }

  /** The greatest difference of a lane in view. */
  most({ before }: DifferenceLane): number {
    const [less, more] = [this.found?.before.get(before.index), this.found?.after.get(before.index)];
    return less && more ? less.reduce((most, each, bin) => Math.max(most, Math.abs(more[bin]! - each)), 0) : 0;
  }

  /** What fills half the height of a lane. */
  scaleOf(lane: DifferenceLane): number {
    if (!lane.isCount) return this.scale;
    const most = this.most(lane);
    return SCALES.find((each) => each >= most - 1e-6) ?? Math.ceil(most);
  }

  /** Calls with the shares of each bin of a lane, and where it is in device pixels. */
  bins({ before }: DifferenceLane, width: number, each: (before: number, after: number, left: number, right: number) => void): void {
    const { found, session } = this;
    const [less, more] = [found?.before.get(before.index), found?.after.get(before.index)];
    if (!found || !less || !more) return;
    const left = session.view.ratio(found.from) * width;
    const step = (session.view.ratio(found.to) * width - left) / less.length;
    less.forEach((value, bin) => each(value, more[bin]!, left + bin * step, left + (bin + 1) * step));
  }

  /** What the tooltip says of a place of a lane. */
  tip(lane: DifferenceLane, x: number): Node[] {
    let lines: Node[] = [];
    const { isCount } = lane;
    const amount = (value: number) => (isCount ? `${number(Number(value.toPrecision(3)))} at once` : share(value));
    this.bins(lane, this.session.tree.widthPx, (before, after, left, right) => {
      if (x < left || x >= right) return;
      const change = after - before;
      const sign = change > 0 ? "+" : change < 0 ? "−" : "±";
      const size = isCount ? number(Number(Math.abs(change).toPrecision(3))) : `${(100 * Math.abs(change)).toFixed(1)} points`;
      const row = (text: string, value: number) => h("div", { class: "tip-row" }, h("i", { class: "swatch none" }), text, h("span", { class: "amount" }, amount(value)));
      lines = [
        h("div", { class: "tip-head" }, h("i", { class: "swatch", style: change ? `background:${this.ink(change > 0)}` : "" }), name(this.name ?? ""), h("span", { class: "amount" }, sign + size)),
        row("before", before),
        row("after", after),
        h("div", { class: "muted" }, "in this pixel"),
      ];
    });
    return lines;
  }
}

/** Between a lane and its counterpart: bars of more upwards, of less downwards. */
export class DifferenceLane implements Lane {
  readonly title = "difference";
  readonly opens = false;
  open = true;

  constructor(
    private readonly differences: Differences,
    private readonly session: Session,
    readonly before: TileLane,
    readonly after: TileLane,
  ) {}

  get kind(): Kind {
    return this.before.kind;
  }

  /** Whether several entities may have a state at once. */
  get isCount(): boolean {
    return this.kind === "group" || this.kind === "packed";
  }

  get level(): number {
    return this.before.level;
  }

  get detail(): string {
    return this.differences.name ?? "";
  }

  get key(): string {
    return `difference ${this.before.key}`;
  }

  height(): number {
    return HEIGHT_PX;
  }

  draw(image: LaneImage, top: number): void {
    const { differences, session } = this;
    const { ratio, width } = image;
    const middle = Math.round((top + HEIGHT_PX / 2) * ratio);
    const half = (HEIGHT_PX / 2 - 1) * ratio;
    const scale = differences.scaleOf(this);
    const [more, less] = [pixelOf(differences.ink(true)), pixelOf(differences.ink(false))];
    image.fill(0, middle, width, Math.max(1, Math.round(ratio)), session.scene.inks.line2);
    differences.bins(this, width, (before, after, left, right) => {
      const change = after - before;
      if (!change) return;
      const x = Math.max(0, Math.round(left));
      const wide = Math.min(width, Math.max(x + 1, Math.round(right))) - x;
      const tall = Math.max(1, Math.round((Math.min(scale, Math.abs(change)) / scale) * half));
      if (wide > 0) image.fill(x, change > 0 ? middle - tall : middle + 1, wide, tall, change > 0 ? more : less);
    });
  }

  drawOver(context: CanvasRenderingContext2D, top: number): void {
    if (!this.differences.most(this)) return;
    const scale = this.differences.scaleOf(this);
    const { isCount } = this;
    context.font = LABEL_FONT;
    atRight(context, `± ${isCount ? `${number(scale)} at once` : `${number(100 * scale)} %`}`, this.session.scene, top + HEIGHT_PX / 2);
  }
}
