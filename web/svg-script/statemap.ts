/** The script of a statemap's page. */

import { listen, type Key } from "../shared/keys";
import { Help, Theme, openPage } from "../shared/page";
import { UNIT_NS } from "../shared/format";
import { Tooltip } from "../shared/tooltip";
import { Command } from "./statemap/command";
import { Frame } from "./statemap/frame";
import { type Model, readModel } from "./statemap/model";
import { moves } from "./statemap/moves";
import * as permalink from "./statemap/permalink";
import { Session } from "./statemap/session";
import { Side } from "./statemap/side";
import { Stage } from "./statemap/stage";
import style from "./statemap/statemap.css?inline";

const ZOOM = 1.25;
const LINK_MS = 120;
/** A key moves by so many steps of the buttons. */
const PAN_STEPS = 4;

function start(model: Model, body: HTMLElement): void {
  const session = new Session(model);
  const tooltip = new Tooltip(body);
  let redraw = () => {};
  const theme = new Theme(() => redraw());
  const stage = new Stage(session, tooltip, theme);
  redraw = () => stage.draw();
  const command = new Command(session);
  const does = moves(session, stage, (text) => frame.say(text));
  const side = new Side(session, does, command, stage.footer);

  const zoom = (factor: number) => {
    session.view.zoom(factor, session.anchor);
    session.changed("view");
  };
  const reset = () => {
    session.view.reset();
    session.rows.fitAgain();
    session.changed("view");
  };
  const resize = (factor: number) => {
    session.rows.resize(factor, 0);
    session.changed("view");
  };
  const toggleEvents = () => {
    session.events = !session.events;
    session.changed("choice");
  };
  let digits = "";
  const exactly = (unit: string) => {
    session.view.resize(BigInt(digits || "1") * UNIT_NS[unit]!, session.anchor);
    type("");
    session.changed("view");
  };
  const type = (text: string) => {
    digits = text.slice(0, 18);
    frame.typed(digits);
  };

  const keys: Key[] = [
    { keys: ["w", "+", "="], label: "w / +", help: "zoom in at the mark, or at the middle", action: () => zoom(1 / ZOOM) },
    { keys: ["-"], label: "s / -", help: "zoom out", action: () => zoom(ZOOM) },
    { keys: ["a", "d"], label: "a / d", help: "to the left, to the right", action: (key) => stage.pan(key === "a" ? -PAN_STEPS : PAN_STEPS) },
    {
      keys: [..."0123456789"],
      label: "digits then s / m / u / n",
      help: "show that many s, ms, μs or ns",
      // no number begins with 0
      action: (key) => (digits || key !== "0" ? type(digits + key) : reset()),
    },
    { keys: ["s"], label: "1 s", help: "show 1 s", action: () => (digits ? exactly("s") : zoom(ZOOM)) },
    { keys: ["m", "u"], label: "m / u", help: "show 1 ms, 1 μs", action: exactly },
    { keys: ["r", "Home"], label: "0 / r / Home", help: "show everything", action: reset },
    { keys: ["z", "f"], label: "f / z", help: "zoom to the selected range or state", action: does.zoomToChoice },
    { keys: ["ArrowLeft", "ArrowRight"], label: "← / →", help: "move in time", action: (key) => stage.pan(key === "ArrowLeft" ? -1 : 1) },
    { keys: ["ArrowUp", "ArrowDown"], label: "↑ / ↓", help: "scroll the rows", action: (key) => does.scroll(key === "ArrowUp" ? -1 : 1) },
    { keys: ["PageUp", "PageDown"], label: "PageUp / PageDown", help: "scroll by a screen", action: (key) => does.scroll(key === "PageUp" ? -20 : 20) },
    { keys: ["Shift+ArrowLeft", "Shift+ArrowRight"], label: "Shift + ← / →", help: "previous, next state of the row", action: (key) => does.rectangle(key === "ArrowLeft" ? -1 : 1) },
    { keys: ["Shift+ArrowUp", "Shift+ArrowDown"], label: "Shift + ↑ / ↓", help: "row above, below, at the marked time", action: (key) => does.row(key === "ArrowUp" ? -1 : 1) },
    { keys: ["p", "n"], label: "p / n", help: "previous, next occurrence of the highlighted or selected state", action: (key) => (digits && key === "n" ? exactly("n") : does.occurrence(key === "p" ? -1 : 1)) },
    { keys: ["[", "]"], label: "[ / ]", help: "flatter, taller rows", action: (key) => resize(key === "]" ? 1.3 : 1 / 1.3) },
    { keys: ["e"], help: "show or hide events", action: toggleEvents },
    { keys: ["/"], help: "search the rows, and tasks that share one: Enter goes to the next", action: () => frame.search() },
    { keys: ["c"], help: "copy the command", action: () => command.copy() },
    { keys: ["t"], help: "switch between light and dark", action: () => theme.toggle() },
    { keys: ["?"], help: "show this help", action: () => help.toggle() },
    { keys: ["Escape"], label: "Esc", help: "clear, in this order: number, second mark, mark, highlighted state, filter", action: () => (digits ? type("") : does.back()) },
  ];
  const help = new Help(body, keys, [
    { what: "wheel", help: "zoom at the pointer, like a pinch" },
    { what: "Shift + wheel", help: "scroll the rows, like the wheel over their names" },
    { what: "drag", help: "move in time and through the rows" },
    { what: "drag on the axis", help: "zoom into a range" },
    { what: "Shift + drag", help: "select a range for the tables" },
    { what: "click", help: "mark a time and select a row" },
    { what: "Shift + click", help: "set a second mark and measure; Alt + click does the same" },
    { what: "double click", help: "zoom to a state; on the axis: show everything" },
    { what: "click a state", help: "highlight its occurrences and list its tags" },
    { what: "click a tag's value", help: "colour its occurrences" },
  ]);
  const frame = new Frame(session, stage, side, command, {
    zoomIn: () => zoom(1 / ZOOM),
    zoomOut: () => zoom(ZOOM),
    pan: (by) => stage.pan(by),
    reset,
    resize,
    toggleEvents,
    toggleTheme: () => theme.toggle(),
    toggleHelp: () => help.toggle(),
    found: (by) => does.found(by),
  });
  body.prepend(frame.element);
  listen(keys);

  let timer = 0;
  let last = -LINK_MS;
  let written = "";
  const link = () => {
    last = performance.now();
    const text = permalink.write(session);
    if (text === written) return;
    written = text;
    try {
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    } catch {
      // a page that is not from an address has no permalink
    }
  };
  // browsers refuse an address that changes too often, and a zoom or a pan is many changes
  session.onChange((change) => {
    clearTimeout(timer);
    const wait = change === "view" ? LINK_MS : last + LINK_MS - performance.now();
    timer = setTimeout(link, Math.max(0, wait));
  });
  addEventListener("hashchange", () => permalink.read(session, location.hash));
  permalink.read(session, location.hash);
  stage.draw();
  side.update();
}

async function open(): Promise<void> {
  const model = await readModel();
  openPage(model.title, style, (body) => start(model, body));
}

// the static picture is shown until the entities of shared rows are inflated
void open();
