/** The script of a heat map's page. */

import { button, h, name, shown } from "../shared/dom";
import { icon } from "../shared/icon";
import { type Key, listen } from "../shared/keys";
import { Help, Theme, openPage } from "../shared/page";
import { exact } from "../shared/format";
import { Tooltip } from "../shared/tooltip";
import style from "./heatmap/heatmap.css?inline";
import { type Mode, Model, parsed, plain } from "./heatmap/model";
import { Session } from "./heatmap/session";
import { Side } from "./heatmap/side";
import { Stage } from "./heatmap/stage";

const MODES: [Mode, string, string][] = [
  ["highlight", "Highlight", "Draw everything, with the selected names in colour (h)"],
  ["isolate", "Isolate", "Draw only the selected names (i)"],
  ["exclude", "Exclude", "Draw everything except the selected names (x)"],
  ["decompose", "Rainbow", "Draw every name in its own colour (d)"],
];
const ZOOM = 1.5;

function start(model: Model, body: HTMLElement): void {
  const session = new Session(model);
  const tooltip = new Tooltip(body);
  let redraw = () => {};
  const theme = new Theme(() => redraw());
  const isDark = () => theme.dark;
  const side = new Side(session, isDark);

  const describe = (from: number, to: number, row: number): Node[] => {
    const [first, last] = model.between(from, to)!;
    const sums = model.within(from, to, row, row);
    const all = sums.reduce((sum, value) => sum + value, 0);
    const rows = sums
      .map((value, at) => ({ value, at }))
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value);
    const from_ns = model.when(model.timeNs(first, 0));
    const when = first === last ? from_ns : `${from_ns} to ${model.when(model.timeNs(last + 1, 0))}`;
    return [
      h("div", {}, h("b", {}, when), ` + ${exact(model.offsetNs(row))} to ${exact(model.offsetNs(row + 1))}`),
      h("div", { class: "muted" }, all ? side.amount(all) : "nothing"),
      h("table", {}, ...rows.slice(0, 6).map(({ value, at }) => h("tr", {}, h("td", {}, name(model.names[at] || "all")), h("td", {}, side.amount(value))))),
    ];
  };
  const stage = new Stage(session, tooltip, isDark, describe);

  const setMode = (mode: Mode) => {
    session.mode = session.mode === mode ? "highlight" : mode;
    session.changed("cells");
  };
  const setMethod = () => {
    session.method = session.method === "rank" ? "linear" : "rank";
    session.changed("cells");
  };
  const setLock = () => {
    session.lock = !session.lock;
    session.changed("cells");
  };
  const clear = () => {
    if (help.isOpen) return help.close();
    session.box = null;
    session.selected = [];
    session.changed("box");
    session.changed("cells");
  };
  const reset = () => session.zoom(Infinity, 0);
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
    const message = ns === null ? "write a number and a unit: ns, us, ms, s, m, h or d" : session.refold(ns, withRows ? Math.floor(Number(rows.value)) || 0 : undefined);
    if (message === null) return showFold();
    (withRows ? rows : period).setAttribute("aria-invalid", "true");
    wrong.textContent = message;
  };
  period.addEventListener("change", () => refold(false));
  rows.addEventListener("change", () => refold(true));
  const keys: Key[] = [
    { keys: ["j", "ArrowDown"], label: "j / ↓", help: "select the next name", action: () => side.step(1) },
    { keys: ["k", "ArrowUp"], label: "k / ↑", help: "select the previous name", action: () => side.step(-1) },
    { keys: ["h"], help: "highlight the selected names", action: () => setMode("highlight") },
    { keys: ["i"], help: "draw only the selected names", action: () => setMode("isolate") },
    { keys: ["x"], help: "draw everything except the selected names", action: () => setMode("exclude") },
    { keys: ["d"], help: "draw every name in its own colour", action: () => setMode("decompose") },
    { keys: ["r"], help: "colour by rank or in proportion", action: setMethod },
    { keys: ["l"], help: "keep the scale while the selection changes", action: setLock },
    { keys: ["+", "="], label: "+", help: "zoom in", action: () => session.zoom(1 / ZOOM, 0.5) },
    { keys: ["-"], help: "zoom out", action: () => session.zoom(ZOOM, 0.5) },
    { keys: ["0", "Home"], label: "0", help: "show all of the time", action: reset },
    { keys: ["ArrowLeft"], label: "←", help: "earlier", action: () => session.pan(-0.2) },
    { keys: ["ArrowRight"], label: "→", help: "later", action: () => session.pan(0.2) },
    { keys: ["p"], help: "change the period", action: () => period.select() },
    { keys: ["t"], help: "switch between light and dark", action: () => theme.toggle() },
    { keys: ["?"], help: "show this help", action: () => help.toggle() },
    { keys: ["Escape"], help: "clear the selection", action: clear },
  ];
  const help = new Help(body, keys, [
    { what: "click", help: "show the content of a cell, by name" },
    { what: "drag", help: "select a range of time and offsets" },
    { what: "Shift + drag", help: "select a range of time" },
    { what: "Alt + drag", help: "select a band of offsets in every column" },
    { what: "wheel", help: "zoom; with Shift, move in time" },
    { what: "click a name", help: "select it; with Shift, add it to the selection" },
  ]);
  const modes = MODES.map(([mode, label, title]) => ({ mode, made: button(label, title, () => setMode(mode)) }));
  const method = button("", "Colour by rank or in proportion (r)", setMethod);
  const lock = button("Lock scale", "Keep the scale while the selection changes (l)", setLock);
  const pressed = () => {
    for (const { mode, made } of modes) made.setAttribute("aria-pressed", String(session.mode === mode));
    method.textContent = session.method === "rank" ? "Rank" : "Linear";
    lock.setAttribute("aria-pressed", String(session.lock));
  };
  session.listen(pressed);
  pressed();
  const subtitle = h("div", { class: "muted" });
  const key = h("div", { class: "key muted" });
  const describeCells = () => {
    const { group } = stage;
    const text = model.isRefolded ? `each column ${exact(model.periodNs)}, each of its ${model.rows} rows ${exact(model.offsetNs(1))}` : shown(model.head.subtitle);
    subtitle.textContent = group > 1 ? `${text}; ${group} columns are drawn as one` : text;
    key.replaceChildren(...stage.key().map(({ value, color }) => h("span", {}, h("span", { class: "swatch", style: `background:${color}` }), side.amount(value))));
  };
  let describing = 0;
  const describeSoon = () => {
    cancelAnimationFrame(describing);
    describing = requestAnimationFrame(describeCells);
  };
  session.listen(describeSoon);
  new ResizeObserver(describeSoon).observe(stage.element);
  const header = h(
    "header",
    {},
    h("div", { class: "titles" }, h("h1", {}, name(model.head.title)), subtitle, wrong),
    h(
      "div",
      { class: "controls" },
      h("label", { class: "muted" }, "Period ", period),
      h("label", { class: "muted" }, "Rows ", rows),
      h("span", { class: "group" }, ...modes.map(({ made }) => made)),
      method,
      lock,
      h(
        "span",
        { class: "group" },
        button(icon("minus"), "Zoom out (-)", () => session.zoom(ZOOM, 0.5)),
        button(icon("plus"), "Zoom in (+)", () => session.zoom(1 / ZOOM, 0.5)),
        button(icon("whole"), "Show all of the time (0)", reset),
      ),
      button(icon("theme"), "Switch between light and dark (t)", () => theme.toggle()),
      button(icon("help"), "Keys and gestures (?)", () => help.toggle()),
    ),
  );
  body.prepend(header, h("main", {}, h("div", { class: "plot" }, stage.element, key), side.element));
  listen(keys);
  showFold();
  redraw = () => {
    stage.repaint();
    side.fill();
    describeSoon();
  };
  redraw();
}

const model = new Model();
openPage(model.head.title, style, (body) => start(model, body));
