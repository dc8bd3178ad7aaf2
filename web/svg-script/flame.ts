/** The script of a flame graph's page: zoom, search, callers and callees, and facts of a function. */

import { readBlock, readHead } from "../shared/blocks";
import type { CallTree } from "../shared/call-tree";
import { button, h, shown } from "../shared/dom";
import { FlameGraph } from "../shared/flame-graph";
import graphStyle from "../shared/flame-graph.css?inline";
import { duration, grouped, share } from "../shared/format";
import { icon } from "../shared/icon";
import type { Key } from "../shared/keys";
import { listen } from "../shared/keys";
import { Help, Theme, openPage } from "../shared/page";
import { LibraryFold } from "../shared/library-fold";
import { Sandwich } from "../shared/sandwich";
import { SearchField } from "../shared/search-field";
import { StatusBar } from "../shared/statusbar";
import { Tooltip } from "../shared/tooltip";
import { readAddress, writeAddress } from "../shared/url-state";
import panelStyle from "../shared/panel.css?inline";
import style from "./flame/flame.css?inline";

interface Head {
  title: string;
  subtitle: string;
  notes: string[];
  unit: string;
  frames: string[];
  /** Whether it compares two trees. */
  compared: boolean;
  /** The command that draws it; null if there is none. */
  command: string | null;
}

const MOST_CALLERS = 100;

const head = readHead<Head>();
const doubles = (name: string) => new Float64Array(readBlock(name).buffer);
const integers = (name: string) => new Int32Array(readBlock(name).buffer);

const whole: CallTree = {
  names: head.frames,
  parent: integers("parent"),
  name: integers("frame"),
  value: doubles("total"),
  own: doubles("own"),
  count: doubles("count"),
  before: head.compared ? doubles("before") : undefined,
};

let total = 0;
for (let node = 0; node < whole.parent.length; node++) if (whole.parent[node]! < 0) total += whole.value[node]!;

function amount(value: number): string {
  return head.unit === "ns" ? duration(BigInt(Math.round(value)), 4) : `${grouped(value)} ${head.unit}`;
}

function fact(label: string, value: string): HTMLElement {
  return h("div", { class: "fact" }, h("span", { class: "muted" }, label), h("span", {}, value));
}

