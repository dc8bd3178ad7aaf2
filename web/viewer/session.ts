/** What the page shows and what is selected on it. */

import { type Zone, zoneOf } from "../shared/format";
import type { Lane } from "../shared/lane-tree";
import { LaneTree } from "../shared/lane-tree";
import { GRAINS, Viewport } from "../shared/viewport";
import { isCalled } from "./lane-filter";
import { CounterLane, DensityLane, FileLane, GroupLane, PackedLane, SpanLane, StateLane, TileLane } from "./lanes";
import { DifferenceLane, Differences } from "./differences";
import { FileModel } from "./model";
import type { Activity, At, Context, Flow, Hit, Kind, LaneTable, SessionInfo } from "./protocol";
import { Scene } from "./scene";
import type { NamesOf, Source } from "./source";
import { SourceError } from "./source";
import { TileStore } from "./tile-store";

const MOVE_MS = 180;
/** Of files with more lanes, those in groups that were never open are not made. */
const MOST_MADE = 20_000;
/** The groups of files with more lanes are closed at first, */
const MOST_OPEN = 200;
/** except small ones at the top, while they have so many lanes together. */
const SMALL_GROUP = 8;
const MOST_IN_SMALL = 24;
/** and the first of those with states or calls, whose busiest lanes are then in view, unless it has more lanes. */
const MOST_BUSY = 500;
const BUSY: ReadonlySet<Kind> = new Set<Kind>(["state", "stack"]);
/** Files are far apart if so many times as much is between them as both are long. */
const FAR_APART = 10n;
/** All is shown at first unless it is so many times as long as where nearly everything is. */
const FAR_FROM_CORE = 4n;
/** So many lanes are asked for by their paths at once. */
const MOST_PATHS = 50;
/** What is shown at the deepest zoom. */
const FEWEST_NS = 20n;
const BIG = /^(Loops|CPUs)\//;

/** What is not known of a file while it is being read. */
const UNKNOWN = {
  offset_ns: "0",
  aligned: "first",
  clock: { kind: null, host: null, utc_at_origin_ns: null },
  start_ns: null,
  end_ns: null,
  lost_ns: [],
  lost_rest: 0,
  lost_of: null,
  groupings: [],
  anomalies: [],
  core: null,
  entities: 0,
  facts: {},
  counts: {},
  version: 0,
  layout: null,
};

/** A range in nanoseconds from the left edge of the whole. */
export interface Range {
  from: bigint;
  to: bigint;
}

/** A span, an entity, or a state of one: in the time of its file. */
export interface Thing {
  lane: TileLane;
  row: number;
  name: string;
  startNs: bigint;
  endNs: bigint;
  span: number | null;
  at: At | null;
  /** What is around it; not known at first. */
  context?: Context;
}

/** A part of every period: offsets in nanoseconds, and where a period begins in the view. */
export interface Band {
  periodNs: bigint;
  originNs: bigint;
  from: bigint;
  to: bigint;
}

export interface ShownFlow extends Flow {
  file: FileModel;
}

/**
 * How lanes are sorted: what matters most first, as in the trace, by name, by their first activity, by their time in spans or
 * states, or in one state.
 */
export type Order = "main" | "trace" | "name" | "first" | "busy" | `in ${string}`;

export class Session {
  readonly tiles: TileStore;
  readonly scene: Scene;
  readonly view: Viewport;
  readonly tree: LaneTree;
  files: FileModel[] = [];
  lanes: Lane[] = [];
  tileLanes: TileLane[] = [];
  /** By file, its lanes by their numbers, as far as they are made. */
  private readonly ofFile = new Map<FileModel, (TileLane | undefined)[]>();
  private readonly heads = new Map<FileModel, FileLane>();
  /** By lane before, what differs from its counterpart. */
  private readonly betweens = new Map<TileLane, DifferenceLane>();
  /** Requests for names of lanes that have no answer yet. */
  private readonly naming = new Map<string, Promise<void>>();
  /** What lanes are filtered by. */
  private wanted = "";
  originNs = 0n;
  /** The zone that the page was opened with; null is UTC. */
  zone: Zone | null = null;
  range: Range | null = null;
  /** The file that was chosen at the top of the page. */
  chosen: FileModel | null = null;
  /** The range with which statistics are compared. */
  base: Range | null = null;
  /** What is selected of every period in the heat map. */
  band: Band | null = null;
  /** A marked time, in nanoseconds from the left edge of the whole. */
  mark: bigint | null = null;
  thing: Thing | null = null;
  /** What is to be in view once the lanes have the heights of their new range. */
  private revealed: Thing | null = null;
  /** Its arrows. */
  flows: ShownFlow[] = [];
  hovered: { lane: TileLane; row: number; startNs: bigint; endNs: bigint } | null = null;
  /** Lanes that differ from how they are at first. */
  private readonly toggled = new Map<string, boolean>();
  private moving = 0;
  /** The lane that shows best what happens. */
  mainLane: TileLane | null = null;
  /** What the files are compared for; null if they are not. */
  readonly differences: Differences | null;

