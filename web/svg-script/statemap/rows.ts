/** Which rows there are, in what order, and where: panels under each other, scrolled. */

import { Sums } from "../../shared/times";
import { alike } from "./alike";
import type { Model, Panel } from "./model";

export const BY_NAME = "name";
export const ALIKE = "likeness";
/** By name, with like rows together, by the time in a state, or as the rows came. */
export type Sort = typeof BY_NAME | typeof ALIKE | { state: string } | null;

export interface Row {
  panel: Panel;
  row: number;
}

export interface PlacedRow extends Row {
  /** Its number among the rows of its panel that are not filtered out. */
  place: number;
  /** Its upper edge on the screen, and its height. */
  y: number;
  heightPx: number;
  /** Whether its label stands above it, in a line of its own. */
  isNamed: boolean;
}

interface Section {
  panel: Panel;
  order: Int32Array;
  /** Where its heading begins and where its first row begins, from the top of everything. */
  top: number;
  first: number;
  heightPx: number;
  /** How many lines with names there are down to each row; null if names stand beside the rows. */
  lines: Int32Array | null;
}

export const HEADING_PX = 26;
/** Rows fill the height there is, up to this. */
const ROOMY_PX = 240;
const TIGHT_PX = 2;
/** Rows beside those that tasks share are this high, if they take no more than a part of the room. */
const OWN_PX = 22;
const OWN_SHARE = 0.4;
/** A line with a name above a row. */
export const NAME_PX = 17;
/** Below names, rows have at least this height. */
const NAMED_PX = 10;

export class Rows {
  heightPx = 10;
  scrollPx = 0;
  shownCount = 0;
  private sections: Section[] = [];
  private viewPx = 0;
  private chosenPx: number | null = null;
  private above = false;
  private readonly totals: (Sums | undefined)[][];

  constructor(private readonly model: Model) {
    this.totals = model.panels.map(() => []);
  }

  get count(): number {
    return this.model.panels.reduce((sum, panel) => sum + panel.entities.length, 0);
  }

  /** The height of everything. */
  get totalPx(): number {
    const last = this.sections.at(-1);
    return last ? this.bottom(last) : 0;
  }

  get headings(): { panel: Panel; y: number; shown: number }[] {
    if (this.model.panels.length === 1) return [];
    return this.sections
      .map(({ panel, top, order }) => ({ panel, y: top - this.scrollPx, shown: order.length }))
      .filter(({ y }) => y > -HEADING_PX && y < this.viewPx);
  }

  /** The places, from 1, of the first and last row of which all can be seen; null if all can. */
  get inView(): { first: number; last: number } | null {
    if (this.totalPx <= this.viewPx) return null;
    let before = 0;
    let seen = 0;
    for (const section of this.sections) {
      const from = this.firstBelow(section, this.scrollPx - 0.5);
      const to = this.firstBelow(section, this.scrollPx + this.viewPx - section.heightPx + 0.5);
      before += from;
      seen += Math.max(0, to - from);
    }
    return { first: before + 1, last: before + seen };
  }

  /** Puts the rows whose name passes in order: by time in a state, by name, or as they came. */
  arrange(passes: (row: Row) => boolean, sort: Sort): void {
    this.sections = this.model.panels.map((panel) => {
      const order: number[] = [];
      for (let i = 0; i < panel.entities.length; i++) {
        const row = sort === BY_NAME && panel.byName ? panel.byName[i]! : i;
        if (passes({ panel, row })) order.push(row);
      }
      if (sort === ALIKE && !panel.shared) {
        return { panel, order: alike(panel, Int32Array.from(order), this.model.widthNs), top: 0, first: 0, heightPx: 0, lines: null };
      }
      const state = panel.states.findIndex(({ name }) => sort !== null && typeof sort === "object" && name === sort.state);
      if (state >= 0) {
        const totals = this.timeIn(panel, state);
        const { shared } = panel;
        let keys = Array.from(panel.entities, (_, row) => totals.get(row));
        if (shared) {
          // the rows of a site stay together
          const sums = shared.sites.map(() => 0n);
          keys.forEach((key, row) => (sums[shared.site[row]!]! += key));
          keys = shared.site.map((site) => sums[site]!);
        }
        order.sort((a, b) => (keys[a]! < keys[b]! ? 1 : keys[a]! > keys[b]! ? -1 : a - b));
      }
      return { panel, order: Int32Array.from(order), top: 0, first: 0, heightPx: 0, lines: null };
    });
    this.shownCount = this.sections.reduce((sum, { order }) => sum + order.length, 0);
    this.place();
  }

