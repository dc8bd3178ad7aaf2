/** A frame: the axis, the lanes, what is selected on them, and the whole in the minimap. */

import { drawFlowArrow, type Spot } from "../shared/flow-arrow";
import { LABEL_FONT } from "../shared/box-labels";
import { duration, grouped } from "../shared/format";
import { css } from "../shared/name-colors";
import type { Lane } from "../shared/lane-tree";
import type { Minimap } from "../shared/minimap";
import type { TimeAxis } from "../shared/time-axis";
import { Viewport } from "../shared/viewport";
import { GroupLane, HATCH_PX, SpanLane, StateLane, TileLane, hatch } from "./lanes";
import type { LaneTable, Note } from "./protocol";
import { Scene } from "./scene";
import type { Band, Session, ShownFlow, Thing } from "./session";
import { OF_STATES } from "./model";
import type { FoundHit } from "./search";
import type { FileModel } from "./model";

const VEIL = 6 / 11;
const MAP_PX = 36;
const HOLD_MS = 600;
const BAND_VEIL = 0.7;
/** In shorter periods, no parts can be seen. */
const LEAST_PERIOD_PX = 3;
const BOLD_FONT = `600 ${LABEL_FONT}`;
const PADDING_PX = 5;
/** Ends of arrows that are not in view have so many chips at the edges. */
const MOST_CHIPS = 8;
const CHIP_PX = { height: 16, width: 140, gap: 2 };
/** The name of a state that a label covers is at most so long. */
const OLD_LABEL_PX = 80;

/** An end of an arrow. */
interface End {
  file: FileModel;
  lane: number;
  row: number;
  ns: bigint;
}

/** A chip at the edge of the picture: it leads to the ends of arrows that are not in view, to the first of them. */
interface Chip extends End {
  left: number;
  top: number;
  width: number;
}

/** Ends of one lane that are beyond the same edge. */
interface Outside extends End, Spot {
  /** An arrow to the edge. */
  sign: string;
  title: string;
  count: number;
}

export class Picture {
  notes: readonly Note[] = [];
  /** By 512th of the whole, how many matches of a search begin in it; null without a search. */
  bins: number[] | null = null;
  /** What was found, in order of time. */
  hits: readonly FoundHit[] = [];
  /** The pointer's distance from the left edge; null if it is elsewhere. */
  pointerX: number | null = null;
  private readonly small: Scene;
  /** The view of the last frame. */
  private seen = "";
  /** What was seen before the lanes were read again, and until when it is shown. */
  private held: { image: OffscreenCanvas; until: number } | null = null;
  private readonly chips: Chip[] = [];
  /** By lane and edge. */
  private readonly outside = new Map<string, Outside>();
  private mapped: string | null = null;
  private mapLane: TileLane | null = null;
  private mapTables: (LaneTable | null)[] = [];

  constructor(
    private readonly session: Session,
    private readonly axis: TimeAxis,
    private readonly minimap: Minimap,
  ) {
    this.small = new Scene(session.tiles, session.originNs);
  }

  recolor(): void {
    const { session } = this;
    session.scene.recolor();
    this.small.recolor();
    for (const file of session.files) file.recolor(session.scene.inks.dark);
    session.tree.invalidate();
    this.mapped = null;
  }

  /** Keeps showing what is seen until the tiles of lanes with other numbers have come. */
  hold(): void {
    const { picture } = this.session.tree;
    if (!picture.width || !picture.height) return;
    const image = new OffscreenCanvas(picture.width, picture.height);
    image.getContext("2d")!.drawImage(picture, 0, 0);
    this.held = { image, until: performance.now() + HOLD_MS };
  }

