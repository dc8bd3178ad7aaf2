/** The part of the address after `#`: what a page shows, so that a link shows the same. */

const REST_MS = 200;

/** What the address asks for. */
export function readAddress(): URLSearchParams {
  return new URLSearchParams(location.hash.slice(1));
}

/** How many steps of this page are behind what it shows. */
function stepsBack(): number {
  return (history.state as { steps?: number } | null)?.steps ?? 0;
}

/** Goes to what the page showed before; it does not leave the page. */
export function stepBack(): void {
  if (stepsBack() > 0) history.back();
}

let timer = 0;
let isNext = false;

/**
 * Writes what the page shows into the address, once it has not changed for a moment.
 *
 * @param isStep Whether the browser's back goes to what was shown before.
 */
export function writeAddress(entries: Record<string, string | null | undefined>, isStep = false): void {
  clearTimeout(timer);
  isNext ||= isStep;
  timer = setTimeout(() => {
    const parts = new URLSearchParams();
    for (const [name, value] of Object.entries(entries)) if (value) parts.set(name, value);
    const text = parts.toString();
    try {
      const address = text ? `#${text}` : location.pathname + location.search;
      if (isNext && address !== location.hash) history.pushState({ steps: stepsBack() + 1 }, "", address);
      else history.replaceState(history.state, "", address);
      isNext = false;
    } catch {
      // a page inside another one has no address of its own
    }
  }, REST_MS);
}
