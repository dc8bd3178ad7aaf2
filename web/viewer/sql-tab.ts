/** SQL over the tables of a file: a statement, and its first rows as a table. */

import { button, h, name, shown } from "../shared/dom";
import { grouped } from "../shared/format";
import type { FileModel } from "./model";
import type { Rows } from "./protocol";
import type { Session } from "./session";
import { SourceError } from "./source";

const EXAMPLES: [label: string, statement: string][] = [
  ["States", "select attribute, value, duration_ns / 1e6 as ms\nfrom shares() where value is not null order by ms desc"],
  ["Spans", "select name, count(*) as count, max(duration_ns) / 1e6 as longest_ms\nfrom spans group by name order by longest_ms desc"],
  ["Tables", "select table_name, column_name, data_type\nfrom information_schema.columns where table_name not like 'meantime%'"],
];

export class SqlTab {
  readonly element = h("div", { class: "sql-tab" });
  private readonly text = h("textarea", { attributes: { rows: "3", spellcheck: "false", "aria-label": "SQL statement", placeholder: "select … from intervals, spans, samples, points, flows, threads, processes, attributes, shares(), durations(), …" } });
  private readonly result = h("div", { class: "stat-table", attributes: { "aria-live": "polite" } });
  private readonly run: HTMLButtonElement;
  private request: AbortController | null = null;
  /** The statement that the rows are of, and the file. */
  statement: string | null = null;
  file: FileModel | null = null;

  /** @param changed Called when the rows are those of another statement. */
  constructor(
    private readonly session: Session,
    private readonly changed: () => void,
  ) {
    this.run = button("Run", "Run the statement (Ctrl + Enter)", () => void this.ask());
    const examples = EXAMPLES.map(([label, statement]) =>
      button(label, `Write a statement about ${label.toLowerCase()}`, () => {
        this.text.value = statement;
        void this.ask();
      }, { class: "small" }),
    );
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.ask();
    });
    this.element.append(h("div", { class: "sql-new" }, this.text, h("div", {}, this.run, ...examples)), this.result);
  }

  focus(): void {
    this.text.focus();
  }

  private async ask(): Promise<void> {
    // the second press stops it
    if (this.request) {
      this.request.abort();
      return;
    }
    const statement = this.text.value.trim();
    const { file } = this.session;
    if (!statement || !file?.table) return;
    const request = (this.request = new AbortController());
    this.run.textContent = "Stop";
    this.message("…");
    try {
      const rows = await this.session.source.ask("sql", { file: file.index, layout: file.table.layout, statement }, request.signal);
      [this.statement, this.file] = [statement, file];
      this.show(rows);
    } catch (reason) {
      this.statement = null;
      if (reason instanceof DOMException && reason.name === "AbortError") this.message("Stopped.");
      else if (reason instanceof SourceError) this.message(reason.message);
      else throw reason;
    } finally {
      this.request = null;
      this.run.textContent = "Run";
      this.changed();
    }
  }

  private message(text: string): void {
    this.result.replaceChildren(h("p", { class: "muted" }, shown(text)));
  }

  private show({ columns, rows, more }: Rows): void {
    const isText = columns.map(([, kind]) => kind === "text");
    const head = columns.map(([label], index) => h("th", { class: isText[index] ? "text" : "", attributes: { scope: "col" } }, shown(label)));
    const body = rows.map((row) =>
      h("tr", {}, ...row.map((cell, index) => h("td", { class: isText[index] ? "text" : "" }, cell === null ? h("span", { class: "faint" }, "null") : name(cell, { title: cell })))),
    );
    const count = more ? `The first ${grouped(rows.length)} rows; the command prints all.` : `${grouped(rows.length)} ${rows.length === 1 ? "row" : "rows"}`;
    this.result.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)), h("p", { class: "muted" }, count));
  }
}
