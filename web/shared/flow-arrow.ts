/** Draws the arrow of a flow: a dot where it begins, a head where it ends. */

export interface Spot {
  x: number;
  y: number;
}

/** Draws an arrow in a colour; `dip` is how far below its ends the curve goes. */
export function drawFlowArrow(context: CanvasRenderingContext2D, from: Spot, to: Spot, color: string, dip = 0): void {
  const bend = Math.max(12, Math.min(80, Math.abs(to.x - from.x) / 2));
  context.strokeStyle = context.fillStyle = color;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.bezierCurveTo(from.x + bend, from.y + dip, to.x - bend, to.y + dip, to.x - 4, to.y);
  context.stroke();
  context.beginPath();
  context.arc(from.x, from.y, 2.5, 0, 2 * Math.PI);
  context.moveTo(to.x, to.y);
  context.lineTo(to.x - 6, to.y - 3.5);
  context.lineTo(to.x - 6, to.y + 3.5);
  context.fill();
}
