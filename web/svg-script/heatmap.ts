/** The script of a heat map's page. */

import { button, h, name, shown } from "../shared/dom";
import { download } from "../shared/download";
import { Findings } from "../shared/findings";
import graphStyle from "../shared/flame-graph.css?inline";
import { duration, exact, share } from "../shared/format";
import { HeatMap } from "../shared/heat-map";
import { type HeadFinding, type Mode, Model, parsed, plain } from "../shared/heat-model";
import { HeatState } from "../shared/heat-state";
import { icon } from "../shared/icon";
import { type Key, listen } from "../shared/keys";
import { Legend } from "../shared/legend";
import { Help, Theme, openPage } from "../shared/page";
import { Panel } from "../shared/panel";
import panelStyle from "../shared/panel.css?inline";
import { between } from "../shared/selection";
import { type PackedStacks, readStacks } from "../shared/stack-cells";
import { StatusBar } from "../shared/statusbar";
import { Tooltip } from "../shared/tooltip";
import { readState, writeState } from "./heatmap/address";
import { selectionCommand } from "./heatmap/command";
import { Facts } from "./heatmap/facts";
import { SelectionFlame } from "./heatmap/flame";
import style from "./heatmap/heatmap.css?inline";
import { SelectionStates } from "./heatmap/states";
import { SelectionTraits } from "./heatmap/traits";

const MODES: [Mode, string, string][] = [
  ["highlight", "Highlight", "Draw everything, with the selected names in colour (h)"],
  ["isolate", "Isolate", "Draw only the selected names (i)"],
  ["exclude", "Exclude", "Draw everything except the selected names (x)"],
  ["decompose", "Rainbow", "Draw every name in its own colour (d)"],
];
const ZOOM = 1.5;
/** The findings whose range is one in time, not of the offsets in each column. */
const OF_A_TIME = new Set(["gap", "burst", "filler"]);
/** A text that has a date, or happens again. */
const DATED = /\d{4}-\d\d-\d\d| every /;

