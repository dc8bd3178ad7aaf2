/** Call trees as columns: their layout as boxes, and the tree of the callers of a function. */

import { BoxRows } from "./box-rows";

export interface CallTree {
  names: readonly string[];
  /** Index of the caller, which comes before those it calls; -1 without one. */
  parent: Int32Array;
  /** Index into `names`. */
  name: Int32Array;
  /** What it took together with all that it called. */
  value: Float64Array;
  /** What it took itself. */
  own: Float64Array;
  /** How many calls or samples there are of it. */
  count: Float64Array;
  /** Of a comparison, the part of `value` from before; the rest is from after. */
  before?: Float64Array;
  /** If runs of frames are folded: by node the names that are hidden in it, and the name of which another one is a fold. */
  folds?: { hidden: ReadonlyMap<number, ReadonlySet<number>>; plain(name: number): number };
}

export interface Layout {
  boxes: BoxRows;
  /** The node of each box, and the box of each node, -1 if it is empty. */
  node: Int32Array;
  box: Int32Array;
  /** The sum of the outermost. */
  width: number;
}

/** Lays a tree out, callers above those they call, the heaviest leftmost. */
export function leftHeavy(tree: CallTree): Layout {
  const { parent, name, value, names } = tree;
  const count = parent.length;
  const depth = new Int32Array(count);
  let rows = 0;
  const order: number[] = [];
  for (let node = 0; node < count; node++) {
    depth[node] = parent[node]! < 0 ? 0 : depth[parent[node]!]! + 1;
    if (value[node]! <= 0) continue;
    rows = Math.max(rows, depth[node]! + 1);
    order.push(node);
  }
  const rank = new Int32Array(names.length);
  names.map((_, index) => index).sort((a, b) => (names[a]! < names[b]! ? -1 : 1)).forEach((index, at) => (rank[index] = at));
  order.sort((a, b) => depth[a]! - depth[b]! || value[b]! - value[a]! || rank[name[a]!]! - rank[name[b]!]!);
  // by depth, each caller's calls side by side from its left edge on
  const start = new Float64Array(count);
  const filled = new Float64Array(count);
  let width = 0;
  for (const node of order) {
    const caller = parent[node]!;
    if (caller < 0) {
      start[node] = width;
      width += value[node]!;
    } else {
      start[node] = start[caller]! + filled[caller]!;
      filled[caller]! += value[node]!;
    }
  }
  order.sort((a, b) => depth[a]! - depth[b]! || start[a]! - start[b]!);
  const rowStart = new Int32Array(rows + 1);
  for (const node of order) rowStart[depth[node]! + 1]!++;
  for (let row = 0; row < rows; row++) rowStart[row + 1]! += rowStart[row]!;
  const node = Int32Array.from(order);
  const box = new Int32Array(count).fill(-1);
  node.forEach((each, index) => (box[each] = index));
  const boxes = new BoxRows({
    start: Float64Array.from(node, (each) => start[each]!),
    length: Float64Array.from(node, (each) => value[each]!),
    name: Int32Array.from(node, (each) => name[each]!),
    rowStart,
  });
  return { boxes, node, box, width };
}

/** Collects weighted stacks into a tree. */
export class TreeBuilder {
  readonly parent: number[] = [];
  readonly name: number[] = [];
  readonly value: number[] = [];
  readonly own: number[] = [];
  readonly count: number[] = [];
  private readonly children = new Map<number, number>();

  constructor(private readonly names: readonly string[]) {}

  child(parent: number, name: number): number {
    const key = (parent + 1) * this.names.length + name;
    let node = this.children.get(key);
    if (node === undefined) {
      node = this.parent.length;
      this.children.set(key, node);
      this.parent.push(parent);
      this.name.push(name);
      this.value.push(0);
      this.own.push(0);
      this.count.push(0);
    }
    return node;
  }

  /** The tree whose values are the sums of what each node and those below it took themselves. */
  summed(): CallTree {
    const { value, own, parent } = this;
    for (let node = value.length - 1; node >= 0; node--) {
      value[node]! += own[node]!;
      if (parent[node]! >= 0) value[parent[node]!]! += value[node]!;
    }
    return this.tree();
  }

