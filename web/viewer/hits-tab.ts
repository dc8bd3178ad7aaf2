/** What a search found, as a table: when, how long, in which lane and with which arguments. */

import { button, h, name, nameOrNone, shown } from "../shared/dom";
import { csv, download } from "../shared/download";
import { duration, exact, grouped, instant } from "../shared/format";
import { css } from "../shared/name-colors";
import { pixelOfKind } from "./facts";
import type { FileModel } from "./model";
import type { Hit } from "./protocol";
import type { FoundHit, HitOrder, Search } from "./search";
import { MOST_HITS, lengthOf } from "./search";
import type { Session } from "./session";

/** So many rows are shown at once. */
const PAGE_ROWS = 200;

export interface HitActions {
  /** Selects a hit and shows it as large as the page. */
  select(file: FileModel, hit: Hit): void;
  /** Lists hits in another order, or in all lanes. */
  changed(): void;
  say(text: string): void;
}

export class HitsTab {
  readonly element = h("div", { class: "stat-table hits" });
  /** Whether a search opened the tab, and nobody has used it. */
  isOffered = false;
  private page = 0;
  /** The hits, and which of them was selected, for which the page was chosen. */
  private known: readonly FoundHit[] = [];
  private followed = -1;

  constructor(
    private readonly session: Session,
    private readonly search: Search,
    private readonly actions: HitActions,
  ) {
    const use = () => (this.isOffered = false);
    this.element.addEventListener("pointerdown", use, { capture: true });
    this.element.addEventListener("focusin", use);
    this.element.addEventListener("keydown", (event) => this.step(event));
  }

  /** What the rows are of, beside the tabs. */
  get tools(): Node[] {
    const { search, session } = this;
    const parts: Node[] = [];
    const again = (change: () => void) => () => {
      change();
      this.actions.changed();
    };
    if (search.lane) parts.push(h("span", { class: "chip" }, "in ", name(search.lane.title), button("×", "Search all lanes", again(() => (search.lane = null)), { class: "bare" })));
    if (search.filter) parts.push(h("span", { class: "muted" }, "in lanes with ", name(search.filter)));
    if (session.files.length > 1) parts.push(h("span", { class: "muted" }, "all files"));
    if (search.hits.length) parts.push(button("CSV", "Save all of them as CSV, with their whole arguments", () => void this.save(), { class: "small" }));
    return parts;
  }

  /** Goes to the rows of the selected hit when that is another one, and to the foremost of others; returns its index, or -1. */
  private follow(): number {
    const { search } = this;
    const { selected, hits } = search;
    const at = hits !== this.known ? search.foremost : selected !== this.followed ? selected : -1;
    this.known = hits;
    this.followed = selected;
    if (at >= 0) this.page = Math.floor(at / PAGE_ROWS);
    return at;
  }

