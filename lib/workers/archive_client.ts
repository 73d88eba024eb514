import type { Archive, SeriesQuery } from "../model/analytics.ts";
import { Failure } from "../model/failure.ts";
import type { Clock, Timer } from "../model/ports.ts";
import type { ArchiveCallName, ArchiveCalls, ArchiveReply, ArchiveRequest } from "./archive_protocol.ts";

/** A read that takes longer is given up on, Worker and all. */
const READ_MS = 10_000;
/** The Worker takes 15 MB: it goes when nobody has asked for so long. */
const IDLE_MS = 60_000;

export interface ArchiveConnection {
  readonly path: string;
  readonly clock: Clock;
  /** Default: the archive Worker. */
  readonly startWorker?: () => Worker;
}

/** The archive over a Worker, which the first question starts. To be closed, since its Worker holds the process. */
export function connectArchive(connection: ArchiveConnection): Archive {
  return new ArchiveLink(connection);
}

interface Waiting {
  readonly resolve: (value: ArchiveCalls[ArchiveCallName]["answer"]) => void;
  readonly reject: (error: Error) => void;
}

function startArchiveWorker(): Worker {
  return new Worker(new URL("./archive.ts", import.meta.url), { type: "module", name: "archive" });
}

class ArchiveLink implements Archive {
  readonly #connection: ArchiveConnection;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | null = null;
  #idle: Timer | null = null;
  #lastSeq = 0;
  #isClosed = false;

  constructor(connection: ArchiveConnection) {
    this.#connection = connection;
  }

  series(query: SeriesQuery, signal: AbortSignal) {
    return this.#call("series", query, signal);
  }

  profiles(query: ArchiveCalls["profiles"]["ask"], signal: AbortSignal) {
    return this.#call("profiles", query, signal);
  }

  swaps(query: ArchiveCalls["swaps"]["ask"], signal: AbortSignal) {
    return this.#call("swaps", query, signal);
  }

  models(query: ArchiveCalls["models"]["ask"], signal: AbortSignal) {
    return this.#call("models", query, signal);
  }

  events(query: ArchiveCalls["events"]["ask"], signal: AbortSignal) {
    return this.#call("events", query, signal);
  }

  telemetry(query: ArchiveCalls["telemetry"]["ask"], signal: AbortSignal) {
    return this.#call("telemetry", query, signal);
  }

  close(): void {
    this.#isClosed = true;
    this.#end("the service is stopping");
  }

  async #call<Name extends ArchiveCallName>(
    call: Name,
    ask: ArchiveCalls[Name]["ask"],
    signal: AbortSignal,
  ): Promise<ArchiveCalls[Name]["answer"]> {
    signal.throwIfAborted();
    if (this.#isClosed) throw unavailable("the service is stopping");
    const { clock, path } = this.#connection;
    const { promise, resolve, reject } = Promise.withResolvers<ArchiveCalls[Name]["answer"]>();
    const seq = ++this.#lastSeq;
    // The Worker answers a call with that call's type; the map holds them all as one.
    this.#waiting.set(seq, { resolve: (value) => resolve(value as ArchiveCalls[Name]["answer"]), reject });
    // Who hangs up doesn't wait; the Worker finishes what it has begun.
    const abandon = () => reject(signal.reason);
    signal.addEventListener("abort", abandon, { once: true });
    const late = clock.after(READ_MS, () => this.#end(`no answer within ${READ_MS} ms`));
    try {
      this.#idle?.stop();
      // Call and ask are a pair by this function's signature, which the union can't express.
      this.#started().postMessage({ seq, path, call, ask } as ArchiveRequest);
      return await promise;
    } finally {
      late.stop();
      signal.removeEventListener("abort", abandon);
      this.#waiting.delete(seq);
      if (this.#waiting.size === 0 && !this.#isClosed) this.#endWhenIdle();
    }
  }

  #endWhenIdle(): void {
    this.#idle?.stop();
    this.#idle = this.#connection.clock.after(IDLE_MS, () => this.#end("it was idle"));
  }

  #started(): Worker {
    if (this.#worker !== null) return this.#worker;
    const worker = this.#worker = (this.#connection.startWorker ?? startArchiveWorker)();
    worker.addEventListener("message", ({ data }: MessageEvent<ArchiveReply>) => {
      const waiting = this.#waiting.get(data.seq);
      if (data.ok) waiting?.resolve(data.value);
      else waiting?.reject(unavailable(data.message));
    });
    worker.addEventListener("error", (event) => {
      // Unhandled, it would end the whole process.
      event.preventDefault();
      this.#end(`its Worker ended: ${event.message}`);
    });
    return worker;
  }

  #end(reason: string): void {
    this.#idle?.stop();
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject } of this.#waiting.values()) reject(unavailable(reason));
    this.#waiting.clear();
  }
}

function unavailable(reason: string): Failure {
  return new Failure("unavailable", `Cannot read what was kept: ${reason}`, {
    hint: "`hyperswap db` says how the record's store is",
  });
}
