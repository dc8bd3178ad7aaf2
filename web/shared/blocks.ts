/** The data that stands in the page: JSON and bytes, in pieces. */

/** The JSON of the page. */
export function readHead<T>(): T {
  return JSON.parse(pieces("head").join("")) as T;
}

/** The bytes of a block; empty if the page has none of that name. */
export function readBlock(name: string): Uint8Array {
  const decoded = pieces(name).map(fromBase64);
  const bytes = new Uint8Array(decoded.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of decoded) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** The content of bytes that zlib compressed. */
export async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The bytes of a block that is deflated; empty if the page has none of that name. */
export async function readDeflated(name: string): Promise<Uint8Array> {
  const bytes = readBlock(name);
  return bytes.length ? inflate(bytes) : bytes;
}

/** Numbers below 2^53 from varints. */
export function decodeVarints<T extends Float64Array | Int32Array>(bytes: Uint8Array, into: T): T {
  let at = 0;
  for (let index = 0; index < into.length; index++) {
    let byte = bytes[at++]!;
    let value = byte & 127;
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = bytes[at++]!;
      value += (byte & 127) * scale;
    }
    into[index] = value;
  }
  return into;
}

/** Newer browsers decode into bytes themselves, several times as fast. */
function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const decoded = atob(text);
  const bytes = new Uint8Array(decoded.length);
  for (let i = 0; i < decoded.length; i++) bytes[i] = decoded.charCodeAt(i);
  return bytes;
}

function pieces(name: string): string[] {
  const found = document.querySelectorAll(`[data-block="${name}"]`);
  return Array.from(found, (element) => element.textContent ?? "");
}

/** Reads LEB128 numbers of up to 64 bits, which are left in `hi` and `lo`. */
export class Varints {
  hi = 0;
  lo = 0;
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  next(): void {
    const bytes = this.bytes;
    let byte = bytes[this.at++]!;
    let lo = byte & 127;
    let hi = 0;
    for (let shift = 7; byte > 127; shift += 7) {
      byte = bytes[this.at++]!;
      const bits = byte & 127;
      if (shift < 28) lo |= bits << shift;
      else if (shift === 28) {
        lo |= bits << 28;
        hi = bits >>> 4;
      } else hi |= bits << (shift - 32);
    }
    this.lo = lo >>> 0;
    this.hi = hi >>> 0;
  }

  get isAtEnd(): boolean {
    return this.at >= this.bytes.length;
  }

  /** A number that a double represents exactly. */
  number(): number {
    this.next();
    return this.hi * 2 ** 32 + this.lo;
  }

  /** A number that is known to fit in 32 bits. */
  small(): number {
    this.next();
    return this.lo;
  }
}