  constructor(
    readonly source: Source,
    public info: SessionInfo,
    private readonly changed: () => void,
    /** Called when the selection is another one. */
    private readonly selected: () => void,
  ) {
    this.tiles = new TileStore(
      source,
      (raw, of) => this.files[of.file]!.complete(raw, of),
      () => {
        this.tree.invalidate();
        changed();
      },
    );
    this.scene = new Scene(this.tiles, 0n);
    this.view = new Viewport(1n, FEWEST_NS);
    this.tree = new LaneTree(changed);
    this.tree.toggled = (lane) => {
      if (!(lane instanceof TileLane)) return;
      this.toggled.set(lane.key, lane.open);
      const isNew = lane.open && this.makeInside(lane);
      if (this.differences) this.toggleOther(lane);
      if (isNew || this.differences) this.list();
    };
    this.differences = info.comparison ? new Differences(this, info.comparison, changed) : null;
    this.update(info);
  }

  /** Takes a newer state of the session; returns the files whose lanes are to be read. */
  update(info: SessionInfo): FileModel[] {
    const unread: FileModel[] = [];
    // a file that is being read has not all of them yet
    info.files.forEach((given, index) => {
      const file = (info.files[index] = { ...UNKNOWN, ...given });
      let model = this.files[index];
      if (!model) this.files.push((model = new FileModel(index, file)));
      else {
        if (model.info.version !== file.version || model.info.offset_ns !== file.offset_ns) this.tiles.refresh(index);
        model.info = file;
      }
      if (file.layout !== null && model.table?.layout !== file.layout) unread.push(model);
    });
    this.info = info;
    this.zone = zoneOf(info.zone);
    this.place();
    this.tree.invalidate();
    this.changed();
    return unread;
  }

  /** Makes the axis that of all files, where they are now; what is in view stays. */
  place(): void {
    const bounds = this.files.flatMap((file) => (file.info.start_ns === null || file.info.end_ns === null ? [] : [[BigInt(file.info.start_ns) + file.offsetNs, BigInt(file.info.end_ns) + file.offsetNs] as const]));
    if (!bounds.length) return;
    const start = bounds.reduce((least, [each]) => (each < least ? each : least), bounds[0]![0]);
    const end = bounds.reduce((most, [, each]) => (each > most ? each : most), bounds[0]![1]);
    const { view } = this;
    const isFirst = view.widthNs === 1n;
    const [from, to] = [view.startNs + this.originNs, view.endNs + this.originNs];
    const { isWhole } = view;
    const moved = start - this.originNs;
    this.originNs = this.scene.originNs = start;
    view.grow(end > start ? end - start : 1n);
    if (isFirst || isWhole) view.reset();
    else if (moved) view.show(from - start, to - start);
    if (moved && !isFirst && this.base) this.base = { from: this.base.from - moved, to: this.base.to - moved };
    if (moved && !isFirst && this.band) this.band = { ...this.band, originNs: this.band.originNs - moved };
    if (moved && !isFirst && this.mark !== null) this.mark -= moved;
    if (moved && !isFirst && this.range) this.range = { from: this.range.from - moved, to: this.range.to - moved };
  }

  /** Moves a file so that it begins at a time of the axis. */
  move(file: FileModel, ns: bigint): void {
    if (file.info.start_ns === null) return;
    file.movedNs += ns + this.originNs - file.offsetNs - BigInt(file.info.start_ns);
    this.place();
    this.tree.invalidate();
    this.selected();
    this.changed();
  }

  /**
   * Reads the lanes of a file, of its present layout.
   *
   * @param replacing Called if none of the tiles that it had can be shown meanwhile.
   */
  async read(file: FileModel, replacing: () => void): Promise<void> {
    const { source, tree } = this;
    const table = await source.lanes(file.index, file.info.layout!);
    const place = file.table && placesIn(file.table, table);
    if (!place || !this.tiles.carry(file.index, table.layout, place)) {
      if (file.table) replacing();
      this.tiles.drop(file.index);
    }
    file.adopt(table);
    const { pins, hidden } = tree.marks;
    const shown = [...pins, ...hidden].map((index) => this.lanes[index]).concat(tree.current ?? []);
    await this.call(file, [...shown.flatMap((lane) => (lane instanceof TileLane ? lane.key : [])), ...this.moves.flat()]);
    file.recolor(this.scene.inks.dark);
    // what refers to lanes of the layout before
    if (this.thing?.lane.file === file) this.thing = null;
    if (this.revealed?.lane.file === file) this.revealed = null;
    if (this.hovered?.lane.file === file) this.hovered = null;
    this.flows = this.flows.filter((flow) => flow.file !== file);
    this.arrange();
  }