  draw(): void {
    const { session } = this;
    const { view, tree, scene } = session;
    const marks = this.axis.draw(view, tree.widthPx, session.range);
    // lanes ask for tiles when they write their pixels
    const seen = `${view.start} ${view.span}`;
    if (session.tiles.isIncomplete || seen !== this.seen) tree.invalidate();
    this.seen = seen;
    scene.begin(view, tree.widthPx);
    tree.draw({ from: 0, to: scene.spanNs }, scene.inks.background, marks.map(({ x }) => x).filter((x) => x >= 0), scene.inks.line);
    const isComplete = scene.isComplete;
    this.drawOverlay();
    if (this.held && !isComplete && performance.now() < this.held.until) {
      tree.context.drawImage(this.held.image, 0, 0, tree.widthPx, tree.heightPx);
    } else {
      this.held = null;
    }
    this.drawMap();
    scene.end();
    this.minimap.show(view);
  }

  private x(ns: bigint): number {
    return this.session.view.ratio(ns) * this.session.tree.widthPx;
  }

  private drawOverlay(): void {
    const { session } = this;
    const { tree, scene } = session;
    const { context, widthPx: width, heightPx: height } = tree;
    this.drawLost();
    this.drawBlocks();
    if (session.band) this.drawBand(session.band);
    if (session.range) {
      const left = this.x(session.range.from);
      const right = this.x(session.range.to);
      context.globalAlpha = VEIL;
      context.fillStyle = css(scene.inks.background);
      if (left > 0) context.fillRect(0, 0, Math.min(width, left), height);
      if (right < width) context.fillRect(Math.max(0, right), 0, width, height);
      context.globalAlpha = 1;
      context.fillStyle = scene.inks.accentText;
      context.fillRect(Math.round(left), 0, 1, height);
      context.fillRect(Math.round(right), 0, 1, height);
    }
    if (session.mark !== null) {
      const x = Math.round(this.x(session.mark));
      context.fillStyle = scene.inks.accentText;
      for (let y = 0; y < height; y += 7) context.fillRect(x, y, 1, 4);
      context.fillRect(x - 3, 0, 7, 3);
    }
    if (this.pointerX !== null) {
      context.globalAlpha = 0.55;
      context.fillStyle = scene.inks.faintText;
      context.fillRect(Math.round(this.pointerX), 0, 1, height);
      context.globalAlpha = 1;
    }
    this.drawNotes();
    this.chips.length = 0;
    this.outside.clear();
    for (const flow of session.flows) this.arrow(flow);
    for (const each of [...this.outside.values()].slice(0, MOST_CHIPS)) this.chip(each);
    this.drawHits();
    if (session.hovered) this.outline(session.hovered, scene.inks.faintText, 1);
    if (session.thing) this.outline(session.thing, scene.inks.accentText, 2);
  }

  /** Dims what is not in the selected part of each period. */
  private drawBand({ periodNs, originNs, from, to }: Band): void {
    const { session } = this;
    const { context, widthPx: width, heightPx: height } = session.tree;
    const period = Number(periodNs) / session.perPixel;
    if (period < LEAST_PERIOD_PX) return;
    const first = (session.view.startNs - originNs) / periodNs - 1n;
    context.globalAlpha = BAND_VEIL;
    context.fillStyle = css(session.scene.inks.background);
    for (let at = first; ; at++) {
      const begin = originNs + at * periodNs;
      // from the end of the band to its next begin
      const [left, right] = [this.x(begin + to), this.x(begin + periodNs + from)];
      if (left > width) break;
      if (right > 0) context.fillRect(Math.max(0, left), 0, Math.min(width, right) - Math.max(0, left), height);
    }
    context.globalAlpha = 1;
  }

  private outline(box: Pick<Thing, "lane" | "row" | "startNs" | "endNs">, color: string, thick: number): void {
    const { session } = this;
    const top = session.tree.topOf(box.lane);
    if (top === null) return;
    const { context, widthPx } = session.tree;
    const left = Math.max(-4, this.x(session.inView(box.lane.file, box.startNs)));
    const right = Math.min(widthPx + 4, this.x(session.inView(box.lane.file, box.endNs)));
    if (right < -2 || left > widthPx + 2) return;
    const { top: y, height } = box.lane.rowBox(box.row);
    context.strokeStyle = color;
    context.lineWidth = thick;
    context.strokeRect(left + thick / 2 - 0.5, top + y + thick / 2, Math.max(2, right - left - thick + 1), height - thick);
  }

