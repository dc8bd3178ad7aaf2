/** The foot of a page: the command that prints or draws the same, and a button that copies it. */

import { button, h, setText, shown } from "./dom";

const COPIED_MS = 1500;

export class StatusBar {
  private readonly label = h("span");
  private readonly code = h("code");
  private readonly copy = button("Copy", "Copy the command", () => this.copyCommand());
  readonly element = h("div", { class: "statusbar" }, this.label, this.code, this.copy);
  private timer = 0;

  /** Shows a command after what it does; nothing if there is none. */
  show(label: string, command: string | null): void {
    // what is above stays in place
    this.element.style.visibility = command === null ? "hidden" : "";
    setText(this.label, label);
    setText(this.code, shown(command ?? ""));
  }

  copyCommand(): void {
    // the clipboard exists only where the page's address is trusted; a selection always does
    if (navigator.clipboard) void navigator.clipboard.writeText(this.code.textContent!).then(() => this.done(), () => this.select());
    else this.select();
  }

  private select(): void {
    getSelection()?.selectAllChildren(this.code);
    if (document.execCommand("copy")) this.done();
  }

  private done(): void {
    this.copy.textContent = "Copied";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.copy.textContent = "Copy"), COPIED_MS);
  }
}
