/** The script of a flame graph's or chart's page: zoom, search, and what a box says. */

import { readBlock, readHead } from "../shared/blocks";
import { button, h, shown } from "../shared/dom";
import { listen } from "../shared/keys";
import { Theme, openPage, themeColor } from "../shared/page";
import { ticks } from "../shared/format";
import { Tooltip } from "../shared/tooltip";
import style from "./chart/chart.css?inline";

interface Head {
  title: string;
  subtitle: string;
  notes: string[];
  unit: string;
  width: number;
  chart: boolean;
  /** Of a chart, the time of its left edge, in nanoseconds. */
  origin: string;
  frames: string[];
  colors: string[];
  /** Of a comparison, each box's colour and what is said of it. */
  changes: [string, string][];
  panels: [string, number, number, number][];
}

const ROW_PX = 18;
const TITLE_PX = 24;
const GAP_PX = 10;
const LABEL_PX = 30;
const DRAG_PX = 4;
const TICK_PX = 120;
const FOUND = "#b14cf0";

const doubles = (name: string) => new Float64Array(readBlock(name).buffer);
const integers = (name: string) => new Int32Array(readBlock(name).buffer);

const head = readHead<Head>();
const start = doubles("start");
const length = doubles("length");
const own = doubles("own");
const count = doubles("count");
const row = integers("row");
const frame = integers("frame");

function amount(value: number): string {
  if (head.unit !== "ns") return `${value.toLocaleString("en")} ${head.unit}`;
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]] as const) {
    if (value >= scale) return `${Number((value / scale).toFixed(3))} ${unit}`;
  }
  return `${value} ns`;
}

/** Whether a name is looked for: a regular expression if it is one, else plain text. */
function matcher(text: string): ((name: string) => boolean) | null {
  if (!text) return null;
  try {
    const pattern = new RegExp(text, "i");
    return (name) => pattern.test(name);
  } catch {
    const plain = text.toLowerCase();
    return (name) => name.toLowerCase().includes(plain);
  }
}

