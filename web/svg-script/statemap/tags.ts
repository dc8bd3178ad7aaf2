/** What is known of tags: which belong to a state, their properties, and a property's values. */

import { type Panel, mainState } from "./model";

const known = new WeakMap<Panel, Int32Array>();

/** The state of each tag: from its own field, by value or name, or else from where it occurs. */
function statesOf(panel: Panel): Int32Array {
  let states = known.get(panel);
  if (!states) {
    states = Int32Array.from(panel.tags, (tag) =>
      panel.states.findIndex(({ name, value }) => tag.state === value || tag.state === name),
    );
    if (states.includes(-1)) seen(panel, states);
    known.set(panel, states);
  }
  return states;
}

function seen(panel: Panel, states: Int32Array): void {
  for (let i = 0; i < panel.stateAt.length - 1; i++) {
    for (let at = panel.tagAt[i]!; at < panel.tagAt[i + 1]!; at++) {
      if (states[panel.tag[at]!] === -1) states[panel.tag[at]!] = mainState(panel, i);
    }
  }
}

/** The indices of a state's tags. */
export function tagsOf(panel: Panel, state: number): number[] {
  const found: number[] = [];
  statesOf(panel).forEach((of, tag) => {
    if (of === state) found.push(tag);
  });
  return found;
}

/** The properties of a state's tags, sorted; the tag's own key last. */
export function propertiesOf(panels: Panel[], state: number): string[] {
  const found = new Set<string>();
  for (const panel of panels) {
    for (const tag of tagsOf(panel, state)) {
      for (const property of Object.keys(panel.tags[tag]!)) found.add(property);
    }
  }
  const keyed = found.delete("tag");
  found.delete("state");
  return [...[...found].sort(), ...(keyed ? ["tag"] : [])];
}

/** A value as text: a string as it is, all else as JSON. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The tags of a state by their value of a property. */
export function byValue(panel: Panel, state: number, property: string): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const tag of tagsOf(panel, state)) {
    if (!(property in panel.tags[tag]!)) continue;
    const value = textOf(panel.tags[tag]![property]);
    const same = found.get(value);
    if (same) same.push(tag);
    else found.set(value, [tag]);
  }
  return found;
}
