/**
 * The part of the address after `#`: what is in view and what is chosen. Times are nanoseconds from
 * the first trace's origin, so that they hold for another picture of the same trace.
 */

import { ALIKE, BY_NAME, type Row } from "./rows";
import type { Session } from "./session";

export function write(session: Session): string {
  const { model, view } = session;
  const parts = new URLSearchParams();
  const time = (ns: bigint) => `${ns + model.start}`;
  if (!view.isWhole) parts.set("t", `${time(view.startNs)}..${time(view.endNs)}`);
  if (session.mark !== null) parts.set("at", time(session.mark));
  if (session.second !== null) parts.set("to", time(session.second));
  if (session.row) {
    const { panel, row } = session.row;
    const name = panel.entities[row]!;
    parts.set("row", `${panel.index}:${/[\ud800-\udfff]/u.test(name) ? `#${row}` : name}`);
  }
  if (session.lit) {
    const { legend, state } = session.lit;
    parts.set("state", `${legend}:${model.panels[legend]!.states[state]!.name}`);
    if (session.property !== null) parts.set("by", session.property);
    if (session.value !== null) parts.set("value", session.value);
  }
  if (typeof session.sort === "string") parts.set("order", session.sort);
  else if (session.sort) parts.set("sort", session.sort.state);
  if (session.filter) parts.set("rows", session.filter);
  if (!session.events) parts.set("events", "false");
  return parts.toString();
}

export function read(session: Session, fragment: string): void {
  const { model, view } = session;
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const time = (text: string | null | undefined): bigint | null => {
    if (!text || !/^-?\d{1,19}$/.test(text)) return null;
    const ns = BigInt(text) - model.start;
    return ns < 0n ? 0n : ns >= model.widthNs ? model.widthNs - 1n : ns;
  };
  const state = parts.get("sort");
  const order = parts.get("order");
  session.sort = order === BY_NAME || order === ALIKE ? order : state === null ? null : { state };
  session.filter = parts.get("rows") ?? "";
  session.arrange();
  const range = parts.get("t")?.split("..");
  const start = time(range?.[0]);
  const end = time(range?.[1]);
  if (start !== null && end !== null && start < end) {
    view.show(start, BigInt(range![1]!) - model.start >= model.widthNs ? model.widthNs : end);
  } else view.reset();
  session.mark = time(parts.get("at"));
  session.second = session.mark === null ? null : time(parts.get("to"));
  session.row = rowNamed(session, parts.get("row"));
  session.lit = null;
  const [legend, litState] = split(parts.get("state"));
  const panel = model.panels[legend];
  const found = panel ? panel.states.findIndex(({ name }) => name === litState) : -1;
  if (panel && found >= 0) {
    session.lit = { legend: panel.legend, state: found };
    session.property = parts.get("by");
    session.value = session.property === null ? null : parts.get("value");
  }
  session.events = parts.get("events") !== "false";
  session.changed("view");
  session.changed("choice");
  if (session.row) session.rows.reveal(session.row);
}

function rowNamed(session: Session, text: string | null): Row | null {
  const [index, name] = split(text);
  const panel = session.model.panels[index];
  if (!panel || name === null) return null;
  const row = panel.entities.indexOf(name);
  if (row >= 0) return { panel, row };
  const numbered = /^#(\d+)$/.exec(name);
  return numbered && +numbered[1]! < panel.entities.length ? { panel, row: +numbered[1]! } : null;
}

function split(text: string | null): [index: number, rest: string | null] {
  const found = /^(\d+):([^]*)$/.exec(text ?? "");
  return found ? [+found[1]!, found[2]!] : [-1, null];
}
