import { ByteSource } from "./byte_source.ts";
import { Exchange, type RequestHead, writeAll } from "./exchange.ts";

export interface WireOptions {
  /** Default 0: whatever is free. */
  readonly port?: number;
  /** Answers one request; a throw cuts its connection. */
  readonly handle: (exchange: Exchange) => Promise<void>;
  /** Called at every read and write, so that a lab clock waits for what follows. */
  readonly onStir?: () => void;
  /** Called with what a handler threw; the lab's own mistakes must not pass as a quirk. */
  readonly onError?: (error: unknown) => void;
  readonly maxBodyBytes?: number;
  /**
   * What happens to a connection whose client hung up unanswered: Ollama leaves it open and silent when the client only
   * half-closed, others close it.
   */
  readonly keepsHungUp?: boolean;
}

/** Connections left open and silent; beyond that the oldest are closed, as a server's limits would. */
const MAX_SILENT = 16;
const DEFAULT_MAX_BODY = 256 * 2 ** 20;

/**
 * HTTP/1.1 on a loopback port with nothing hidden: the runtime's own servers can't be made to stop reading, cut a stream
 * or leave a client unanswered, and real servers do all of that.
 */
export class WireServer {
  readonly port: number;
  readonly url: string;
  readonly #options: WireOptions;
  readonly #listener: Deno.TcpListener;
  readonly #conns = new Set<Deno.Conn>();
  readonly #silent: Deno.Conn[] = [];
  readonly #served: Promise<void>;
  #thawed: PromiseWithResolvers<void> | null = null;
  #isClosed = false;

  constructor(options: WireOptions) {
    this.#options = options;
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: options.port ?? 0 });
    this.port = this.#listener.addr.port;
    this.url = `http://127.0.0.1:${this.port}`;
    this.#served = this.#accept();
  }

  /** As after SIGSTOP: connections are still accepted by the kernel, nothing is read or answered. */
  freeze(): void {
    this.#thawed ??= Promise.withResolvers();
  }

  thaw(): void {
    this.#thawed?.resolve();
    this.#thawed = null;
  }

  /** Ends everything at once, as the kernel does for a killed process: streams stop in the middle. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.thaw();
    this.#listener.close();
    for (const conn of this.#conns) this.#drop(conn);
    await this.#served;
  }

  #stir(): void {
    this.#options.onStir?.();
  }

  async #accept(): Promise<void> {
    const running = new Set<Promise<void>>();
    for (;;) {
      let conn: Deno.Conn;
      try {
        const accepted = await this.#listener.accept();
        // A second small write would else wait 40 ms of real time for the client's acknowledgement of the first.
        accepted.setNoDelay();
        conn = accepted;
      } catch {
        // Closed: no more connections come.
        break;
      }
      this.#stir();
      this.#conns.add(conn);
      const served = this.#serve(conn).finally(() => running.delete(served));
      running.add(served);
    }
    await Promise.all(running);
  }

  async #serve(conn: Deno.Conn): Promise<void> {
    const source = new ByteSource(conn, () => this.#stir());
    try {
      while (!this.#isClosed) {
        const exchange = await this.#nextExchange(conn, source);
        if (exchange === null) break;
        const watched = exchange.watch();
        await this.#answer(exchange);
        if (exchange.isUpgraded) return;
        if (exchange.hungUp.aborted && !exchange.isCut && this.#options.keepsHungUp === true) {
          return this.#keepSilent(conn);
        }
        if (!exchange.isReusable) break;
        // An answered exchange stops watching at the next byte or the end, which the next request waits for too.
        void watched;
      }
    } catch {
      // Whatever a broken connection throws, the server lives on.
    }
    this.#drop(conn);
  }

  async #answer(exchange: Exchange): Promise<void> {
    try {
      await this.#thawed?.promise;
      await this.#options.handle(exchange);
    } catch (error) {
      if (!exchange.hungUp.aborted) this.#options.onError?.(error);
      exchange.cut();
    }
  }

  async #nextExchange(conn: Deno.Conn, source: ByteSource): Promise<Exchange | null> {
    const onWrite = () => this.#stir();
    const drop = () => this.#drop(conn);
    await this.#thawed?.promise;
    const text = await source.takeThrough("\r\n\r\n");
    if (text === null) return null;
    const head = parseHead(text);
    if (head === null || !head.headers.has("host")) {
      await writeAll(conn, new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
      return null;
    }
    if (head.headers.get("expect")?.toLowerCase() === "100-continue") {
      await writeAll(conn, new TextEncoder().encode("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    const limit = this.#options.maxBodyBytes ?? DEFAULT_MAX_BODY;
    const body = await readBody(head, { source, limit });
    if (body === "too large") {
      const exchange = new Exchange({ head, body: new Uint8Array(0), conn, source, onWrite, drop });
      const message = `Maximum request body size ${limit} exceeded.`;
      await exchange.send({ status: 413, headers: [["Connection", "close"]], body: message });
      return null;
    }
    return body === null ? null : new Exchange({ head, body, conn, source, onWrite, drop });
  }

  #keepSilent(conn: Deno.Conn): void {
    this.#silent.push(conn);
    if (this.#silent.length <= MAX_SILENT) return;
    const oldest = this.#silent.shift();
    if (oldest !== undefined) this.#drop(oldest);
  }

  #drop(conn: Deno.Conn): void {
    if (!this.#conns.delete(conn)) return;
    try {
      conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
    this.#stir();
  }
}

function parseHead(text: string): RequestHead | null {
  const [first = "", ...lines] = text.trimEnd().split("\r\n");
  const [method, target, version] = first.split(" ");
  if (method === undefined || target === undefined || !version?.startsWith("HTTP/1.")) return null;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const at = line.indexOf(":");
    if (at > 0) headers.set(line.slice(0, at).toLowerCase(), line.slice(at + 1).trim());
  }
  const mark = target.indexOf("?");
  const path = mark < 0 ? target : target.slice(0, mark);
  return { method, path, query: new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1)), headers };
}

async function readBody(
  head: RequestHead,
  { source, limit }: { readonly source: ByteSource; readonly limit: number },
): Promise<Uint8Array<ArrayBuffer> | null | "too large"> {
  if (head.headers.get("transfer-encoding")?.toLowerCase() === "chunked") return await readChunks(source, limit);
  const length = Number(head.headers.get("content-length") ?? 0);
  if (length > limit) return "too large";
  return await source.take(length);
}

async function readChunks(source: ByteSource, limit: number): Promise<Uint8Array<ArrayBuffer> | null | "too large"> {
  const parts: Uint8Array[] = [];
  let total = 0;
  for (;;) {
    const line = await source.takeThrough("\r\n");
    if (line === null) return null;
    const size = parseInt(line, 16);
    if (!(size >= 0)) return null;
    total += size;
    if (total > limit) return "too large";
    const part = await source.take(size);
    const end = await source.takeThrough("\r\n");
    if (part === null || end === null) return null;
    if (size === 0) break;
    parts.push(part);
  }
  const body = new Uint8Array(total);
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  return body;
}
