/** Saves content that a page made as a file. */

import { h } from "./dom";

export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  h("a", { attributes: { href: url, download: name } }).click();
  URL.revokeObjectURL(url);
}

/** A table of texts as CSV. */
export function csv(rows: readonly (readonly string[])[]): Blob {
  const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return new Blob([rows.map((row) => row.map(quote).join(",")).join("\n"), "\n"], { type: "text/csv" });
}
