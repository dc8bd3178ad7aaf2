/** Labels of boxes: as much of a name as fits, what distinguishes it first. */

import { shown } from "./dom";
import { elide, measureIn } from "./fit";

export const LABEL_FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const LEAST_LETTERS = 6;
const LONGEST = 200;
const CACHED = 20_000;

/** Shorter and shorter forms of a name. */
function* forms(name: string): Generator<string> {
  yield name;
  const bare = name.replace(/\s*\([^()]*[./\\<][^()]*\)\s*$/, "").replace(/^[\w./-]+\.\w+\(\d+\):\s*/, "");
  if (bare) yield bare;
  const named = /^(?:<built-in (?:method|function) ([^ >]+)|py::([^:]+):)/.exec(name);
  if (named) {
    yield (named[1] ?? named[2])!;
    return;
  }
  const typed = bare.replace(/^[^:]*: /, "");
  if (typed) yield typed;
  const last = /([\w~$<>-]+)(?:\([^()]*\))?\s*$/.exec(typed)?.[0];
  // a number alone says nothing
  if (last && /\p{L}/u.test(last)) yield last;
}

export class BoxLabels {
  private readonly measure = measureIn(LABEL_FONT);
  private readonly widths = new Map<string, number>();
  private readonly fitted = new Map<string, string>();

  /** Whether all of a name fits. */
  fits(name: string, roomPx: number): boolean {
    return this.width(name) <= roomPx;
  }

  /** As much of a name as fits; empty if that is less than six letters. */
  fit(name: string, roomPx: number): string {
    if (this.width(name) <= roomPx) return shown(name);
    const key = `${Math.floor(roomPx / 2)} ${name}`;
    let label = this.fitted.get(key);
    if (label === undefined) {
      if (this.fitted.size >= CACHED) this.fitted.clear();
      this.fitted.set(key, (label = this.shortened(name, Math.floor(roomPx / 2) * 2)));
    }
    return label;
  }

  private shortened(name: string, roomPx: number): string {
    let last = name;
    for (const form of forms(name.slice(0, LONGEST))) {
      last = form;
      if (this.width(form) <= roomPx) return shown(form);
    }
    return elide(shown(last), roomPx, this.measure, LEAST_LETTERS);
  }

  private width(text: string): number {
    if (text.length > LONGEST) return Infinity;
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size >= CACHED) this.widths.clear();
      this.widths.set(text, (width = this.measure(shown(text))));
    }
    return width;
  }
}