  /** Underlines what was found by something else than its name, which is lit. */
  private drawHits(): void {
    const { session, hits } = this;
    const { tree, scene } = session;
    if (!hits.length || !scene.lit) return;
    const lanes = new Map<string, { lane: TileLane; top: number }>();
    for (const lane of session.tileLanes) {
      const top = tree.topOf(lane);
      if (top !== null && top < tree.heightPx && top + lane.height() > 0) lanes.set(`${lane.file.index} ${lane.index}`, { lane, top });
    }
    tree.context.fillStyle = css(scene.inks.found);
    // by row, up to where it is underlined: of thousands within a pixel, one is drawn
    const done = new Map<string, number>();
    for (const { file, hit, ns } of hits) {
      const found = lanes.get(`${file.index} ${hit.lane}`);
      if (!found || scene.lit(hit.name)) continue;
      const left = this.x(ns);
      const right = Math.min(tree.widthPx, Math.max(left + 2, this.x(ns + BigInt(hit.end_ns) - BigInt(hit.start_ns))));
      const { top, height } = found.lane.rowBox(hit.row);
      const y = found.top + top + height - 2;
      const row = `${hit.lane} ${y}`;
      if (left >= tree.widthPx || right <= (done.get(row) ?? 0)) continue;
      done.set(row, right);
      tree.context.fillRect(left, y, right - left, 2);
    }
  }

  private arrow(flow: ShownFlow): void {
    const from = this.point(flow.file, flow.from_lane, flow.from_row, BigInt(flow.from_ns));
    const to = this.point(flow.file, flow.to_lane, flow.to_row, BigInt(flow.to_ns));
    if (!from || !to) return;
    const { context } = this.session.tree;
    // below the labels of a row that both ends are in
    const dip = Math.abs(to.y - from.y) < 2 ? Math.min(16, 4 + Math.abs(to.x - from.x) / 8) : 0;
    context.globalAlpha = this.session.flows.length > 6 ? 0.55 : 0.9;
    drawFlowArrow(context, from, to, this.session.scene.inks.accentText, dip);
    context.globalAlpha = 1;
    this.note(flow.file, flow.from_lane, flow.from_row, BigInt(flow.from_ns), from);
    this.note(flow.file, flow.to_lane, flow.to_row, BigInt(flow.to_ns), to);
  }

  /** Notes an end of an arrow that is not in view, with those of the same lane beyond the same edge. */
  private note(file: FileModel, index: number | null, row: number, ns: bigint, { x, y }: Spot): void {
    const { tree } = this.session;
    const { widthPx, heightPx } = tree;
    const isInside = x >= 0 && x <= widthPx && y >= 0 && y <= heightPx;
    if (isInside || index === null) return;
    const sign = x < 0 ? "←" : x > widthPx ? "→" : y < 0 ? "↑" : "↓";
    const key = `${sign} ${file.index} ${index}`;
    const known = this.outside.get(key);
    if (!known) this.outside.set(key, { file, lane: index, row, ns, x, y, sign, title: this.session.laneOf(file, index)?.title ?? "", count: 1 });
    else {
      known.count++;
      if (ns < known.ns) Object.assign(known, { row, ns, x, y });
    }
  }

  /** Draws a chip at the edge for ends that are not in view. */
  private chip({ file, lane, row, ns, x, y, sign, title, count }: Outside): void {
    const { tree, scene } = this.session;
    const { context, widthPx, heightPx } = tree;
    const text = `${sign} ${scene.labels.fit(title, CHIP_PX.width)}` + (count > 1 ? ` × ${grouped(count)}` : "");
    context.font = LABEL_FONT;
    const width = context.measureText(text).width + 2 * PADDING_PX;
    const left = Math.max(2, Math.min(widthPx - width - 2, x - width / 2));
    const { height, gap } = CHIP_PX;
    let top = Math.max(2, Math.min(heightPx - height - 2, y - height / 2));
    const step = top > heightPx / 2 ? -height - gap : height + gap;
    const isTaken = () => this.chips.some((each) => Math.abs(each.top - top) < height && each.left < left + width && left < each.left + each.width);
    while (isTaken()) top += step;
    context.fillStyle = scene.inks.accentText;
    context.beginPath();
    context.roundRect(left, top, width, height, 5);
    context.fill();
    context.fillStyle = css(scene.inks.background);
    context.textBaseline = "middle";
    context.fillText(text, left + PADDING_PX, top + height / 2 + 0.5);
    this.chips.push({ left, top, width, file, lane, row, ns });
  }