  draw(): void {
    const { search, session } = this;
    if (!search.isAny || !search.hits.length) {
      const [title, text] = !search.isAny
        ? ["Nothing is searched", "Type a name, a tag or an argument into the field at the top (/), or click a name in the statistics."]
        : !search.isKnown
          ? ["Searching", "…"]
          : ["Nothing found", `No name, tag or argument ${search.isName ? "is" : "contains"} “${search.text}”${search.lane || search.filter ? " in the lanes that are searched" : ""}.`];
      this.element.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, title!), h("p", {}, shown(text!))));
      return;
    }
    const wanted = this.follow();
    const focused = this.element.contains(document.activeElement) && document.activeElement!.matches("tr");
    const { hits } = search;
    this.page = Math.max(0, Math.min(this.page, Math.floor((hits.length - 1) / PAGE_ROWS)));
    const first = this.page * PAGE_ROWS;
    const part = hits.slice(first, first + PAGE_ROWS);
    const { selected } = search;
    const hasTexts = part.some(({ hit }) => hit.arguments);
    const head = h("tr", {}, h("th", { class: "rank", attributes: { scope: "col" } }, "#"), this.head("starts", "time", "From the left edge of all; N and P then go on in this order"), this.head("duration", "longest", "The longest first; N and P then go on in this order"), ...["name", "lane", ...(hasTexts ? ["arguments"] : [])].map((each) => h("th", { class: `text ${each}`, attributes: { scope: "col" } }, each)));
    const nearly = session.source.missing === null ? "" : "≈ ";
    const rows = part.map((found, at) => {
      const { file, hit, ns } = found;
      const isSelected = first + at === selected;
      const pixel = hit.lane !== null && hit.kind !== "entity" && hit.kind !== "lane" ? pixelOfKind(file, file.table!.kind[hit.lane]!, hit.name) : null;
      const { title: where, handle } = laneOf(file, hit);
      const of = session.files.length > 1 ? `${file.info.name} ` : "";
      const made = h(
        "tr",
        { attributes: { tabindex: isSelected || (selected < first && !at) ? "0" : "-1", "aria-selected": String(isSelected) } },
        h("td", { class: "rank" }, grouped(search.first + first + at + 1)),
        h("td", { class: "starts", title: exact(ns) }, instant(ns, 9)),
        h("td", { class: "duration", title: exact(lengthOf(found)) + (hit.unfinished ? " or more: the trace has no end of it" : "") }, hit.kind === "point" ? "–" : (hit.unfinished ? "≥ " : nearly) + duration(lengthOf(found))),
        h("td", { class: "text name" }, h("i", { class: "swatch", style: pixel === null ? "" : `background:${css(pixel)}` }), nameOrNone(hit.name, { title: hit.name }), hit.kind === "span" ? null : h("span", { class: "faint" }, hit.kind)),
        h("td", { class: "text lane", title: shown(of + (handle || where)) }, name(of + where)),
        ...(hasTexts ? [h("td", { class: "text arguments", title: shown(onOneLine(hit.arguments ?? "")) }, name(onOneLine(hit.arguments ?? "")))] : []),
      );
      const choose = () => {
        this.isOffered = false;
        this.actions.select(file, hit);
      };
      made.addEventListener("click", choose);
      made.addEventListener("keydown", (event) => event.key === "Enter" && choose());
      return made;
    });
    this.element.replaceChildren(h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)), this.pages(first, part.length));
    const current = this.element.querySelector<HTMLElement>("tr[aria-selected=true]");
    this.element.querySelectorAll("tbody tr").item(wanted - this.page * PAGE_ROWS)?.scrollIntoView({ block: "nearest" });
    if (focused) (current ?? this.element.querySelector<HTMLElement>("tbody tr"))?.focus({ preventScroll: true });
  }

  /** Which rows these are, and what goes to others. */
  private pages(first: number, length: number): HTMLElement {
    const { search } = this;
    const { hits, count } = search;
    const place = search.first + first;
    if (length === count) return h("p", { class: "muted" }, count === 1 ? "1 in all" : `${grouped(count)} in all`);
    const go = async (step: 1 | -1) => {
      let to = first + step * PAGE_ROWS;
      if (to < 0 || to >= hits.length) {
        const edge = search.first + to;
        if (!(await search.more(step))) return;
        to = edge - search.first;
        this.known = search.hits;
        this.followed = search.selected;
      }
      this.page = Math.floor(to / PAGE_ROWS);
      this.draw();
      this.element.scrollTop = 0;
    };
    const isMore = first + length < hits.length || search.first + hits.length < Math.min(count, search.order === "longest" ? MOST_HITS : Infinity);
    return h(
      "p",
      { class: "muted pages" },
      place > 0 ? button("earlier rows", "Earlier rows", () => void go(-1), { class: "link" }) : null,
      `${grouped(place + 1)} to ${grouped(place + length)} of ${grouped(count)}`,
      isMore ? button("later rows", "Later rows", () => void go(1), { class: "link" }) : null,
    );
  }

  private head(title: string, order: HitOrder, sentence: string): HTMLElement {
    const { search } = this;
    const sort = h("button", { class: "bare printed", title: sentence, on: { click: () => this.sort(order) } }, title);
    const isBy = search.order === order;
    return h("th", { class: title, attributes: { scope: "col", "aria-sort": !isBy ? "none" : order === "time" ? "ascending" : "descending" } }, sort);
  }

  private sort(order: HitOrder): void {
    if (this.search.order === order) return;
    this.search.order = order;
    this.actions.changed();
  }

  /** The arrows go through the rows, not through the lanes. */
  private step(event: KeyboardEvent): void {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const row = (event.target as Element).closest?.("tbody tr");
    if (!by || !row) return;
    event.preventDefault();
    event.stopPropagation();
    (by > 0 ? row.nextElementSibling : row.previousElementSibling)?.closest<HTMLElement>("tr")?.focus();
  }

  /** Saves all hits as they are listed. */
  async save(): Promise<void> {
    const { search } = this;
    const hits = await search.all();
    const head = ["file", "kind", "name", "start_ns", "end_ns", "duration_ns", "lane", "arguments"];
    const rows = hits.map((found: FoundHit) => {
      const { file, hit } = found;
      const { title, handle } = laneOf(file, hit);
      return [file.info.name, hit.kind, hit.name, hit.start_ns, hit.end_ns, String(lengthOf(found)), handle || title, hit.arguments ?? ""];
    });
    download("found.csv", csv([head, ...rows]));
    if (hits.length < search.count) this.actions.say(`The first ${grouped(hits.length)} of ${grouped(search.count)} are saved`);
  }
}

/** What the lane of a hit is called, which need not be drawn; one of very many has no name before its group was open. */
function laneOf(file: FileModel, { lane }: Hit): { title: string; handle: string } {
  if (lane === null || !file.table) return { title: "", handle: "" };
  const title = [file.titleOf(lane), file.table.detail[lane]].filter(Boolean).join(" ");
  return { title: title || `lane ${grouped(lane)}`, handle: file.table.handle[lane] ?? "" };
}

/** Arguments without what stands around them. */
function onOneLine(text: string): string {
  const inside = text.startsWith("{") ? text.slice(1).replace(/\}$/, "") : text;
  return inside.replace(/\s+/g, " ").trim();
}
