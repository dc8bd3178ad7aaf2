/** Which lanes a text filters: those with it in their name or path, as the server filters them. */

/** What a lane is called that is named by its number: `thread 12`, `CPU 3`; null if it is none of these. */
export function numbered(name: string, path: string): string | null {
  if (path.endsWith(`/Threads/${name}`)) return `thread ${name}`;
  return `${path}/`.startsWith(`CPUs/${name}/`) ? `CPU ${name}` : null;
}

/** Whether a lane has a text, which is in lower case, in its name or path. */
export function isCalled(name: string, path: string, text: string): boolean {
  return [name, path, numbered(name, path) ?? ""].some((each) => each.toLowerCase().includes(text));
}
