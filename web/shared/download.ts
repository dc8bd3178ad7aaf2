/** Saves content that a page made as a file. */

import { h } from "./dom";

export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  h("a", { attributes: { href: url, download: name } }).click();
  URL.revokeObjectURL(url);
}
