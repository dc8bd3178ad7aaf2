/** The command that prints what the page shows, or that draws it in full detail. */

import { StatusBar } from "../../shared/statusbar";
import { UNIT_NS } from "../../shared/format";
import type { Session } from "./session";

/** Above about so many intervals a window is merged again, unless the command asks for all. */
const MANY = 2_500_000;

export class Command {
  private readonly bar = new StatusBar();
  readonly element = this.bar.element;

  constructor(private readonly session: Session) {
    const { commands, panels } = session.model;
    const isMerged = panels.some((panel) => panel.intervals > panel.starts.lo.length);
    // the foot of the page, which has nothing else there
    this.element.setAttribute("role", "contentinfo");
    this.element.hidden = !commands || (!commands.figures && !isMerged);
  }

  copy(): void {
    this.bar.copyCommand();
  }

  /** Shows the command for the range; in full detail if `merged` rectangles are in it. */
  update(merged: number): void {
    const { model, range, row, filter } = this.session;
    const { commands } = model;
    const start = range.start + model.start;
    if (merged && commands) {
      const parts = [commands.draw, `-b ${option(start)}`, `-d ${option(range.end - range.start)}`];
      const intervals = Math.max(...model.panels.map((panel) => panel.intervals));
      const part = Number(range.end - range.start) / Number(model.widthNs);
      if (intervals * part > MANY) parts.push(`-c ${intervals}`);
      const count = merged.toLocaleString("en");
      const what = merged === 1 ? "1 merged rectangle" : `${count} merged rectangles`;
      this.bar.show(`${what}; full detail:`, [...parts, "-o detail.svg"].join(" "));
    } else if (commands?.figures && !row && !filter) {
      const end = option(range.end + model.start);
      this.bar.show("The same figures:", `${commands.figures} --from ${option(start)} --to ${end}`);
    } else this.bar.show("", null);
  }
}

/** A time as an option's value: exact, in the largest unit that needs no fraction. */
function option(ns: bigint): string {
  const units: [string, bigint][] = [["s", UNIT_NS.s!], ["ms", UNIT_NS.m!], ["us", UNIT_NS.u!]];
  const [unit, size] = units.find(([, each]) => ns % each === 0n) ?? ["ns", 1n];
  return `${ns / size}${unit}`;
}
