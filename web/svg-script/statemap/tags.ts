/** What is known of tags: which belong to a state, their properties, and a property's values. */

import type { Panel, Tag } from "./model";

/** The state that a tag says it belongs to, by value or by name; -1 if it says none. */
function stateOf(panel: Panel, tag: Tag): number {
  return panel.states.findIndex(({ name, value }) => tag.state === value || tag.state === name);
}

/** The indices of a state's tags. */
export function tagsOf(panel: Panel, state: number): number[] {
  return panel.tags.flatMap((tag, index) => (stateOf(panel, tag) === state ? [index] : []));
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
