import type { HistoryQuery, TelemetryRow, Throughput } from "../model/history.ts";
import type { Clock, Log, Store } from "../model/ports.ts";
import type { WallMs } from "../model/units.ts";
import type { Retention } from "../record/retention.ts";
import { SteadyStore } from "../record/steady_store.ts";
import type { EventWrite, StoreLink } from "../record/store_link.ts";
import type { StoreCallName, StoreCalls, StoreOpening, StoreReply, StoreRequest } from "./store_protocol.ts";

export interface StoreConnection {
  /** The database file; its folder is made when it is missing. */
  readonly path: string;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly log: Log;
  /** Default: the store Worker. */
  readonly startWorker?: () => Worker;
}

/**
 * The record over a Worker that holds its file. Returns at once: the file is opened by the first call, and a file that
 * can't be used is an error in `status()`, never an exception. To be closed, since its Worker holds the process.
 */
export function connectStore(connection: StoreConnection): Store {
  return new SteadyStore({ link: new WorkerLink(connection), clock: connection.clock, log: connection.log });
}

interface Waiting {
  readonly resolve: (value: StoreCalls[StoreCallName]["answer"]) => void;
  readonly reject: (error: Error) => void;
}

function startStoreWorker(): Worker {
  return new Worker(new URL("./store.ts", import.meta.url), { type: "module", name: "store" });
}

/** StoreLink's calls as messages. The Worker is started by the first call, and again after it has died. */
class WorkerLink implements StoreLink {
  readonly path: string;
  readonly #connection: StoreConnection;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | null = null;
  #lastSeq = 0;

  constructor(connection: StoreConnection) {
    this.path = connection.path;
    this.#connection = connection;
  }

  writeEvents(writes: readonly EventWrite[]) {
    return this.#call("writeEvents", writes);
  }

  async writeTelemetry(rows: readonly TelemetryRow[]): Promise<void> {
    await this.#call("writeTelemetry", rows);
  }

  async writeThroughput(measured: readonly Throughput[]): Promise<void> {
    await this.#call("writeThroughput", measured);
  }

  rollUp() {
    return this.#call("rollUp", null);
  }

  history(query: Omit<HistoryQuery, "durable">) {
    return this.#call("history", query);
  }

  status() {
    return this.#call("status", null);
  }

  prune(nowMs: WallMs) {
    return this.#call("prune", nowMs);
  }

  async close(signal: AbortSignal): Promise<void> {
    if (this.#worker === null) return;
    const letGo = () => this.#end(`Cannot use ${this.path}: the store is closed`);
    signal.addEventListener("abort", letGo, { once: true });
    try {
      if (!signal.aborted) await this.#call("close", null);
    } finally {
      signal.removeEventListener("abort", letGo);
      letGo();
    }
  }

  #call<Name extends StoreCallName>(name: Name, ask: StoreCalls[Name]["ask"]): Promise<StoreCalls[Name]["answer"]> {
    return new Promise((resolve, reject) => {
      const seq = ++this.#lastSeq;
      // The Worker answers a call with that call's type; the map holds them all as one.
      this.#waiting.set(seq, { resolve: (value) => resolve(value as StoreCalls[Name]["answer"]), reject });
      // Name and ask are a pair by this function's signature, which the union can't express.
      this.#started().postMessage({ seq, call: name, ask } as StoreRequest);
    });
  }

  #started(): Worker {
    if (this.#worker !== null) return this.#worker;
    const { path, retention, startWorker = startStoreWorker } = this.#connection;
    const worker = this.#worker = startWorker();
    worker.addEventListener("message", ({ data }: MessageEvent<StoreReply>) => this.#reply(data));
    worker.addEventListener("error", (event) => {
      // Unhandled, it would end the whole process.
      event.preventDefault();
      this.#end(`Cannot keep history in ${path}: its Worker ended: ${event.message}`);
    });
    const opening: StoreOpening = { path, retention };
    worker.postMessage(opening);
    return worker;
  }

  #reply(message: StoreReply): void {
    if (message.kind === "note") return this.#connection.log.warn(message.message);
    const call = this.#waiting.get(message.seq);
    this.#waiting.delete(message.seq);
    if (message.kind === "answer") call?.resolve(message.value);
    else call?.reject(new Error(message.message));
  }

  #end(reason: string): void {
    this.#worker?.terminate();
    this.#worker = null;
    for (const call of this.#waiting.values()) call.reject(new Error(reason));
    this.#waiting.clear();
  }
}
