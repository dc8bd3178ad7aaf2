/** The page of a flame chart, assembled from lanes, axis, minimap and panel. */

import { BoxLabels } from "../../shared/box-labels";
import type { CounterColumns } from "../../shared/counter-lane";
import { button, h, shown } from "../../shared/dom";
import { duration, exact, grouped } from "../../shared/format";
import { listen as listenToHands } from "../../shared/gestures";
import { icon } from "../../shared/icon";
import type { Key } from "../../shared/keys";
import { listen as listenToKeys } from "../../shared/keys";
import type { Lane } from "../../shared/lane-tree";
import { Minimap } from "../../shared/minimap";
import { Help, Theme } from "../../shared/page";
import { SearchField } from "../../shared/search-field";
import type { SpanColumns } from "../../shared/span-columns";
import { StatusBar } from "../../shared/statusbar";
import { TimeAxis } from "../../shared/time-axis";
import { Tooltip } from "../../shared/tooltip";
import { recall, remember } from "./address";
import { Answers } from "./answers";
import type { FlowColumns } from "./flows";
import { hintAt } from "./hints";
import { SpanLane, makeLanes } from "./lanes";
import type { Pens } from "./lanes";
import { matching } from "./matches";
import { Picture } from "./picture";
import { Session } from "./session";
import type { ChartHead, Order } from "./session";

const REST_MS = 140;
const ORDERS: [Order, string][] = [
  ["trace", "Lanes as in the trace"],
  ["name", "Lanes by name"],
  ["busy", "Busiest lanes first"],
];

export class ChartPage {
  private readonly session: Session;
  private readonly picture: Picture;
  private readonly answers: Answers;
  private readonly tooltip: Tooltip;
  private readonly axis: TimeAxis;
  private readonly minimap: Minimap;
  private readonly search: SearchField;
  private readonly theme: Theme;
  private readonly help: Help;
  private readonly status = new StatusBar();
  private readonly lengthInView = h("output", { class: "place" });
  private readonly spoken = h("div", { class: "spoken", attributes: { "aria-live": "polite" } });
  private readonly filter = h("input", {
    class: "filter",
    attributes: { type: "search", placeholder: "Filter lanes", "aria-label": "Filter lanes" },
    on: { input: () => this.filterLanes() },
  });
  private readonly order = h(
    "select",
    { class: "order", title: "Order of the lanes of a process (o)", attributes: { "aria-label": "Order of lanes" }, on: { change: () => this.sortLanes(this.order.value as Order) } },
    ...ORDERS.map(([value, text]) => h("option", { attributes: { value } }, text)),
  );
  private readonly hidden = button("", "Show the hidden lanes (u)", () => this.session.tree.showHidden(), { class: "small" });
  private pending = 0;
  private resting = 0;
  /** The height of the pointer on the lanes; null if it is elsewhere. */
  private pointerY: number | null = null;

  constructor(
    body: HTMLElement,
    private readonly head: ChartHead,
    private readonly columns: SpanColumns,
    counters: readonly CounterColumns[],
    flows: FlowColumns,
  ) {
    const pens: Pens = {
      style: undefined as never, // set with the theme, before anything is drawn
      labels: new BoxLabels(),
      text: (box) => this.session.labelOf(box),
      band: 0,
      counter: { background: 0, line: 0 },
    };
    const lanes = makeLanes(head.panels, columns, counters, pens);
    const redraw = () => this.redraw();
    this.session = new Session(head, columns, flows, lanes, pens, redraw, () => this.selected());
    this.tooltip = new Tooltip(body);
    this.axis = new TimeAxis(this.session.origin);
    this.minimap = new Minimap((middle) => this.session.moveTo(middle), redraw);
    this.picture = new Picture(this.session, this.axis, this.minimap);
    this.answers = new Answers(this.session, this.tooltip, (name) => this.find(name), redraw);
    this.theme = new Theme(() => this.recolor());
    this.search = new SearchField(
      {
        searched: (text) => {
          const wanted = (pens.style.wanted = matching(columns, text));
          this.picture.searched();
          this.redraw();
          return wanted ? `${grouped(wanted.count)} found` : "";
        },
        next: (step) => this.session.nextMatch(step),
      },
      "Search names and arguments",
    );
    const keys = this.keys();
    this.help = new Help(body, keys, HANDS);
    this.build(body);
    this.session.tree.show([...lanes]);
    this.listen();
    listenToKeys(keys);
    const fields = recall(this.session);
    this.filter.value = fields.filter;
    if (fields.filter) this.filterLanes();
    this.order.value = this.session.order;
    this.search.text = fields.search;
    this.answers.panel.open(fields.tab);
    this.redraw();
  }

