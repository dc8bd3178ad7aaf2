/** The axes of a heat map: offsets at the left, times below. */

import { ticks, wallTicks } from "./format";
import { type Model, hour } from "./heat-model";
import { themeColor } from "./page";
import type { Grid } from "./selection-layer";

const LABEL_PX = 110;
const WALL_LABEL_PX = 150;

export function drawAxes(pen: CanvasRenderingContext2D, grid: Grid, model: Model, span: number, right: number): void {
  const { left, top, width, height, start, columnPx } = grid;
  pen.fillStyle = themeColor("--muted");
  pen.strokeStyle = themeColor("--line2");
  pen.lineWidth = 1;
  pen.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const { row, label } of model.rowMarks(height)) {
    const y = top + height * (1 - row / model.rows);
    pen.fillText(fitted(pen, label, left - 12), left - 9, y);
    line(pen, left - 5, y, left, y);
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  if (model.y?.kind === "weekday") {
    const step = [1, 2, 3, 6, 12].find((each) => each * columnPx >= 44) ?? 24;
    for (let of = Math.ceil(start / step) * step; of <= start + span; of += step) {
      const x = left + (of - start) * columnPx;
      const half = pen.measureText(hour(of)).width / 2;
      pen.fillText(hour(of), Math.min(x, left + width + right - half), top + height + 9);
      line(pen, x, top + height, x, top + height + 5);
    }
    return;
  }
  const last = Math.min(model.columns.length, Math.ceil(start + span));
  let end = -Infinity;
  for (let from = Math.floor(start); from < last; ) {
    if (model.columns[from]! < 0) {
      from++;
      continue;
    }
    let to = from;
    while (to < last && model.columns[to]! >= 0) to++;
    const begin = model.timeNs(model.columns[from]!, 0);
    const finish = begin + BigInt(to - from) * model.periodNs;
    const apart = model.head.utc_ns === null ? LABEL_PX : WALL_LABEL_PX;
    for (const { ns, label } of marks(begin, finish, Math.max(1, Math.floor(((to - from) * columnPx) / apart)), model.head)) {
      const x = left + (from - start + Number(ns - begin) / Number(model.periodNs)) * columnPx;
      if (x < left || x > left + width) continue;
      const half = pen.measureText(label).width / 2;
      const middle = Math.min(x, left + width + right - half);
      // later labels continue the first
      if (middle - half < end + 8) break;
      end = middle + half;
      pen.fillText(label, middle, top + height + 9);
      line(pen, x, top + height, x, top + height + 5);
    }
    from = to;
  }
}

/** A label as far as it fits; of a name, both ends. */
function fitted(pen: CanvasRenderingContext2D, label: string, px: number): string {
  if (pen.measureText(label).width <= px) return label;
  let kept = label.length - 1;
  const cut = () => `${label.slice(0, Math.ceil(kept / 2))}…${label.slice(label.length - Math.floor(kept / 2))}`;
  while (kept > 1 && pen.measureText(cut()).width > px) kept--;
  return cut();
}

function line(pen: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

function marks(
  start: bigint,
  end: bigint,
  most: number,
  head?: { begin_ns: string; utc_ns: string | null },
): { ns: bigint; label: string }[] {
  if (head && head.utc_ns !== null) {
    const zero = BigInt(head.utc_ns);
    const { base, marks: found } = wallTicks(start + zero, end + zero, most);
    return found.map(({ ns, label }, i) => ({ ns: ns - zero, label: i || !base ? label : `${base} ${label}` }));
  }
  const begin = head ? BigInt(head.begin_ns) : 0n;
  const found = ticks(start - begin, end - begin, most);
  return found.marks.map(({ ns, label }, i) => ({ ns: ns + begin, label: i === 0 && found.base ? `${found.base} ${label}` : label }));
}
