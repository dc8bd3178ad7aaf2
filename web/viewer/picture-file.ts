/** What is seen, as a picture: the lanes as an image, with their names and the time as text. */

import { shown } from "../shared/dom";
import { download } from "../shared/download";
import { elide, measureIn } from "../shared/fit";
import { themeColor } from "../shared/page";
import type { Session } from "./session";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const HEAD_PX = 34;
const AXIS_PX = 24;
const FOOT_PX = 24;
/** The height of a line of the legend, the room for a colour, and the most for a name. */
const LEGEND_PX = 18;
const SWATCH_PX = 15;
const MOST_NAME_PX = 260;

interface Text {
  x: number;
  y: number;
  text: string;
  color: string;
  size: number;
  bold: boolean;
  room: number;
}

interface Drawing {
  width: number;
  height: number;
  background: string;
  texts: Text[];
  lines: { x: number; y: number; width: number; height: number; color: string }[];
  image: { x: number; y: number; width: number; height: number; canvas: HTMLCanvasElement };
}

/** Collects what is on the screen. */
function drawing(session: Session, title: string, subtitle: string, legend: readonly { name: string; color: string }[]): Drawing {
  const { canvas, picture } = session.tree;
  const area = canvas.getBoundingClientRect();
  const gutter = Math.max(160, area.left);
  const measure = measureIn(`12px ${FONT}`);
  const texts: Text[] = [
    { x: 10, y: 17, text: title, color: themeColor("--text"), size: 14, bold: true, room: gutter + area.width - 20 },
    { x: gutter + area.width / 2, y: 17, text: subtitle, color: themeColor("--muted"), size: 12, bold: false, room: area.width / 2 - 10 },
  ];
  const lines = [{ x: 0, y: HEAD_PX + AXIS_PX - 1, width: gutter + area.width, height: 1, color: themeColor("--line2") }];
  for (const mark of document.querySelectorAll<HTMLElement>(".time-axis > span")) {
    const x = gutter + mark.offsetLeft;
    texts.push({ x: x + 4, y: HEAD_PX + AXIS_PX / 2, text: mark.textContent!, color: themeColor("--muted"), size: 11, bold: false, room: 110 });
    lines.push({ x, y: HEAD_PX, width: 1, height: AXIS_PX, color: themeColor("--line") });
  }
  for (const row of document.querySelectorAll<HTMLElement>(".lane-name")) {
    const box = row.getBoundingClientRect();
    const name = row.querySelector<HTMLElement>(".title")!;
    const place = name.getBoundingClientRect();
    const y = HEAD_PX + AXIS_PX + place.top - area.top + place.height / 2;
    if (box.bottom < area.top || y < HEAD_PX + AXIS_PX || y > HEAD_PX + AXIS_PX + area.height) continue;
    texts.push({ x: place.left, y, text: elide(name.textContent!, gutter - place.left - 12, measure), color: themeColor("--text"), size: 12, bold: row.classList.contains("heads"), room: gutter - place.left - 8 });
  }
  const top = HEAD_PX + AXIS_PX;
  const small = measureIn(`11px ${FONT}`);
  const end = gutter + area.width;
  let x = gutter;
  let y = top + area.height + FOOT_PX / 2;
  for (const { name, color } of legend) {
    const text = elide(shown(name), MOST_NAME_PX, small);
    const room = small(text);
    if (x > gutter && x + SWATCH_PX + room > end) {
      x = gutter;
      y += LEGEND_PX;
    }
    lines.push({ x, y: y - 5, width: 10, height: 10, color });
    texts.push({ x: x + SWATCH_PX, y, text, color: themeColor("--muted"), size: 11, bold: false, room: room + 4 });
    x += SWATCH_PX + room + 16;
  }
  return {
    width: end,
    height: y + FOOT_PX / 2,
    background: themeColor("--bg"),
    texts,
    lines,
    image: { x: gutter, y: top, width: area.width, height: area.height, canvas: picture },
  };
}

const escaped = (text: string) => shown(text).replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

function svgOf({ width, height, background, texts, lines, image }: Drawing): string {
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}">`,
    `<rect width="${width}" height="${height}" fill="${background}"/>`,
    `<image x="${image.x}" y="${image.y}" width="${image.width}" height="${image.height}" href="${image.canvas.toDataURL("image/png")}"/>`,
    ...lines.map((line) => `<rect x="${line.x}" y="${line.y}" width="${line.width}" height="${line.height}" fill="${line.color}"/>`),
    ...texts.map(({ x, y, text, color, size, bold }) => `<text x="${x}" y="${y}" dominant-baseline="central" font-size="${size}" fill="${color}"${bold ? ' font-weight="600"' : ""}>${escaped(text)}</text>`),
    "</svg>\n",
  ];
  return parts.join("\n");
}

function canvasOf({ width, height, background, texts, lines, image }: Drawing): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d")!;
  pen.scale(ratio, ratio);
  pen.fillStyle = background;
  pen.fillRect(0, 0, width, height);
  pen.drawImage(image.canvas, image.x, image.y, image.width, image.height);
  for (const line of lines) {
    pen.fillStyle = line.color;
    pen.fillRect(line.x, line.y, line.width, line.height);
  }
  pen.textBaseline = "middle";
  for (const { x, y, text, color, size, bold, room } of texts) {
    pen.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
    pen.fillStyle = color;
    pen.save();
    pen.beginPath();
    pen.rect(x, y - size, room, 2 * size);
    pen.clip();
    pen.fillText(shown(text), x, y);
    pen.restore();
  }
  return canvas;
}

/** Saves what is seen as a file. */
export function savePicture(session: Session, format: "svg" | "png", title: string, subtitle: string, legend: readonly { name: string; color: string }[]): void {
  const made = drawing(session, title, subtitle, legend);
  const name = `${title.replace(/[^\w.-]+/g, "-").slice(0, 80) || "trace"}.${format}`;
  if (format === "svg") download(name, new Blob([svgOf(made)], { type: "image/svg+xml" }));
  else canvasOf(made).toBlob((blob) => blob && download(name, blob), "image/png");
}
