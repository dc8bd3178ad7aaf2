/** The state of a heat map: names, colours, the columns in view, selected cells; and its listeners. */

import type { Method, Mode, Model } from "./heat-model";
import { type Cell, type Selection, type Shape, between } from "./selection";

type Change = "fold" | "cells" | "view" | "selection";

export class HeatState {
  selected: number[];
  mode: Mode;
  method: Method;
  lock: boolean;
  readonly hidden: Set<number>;
  /** What is in view, in places: [start, start + span). */
  start = 0;
  span: number;
  /** The selected cells, and those that they are compared with. */
  selection: Selection | null = null;
  before: Selection | null = null;
  /** What a drag selects. */
  shape: Shape = "band";
  /** Where a selection began, and the cell that keys move. */
  anchor: Cell | null = null;
  cursor: Cell | null = null;
  private readonly listeners: ((change: Change) => void)[] = [];

  constructor(readonly model: Model) {
    const { head, names } = model;
    this.selected = head.selected.map((name) => names.indexOf(name));
    this.mode = head.mode;
    this.method = head.method;
    this.lock = head.lock;
    this.hidden = new Set(head.hidden.map((name) => names.indexOf(name)).filter((at) => at >= 0));
    this.span = Math.max(1, model.columns.length);
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  changed(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  /** The names that have a colour, by their number in the palette. */
  get colored(): Map<number, number> {
    const { cloud } = this.model.head;
    const first = cloud && (this.mode === "isolate" || this.mode === "decompose") ? 0 : 1;
    if (this.mode === "decompose") {
      const shown = this.model.names.map((_, at) => at).filter((at) => !this.hidden.has(at));
      return new Map(shown.map((at, index) => [at, index + first]));
    }
    return new Map(this.selected.map((at, index) => [at, index + first]));
  }

  /** Cuts time otherwise; returns what is wrong, or null. */
  refold(periodNs: bigint, rows?: number): string | null {
    const wrong = this.model.refold(periodNs, rows);
    if (wrong) return wrong;
    this.start = 0;
    this.span = Math.max(1, this.model.columns.length);
    this.selection = this.before = this.anchor = this.cursor = null;
    this.changed("fold");
    this.changed("selection");
    return null;
  }

  /** Selects one cell; from it a selection can be extended. */
  selectCell(cell: Cell, shape: Shape = this.shape): void {
    this.anchor = this.cursor = cell;
    this.setSelection(between(this.possible(shape), cell, cell));
  }

  /** Rows that are not offsets have no order in time: only boxes can be selected. */
  private possible(shape: Shape): Shape {
    return this.model.y ? "band" : shape;
  }

  /** Selects from where the selection began to a cell. */
  extendTo(cell: Cell, given: Shape = this.shape): void {
    const shape = this.possible(given);
    this.anchor ??= this.cursor ?? cell;
    this.cursor = cell;
    this.setSelection(between(shape, this.anchor, cell));
  }

  setSelection(selection: Selection | null): void {
    this.selection = selection;
    if (!selection) this.anchor = null;
    this.changed("selection");
  }

  setShape(shape: Shape): void {
    this.shape = shape;
    if (this.selection && this.anchor && this.cursor) this.selection = between(shape, this.anchor, this.cursor);
    this.changed("selection");
  }

  /** Keeps the selection, to compare the next one with it; without one, compares no longer. */
  compare(): void {
    this.before = this.selection;
    this.setSelection(null);
  }

  /** The names that are compared with the rest of what is drawn: highlighting some leaves out none. */
  get compared(): Set<number> | null {
    return this.mode === "highlight" && !this.hidden.size ? null : this.counted;
  }

  /** The names whose stacks are shown: those drawn in colour, or all that are not hidden. */
  get counted(): Set<number> | null {
    const { names } = this.model;
    const isChosen = this.selected.length > 0 && this.mode !== "decompose";
    if (!isChosen && !this.hidden.size) return null;
    const isCounted = (at: number) => !this.hidden.has(at) && (!isChosen || this.selected.includes(at) !== (this.mode === "exclude"));
    return new Set(names.map((_, at) => at).filter(isCounted));
  }

  /** Brings a place into view. */
  reveal(place: number): void {
    if (place >= this.start && place < this.start + this.span) return;
    this.start = place - this.span / 2;
    this.pan(0);
  }

  select(name: number, more: boolean): void {
    const was = this.selected.includes(name);
    if (more) this.selected = was ? this.selected.filter((at) => at !== name) : [...this.selected, name];
    else this.selected = was && this.selected.length === 1 ? [] : [name];
    if (this.mode === "decompose") this.mode = "highlight";
    this.changed("cells");
  }

  zoom(factor: number, ratio: number): void {
    const all = Math.max(1, this.model.columns.length);
    const span = Math.min(all, Math.max(Math.min(8, all), this.span * factor));
    this.start += ratio * (this.span - span);
    this.span = span;
    this.pan(0);
  }

  pan(ratio: number): void {
    const most = Math.max(0, this.model.columns.length - this.span);
    this.start = Math.min(most, Math.max(0, this.start + ratio * this.span));
    this.changed("view");
  }
}
