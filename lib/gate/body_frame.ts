/** Where a message's body ends. The bytes themselves go on as they came, chunk frames and trailers included. */
import { type HeadField, type RequestHead, type ResponseHead, tokensOf, valuesOf } from "./http_head.ts";

/** Counts a body off, in whatever pieces it comes. */
export interface BodyFrame {
  /** True once the body's last byte was taken; a body without one is done before the first. */
  readonly isDone: boolean;
  /**
   * How many of these bytes belong to the body. `onContent` gets the content among them, without chunk frames. Throws
   * MalformedFrame.
   */
  take(bytes: Uint8Array, onContent?: (content: Uint8Array) => void): number;
}

export class MalformedFrame extends Error {
  override readonly name = "MalformedFrame";
}

/** Null when its length is said in two ways or in none that can be read: each end might then see another request. */
export function requestFrame({ version, fields }: RequestHead): BodyFrame | null {
  const coding = tokensOf(fields, "transfer-encoding");
  const length = lengthOf(fields);
  if (length === "malformed") return null;
  if (coding.length === 0) return new LengthFrame(length ?? 0);
  return coding.join() === "chunked" && length === null && version === "HTTP/1.1" ? new ChunkedFrame() : null;
}

/** Null as above. `until the end` = the body ends with the connection. */
export function responseFrame(
  { status, fields }: ResponseHead,
  { method }: { readonly method: string },
): BodyFrame | "until the end" | null {
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return new LengthFrame(0);
  const coding = tokensOf(fields, "transfer-encoding");
  if (coding.length > 0) return coding.at(-1) === "chunked" ? new ChunkedFrame() : "until the end";
  const length = lengthOf(fields);
  if (length === "malformed") return null;
  return length === null ? "until the end" : new LengthFrame(length);
}

function lengthOf(fields: readonly HeadField[]): number | null | "malformed" {
  const [length, ...others] = valuesOf(fields, "content-length");
  if (length === undefined) return null;
  return others.every((other) => other === length) && /^[0-9]{1,15}$/.test(length) ? Number(length) : "malformed";
}

export class LengthFrame implements BodyFrame {
  #left: number;

  constructor(length: number) {
    this.#left = length;
  }

  get isDone(): boolean {
    return this.#left === 0;
  }

  /** What is still to come. */
  get left(): number {
    return this.#left;
  }

  take(bytes: Uint8Array, onContent?: (content: Uint8Array) => void): number {
    const count = Math.min(this.#left, bytes.length);
    this.#left -= count;
    if (count > 0) onContent?.(bytes.subarray(0, count));
    return count;
  }
}

const LF = 0x0a;
/** A chunk's size with its extensions, or a trailer. */
const MAX_LINE_BYTES = 8_192;

/** `Transfer-Encoding: chunked`. */
export class ChunkedFrame implements BodyFrame {
  #state: "size" | "content" | "content's end" | "trailers" | "done" = "size";
  #left = 0;
  #line = "";

  get isDone(): boolean {
    return this.#state === "done";
  }

  take(bytes: Uint8Array, onContent?: (content: Uint8Array) => void): number {
    let at = 0;
    while (at < bytes.length && this.#state !== "done") {
      if (this.#state === "content") {
        const count = Math.min(this.#left, bytes.length - at);
        onContent?.(bytes.subarray(at, at + count));
        this.#left -= count;
        at += count;
        if (this.#left === 0) this.#state = "content's end";
        continue;
      }
      const end = bytes.indexOf(LF, at);
      const piece = bytes.subarray(at, end < 0 ? bytes.length : end + 1);
      this.#line += String.fromCharCode(...piece.subarray(0, MAX_LINE_BYTES + 1));
      if (this.#line.length > MAX_LINE_BYTES) throw new MalformedFrame("a chunk's line is too long");
      at += piece.length;
      if (end >= 0) this.#endLine();
    }
    return at;
  }

  #endLine(): void {
    const line = this.#line;
    this.#line = "";
    if (!line.endsWith("\r\n")) throw new MalformedFrame("a chunk's line ends in a bare line feed");
    if (this.#state === "content's end") {
      if (line !== "\r\n") throw new MalformedFrame("a chunk is longer than its size");
      this.#state = "size";
      return;
    }
    if (this.#state === "trailers") {
      if (line === "\r\n") this.#state = "done";
      return;
    }
    const [, size] = /^([0-9a-fA-F]{1,12})[ \t]*(?:;[^\r]*)?\r\n$/.exec(line) ?? [];
    if (size === undefined) throw new MalformedFrame("a chunk has no size");
    this.#left = parseInt(size, 16);
    this.#state = this.#left === 0 ? "trailers" : "content";
  }
}
