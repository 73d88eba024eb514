/**
 * MCP sessions over HTTP (protocol versions up to 2025-11-25): opened by `initialize`, taken up again after a lost line,
 * ended by DELETE or when nobody has used them for long. A session belongs to the caller who opened it.
 */
import {
  isInitializeRequest,
  readRequestBody,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { JSONRPCMessage, RequestId, Server } from "@modelcontextprotocol/server";
import type { Clock, Timer } from "../model/ports.ts";
import { MAX_BODY_BYTES } from "./bind.ts";
import { McpEvents, UNSENT, unsentAnswer } from "./mcp_events.ts";

/** Sessions at once, all callers together; a further one takes the place of whichever has rested longest. */
const MAX_SESSIONS = 64;
const IDLE_MS = 30 * 60_000;
/** A stream that holds a message its client hasn't read for this long is over. */
const STALLED_MS = 60_000;
const SWEEP_MS = 30_000;
/** When a client tries to take up a lost stream. */
const RETRY_MS = 1_000;

export interface McpSessionsOptions {
  readonly clock: Clock;
  readonly maxSessions?: number;
}

export interface McpCaller {
  /** Who opens a session is the only one who may use it: name and scopes together. */
  readonly key: string;
  /** A server of the caller's own. */
  readonly build: () => Server;
}

interface Session {
  readonly key: string;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  usedAtMs: number;
  /** Its open streams, and since when each holds a message that wasn't read. */
  readonly streams: Set<{ unreadSinceMs: number | null }>;
}

export class McpSessions {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #sessions = new Map<string, Session>();
  #sweeper: Timer | null = null;

  constructor({ clock, maxSessions = MAX_SESSIONS }: McpSessionsOptions) {
    this.#clock = clock;
    this.#max = maxSessions;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Null when the request names no session and opens none: it can be answered without. */
  async fetch(request: Request, caller: McpCaller): Promise<Response | null> {
    const id = request.headers.get("mcp-session-id");
    if (id === null) return await this.#opens(request) ? await this.#open(request, caller) : null;
    const session = this.#sessions.get(id);
    // Somebody else's session is as good as none: nobody learns that it is there.
    if (session === undefined || session.key !== caller.key) return noSession();
    return await this.#handle(session, request);
  }

  async close(): Promise<void> {
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    this.#rest();
    await Promise.all(sessions.map(({ transport }) => transport.close()));
  }

  async #opens(request: Request): Promise<boolean> {
    if (request.method !== "POST") return false;
    const body = await readRequestBody(request.clone(), MAX_BODY_BYTES);
    // What is too large or no JSON is refused, in the SDK's words, by whoever answers without a session.
    return !body.tooLarge && isInitializeRequest(parseOrNull(body.text));
  }

  async #open(request: Request, caller: McpCaller): Promise<Response> {
    if (this.#sessions.size >= this.#max && !await this.#makeRoom()) return tooManySessions(this.#max);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => this.#clock.uuid(),
      eventStore: new McpEvents(),
      retryInterval: RETRY_MS,
      maxRequestBodySize: MAX_BODY_BYTES,
      onsessioninitialized: (id) => {
        this.#sessions.set(id, session);
        this.#sweeper ??= this.#clock.every(SWEEP_MS, () => this.#sweep());
      },
    });
    const session: Session = { key: caller.key, transport, usedAtMs: this.#clock.monotonicMs(), streams: new Set() };
    const server = caller.build();
    const { onclose } = server;
    server.onclose = () => {
      if (transport.sessionId !== undefined) this.#sessions.delete(transport.sessionId);
      if (this.#sessions.size === 0) this.#rest();
      onclose?.();
    };
    await server.connect(transport);
    endCancelled(transport);
    return await this.#handle(session, request);
  }

  async #handle(session: Session, request: Request): Promise<Response> {
    session.usedAtMs = this.#clock.monotonicMs();
    const response = await session.transport.handleRequest(request);
    if (response.body === null || !/event-stream/.test(response.headers.get("content-type") ?? "")) return response;
    return new Response(this.#watched(response.body, session), response);
  }

  /** The same bytes; notes when the client stops taking them, since what waits for it has no other bound. */
  #watched(body: ReadableStream<Uint8Array>, session: Session): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const state: { unreadSinceMs: number | null } = { unreadSinceMs: null };
    session.streams.add(state);
    const over = () => {
      session.streams.delete(state);
      session.usedAtMs = this.#clock.monotonicMs();
    };
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        state.unreadSinceMs = null;
        let next = await reader.read();
        while (!next.done && isUnsent(next.value)) next = await reader.read();
        if (next.done) {
          over();
          return controller.close();
        }
        controller.enqueue(next.value);
        state.unreadSinceMs = this.#clock.monotonicMs();
      },
      cancel: async (reason) => {
        over();
        await reader.cancel(reason);
      },
    }, new CountQueuingStrategy({ highWaterMark: 1 }));
  }

  /** Ends the session that has rested longest among those without an open stream. */
  async #makeRoom(): Promise<boolean> {
    const resting = [...this.#sessions.values()].filter(({ streams }) => streams.size === 0);
    const oldest = resting.sort((one, other) => one.usedAtMs - other.usedAtMs)[0];
    await oldest?.transport.close();
    return oldest !== undefined;
  }

  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const { transport, usedAtMs, streams } of [...this.#sessions.values()]) {
      const isIdle = streams.size === 0 && nowMs - usedAtMs >= IDLE_MS;
      const isStalled = [...streams].some(({ unreadSinceMs: at }) => at !== null && nowMs - at >= STALLED_MS);
      // Closing settles at once: it only ends streams and tells the server.
      if (isIdle || isStalled) void transport.close();
    }
  }

  #rest(): void {
    this.#sweeper?.stop();
    this.#sweeper = null;
  }
}

/** Ends the stream of a request that its client cancels; see unsentAnswer. */
function endCancelled(transport: WebStandardStreamableHTTPServerTransport): void {
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => {
    onmessage?.(message, extra);
    const id = cancelledBy(message);
    // Rejects when nothing waits under this id: it was answered, or never asked.
    if (id !== null) transport.send(unsentAnswer(id)).catch(() => undefined);
  };
}

function cancelledBy(message: JSONRPCMessage): RequestId | null {
  if (!("method" in message) || message.method !== "notifications/cancelled") return null;
  const id = message.params?.["requestId"];
  return typeof id === "string" || typeof id === "number" ? id : null;
}

/** Whether this is the event of such an answer: the SDK writes each event at once, its id in the second line. */
function isUnsent(event: Uint8Array): boolean {
  return decoder.decode(event.subarray(0, 64)).includes(`\nid: ${UNSENT}\n`);
}

const decoder = new TextDecoder();

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** As the protocol wants it: the client then opens a new session. */
function noSession(): Response {
  const error = { code: -32_001, message: "Session not found" };
  return Response.json({ jsonrpc: "2.0", error, id: null }, { status: 404 });
}

function tooManySessions(max: number): Response {
  const error = { code: -32_029, message: `Cannot open another session: ${max} are in use` };
  return Response.json({ jsonrpc: "2.0", error, id: null }, { status: 429 });
}
