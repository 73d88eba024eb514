/** The live streams of the REST door: one hub for each feed that all share, one stream for whoever follows a run. */
import { Failure } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Services } from "../model/services.ts";
import type { Feed } from "../operations/operation.ts";
import { ownStream, StreamHub } from "./sse.ts";
import type { StreamCounts } from "./sse.ts";

/** Open streams at once, all clients together. */
const MAX_STREAMS = 1_024;

export interface RestStreamsOptions {
  readonly services: Services;
  readonly clock: Clock;
  readonly maxStreams?: number;
}

export class RestStreams {
  readonly #options: RestStreamsOptions;
  readonly #hubs = new Map<string, StreamHub>();
  readonly #open = new Set<{ close(): void }>();

  constructor(options: RestStreamsOptions) {
    this.#options = options;
  }

  get counts(): StreamCounts {
    const counts = [...this.#hubs.values()].map((hub) => hub.counts);
    const sum = (of: (count: StreamCounts) => number) => counts.reduce((total, count) => total + of(count), 0);
    return {
      clients: sum((count) => count.clients) + this.#open.size,
      missedFrames: sum((count) => count.missedFrames),
      droppedClients: sum((count) => count.droppedClients),
    };
  }

  /** Answers a request for a feed; throws Failure when it can't be followed. */
  open(feed: Feed, { request, path }: { request: Request; path: Readonly<Record<string, string>> }): Response {
    refuseQuery(new URL(request.url).searchParams);
    const { services, clock, maxStreams = MAX_STREAMS } = this.#options;
    if (this.counts.clients >= maxStreams) {
      throw new Failure("too_many", `Cannot open another stream: ${maxStreams} are open`);
    }
    // A HEAD has no one to read the stream.
    if (request.method === "HEAD") return new Response(null, { headers: { "content-type": "text/event-stream" } });
    if (feed.isShared) return this.#hub(feed).open(request.headers.get("last-event-id"));
    // Known before it is opened: a run that has ended already closes its stream while that happens.
    let close = () => {};
    const entry = { close: () => close() };
    this.#open.add(entry);
    const stream = ownStream("run", (to) => feed.follow(services, path, to), {
      clock,
      onClose: () => void this.#open.delete(entry),
    });
    close = stream.close;
    return stream.response;
  }

  close(): void {
    for (const hub of this.#hubs.values()) hub.close();
    for (const stream of [...this.#open]) stream.close();
  }

  #hub(feed: Feed): StreamHub {
    const { services, clock } = this.#options;
    const hub = this.#hubs.get(feed.name) ?? new StreamHub({ services, feed, clock });
    this.#hubs.set(feed.name, hub);
    return hub;
  }
}

/** What a feed follows stands in its path. */
function refuseQuery(query: URLSearchParams): void {
  for (const name of query.keys()) {
    throw new Failure("invalid_input", `Unknown parameter "${name}"`, {
      hint: "A stream takes no parameters in the query",
      details: { parameter: name },
    });
  }
}
