/** The colours of boxes in the present theme. */

import type { FlameStyle } from "./flame-lane";
import { pixelOf } from "./lane-image";
import { nameColors, packed } from "./name-colors";
import { themeColor } from "./page";

const INK = { light: "#14161b", dark: "#f2f3f6" };
const FOUND = { light: packed([177, 76, 240]), dark: packed([190, 120, 255]) };

export function flameStyle(names: readonly string[], before?: FlameStyle): FlameStyle {
  const dark = document.documentElement.dataset.theme === "dark";
  return {
    background: pixelOf(themeColor("--bg")),
    colors: nameColors(names, dark),
    ink: dark ? INK.dark : INK.light,
    wanted: before?.wanted ?? null,
    found: dark ? FOUND.dark : FOUND.light,
    foundInk: dark ? INK.light : "#ffffff",
  };
}
