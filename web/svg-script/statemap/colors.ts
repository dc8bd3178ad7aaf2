/** The pixels of rectangles: their own colours, or what is lit against what is not. */

import { type Panel, rgb, shareOf, taggedShare } from "./model";
import type { Session } from "./session";
import { byValue } from "./tags";

/** Returns each panel's pixel by rectangle. */
export function colorsOf(session: Session, dark: boolean, accent: number): Uint32Array[] {
  return session.model.panels.map((panel) => {
    const { lit, property, value } = session;
    if (!lit) return panel.fill;
    if (!session.isLit(panel)) return panel.fill.map(() => dim(0, dark));
    if (property !== null && value !== null) {
      const tags = new Set(byValue(panel, lit.state, property).get(value) ?? []);
      return litUp(panel, accent, dim(accent, dark), (i) => taggedShare(panel, i, tags));
    }
    const own = panel.states[lit.state]!.rgb;
    const color = isGrey(own) ? accent : own;
    return litUp(panel, color, dim(color, dark), (i) => shareOf(panel, i, lit.state));
  });
}

function litUp(
  panel: Panel,
  color: number,
  ground: number,
  share: (rectangle: number) => number,
): Uint32Array {
  return panel.fill.map((_, i) => mix(ground, color, share(i)));
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

function mix(from: number, to: number, share: number): number {
  if (share <= 0) return from;
  if (share >= 1) return to;
  const part = (shift: number) => {
    const a = (from >>> shift) & 255;
    const b = (to >>> shift) & 255;
    return Math.round(a + (b - a) * share) << shift;
  };
  return part(0) | part(8) | part(16);
}
