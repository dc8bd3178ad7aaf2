/** One rectangle in words: for the tooltip and for what is selected. */

import { h, name, shown } from "../../shared/dom";
import { dateIn, duration, exact } from "../../shared/format";
import { type Model, coverage, cssColor, isMerged, length, lifeOf, rectangleAt } from "./model";
import type { Row } from "./rows";
import { textOf } from "./tags";

const MOST_STATES = 8;
const MOST_TAGS = 4;

export interface Happening {
  name: string;
  ns: bigint;
  target: string | null;
}

/** What a row is at a time. */
export function describe(model: Model, { panel, row }: Row, ns: bigint, event: Happening | null): Node[] {
  const i = rectangleAt(panel, row, ns);
  const description = panel.descriptions[row];
  const made: Node[] = panel.shared
    ? sharers({ panel, row }, i)
    : [h("div", { class: "who" }, name(panel.kind), " ", h("b", {}, name(panel.entities[row]!)))];
  if (model.panels.length > 1) made.push(h("div", { class: "muted" }, name(panel.title)));
  if (description !== undefined) made.push(h("div", { class: "muted" }, name(description)));
  if (event) {
    const what = h("div", {}, "event ", h("b", {}, name(event.name)));
    if (event.target !== null) what.append(" → ", name(event.target));
    what.append(` at ${exact(event.ns + model.start)}`);
    made.push(what);
  }
  if (i < 0) {
    made.push(h("div", { class: "muted" }, `${panel.shared ? "nothing" : "no state"} at ${exact(ns + model.start)}`));
    return made;
  }
  made.push(states({ panel, row }, i), times(model, { panel, row }, i));
  made.push(...tagFields({ panel, row }, i));
  if (isMerged(panel, i) && (!panel.shared || countOf({ panel, row }, i) > 1)) {
    made.push(h("div", { class: "muted" }, "coalesced from several intervals"));
  }
  return made;
}

/** The entities of a shared row that a rectangle is of. */
function sharers({ panel, row }: Row, i: number): Node[] {
  const shared = panel.shared!;
  const made: Node[] = [];
  if (i >= 0) {
    const { first, last } = shared.between(row, panel.starts.get(i), panel.ends.get(i));
    const who = h("div", { class: "who" }, name(panel.kind), " ", h("b", {}, name(shared.names[first]!)));
    if (last - first > 1) {
      const names = shared.names;
      who.replaceChildren(
        h("b", {}, `${(last - first).toLocaleString("en")} `, name(plural(panel.kind))),
        ", ", name(names[first]!), " to ", name(names[last - 1]!),
      );
    }
    made.push(who);
    const lived = last - first === 1 ? lifeOf(panel, first) : null;
    if (lived) made.push(h("div", { class: "muted" }, `existed for ${exact(lived.end - lived.start)}`));
  }
  made.push(h("div", { class: "muted" }, name(panel.entities[row]!)));
  return made;
}

function countOf({ panel, row }: Row, i: number): number {
  const { first, last } = panel.shared!.between(row, panel.starts.get(i), panel.ends.get(i));
  return last - first;
}

function plural(kind: string): string {
  return `${kind}s`;
}

function states({ panel }: Row, i: number): Node {
  const held = [];
  for (let at = panel.stateAt[i]!; at < panel.stateAt[i + 1]!; at++) {
    held.push({ state: panel.states[panel.state[at]!]!, ns: panel.stateNs.get(at) });
  }
  held.sort((a, b) => (a.ns < b.ns ? 1 : a.ns > b.ns ? -1 : 0));
  const whole = length(panel, i);
  const table = h("table", { class: "states" });
  for (const { state, ns } of held.slice(0, MOST_STATES)) {
    const swatch = h("span", { class: "swatch", style: `background:${cssColor(state)}` });
    const row = h("tr", {}, h("td", {}, swatch, name(state.name)));
    if (isMerged(panel, i)) {
      row.append(
        h("td", { class: "number" }, percent(Number(ns) / whole)),
        h("td", { class: "number muted" }, duration(ns, 4)),
      );
    }
    table.append(row);
  }
  const covered = coverage(panel, i);
  if (covered < 1) {
    const rest = h("td", { class: "number" }, percent(1 - covered));
    table.append(h("tr", {}, h("td", { class: "muted" }, "nothing there"), rest));
  }
  if (held.length > MOST_STATES) {
    const rest = h("td", { class: "muted" }, `and ${held.length - MOST_STATES} more`);
    table.append(h("tr", {}, rest));
  }
  return table;
}

function times(model: Model, { panel }: Row, i: number): Node {
  const start = panel.starts.get(i);
  const end = panel.ends.get(i);
  const line = (label: string, text: string) =>
    h("tr", {}, h("th", { attributes: { scope: "row" } }, label), h("td", {}, text));
  const table = h(
    "table",
    { class: "facts" },
    line("start", exact(start + model.start)),
    line("length", exact(end - start)),
  );
  if (panel.origin !== null) table.append(line(model.zone?.name ?? "UTC", dateIn(panel.origin + panel.start + start, model.zone)));
  return table;
}

function tagFields({ panel }: Row, i: number): Node[] {
  const first = panel.tagAt[i]!;
  const count = panel.tagAt[i + 1]! - first;
  if (!count) return [];
  const order = Array.from({ length: count }, (_, k) => first + k);
  order.sort((a, b) => panel.tagNs.number(b) - panel.tagNs.number(a));
  const made: Node[] = [];
  for (const at of order.slice(0, MOST_TAGS)) {
    const fields = Object.entries(panel.tags[panel.tag[at]!]!).filter(([key]) => key !== "state");
    const share = count > 1 ? `${percent(panel.tagNs.number(at) / length(panel, i))}  ` : "";
    made.push(
      h(
        "div",
        { class: "tag" },
        share,
        ...fields.flatMap(([key, value], k) => [
          k ? ", " : "",
          h("span", { class: "muted" }, `${shown(key)} `),
          name(textOf(value)),
        ]),
      ),
    );
  }
  if (count > MOST_TAGS) made.push(h("div", { class: "muted" }, `and ${count - MOST_TAGS} more tags`));
  return made;
}

/** A share of 1 in percent, with two decimals, and never 0 for what is not. */
export function percent(share: number): string {
  if (share > 0 && share < 0.00005) return "<0.01 %";
  return `${(share * 100).toFixed(2)} %`;
}
