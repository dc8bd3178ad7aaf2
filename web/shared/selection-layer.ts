/** The outlines of selected cells over a heat map. */

import { themeColor } from "./page";
import { type Selection, rowsAt } from "./selection";

/** The geometry of a map's cells, in pixels. */
export interface Grid {
  left: number;
  top: number;
  width: number;
  height: number;
  rows: number;
  /** The place at the left edge, and how wide a column is. */
  start: number;
  columnPx: number;
}

/** Draws the outline of a selection, with a letter where two are compared. */
export function drawSelection(pen: CanvasRenderingContext2D, grid: Grid, selection: Selection, letter = ""): void {
  const x = (place: number) => grid.left + (place - grid.start) * grid.columnPx;
  const y = (row: number) => grid.top + grid.height * (1 - row / grid.rows);
  const { from, to } = selection;
  const path = new Path2D();
  const first = rowsAt(selection, from.place, grid.rows)!;
  const last = rowsAt(selection, to.place, grid.rows)!;
  if (selection.shape === "band" || from.place === to.place) {
    path.rect(x(from.place), y(first[1] + 1), x(to.place + 1) - x(from.place), y(first[0]) - y(first[1] + 1));
  } else {
    // up the first column, along the whole ones, and down again in the last
    const corners: [number, number][] = [
      [x(from.place), y(first[0])],
      [x(from.place), y(grid.rows)],
      [x(to.place), y(grid.rows)],
      [x(to.place), y(last[1] + 1)],
      [x(to.place + 1), y(last[1] + 1)],
      [x(to.place + 1), y(0)],
      [x(from.place + 1), y(0)],
      [x(from.place + 1), y(first[0])],
    ];
    for (const corner of corners) path.lineTo(...corner);
    path.closePath();
  }
  stroke(pen, path);
  if (!letter) return;
  const at = { x: Math.max(grid.left, x(from.place)) + 2, y: y(selection.shape === "band" ? first[1] + 1 : grid.rows) + 2 };
  pen.font = "600 11px system-ui, sans-serif";
  pen.textAlign = "left";
  pen.textBaseline = "top";
  pen.fillStyle = themeColor("--accent");
  pen.fillRect(at.x, at.y, 15, 15);
  pen.fillStyle = themeColor("--accent-ink");
  pen.fillText(letter, at.x + 4, at.y + 2);
}

/** Draws the outline of one cell: the one that keys move. */
export function drawCursor(pen: CanvasRenderingContext2D, grid: Grid, place: number, row: number, columns: number): void {
  const path = new Path2D();
  const height = grid.height / grid.rows;
  path.rect(grid.left + (place - grid.start) * grid.columnPx - 1, grid.top + grid.height - (row + 1) * height - 1, columns * grid.columnPx + 2, height + 2);
  pen.setLineDash([3, 2]);
  stroke(pen, path);
  pen.setLineDash([]);
}

/** A line of the accent that is visible on cells of any colour. */
function stroke(pen: CanvasRenderingContext2D, path: Path2D): void {
  pen.strokeStyle = themeColor("--bg");
  pen.lineWidth = 4;
  pen.stroke(path);
  pen.strokeStyle = themeColor("--accent");
  pen.lineWidth = 2;
  pen.stroke(path);
}
