/** What a chart's address contains: the view, the selection, the search and the tab. */

import { readAddress, writeAddress } from "../../shared/url-state";
import type { Session } from "./session";

/** What the fields of the page contain. */
export interface Fields {
  search: string;
  filter: string;
  tab: string;
}

const FIRST_TAB = "statistics";

export function remember(session: Session, fields: Fields): void {
  const { view, range } = session;
  const time = (ns: bigint | number) => String(session.origin + BigInt(ns));
  writeAddress({
    t: view.isWhole ? null : `${time(view.startNs)}..${time(view.endNs)}`,
    range: range && `${time(range.from)}..${time(range.to)}`,
    span: session.span < 0 ? null : String(session.span),
    q: fields.search,
    lanes: fields.filter,
    tab: fields.tab === FIRST_TAB ? null : fields.tab,
    order: session.order === "trace" ? null : session.order,
    pins: session.tree.marks.pins.join(","),
    hidden: session.tree.marks.hidden.join(","),
    label: session.labelField === session.head.label ? null : (session.labelField ?? ""),
  });
}

/** Applies the address to a session, and returns what the fields contain. */
export function recall(session: Session): Fields {
  const address = readAddress();
  const times = (text: string | null): [bigint, bigint] | null => {
    const found = /^(-?\d{1,19})\.\.(-?\d{1,19})$/.exec(text ?? "");
    if (!found) return null;
    const [from, to] = [BigInt(found[1]!) - session.origin, BigInt(found[2]!) - session.origin];
    return from < to ? [from, to] : null;
  };
  const inView = times(address.get("t"));
  if (inView) session.view.show(...inView);
  const range = times(address.get("range"));
  if (range) session.range = { from: Math.max(0, Number(range[0])), to: Math.min(session.head.width, Number(range[1])) };
  const span = Number(address.get("span") ?? NaN);
  if (Number.isInteger(span) && span >= 0 && span < session.columns.boxes.count) session.select(span);
  const indices = (text: string | null) => (/^\d{1,9}(,\d{1,9})*$/.test(text ?? "") ? text!.split(",").map(Number) : []);
  session.tree.marks = { pins: indices(address.get("pins")), hidden: indices(address.get("hidden")) };
  const order = address.get("order");
  if (order === "name" || order === "busy") session.sortLanes(order);
  session.labelField = address.get("label") ?? session.labelField;
  return {
    search: address.get("q") ?? "",
    filter: address.get("lanes") ?? "",
    tab: address.get("tab") ?? FIRST_TAB,
  };
}
