/** What has come in on a connection and isn't used yet. One read at a time, shared by whoever waits for bytes. */
export class ByteSource {
  readonly #conn: Deno.Conn;
  readonly #onRead: () => void;
  readonly #chunk = new Uint8Array(65_536);
  #bytes = new Uint8Array(0);
  #pending: Promise<boolean> | null = null;
  #hasEnded = false;

  constructor(conn: Deno.Conn, onRead: () => void) {
    this.#conn = conn;
    this.#onRead = onRead;
  }

  /** Waits for more bytes; false when there will be none (closed, half-closed or reset by the other side). */
  fill(): Promise<boolean> {
    if (this.#hasEnded) return Promise.resolve(false);
    this.#pending ??= this.#read().finally(() => {
      this.#pending = null;
    });
    return this.#pending;
  }

  /** Takes the text up to and with `mark` (ASCII), waiting for it; null when the connection ends before. */
  async takeThrough(mark: string): Promise<string | null> {
    for (;;) {
      const text = new TextDecoder("latin1").decode(this.#bytes);
      const at = text.indexOf(mark);
      if (at >= 0) {
        const length = at + mark.length;
        this.#bytes = this.#bytes.slice(length);
        return text.slice(0, length);
      }
      if (!(await this.fill())) return null;
    }
  }

  /** Takes exactly that many bytes; null when the connection ends before. */
  async take(length: number): Promise<Uint8Array<ArrayBuffer> | null> {
    while (this.#bytes.length < length) if (!(await this.fill())) return null;
    const taken = this.#bytes.slice(0, length);
    this.#bytes = this.#bytes.slice(length);
    return taken;
  }

  async #read(): Promise<boolean> {
    let count: number | null = null;
    try {
      count = await this.#conn.read(this.#chunk);
    } catch {
      // A reset, or a connection that we closed ourselves: either way nothing comes any more.
      count = null;
    }
    this.#onRead();
    if (count === null) {
      this.#hasEnded = true;
      return false;
    }
    const grown = new Uint8Array(this.#bytes.length + count);
    grown.set(this.#bytes);
    grown.set(this.#chunk.subarray(0, count), this.#bytes.length);
    this.#bytes = grown;
    return true;
  }
}
