/** The colours of rectangles: of their states, or of what is lit against what is not. */

import type { Paint } from "../../shared/row-columns";
import { type Panel, rgb, shareOf, taggedShare } from "./model";
import type { Session } from "./session";
import { byValue } from "./tags";

const OPAQUE = 0xff000000;

/** The colour of a state of a panel, as a pixel without its alpha. */
export function stateRgb(panel: Panel, state: number, dark: boolean): number {
  const { color, dark: night } = panel.states[state]!;
  return rgb(dark && night !== null ? night : color);
}

/** Returns each panel's colours. */
export function colorsOf(session: Session, dark: boolean, accent: number): Paint[] {
  return session.model.panels.map((panel) => {
    const { lit, property, value } = session;
    const own = panel.states.map((_, state) => stateRgb(panel, state, dark));
    if (!lit) {
      const { found } = session;
      if (!found?.count) return byState(panel, own);
      return litUp(panel, accent, dim(accent, dark), (i) => found.share(panel, i));
    }
    if (!session.isLit(panel)) return byState(panel, own.map(() => dim(0, dark)));
    if (property !== null && value !== null) {
      const tags = new Set(byValue(panel, lit.state, property).get(value) ?? []);
      return litUp(panel, accent, dim(accent, dark), (i) => taggedShare(panel, i, tags));
    }
    const color = isGrey(own[lit.state]!) ? accent : own[lit.state]!;
    return litUp(panel, color, dim(color, dark), (i) => shareOf(panel, i, lit.state));
  });
}

/** All states in their own colours, what is active at the bottom. */
function byState(panel: Panel, colors: number[]): Paint {
  const order = colors.map((_, state) => state);
  order.sort((a, b) => panel.states[a]!.rank - panel.states[b]!.rank || a - b);
  const layers = new Uint32Array(colors.length);
  order.forEach((state, layer) => (layers[state] = layer));
  return {
    pixels: Uint32Array.from(order, (state) => (colors[state]! | OPAQUE) >>> 0),
    noticed: order.map((state) => !panel.states[state]!.quiet),
    layers,
    part: null,
  };
}

/** A colour where something is, on a ground where it is not. */
function litUp(panel: Panel, color: number, ground: number, part: (rectangle: number) => number): Paint {
  return {
    pixels: Uint32Array.of((color | OPAQUE) >>> 0, (ground | OPAQUE) >>> 0),
    noticed: [true, false],
    layers: new Uint32Array(panel.states.length),
    part,
  };
}

/** A quiet grey that a colour stands out from. */
function dim(color: number, dark: boolean): number {
  const candidates = dark ? ["#2b3037", "#59606a"] : ["#dfe2e6", "#a9afb8"];
  const [first, second] = candidates.map(rgb) as [number, number];
  return distance(first, color) >= 70 ? first : second;
}

/** Whether a colour could be mistaken for what is not lit. */
function isGrey(color: number): boolean {
  const parts = [color & 255, (color >>> 8) & 255, color >>> 16];
  return Math.max(...parts) - Math.min(...parts) < 30 && Math.max(...parts) > 60;
}

function distance(a: number, b: number): number {
  return Math.hypot((a & 255) - (b & 255), ((a >>> 8) & 255) - ((b >>> 8) & 255), (a >>> 16) - (b >>> 16));
}
