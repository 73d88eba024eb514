/**
 * MCP's first HTTP transport (2024-11-05), for clients that know no other: `GET /sse` is the server's line, its first
 * event names where the client posts. On loopback only; each client may do what the service lets it do by itself.
 */
import { parseJSONRPCMessage, readRequestBody } from "@modelcontextprotocol/server";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { Failure, FAILURES, messageOf } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import { errorBody, refused } from "../operations/outcome.ts";
import type { Refused } from "../operations/outcome.ts";
import { askAbout } from "./about.ts";
import { DEFAULT_ACCESS, peerOf, refuseForeign } from "./access.ts";
import type { Peer } from "./access.ts";
import { MAX_BODY_BYTES } from "./bind.ts";
import type { Invoker } from "./invoker.ts";
import { buildMcp } from "./mcp.ts";
import { ResourceWatch } from "./mcp_live.ts";

/** Clients at once. */
const MAX_CLIENTS = 32;
/** Messages that may wait for a client that doesn't read; then its line is cut. */
const QUEUE_MESSAGES = 256;
const HEARTBEAT_MS = 15_000;

export interface McpSseOptions {
  readonly port: number;
  readonly clock: Clock;
  /** Opens what a client with this Authorization header may use; null = without one. */
  readonly invoker: (authorization: string | null) => Promise<Invoker>;
  /** Ends the door. */
  readonly signal: AbortSignal;
  readonly onError: (error: Error) => void;
  readonly onListening: (url: string) => void;
}

interface Client {
  readonly transport: SseTransport;
  readonly authorization: string | null;
}

/** Serves until the signal aborts. */
export async function serveMcpSse(options: McpSseOptions): Promise<void> {
  const door = new SseDoor(options);
  const server = listen(options.port, (request, peer) => door.fetch(request, peer));
  options.onListening(`http://127.0.0.1:${server.addr.port}/sse`);
  const stopped = Promise.withResolvers<void>();
  options.signal.addEventListener("abort", () => stopped.resolve(), { once: true });
  if (options.signal.aborted) stopped.resolve();
  await stopped.promise;
  await door.close();
  await server.shutdown();
}

function listen(port: number, fetch: (request: Request, peer: Peer) => Promise<Response>) {
  try {
    return Deno.serve(
      { hostname: "127.0.0.1", port, onListen: () => {} },
      (request, { remoteAddr }) => fetch(request, peerOf(remoteAddr)),
    );
  } catch (error) {
    throw new Failure("unavailable", `Cannot listen on 127.0.0.1:${port}: ${messageOf(error)}`, {
      hint: "Choose another port with --port",
      cause: error,
    });
  }
}

class SseDoor {
  readonly #options: McpSseOptions;
  readonly #clients = new Map<string, Client>();

  constructor(options: McpSseOptions) {
    this.#options = options;
  }

  async fetch(request: Request, peer: Peer): Promise<Response> {
    const foreign = refuseForeign(request, peer, DEFAULT_ACCESS);
    if (foreign !== null) return answer(foreign);
    const url = new URL(request.url);
    if (url.pathname === "/sse" && request.method === "GET") return await this.#open(request);
    if (url.pathname === "/messages" && request.method === "POST") {
      return await this.#receive(request, url.searchParams.get("sessionId") ?? "");
    }
    return answer(refused("not_found", `Cannot ${request.method} ${url.pathname}`, {
      hint: "GET /sse opens the line; its first event says where to post",
    }));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map(({ transport }) => transport.close()));
  }

  async #open(request: Request): Promise<Response> {
    if (this.#clients.size >= MAX_CLIENTS) {
      return answer(refused("too_many", `Cannot open another line: ${MAX_CLIENTS} are open`));
    }
    const { clock, signal, onError } = this.#options;
    const authorization = request.headers.get("authorization");
    const id = clock.uuid();
    const transport = new SseTransport({ clock, id });
    this.#clients.set(id, { transport, authorization });
    try {
      const invoker = await this.#options.invoker(authorization);
      const about = await askAbout(invoker, signal);
      const watch = new ResourceWatch({ invoker, clock });
      const server = buildMcp({ invoker, about, watch, closing: signal });
      const { onclose } = server;
      server.onerror = onError;
      server.onclose = () => {
        this.#clients.delete(id);
        onclose?.();
        watch.close();
        invoker.close();
      };
      await server.connect(transport);
      return transport.response;
    } catch (error) {
      this.#clients.delete(id);
      onError(error instanceof Error ? error : new Error(String(error)));
      return answer(refused("unavailable", `Cannot open the line: ${messageOf(error)}`));
    }
  }

  async #receive(request: Request, id: string): Promise<Response> {
    const client = this.#clients.get(id);
    // An id alone isn't enough where the line was opened with a token.
    if (client === undefined || client.authorization !== request.headers.get("authorization")) {
      return answer(refused("not_found", "Cannot find this session", { hint: "GET /sse opens one" }));
    }
    if (!/^application\/json\s*(;|$)/i.test(request.headers.get("content-type") ?? "")) {
      return answer(refused("invalid_input", "Cannot read the body: it must be application/json"));
    }
    const body = await readRequestBody(request, MAX_BODY_BYTES);
    if (body.tooLarge) return answer(refused("too_large", `Cannot take more than ${MAX_BODY_BYTES / 1024} KiB`));
    const message = readMessage(body.text);
    if (message === null) return answer(refused("invalid_input", "Cannot read the body as a JSON-RPC message"));
    client.transport.onmessage?.(message);
    return new Response("Accepted", { status: 202 });
  }
}

/** One client's line. */
export class SseTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly sessionId: string;
  readonly response: Response;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  readonly #heartbeat: { stop(): void };

  constructor({ clock, id }: { readonly clock: Clock; readonly id: string }) {
    this.sessionId = id;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#controller = controller),
      cancel: () => this.close(),
    }, new CountQueuingStrategy({ highWaterMark: QUEUE_MESSAGES }));
    this.response = new Response(stream, {
      headers: { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store" },
    });
    this.#heartbeat = clock.every(HEARTBEAT_MS, () => this.#write(": still here\n\n"));
  }

  start(): Promise<void> {
    this.#write(`event: endpoint\ndata: /messages?sessionId=${this.sessionId}\n\n`);
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    this.#write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    return Promise.resolve();
  }

  close(): Promise<void> {
    const controller = this.#controller;
    if (controller === null) return Promise.resolve();
    this.#controller = null;
    this.#heartbeat.stop();
    try {
      controller.close();
    } catch (error) {
      // Cancelled by the client: that is a TypeError here, and the line is over either way.
      if (!(error instanceof TypeError)) throw error;
    }
    this.onclose?.();
    return Promise.resolve();
  }

  #write(text: string): void {
    const controller = this.#controller;
    if (controller === null) return;
    if ((controller.desiredSize ?? 0) <= 0) {
      void this.close();
      return;
    }
    controller.enqueue(encoder.encode(text));
  }
}

const encoder = new TextEncoder();

function readMessage(text: string): JSONRPCMessage | null {
  try {
    return parseJSONRPCMessage(JSON.parse(text));
  } catch {
    // Whatever it was, the sender is told that it was no message.
    return null;
  }
}

function answer(refusal: Refused): Response {
  return Response.json(errorBody(refusal), { status: FAILURES[refusal.code].http });
}
