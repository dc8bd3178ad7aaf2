/** The state of the page in its address: the folding, the names, the colours, and the selection. */

import { type Mode, parsed, plain } from "../../shared/heat-model";
import type { HeatState } from "../../shared/heat-state";
import type { Cell, Selection } from "../../shared/selection";
import { readAddress, writeAddress } from "../../shared/url-state";

const MODES: readonly string[] = ["highlight", "isolate", "exclude", "decompose"] satisfies Mode[];

/** Cells as nanoseconds: `time 1..2` and `band 1..2 3..4`, the begins of the first and the last cell. */
function written({ model }: HeatState, selection: Selection | null): string | null {
  if (!selection) return null;
  const at = ({ place, row }: Cell) => model.timeNs(model.columns[place]!, row);
  return `${selection.shape} ${at(selection.from)}..${at(selection.to)}`;
}

function read({ model }: HeatState, text: string | null): Selection | null {
  const found = /^(time|band) (-?\d+)\.\.(-?\d+)$/.exec(text ?? "");
  if (!found) return null;
  const [shape, from, to] = [found[1] as Selection["shape"], model.cellAt(BigInt(found[2]!)), model.cellAt(BigInt(found[3]!))];
  return from.place <= to.place ? { shape, from, to } : null;
}

export function writeState(state: HeatState, more: Record<string, string | null>): void {
  const { model, selected, mode, method, lock } = state;
  const { head } = model;
  const isWhole = state.start === 0 && state.span >= model.columns.length;
  writeAddress({
    period: model.isRefolded ? plain(model.periodNs) : null,
    rows: model.isRefolded ? String(model.rows) : null,
    names: selected.length ? JSON.stringify(selected.map((at) => model.names[at])) : null,
    mode: mode === head.mode ? null : mode,
    color: method === head.method ? null : method,
    lock: lock === head.lock ? null : String(lock),
    view: isWhole ? null : `${state.start.toFixed(2)}..${state.span.toFixed(2)}`,
    before: written(state, state.before),
    selection: written(state, state.selection),
    ...more,
  });
}

/** Restores what the address says, and returns its other entries. */
export function readState(state: HeatState): URLSearchParams {
  const address = readAddress();
  const { model } = state;
  const period = parsed(address.get("period") ?? "");
  if (period !== null) state.refold(period, Number(address.get("rows")) || undefined);
  try {
    const names: unknown = JSON.parse(address.get("names") ?? "[]");
    if (Array.isArray(names)) {
      const found = names.map((name) => model.names.indexOf(String(name))).filter((at) => at >= 0);
      if (address.has("names")) state.selected = found;
    }
  } catch {
    // an address that somebody shortened
  }
  const mode = address.get("mode");
  if (mode && MODES.includes(mode)) state.mode = mode as Mode;
  const color = address.get("color");
  if (color === "rank" || color === "linear") state.method = color;
  if (address.has("lock")) state.lock = address.get("lock") === "true";
  const view = /^([\d.]+)\.\.([\d.]+)$/.exec(address.get("view") ?? "");
  if (view) {
    state.zoom(Number(view[2]) / state.span, 0);
    state.start = Number(view[1]);
    state.pan(0);
  }
  state.before = read(state, address.get("before"));
  const selection = read(state, address.get("selection"));
  if (selection) {
    [state.anchor, state.cursor] = [selection.from, selection.to];
    state.shape = selection.shape;
  }
  state.setSelection(selection);
  state.changed("cells");
  return address;
}
