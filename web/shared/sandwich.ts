/** Functions by weight, and of the chosen one the callers and what it calls. */

import { byFunction, calleesOf, callersOf } from "./call-tree";
import type { CallTree } from "./call-tree";
import { h, shown } from "./dom";
import { FlameGraph } from "./flame-graph";
import { FunctionTable } from "./function-table";
import type { Tooltip } from "./tooltip";

export class Sandwich {
  readonly element: HTMLElement;
  private readonly table: FunctionTable;
  private readonly callers: FlameGraph;
  private readonly callees: FlameGraph;
  private readonly titles = [h("h2"), h("h2")] as const;
  private tree: CallTree | null = null;

  constructor(tooltip: Tooltip, amount: (value: number) => string, chosen: (name: string) => void) {
    const choose = (name: number) => {
      this.choose(name);
      chosen(this.tree!.names[name]!);
    };
    this.table = new FunctionTable(amount, choose, ["own", "total", "name"]);
    this.callers = new FlameGraph(tooltip, { amount });
    this.callees = new FlameGraph(tooltip, { amount });
    this.element = h(
      "div",
      { class: "sandwich" },
      this.table.element,
      h("div", { class: "halves" }, this.titles[0], this.callers.element, this.titles[1], this.callees.element),
    );
  }

  /** Shows a tree, with the function of this name or the heaviest chosen. */
  show(tree: CallTree, name: string | null): void {
    this.tree = tree;
    const weights = byFunction(tree);
    let whole = 0;
    for (const { own } of weights) whole += own;
    this.table.show(weights, tree.names, whole);
    const named = name === null ? -1 : weights.findIndex((weight) => tree.names[weight.name] === name);
    if (weights.length) this.choose(weights[Math.max(0, named)]!.name);
  }

  recolor(): void {
    this.callers.recolor();
    this.callees.recolor();
  }

  private choose(name: number): void {
    const { tree } = this;
    if (!tree) return;
    this.table.choose(name);
    this.titles[0].textContent = `Callers of ${shown(tree.names[name]!)}, the direct ones below it`;
    this.titles[1].textContent = `What ${shown(tree.names[name]!)} calls`;
    this.callers.show(callersOf(tree, name));
    this.callees.show(calleesOf(tree, name));
  }
}
