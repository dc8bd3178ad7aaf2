/** The state of the page in its address, so that a link or the browser's back shows the same. */

import { readAddress, writeAddress } from "../shared/url-state";
import { TileLane } from "./lanes";
import type { Session } from "./session";

export interface Fields {
  tab: string;
  by: string | null;
  search: string;
  filter: string;
  order: string;
  density: string;
  clock: string;
  folded: boolean;
  /** How functions are shown: `heavy` or `callers`. */
  flame: string;
  /** Whether spans or samples are counted; null for what the trace's own tool shows. */
  of: string | null;
  /** In which order hits are listed. */
  hits: string;
  /** The period of the heat map; null if the range decides. */
  period: bigint | null;
}

/** Lanes are written by name; a name may have any character. */
const SEPARATOR = "\n";
/** All of the time, in place of a range. */
const WHOLE = "all";

export function remember(session: Session, fields: Fields, isStep: boolean): void {
  const { view, range, thing, tree } = session;
  const marks = (set: number[]) => set.map((index) => session.lanes[index]).flatMap((lane) => (lane instanceof TileLane ? [lane.key] : [])).join(SEPARATOR);
  const { pins, hidden } = tree.marks;
  writeAddress(
    {
      // where the page would begin with a part, the whole is a choice
      v: view.isWhole ? (session.core ? WHOLE : null) : `${session.originNs + view.startNs}_${session.originNs + view.endNs}`,
      r: range && `${session.originNs + range.from}_${session.originNs + range.to}`,
      mark: session.mark === null ? null : String(session.originNs + session.mark),
      band: session.band && [session.band.periodNs, session.originNs + session.band.originNs, session.band.from, session.band.to].join("_"),
      file: session.chosen && String(session.chosen.index),
      base: session.base && `${session.originNs + session.base.from}_${session.originNs + session.base.to}`,
      at: thing && `${thing.row}@${thing.startNs}@${thing.lane.key}`,
      tab: fields.tab === session.firstTab ? null : fields.tab,
      by: fields.by,
      q: fields.search,
      filter: fields.filter,
      order: fields.order === "main" ? null : fields.order,
      rows: fields.density === "normal" ? null : fields.density,
      clock: fields.clock || null,
      libraries: fields.folded ? null : "unfolded",
      flame: fields.flame === "heavy" ? null : fields.flame,
      of: fields.of,
      hits: fields.hits === "longest" ? null : fields.hits,
      period: fields.period === null ? null : String(fields.period),
      open: session.toggles.join(SEPARATOR),
      move: session.files.flatMap(({ index, movedNs }) => (movedNs ? [`${index}_${movedNs}`] : [])).join(SEPARATOR),
      place: session.moves.flat().join(SEPARATOR),
      pin: marks(pins),
      hide: marks(hidden),
    },
    isStep,
  );
}

export interface Recalled extends Fields {
  view: [bigint, bigint] | null;
  /** Whether the address says that all is in view. */
  isWhole: boolean;
  range: [bigint, bigint] | null;
  /** The selected thing: its row, its start in the file's time, and its lane's key. */
  thing: { row: number; ns: bigint; key: string } | null;
  base: [bigint, bigint] | null;
  file: number | null;
  mark: bigint | null;
  band: [periodNs: bigint, originNs: bigint, from: bigint, to: bigint] | null;
  toggles: string[];
  /** Which files are moved by how much. */
  moves: [file: number, ns: bigint][];
  places: [key: string, before: string][];
  pins: string[];
  hidden: string[];
}

export function recall(session: Session): Recalled {
  const parts = readAddress();
  const list = (name: string) => (parts.get(name) ?? "").split(SEPARATOR).filter(Boolean);
  const at = /^(\d+)@(-?\d+)@([^]*)$/.exec(parts.get("at") ?? "");
  const band = /^(\d{1,19})_(-?\d{1,19})_(\d{1,19})_(\d{1,19})$/.exec(parts.get("band") ?? "");
  return {
    view: pair(parts.get("v")),
    isWhole: parts.get("v") === WHOLE,
    range: pair(parts.get("r")),
    band: band && (band.slice(1).map(BigInt) as [bigint, bigint, bigint, bigint]),
    base: pair(parts.get("base")),
    file: /^\d{1,6}$/.test(parts.get("file") ?? "") ? Number(parts.get("file")) : null,
    mark: /^-?\d{1,19}$/.test(parts.get("mark") ?? "") ? BigInt(parts.get("mark")!) : null,
    thing: at && { row: Number(at[1]), ns: BigInt(at[2]!), key: at[3]! },
    tab: parts.get("tab") ?? session.firstTab,
    by: parts.get("by"),
    search: parts.get("q") ?? "",
    filter: parts.get("filter") ?? "",
    order: parts.get("order") ?? "main",
    density: parts.get("rows") ?? "normal",
    clock: parts.get("clock") ?? "",
    folded: parts.get("libraries") !== "unfolded",
    flame: parts.get("flame") ?? "heavy",
    of: parts.get("of"),
    hits: parts.get("hits") ?? "longest",
    period: /^[1-9]\d{0,18}$/.test(parts.get("period") ?? "") ? BigInt(parts.get("period")!) : null,
    toggles: list("open"),
    moves: list("move").flatMap((each) => {
      const found = /^(\d+)_(-?\d{1,19})$/.exec(each);
      return found ? [[Number(found[1]), BigInt(found[2]!)]] : [];
    }),
    places: (parts.get("place") ?? "").split(SEPARATOR).flatMap((key, at, all) => (at % 2 || at + 1 >= all.length ? [] : [[key, all[at + 1]!] as [string, string]])),
    pins: list("pin"),
    hidden: list("hide"),
  };
}

function pair(text: string | null): [bigint, bigint] | null {
  const found = /^(-?\d{1,19})_(-?\d{1,19})$/.exec(text ?? "");
  return found && [BigInt(found[1]!), BigInt(found[2]!)];
}
