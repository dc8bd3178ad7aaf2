/** Labels that fit their room: names differ at both ends, so the middle goes first. */

export type Measure = (text: string) => number;

/** A measure of text in a CSS font, in pixels. */
export function measureIn(font: string): Measure {
  const context = new OffscreenCanvas(1, 1).getContext("2d")!;
  context.font = font;
  return (text) => context.measureText(text).width;
}

const graphemeBorders = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** What readers take for letters, which may be many characters: an emoji with its skin, a letter with its accents. */
function graphemes(text: string): string[] {
  return /^[\x20-\x7e]*$/.test(text) ? text.split("") : Array.from(graphemeBorders.segment(text), ({ segment }) => segment);
}

const LONGEST = 500; // more letters fit in no label

/** A text without as much of its middle as has no room; empty if fewer than `least` letters fit. */
export function elide(text: string, roomPx: number, measure: Measure, least = 2): string {
  if (text.length <= LONGEST && measure(text) <= roomPx) return text;
  const letters = graphemes(text);
  const cut = (kept: number) =>
    `${letters.slice(0, Math.ceil(kept / 2)).join("")}…${letters.slice(letters.length - Math.floor(kept / 2)).join("")}`;
  let fits = 0;
  let above = Math.min(LONGEST, letters.length);
  while (above - fits > 1) {
    const middle = (fits + above) >>> 1;
    if (measure(cut(middle)) <= roomPx) fits = middle;
    else above = middle;
  }
  return fits < least ? "" : cut(fits);
}

const RANK = " · "; // as in `3 · main`: what comes before it stays

/**
 * Returns what shortens one of these names: it drops what all of them begin with, up to a character
 * that separates parts. The same rule as `without_prefix` in views/svg.py.
 */
export function withoutPrefix(names: readonly string[]): (name: string) => string {
  const restAt = (name: string) => {
    const rank = name.lastIndexOf(RANK);
    return rank < 0 ? 0 : rank + RANK.length;
  };
  const prefix = commonPrefix(names.map((name) => name.slice(restAt(name))));
  if (!prefix) return (name) => name;
  return (name) => `${name.slice(0, restAt(name))}…${name.slice(restAt(name) + prefix)}`;
}

function commonPrefix(names: readonly string[]): number {
  if (names.length < 2) return 0;
  let shared = names[0]!.length;
  for (const name of names) {
    let same = 0;
    while (same < shared && name[same] === names[0]![same]) same++;
    shared = same;
  }
  const parts = /^.*[^\p{L}\p{N}]/su.exec(names[0]!.slice(0, shared));
  return parts ? parts[0].length : 0;
}