  private build(body: HTMLElement): void {
    const { head } = this;
    const note = head.notes.length ? h("div", { class: "notice" }, ...head.notes.map((each) => h("p", {}, each))) : null;
    if (note) note.append(button(icon("close"), "Close", () => note.remove(), { class: "bare" }));
    body.append(
      h(
        "header",
        { class: "top" },
        h("h1", {}, shown(head.title)),
        h("p", {}, head.subtitle),
        h(
          "nav",
          {},
          this.search.element,
          this.hidden,
          this.order,
          button("Show all", "Show all (0)", () => this.session.showAll(), { class: "reset" }),
          button(icon("theme"), "Light or dark (T)", () => this.theme.toggle()),
          button(icon("help"), "Keys (?)", () => this.help.toggle()),
        ),
      ),
      note ?? "",
      h("section", { class: "band map", attributes: { "aria-label": "All of the time" } }, h("div", { class: "gutter" }, this.lengthInView, this.filter), this.minimap.element),
      h("section", { class: "band", attributes: { "aria-label": "Time axis" } }, h("div", { class: "gutter" }, this.axis.base), this.axis.element),
      h("main", {}, this.session.tree.element),
      this.answers.panel.element,
      h("footer", { class: "foot" }, this.status.element, this.spoken),
    );
  }

