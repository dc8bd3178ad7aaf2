/** Signs on buttons, drawn in the colour of the text. */

const SVG = "http://www.w3.org/2000/svg";

const PATHS = {
  left: "M10 3 5 8l5 5",
  right: "m6 3 5 5-5 5",
  up: "m3 10 5-5 5 5",
  down: "m3 6 5 5 5-5",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  whole: "M2.5 3v10M13.5 3v10M5 8h6M7 6 5 8l2 2M9 6l2 2-2 2",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  help: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6M8 12.3v.2",
  close: "m4 4 8 8M12 4l-8 8",
  taller: "M2 4.5h12M2 11.5h12M8 6.5v3",
  flatter: "M2 6.5h12M2 9.5h12M8 1.5v3m0 7v3",
  pin: "M5.5 2.5h5M6.5 2.5v4L4.5 9.5h7l-2-3v-4M8 9.5v4",
  hide: "M2 8s2.3-3.5 6-3.5S14 8 14 8s-2.3 3.5-6 3.5S2 8 2 8M3.5 13l9-10",
  search: "M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0M10 10l4 4",
  panel: "M2.5 3h11v10h-11zM10 3v10",
} as const;

/** What of a sign is filled. */
const FILLED: Partial<Record<keyof typeof PATHS, string>> = { theme: "M8 2.5a5.5 5.5 0 0 1 0 11z" };

export function icon(name: keyof typeof PATHS): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  const filled = FILLED[name];
  if (filled) {
    const half = document.createElementNS(SVG, "path");
    half.setAttribute("d", filled);
    half.setAttribute("fill", "currentColor");
    svg.append(half);
  }
  return svg;
}
