/**
 * Server-sent events. A shared feed is followed once and encoded once for all its clients. A client that doesn't read
 * misses frames instead of holding anybody up: it gets a fresh whole one when it has room again, and is let go when it
 * hasn't for too long. Neither costs the sampler a moment.
 */
import { Failure } from "../model/failure.ts";
import type { Clock, Timer } from "../model/ports.ts";
import type { Services } from "../model/services.ts";
import { applyFrame } from "../operations/frames.ts";
import type { Frame } from "../operations/frames.ts";
import type { Feed } from "../operations/operation.ts";

/** Frames that wait for a client before it counts as slow; the kernel's buffers come on top. */
const QUEUE_FRAMES = 4;

/** Frames kept for a client that comes back and says which it had last. */
const RESUME_FRAMES = 60;

/** Frames in a row that a client may miss before it is let go (it may come back and start afresh). */
const MISSED_FRAMES = 60;

const HEARTBEAT_MS = 15_000;

/** When a browser tries again after a lost connection. */
const RETRY_MS = 2_000;

const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
} as const;

const encoder = new TextEncoder();

/** One event as bytes. JSON holds no raw newline, so one data line is enough. */
export function encodeEvent(event: string, data: unknown, id?: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(`event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`);
}

export interface StreamCounts {
  readonly clients: number;
  /** Frames that slow clients missed. */
  readonly missedFrames: number;
  /** Clients let go because they read too slowly. */
  readonly droppedClients: number;
}

interface Client {
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  missedInARow: number;
}

/** Headers, and the first bytes of every stream. */
function streamResponse(stream: ReadableStream<Uint8Array>): Response {
  return new Response(stream, { headers: STREAM_HEADERS });
}

const PREAMBLE = encoder.encode(`retry: ${RETRY_MS}\n\n`);
const HEARTBEAT = encoder.encode(": still here\n\n");

/** `/api/stream`: one subscription, any number of clients. */
export class StreamHub {
  readonly #services: Services;
  readonly #feed: Feed;
  readonly #clock: Clock;
  readonly #clients = new Set<Client>();
  #source: Timer | null = null;
  #heartbeat: Timer | null = null;
  #state: object | null = null;
  /** Whose frames these are: a client of an earlier following has nothing to go on from. */
  #epoch = "";
  #count = 0;
  /** The newest frames, oldest first; the last has the number #count. */
  #recent: Uint8Array<ArrayBuffer>[] = [];
  /** The whole state as bytes, made when somebody needs it and good until the next frame. */
  #whole: Uint8Array<ArrayBuffer> | null = null;
  #lastSentMs = 0;
  #missedFrames = 0;
  #droppedClients = 0;

  constructor(options: { readonly services: Services; readonly feed: Feed; readonly clock: Clock }) {
    this.#services = options.services;
    this.#feed = options.feed;
    this.#clock = options.clock;
  }