function start(model: Model, stacks: PackedStacks | null, packedTraits: PackedStacks | null, body: HTMLElement): void {
  const { head } = model;
  const state = new HeatState(model);
  const tooltip = new Tooltip(body);
  let redraw = () => {};
  const theme = new Theme(() => redraw());
  const isDark = () => theme.dark;
  const amount = (value: number) => (head.value === "ns" ? duration(BigInt(value), 4) : value.toLocaleString("en"));

  const describe = (from: number, to: number, row: number): Node[] => {
    const columns = model.between(from, to);
    if (!columns) return [h("div", {}, "left out")];
    const cell = between("band", { place: from, row }, { place: to, row });
    const sums = model.within(cell).map((value, at) => (state.hidden.has(at) ? 0 : value));
    const all = sums.reduce((sum, value) => sum + value, 0);
    const rows = sums
      .map((value, at) => ({ value, at }))
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value);
    const first = model.timeNs(columns[0], row);
    const last = model.timeNs(columns[1], row);
    const when = first === last ? model.when(first) : `${model.when(first)} to ${model.when(last)}`;
    return [
      h("div", {}, h("b", {}, model.y ? model.columnWords(columns[0], columns[1]) : when)),
      h("div", { class: "muted" }, `${model.rowNoun} ${model.rowWords(row, row)}`),
      h("div", { class: "muted" }, all ? amount(all) : "nothing"),
      h("table", {}, ...rows.slice(0, 6).map(({ value, at }) => h("tr", {}, h("td", {}, name(model.names[at] || "all")), h("td", {}, amount(value))))),
    ];
  };
  const map = new HeatMap(state, tooltip, isDark, describe);

  const means = model.names.map((_, at) => model.meanShare(at));
  const order = model.names.map((_, at) => at).sort((a, b) => (means[b] ?? 0) - (means[a] ?? 0) || model.cells[b]!.total - model.cells[a]!.total);
  const hues = (isDark() ? model.dark : model.light).ramps.length - 1;
  const color = (index: number): string => {
    const { ramps } = isDark() ? model.dark : model.light;
    const ramp = ramps[index < ramps.length ? index : 1 + ((index - 1) % (ramps.length - 1))]!;
    return `rgb(${ramp.slice(3 * 200, 3 * 200 + 3).join(" ")})`;
  };
  const legend = new Legend({
    entries: () => {
      const colored = state.colored;
      return order.map((at) => {
        const index = colored.get(at);
        const isSelected = state.selected.includes(at);
        return { at, name: model.names[at] || "all", amount: model.cells[at]!.total, ...(means[at] == null ? {} : { figure: share(means[at]) }), color: index === undefined ? null : color(index), isSelected, isHidden: state.hidden.has(at) };
      });
    },
    amount,
    choose: (at, more) => {
      if (state.hidden.delete(at)) state.changed("cells");
      else state.select(at, more);
    },
  });
  const step = (by: number) => {
    const at = order.indexOf(state.selected[state.selected.length - 1] ?? -1);
    state.selected = [order[Math.min(order.length - 1, Math.max(0, at + by))]!];
    if (state.mode === "decompose") state.mode = "highlight";
    state.changed("cells");
    legend.reveal();
  };

  const setMode = (mode: Mode) => {
    state.mode = state.mode === mode ? "highlight" : mode;
    state.changed("cells");
  };
  const setMethod = () => {
    state.method = state.method === "rank" ? "linear" : "rank";
    state.changed("cells");
  };
  const setLock = () => {
    state.lock = !state.lock;
    state.changed("cells");
  };
  /** Clears the selected cells, then what they were compared with, then the names. */
  const clear = () => {
    if (help.isOpen) return help.close();
    state.selected = [];
    state.before = null;
    state.setSelection(null);
    state.changed("cells");
  };
  const reset = () => state.zoom(Infinity, 0);

  const show = ({ kind, names, span_ns, rows: inRows }: HeadFinding) => {
    const found = names.map((each) => model.names.indexOf(each)).filter((at) => at >= 0);
    if (found.length) state.selected = found;
    if (state.mode === "decompose") state.mode = "highlight";
    if (inRows) {
      state.anchor = { place: 0, row: inRows[0] };
      state.extendTo({ place: model.columns.length - 1, row: inRows[1] }, "band");
    } else if (span_ns) {
      const [from, to] = span_ns.map(BigInt) as [bigint, bigint];
      if (kind === "stripe" || kind === "period") {
        const row = (ns: bigint) => Number((ns * BigInt(model.rows)) / model.periodNs) % model.rows;
        state.anchor = { place: 0, row: row(from) };
        state.extendTo({ place: model.columns.length - 1, row: row(to - 1n) }, "band");
      } else {
        state.anchor = model.cellAt(from);
        state.extendTo(model.cellAt(to - 1n), "time");
        state.reveal(state.anchor.place);
      }
    }
    state.changed("cells");
  };
  const findings = new Findings(
    head.findings.map((each) => ({
      text: each.text,
      // the text counts from where the trace begins, the axis of the map may not
      at: head.utc_ns !== null && each.span_ns && OF_A_TIME.has(each.kind) && !DATED.test(each.text) ? model.when(BigInt(each.span_ns[0])) : "",
      show: each.names.length || each.span_ns || each.rows ? () => show(each) : null,
    })),
    head.notes,
    model.y ? "Nothing is far from all else. Select cells to see what distinguishes them." : undefined,
  );
  let isReady = false;
  const remember = () => {
    if (isReady) writeState(state, { q: flame?.search.text || table?.text || null, tab: panel.tab === "found" ? null : panel.tab });
  };
  const isStates = head.holds === "states";
  const flame = stacks && !isStates ? new SelectionFlame(state, stacks, tooltip, remember) : null;
  const table = stacks && isStates ? new SelectionStates(state, stacks, remember) : null;
  const content = flame ?? table;
  const noun = isStates ? "entities" : "functions";
  const tabs = [{ id: "found", label: "What stands out", key: "1", content: findings.element }];
  const inside = isStates ? "states" : "flame";
  if (content) tabs.push({ id: inside, label: isStates ? "States" : "Flame graph", key: "2", content: content.element });
  const traits = packedTraits ? new SelectionTraits(state, packedTraits, amount) : null;
  if (traits) tabs.push({ id: "against", label: "Against the rest", key: content ? "3" : "2", content: traits.element });
  // what opens when cells are selected
  const answers = traits ? "against" : content ? inside : null;
  const facts = new Facts(state, amount);
  const compare = button("Compare", "Keep the selection as A, and compare the next one with it (c)", () => state.compare(), { class: "small" });
  const shape = button("", "Select a band of offsets, or a range in order of time (b)", () => state.setShape(state.shape === "band" ? "time" : "band"), { class: "small shape" });
  const panel: Panel = new Panel(facts.element, tabs, h("span", { class: "tools" }, shape, compare), () => {
    tooltip.hide();
    remember();
  });
  const status = new StatusBar();
  state.listen((change) => {
    if (change === "view") return remember();
    if (change === "selection" && state.selection && answers) panel.open(answers);
    compare.disabled = !state.selection && !state.before;
    compare.setAttribute("aria-pressed", String(state.before !== null));
    shape.hidden = model.y !== null;
    shape.textContent = state.shape === "band" ? "Selects a band" : "Selects a range of time";
    const command = selectionCommand(state);
    status.show(!command ? "" : !state.selection ? "Draws the same" : model.y ? "Prints the same differences" : isStates ? "Prints the same times" : "Draws the same flame graph", command);
    remember();
  });

  const save = () => map.canvas.toBlob((picture) => picture && download("heat-map.png", picture));
  const field = (label: string, width: string) =>
    h("input", { class: "fold", style: `width:${width}`, title: label, attributes: { type: "text", "aria-label": label, spellcheck: "false" } });
  const period = field("Period of a column, such as 1.1s", "70px");
  const rows = field("Rows of a column", "46px");
  const wrong = h("div", { class: "wrong", attributes: { role: "status" } });
  const showFold = () => {
    period.value = plain(model.periodNs);
    rows.value = String(model.rows);
    wrong.textContent = "";
    for (const input of [period, rows]) input.removeAttribute("aria-invalid");
  };
  const refold = (withRows: boolean) => {
    const ns = parsed(period.value);
    const message = ns === null ? "write a number and a unit: ns, us, ms, s, m, h or d" : state.refold(ns, withRows ? Math.floor(Number(rows.value)) || 0 : undefined);
    if (message === null) return showFold();
    (withRows ? rows : period).setAttribute("aria-invalid", "true");
    wrong.textContent = message;
  };
  period.addEventListener("change", () => refold(false));
  rows.addEventListener("change", () => refold(true));
  const keys: Key[] = [
    { keys: ["/"], help: "search names", action: () => legend.focusSearch() },
    ...(content ? [{ keys: ["f"], help: `search ${noun}`, action: () => (panel.open(inside), flame ? flame.search.focus() : table?.focus()) }] : []),
    ...(flame
      ? [
          { keys: ["n"], help: "next function found", action: () => flame.search.go(1) },
          { keys: ["p"], help: "previous function found", action: () => flame.search.go(-1) },
        ]
      : []),
    { keys: ["m"], help: "move to the map, to select by keys", action: () => map.canvas.focus() },
    { keys: ["j", "ArrowDown"], label: "j / ↓", help: "select the next name", action: () => step(1) },
    { keys: ["k", "ArrowUp"], label: "k / ↑", help: "select the previous name", action: () => step(-1) },
    ...(model.y ? [] : [{ keys: ["b"], help: "select a band of offsets, or a range in order of time", action: () => state.setShape(state.shape === "band" ? "time" : "band") }]),
    { keys: ["c"], help: "compare the next selection with this one", action: () => state.compare() },
    { keys: ["1"], help: "what stands out", action: () => panel.open("found") },
    ...(content ? [{ keys: ["2"], help: isStates ? "states of the selected cells" : "flame graph", action: () => panel.open(inside) }] : []),
    ...(traits ? [{ keys: [content ? "3" : "2"], help: "what distinguishes the selected cells", action: () => panel.open("against") }] : []),
    { keys: ["h"], help: "highlight the selected names", action: () => setMode("highlight") },
    { keys: ["i"], help: "draw only the selected names", action: () => setMode("isolate") },
    { keys: ["x"], help: "draw everything except the selected names", action: () => setMode("exclude") },
    { keys: ["o"], help: "draw every name in its own colour", action: () => setMode("decompose") },
    { keys: ["r"], help: "colour by rank or in proportion", action: setMethod },
    { keys: ["l"], help: "keep the scale while the selection changes", action: setLock },
    { keys: ["w", "+", "="], label: "w / +", help: "zoom in", action: () => state.zoom(1 / ZOOM, 0.5) },
    { keys: ["s", "-"], label: "s / -", help: "zoom out", action: () => state.zoom(ZOOM, 0.5) },
    { keys: ["0", "Home"], label: "0", help: "show all of the time", action: reset },
    { keys: ["a", "ArrowLeft"], label: "a / ←", help: "earlier", action: () => state.pan(-0.2) },
    { keys: ["d", "ArrowRight"], label: "d / →", help: "later", action: () => state.pan(0.2) },
    ...(model.y ? [] : [{ keys: ["u"], help: "change the period", action: () => period.select() }]),
    { keys: ["e"], help: "save the map as a picture", action: () => save() },
    { keys: ["y"], help: "copy the command", action: () => status.copyCommand() },
    { keys: ["t"], help: "switch between light and dark", action: () => theme.toggle() },
    { keys: ["?"], help: "show this help", action: () => help.toggle() },
    { keys: ["Escape"], help: "clear the selection", action: clear },
  ];
  const help = new Help(body, keys, [
    { what: "click", help: "select a cell" },
    { what: "drag", help: model.y ? "select rows of some columns" : "select a band of offsets, or a range of time" },
    ...(model.y
      ? [{ what: "Shift + click", help: "extend the selection" }]
      : [
          { what: "Shift + click", help: "extend the selection in order of time" },
          { what: "Shift + drag", help: "select a range in order of time" },
        ]),
    { what: "Alt + drag", help: model.y ? "select rows in every column" : "select a band of offsets in every column" },
    { what: "wheel", help: "zoom; with Shift, move in time" },
    { what: "click a name", help: "select it; with Shift, add it to the selection" },
    { what: "arrows on the map", help: "move a cell; with Shift, extend the selection" },
    { what: "Enter on the map", help: "select the cell" },
    { what: "long press, then drag", help: "select cells by touch" },
  ]);
  const modes = MODES.map(([mode, label, title]) => ({ mode, made: button(label, title, () => setMode(mode)) }));
  const method = button("", "Colour by rank or in proportion (r)", setMethod);
  const lock = button("Lock scale", "Keep the scale while the selection changes (l)", setLock);
  const subtitle = h("div", { class: "muted subtitle" });
  const key = h("div", { class: "key muted" });
  const press = () => {
    for (const { mode, made } of modes) made.setAttribute("aria-pressed", String(state.mode === mode));
    method.textContent = state.method === "rank" ? "Rank" : "Linear";
    lock.setAttribute("aria-pressed", String(state.lock));
    // a given scale does not depend on what is selected
    lock.disabled = head.largest !== null && state.method === "linear";
  };
  const describeCells = () => {
    const { group } = map;
    const fold = `each column ${length(model.periodNs)}, each of its ${model.rows} rows ${exact(model.offsetNs(1))}`;
    const colored = state.method === "rank" ? "by rank" : "in proportion";
    const text = model.isRefolded ? fold : shown(head.subtitle).replace(/by rank|in proportion/, colored);
    subtitle.title = text;
    subtitle.textContent = group > 1 ? `${text}; ${group} columns are drawn as one` : text;
    const named = state.colored.size;
    legend.remark(named > hues && !head.cloud ? `The ${named.toLocaleString("en")} names share ${hues} colours.` : "");
    // with a colour for each name, a key of one of them would explain none
    const values = state.mode === "decompose" && named > 1 ? [] : map.key();
    key.replaceChildren(...values.map((each) => h("span", {}, h("span", { class: "swatch", style: `background:${each.color}` }), amount(each.value))));
  };
  let describing = 0;
  const describeSoon = () => {
    cancelAnimationFrame(describing);
    describing = requestAnimationFrame(describeCells);
  };
  state.listen((change) => {
    press();
    describeSoon();
    if (change === "cells") legend.fill();
    if (change === "fold") showFold();
  });
  new ResizeObserver(describeSoon).observe(map.canvas);
  document.addEventListener("keydown", () => tooltip.hide());
  const header = h(
    "header",
    {},
    h("div", { class: "titles" }, h("h1", {}, name(head.title)), subtitle, wrong),
    h(
      "div",
      { class: "controls" },
      ...(model.y ? [] : [h("label", { class: "muted" }, "Period ", period), h("label", { class: "muted" }, "Rows ", rows)]),
      h("span", { class: "group" }, ...modes.map(({ made }) => made)),
      method,
      lock,
      h(
        "span",
        { class: "group" },
        button(icon("minus"), "Zoom out (-)", () => state.zoom(ZOOM, 0.5)),
        button(icon("plus"), "Zoom in (+)", () => state.zoom(1 / ZOOM, 0.5)),
        button(icon("whole"), "Show all of the time (0)", reset),
      ),
      button("Save PNG", "Save the map as a picture (e)", save),
      button(icon("theme"), "Switch between light and dark (t)", () => theme.toggle()),
      button(icon("help"), "Keys and gestures (?)", () => help.toggle()),
    ),
  );
  body.prepend(header, h("main", {}, legend.element, h("div", { class: "plot" }, map.element, key)), panel.element, h("footer", { class: "command" }, status.element));
  listen(keys);
  showFold();
  redraw = () => {
    map.repaint();
    legend.fill();
    flame?.recolor();
    describeSoon();
  };
  const address = readState(state);
  if (flame) flame.search.text = address.get("q") ?? "";
  if (table) table.text = address.get("q") ?? "";
  panel.open(address.get("tab") ?? "found");
  isReady = true;
  redraw();
}

/** The length of a column: in days, hours or minutes if it is a whole number of them. */
function length(ns: bigint): string {
  const text = plain(ns);
  return /(min|h|d)$/.test(text) ? text : exact(ns);
}

const model = new Model();
const stacks = readStacks();
const traits = readStacks("trait");
openPage(model.head.title, graphStyle + panelStyle + style, (body) => start(model, stacks, traits, body));