  /** Makes the lanes of all files. */
  private arrange(): void {
    const before = new Map(this.tileLanes.map((lane) => [lane.key, lane]));
    const { tree } = this;
    const keys = (indices: number[]) => new Set(indices.map((index) => (this.lanes[index] as TileLane).key));
    const marks = { pins: keys(tree.marks.pins), hidden: keys(tree.marks.hidden) };
    const current = tree.current instanceof TileLane ? tree.current.key : null;
    const moves = this.moves;
    for (const file of this.files) {
      this.heads.set(file, new FileLane(this.scene, file, this.differences?.sideOf(file), this.differences?.aboutOf(file)));
      const { table } = file;
      if (!table) continue;
      this.ofFile.set(file, []);
      const isLarge = table.count > MOST_MADE;
      let inSmall = 0;
      let isBusyOpen = false;
      for (let index = 0; index < table.count; index++) {
        const parent = table.parent[index]!;
        if (isLarge && parent >= 0 && !this.made(file, parent)?.open) continue;
        const lane = this.added(file, index);
        if (lane instanceof GroupLane && table.count > MOST_OPEN) {
          const count = file.children[index]!.length;
          lane.open = parent < 0 && count <= SMALL_GROUP && inSmall + count <= MOST_IN_SMALL;
          if (lane.open) inSmall += count;
          else if (parent < 0 && !isBusyOpen && !isLarge && count <= MOST_BUSY && BUSY.has(table.kind[file.children[index]![0]!]!)) lane.open = isBusyOpen = true;
        }
        const old = before.get(lane.key);
        // whether a group is open follows from the lanes that there are now, not from when the page was opened
        if (old && !(lane instanceof GroupLane)) lane.open = old.open;
        const open = this.toggled.get(lane.key);
        if (open !== undefined) lane.open = open;
      }
    }
    this.list();
    const found = (of: Set<string>) => this.lanes.flatMap((lane, index) => (lane instanceof TileLane && of.has(lane.key) ? [index] : []));
    if (marks.pins.size || marks.hidden.size) tree.marks = { pins: found(marks.pins), hidden: found(marks.hidden) };
    if (current !== null) tree.current = this.laneByKey(current);
    if (moves.length) this.moves = moves;
  }

  /** Shows the lanes that are made. */
  list(): void {
    this.lanes = [];
    this.tileLanes = [];
    if (this.differences) this.listPairs(this.differences);
    else this.listFiles();
    this.tree.show(this.lanes);
  }

  private listFiles(): void {
    for (const file of this.files) {
      this.lanes.push(this.heads.get(file)!);
      // a loop over what is there: a million may not be
      this.ofFile.get(file)?.forEach((lane) => {
        if (!lane) return;
        this.lanes.push(lane);
        this.tileLanes.push(lane);
      });
    }
  }

  /** Lists each lane of the first file above its counterpart in the other, and what differs between them. */
  private listPairs(differences: Differences): void {
    const [first, last] = this.files;
    for (const file of this.files) this.lanes.push(this.heads.get(file)!);
    // until both are known, all lanes would be of one side only
    if (!first?.table || !last?.table) return;
    const add = (lane: TileLane, side: string): void => {
      lane.side = side;
      this.lanes.push(lane);
      this.tileLanes.push(lane);
    };
    const listInside = (before: readonly number[], after: readonly number[]): void => {
      for (const index of before) {
        const lane = this.made(first, index);
        if (!lane) continue;
        const other = this.made(last, differences.counterpart(first, index));
        if (!other) {
          add(lane, "only before");
          if (lane.kind === "group") listInside(first.children[index]!, []);
        } else if (lane.kind === "group" && lane.open) {
          // one heading for both
          add(lane, "");
          other.open = true;
          this.tileLanes.push(other);
          listInside(first.children[index]!, last.children[other.index]!);
        } else {
          if (lane.kind === "group") other.open = false;
          add(lane, "before");
          if (differences.isIn(lane)) this.lanes.push(this.between(differences, lane, other));
          add(other, "after");
        }
      }
      for (const index of after) {
        const lane = this.made(last, index);
        if (!lane || differences.counterpart(last, index) >= 0) continue;
        add(lane, "only after");
        if (lane.kind === "group") listInside([], last.children[index]!);
      }
    };
    listInside(first.roots, last.roots);
  }

  /** The lane of what differs between two. */
  private between(differences: Differences, before: TileLane, after: TileLane): DifferenceLane {
    let found = this.betweens.get(before);
    if (found?.after !== after) this.betweens.set(before, (found = new DifferenceLane(differences, this, before, after)));
    return found!;
  }