  get counts(): StreamCounts {
    return { clients: this.#clients.size, missedFrames: this.#missedFrames, droppedClients: this.#droppedClients };
  }

  /**
   * A new client's stream: a whole snapshot first (as soon as there is one), then patches; for one that comes back, the
   * frames after `lastId` as far as they are kept.
   */
  open(lastId: string | null = null): Response {
    let client: Client | null = null;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        client = { controller, missedInARow: 0 };
        controller.enqueue(PREAMBLE);
        this.#join(client, lastId);
      },
      cancel: () => {
        if (client !== null) this.#leave(client);
      },
    }, new CountQueuingStrategy({ highWaterMark: QUEUE_FRAMES }));
    return streamResponse(stream);
  }

  /** Ends every stream: an open one would keep the server from stopping. */
  close(): void {
    for (const client of [...this.#clients]) {
      this.#leave(client);
      client.controller.close();
    }
  }

  #join(client: Client, lastId: string | null): void {
    const isFirst = this.#source === null;
    if (!isFirst && this.#state !== null) {
      const missed = this.#after(lastId);
      if (missed === null) client.controller.enqueue(this.#wholeState());
      else for (const frame of missed) client.controller.enqueue(frame);
    }
    this.#clients.add(client);
    if (!isFirst) return;
    this.#epoch = this.#clock.uuid().slice(0, 4);
    this.#lastSentMs = this.#clock.monotonicMs();
    this.#heartbeat = this.#clock.every(HEARTBEAT_MS, () => this.#beat());
    try {
      this.#source = this.#feed.follow(this.#services, {}, {
        // The feed's schema is FrameWire, of which Frame is the import-free form.
        emit: (item) => this.#show(item as Frame),
        end: () => this.close(),
      });
    } catch (error) {
      this.#leave(client);
      throw error;
    }
  }

  #leave(client: Client): void {
    this.#clients.delete(client);
    if (this.#clients.size > 0) return;
    this.#source?.stop();
    this.#heartbeat?.stop();
    this.#source =
      this.#heartbeat =
      this.#state =
      this.#whole =
        null;
    this.#recent = [];
  }

  /** Frames after the named one; null when that isn't known any more. */
  #after(lastId: string | null): readonly Uint8Array<ArrayBuffer>[] | null {
    const [, epoch, number] = /^(\w+)-(\d{1,15})$/.exec(lastId ?? "") ?? [];
    const missed = this.#count - Number(number);
    if (epoch !== this.#epoch || !(missed >= 0 && missed <= this.#recent.length)) return null;
    return missed === 0 ? [] : this.#recent.slice(-missed);
  }

  #wholeState(): Uint8Array<ArrayBuffer> {
    return this.#whole ??= encodeEvent("snapshot", this.#state, this.#id());
  }

  #id(): string {
    return `${this.#epoch}-${this.#count}`;
  }

  #show(frame: Frame): void {
    // What clients rebuild is kept here by the same rule, so a late or slow one starts from exactly that.
    this.#state = applyFrame(this.#state, frame);
    this.#lastSentMs = this.#clock.monotonicMs();
    this.#count += 1;
    this.#whole = null;
    const bytes = encodeEvent(frame.event, frame.data, this.#id());
    this.#recent.push(bytes);
    if (this.#recent.length > RESUME_FRAMES) this.#recent.shift();
    for (const client of [...this.#clients]) {
      if ((client.controller.desiredSize ?? 0) <= 0) {
        this.#miss(client);
      } else if (client.missedInARow > 0) {
        client.missedInARow = 0;
        client.controller.enqueue(this.#wholeState());
      } else {
        client.controller.enqueue(bytes);
      }
    }
  }

  #miss(client: Client): void {
    this.#missedFrames += 1;
    client.missedInARow += 1;
    if (client.missedInARow < MISSED_FRAMES) return;
    this.#droppedClients += 1;
    this.#leave(client);
    client.controller.error(new Failure("too_many", "Closed a stream whose client stopped reading"));
  }

  #beat(): void {
    if (this.#clock.monotonicMs() - this.#lastSentMs < HEARTBEAT_MS) return;
    for (const { controller } of this.#clients) if ((controller.desiredSize ?? 0) > 0) controller.enqueue(HEARTBEAT);
  }
}

export interface EventStreamOptions {
  readonly clock: Clock;
  /** Called once when the stream is over, whoever ended it. */
  readonly onClose: () => void;
}

/** A stream of its own for one client (a run's events): `open` starts it, and nothing is skipped but the newest wins. */
export function ownStream(
  event: string,
  open: (to: { emit(item: unknown): void; end(): void }) => Timer,
  options: EventStreamOptions,
): { readonly response: Response; close(): void } {
  let source: Timer | null = null;
  let isOver = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  // The newest item that had no room; older ones are worthless once it is there.
  let waiting: Uint8Array<ArrayBuffer> | null = null;
  const heartbeat = options.clock.every(HEARTBEAT_MS, () => {
    if ((controller?.desiredSize ?? 0) > 0) controller?.enqueue(HEARTBEAT);
  });
  const flush = (to: ReadableStreamDefaultController<Uint8Array>) => {
    if (waiting !== null) to.enqueue(waiting);
    waiting = null;
  };
  const over = () => {
    if (isOver) return;
    isOver = true;
    source?.stop();
    heartbeat.stop();
    options.onClose();
  };
  const close = () => {
    if (isOver) return;
    if (controller !== null) {
      flush(controller);
      controller.close();
    }
    over();
  };
  const emit = (item: unknown) => {
    if (isOver || controller === null) return;
    waiting = encodeEvent(event, item);
    if ((controller.desiredSize ?? 0) > 0) flush(controller);
  };
  const stream = new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given;
      given.enqueue(PREAMBLE);
    },
    pull: flush,
    cancel: over,
  }, new CountQueuingStrategy({ highWaterMark: QUEUE_FRAMES }));
  try {
    source = open({ emit, end: close });
  } catch (error) {
    over();
    throw error;
  }
  // A feed may end while it is being opened, before its timer was known here.
  if (isOver) source.stop();
  return { response: streamResponse(stream), close };
}
