/** The warm Worker, seen from the main thread: takes one order at a time and is given up when it hangs. */
import { Failure } from "../model/failure.ts";
import type { Clock, Timer } from "../model/ports.ts";
import { type FromWarmWorker, SharedProgress, type WarmOrder, type WarmResult } from "./warm_protocol.ts";

/** Without a byte for this long it hangs: a disk is never that slow, a dead network share is. */
const STUCK_MS = 30_000;
const LOOK_EVERY_MS = 250;

export interface WarmTurn {
  /** Settles when the Worker has really ended: nothing more is read after it. */
  readonly ended: Promise<WarmResult>;
  readonly shared: SharedProgress;
}

interface UnderWay {
  readonly seq: number;
  readonly resolve: (result: WarmResult) => void;
  readonly reject: (error: Error) => void;
  readonly watchdog: Timer;
}

export class WarmClient {
  readonly #clock: Clock;
  #worker: Worker | null = null;
  #underWay: UnderWay | null = null;
  #lastSeq = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Starts an order; the one before it must have ended. `onTick` is called four times a second meanwhile. */
  start(order: Omit<WarmOrder, "seq" | "shared">, onTick: () => void): WarmTurn {
    const seq = ++this.#lastSeq;
    const shared = new SharedProgress();
    const ended = new Promise<WarmResult>((resolve, reject) => {
      this.#underWay = { seq, resolve, reject, watchdog: this.#watch(shared, { path: order.path, onTick }) };
    });
    this.#worker ??= this.#start();
    this.#worker.postMessage({ ...order, seq, shared: shared.buffer } satisfies WarmOrder);
    return { ended, shared };
  }

  close(): void {
    this.#fail(new Failure("cancelled", "Cannot warm: the page cache was closed"));
  }

  #start(): Worker {
    const worker = new Worker(new URL("./warm.ts", import.meta.url), { type: "module", name: "warm" });
    worker.addEventListener("message", ({ data }: MessageEvent<FromWarmWorker>) => this.#hear(data));
    worker.addEventListener("error", (event) => {
      // Without this the main thread would die of it too.
      event.preventDefault();
      if (this.#worker === worker) this.#fail(new Error(`Cannot warm: the Worker failed: ${event.message}`));
    });
    return worker;
  }

  #watch(shared: SharedProgress, what: { readonly path: string; readonly onTick: () => void }): Timer {
    let [doneBytes, sinceMs] = [-1, 0];
    return this.#clock.every(LOOK_EVERY_MS, () => {
      const nowMs = this.#clock.monotonicMs();
      const now = shared.get("doneBytes");
      if (now !== doneBytes) [doneBytes, sinceMs] = [now, nowMs];
      if (nowMs - sinceMs <= STUCK_MS) return what.onTick();
      const message = `Cannot warm ${what.path}: its file system has not answered for ${STUCK_MS / 1000} s`;
      this.#fail(new Failure("unavailable", message, { hint: "Look at the disk or the share it lies on" }));
    });
  }

  #hear(message: FromWarmWorker): void {
    const turn = this.#underWay;
    if (message.kind === "ready" || turn?.seq !== message.seq) return;
    this.#underWay = null;
    turn.watchdog.stop();
    if (message.kind === "ended") return turn.resolve(message.result);
    const { failure } = message;
    if (failure === null) return turn.reject(new Error(message.message));
    turn.reject(
      new Failure(failure.code, failure.message, {
        ...(failure.hint === null ? {} : { hint: failure.hint }),
        ...(failure.details === null ? {} : { details: failure.details }),
      }),
    );
  }

  /** Lets the Worker go, with whatever call it hangs in; the next order starts another. */
  #fail(error: Error): void {
    this.#worker?.terminate();
    this.#worker = null;
    const turn = this.#underWay;
    this.#underWay = null;
    turn?.watchdog.stop();
    turn?.reject(error);
  }
}