  /** Opens or closes the counterpart of a lane, too. */
  private toggleOther(lane: TileLane): void {
    const other = this.otherOf(lane);
    if (!other) return;
    other.open = lane.open;
    this.toggled.set(other.key, other.open);
    if (other.open) this.makeInside(other);
  }

  /** The lane that is the same one in the file that this one is compared with. */
  otherOf(lane: TileLane): TileLane | null {
    const file = this.files[lane.file.index === 0 ? 1 : 0];
    return (this.differences && file && this.made(file, this.differences.counterpart(lane.file, lane.index))) ?? null;
  }

  private made(file: FileModel, index: number): TileLane | undefined {
    return this.ofFile.get(file)?.[index];
  }

  private added(file: FileModel, index: number): TileLane {
    const parent = file.table!.parent[index]!;
    const lane = this.make(file, index, parent < 0 ? 2 : this.made(file, parent)!.level + 1);
    if (file.table!.name[index] === null) this.nameWithin(file, parent);
    lane.title = file.titleOf(index);
    this.ofFile.get(file)![index] = lane;
    return lane;
  }

  /** Whether names of lanes are still to come. */
  get isNaming(): boolean {
    return this.naming.size > 0;
  }

  /** Waits for the names of the lanes that are made. */
  async named(): Promise<void> {
    while (this.isNaming) await Promise.all(this.naming.values());
  }

  /** Reads the names of lanes in a part of a large group. */
  private nameWithin(file: FileModel, group: number): void {
    const key = `${file.index}/${file.table!.layout}/${group}`;
    if (this.naming.has(key)) return;
    this.naming.set(
      key,
      this.askNames(file, { within: group }).finally(() => this.naming.delete(key)),
    );
  }

  /** Reads the names of the lanes of a file with these keys. */
  async call(file: FileModel, keys: string[]): Promise<void> {
    if (!file.hasNameless) return;
    const own = `${file.index}:`;
    const paths = keys.filter((key) => key.startsWith(own)).map((key) => key.slice(own.length));
    for (let at = 0; at < paths.length; at += MOST_PATHS) await this.askNames(file, { paths: paths.slice(at, at + MOST_PATHS) });
  }

  private async askNames(file: FileModel, of: NamesOf): Promise<void> {
    const { table } = file;
    try {
      const names = await this.source.names(file.index, table!.layout, of);
      if (file.table !== table) return;
      file.call(names);
      for (const index of names.lane) {
        const lane = this.made(file, index);
        if (!lane) continue;
        lane.title = file.titleOf(index);
        lane.open = this.toggled.get(lane.key) ?? lane.open;
      }
      this.tree.arrange();
      this.changed();
    } catch (reason) {
      // those of a newer layout are read with it
      if (!(reason instanceof SourceError)) throw reason;
      if (reason.status !== 410) this.tiles.problem = reason.message;
    }
  }

  /** Makes the lanes inside a group that is open now, and in its open groups; returns whether there are new ones. */
  private makeInside({ file, index }: TileLane): boolean {
    let isNew = false;
    for (const child of file.children[index]!) {
      let lane = this.made(file, child);
      if (!lane) {
        lane = this.added(file, child);
        if (lane instanceof GroupLane) lane.open = this.toggled.get(lane.key) ?? false;
        isNew = true;
      }
      if (lane.open && lane instanceof GroupLane) isNew = this.makeInside(lane) || isNew;
    }
    return isNew;
  }

  /** The lanes that were moved by hand, in that order: the key of each, and that of the one it was put before. */
  get moves(): [key: string, before: string][] {
    return this.tree.moves.map(([lane, before]) => [(lane as TileLane).key, before instanceof TileLane ? before.key : ""]);
  }

  set moves(moves: [key: string, before: string][]) {
    this.tree.moves = moves.flatMap(([key, before]): [Lane, Lane | null][] => {
      const lane = this.laneByKey(key);
      return lane ? [[lane, before ? this.laneByKey(before) : null]] : [];
    });
  }

  openAll(isOpen: boolean): void {
    let count = 0;
    for (const lane of this.tileLanes) {
      if (!lane.opens || lane.open === isOpen) continue;
      if (isOpen && lane instanceof GroupLane) count += lane.file.children[lane.index]!.length;
      if (count > MOST_MADE) break;
      lane.open = isOpen;
      this.toggled.set(lane.key, isOpen);
      if (isOpen && lane instanceof GroupLane) this.makeInside(lane);
    }
    this.list();
  }