  /**
   * Fits the rows to a height: the requested one, more if there is room, less if it helps.
   *
   * @param above Whether names stand above rows: one for each, or one for the rows of a site.
   */
  fit(viewPx: number, above: boolean): void {
    this.viewPx = viewPx;
    this.above = above;
    this.place();
  }

  heightOf(panel: Panel): number {
    return this.sections[panel.index]!.heightPx;
  }

  /** Makes the rows higher or lower by hand. */
  resize(factor: number, aboutPx: number): void {
    const kept = (this.scrollPx + aboutPx) / Math.max(1, this.totalPx);
    const wanted = factor > 1 ? Math.ceil(this.heightPx * factor) : Math.floor(this.heightPx * factor);
    this.chosenPx = Math.min(64, Math.max(1, wanted));
    this.place();
    this.scrollTo(kept * this.totalPx - aboutPx);
  }

  fitAgain(): void {
    this.chosenPx = null;
    this.place();
  }

  private place(): void {
    const headings = this.model.panels.length > 1 ? HEADING_PX : 0;
    for (const section of this.sections) section.lines = this.above ? linesOf(section) : null;
    const lines = this.sections.reduce((sum, { lines }) => sum + (lines?.at(-1) ?? 0), 0);
    const room = this.viewPx - headings * this.model.panels.length - lines * NAME_PX;
    const own = this.model.panels.some(({ shared }) => shared)
      ? this.sections.reduce((sum, { panel, order }) => sum + (panel.shared ? 0 : order.length), 0)
      : 0;
    const whole = (px: number) => Math.floor(px * devicePixelRatio) / devicePixelRatio;
    let fitting = whole(room / Math.max(1, this.shownCount));
    const ownPx = own ? Math.min(OWN_PX, whole((OWN_SHARE * room) / own)) : 0;
    if (ownPx > fitting) fitting = whole((room - own * ownPx) / Math.max(1, this.shownCount - own));
    const asked = this.model.rowHeight;
    if (this.chosenPx !== null) this.heightPx = this.chosenPx;
    else if (asked === 0) this.heightPx = Math.min(ROOMY_PX, Math.max(1, fitting));
    else if (fitting >= asked) this.heightPx = Math.min(fitting, Math.max(asked, ROOMY_PX));
    else this.heightPx = Math.max(fitting, Math.min(asked, TIGHT_PX));
    if (this.above && this.chosenPx === null) this.heightPx = Math.max(this.heightPx, NAMED_PX);
    let top = 0;
    for (const section of this.sections) {
      section.heightPx = section.panel.shared ? this.heightPx : Math.max(this.heightPx, ownPx);
      section.top = top;
      section.first = top + headings;
      top = this.bottom(section);
    }
    this.scrollTo(this.scrollPx);
  }

  scrollTo(px: number): void {
    this.scrollPx = Math.round(Math.min(Math.max(0, this.totalPx - this.viewPx), Math.max(0, px)));
  }

  /** The rows of which something can be seen. */
  visible(): PlacedRow[] {
    const found: PlacedRow[] = [];
    for (const section of this.sections) {
      const { panel, order, heightPx, lines } = section;
      const to = this.firstBelow(section, this.scrollPx + this.viewPx + (lines ? NAME_PX : 0));
      for (let i = Math.max(0, this.firstBelow(section, this.scrollPx) - 1); i < to; i++) {
        const isNamed = lines !== null && lines[i] !== (i ? lines[i - 1] : 0);
        found.push({ panel, row: order[i]!, place: i, y: this.topOf(section, i) - this.scrollPx, heightPx, isNamed });
      }
    }
    return found;
  }

