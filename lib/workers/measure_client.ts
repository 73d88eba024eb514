/** Residency, seen from the main thread: every look happens in the measuring Worker, and one that hangs is given up. */
import type { Residency, UnmeasurableResidency } from "../model/page_cache.ts";
import type { Clock, Timer } from "../model/ports.ts";
import type { ResidencyQuestion } from "../sample/residency.ts";
import type { FromMeasureWorker, ToMeasureWorker } from "./measure_protocol.ts";

/** Without news for this long it hangs: 1,024 random reads of a slow disk take less, a dead network share answers never. */
const SILENT_MS = 30_000;

interface Waiting {
  readonly paths: readonly string[];
  readonly found: Residency[];
  readonly givenUp: SharedArrayBuffer;
  readonly resolve: (residencies: readonly Residency[]) => void;
}

interface Unlocking {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class MeasureClient {
  readonly #clock: Clock;
  #worker: Worker | null = null;
  #watchdog: Timer | null = null;
  readonly #waiting = new Map<number, Waiting>();
  readonly #unlocking = new Map<number, Unlocking>();
  #lastSeq = 0;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** In the order of `paths`. Rejects only with the signal's reason. */
  measure(
    paths: readonly string[],
    question: ResidencyQuestion & { readonly signal?: AbortSignal },
  ): Promise<readonly Residency[]> {
    const { roots, purpose, signal } = question;
    signal?.throwIfAborted();
    if (paths.length === 0) return Promise.resolve([]);
    if (this.#isClosed) return Promise.resolve(paths.map(() => this.#interrupted("the page cache was closed")));
    const seq = ++this.#lastSeq;
    const givenUp = new SharedArrayBuffer(4);
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        Atomics.store(new Int32Array(givenUp), 0, 1);
        this.#waiting.delete(seq);
        this.#watch();
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(seq, {
        paths,
        found: [],
        givenUp,
        resolve: (residencies) => {
          signal?.removeEventListener("abort", onAbort);
          resolve(residencies);
        },
      });
      this.#post({ kind: "measure", seq, paths, question: { roots, purpose }, givenUp });
    });
  }

  /** Ends a mapping of this process, and with it the lock on its pages. */
  unlock(mapping: { readonly address: bigint; readonly lengthBytes: number }): Promise<void> {
    const seq = ++this.#lastSeq;
    return new Promise((resolve, reject) => {
      this.#unlocking.set(seq, { resolve, reject });
      this.#post({ kind: "unlock", seq, address: mapping.address, lengthBytes: mapping.lengthBytes });
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#end("the page cache was closed");
  }

  #post(message: ToMeasureWorker): void {
    this.#worker ??= this.#start();
    this.#worker.postMessage(message);
    if (this.#watchdog === null) this.#watch();
  }

  #start(): Worker {
    const worker = new Worker(new URL("./measure.ts", import.meta.url), { type: "module", name: "measure" });
    worker.addEventListener("message", ({ data }: MessageEvent<FromMeasureWorker>) => this.#hear(data));
    worker.addEventListener("error", (event) => {
      // Without this the main thread would die of it too.
      event.preventDefault();
      if (this.#worker === worker) this.#end(`its Worker failed: ${event.message}`);
    });
    return worker;
  }

  #hear(message: FromMeasureWorker): void {
    this.#watch();
    if (message.kind === "unlocked") {
      this.#unlocking.get(message.seq)?.resolve();
      this.#unlocking.delete(message.seq);
    } else if (message.kind === "refused") {
      this.#unlocking.get(message.seq)?.reject(new Error(message.message));
      this.#unlocking.delete(message.seq);
      this.#finish(message.seq, message.message);
    } else {
      const waiting = this.#waiting.get(message.seq);
      if (waiting === undefined) return;
      // Stamped here: two threads' clocks drift apart when the wall clock is set.
      const atMs = this.#clock.monotonicMs();
      for (const residency of message.residencies) waiting.found.push({ ...residency, atMs });
      if (waiting.found.length >= waiting.paths.length) this.#finish(message.seq, "");
    }
  }

  /** Answers with what was found; the rest says why it wasn't. */
  #finish(seq: number, reason: string): void {
    const waiting = this.#waiting.get(seq);
    if (waiting === undefined) return;
    this.#waiting.delete(seq);
    this.#watch();
    waiting.resolve(waiting.paths.map((_, at) => waiting.found[at] ?? this.#interrupted(reason)));
  }

  /** Starts the watchdog anew, while anyone waits. */
  #watch(): void {
    this.#watchdog?.stop();
    this.#watchdog = null;
    if (this.#worker === null || this.#waiting.size + this.#unlocking.size === 0) return;
    this.#watchdog = this.#clock.after(
      SILENT_MS,
      () => this.#end(`the file system has not answered for ${SILENT_MS / 1000} s`),
    );
  }

  /** Lets the Worker go; the next question starts another. */
  #end(reason: string): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#watchdog?.stop();
    this.#watchdog = null;
    for (const seq of [...this.#waiting.keys()]) this.#finish(seq, reason);
    for (const { reject } of this.#unlocking.values()) reject(new Error(`Cannot unpin: ${reason}`));
    this.#unlocking.clear();
  }

  #interrupted(reason: string): UnmeasurableResidency {
    return {
      kind: "unmeasurable",
      sizeBytes: null,
      cause: "interrupted",
      reason: `Cannot tell how much is in memory: ${reason}`,
      atMs: this.#clock.monotonicMs(),
    };
  }
}
