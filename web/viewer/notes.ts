/** Notes on ranges and things: a list in the panel, and flags over the lanes. */

import { button, h, shown } from "../shared/dom";
import { download } from "../shared/download";
import { duration, instant } from "../shared/format";
import type { Note } from "./protocol";
import type { Session } from "./session";
import { SourceError } from "./source";

/** Several pages may write at once. */
const MOST_ATTEMPTS = 3;

export class Notes {
  readonly element = h("div", { class: "notes" });
  notes: Note[] = [];
  private readonly text = h("textarea", { attributes: { rows: "2", "aria-label": "Text of the note", placeholder: "Note on the selection, otherwise on the range in view" } });
  private readonly list = h("ul");
  private readonly problem = h("p", { class: "muted", attributes: { role: "status" } });
  private readonly save: HTMLButtonElement;
  private readonly keep = button("Save a copy of this page", "Save this file again, with the notes inside", () => this.saveCopy());
  private isUnsaved = false;

  /** @param changed Called when the flags are others. */
  constructor(
    private readonly session: Session,
    private readonly changed: () => void,
  ) {
    this.save = button("Add note", "Add a note on the selection, otherwise on what is in view", () => void this.add());
    const { writable, reason } = session.info.notes;
    this.save.disabled = this.text.disabled = !writable;
    if (!writable) this.problem.textContent = reason ?? "Notes cannot be kept here.";
    this.keep.hidden = true;
    this.element.append(h("div", { class: "note-new" }, this.text, this.save, this.keep), this.problem, this.list);
    addEventListener("beforeunload", (event) => this.isUnsaved && event.preventDefault());
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.add();
    });
    void this.load();
  }

  focus(): void {
    this.text.focus();
  }

  /** Saves the page with its data and notes as a file. */
  saveCopy(): void {
    const copy = this.session.source.copy?.();
    if (!copy) return;
    download(decodeURIComponent(location.pathname.split("/").at(-1) || "page.html"), copy);
    this.isUnsaved = false;
    this.keep.hidden = true;
    this.problem.textContent = "The copy has the notes inside.";
  }

  private async load(): Promise<void> {
    try {
      this.notes = await this.session.source.notes();
    } catch (reason) {
      this.problem.textContent = reason instanceof SourceError ? reason.message : String(reason);
    }
    this.draw();
  }

  private async add(): Promise<void> {
    const text = this.text.value.trim();
    const { session } = this;
    const file = session.file;
    if (!text || !file) return;
    const { thing } = session;
    const { from, to } = session.asked;
    const start = thing ? thing.startNs : session.inFile(file, from);
    const end = thing ? thing.endNs : session.inFile(file, to);
    const note: Note = { id: crypto.randomUUID(), text, file: file.index, start_ns: String(start), end_ns: String(end), made: new Date().toISOString() };
    const handle = thing?.at?.handle || thing?.lane.handle;
    if (handle) note.handle = handle;
    if (await this.put([...this.notes, note])) this.text.value = "";
  }

  /** Writes all notes; if another page has written meanwhile, what has changed here is changed in its own. */
  private async put(notes: Note[]): Promise<boolean> {
    const { source } = this.session;
    this.problem.textContent = "";
    const [known, kept] = [this.notes, notes].map((each) => new Set(each.map(({ id }) => id))) as [Set<string>, Set<string>];
    const added = notes.filter(({ id }) => !known.has(id));
    let wanted = notes;
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          await source.saveNotes(wanted);
          break;
        } catch (reason) {
          if (!(reason instanceof SourceError && reason.status === 412) || attempt === MOST_ATTEMPTS) throw reason;
          // without those that were removed here
          const theirs = (await source.notes()).filter(({ id }) => kept.has(id) || !known.has(id));
          wanted = [...theirs, ...added];
        }
      }
    } catch (reason) {
      if (!(reason instanceof SourceError)) throw reason;
      this.problem.textContent = reason.message;
      return false;
    }
    this.notes = wanted;
    if (source.copy) {
      this.isUnsaved = true;
      this.keep.hidden = false;
      this.problem.textContent = "The notes are on this page only; save a copy of it to keep them.";
    }
    this.draw();
    return true;
  }

  private draw(): void {
    const { session } = this;
    this.list.replaceChildren(
      ...this.notes.map((note) => {
        const file = session.files[note.file];
        const at = file ? session.inView(file, BigInt(note.start_ns)) : 0n;
        const length = BigInt(note.end_ns) - BigInt(note.start_ns);
        const go = h("button", { class: "finding printed", on: { click: () => this.go(note) } }, h("b", {}, instant(at)), h("span", { class: "what" }, shown(note.text)), h("span", { class: "muted" }, duration(length)));
        const remove = button("×", "Remove this note", () => void this.put(this.notes.filter(({ id }) => id !== note.id)), { class: "bare" });
        remove.disabled = !session.info.notes.writable;
        return h("li", {}, go, remove);
      }),
    );
    if (!this.notes.length) this.list.replaceChildren(h("li", { class: "muted" }, "No notes yet."));
    this.changed();
  }

  private go(note: Note): void {
    const { session } = this;
    const file = session.files[note.file];
    if (!file) return;
    const [from, to] = [session.inView(file, BigInt(note.start_ns)), session.inView(file, BigInt(note.end_ns))];
    session.thing = null;
    session.setRange(to > from ? { from, to } : null);
    session.fit(from, to, 4n);
  }
}