  /** The row at a height on the screen. */
  at(y: number): Row | null {
    const px = y + this.scrollPx;
    for (const section of this.sections) {
      const i = this.firstBelow(section, px + Number.EPSILON * px + 1e-9) - 1;
      if (i >= 0 && px < this.topOf(section, i) + section.heightPx) return { panel: section.panel, row: section.order[i]! };
    }
    return null;
  }

  /** Where a row is on the screen, also when it is out of view; null if it is filtered out. */
  y(wanted: Row): number | null {
    const section = this.sections[wanted.panel.index]!;
    const i = section.order.indexOf(wanted.row);
    return i < 0 ? null : this.topOf(section, i) - this.scrollPx;
  }

  /** The row that comes `by` rows after one, across panels; the nearest there is. */
  neighbour(wanted: Row, by: number): Row {
    const place = this.sections.findIndex(({ panel }) => panel === wanted.panel);
    const at = this.sections[place]!.order.indexOf(wanted.row);
    if (at < 0) return wanted;
    let i = at + by;
    let section = this.sections[place]!;
    for (let next = place; i < 0 || i >= section.order.length; ) {
      next += by < 0 ? -1 : 1;
      if (!this.sections[next]) break;
      if (by < 0) i += this.sections[next]!.order.length;
      else i -= section.order.length;
      section = this.sections[next]!;
    }
    i = Math.min(section.order.length - 1, Math.max(0, i));
    return section.order.length ? { panel: section.panel, row: section.order[i]! } : wanted;
  }

  /** The first row that is not filtered out. */
  get first(): Row | null {
    const section = this.sections.find(({ order }) => order.length);
    return section ? { panel: section.panel, row: section.order[0]! } : null;
  }

  /** The upper edge of the row at a place of a panel, from the top of everything. */
  topOfPlace(panel: Panel, place: number): number {
    return this.topOf(this.sections[panel.index]!, place);
  }

  /** A panel's rows that are not filtered out, from the top. */
  order(panel: Panel): Int32Array {
    return this.sections[panel.index]!.order;
  }

  /** Scrolls by as little as brings a row into view. */
  reveal(wanted: Row): void {
    const y = this.y(wanted);
    if (y === null) return;
    const height = this.heightOf(wanted.panel);
    if (y < 0) this.scrollTo(this.scrollPx + y - (this.above ? NAME_PX : 0));
    else if (y + height > this.viewPx) this.scrollTo(this.scrollPx + y + height - this.viewPx);
  }

  /** The upper edge of a section's i-th row, from the top of everything. */
  private topOf({ first, heightPx, lines }: Section, i: number): number {
    return first + i * heightPx + (lines ? lines[i]! * NAME_PX : 0);
  }

  private bottom(section: Section): number {
    const { order, first, heightPx } = section;
    return order.length ? this.topOf(section, order.length - 1) + heightPx : first;
  }

  /** The first of a section's rows whose upper edge is at a height or below it; their number if none is. */
  private firstBelow(section: Section, px: number): number {
    let from = 0;
    let to = section.order.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.topOf(section, middle) >= px) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  private timeIn(panel: Panel, state: number): Sums {
    const known = this.totals[panel.index]!;
    if (!known[state]) {
      const sums = new Sums(panel.entities.length);
      for (let row = 0; row < panel.entities.length; row++) {
        const last = panel.stateAt[panel.rows[row + 1]!]!;
        for (let i = panel.stateAt[panel.rows[row]!]!; i < last; i++) {
          if (panel.state[i] === state) {
            sums.addHalves(row, panel.stateNs.hi[i]!, panel.stateNs.lo[i]!);
          }
        }
      }
      known[state] = sums;
    }
    return known[state];
  }
}

/** How many lines with names there are down to each row: one a row, or one for the rows of a site. */
function linesOf({ panel, order }: Section): Int32Array {
  const lines = new Int32Array(order.length);
  for (let i = 0; i < order.length; i++) {
    const isFirst = !i || !panel.shared || panel.shared.site[order[i]!] !== panel.shared.site[order[i - 1]!];
    lines[i] = (i ? lines[i - 1]! : 0) + (isFirst ? 1 : 0);
  }
  return lines;
}
