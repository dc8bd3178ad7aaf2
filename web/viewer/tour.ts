/** A tour through a session: each step shows a place, selects what is there, and says why. */

import { button, h, shown } from "../shared/dom";
import type { At } from "./protocol";
import { PackedLane, SpanLane } from "./lanes";
import type { TileLane } from "./lanes";
import type { Session, Thing } from "./session";

export interface TourStep {
  title: string;
  text: string;
  /** The tab to show. */
  tab: string;
  file: number;
  /** What to show, in the time of the file. */
  start_ns: string;
  end_ns: string;
  /** What to select: what is at a time of a lane, or with no time the lane's part of the range. */
  lane: number | null;
  row: number;
  time_ns: string | null;
}

export interface TourInfo {
  title: string;
  steps: TourStep[];
}

export class Tour {
  /** Above the lanes, so that it covers none. */
  readonly element = h("section", { class: "tour", attributes: { "aria-label": "Tour", "aria-live": "polite" } });
  private step = -1;
  private request: AbortController | null = null;
  /** Where the step is, until it has been shown. */
  private place: { lane: TileLane; row: number } | null = null;

  constructor(
    private readonly info: TourInfo,
    private readonly session: Session,
    /** Shows a tab. */
    private readonly openTab: (tab: string) => void,
    private readonly thingAt: (lane: TileLane, row: number, at: At) => Thing | null,
  ) {
    this.element.hidden = true;
    document.addEventListener("keydown", (event) => this.typed(event), { capture: true });
  }

  /** Replaces an element by the tour and itself. */
  wrap(element: HTMLElement): HTMLElement {
    return h("div", { class: "above" }, this.element, element);
  }

  /** Begins, or begins again. */
  start(): void {
    this.go(0);
  }

  /** The lanes have their heights for what is in view. */
  rested(): void {
    this.reveal();
    this.place = null;
  }

  private reveal(): void {
    if (!this.place) return;
    const { lane, row } = this.place;
    if ((lane instanceof SpanLane || lane instanceof PackedLane) && lane.reveal(row)) this.session.tree.arrange();
    const box = lane.rowBox(row);
    this.session.tree.reveal(lane, box.top, box.height);
  }

  /** Leaves what the last step shows, and is yet to select. */
  private end(): void {
    this.step = -1;
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = true;
    if (hadFocus) this.session.tree.canvas.focus({ preventScroll: true });
  }

  private typed(event: KeyboardEvent): void {
    if (this.element.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if ((event.target as Element | null)?.matches?.("input, select, textarea") || document.querySelector("dialog[open]")) return;
    const by = { PageDown: 1, PageUp: -1 }[event.key];
    if (by) this.go(this.step + by);
    else if (event.key === "Escape") this.end();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private go(to: number): void {
    const { steps } = this.info;
    if (to >= steps.length) {
      this.end();
      return;
    }
    this.step = Math.max(0, to);
    const step = steps[this.step]!;
    const isLast = this.step === steps.length - 1;
    const next = button(isLast ? "End" : "Next", isLast ? "End the tour (Esc)" : "Next step (Page Down)", () => this.go(this.step + 1), { class: "primary" });
    const previous = button("Back", "Previous step (Page Up)", () => this.go(this.step - 1));
    previous.disabled = this.step === 0;
    const hadFocus = this.element.contains(document.activeElement) || this.element.hidden;
    this.element.replaceChildren(
      h("span", { class: "muted" }, `${this.step + 1} of ${steps.length}`),
      h("p", {}, h("b", {}, shown(step.title)), " ", shown(step.text)),
      h("span", { class: "ways" }, previous, next, ...(isLast ? [] : [button("End", "End the tour (Esc)", () => this.end(), { class: "bare" })])),
    );
    this.element.hidden = false;
    if (hadFocus) next.focus({ preventScroll: true });
    this.show(step);
  }

  private show(step: TourStep): void {
    const { session } = this;
    const file = session.files[step.file];
    if (!file?.table) return;
    this.openTab(step.tab);
    const [from, to] = [session.inView(file, BigInt(step.start_ns)), session.inView(file, BigInt(step.end_ns))];
    const lane = step.lane === null ? null : session.laneOf(file, step.lane);
    session.thing = null;
    session.tree.current = null;
    const isPart = lane !== null && step.time_ns === null;
    session.setRange(isPart ? { from, to } : null);
    if (isPart) session.tree.current = lane;
    this.place = lane && { lane, row: step.row };
    this.reveal();
    if (isPart) session.fit(from, to);
    else session.go(from, to);
    this.request?.abort();
    if (!lane || step.time_ns === null) return;
    const { signal } = (this.request = new AbortController());
    void session.source
      .ask("at", { file: file.index, layout: file.table.layout, lane: lane.index, row: step.row, time: step.time_ns, width: 1 }, signal)
      .then((at) => {
        // the user may have selected something else
        if (!signal.aborted && !session.thing) session.select(this.thingAt(lane, step.row, at));
      })
      .catch(() => {
        // the place is shown all the same
      });
  }
}
