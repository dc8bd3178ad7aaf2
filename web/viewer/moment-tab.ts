/** What everything was doing at a marked time: all lanes, equal ones together. */

import { button, h, name, replaceContent, shown } from "../shared/dom";
import { duration, exact, grouped, instant } from "../shared/format";
import { css } from "../shared/name-colors";
import type { FileModel } from "./model";
import type { Hit, Moment } from "./protocol";
import type { Session } from "./session";

/** So many of a group are shown at once. */
const MOST_CHIPS = 12;

export interface MomentActions {
  /** Selects a thing and shows where it is. */
  goTo(file: FileModel, hit: Hit): void;
  light(name: string): void;
}

export class MomentTab {
  readonly element = h("div", { class: "moment" });
  private readonly opened = new Set<string>();
  private found: { file: FileModel; moment: Moment }[] = [];

  constructor(
    private readonly session: Session,
    private readonly actions: MomentActions,
  ) {}

  async show(ns: bigint | null, signal: AbortSignal): Promise<void> {
    if (ns === null) {
      this.found = [];
      this.element.replaceChildren(
        h("div", { class: "nothing" }, h("h2", {}, "What was everything doing?"), h("p", {}, "Click on the time axis, or press K with the pointer at a time. With a span, a task or a state selected, this shows the time at which it begins.")),
      );
      return;
    }
    const files = this.session.files.filter(({ table }) => table);
    this.found = await Promise.all(
      files.map(async (file) => ({ file, moment: await this.session.source.ask("moment", { file: file.index, layout: file.table!.layout, time: ns + this.session.originNs - file.offsetNs }, signal) })),
    );
    this.draw();
  }

  /** Shows a sentence instead of what it has. */
  fail(text: string): void {
    this.found = [];
    this.element.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, "Nothing to show"), h("p", {}, shown(text))));
  }

  draw(): void {
    if (!this.found.length) return;
    const at = this.found[0]!;
    const ns = this.session.inView(at.file, BigInt(at.moment.time_ns));
    if (this.found.every(({ moment }) => !moment.groups.length)) {
      this.element.replaceChildren(h("div", { class: "nothing" }, h("p", {}, `Nothing has a state or an open span at ${instant(ns, 9)}.`)));
      return;
    }
    const sections = this.found.flatMap(({ file, moment }) => {
      const heading = this.found.length > 1 ? [h("tr", { class: "of-file" }, h("th", { attributes: { colspan: "4", scope: "rowgroup" } }, shown(file.info.name)))] : [];
      if (!moment.groups.length) return [];
      let last = -1;
      const rows = moment.groups.map((group) => {
        const isFirst = group.lane !== last;
        last = group.lane;
        const of = isFirst ? file.table!.name[group.lane]! : "";
        const isState = group.kind === "state" || group.kind === "packed";
        const pixel = isState ? file.states.colorOf(group.name) : file.names.marks[file.names.id(group.name)]!;
        const light = h("button", { class: "bare state-name", title: `Light ${group.name} in all lanes`, on: { click: () => this.actions.light(group.name) } }, h("i", { class: "swatch", style: `background:${css(pixel)}` }), name(group.name));
        return h("tr", { class: isFirst ? "first" : "" }, of ? h("th", { attributes: { scope: "row" } }, name(of)) : h("td"), h("td", {}, light), h("td", { class: "count" }, grouped(group.count)), h("td", { class: "chips" }, ...this.chips(file, moment, group)));
      });
      return [...heading, ...rows];
    });
    replaceContent(
      this.element,
      h("p", { class: "moment-head" }, h("b", {}, `At ${instant(ns, 9)}`), h("span", { class: "muted" }, "beside each: for how long it had been so. Click one to go there.")),
      h("table", {}, h("tbody", {}, ...sections)),
    );
  }

  private chips(file: FileModel, moment: Moment, group: Moment["groups"][number]): Node[] {
    const key = `${file.index}:${group.lane}:${group.name}`;
    const shownOf = this.opened.has(key) ? group.things : group.things.slice(0, MOST_CHIPS);
    const chips: Node[] = shownOf.map((thing) => {
      const lane = thing.lane === null ? "" : file.titleOf(thing.lane);
      const title = thing.who === null ? lane : `${lane} ${thing.who}`;
      const since = BigInt(moment.time_ns) - BigInt(thing.start_ns);
      const made = h("button", { class: "thing", title: `${title}: ${thing.name}, ${exact(since)} of ${exact(BigInt(thing.end_ns) - BigInt(thing.start_ns))}` }, name(title), h("span", { class: "muted" }, duration(since)));
      made.type = "button";
      made.addEventListener("click", () => this.actions.goTo(file, thing));
      return made;
    });
    const rest = group.count - shownOf.length;
    if (group.things.length > shownOf.length) {
      chips.push(
        button(`${grouped(rest)} more`, "Show more of them", () => {
          this.opened.add(key);
          this.draw();
        }, { class: "link muted" }),
      );
    } else if (rest) chips.push(h("span", { class: "muted" }, `and ${grouped(rest)} more`));
    return chips;
  }
}
