/** The requests of services: a table of them, and the calls of the selected one under each other, as they called each other. */

import { button, h, name, replaceContent, shown } from "../shared/dom";
import { duration, exact, grouped, instant, share } from "../shared/format";
import { css } from "../shared/name-colors";
import { pixelOfKind } from "./facts";
import type { FileModel } from "./model";
import type { CallOfRequest, Hit, RequestOfService, RequestsOfServices, RequestWithCalls } from "./protocol";
import type { Session, Thing } from "./session";

/** So many requests are shown at once. */
const PAGE_ROWS = 200;
/** A part of a request that is thinner is drawn so wide, in hundredths of its bar. */
const LEAST = 0.15;

type Order = "duration" | "starts" | "usual" | "failed";

export interface RequestActions {
  /** Selects a call and shows it as large as the page. */
  fit(file: FileModel, hit: Hit): void;
  /** Selects a call and shows where it is. */
  select(file: FileModel, hit: Hit): void;
}

/** Whether a file has requests of services. */
export function hasRequests(file: FileModel): boolean {
  return file.info.groupings.includes("operation");
}

export class RequestsTab {
  readonly element = h("div", { class: "requests" });
  private readonly table = h("div", { class: "stat-table request-list" });
  private readonly calls = h("div", { class: "waterfall", attributes: { tabindex: "0", "aria-label": "Calls of the request" } });
  private file: FileModel | null = null;
  private found: RequestsOfServices | null = null;
  private opened: RequestWithCalls | null = null;
  private order: Order = "duration";
  private page = 0;

  constructor(
    private readonly session: Session,
    private readonly actions: RequestActions,
  ) {
    this.element.append(this.table, this.calls);
    this.table.addEventListener("keydown", (event) => this.step(event));
  }

  /** Which requests are shown: those of a range, and the calls of the one that is selected. */
  async show(file: FileModel, from: bigint, to: bigint, signal: AbortSignal): Promise<void> {
    const { source, thing } = this.session;
    if (!hasRequests(file)) return this.fail("No requests", "This needs the spans of services, as OpenTelemetry, Jaeger or Zipkin record them.");
    if (source.isEmbedded) return this.fail("Not in this page", "Requests are looked for by the server: open the trace with meantime view.");
    const asked = { file: file.index, layout: file.table!.layout };
    const found = await source.ask("requests", { ...asked, from, to }, signal);
    this.file = file;
    this.found = found;
    const span = isSpan(thing) && thing.lane.file === file ? thing.span : (found.requests[0]?.span ?? null);
    try {
      this.opened = span === null ? null : await source.ask("request", { ...asked, span }, signal);
    } catch (reason) {
      if (signal.aborted) throw reason;
      // a span of no request
      this.opened = null;
    }
    this.draw();
  }

  /** The id of the trace whose calls are shown; empty if there is none. */
  get traceId(): string {
    return this.opened?.trace_id ?? "";
  }

  fail(title: string, text: string): void {
    this.found = this.opened = null;
    replaceContent(this.table, h("div", { class: "nothing" }, h("h2", {}, title), h("p", {}, shown(text))));
    this.calls.hidden = true;
  }

  draw(): void {
    if (!this.found) return;
    const focused = this.table.contains(document.activeElement) && document.activeElement!.matches("tr");
    this.drawTable(this.found);
    this.drawCalls();
    if (focused) this.table.querySelector<HTMLElement>("tr[aria-selected=true], tbody tr")?.focus({ preventScroll: true });
  }

