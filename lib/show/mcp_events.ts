/** What a session's streams have sent, kept for a client that lost its line and takes it up again; the newest only. */
import type { EventId, EventStore, JSONRPCMessage, RequestId, StreamId } from "@modelcontextprotocol/server";

/** Events kept for one session. */
const MAX_EVENTS = 200;
/** Characters of JSON kept for one session; the newest event stays whatever its size. */
const MAX_CHARS = 2_000_000;

/** The event id under which the SDK writes an answer that ends its stream and must not be sent. */
export const UNSENT = "unsent";
/** LSP's word for a request that was cancelled; MCP has none, since nothing of it is sent. */
const CANCELLED = -32_800;

/**
 * The answer of a cancelled request. The protocol wants none sent and the SDK gives none, but ends a request's stream
 * only behind its answer: this one is kept from the wire here and in McpSessions.
 */
export function unsentAnswer(id: RequestId): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: CANCELLED, message: "Cancelled" } };
}

interface Kept {
  readonly id: EventId;
  readonly streamId: StreamId;
  readonly message: JSONRPCMessage;
  readonly chars: number;
}

/** One session's events, oldest forgotten first. */
export class McpEvents implements EventStore {
  readonly #kept: Kept[] = [];
  #chars = 0;
  #count = 0;

  get size(): number {
    return this.#kept.length;
  }

  storeEvent(streamId: StreamId, message: JSONRPCMessage): Promise<EventId> {
    if ("error" in message && message.error.code === CANCELLED) {
      this.#forget(streamId);
      return Promise.resolve(UNSENT);
    }
    const chars = JSON.stringify(message).length;
    const id = String(++this.#count);
    this.#kept.push({ id, streamId, message, chars });
    this.#chars += chars;
    while (this.#kept.length > MAX_EVENTS || (this.#chars > MAX_CHARS && this.#kept.length > 1)) {
      this.#chars -= this.#kept.shift()?.chars ?? 0;
    }
    return Promise.resolve(id);
  }

  /** Whoever takes such a stream up again is refused: answered with nothing, clients ask anew every second. */
  #forget(streamId: StreamId): void {
    const others = this.#kept.filter((event) => event.streamId !== streamId);
    this.#chars = others.reduce((sum, { chars }) => sum + chars, 0);
    this.#kept.splice(0, Infinity, ...others);
  }

  getStreamIdForEventId(id: EventId): Promise<StreamId | undefined> {
    return Promise.resolve(this.#kept.find((event) => event.id === id)?.streamId);
  }

  async replayEventsAfter(
    lastId: EventId,
    { send }: { readonly send: (id: EventId, message: JSONRPCMessage) => Promise<void> },
  ): Promise<StreamId> {
    const from = this.#kept.findIndex(({ id }) => id === lastId);
    const last = this.#kept[from];
    if (last === undefined) throw new TypeError(`Cannot resume after ${lastId}: it is no longer kept`);
    for (const { id, streamId, message } of this.#kept.slice(from + 1)) {
      // What opened a stream carries no message of its own.
      if (streamId === last.streamId && Object.keys(message).length > 0) await send(id, message);
    }
    return last.streamId;
  }
}