  tree(): CallTree {
    return {
      names: this.names,
      parent: Int32Array.from(this.parent),
      name: Int32Array.from(this.name),
      value: Float64Array.from(this.value),
      own: Float64Array.from(this.own),
      count: Float64Array.from(this.count),
    };
  }
}

/** The outermost nodes of a name: recursive calls are inside of them. */
function outermost(tree: CallTree, name: number): number[] {
  const inside = new Uint8Array(tree.parent.length);
  const found: number[] = [];
  for (let node = 0; node < tree.parent.length; node++) {
    const caller = tree.parent[node]!;
    const within = caller >= 0 && inside[caller] === 1;
    if (tree.name[node] === name && !within) found.push(node);
    inside[node] = within || tree.name[node] === name ? 1 : 0;
  }
  return found;
}

/** Who calls a function: its callers below it, theirs below them. */
export function callersOf(tree: CallTree, name: number): CallTree {
  const builder = new TreeBuilder(tree.names);
  for (const found of outermost(tree, name)) {
    let node = -1;
    for (let each = found; each >= 0; each = tree.parent[each]!) {
      node = builder.child(node, tree.name[each]!);
      builder.value[node]! += tree.value[found]!;
      builder.count[node]! += tree.count[found]!;
      if (tree.parent[each]! < 0) builder.own[node]! += tree.value[found]!;
    }
  }
  return builder.tree();
}

/** What a function calls, whoever called it. */
export function calleesOf(tree: CallTree, name: number): CallTree {
  const builder = new TreeBuilder(tree.names);
  const nodes = new Int32Array(tree.parent.length).fill(-1);
  const roots = new Set(outermost(tree, name));
  for (let node = 0; node < tree.parent.length; node++) {
    const caller = tree.parent[node]!;
    const above = caller < 0 ? -1 : nodes[caller]!;
    if (above < 0 && !roots.has(node)) continue;
    const made = builder.child(roots.has(node) ? -1 : above, tree.name[node]!);
    nodes[node] = made;
    builder.value[made]! += tree.value[node]!;
    builder.own[made]! += tree.own[node]!;
    builder.count[made]! += tree.count[node]!;
  }
  return builder.tree();
}

export interface FunctionWeight {
  name: number;
  /** Recursive calls count once. */
  total: number;
  own: number;
  count: number;
}

/** The weight of each function, most own weight first. */
export function byFunction(tree: CallTree): FunctionWeight[] {
  const sums = new Map<number, FunctionWeight>();
  for (let node = 0; node < tree.parent.length; node++) {
    const name = tree.name[node]!;
    let sum = sums.get(name);
    if (!sum) sums.set(name, (sum = { name, total: 0, own: 0, count: 0 }));
    sum.own += tree.own[node]!;
    sum.count += tree.count[node]!;
    let above = tree.parent[node]!;
    while (above >= 0 && tree.name[above] !== name) above = tree.parent[above]!;
    if (above < 0) sum.total += tree.value[node]!;
  }
  return [...sums.values()].sort((a, b) => b.own - a.own || b.total - a.total);
}

/** The part of a tree that begins at the end of a path of names from a root; all of it if there is no such path. */
export function below(tree: CallTree, path: readonly string[]): CallTree {
  let node = -1;
  for (const wanted of path) {
    node = tree.parent.findIndex((parent, each) => parent === node && tree.names[tree.name[each]!] === wanted);
    if (node < 0) return tree;
  }
  if (node < 0) return tree;
  const kept: number[] = [];
  const place = new Int32Array(tree.parent.length).fill(-1);
  // callers come first
  for (let each = node; each < tree.parent.length; each++) {
    if (each !== node && (tree.parent[each]! < 0 || place[tree.parent[each]!]! < 0)) continue;
    place[each] = kept.length;
    kept.push(each);
  }
  const of = (column: Float64Array) => Float64Array.from(kept, (each) => column[each]!);
  return { names: tree.names, parent: Int32Array.from(kept, (each) => (each === node ? -1 : place[tree.parent[each]!]!)), name: Int32Array.from(kept, (each) => tree.name[each]!), value: of(tree.value), own: of(tree.own), count: of(tree.count) };
}
