/** The state of the page: everything in the permalink, and the listeners for its changes. */

import { Viewport } from "../../shared/viewport";
import { type Model, type Panel, rectangleAt } from "./model";
import { Found } from "./found";
import { type Row, Rows, type Sort } from "./rows";

export interface Lit {
  /** The number of the first panel with this table of states. */
  legend: number;
  state: number;
}

/** `view` is where, `rows` is which, `choice` is what is marked, lit or selected. */
export type Change = "view" | "rows" | "choice";

export class Session {
  readonly view: Viewport;
  readonly rows: Rows;
  /** The marked time and the other end of a range, since the window's start. */
  mark: bigint | null = null;
  second: bigint | null = null;
  row: Row | null = null;
  lit: Lit | null = null;
  property: string | null = null;
  value: string | null = null;
  sort: Sort = null;
  filter = "";
  /** The entities of shared rows that the filter is about. */
  found: Found | null = null;
  events = true;
  private readonly occurring = new Map<Panel, Uint8Array>();
  private readonly listeners: ((change: Change) => void)[] = [];

  constructor(readonly model: Model) {
    this.view = new Viewport(model.widthNs, 1n);
    this.rows = new Rows(model);
    this.arrange();
  }

  get eventCount(): number {
    return this.model.panels.reduce((sum, panel) => sum + panel.events.times.length, 0);
  }

  onChange(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  changed(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  /** Applies sort and filter. */
  arrange(): void {
    const passes = matcher(this.filter);
    this.found = this.filter ? new Found(this.model.panels, passes) : null;
    const { found } = this;
    this.rows.arrange(({ panel, row }) => passes(panel.entities[row]!) || (found?.isIn(panel, row) ?? false), this.sort);
    this.changed("rows");
  }

  /** Whether any of a panel's rectangles is in a state. */
  occurs(panel: Panel, state: number): boolean {
    let found = this.occurring.get(panel);
    if (!found) {
      found = new Uint8Array(panel.states.length);
      for (const each of panel.state) found[each] = 1;
      this.occurring.set(panel, found);
    }
    return found[state] === 1;
  }

  /** What sums are over: the selected row, else all of a panel's that are shown. */
  scope(panel: Panel): Int32Array {
    if (!this.row) return this.rows.order(panel);
    return Int32Array.from(this.row.panel === panel ? [this.row.row] : []);
  }

  /** The selected rectangle: the one of the selected row at the marked time. */
  get rectangle(): number {
    return this.row && this.mark !== null
      ? rectangleAt(this.row.panel, this.row.row, this.mark)
      : -1;
  }

  /** The chosen range, if there is one, else what is in view. */
  get range(): { start: bigint; end: bigint; chosen: boolean } {
    if (this.mark !== null && this.second !== null && this.mark !== this.second) {
      const ordered = this.mark < this.second;
      return {
        start: ordered ? this.mark : this.second,
        end: ordered ? this.second : this.mark,
        chosen: true,
      };
    }
    return { start: this.view.startNs, end: this.view.endNs, chosen: false };
  }

  /** Where a zoom by key or button is about: the mark if it is in view, else the middle. */
  get anchor(): number {
    const ratio = this.mark === null ? 0.5 : this.view.ratio(this.mark);
    return ratio >= 0 && ratio <= 1 ? ratio : 0.5;
  }

  select(row: Row | null, mark: bigint | null): void {
    this.row = row;
    this.mark = mark;
    this.second = null;
    this.changed("choice");
  }

  light(lit: Lit | null): void {
    this.lit = lit;
    this.property = this.value = null;
    this.changed("choice");
  }

  isLit(panel: Panel): boolean {
    return this.lit?.legend === panel.legend;
  }
}

/** Whether a name passes a filter: a part of it in any case, or a `/regular expression/`. */
export function matcher(filter: string): (name: string) => boolean {
  const expression = /^\/(.*)\/(i?)$/.exec(filter);
  if (expression) {
    try {
      const compiled = new RegExp(expression[1]!, expression[2]);
      return (name) => compiled.test(name);
    } catch {
      return () => false; // half-written: nothing passes until it is one
    }
  }
  const part = filter.toLowerCase();
  return (name) => name.toLowerCase().includes(part);
}