function page(body: HTMLElement): void {
  const tooltip = new Tooltip(body);
  const place = h("output", { class: "place" });
  const facts = h("aside", { class: "facts", attributes: { "aria-label": "Facts", "aria-live": "polite" } });
  const picture = h("div", { class: "picture" });
  const main = h("main", {}, facts, picture);
  const status = new StatusBar();
  status.show("Draws the same", head.command);
  /** The tree that is shown. */
  let tree = whole;
  let chosen: string | null = null;
  let sandwiched = false;
  let started = false;

  const graph = new FlameGraph(tooltip, {
    amount,
    selected: (node) => {
      if (node !== null) chosen = graph.nameOf(node);
      describe(node);
      remember();
    },
    zoomed: (node) => {
      place.textContent = node === null ? "" : `${share(tree.value[node]! / (total || 1))} in view`;
      reset.disabled = node === null;
      remember();
    },
  });
  const sandwich = new Sandwich(tooltip, amount, (name) => {
    chosen = name;
    remember();
  });
  const search = new SearchField(
    {
      searched: (text) => {
        const found = graph.search(text);
        remember();
        return found ? `${grouped(found.count)} found, ${share(found.share)}` : "";
      },
      next: (step) => graph.next(step),
    },
    "Search functions",
  );
  const reset = button("Reset zoom", "Show all (0)", () => graph.zoom(null), { class: "reset" });
  const both = button("Callers and callees", "Callers and callees of a function (C)", () => toggle(), { class: "both" });
  const theme = new Theme(() => {
    graph.recolor();
    sandwich.recolor();
  });
  const fold = new LibraryFold(false, () => {
    show();
    remember();
  });
  const look = button(icon("theme"), "Light or dark (T)", () => theme.toggle());
  const help = button(icon("help"), "Keys (?)", () => keyHelp.toggle());

  /** Shows the tree again, folded or not: boxes are others then. */
  function show(): void {
    tree = fold.of(whole);
    graph.show(tree);
    search.look();
    place.textContent = "";
    reset.disabled = true;
    describe(null);
    if (sandwiched) sandwich.show(tree, chosen);
  }

  function describe(node: number | null): void {
    if (node === null) {
      facts.replaceChildren(
        h("div", { class: "figure" }, amount(total || 1)),
        fact("boxes", grouped(tree.parent.length)),
        fact("functions", grouped(whole.names.length)),
        ...head.notes.map((note) => h("p", { class: "muted" }, note)),
      );
      return;
    }
    const [name, ...lines] = graph.facts(node);
    facts.replaceChildren(
      h("div", { class: "figure" }, amount(tree.value[node]!)),
      h("p", {}, h("strong", {}, name)),
      ...lines.map((line) => h("p", {}, line)),
      ...callers(node),
      h("div", { class: "ways" }, button("Zoom to it", "Zoom to the selected box (F)", () => graph.zoom(node)), button("Show all", "Show all (0)", () => graph.zoom(null))),
    );
  }

  /** The callers of a box, the nearest first: each selects its box. */
  function callers(node: number): Node[] {
    const made: Node[] = [];
    for (let at = tree.parent[node]!; at >= 0 && made.length < MOST_CALLERS; at = tree.parent[at]!) {
      const caller = at;
      const each = button(shown(tree.names[tree.name[caller]!]!), `Select the caller ${tree.names[tree.name[caller]!]!}`, () => graph.select(caller), { class: "bare" });
      made.push(h("li", {}, each));
    }
    return made.length ? [h("h2", {}, "Called by"), h("ol", {}, ...made)] : [];
  }

  function toggle(on = !sandwiched): void {
    sandwiched = on;
    both.setAttribute("aria-pressed", String(on));
    picture.replaceChildren(on ? sandwich.element : graph.element);
    if (on) sandwich.show(tree, chosen);
    tooltip.hide();
    remember();
  }

  function remember(): void {
    if (!started) return;
    const node = graph.selection;
    writeAddress({
      q: search.text,
      view: sandwiched ? "callers" : null,
      function: sandwiched ? chosen : null,
      box: node === null ? null : String(node),
      libraries: fold.isOn ? "folded" : null,
    });
  }

  const keys: Key[] = [
    { keys: ["/"], help: "search", action: () => search.focus() },
    { keys: ["n"], help: "next match", action: () => search.go(1) },
    { keys: ["p"], help: "previous match", action: () => search.go(-1) },
    { keys: ["f"], help: "zoom to the selected box", action: () => graph.zoom(graph.selection) },
    { keys: ["0", "r"], label: "0", help: "show all", action: () => graph.zoom(null) },
    {
      keys: ["Escape"],
      help: "clear the selection, then show all",
      action: () => (graph.selection === null ? graph.zoom(null) : graph.select(null)),
    },
    { keys: ["w", "+", "="], label: "W", help: "zoom in", action: () => graph.scale(0.8) },
    { keys: ["s", "-"], label: "S", help: "zoom out", action: () => graph.scale(1.25) },
    { keys: ["a"], label: "A", help: "to the left", action: () => graph.pan(-0.2) },
    { keys: ["d"], label: "D", help: "to the right", action: () => graph.pan(0.2) },
    { keys: ["c"], label: "C", help: "callers and callees", action: () => toggle() },
    { keys: ["v"], label: "V", help: "fold or unfold libraries", action: () => fold.toggle() },
    ...(head.command ? [{ keys: ["y"], label: "Y", help: "copy the command", action: () => status.copyCommand() }] : []),
    { keys: ["t"], label: "T", help: "light or dark", action: () => theme.toggle() },
    { keys: ["?"], help: "this list", action: () => keyHelp.toggle() },
  ];
  body.append(
    h(
      "header",
      { class: "top" },
      h("h1", {}, shown(head.title)),
      h("p", {}, head.subtitle),
      h("nav", {}, search.element, place, reset, fold.button, both, look, help),
    ),
    main,
    h("footer", { class: "foot" }, status.element),
  );
  const keyHelp = new Help(body, keys, [
    { what: "wheel", help: "zoom at the pointer" },
    { what: "Shift + wheel", help: "scroll" },
    { what: "drag", help: "move" },
    { what: "click", help: "select" },
    { what: "double click", help: "zoom to a box" },
    { what: "arrow keys", help: "to the next box" },
    { what: "Enter", help: "zoom to the selected box" },
  ]);
  listen(keys);
  picture.append(graph.element);
  const address = readAddress();
  fold.isOn = address.get("libraries") === "folded";
  show();
  search.text = address.get("q") ?? "";
  chosen = address.get("function");
  const node = Number(address.get("box") ?? NaN);
  if (Number.isInteger(node) && node >= 0 && node < tree.parent.length && tree.value[node]! > 0) {
    graph.select(node);
    graph.zoom(node);
  }
  if (address.get("view") === "callers") toggle(true);
  started = true;
}

openPage(head.title, graphStyle + panelStyle + style, page);
