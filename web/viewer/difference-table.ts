/** The statistics of a range beside those of another one: what has changed. */

import { h, nameOrNone } from "../shared/dom";
import { duration, exact, grouped, share } from "../shared/format";
import { css } from "../shared/name-colors";
import type { Statistics, StatisticsRow } from "./protocol";
import type { RowActions } from "./stat-table";

const MOST_ROWS = 300;

interface Side {
  share: number;
  count: number;
  mean: bigint | null;
}

interface Pair {
  row: StatisticsRow;
  now: Side | null;
  before: Side | null;
  change: number;
}

/** The part of a range that something takes: of states of the time in any, of spans of the range itself. */
function sides(of: Statistics): Map<string, { row: StatisticsRow; side: Side }> {
  const [from, to] = of.range_ns.map(BigInt) as [bigint, bigint];
  let whole = Number(to - from);
  // the weights of samples have no range
  if (of.unit !== undefined) whole = of.rows.reduce((sum, { self = 0 }) => sum + self, 0);
  return new Map(
    of.rows.map((row) => {
      const part = row.share ?? Number(row.self_ns ?? row.total_ns ?? row.self ?? 0) / Math.max(1, whole);
      return [`${row.kind ?? ""}\n${row.entity ?? ""}\n${row.key}`, { row, side: { share: part, count: row.count, mean: row.mean_ns ? BigInt(row.mean_ns) : null } }];
    }),
  );
}

/**
 * A table of two ranges, what has changed most first.
 *
 * @param nearly What is written before figures: a sign if they are estimates.
 */
export function differenceTable(now: Statistics, before: Statistics, actions: RowActions, nearly: { times: string; counts: string }): HTMLElement {
  const [a, b] = [sides(now), sides(before)];
  const pairs = [...new Set([...a.keys(), ...b.keys()])].map((key): Pair => {
    const [one, other] = [a.get(key), b.get(key)];
    return { row: (one ?? other)!.row, now: one?.side ?? null, before: other?.side ?? null, change: (one?.side.share ?? 0) - (other?.side.share ?? 0) };
  });
  pairs.sort((one, other) => Math.abs(other.change) - Math.abs(one.change));
  const most = Math.max(1e-9, ...pairs.map(({ change }) => Math.abs(change)));
  const isKinds = new Set(pairs.map(({ row }) => row.kind)).size > 1;
  const heads = [now.by, "share before", "share", "change", "", "count before", "count", "mean before", "mean"];
  const body = pairs.slice(0, MOST_ROWS).map((pair) => {
    const { row, change } = pair;
    const pixel = actions.color(row, now.by);
    const part = (side: Side | null) => h("td", {}, side ? nearly.times + share(side.share) : "–");
    const count = (side: Side | null) => h("td", {}, side ? nearly.counts + grouped(side.count) : "–");
    const mean = (side: Side | null) => h("td", { title: side?.mean ? exact(side.mean) : "" }, side?.mean ? nearly.times + duration(side.mean) : "–");
    const wide = `width:${(50 * Math.abs(change)) / most}%;${change < 0 ? "right" : "left"}:50%${pixel === null ? "" : `;background:${css(pixel)}`}`;
    const made = h(
      "tr",
      { attributes: { tabindex: "0" } },
      h("td", { class: "key" }, pixel === null ? null : h("i", { class: "swatch", style: `background:${css(pixel)}` }), nameOrNone(row.key, { title: row.key ?? "" }), isKinds || row.entity ? h("span", { class: "faint" }, [row.kind, row.entity].filter(Boolean).join(" · ")) : null),
      part(pair.before),
      part(pair.now),
      h("td", { class: "change" }, `${nearly.times}${change > 0 ? "+" : change < 0 ? "−" : ""}${(100 * Math.abs(change)).toFixed(1)}`),
      h("td", { class: "part" }, h("span", { class: "bar both" }, h("i", { style: wide }))),
      count(pair.before),
      count(pair.now),
      mean(pair.before),
      mean(pair.now),
    );
    const choose = actions.chosen(row, now.by);
    if (!choose) made.classList.add("still");
    else {
      made.addEventListener("click", choose);
      made.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    }
    return made;
  });
  const head = heads.map((text, at) => h("th", { class: at ? "" : "key", title: text === "change" ? "in hundredths of the range" : "", attributes: { scope: "col" } }, text));
  return h("table", { class: "difference" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}