  /** How lanes compare by when they are first active, otherwise by their time; a group is as those in it together. */
  byActivity(found: ReadonlyMap<FileModel, Activity>, isFirst: boolean): (one: Lane, other: Lane) => number {
    const values = new Map<FileModel, (bigint | undefined)[]>();
    const latest = 1n << 63n;
    const ofLane = (file: FileModel, index: number): bigint => {
      let known = values.get(file);
      if (!known) values.set(file, (known = []));
      let value = known[index];
      if (value !== undefined) return value;
      const activity = found.get(file);
      const first = activity?.first_ns[index];
      value = isFirst ? (first ? BigInt(first) : latest) : -BigInt(activity?.time_ns[index] ?? 0);
      for (const child of file.children[index]!) {
        const own = ofLane(file, child);
        value = isFirst ? (own < value ? own : value) : value + own;
      }
      return (known[index] = value);
    };
    const valueOf = (each: Lane): bigint => {
      const lane = this.leaderOf(each);
      return lane instanceof TileLane ? ofLane(lane.file, lane.index) : 0n;
    };
    return (one, other) => {
      const [a, b] = [valueOf(one), valueOf(other)];
      return a < b ? -1 : a > b ? 1 : 0;
    };
  }

  /** The lane by which one is sorted: those of a pair stay together. */
  leaderOf(lane: Lane): Lane {
    if (lane instanceof DifferenceLane) return lane.before;
    return this.differences && lane instanceof TileLane && lane.file.index > 0 ? (this.otherOf(lane) ?? lane) : lane;
  }

  /**
   * How lanes compare by what matters: of a process its main thread, then threads by their work; processes by that of their
   * threads. Other lanes and groups stay where the trace has them.
   */
  byImportance(found: ReadonlyMap<FileModel, Activity>): (one: Lane, other: Lane) => number {
    const files = new Map<FileModel, (lane: number) => Importance>();
    const keys = new Map<TileLane, Importance>();
    const keyOf = (lane: TileLane) => {
      let key = keys.get(lane);
      if (key) return key;
      let ofFile = files.get(lane.file);
      if (!ofFile) files.set(lane.file, (ofFile = importanceOf(lane.file, found.get(lane.file))));
      keys.set(lane, (key = ofFile(lane.index)));
      return key;
    };
    return (one, other) => {
      if (!(one instanceof TileLane && other instanceof TileLane)) return 0;
      const [a, b] = [keyOf(one), keyOf(other)];
      const at = a.findIndex((each, part) => each !== b[part]);
      return at < 0 ? 0 : a[at]! - b[at]!;
    };
  }

  /** Where nearly everything in the files is, with some room; null if that is most of the whole. */
  get core(): Range | null {
    const ready = this.files.filter(({ info }) => info.start_ns !== null);
    if (!ready.some(({ info }) => info.core)) return null;
    const ranges = ready.map((file) => [file.info.core?.start_ns ?? file.info.start_ns!, file.info.core?.end_ns ?? file.info.end_ns!].map((ns) => this.inView(file, BigInt(ns))) as [bigint, bigint]);
    const from = ranges.reduce((least, [each]) => (each < least ? each : least), ranges[0]![0]);
    const to = ranges.reduce((most, [, each]) => (each > most ? each : most), ranges[0]![1]);
    if ((to - from) * FAR_FROM_CORE > this.view.widthNs) return null;
    const room = (to - from) / 50n;
    return { from: from > room ? from - room : 0n, to: to + room < this.view.widthNs ? to + room : this.view.widthNs };
  }

  private make(file: FileModel, index: number, level: number): TileLane {
    const { kind, handle } = file.table!;
    switch (kind[index]!) {
      case "group":
        return new GroupLane(this.scene, file, index, level);
      case "state":
        return new StateLane(this.scene, file, index, level, BIG.test(handle[index]!));
      case "packed":
        return new PackedLane(this.scene, file, index, level);
      case "stack":
      case "async":
        return new SpanLane(this.scene, file, index, level);
      case "counter":
        return new CounterLane(this.scene, file, index, level);
      case "density":
      case "points":
        return new DensityLane(this.scene, file, index, level);
    }
  }

  laneOf(file: FileModel, index: number): TileLane | null {
    const found = this.made(file, index);
    if (found) return found;
    if (!file.table || !(index >= 0 && index < file.table.count)) return null;
    this.makeAlone(file, index);
    this.list();
    return this.made(file, index)!;
  }

  /** Makes a lane inside of groups that are closed, and these, but no other lane there. */
  private makeAlone(file: FileModel, index: number): void {
    const { parent } = file.table!;
    const path = [index];
    for (let above = parent[index]!; above >= 0 && !this.made(file, above); above = parent[above]!) path.unshift(above);
    for (const each of path) this.added(file, each).open = false;
  }

