/** Wheel, drag, pinch and click on a strip of time, recognised and reported by meaning. */

export interface Gestures {
  /** Show `factor` times as much, keeping what is at x. */
  zoom(factor: number, x: number): void;
  /** The content follows a hand that moved by so many pixels. */
  pan(dx: number, dy: number): void;
  /** Roll through rows. */
  scroll(dy: number): void;
  click(x: number, y: number, event: PointerEvent): void;
  doubleClick(x: number, y: number): void;
  /** A range is being drawn; `done` when the button is let go. */
  range(from: number, to: number, done: boolean): void;
  hover(x: number, y: number): void;
  leave(): void;
  /** The end that stays if what is at x is the other end of a range; null if x is at neither. */
  anchor?(x: number, y: number): number | null;
}

export interface GestureOptions {
  /** Whether a drag draws a range rather than pans; shift always does. */
  drawsRange?: boolean;
  /** Whether the wheel with shift pans and with ctrl scrolls, rather than scrolls and zooms. */
  pansWithShift?: boolean;
}

const CLICK_PX = 4;
const LINE_PX = 16;
/** A finger that rests so long draws a range. */
const PRESS_MS = 450;
/** A wheel turns by more at a time than a pinch, which comes as a wheel with ctrl. */
const NOTCH_PX = 40;

/** Listens on an element. */
export function listen(element: HTMLElement, gestures: Gestures, { drawsRange = false, pansWithShift = false }: GestureOptions = {}): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number } | null = null;
  let moved = false;
  let ranging = false;
  let fixed: number | null = null;
  let pressing = 0;

  const place = (event: PointerEvent | WheelEvent | MouseEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? LINE_PX : event.deltaMode === 2 ? 400 : 1;
      const { deltaX, deltaY } = event;
      if (event.shiftKey && pansWithShift) gestures.pan(-(deltaY || deltaX) * unit, 0);
      else if (event.shiftKey) gestures.scroll((deltaY || deltaX) * unit);
      else if (event.ctrlKey && pansWithShift && Math.abs(deltaY) * unit >= NOTCH_PX) gestures.scroll(deltaY * unit);
      else if (Math.abs(deltaX) > Math.abs(deltaY)) gestures.pan(-deltaX * unit, 0);
      else {
        // a pinch on a touchpad comes as a wheel with ctrl, in far smaller steps
        const speed = event.ctrlKey ? 0.01 : 0.0016;
        const power = Math.max(-0.7, Math.min(0.7, deltaY * unit * speed));
        gestures.zoom(Math.exp(power), place(event).x);
      }
    },
    { passive: false },
  );

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    try {
      element.setPointerCapture(event.pointerId);
    } catch {
      // the pointer is gone already: a click that is over before it is handled
    }
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) {
      start = place(event);
      moved = false;
      fixed = gestures.anchor?.(start.x, start.y) ?? null;
      ranging = drawsRange || event.shiftKey || fixed !== null;
      if (event.pointerType === "touch") {
        pressing = setTimeout(() => {
          if (!moved && start && pointers.size === 1) ranging = true;
        }, PRESS_MS);
      }
    } else {
      moved = true;
      ranging = false;
    }
  });

  element.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = pointers.get(event.pointerId);
    if (!before || !start) {
      if (event.pointerType !== "touch") gestures.hover(now.x, now.y);
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
      const apart = Math.abs(before.x - other.x);
      const nowApart = Math.abs(now.x - other.x);
      const middle = (before.x + other.x) / 2;
      const nowMiddle = (now.x + other.x) / 2;
      gestures.pan(nowMiddle - middle, (now.y - before.y) / 2);
      if (apart > 8 && nowApart > 8) gestures.zoom(apart / nowApart, nowMiddle);
    } else if (moved || Math.hypot(now.x - start.x, now.y - start.y) > CLICK_PX) {
      clearTimeout(pressing);
      if (ranging) gestures.range(fixed ?? start.x, now.x, false);
      else if (moved) gestures.pan(now.x - before.x, now.y - before.y);
      else gestures.pan(now.x - start.x, now.y - start.y);
      moved = true;
    } else return;
    pointers.set(event.pointerId, now);
  });

  const end = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId) || pointers.size || !start) return;
    const now = place(event);
    if (event.type === "pointerup") {
      if (!moved) gestures.click(now.x, now.y, event);
      else if (ranging) gestures.range(fixed ?? start.x, now.x, true);
    }
    clearTimeout(pressing);
    start = null;
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  element.addEventListener("pointerleave", () => gestures.leave());
  element.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    gestures.doubleClick(x, y);
  });
}
