/**
 * The colours of names: a name has the same hue in every picture and theme. Code of one's own is
 * loud and coloured by its name, code of libraries is quiet and coloured by its module. The same
 * rule as views/name_colors.py.
 */

/** Without the hues of running and blocked states. */
const HUES = [46, 66, 88, 110, 132, 190, 208, 228, 250, 272, 294, 316, 340];

/** How far the next hue is that is tried, so that it differs clearly. */
const RING_STEP = 5;

/** FNV-1a of a text's UTF-16 code units, with its bits mixed. */
export function hash(text: string): number {
  let code = 2166136261;
  for (let i = 0; i < text.length; i++) {
    code ^= text.charCodeAt(i);
    code = Math.imul(code, 16777619);
  }
  code ^= code >>> 15;
  code = Math.imul(code, 2246822519);
  code ^= code >>> 13;
  return code >>> 0;
}

const LIBRARY =
  /site-packages|dist-packages|[/\\]lib(?:64)?[/\\]|\bpython3?\.\d+t?[/\\]|\bmeantime[/\\]collect[/\\]|<frozen |<built-in|<string>|node_modules|\bnode:|\[kernel|\bvmlinux\b|\.so\b|\.dll\b|\/usr\/|rustlib/;
/** Where files have such folders, those of the program itself have none. */
const PACKAGE = /(?:^|[/\\])(?:site-packages|dist-packages|python3\.\d+t?)[/\\]/;
const BARE_FILE = /^[^/\\<]+\.pyx?$/;
/** Functions in which an event loop or a thread does nothing but wait. */
const IDLE = /^(?:(?:Epoll|Poll|Select|Kqueue|Devpoll)Selector\._?select|(?:__)?(?:epoll_p?wait2?|p?poll|p?select))(?: \([^]*)?$/;
const FILE = /\(([^()]*[./\\<][^()]*?)(?::\d+)?\)\s*$/;
/** As CPython names functions for perf: `py::function:/a/file.py`. */
const PERF_FILE = /^py::[^:]*:(.+)$/;
const LEADING_FILE = /^([\w./-]+\.\w+)(?::\d+)?[(:]/;

/** The file that a name mentions, or an empty text. */
function fileOf(name: string): string {
  return (FILE.exec(name) ?? PERF_FILE.exec(name) ?? LEADING_FILE.exec(name))?.[1] ?? "";
}

/** The module of a name: its file, or what is before `::`, `:`, `.` or a parenthesis. */
export function moduleOf(name: string): string {
  return fileOf(name) || (/^([\w ]+?)(?:::|:|\.|\()/.exec(name)?.[1] ?? name);
}

/** Whether some names show that they are of libraries, and others that they are of own code: then they differ in strength. */
export class Division {
  private hasLibraries = false;
  private hasOwn = false;
  private hasPackages = false;
  private hasBare = false;

  add(name: string): void {
    const file = fileOf(name);
    if (!file) return;
    const isOfLibrary = LIBRARY.test(file);
    this.hasLibraries ||= isOfLibrary;
    this.hasOwn ||= !isOfLibrary && /[/\\]/.test(file);
    this.hasPackages ||= PACKAGE.test(file);
    this.hasBare ||= BARE_FILE.test(file);
  }

  get isKnown(): boolean {
    return this.hasLibraries && (this.hasOwn || (this.hasPackages && this.hasBare));
  }
}

/** An OKLCH colour as red, green and blue, 0 to 255. */
export function oklch(lightness: number, chroma: number, hue: number): [number, number, number] {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const encode = (part: number) => {
    const light = Math.max(0, Math.min(1, part));
    return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055));
  };
  return [
    encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    encode(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

/** The lightness, chroma and hue of red, green and blue, 0 to 255. */
export function toOklch(color: readonly number[]): [lightness: number, chroma: number, hue: number] {
  const [red, green, blue] = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4)) as [number, number, number];
  const l = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const m = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const s = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  const a = 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s;
  const b = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s;
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, Math.hypot(a, b), (Math.atan2(b, a) * 180) / Math.PI];
}

/** What a colour that is nearly white becomes on dark ground; any other stays, as `pale_at_night` in views/palette.py. */
export function atNight(pixel: number): number {
  const [lightness, chroma, hue] = toOklch([pixel & 255, (pixel >>> 8) & 255, (pixel >>> 16) & 255]);
  return Math.hypot(1 - lightness, chroma) < PALE ? packed(oklch(1.25 - lightness, 1.5 * chroma, hue)) : pixel;
}

/** Colours that are nearer to white are hardly more than the ground of a page by day. */
const PALE = 0.14;

/** A colour as a pixel of image data has it: the red byte first in memory. */
export function packed([red, green, blue]: readonly [number, number, number]): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export function css(color: number): string {
  return `#${[color, color >>> 8, color >>> 16].map((part) => (part & 255).toString(16).padStart(2, "0")).join("")}`;
}

/** Whether a name is of a library, as far as the name alone shows it. */
export function isLibrary(name: string): boolean {
  return LIBRARY.test(fileOf(name));
}

/**
 * The packed colour of a name, for boxes with labels.
 *
 * @param quiet Whether it is of a library; null if the names do not show it.
 */
export function nameColor(name: string, quiet: boolean | null, dark: boolean): number {
  if (IDLE.test(name)) return packed(dark ? oklch(0.245, 0.008, 265) : oklch(0.945, 0.006, 265));
  const step = (hash(name) >>> 11) % 3;
  const chroma = quiet ? 0.028 : dark ? 0.1 : 0.105;
  const lightness = dark ? (quiet ? 0.33 : 0.44) + step * 0.03 : (quiet ? 0.9 : 0.8) - step * 0.025;
  return packed(oklch(lightness, chroma, hueOf(name, quiet)));
}

/** The same hue for swatches, bars and lines, which have no labels and may be stronger. */
export function markColor(name: string, quiet: boolean | null, dark: boolean): number {
  const chroma = quiet ? 0.05 : dark ? 0.13 : 0.135;
  return packed(oklch(dark ? 0.72 : 0.64, chroma, hueOf(name, quiet)));
}

function hueOf(name: string, quiet: boolean | null): number {
  const code = hash(name);
  const byName = quiet === false;
  return HUES[(byName ? code : hash(moduleOf(name))) % HUES.length]! + ((code >>> 7) % 3) * 6 - 6;
}

/**
 * The colours of a legend with few names, as swatches and bars have them: no two have the same hue. They depend on the
 * set of names only; of more names than hues, each has its own colour.
 */
export function legendColors(names: readonly string[], dark: boolean): Map<string, number> {
  if (names.length > HUES.length) return new Map(names.map((name) => [name, markColor(name, null, dark)]));
  const taken = new Set<number>();
  return new Map(
    [...names].sort().map((name) => {
      let at = hash(moduleOf(name)) % HUES.length;
      while (taken.has(at)) at = (at + RING_STEP) % HUES.length;
      taken.add(at);
      const hue = HUES[at]! + ((hash(name) >>> 7) % 3) * 6 - 6;
      return [name, packed(oklch(dark ? 0.72 : 0.64, dark ? 0.13 : 0.135, hue))];
    }),
  );
}

/** The packed colour of each name, for boxes with labels. */
export function nameColors(names: readonly string[], dark: boolean): Uint32Array {
  const division = new Division();
  for (const name of names) division.add(name);
  return Uint32Array.from(names, (name) => nameColor(name, division.isKnown ? isLibrary(name) : null, dark));
}