  private drawTable(found: RequestsOfServices): void {
    if (!found.requests.length) return this.fail("No requests here", "No request is open in this range. Select a longer one, or press 0 to see the whole trace.");
    const sorted = [...found.requests].sort(this.compared(found));
    this.page = Math.min(this.page, Math.floor((sorted.length - 1) / PAGE_ROWS));
    const first = this.page * PAGE_ROWS;
    const part = sorted.slice(first, first + PAGE_ROWS);
    const selected = this.opened?.calls[0]?.span ?? null;
    const head = h(
      "tr",
      {},
      this.head("duration", "duration", "The longest first"),
      this.head("of usual", "usual", "How many times as long as the median of the requests of its name"),
      h("th", { class: "text name", attributes: { scope: "col" } }, "request"),
      h("th", { class: "text critical", title: "The service and operation on which most of its time depended, and with how much of it", attributes: { scope: "col" } }, "depended on"),
      this.head("errors", "failed", "Spans of it that failed"),
      this.head("starts", "starts", "In order of time"),
    );
    const rows = part.map((each, at) => this.row(found, each, each.span === selected, selected === null && !at));
    const pages = [
      first > 0 ? button("earlier rows", "Earlier rows", () => this.go(-1), { class: "link" }) : null,
      `${grouped(found.count)} ${found.count === 1 ? "request" : "requests"}${found.rest ? `, of which the longest ${grouped(found.requests.length)} are listed` : ""}`,
      first + part.length < sorted.length ? button("later rows", "Later rows", () => this.go(1), { class: "link" }) : null,
    ];
    replaceContent(this.table, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)), h("p", { class: "muted pages" }, ...pages));
    this.table.querySelector("tr[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  private row(found: RequestsOfServices, each: RequestOfService, isSelected: boolean, isFirst: boolean): HTMLElement {
    const { session } = this;
    const file = this.file!;
    const length = lengthOf(each);
    const usual = found.kinds[each.of]!;
    const times = usual.count > 1 ? timesOf(found, each) : null;
    const made = h(
      "tr",
      { attributes: { tabindex: isSelected || isFirst ? "0" : "-1", "aria-selected": String(isSelected) } },
      h("td", { class: "duration", title: exact(length) }, duration(length)),
      h("td", { class: "usual", title: `usually ${duration(BigInt(usual.median_ns))}, ${grouped(usual.count)} of them` }, times === null ? "–" : `${times.toFixed(times < 10 ? 1 : 0)} ×`),
      h("td", { class: "text name", title: `${grouped(each.spans)} spans of ${grouped(each.services)} ${each.services === 1 ? "service" : "services"}, trace ${each.trace_id || "without an id"}` }, this.swatch(file, each), name(each.name), h("span", { class: "faint" }, shown(each.service))),
      h("td", { class: "text critical", title: exact(BigInt(each.critical_ns)) }, name(each.critical), h("span", { class: "faint" }, share(Number(each.critical_ns) / Math.max(1, Number(length))))),
      h("td", { class: each.failed ? "failed some" : "failed" }, each.failed ? grouped(each.failed) : ""),
      h("td", { class: "starts" }, instant(session.inView(file, BigInt(each.start_ns)))),
    );
    const choose = () => this.actions.fit(file, each);
    made.addEventListener("click", choose);
    made.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    return made;
  }

  private drawCalls(): void {
    const { opened, file } = this;
    this.calls.hidden = !opened;
    if (!opened || !file) return;
    const outer = opened.calls[0]!;
    const [start, length] = [BigInt(outer.start_ns), Math.max(1, Number(lengthOf(outer)))];
    // a service whose clock differs may be outside of what called it
    const place = (ns: string | bigint) => Math.min(100, Math.max(0, (100 * Number(BigInt(ns) - start)) / length));
    const critical: [number, number][][] = opened.calls.map(() => []);
    opened.path.call.forEach((call, at) => critical[call]?.push([place(opened.path.start_ns[at]!), place(opened.path.end_ns[at]!)]));
    const { thing } = this.session;
    const lines = opened.calls.map((call, at) => this.line(file, call, [place(call.start_ns), place(call.end_ns)], critical[at]!, thing?.span === call.span));
    this.calls.replaceChildren(
      h("p", { class: "waterfall-head" }, h("b", {}, duration(lengthOf(outer))), " ", name(opened.name), opened.trace_id ? h("span", { class: "faint", title: "Trace id" }, shown(opened.trace_id)) : null),
      ...(opened.sentence ? [h("p", {}, shown(`This one is slow: ${opened.sentence}.`))] : []),
      h("p", { class: "muted" }, "Underlined: the request depended on this call, for as long as the last figure says."),
      ...lines,
      ...(opened.rest ? [h("p", { class: "muted" }, `and ${grouped(opened.rest)} more calls`)] : []),
    );
  }

  /** A call: what it is, when it was open, and when the request depended on it. */
  private line(file: FileModel, call: CallOfRequest, [from, to]: [number, number], critical: [number, number][], isSelected: boolean): HTMLElement {
    const pixel = pixelOfKind(file, "stack", call.name);
    const wide = (a: number, b: number) => `left:${a.toFixed(3)}%;width:${Math.max(LEAST, b - a).toFixed(3)}%`;
    const length = lengthOf(call);
    const own = BigInt(call.own_ns);
    const made = h(
      "button",
      { class: call.failed ? "call failed" : "call", title: `${shown(call.service)} ${shown(call.name)}, ${exact(length)}${call.failed ? ", failed" : ""}`, attributes: { "aria-pressed": String(isSelected) } },
      h("span", { class: "what", style: `padding-left:${Math.min(call.depth, 12) * 10}px` }, h("span", { class: "faint" }, shown(call.service)), name(call.name), call.failed ? h("span", { class: "badge" }, "failed") : null),
      h("span", { class: "bar" }, h("i", { style: `${wide(from, to)};${pixel === null ? "" : `background:${css(pixel)}`}` }), ...critical.map(([a, b]) => h("i", { class: "critical", style: wide(a, b) }))),
      h("span", { class: "took" }, duration(length)),
      h("span", { class: "took own" }, own > 0n ? duration(own) : ""),
    );
    made.type = "button";
    made.addEventListener("click", () => this.actions.select(file, call));
    return made;
  }

  private swatch(file: FileModel, { lane, name: what }: Hit): HTMLElement {
    const pixel = lane === null ? null : pixelOfKind(file, file.table!.kind[lane]!, what);
    return h("i", { class: "swatch", style: pixel === null ? "" : `background:${css(pixel)}` });
  }

  private head(title: string, order: Order, sentence: string): HTMLElement {
    const sort = h("button", {
      class: "bare printed",
      title: sentence,
      on: {
        click: () => {
          this.order = order;
          this.page = 0;
          this.draw();
        },
      },
    }, title);
    return h("th", { class: order, attributes: { scope: "col", "aria-sort": this.order !== order ? "none" : order === "starts" ? "ascending" : "descending" } }, sort);
  }

  private compared(found: RequestsOfServices): (one: RequestOfService, other: RequestOfService) => number {
    switch (this.order) {
      case "duration":
        return (one, other) => Number(lengthOf(other) - lengthOf(one));
      case "starts":
        return (one, other) => Number(BigInt(one.start_ns) - BigInt(other.start_ns));
      case "failed":
        return (one, other) => other.failed - one.failed;
      case "usual":
        return (one, other) => timesOf(found, other) - timesOf(found, one);
    }
  }

  private go(step: 1 | -1): void {
    this.page += step;
    this.draw();
    this.table.scrollTop = 0;
  }

  /** The arrows go through the rows, not through the lanes. */
  private step(event: KeyboardEvent): void {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const row = (event.target as Element).closest?.("tbody tr");
    if (!by || !row) return;
    event.preventDefault();
    event.stopPropagation();
    (by > 0 ? row.nextElementSibling : row.previousElementSibling)?.closest<HTMLElement>("tr")?.focus();
  }
}

function isSpan(thing: Thing | null): thing is Thing & { span: number } {
  return thing?.span != null && thing.lane.kind === "stack";
}

function lengthOf(hit: Hit): bigint {
  return BigInt(hit.end_ns) - BigInt(hit.start_ns);
}

/** How many times as long as the median of its name a request is. */
function timesOf(found: RequestsOfServices, each: RequestOfService): number {
  return Number(lengthOf(each)) / Math.max(1, Number(found.kinds[each.of]!.median_ns));
}