  laneByKey(key: string): TileLane | null {
    const own = this.tileLanes.find((lane) => lane.key === key);
    if (own) return own;
    for (const file of this.files) {
      const index = file.table && file.table.count > MOST_MADE ? file.withKey(key) : -1;
      if (index >= 0) return this.laneOf(file, index);
    }
    return null;
  }

  /** Shows only lanes with a text in their title or path; those in groups that are closed are not all made. */
  filter(text: string): void {
    const wanted = text.toLowerCase();
    this.wanted = wanted;
    this.filterKnown(wanted);
    const nameless = wanted ? this.files.filter(({ hasNameless }) => hasNameless) : [];
    if (!nameless.length) return;
    const key = `text ${wanted}`;
    const asked = Promise.all(nameless.map((file) => this.askNames(file, { text: wanted }))).then(() => {
      if (this.wanted === wanted) this.filterKnown(wanted);
    });
    this.naming.set(key, asked.finally(() => this.naming.delete(key)));
  }

  private filterKnown(wanted: string): void {
    if (wanted) {
      let isNew = false;
      for (const file of this.files) {
        const { table } = file;
        if (!table || table.count <= MOST_MADE) continue;
        const shown = new Set<number>();
        for (let index = 0; index < table.count; index++) {
          const parent = table.parent[index]!;
          if (shown.has(parent) || table.kind[index] === "group" || this.made(file, index)) continue;
          if (!isCalled(table.name[index] ?? "", table.handle[index] ?? "", wanted)) continue;
          shown.add(parent);
          this.makeAlone(file, index);
          isNew = true;
        }
      }
      if (isNew) this.list();
    }
    this.tree.filtered(!wanted ? null : (lane) => {
      const own = lane instanceof DifferenceLane ? lane.before : lane;
      return own instanceof TileLane && isCalled(own.file.table!.name[own.index] ?? "", own.handle, wanted);
    });
  }

  /** The tab that is open at first. */
  get firstTab(): string {
    if (this.differences) return "changes";
    // services are read request by request
    const isOfServices = this.files.length > 0 && !this.source.isEmbedded && this.files.every(({ info }) => info.groupings.includes("operation"));
    return isOfServices ? "requests" : "over";
  }

  /** The lanes that were opened or closed, as `+key` or `-key`. */
  get toggles(): string[] {
    return [...this.toggled].map(([key, open]) => (open ? "+" : "-") + key);
  }

  set toggles(entries: string[]) {
    this.toggled.clear();
    for (const entry of entries) this.toggled.set(entry.slice(1), entry.startsWith("+"));
    this.arrange();
  }

  /** The selected range, otherwise what is in view. */
  get asked(): Range {
    return this.range ?? { from: this.view.startNs, to: this.view.endNs < this.view.widthNs ? this.view.endNs : this.view.widthNs };
  }

  /** The file that answers are about: that of the selection or the chosen one, otherwise the first with anything in the range. */
  get file(): FileModel | null {
    const current = this.tree.current;
    const known = this.thing?.lane.file ?? (current instanceof TileLane ? current.file : null) ?? this.chosen;
    if (known?.table) return known;
    const drawn = this.files.filter(({ table }) => table);
    const { from, to } = this.asked;
    return drawn.find((file) => this.inFile(file, from) < this.inFile(file, to)) ?? drawn[0] ?? null;
  }

  /** A time of the view as one of a file, within what the file has. */
  inFile(file: FileModel, ns: bigint): bigint {
    const time = ns + this.originNs - file.offsetNs;
    const start = BigInt(file.info.start_ns ?? "0");
    const end = BigInt(file.info.end_ns ?? "0");
    return time < start ? start : time > end ? end : time;
  }

  /** Where a file begins and ends in the view; null until that is known. */
  extentOf(file: FileModel): [bigint, bigint] | null {
    const { start_ns, end_ns } = file.info;
    return start_ns === null || end_ns === null ? null : [this.inView(file, BigInt(start_ns)), this.inView(file, BigInt(end_ns))];
  }

  /** How long before (negative) or after the first file another one is; null unless both are short beside that. */
  apartNs(file: FileModel): bigint | null {
    const [first, other] = [this.files[0] && this.extentOf(this.files[0]), this.extentOf(file)];
    if (!first || !other) return null;
    const [before, after] = [first[0] - other[1], other[0] - first[1]];
    const gap = before > after ? before : after;
    const isFar = gap > FAR_APART * (first[1] - first[0] + other[1] - other[0]);
    return isFar ? (before > after ? -gap : gap) : null;
  }

  inView(file: FileModel, ns: bigint): bigint {
    return ns + file.offsetNs - this.originNs;
  }

  /** Nanoseconds per CSS pixel. */
  get perPixel(): number {
    return Number(this.view.span) / Number(GRAINS) / Math.max(1, this.tree.widthPx);
  }

