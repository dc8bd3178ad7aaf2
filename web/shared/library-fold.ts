/** Folding what libraries call among themselves: each run of their frames is one box. */

import type { CallTree } from "./call-tree";
import { TreeBuilder } from "./call-tree";
import { button } from "./dom";
import { Division, isLibrary } from "./name-colors";

const MARK = " ⋯";

/** By list of names, which are of libraries; null if the names do not show it. */
const known = new WeakMap<readonly string[], boolean[] | null>();

function librariesOf(names: readonly string[]): boolean[] | null {
  let found = known.get(names);
  if (found === undefined) {
    const division = new Division();
    for (const name of names) division.add(name);
    known.set(names, (found = division.isKnown ? names.map(isLibrary) : null));
  }
  return found;
}

/**
 * A tree in which a frame of a library has in it what it and libraries below it took, up to the next
 * frame of own code: sums are the same. A node that hides others has a name of its own.
 */
export function folded(tree: CallTree): CallTree {
  const isOfLibrary = librariesOf(tree.names);
  if (!isOfLibrary) return tree;
  const builder = new TreeBuilder(tree.names);
  const before: number[] = [];
  const made = new Int32Array(tree.parent.length);
  const hidden = new Map<number, Set<number>>();
  for (let node = 0; node < tree.parent.length; node++) {
    const caller = tree.parent[node]!;
    const name = tree.name[node]!;
    const isHidden = caller >= 0 && isOfLibrary[name]! && isOfLibrary[tree.name[caller]!]!;
    const into = isHidden ? made[caller]! : builder.child(caller < 0 ? -1 : made[caller]!, name);
    made[node] = into;
    builder.own[into]! += tree.own[node]!;
    builder.count[into]! += tree.count[node]!;
    before[into] ??= 0;
    if (isHidden) {
      const names = hidden.get(into) ?? new Set();
      hidden.set(into, names.add(name));
    } else {
      builder.value[into]! += tree.value[node]!;
      before[into]! += tree.before?.[node] ?? 0;
    }
  }
  const names = [...tree.names];
  const plain: number[] = [];
  const marked = new Map<number, number>();
  for (const node of hidden.keys()) {
    const name = builder.name[node]!;
    let code = marked.get(name);
    if (code === undefined) {
      marked.set(name, (code = names.length));
      names.push(withMark(tree.names[name]!));
      plain.push(name);
    }
    builder.name[node] = code;
  }
  const given = tree.names.length;
  return {
    ...builder.tree(),
    names,
    before: tree.before && Float64Array.from(before),
    folds: { hidden, plain: (name) => (name < given ? name : plain[name - given]!) },
  };
}

/** A name with the mark of a fold before its location. */
function withMark(name: string): string {
  const at = name.search(/ \([^()]*\)\s*$/);
  return at < 0 ? name + MARK : name.slice(0, at) + MARK + name.slice(at);
}

/** Whether libraries are folded, and the button that says so. */
export class LibraryFold {
  readonly button: HTMLButtonElement;
  private tree: CallTree | null = null;

  /** @param changed Called when the button changes it. */
  constructor(
    private on: boolean,
    private readonly changed: () => void,
  ) {
    this.button = button("Fold libraries", "One box for what libraries call among themselves (V)", () => this.toggle(), { class: "small fold" });
    this.draw();
  }

  /** What is shown of a tree; the button is there if its names say which are of libraries. */
  of(tree: CallTree): CallTree {
    this.tree = tree;
    this.draw();
    return this.on ? folded(tree) : tree;
  }

  get isOn(): boolean {
    return this.on;
  }

  set isOn(on: boolean) {
    this.on = on;
    this.draw();
  }

  toggle(): void {
    if (this.button.hidden) return;
    this.isOn = !this.on;
    this.changed();
  }

  private draw(): void {
    this.button.setAttribute("aria-pressed", String(this.on));
    this.button.hidden = !this.tree || !librariesOf(this.tree.names);
  }
}
