/** Keys: one table that is both what they do and what the help says. */

export interface Key {
  /** As `event.key` says it, with `Shift+` before it where a letter or an arrow is meant. */
  keys: string[];
  /** What the help shows instead of `keys`. */
  label?: string;
  help: string;
  action: (key: string) => void;
}

/**
 * Listens for keys, except where someone writes or a dialog has its own.
 *
 * @param home What has the focus after a field was left.
 */
export function listen(table: Key[], home?: HTMLElement): void {
  const actions = new Map(table.flatMap((entry) => entry.keys.map((key) => [key, entry.action])));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const writing = (event.target as Element | null)?.matches?.("input, select, textarea");
    if (writing) {
      if (event.key !== "Escape") return;
      // browsers clear a search by themselves, and send no event that its page listens to
      event.preventDefault();
      (event.target as HTMLElement).blur();
      home?.focus({ preventScroll: true });
      return;
    }
    // a button is pressed by these
    if (/^( |Enter)$/.test(event.key) && (event.target as Element | null)?.closest?.("button, a[href], summary")) return;
    const shifted = event.shiftKey && /^(Arrow\w+|[A-Z])$/.test(event.key);
    const action = actions.get(shifted ? `Shift+${event.key}` : event.key);
    if (!action) return;
    event.preventDefault();
    action(event.key);
  });
}

/**
 * Opens a menu of commands by keys that would choose the next one at once.
 *
 * A closed `select` goes on to the next option with an arrow, or to one that begins with a letter, and reports that as chosen.
 */
export function openByKeys(menu: HTMLSelectElement): void {
  if (!CSS.supports("selector(:open)")) return;
  menu.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || menu.matches(":open")) return;
    if (!/^(Arrow\w+|Home|End|Page\w+|[^ ])$/.test(event.key)) return;
    event.preventDefault();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") menu.showPicker();
  });
}
