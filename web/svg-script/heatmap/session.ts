/** What is chosen on the page, and who wants to know of changes. */

import type { Method, Mode, Model } from "./model";

export interface Box {
  c0: number;
  c1: number;
  r0: number;
  r1: number;
}

type Change = "fold" | "cells" | "view" | "box";

export class Session {
  selected: number[];
  mode: Mode;
  method: Method;
  lock: boolean;
  readonly hidden: Set<number>;
  /** What is in view, in places: [start, start + span). */
  start = 0;
  span: number;
  box: Box | null = null;
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
    this.box = null;
    this.changed("fold");
    this.changed("box");
    return null;
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