  select(thing: Thing | null): void {
    this.thing = thing;
    this.tree.choose(thing?.lane ?? null);
    this.selected();
    this.changed();
  }

  setRange(range: Range | null): void {
    this.range = range;
    this.selected();
    this.changed();
  }

  /** The marked time, otherwise that at which the selected thing begins. */
  get moment(): bigint | null {
    return this.mark ?? (this.thing && this.inView(this.thing.lane.file, this.thing.startNs));
  }

  /** The same in the time of a file; null if the file has nothing then. */
  momentIn(file: FileModel): bigint | null {
    const { moment } = this;
    if (moment === null || file.info.start_ns === null || file.info.end_ns === null) return null;
    const ns = moment + this.originNs - file.offsetNs;
    return ns >= BigInt(file.info.start_ns) && ns < BigInt(file.info.end_ns) ? ns : null;
  }

  clear(): boolean {
    if (!this.thing && !this.range && this.mark === null && !this.band) return false;
    if (!this.thing && !this.range && this.band) this.band = null;
    else if (!this.thing && !this.range) this.mark = null;
    this.thing = null;
    this.tree.choose(null);
    this.setRange(null);
    return true;
  }

  /** Shows a range, moving there. */
  go(from: bigint, to: bigint): void {
    cancelAnimationFrame(this.moving);
    const { view } = this;
    if (to - from < FEWEST_NS) {
      const middle = (from + to) / 2n;
      [from, to] = [middle - FEWEST_NS / 2n, middle + FEWEST_NS / 2n];
    }
    const [start, span] = [Number(view.start), Number(view.span)];
    const target = new Viewport(view.widthNs, FEWEST_NS);
    target.show(from, to);
    const [start1, span1] = [Number(target.start), Number(target.span)];
    const finish = () => {
      view.show(from, to);
      this.changed();
    };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden) {
      finish();
      return;
    }
    const began = performance.now();
    const step = (now: number) => {
      const part = Math.min(1, (now - began) / MOVE_MS);
      if (part >= 1) {
        finish();
        return;
      }
      // even in the logarithm of the width, ending slowly
      const eased = 1 - (1 - part) ** 3;
      const width = span * (span1 / span) ** eased;
      const way = Math.abs(span1 - span) < 1e-9 * span ? eased : (width - span) / (span1 - span);
      const left = start + (start1 - start) * way;
      view.show(BigInt(Math.round(left)) / GRAINS, BigInt(Math.round(left + width)) / GRAINS);
      this.changed();
      this.moving = requestAnimationFrame(step);
    };
    this.moving = requestAnimationFrame(step);
  }

  stop(): void {
    this.revealed = null;
    cancelAnimationFrame(this.moving);
  }

  showAll(): void {
    this.go(0n, this.view.widthNs);
  }

  /** Shows a range of a file with some room around it. */
  fit(from: bigint, to: bigint, margin = 10n): void {
    const around = (to - from) / margin;
    this.go(from - around, to + around);
  }

  fitSelection(): void {
    const { thing, range } = this;
    if (thing) this.fit(this.inView(thing.lane.file, thing.startNs), this.inView(thing.lane.file, thing.endNs));
    else if (range) this.go(range.from, range.to);
  }

  /** Makes a thing visible: its lane, its row and its time. */
  reveal(thing: Thing): void {
    const { lane, row } = thing;
    this.revealed = thing;
    if ((lane instanceof SpanLane || lane instanceof PackedLane) && lane.reveal(row)) this.tree.arrange();
    this.makeAround(lane);
    const box = lane.rowBox(row);
    this.tree.reveal(lane, box.top, box.height);
    const from = this.inView(lane.file, thing.startNs);
    const to = this.inView(lane.file, thing.endNs);
    const { view } = this;
    const isIn = from >= view.startNs && to <= view.endNs;
    const isSmall = Number(to - from) < 3 * this.perPixel;
    if (isSmall || Number(to - from) > Number(view.endNs - view.startNs)) this.fit(from, to, isSmall ? 1n : 10n);
    else if (!isIn) {
      const half = (view.endNs - view.startNs) / 2n;
      const middle = (from + to) / 2n;
      this.go(middle - half, middle + half);
    } else this.changed();
  }

  /** Makes what is beside a lane in its groups, which are to be opened. */
  private makeAround(lane: TileLane): void {
    let isNew = false;
    for (let above = this.tree.parentOf(lane); above; above = this.tree.parentOf(above)) {
      if (!(above instanceof GroupLane)) continue;
      for (const child of above.file.children[above.index]!) {
        if (this.made(above.file, child)) continue;
        this.added(above.file, child).open = false;
        isNew = true;
      }
    }
    if (isNew) this.list();
  }

  /** The thing of a hit; null if its lane is not drawn. */
  thingOf(file: FileModel, hit: Hit): Thing | null {
    const lane = hit.lane === null ? null : this.laneOf(file, hit.lane);
    if (!lane) return null;
    return { lane, row: hit.row, name: hit.name, startNs: BigInt(hit.start_ns), endNs: BigInt(hit.end_ns), span: hit.span, at: null };
  }

  /** Makes lanes as high as what is in view needs; the lane at a height keeps its place. */
  fitLanes(y: number | null): void {
    const { tree } = this;
    let isChanged = false;
    for (const lane of tree.visible) if (lane instanceof TileLane && tree.topOf(lane)! < tree.heightPx && tree.topOf(lane)! + lane.height() > 0) isChanged = lane.fit() || isChanged;
    if (isChanged) tree.arrange(this.revealed?.lane ?? (y === null ? null : tree.at(y)?.lane) ?? tree.uppermost);
    if (!this.revealed) return;
    // other lanes may be lower or higher where it is
    const box = this.revealed.lane.rowBox(this.revealed.row);
    tree.reveal(this.revealed.lane, box.top, box.height);
    this.revealed = null;
  }
}