  /** The chip at a point. */
  chipAt(x: number, y: number): Chip | null {
    return this.chips.find(({ left, top, width }) => x >= left && x <= left + width && y >= top && y <= top + CHIP_PX.height) ?? null;
  }

  /** Where an end of an arrow is: on its lane, or on the group in which that is closed. */
  private point(file: FileModel, index: number | null, row: number, ns: bigint): Spot | null {
    const { session } = this;
    if (index === null) return null;
    const x = this.x(session.inView(file, ns));
    const own = session.laneOf(file, index);
    for (let lane: Lane | null = own; lane; lane = session.tree.parentOf(lane)) {
      const top = session.tree.topOf(lane);
      if (top === null) continue;
      const box = lane === own ? own.rowBox(row) : { top: 0, height: lane.height() };
      return { x, y: top + box.top + box.height };
    }
    return null;
  }

  /** Draws a flag where each note begins. */
  private drawNotes(): void {
    const { session } = this;
    const { context, widthPx } = session.tree;
    context.fillStyle = session.scene.inks.accentText;
    for (const note of this.notes) {
      const file = session.files[note.file];
      if (!file) continue;
      const x = Math.round(this.x(session.inView(file, BigInt(note.start_ns))));
      if (x < -10 || x > widthPx) continue;
      context.fillRect(x, 0, 1, 20);
      context.beginPath();
      context.moveTo(x + 1, 2);
      context.lineTo(x + 10, 6.5);
      context.lineTo(x + 1, 11);
      context.fill();
    }
  }

  /** Draws a cap on each step that blocks a loop, and its shadow on what waits. */
  private drawBlocks(): void {
    const { session } = this;
    const { context, widthPx } = session.tree;
    const color = css(session.scene.inks.blocked);
    context.fillStyle = color;
    for (const file of session.files) {
      const blocks = (file.findings ?? []).filter(({ kind }) => kind === "block");
      if (!blocks.length) continue;
      const [top, bottom] = this.extent(file);
      // lanes of two runs stand between each other: those of the other one did not wait
      const hasShadow = !session.differences;
      for (const { ranges, lanes } of blocks) {
        const lane = lanes[0] === null || lanes[0] === undefined ? null : session.laneOf(file, lanes[0]);
        const at = lane && session.tree.topOf(lane);
        for (const [start, end] of ranges) {
          const left = Math.max(0, this.x(session.inView(file, BigInt(start))));
          const right = Math.min(widthPx, this.x(session.inView(file, BigInt(end))));
          if (right <= 0 || left >= widthPx) continue;
          const wide = Math.max(2, right - left);
          context.globalAlpha = session.scene.inks.dark ? 0.13 : 0.08;
          const below = at === null ? top : Math.max(top, at + lane!.height() + 2);
          if (hasShadow) context.fillRect(left, below, wide, Math.max(0, bottom - below));
          context.globalAlpha = 1;
          if (at === null) continue;
          context.fillRect(left, at - 3, wide, 3);
          if (lane instanceof StateLane) this.label(lane, at, left, right, `blocked ${duration(BigInt(end) - BigInt(start))}`);
          context.fillStyle = color;
        }
      }
    }
  }

  /** Writes what a step is in the place of the name of its state. */
  private label(lane: StateLane, top: number, left: number, right: number, text: string): void {
    const { context } = this.session.tree;
    const run = lane.runAt(left, right);
    if (!run) return;
    context.font = BOLD_FONT;
    const room = context.measureText(text).width + 2 * PADDING_PX;
    if (right - left < room) return;
    context.fillStyle = run.color;
    // the name of the state begins where the state does
    context.fillRect(run.left, top + 1, left - run.left + Math.max(room, Math.min(right - left, OLD_LABEL_PX)), lane.height() - 2);
    context.fillStyle = run.ink;
    context.textBaseline = "middle";
    context.fillText(text, left + PADDING_PX, top + lane.height() / 2);
    context.font = LABEL_FONT;
  }