function page(body: HTMLElement): void {
  const tooltip = new Tooltip(body);
  const canvas = h("canvas", { attributes: { tabindex: "0", "aria-label": head.subtitle } });
  const search = h("input", {
    attributes: { type: "search", placeholder: "Search names", "aria-label": "Search names" },
  });
  const found = h("output", { class: "found" });
  const place = h("output", { class: "place" });
  const axis = h("div", { class: "axis", attributes: { "aria-hidden": "true" } });
  let redraw = () => {};
  const theme = new Theme(() => redraw());
  const reset = button("Reset zoom", "Reset zoom", () => fit(0, head.width), { class: "reset" });
  const look = button("Light / dark", "Switch between light and dark", () => theme.toggle());
  body.append(
    h("header", {}, h("h1", {}, shown(head.title)), h("p", {}, head.subtitle)),
    h("nav", {}, search, found, place, reset, look, head.chart ? axis : null),
    canvas,
    h("footer", {}, ...head.notes.map((note) => h("p", {}, note))),
  );

  let from = 0;
  let to = head.width || 1;
  let wanted: boolean[] | null = null;
  let hovered = -1;

  const tops: number[] = [];
  let bottom = 0;
  for (const [title, , , rows] of head.panels) {
    bottom += title ? TITLE_PX : 0;
    tops.push(bottom);
    bottom += rows * ROW_PX + GAP_PX;
  }
  const spacer = h("div", { class: "spacer", style: `height:${bottom}px` });
  canvas.replaceWith(spacer);
  spacer.append(canvas);

  function fit(left: number, right: number): void {
    from = left;
    to = right > left ? right : left + 1;
    place.textContent = from === 0 && to === head.width ? "" : `${amount(to - from)} of ${amount(head.width)}`;
    reset.disabled = from === 0 && to === head.width;
    draw();
  }

  /** Where round times are, in pixels, and what they are called. */
  function marks(width: number): { x: number; label: string }[] {
    if (!head.chart) return [];
    const origin = BigInt(head.origin);
    const ends = [origin + BigInt(Math.ceil(from)), origin + BigInt(Math.floor(to))] as const;
    const { base, marks } = ticks(...ends, Math.max(2, Math.floor(width / TICK_PX)));
    axis.title = base && `times add to ${base}`;
    return marks.map((mark, place) => ({
      x: ((Number(mark.ns - origin) - from) / (to - from)) * width,
      label: base && place === 0 ? `${base} ${mark.label}` : mark.label,
    }));
  }

  function draw(): void {
    const context = canvas.getContext("2d");
    if (!context) return;
    const area = spacer.getBoundingClientRect();
    const width = area.width;
    const top = Math.max(0, -area.top);
    const high = Math.max(0, Math.min(innerHeight, bottom - top));
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.top = `${top}px`;
    canvas.style.height = `${high}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const scale = width / (to - from);
    const ink = themeColor("--text");
    const times = marks(width);
    axis.replaceChildren(
      ...times.map(({ x, label }) => h("span", { style: `left:${x.toFixed(1)}px` }, label)),
    );
    context.fillStyle = themeColor("--line");
    for (const { x } of times) context.fillRect(Math.round(x), top, 1, high);
    head.panels.forEach(([title, first, last, rows], panel) => {
      const base = tops[panel]!;
      if (base > top + high || base + rows * ROW_PX < top) return;
      if (title) {
        context.fillStyle = ink;
        context.fillText(shown(title), 2, base - TITLE_PX / 2);
      }
      // per row how far it is drawn: boxes narrower than a pixel share one
      const edge = new Float64Array(rows).fill(-1);
      for (let box = first; box < last; box++) {
        const y = base + row[box]! * ROW_PX;
        if (y > top + high || y + ROW_PX < top) continue;
        const left = (start[box]! - from) * scale;
        const right = left + length[box]! * scale;
        if (right < 0 || left > width) continue;
        const end = Math.max(right, left + 0.5);
        if (end - left < 1 && end <= edge[row[box]!]!) continue;
        const x = Math.max(0, left);
        const wide = Math.max(1, Math.min(width, end) - x);
        edge[row[box]!] = x + wide;
        const hit = wanted?.[frame[box]!] ?? false;
        context.globalAlpha = wanted && !hit ? 0.35 : 1;
        context.fillStyle = hit ? FOUND : (head.changes[box]?.[0] ?? head.colors[frame[box]!]!);
        context.fillRect(x, y, wide > 2 ? wide - 0.6 : wide, ROW_PX - 1);
        if (box === hovered) {
          context.strokeStyle = ink;
          context.strokeRect(x + 0.5, y + 0.5, wide - 1, ROW_PX - 2);
        }
        if (wide >= LABEL_PX) {
          context.fillStyle = hit ? "#fff" : "#1b1f24";
          context.fillText(cut(context, shown(head.frames[frame[box]!]!), wide - 6), x + 3, y + ROW_PX / 2);
        }
      }
      context.globalAlpha = 1;
    });
  }

  function cut(context: CanvasRenderingContext2D, text: string, room: number): string {
    const most = Math.max(1, Math.floor(room / 3));
    let kept = text.length > most ? text.slice(0, most) : text;
    if (context.measureText(kept).width <= room && kept === text) return kept;
    while (kept.length > 1 && context.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
    return kept.length > 1 ? `${kept}…` : "";
  }

  function boxAt(event: MouseEvent): number {
    const area = spacer.getBoundingClientRect();
    const at = from + ((event.clientX - area.left) / area.width) * (to - from);
    const y = event.clientY - area.top;
    const slack = (to - from) / area.width / 2;
    for (let panel = 0; panel < tops.length; panel++) {
      const [, first, last, rows] = head.panels[panel]!;
      const line = Math.floor((y - tops[panel]!) / ROW_PX);
      if (line < 0 || line >= rows) continue;
      for (let box = last - 1; box >= first; box--) {
        if (row[box] === line && start[box]! - slack <= at && at < start[box]! + length[box]! + slack) return box;
      }
    }
    return -1;
  }

  function lookFor(text: string): void {
    const matches = matcher(text);
    wanted = matches && head.frames.map(matches);
    found.textContent = wanted ? tally(wanted) : "";
    draw();
  }

  /** How much of the whole the boxes found take; one inside another counts once. */
  function tally(hits: boolean[]): string {
    let boxes = 0;
    let sum = 0;
    for (const [, first, last] of head.panels) {
      const parts: [number, number][] = [];
      for (let box = first; box < last; box++) {
        if (!hits[frame[box]!]) continue;
        boxes++;
        parts.push([start[box]!, start[box]! + length[box]!]);
      }
      parts.sort((a, b) => a[0] - b[0]);
      let covered = -Infinity;
      for (const [left, right] of parts) {
        sum += Math.max(0, right - Math.max(left, covered));
        covered = Math.max(covered, right);
      }
    }
    const share = head.chart ? "" : `, ${((100 * sum) / (head.width || 1)).toFixed(2)} %`;
    return `${boxes.toLocaleString("en")} found${share}`;
  }

  search.addEventListener("input", () => lookFor(search.value));
  addEventListener("resize", draw);
  addEventListener("scroll", draw, { passive: true });

  let pressed: { x: number; from: number; to: number; moved: boolean } | null = null;
  canvas.addEventListener("pointerdown", (event) => {
    pressed = { x: event.clientX, from, to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (pressed) {
      const by = event.clientX - pressed.x;
      pressed.moved ||= Math.abs(by) > DRAG_PX;
      if (pressed.moved) {
        const shift = (by / spacer.clientWidth) * (pressed.to - pressed.from);
        tooltip.hide();
        fit(pressed.from - shift, pressed.to - shift);
      }
      return;
    }
    const box = boxAt(event);
    if (box !== hovered) {
      hovered = box;
      draw();
    }
    if (box < 0) {
      tooltip.hide();
      return;
    }
    const share = ((100 * length[box]!) / (head.width || 1)).toFixed(2);
    tooltip.show(event.clientX, event.clientY, [
      h("strong", {}, shown(head.frames[frame[box]!]!)),
      h("p", {}, head.changes[box]?.[1] ?? `${amount(length[box]!)} (${share} %), itself ${amount(own[box]!)}`),
      h("p", {}, head.chart ? `from ${amount(start[box]!)}` : `${count[box]!.toLocaleString("en")} times`),
    ]);
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = pressed && !pressed.moved;
    pressed = null;
    if (!clicked) return;
    const box = boxAt(event);
    if (box >= 0) fit(start[box]!, start[box]! + length[box]!);
  });
  canvas.addEventListener("pointerleave", () => {
    tooltip.hide();
    hovered = -1;
    draw();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const area = spacer.getBoundingClientRect();
      const at = from + ((event.clientX - area.left) / area.width) * (to - from);
      const factor = Math.exp((event.deltaY || event.deltaX) * 0.002);
      zoom(factor, at);
    },
    { passive: false },
  );

  function zoom(factor: number, at = (from + to) / 2): void {
    const left = Math.max(0, at - (at - from) * factor);
    const right = Math.min(head.width, at + (to - at) * factor);
    if (right - left >= 1e-6) fit(left, right);
  }

  function pan(part: number): void {
    const by = Math.max(-from, Math.min(head.width - to, (to - from) * part));
    fit(from + by, to + by);
  }

  listen([
    { keys: ["/", "f"], help: "search", action: () => search.focus() },
    { keys: ["Escape", "r", "0"], help: "reset zoom", action: () => fit(0, head.width) },
    { keys: ["+", "=", "w"], help: "zoom in", action: () => zoom(0.8) },
    { keys: ["-", "s"], help: "zoom out", action: () => zoom(1.25) },
    { keys: ["ArrowLeft", "a"], help: "to the left", action: () => pan(-0.2) },
    { keys: ["ArrowRight", "d"], help: "to the right", action: () => pan(0.2) },
  ]);
  redraw = draw;
  fit(0, head.width);
}

openPage(head.title, style, page);
