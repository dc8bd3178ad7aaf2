/** Instants on rows, and arrows from the row that did something to the row it was done to. */

import type { Happening } from "./describe";
import { nameAt } from "./model";
import type { Row } from "./rows";
import type { Session } from "./session";

const NEAR_PX = 4;
/** Closer together, on average, events hide the states. */
const APART_PX = 4;

/** Whether events are shown: all of them, none, or those of the selected row. */
function shown(session: Session, width: number): "all" | "row" | "none" {
  if (!session.events) return "none";
  const { startNs, endNs } = session.view;
  let count = 0;
  for (const { events } of session.model.panels) {
    count += firstFrom(events.times, endNs) - firstFrom(events.times, startNs);
  }
  return count * APART_PX <= width ? "all" : session.row ? "row" : "none";
}

/** Draws the events that are in view; of a crowd only those of the selected row. */
export function drawEvents(
  canvas: HTMLCanvasElement,
  session: Session,
  ink: string,
  paper: string,
): void {
  const { rows, view, model } = session;
  const scale = devicePixelRatio;
  const width = canvas.width / scale;
  const which = shown(session, width);
  if (which === "none") return;
  const lines = new Path2D();
  const heads = new Path2D();
  for (const panel of model.panels) {
    if (which === "row" && session.row!.panel !== panel) continue;
    const size = rows.heightOf(panel);
    const places = new Map<number, number>();
    for (const placed of rows.visible()) {
      if (placed.panel === panel) places.set(placed.row, placed.y);
    }
    const { times, rows: own, targets } = panel.events;
    const last = firstFrom(times, view.endNs);
    for (let i = firstFrom(times, view.startNs); i < last; i++) {
      if (which === "row" && own[i] !== session.row!.row && targets[i] !== session.row!.row) continue;
      const x = view.ratio(times[i]!) * width;
      const y = places.get(own[i]!);
      if (y !== undefined) {
        lines.moveTo(x, y);
        lines.lineTo(x, y + size);
      }
      if (targets[i]! < 0 || targets[i] === own[i]) continue;
      const from = y ?? rows.y({ panel, row: own[i]! });
      const to = places.get(targets[i]!) ?? rows.y({ panel, row: targets[i]! });
      if (from === null || to === null) continue;
      const down = to > from;
      const tip = down ? to : to + size;
      lines.moveTo(x, from + size / 2);
      lines.lineTo(x, tip);
      heads.moveTo(x, tip);
      heads.lineTo(x - 3, tip + (down ? -5 : 5));
      heads.lineTo(x + 3, tip + (down ? -5 : 5));
      heads.closePath();
    }
  }
  const context = canvas.getContext("2d")!;
  context.save();
  context.scale(scale, scale);
  context.globalAlpha = 0.6;
  context.strokeStyle = paper;
  context.lineWidth = 2.5;
  context.stroke(lines);
  context.globalAlpha = 1;
  context.strokeStyle = context.fillStyle = ink;
  context.lineWidth = 1;
  context.stroke(lines);
  context.fill(heads);
  context.restore();
}

/** The event of a row that is nearest to a place, if one is near. */
export function nearestEvent(session: Session, row: Row, x: number, width: number): Happening | null {
  const { times, rows, names, targets } = row.panel.events;
  const { view } = session;
  const which = shown(session, width);
  if (which === "none" || (which === "row" && (session.row!.panel !== row.panel || session.row!.row !== row.row))) {
    return null;
  }
  let nearest = -1;
  let apart = NEAR_PX;
  const last = firstFrom(times, view.at(Math.min(1, (x + NEAR_PX) / width)) + 1n);
  for (let i = firstFrom(times, view.at(Math.max(0, (x - NEAR_PX) / width))); i < last; i++) {
    const away = Math.abs(view.ratio(times[i]!) * width - x);
    if ((rows[i] === row.row || targets[i] === row.row) && away <= apart) {
      nearest = i;
      apart = away;
    }
  }
  if (nearest < 0) return null;
  const target = targets[nearest]!;
  return {
    name: row.panel.eventNames[names[nearest]!]!,
    ns: times[nearest]!,
    target: target < 0 ? null : nameAt(row.panel, target, times[nearest]!),
  };
}

/** The first event at or after a time. */
function firstFrom(times: BigInt64Array, ns: bigint): number {
  let from = 0;
  let to = times.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (times[middle]! >= ns) to = middle;
    else from = middle + 1;
  }
  return from;
}
