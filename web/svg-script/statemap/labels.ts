/** The names of rows as labels: what is shown of one that is too long. */

import { shown } from "../../shared/dom";
import { elide, measureIn, withoutPrefix } from "../../shared/fit";
import type { Model, Panel } from "./model";

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const MOST_MEASURED = 500;
const MOST_LETTERS = 200;
/** If this part of all names fits whole, a few that are far longer do not shorten all. */
const WHOLE = 0.95;

export class Labels {
  /** The width that most names of each panel need, at 12 pixels. */
  private readonly widthsPx: number[];
  private readonly measure = measureIn(`12px ${FONT}`);
  private readonly shorten: ((name: string) => string)[];
  private readonly known = new Map<string, string>();
  private roomPx = 0;

  constructor(model: Model) {
    const bold = measureIn(`600 12px ${FONT}`); // as the selected one is
    this.widthsPx = model.panels.map(({ entities }) => {
      const every = Math.ceil(entities.length / MOST_MEASURED);
      const widths: number[] = [];
      for (let row = 0; row < entities.length; row += every) {
        widths.push(bold(shown(entities[row]!.slice(0, MOST_LETTERS))));
      }
      widths.sort((a, b) => a - b);
      return widths[Math.ceil(widths.length * WHOLE) - 1] ?? 0;
    });
    this.shorten = model.panels.map(({ entities }) => withoutPrefix(entities));
  }

  /** What fits of the name of a row's site at 12 pixels, with the number of its rows. */
  site(panel: Panel, row: number, roomPx: number): string {
    const shared = panel.shared!;
    const count = countOf(shared.rowsOf[shared.site[row]!]!);
    const room = Math.max(0, roomPx - this.measure(count));
    const site = shown(shared.siteOf(row));
    // methods of a class differ at their ends
    const isLong = this.measure(site) > room;
    return elide(isLong ? site.replace(/^[^\s(]*\.(?=[^\s(])/, "…") : site, room, this.measure) + count;
  }

  /** What fits of a row's name at 12 pixels; without what all names begin with if most do not fit. */
  text(panel: Panel, row: number, roomPx: number): string {
    if (roomPx !== this.roomPx) {
      this.known.clear();
      this.roomPx = roomPx;
    }
    const key = `${panel.index}:${row}`;
    let label = this.known.get(key);
    if (label === undefined) {
      const name = panel.entities[row]!;
      const part = this.widthsPx[panel.index]! > roomPx ? this.shorten[panel.index]!(name) : name;
      label = elide(shown(part), roomPx, this.measure);
      this.known.set(key, label);
    }
    return label;
  }
}

/** How many rows a site has, if there are several. */
function countOf(rows: number): string {
  return rows > 1 ? ` × ${rows}` : "";
}
