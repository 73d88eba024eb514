import type { Clock, Log, Store } from "../model/ports.ts";
import type { Retention } from "../record/retention.ts";
import { SteadyStore } from "../record/steady_store.ts";
import type { StoreLink } from "../record/store_link.ts";
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
  return new SteadyStore({ link: workerLink(connection), clock: connection.clock, log: connection.log });
}

interface Waiting {
  readonly resolve: (value: StoreCalls[StoreCallName]["answer"]) => void;
  readonly reject: (error: Error) => void;
}

function startStoreWorker(): Worker {
  return new Worker(new URL("./store.ts", import.meta.url), { type: "module", name: "store" });
}

function workerLink({ path, retention, log, startWorker = startStoreWorker }: StoreConnection): StoreLink {
  const waiting = new Map<number, Waiting>();
  let worker: Worker | null = null;
  let lastSeq = 0;

  const onReply = (message: StoreReply) => {
    if (message.kind === "note") return log.warn(message.message);
    const call = waiting.get(message.seq);
    waiting.delete(message.seq);
    if (message.kind === "answer") call?.resolve(message.value);
    else call?.reject(new Error(message.message));
  };
  const end = (reason: string) => {
    worker?.terminate();
    worker = null;
    for (const call of waiting.values()) call.reject(new Error(reason));
    waiting.clear();
  };
  const started = (): Worker => {
    if (worker !== null) return worker;
    worker = startWorker();
    worker.addEventListener("message", ({ data }: MessageEvent<StoreReply>) => onReply(data));
    worker.addEventListener("error", (event) => {
      // Unhandled, it would end the whole process.
      event.preventDefault();
      end(`Cannot keep history in ${path}: its Worker ended: ${event.message}`);
    });
    const opening: StoreOpening = { path, retention };
    worker.postMessage(opening);
    return worker;
  };
  const call = <Name extends StoreCallName>(name: Name, ask: StoreCalls[Name]["ask"]) =>
    new Promise<StoreCalls[Name]["answer"]>((resolve, reject) => {
      const seq = ++lastSeq;
      // The Worker answers a call with that call's type; the map holds them all as one.
      waiting.set(seq, { resolve: (value) => resolve(value as StoreCalls[Name]["answer"]), reject });
      // Name and ask are a pair by this function's signature, which the union can't express.
      started().postMessage({ seq, call: name, ask } as StoreRequest);
    });

  return {
    path,
    writeEvents: (writes) => call("writeEvents", writes),
    writeTelemetry: async (rows) => {
      await call("writeTelemetry", rows);
    },
    history: (query) => call("history", query),
    status: () => call("status", null),
    prune: (nowMs) => call("prune", nowMs),
    close: async (signal) => {
      if (worker === null) return;
      const letGo = () => end(`Cannot use ${path}: the store is closed`);
      signal.addEventListener("abort", letGo, { once: true });
      try {
        if (!signal.aborted) await call("close", null);
      } finally {
        signal.removeEventListener("abort", letGo);
        letGo();
      }
    },
  };
}
