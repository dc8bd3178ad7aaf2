/** What is selected, in words: a span with its arguments, or a range. */

import { button, h, name, shown } from "../../shared/dom";
import { duration, exact, grouped, share } from "../../shared/format";

export interface SpanFacts {
  name: string;
  start: number;
  length: number;
  own: number;
  depth: number;
  thread: string;
  /** How many spans it represents, or how many samples. */
  count: number;
  isSampled: boolean;
  /** As in the trace, mostly JSON; null without any. */
  arguments: string | null;
  /** The flows that begin or end in it. */
  flows: { text: string; go(): void }[];
}

const big = (ns: number) => BigInt(Math.round(ns));

export function fact(label: string, value: string | Node, title = ""): HTMLElement {
  return h("div", { class: "fact" }, h("span", { class: "muted" }, label), h("span", title ? { title } : {}, value));
}

/** The fields of arguments, as texts; one without a name if the arguments are not a JSON object. */
export function fields(text: string): [string, string][] {
  try {
    const parsed: unknown = JSON.parse(text);
    if (parsed && typeof parsed === "object" && !Array.isArray(parsed)) {
      return Object.entries(parsed).map(([key, value]) => [
        key,
        typeof value === "string" ? value : JSON.stringify(value),
      ]);
    }
  } catch {
    // shown as it is
  }
  return [["", text]];
}

export function describeSpan(
  facts: SpanFacts,
  originNs: bigint,
  label: { used: string | null; use(field: string | null): void },
): Node[] {
  const { start, length, own } = facts;
  const copy = button("Copy name", "Copy the name", () => void navigator.clipboard?.writeText(facts.name), { class: "small" });
  const rows = [
    h("div", { class: "figure" }, `${facts.isSampled ? "≈ " : ""}${duration(big(length), 4)}`),
    h("p", { class: "named" }, name(facts.name)),
    fact("duration", exact(big(length))),
    fact("itself", `${duration(big(own), 4)} (${share(length ? own / length : 0)})`, exact(big(own))),
    fact("start", exact(originNs + big(start))),
    fact("after the left edge", exact(big(start))),
    fact("thread", shown(facts.thread)),
    fact("depth", String(facts.depth)),
  ];
  if (facts.isSampled) rows.push(fact("samples", grouped(facts.count)));
  else if (facts.count > 1) rows.push(fact("spans merged here", grouped(facts.count)));
  if (facts.arguments !== null) {
    rows.push(h("h2", {}, "Arguments"));
    for (const [key, value] of fields(facts.arguments)) {
      const row = fact(shown(key), h("span", { class: "value" }, shown(value)));
      if (key) {
        const isUsed = label.used === key;
        const use = button(isUsed ? "no label" : "label", `Show ${shown(key)} in labels`, () => label.use(isUsed ? null : key), {
          class: "small",
        });
        row.append(use);
      }
      rows.push(row);
    }
  }
  if (facts.flows.length) {
    rows.push(h("h2", {}, "Flows"));
    for (const { text, go } of facts.flows) rows.push(h("p", {}, button(shown(text), "Go to the other end", go, { class: "bare" })));
  }
  rows.push(h("p", {}, copy));
  return rows;
}

export function describeRange(
  range: { from: number; to: number },
  originNs: bigint,
  spans: number,
  lanes: number,
  isSelected: boolean,
): Node[] {
  return [
    h("div", { class: "figure" }, duration(big(range.to - range.from), 4)),
    h("p", { class: "named" }, isSelected ? "Selected range" : "Range in view"),
    fact("start", exact(originNs + big(range.from))),
    fact("end", exact(originNs + big(range.to))),
    fact("length", exact(big(range.to - range.from))),
    fact("spans", grouped(spans)),
    fact("lanes", grouped(lanes)),
  ];
}