  /** Hatches the ranges in which something is missing, in the lanes of their file. */
  private drawLost(): void {
    const { session } = this;
    const { tree, scene } = session;
    for (const file of session.files) {
      if (!file.info.lost_ns.length) continue;
      const bands = this.lostBands(file);
      const parts: [number, number][] = [];
      for (const [start, end] of bands.length ? file.info.lost_ns : []) {
        const left = Math.max(0, this.x(session.inView(file, BigInt(start))));
        const right = Math.min(tree.widthPx, Math.max(this.x(session.inView(file, BigInt(end))), left + 1));
        if (right <= left) continue;
        const last = parts.at(-1);
        // thousands may be in a pixel
        if (last && left <= last[1] + 1 && left >= last[0]) last[1] = Math.max(last[1], right);
        else parts.push([left, right]);
      }
      if (parts.length) hatchOver(tree.context, parts, bands, scene.inks.faintText);
    }
  }

  /** From where to where the lanes are in which something of a file is missing. */
  private lostBands(file: FileModel): [number, number][] {
    const { tree } = this.session;
    const isOfSamples = file.info.lost_of !== null;
    if (!isOfSamples && !this.session.differences) {
      const [top, bottom] = this.extent(file);
      return bottom > top ? [[top, bottom]] : [];
    }
    return tree.visible.flatMap((lane): [number, number][] => {
      if (!(lane instanceof TileLane) || lane.file !== file || (isOfSamples && !(lane.kind === "density" || lane.isEstimated))) return [];
      const top = tree.topOf(lane)!;
      return top + lane.height() > 0 && top < tree.heightPx ? [[Math.max(0, top), Math.min(tree.heightPx, top + lane.height())]] : [];
    });
  }

  /** From where to where the lanes of a file are on the screen. */
  private extent(file: FileModel): [number, number] {
    const { tree } = this.session;
    let [top, bottom] = [Infinity, -Infinity];
    for (const lane of tree.visible) {
      if (!(lane instanceof TileLane) || lane.file !== file) continue;
      const at = tree.topOf(lane)!;
      top = Math.min(top, at);
      bottom = Math.max(bottom, at + lane.height());
    }
    return [Math.max(0, top), Math.min(tree.heightPx, bottom)];
  }

  /** The lane that shows best what happens in the trace. */
  private chooseMapLane(): void {
    const { session } = this;
    const tables = session.files.map(({ table }) => table);
    if (this.mapTables.length === tables.length && tables.every((table, at) => table === this.mapTables[at])) return;
    this.mapTables = tables;
    this.mapLane = null;
    const lanes = session.tileLanes;
    const found =
      lanes.find((lane) => lane instanceof StateLane && lane.handle.startsWith("Loops/")) ??
      lanes.find((lane) => lane instanceof GroupLane && /^CPUs?$/.test(lane.title)) ??
      this.sampledGroup() ??
      most(lanes.filter((lane) => lane instanceof SpanLane && lane.kind === "stack")) ??
      lanes.find((lane) => lane instanceof GroupLane && lane.file.has(OF_STATES, lane.index)) ??
      lanes.find((lane) => !(lane instanceof GroupLane)) ??
      most(lanes);
    session.mainLane = found ?? null;
    if (!found) return;
    const { file, index } = found;
    if (found instanceof GroupLane) this.mapLane = new GroupLane(this.small, file, index, 2);
    else if (found instanceof SpanLane) this.mapLane = new SpanLane(this.small, file, index, 2, MAP_PX);
    else if (found instanceof StateLane) this.mapLane = new StateLane(this.small, file, index, 2, true);
    else this.mapLane = Reflect.construct(found.constructor, [this.small, file, index, 2]) as TileLane;
    this.mapLane.open = false;
    this.mapped = null;
  }

