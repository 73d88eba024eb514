/** One end of a connection: bytes as they come, one read at a time, in a buffer that grows with the traffic. */

/** Enough for a head or a small answer; a thousand connections that wait hold 4 MiB. */
const SMALL_BYTES = 4_096;
/** What a stream of gigabytes is read in: larger pieces were no faster (loopback, Deno 2.4.2 and 2.9.6). */
const LARGE_BYTES = 262_144;

const EMPTY = new Uint8Array(0);

/** Nobody takes what is written: a broken pipe, a reset, or a connection that was closed on our side. */
export class SocketGone extends Error {
  override readonly name = "SocketGone";
}

export class Socket {
  readonly #conn: Deno.Conn;
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(SMALL_BYTES);
  #start = 0;
  #end = 0;
  #pending: Promise<boolean> | null = null;
  #hasEnded = false;
  #isClosed = false;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
    // A small frame behind another would wait 40 ms for the first one's acknowledgement.
    if ("setNoDelay" in conn && typeof conn.setNoDelay === "function") conn.setNoDelay();
  }

  /** Nothing more will come: closed, half-closed or reset. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** What has come and isn't used. Valid until the next `fill`. */
  get unread(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  /** How much of it there is. */
  get unreadLength(): number {
    return this.#end - this.#start;
  }

  skip(count: number): void {
    this.#start += count;
  }

  /** Waits for more bytes; false when there will be none. Whoever waits meanwhile shares the read. */
  fill(): Promise<boolean> {
    if (this.#hasEnded) return Promise.resolve(false);
    this.#pending ??= this.#read();
    return this.#pending;
  }

  async #read(): Promise<boolean> {
    this.#makeRoom();
    const room = this.#buffer.subarray(this.#end);
    let count: number | null = null;
    try {
      count = await this.#conn.read(room);
    } catch {
      // A reset, or a connection that was closed on our side: either way nothing comes any more.
    }
    this.#pending = null;
    if (count === null) this.#hasEnded = true;
    else this.#end += count;
    return count !== null;
  }

  /** A read that filled the buffer is followed by larger ones; bytes that wait to be used are kept in front. */
  #makeRoom(): void {
    const kept = this.unread;
    const wasFull = this.#end === this.#buffer.length;
    if (wasFull && this.#buffer.length < LARGE_BYTES || kept.length === this.#buffer.length) {
      const grown = new Uint8Array(this.#buffer.length * 4);
      grown.set(kept);
      this.#buffer = grown;
    } else if (this.#start > 0) {
      this.#buffer.copyWithin(0, this.#start, this.#end);
    }
    this.#start = 0;
    this.#end = kept.length;
  }

  /** Between two messages: a large buffer is given up, so that idle connections are cheap. */
  rest(): void {
    if (this.#pending !== null || this.#start !== this.#end || this.#buffer.length <= SMALL_BYTES) return;
    this.#buffer = new Uint8Array(SMALL_BYTES);
    this.#start = this.#end = 0;
  }

  /** Takes a head's text where all of it has come; null where not. A refusal leaves the bytes where they are. */
  takeHeadNow(maxBytes: number): string | "too long" | null {
    const bytes = this.unread;
    const end = headEnd(bytes);
    if (end > maxBytes || end < 0 && bytes.length > maxBytes) return "too long";
    if (end < 0) return null;
    this.skip(end);
    return latin1(bytes.subarray(0, end));
  }

  /** As above, waiting for it. */
  async takeHead(maxBytes: number): Promise<string | "ended" | "too long"> {
    for (;;) {
      const head = this.takeHeadNow(maxBytes);
      if (head !== null) return head;
      if (!(await this.fill())) return "ended";
    }
  }

  /** Resolves when the kernel has taken all of it: whoever doesn't read makes this wait. Throws SocketGone. */
  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let rest = bytes; rest.length > 0;) {
        const count = await this.#conn.write(rest);
        rest = count === rest.length ? EMPTY : rest.subarray(count);
      }
    } catch (cause) {
      throw new SocketGone("Cannot write: the connection is closed", { cause });
    }
  }

  /** Ends the writing side alone. Only towards clients: Ollama never answers one that half-closes. */
  async endWriting(): Promise<void> {
    try {
      await this.#conn.closeWrite();
    } catch {
      // The other side was faster.
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#hasEnded = true;
    try {
      this.#conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** Behind the empty line that ends a head, or -1. */
function headEnd(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) {
    if (bytes[at - 1] === 0x0d && bytes[at - 2] === 0x0a && bytes[at - 3] === 0x0d) return at + 1;
  }
  return -1;
}

const ascii = new TextDecoder();

/** One character a byte, so that whatever stands in a head goes on as it came. */
export function latin1(bytes: Uint8Array): string {
  // Nearly every head. A spread of its bytes took 20 times as long, and left more behind than all the rest of a request.
  if (bytes.every((byte) => byte < 0x80)) return ascii.decode(bytes);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
