/** Names without the addresses of objects, which differ from run to run; the same rule as meantime/model/names.py. */

/** A name without addresses: `<Foo object at 0x7f10>` is `<Foo object>`. */
export function withoutAddresses(name: string): string {
  return name.includes(" at 0x") ? name.replace(/(<[^<>]*?) at 0x[0-9a-fA-F]+>/g, "$1>") : name;
}

/** Names without addresses, each once, and the index of the one that each name becomes. */
export function mergedNames(names: readonly string[]): { names: readonly string[]; code: Uint32Array } {
  const codes = new Map<string, number>();
  const code = Uint32Array.from(names, (name) => {
    const text = withoutAddresses(name);
    if (!codes.has(text)) codes.set(text, codes.size);
    return codes.get(text)!;
  });
  return { names: [...codes.keys()], code };
}
