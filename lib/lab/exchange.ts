import type { ByteSource } from "./byte_source.ts";

export type HeaderPairs = readonly (readonly [string, string])[];

export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export interface Reply {
  readonly status: number;
  readonly headers?: HeaderPairs;
  /** Text or bytes, framed by Content-Length. */
  readonly body?: string | Uint8Array;
}

/** A connection after its upgrade. */
export interface Upgraded {
  readonly conn: Deno.Conn;
  readonly source: ByteSource;
  readonly drop: () => void;
  readonly onWrite: () => void;
}

const PHRASES: Readonly<Record<number, string>> = {
  101: "Switching Protocols",
  200: "OK",
  204: "No Content",
  301: "Moved Permanently",
  307: "Temporary Redirect",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  413: "Request Entity Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/**
 * One request and its answer, byte by byte as the lab's servers want it: they must be able to answer late, in pieces, in
 * half or not at all, and to notice a client that hangs up.
 */
export class Exchange {
  readonly head: RequestHead;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly #conn: Deno.Conn;
  readonly #source: ByteSource;
  readonly #onWrite: () => void;
  readonly #drop: () => void;
  readonly #hungUp = new AbortController();
  #state: "waiting" | "streaming" | "answered" | "cut" | "upgraded" = "waiting";
  #mustClose = false;
  #common: HeaderPairs = [];

  constructor(parts: {
    readonly head: RequestHead;
    readonly body: Uint8Array<ArrayBuffer>;
    readonly conn: Deno.Conn;
    readonly source: ByteSource;
    readonly onWrite: () => void;
    readonly drop: () => void;
  }) {
    this.head = parts.head;
    this.body = parts.body;
    this.#conn = parts.conn;
    this.#source = parts.source;
    this.#onWrite = parts.onWrite;
    this.#drop = parts.drop;
  }

  /** Aborts when the client closes or half-closes before it has its answer. */
  get hungUp(): AbortSignal {
    return this.#hungUp.signal;
  }

  get hasBegun(): boolean {
    return this.#state !== "waiting";
  }

  /** Whether another request may follow on this connection. */
  get isReusable(): boolean {
    return this.#state === "answered" && !this.#mustClose && !this.hungUp.aborted;
  }

  get isUpgraded(): boolean {
    return this.#state === "upgraded";
  }

  get isCut(): boolean {
    return this.#state === "cut";
  }

  /** Headers that whatever is answered will carry. */
  alwaysSend(headers: HeaderPairs): void {
    this.#common = headers;
  }

  text(): string {
    return new TextDecoder().decode(this.body);
  }

  header(name: string): string | null {
    return this.head.headers.get(name) ?? null;
  }

  async send(reply: Reply): Promise<void> {
    if (this.#state !== "waiting") return;
    this.#state = "answered";
    const body = typeof reply.body === "string"
      ? new TextEncoder().encode(reply.body)
      : reply.body ?? new Uint8Array(0);
    const headers: HeaderPairs = [...reply.headers ?? [], ...this.#common, ["Content-Length", String(body.length)]];
    this.#mustClose = headers.some(([name, value]) => name === "Connection" && value === "close") || this.#isLast();
    const head = headText(reply.status, headers);
    const payload = this.head.method === "HEAD" ? head : concat(head, body);
    await this.#write(payload);
  }

  /** Begins a chunked answer. */
  async begin(status: number, headers: HeaderPairs): Promise<void> {
    if (this.#state !== "waiting") return;
    this.#state = "streaming";
    this.#mustClose = this.#isLast();
    await this.#write(headText(status, [...headers, ...this.#common, ["Transfer-Encoding", "chunked"]]));
  }

  async chunk(text: string): Promise<void> {
    if (this.#state !== "streaming" || text === "") return;
    const bytes = new TextEncoder().encode(text);
    const size = new TextEncoder().encode(`${bytes.length.toString(16)}\r\n`);
    await this.#write(concat(concat(size, bytes), new TextEncoder().encode("\r\n")));
  }

  async end(): Promise<void> {
    if (this.#state !== "streaming") return;
    this.#state = "answered";
    await this.#write(new TextEncoder().encode("0\r\n\r\n"));
  }

  /** Closes the connection as it stands: no answer, or half of one. */
  cut(): void {
    if (this.#state === "answered" || this.#state === "upgraded") return;
    this.#state = "cut";
  }

  /** Switches protocols; the connection is the caller's from here on, to be ended by `drop`. */
  async upgrade(headers: HeaderPairs): Promise<Upgraded> {
    this.#state = "upgraded";
    await this.#write(headText(101, headers));
    return { conn: this.#conn, source: this.#source, drop: this.#drop, onWrite: this.#onWrite };
  }

  /** Watches for a hang-up until the answer is out; the server runs it beside the handler. */
  async watch(): Promise<void> {
    while (this.#state === "waiting" || this.#state === "streaming") {
      if (await this.#source.fill()) continue;
      if (this.#state === "waiting" || this.#state === "streaming") {
        this.#hungUp.abort(new DOMException("The client hung up", "AbortError"));
      }
      return;
    }
  }

  /** The client wants no other request on this connection. */
  #isLast(): boolean {
    return this.header("connection")?.toLowerCase() === "close";
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#onWrite();
    try {
      await writeAll(this.#conn, bytes);
    } catch {
      // The client is gone; whoever serves it learns that from `hungUp`.
      this.#hungUp.abort(new DOMException("The client hung up", "AbortError"));
    }
    this.#onWrite();
  }
}

export async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

export function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

function headText(status: number, headers: HeaderPairs): Uint8Array {
  const lines = [`HTTP/1.1 ${status} ${PHRASES[status] ?? ""}`, ...headers.map(([name, value]) => `${name}: ${value}`)];
  return new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`);
}
