/** What moves the selection or the rows: the same for keys and buttons. */

import { firstAbove } from "../../shared/times";
import { type Panel, lifeOf, mainState, shareOf, taggedShare } from "./model";
import type { Row } from "./rows";
import type { Session } from "./session";
import type { Moves } from "./side";
import type { Stage } from "./stage";
import { byValue } from "./tags";

const SCROLL_ROWS = 3;
/** What is a smaller part of the view than this is zoomed to. */
const SEEN_PART = 100;

/** @param say Shows why nothing has moved. */
export function moves(session: Session, stage: Stage, say: (text: string) => void): Moves & { scroll(by: number): void; back(): void } {
  const { rows, view } = session;

  const go = (row: Row, mark: bigint) => {
    session.select(row, mark);
    rows.reveal(row);
    view.reveal(mark);
    session.changed("view");
  };

  return {
    /** To the rectangle before or after the selected one; from a gap, to its neighbour. */
    rectangle(by) {
      if (!session.row || session.mark === null) return;
      const { panel, row } = session.row;
      const first = panel.rows[row]!;
      const last = panel.rows[row + 1]!;
      const here = session.rectangle;
      const after = firstAbove(panel.starts, first, last, session.mark);
      const wanted = here >= 0 ? here + by : by > 0 ? after : after - 1;
      if (wanted >= first && wanted < last) go(session.row, panel.starts.get(wanted));
    },

    row(by) {
      if (session.mark === null) return;
      const row = session.row ? rows.neighbour(session.row, by) : rows.first;
      if (row) go(row, session.mark);
    },

    /** To where the state, or the tag's value, begins next: in the selected row, else in any. */
    occurrence(by) {
      const here = session.rectangle;
      const wanted = (panel: Panel): ((i: number) => boolean) | null => {
        const { lit, property, value } = session;
        if (lit && session.isLit(panel)) {
          if (property === null || value === null) return (i) => shareOf(panel, i, lit.state) > 0;
          const tags = new Set(byValue(panel, lit.state, property).get(value) ?? []);
          return (i) => taggedShare(panel, i, tags) > 0;
        }
        if (lit || here < 0 || !session.row) return null;
        const state = mainState(session.row.panel, here);
        return (i) => shareOf(panel, i, state) > 0;
      };
      let found: { row: Row; ns: bigint } | null = null;
      const from = session.mark ?? (by > 0 ? view.startNs - 1n : view.endNs);
      for (const panel of session.model.panels) {
        const is = wanted(panel);
        if (!is) continue;
        for (const row of session.scope(panel)) {
          const first = panel.rows[row]!;
          const last = panel.rows[row + 1]!;
          let i = firstAbove(panel.starts, first, last, by > 0 ? from : from - 1n);
          if (by < 0) i--;
          while (i >= first && i < last && !is(i)) i += by;
          if (i < first || i >= last) continue;
          const ns = panel.starts.get(i);
          if (!found || (by > 0 ? ns < found.ns : ns > found.ns)) found = { row: { panel, row }, ns };
        }
      }
      if (!found) {
        say(`no ${by > 0 ? "later" : "earlier"} occurrence${session.row ? " in this row" : ""}`);
        return;
      }
      if (session.row) go(found.row, found.ns);
      else {
        session.select(null, found.ns);
        rows.reveal(found.row);
        view.reveal(found.ns);
        session.changed("view");
      }
    },

    /** To the next entity of a shared row that the search found; so near that it can be seen. */
    found(by) {
      const { found, model } = session;
      if (!found?.count) return;
      const next = found.next(model.panels, session.mark ?? (by > 0 ? -1n : view.endNs), by);
      if (!next) {
        say(`no ${by > 0 ? "later" : "earlier"} match`);
        return;
      }
      const end = lifeOf(next.panel, next.entity)?.end ?? next.ns;
      if (Number(end - next.ns) * SEEN_PART < Number(view.endNs - view.startNs)) stage.zoomTo(next.ns, end);
      go({ panel: next.panel, row: next.row }, next.ns);
    },

    zoomToChoice() {
      const { range, row } = session;
      const i = session.rectangle;
      if (range.chosen) stage.zoomTo(range.start, range.end);
      else if (row && i >= 0) stage.zoomTo(row.panel.starts.get(i), row.panel.ends.get(i));
    },

    scroll(by) {
      rows.scrollTo(rows.scrollPx + by * SCROLL_ROWS * rows.heightPx);
      session.changed("view");
    },

    /** Takes back the last kind of choice that there is. */
    back() {
      if (session.second !== null) session.second = null;
      else if (session.mark !== null || session.row) {
        session.select(null, null);
        return;
      } else if (session.lit) {
        session.light(null);
        return;
      } else if (session.filter) {
        session.filter = "";
        session.arrange();
        return;
      }
      session.changed("choice");
    },
  };
}

