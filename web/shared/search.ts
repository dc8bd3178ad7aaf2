/** What a search field looks for. */

/** A test of names: a regular expression if the text is one, otherwise plain text; null if empty. */
export function matcher(text: string): ((name: string) => boolean) | null {
  if (!text) return null;
  try {
    const pattern = new RegExp(text, "i");
    return (name) => pattern.test(name);
  } catch {
    const plain = text.toLowerCase();
    return (name) => name.toLowerCase().includes(plain);
  }
}