  /** The group with the most samples, if there are samples of several threads and no spans: one thread would be little of the whole. */
  private sampledGroup(): TileLane | undefined {
    const sampled = this.session.tileLanes.filter(({ kind }) => kind === "density");
    if (sampled.length < 2 || this.session.files.some(({ info }) => info.counts.spans)) return undefined;
    const groups = this.session.tileLanes.filter((lane) => lane instanceof GroupLane);
    const weight = (group: TileLane) => sampled.reduce((sum, lane) => sum + (lane.file === group.file && lane.file.table!.parent[lane.index] === group.index ? lane.file.table!.entities[lane.index]! : 0), 0);
    return groups.reduce<TileLane | undefined>((best, group) => (best && weight(best) >= weight(group) ? best : group), undefined);
  }

  private drawMap(): void {
    const { session, minimap, small } = this;
    this.chooseMapLane();
    const lane = this.mapLane;
    if (!minimap.widthPx) return;
    small.originNs = session.originNs;
    const whole = new Viewport(session.view.widthNs);
    small.enter(whole, minimap.widthPx);
    const state = lane ? `${small.signature(lane.file, lane.kind, lane.kind === "group" ? lane.index : lane.file.table!.block[lane.index]!)} ${minimap.widthPx} ${whole.widthNs} ${this.bins?.join() ?? ""} ${session.files.map(({ findings, info }) => `${findings?.length} ${info.lost_ns.length}`).join()}` : "";
    if (state === this.mapped || this.held) return;
    this.mapped = state;
    minimap.paint(small.inks.chrome, (image) => {
      if (lane) {
        lane.stretch *= MAP_PX / lane.height();
        lane.draw(image, Math.max(0, MAP_PX + 2 - lane.height()));
      }
      for (const file of session.files) {
        let done = -1;
        for (const [start, end] of file.info.lost_of === null ? file.info.lost_ns : []) {
          const left = Math.max(done, whole.ratio(session.inView(file, BigInt(start))) * image.width);
          const right = whole.ratio(session.inView(file, BigInt(end))) * image.width;
          if (right <= done) continue;
          hatch(image, left, right, 0, MAP_PX + 4, small.inks);
          done = Math.ceil(Math.max(right, left + 1));
        }
        for (const { kind, ranges } of file.findings ?? []) {
          if (kind !== "block") continue;
          for (const [start, end] of ranges) {
            const left = whole.ratio(session.inView(file, BigInt(start))) * image.width;
            const right = whole.ratio(session.inView(file, BigInt(end))) * image.width;
            image.fill(Math.round(left), 0, Math.max(2, Math.round(right - left)), Math.round(3 * image.ratio), small.inks.blocked);
          }
        }
      }
      for (const [bin, count] of (this.bins ?? []).entries()) {
        if (count) image.fill(Math.round((bin / 512) * image.width), 0, Math.max(2, Math.round(image.width / 512)), Math.round(6 * image.ratio), small.inks.found);
      }
    });
  }
}

function most(lanes: TileLane[]): TileLane | undefined {
  const weight = (lane: TileLane) => lane.file.table!.entities[lane.index]!;
  return lanes.reduce<TileLane | undefined>((best, lane) => (best && weight(best) >= weight(lane) ? best : lane), undefined);
}

/** Hatches parts of the width in bands of the height; without a clip, see `LaneTree.draw`. */
function hatchOver(context: CanvasRenderingContext2D, parts: readonly [number, number][], bands: readonly [number, number][], color: string): void {
  const ratio = devicePixelRatio || 1;
  const step = Math.round(HATCH_PX * ratio);
  const tile = new OffscreenCanvas(step, step);
  const pen = tile.getContext("2d")!;
  pen.fillStyle = color;
  for (let y = 0; y < step; y++) pen.fillRect(step - 1 - y, y, 1, 1);
  const pattern = context.createPattern(tile, "repeat")!;
  pattern.setTransform({ a: 1 / ratio, d: 1 / ratio });
  context.save();
  context.globalAlpha = 0.34;
  context.fillStyle = pattern;
  for (const [top, bottom] of bands) for (const [left, right] of parts) context.fillRect(left, top, right - left, bottom - top);
  context.restore();
}