  private redraw(): void {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { view } = this.session;
    this.picture.draw();
    const whole = view.isWhole ? "" : ` of ${duration(view.widthNs)}`;
    const { hiddenCount } = this.session.tree;
    this.hidden.hidden = !hiddenCount;
    this.hidden.textContent = `Show ${grouped(hiddenCount)} hidden`;
    this.lengthInView.replaceChildren(h("b", {}, duration(view.endNs - view.startNs)), whole);
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.rested(), REST_MS);
  }

  /** Once the view rests, what is below follows it. */
  private rested(): void {
    this.session.fitLanes(this.pointerY);
    this.answers.answer();
    this.status.show("", this.session.command);
    const tab = this.answers.panel.tab;
    remember(this.session, { search: this.search.text, filter: this.filter.value, tab });
  }

  private selected(): void {
    const { session, columns } = this;
    this.answers.invalidate();
    if (session.span < 0) return;
    const length = exact(BigInt(columns.boxes.length[session.span]!));
    this.spoken.textContent = `${session.nameOf(session.span)}, ${length}`;
  }

  private hover(x: number, y: number): void {
    const { session } = this;
    this.pointerY = y;
    const span = session.hit(x, y);
    if (span !== session.hovered) {
      session.hovered = span;
      this.redraw();
    }
    const lines = hintAt(session, x, y);
    if (!lines) {
      this.tooltip.hide();
      return;
    }
    const area = session.tree.canvas.getBoundingClientRect();
    this.tooltip.show(area.left + x, area.top + y, lines);
  }

  /** Searches for a function. */
  private find(name: string): void {
    this.session.named = name;
    this.search.text = `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
  }

  private filterLanes(): void {
    const text = this.filter.value.toLowerCase();
    this.session.tree.filtered((lane) =>
      (lane instanceof SpanLane ? lane.head.title : lane.title).toLowerCase().includes(text),
    );
    this.answers.invalidate();
    this.redraw();
  }

  private sortLanes(order: Order): void {
    this.order.value = order;
    this.session.sortLanes(order);
    this.redraw();
  }

  private recolor(): void {
    this.picture.recolor();
    this.answers.recolor();
    this.redraw();
  }

  private listen(): void {
    const { session } = this;
    const { tree, view } = session;
    const ratio = (x: number) => x / Math.max(1, tree.widthPx);
    listenToHands(tree.canvas, {
      zoom: (factor, x) => {
        view.zoom(factor, ratio(x));
        this.moved();
      },
      pan: (dx, dy) => {
        view.pan(-dx / Math.max(1, tree.widthPx));
        if (dy) tree.scrollBy(-dy);
        this.moved();
      },
      scroll: (dy) => tree.scrollBy(dy),
      click: (x, y) => {
        const span = session.hit(x, y);
        if (span < 0) session.range = null;
        session.select(span);
      },
      doubleClick: (x, y) => {
        const span = session.hit(x, y);
        if (span < 0) return;
        const { boxes } = this.columns;
        session.fit(boxes.start[span]!, boxes.end(span), 0.1);
      },
      range: (from, to, done) => {
        const { from: left, to: right } = session.window;
        const time = (x: number) =>
          Math.round(Math.max(0, Math.min(this.head.width, left + ratio(x) * (right - left))));
        session.range = { from: Math.min(time(from), time(to)), to: Math.max(time(from), time(to)) };
        if (session.range.to === session.range.from) session.range = null;
        if (done) session.select(-1);
        this.moved();
      },
      hover: (x, y) => this.hover(x, y),
      leave: () => {
        session.hovered = -1;
        this.pointerY = null;
        this.tooltip.hide();
        this.redraw();
      },
    });
  }

  private moved(): void {
    this.tooltip.hide();
    this.redraw();
  }

  /** Does something with the lane that keys are about, and marks it. */
  private ofLane(action: (lane: Lane) => void): void {
    const lane = this.session.currentLane;
    if (!lane) return;
    this.session.tree.current = lane;
    action(lane);
    this.answers.invalidate();
    this.redraw();
  }

  private keys(): Key[] {
    const { session } = this;
    const zoom = (factor: number) => {
      session.view.zoom(factor, 0.5);
      this.moved();
    };
    const pan = (part: number) => {
      session.view.pan(part);
      this.moved();
    };
    const tab = (id: string) => this.answers.panel.open(id);
    return [
      { keys: ["w", "+", "="], label: "W", help: "zoom in", action: () => zoom(0.8) },
      { keys: ["s", "-"], label: "S", help: "zoom out", action: () => zoom(1.25) },
      { keys: ["a"], label: "A", help: "to the left", action: () => pan(-0.2) },
      { keys: ["d"], label: "D", help: "to the right", action: () => pan(0.2) },
      {
        keys: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"],
        label: "← → ↑ ↓",
        help: "previous or next span, its caller, its first callee",
        action: (key) => session.step(key),
      },
      { keys: ["f"], label: "F", help: "fit the selection", action: () => session.fitSelection() },
      { keys: ["0"], help: "show all", action: () => session.showAll() },
      { keys: ["/"], help: "search", action: () => this.search.focus() },
      { keys: ["n"], label: "N", help: "next match", action: () => this.search.go(1) },
      { keys: ["p"], label: "P", help: "previous match", action: () => this.search.go(-1) },
      { keys: [" "], label: "Space", help: "open or close the lane", action: () => session.toggleLane() },
      { keys: ["j"], label: "J", help: "next lane", action: () => session.tree.step(1) },
      { keys: ["k"], label: "K", help: "previous lane", action: () => session.tree.step(-1) },
      { keys: ["."], help: "keep the lane at the top, or no longer", action: () => this.ofLane((lane) => session.tree.pin(lane)) },
      { keys: ["h"], label: "H", help: "hide the lane", action: () => this.ofLane((lane) => session.tree.hide(lane)) },
      { keys: ["u"], label: "U", help: "show the hidden lanes", action: () => session.tree.showHidden() },
      { keys: ["o"], label: "O", help: "order of lanes: as in the trace, by name, busiest first", action: () => this.sortLanes(afterwards(session.order)) },
      { keys: ["e"], label: "E", help: "save the statistics as CSV", action: () => this.answers.save() },
      { keys: ["Escape"], help: "clear the selection, then show all", action: () => session.clear() },
      { keys: ["Shift+!", "!"], label: "Shift + 1", help: "statistics", action: () => tab("statistics") },
      { keys: ["Shift+@", "@", '"'], label: "Shift + 2", help: "left heavy", action: () => tab("heavy") },
      { keys: ["Shift+#", "#", "§"], label: "Shift + 3", help: "callers and callees", action: () => tab("callers") },
      { keys: ["l"], label: "L", help: "copy the link", action: () => void navigator.clipboard?.writeText(location.href) },
      { keys: ["t"], label: "T", help: "light or dark", action: () => this.theme.toggle() },
      { keys: ["?"], help: "this list", action: () => this.help.toggle() },
    ];
  }
}

function afterwards(order: Order): Order {
  const at = ORDERS.findIndex(([each]) => each === order);
  return ORDERS[(at + 1) % ORDERS.length]![0];
}

const HANDS = [
  { what: "wheel", help: "zoom at the pointer" },
  { what: "Shift + wheel", help: "scroll the lanes" },
  { what: "drag", help: "move" },
  { what: "Shift + drag", help: "select a range" },
  { what: "click", help: "select a span" },
  { what: "double click", help: "fit a span" },
  { what: "the signs beside a name", help: "keep a lane at the top, hide it" },
  { what: "drag in the band above", help: "move the part in view" },
];