/** CPUs, loops and rows of maps are where readers look for them: only threads are sorted. */
const THREAD = /^Processes\/[^/]+\/Threads\//;
/** The thread of a process that has its number. */
const MAIN_THREAD = /^Processes\/([^/]+)\/Threads\/\1$/;

type Importance = readonly [section: number, role: number, work: number, index: number];

/** Where lanes of a file stand among their siblings: the first of their kind, their role, their work, and where the trace has them. */
function importanceOf(file: FileModel, activity: Activity | undefined): (lane: number) => Importance {
  const { kind, handle, parent } = file.table!;
  const works = new Map<number, number>();
  const work = (lane: number): number => {
    let sum = works.get(lane);
    if (sum === undefined) works.set(lane, (sum = kind[lane] === "group" ? file.children[lane]!.reduce((all, each) => all + work(each), 0) : Number(activity?.time_ns[lane] ?? 0)));
    return sum;
  };
  const kindOf = (lane: number) => (kind[lane] !== "group" ? kind[lane]! : file.children[lane]!.some((each) => kind[each] === "stack") ? "group of spans" : "group");
  const whole = (lane: number) => `${kind[lane]} ${handle[lane]}`;
  // by group, its first lane of each kind, and the work of what is in several lanes since it overlaps
  const groups = new Map<number, { first: Map<string, number>; work: Map<string, number> }>();
  const groupOf = (lane: number) => {
    let group = groups.get(parent[lane]!);
    if (group) return group;
    groups.set(parent[lane]!, (group = { first: new Map(), work: new Map() }));
    for (const each of file.siblingsOf(lane)) {
      if (!group.first.has(kindOf(each))) group.first.set(kindOf(each), each);
      group.work.set(whole(each), (group.work.get(whole(each)) ?? 0) + work(each));
    }
    return group;
  };
  return (lane) => {
    const of = kindOf(lane);
    if (of === "group") return [lane, 0, 0, lane];
    const group = groupOf(lane);
    const first = group.first.get(of)!;
    if (of === "group of spans") return [first, 0, -work(lane), lane];
    const isThread = (of === "stack" || of === "state") && THREAD.test(handle[lane] ?? "");
    if (!isThread) return [first, 0, 0, lane];
    const isMain = of === "stack" && MAIN_THREAD.test(handle[lane] ?? "");
    return [first, isMain ? 0 : 1, -group.work.get(whole(lane))!, lane];
  };
}

/** Of more lanes, none are looked for in another layout. */
const MOST_PLACED = 20_000;

/** Returns where lanes of a layout are in the next one, if they are all in one block there, too. */
function placesIn(before: LaneTable, after: LaneTable): (kind: Kind, lanes: readonly number[]) => { block: number; lanes: number[] } | null {
  if (Math.max(before.count, after.count) > MOST_PLACED) return () => null;
  const keyOf = ({ kind, handle, name }: LaneTable, lane: number) => `${kind[lane]}\n${handle[lane]}\n${name[lane]}`;
  const known = new Map<string, number>();
  for (let lane = 0; lane < after.count; lane++) {
    const key = keyOf(after, lane);
    known.set(key, known.has(key) ? -1 : lane);
  }
  return (kind, lanes) => {
    const to = lanes.map((lane) => known.get(keyOf(before, lane)) ?? -1);
    if (!to.length || to.includes(-1) || new Set(to).size < to.length) return null;
    if (kind === "group") return { block: to[0]!, lanes: to };
    const block = after.block[to[0]!]!;
    return to.every((lane) => after.block[lane] === block) ? { block, lanes: to } : null;
  };
}
