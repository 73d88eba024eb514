/** What a session's streams have sent, kept for a client that lost its line and takes it up again; the newest only. */
import type { EventId, EventStore, JSONRPCMessage, StreamId } from "@modelcontextprotocol/server";

/** Events kept for one session. */
const MAX_EVENTS = 200;
/** Characters of JSON kept for one session; the newest event stays whatever its size. */
const MAX_CHARS = 2_000_000;

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
    const chars = JSON.stringify(message).length;
    const id = String(++this.#count);
    this.#kept.push({ id, streamId, message, chars });
    this.#chars += chars;
    while (this.#kept.length > MAX_EVENTS || (this.#chars > MAX_CHARS && this.#kept.length > 1)) {
      this.#chars -= this.#kept.shift()?.chars ?? 0;
    }
    return Promise.resolve(id);
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
