/** The pixels of lanes by WebGL2: a frame is quads, each of one colour or a row of pixels that is repeated. */

const VERTEX = `#version 300 es
uniform vec2 size;
layout(location = 0) in uvec3 quad;
flat out uint source;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 at = vec2(quad.x & 65535u, quad.x >> 16) + corner * vec2(quad.y & 65535u, quad.y >> 16);
  gl_Position = vec4(at / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
  source = quad.z;
}`;
// a pixel is opaque, so that its highest byte is that of no row's number
const FRAGMENT = `#version 300 es
precision highp float;
precision highp int;
uniform highp sampler2D rows;
flat in uint source;
out vec4 color;
void main() {
  if (source >> 24 == 0u) color = texelFetch(rows, ivec2(gl_FragCoord.x, source), 0);
  else color = vec4(source & 255u, source >> 8 & 255u, source >> 16 & 255u, 255) / 255.0;
}`;

/** A quad is three words: its left and top, its width and height, and its pixel or row. */
const WORDS = 3;
const FIRST_QUADS = 4096;
const FIRST_ROWS = 64;
/** Names of renderers that are programs; some browsers take them for GPUs. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render|\bwarp\b/i;

export class LaneQuads {
  readonly canvas: HTMLCanvasElement;
  isLost = false;
  private readonly gl: WebGL2RenderingContext;
  private size: WebGLUniformLocation | null = null;
  private mostPx = 0;
  private width = 0;
  private height = 0;
  private words = new Uint32Array(WORDS * FIRST_QUADS);
  private count = 0;
  private rows = new Uint32Array(0);
  private rowCount = 0;
  /** The rows for which the texture has room. */
  private room = 0;

  /**
   * Returns the quads of a canvas; null where an image is faster, as there is no GPU.
   *
   * @param changed Called when the context is lost, and when it is there again.
   */
  static of(canvas: HTMLCanvasElement, changed: () => void): LaneQuads | null {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, failIfMajorPerformanceCaveat: true });
    if (!gl) return null;
    const info = gl.getExtension("WEBGL_debug_renderer_info");
    const renderer = String(gl.getParameter(info?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER));
    if (!SOFTWARE.test(renderer)) return new LaneQuads(canvas, gl, changed);
    gl.getExtension("WEBGL_lose_context")?.loseContext();
    return null;
  }

  private constructor(canvas: HTMLCanvasElement, gl: WebGL2RenderingContext, changed: () => void) {
    this.canvas = canvas;
    this.gl = gl;
    this.setUp();
    canvas.addEventListener("webglcontextlost", (event) => {
      // otherwise it does not come back
      event.preventDefault();
      this.isLost = true;
      changed();
    });
    canvas.addEventListener("webglcontextrestored", () => {
      this.isLost = false;
      this.setUp();
      changed();
    });
  }

  private setUp(): void {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.enableVertexAttribArray(0);
    gl.vertexAttribIPointer(0, WORDS, gl.UNSIGNED_INT, 0, 0);
    gl.vertexAttribDivisor(0, 1);
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
    this.mostPx = gl.getParameter(gl.MAX_TEXTURE_SIZE) as number;
    this.size = gl.getUniformLocation(program, "size");
    this.width = this.height = this.room = 0;
  }

  /** Begins a frame, whose row 0 is `blank`; returns whether it can be drawn. */
  begin(width: number, height: number, blank: Uint32Array): boolean {
    // pinned lanes are drawn over rows of others
    if (this.isLost || width > this.mostPx || 2 * height > this.mostPx) return false;
    if (width !== this.width || height !== this.height) {
      const { gl, canvas } = this;
      this.width = canvas.width = width;
      this.height = canvas.height = height;
      this.rows = new Uint32Array(width * FIRST_ROWS);
      this.room = 0;
      gl.viewport(0, 0, width, height);
      gl.uniform2f(this.size, width, height);
    }
    this.count = this.rowCount = 0;
    this.row(blank);
    return true;
  }

  /** Adds a row of pixels, and returns its number. */
  row(pixels: Uint32Array): number {
    const at = this.rowCount * this.width;
    if (at === this.rows.length) this.rows = doubled(this.rows);
    this.rows.set(pixels, at);
    return this.rowCount++;
  }

  /** Adds a quad of a pixel, or of a row by its number. */
  add(left: number, top: number, width: number, height: number, source: number): void {
    const at = WORDS * this.count++;
    if (at === this.words.length) this.words = doubled(this.words);
    this.words[at] = left | (top << 16);
    this.words[at + 1] = width | (height << 16);
    this.words[at + 2] = source;
  }

  /** Draws the frame; the canvas may have another one once it was shown. */
  draw(): void {
    const { gl, width, rowCount } = this;
    const kind = [gl.RGBA, gl.UNSIGNED_BYTE] as const;
    if (rowCount > this.room) {
      this.room = Math.min(this.mostPx, this.rows.length / width);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, width, this.room, 0, ...kind, null);
    }
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, width, rowCount, ...kind, new Uint8Array(this.rows.buffer), 0);
    gl.bufferData(gl.ARRAY_BUFFER, this.words.subarray(0, WORDS * this.count), gl.STREAM_DRAW);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.count);
  }
}

function doubled(words: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(2 * words.length);
  larger.set(words);
  return larger;
}
