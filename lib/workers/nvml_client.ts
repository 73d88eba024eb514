/** The arbitrated card, seen from the main thread: every driver call happens in the nvml Worker, under a deadline. */
import { type Clock, type Gpu, GpuUnavailable, type Log, type Timer } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { GpuChoice } from "../sample/gpu_facts.ts";
import {
  CONTROL,
  CONTROL_BYTES,
  fromFailure,
  type FromWorker,
  type GpuSource,
  type ToWorker,
} from "./nvml_protocol.ts";
import { GpuStanding } from "./nvml_standing.ts";
import { type Watcher, Watchers } from "./nvml_watchers.ts";

export interface ConnectGpuOptions {
  readonly source: GpuSource;
  readonly choice: GpuChoice;
  readonly clock: Clock;
  readonly log: Log;
  /** Where sysfs is; a plain folder in tests. */
  readonly sysRoot?: string;
  /**
   * After how long a driver call makes the card `wedged`. A healthy driver blocks for 15–106 ms while a context is made
   * or memory is released, so it must be well above 150.
   */
  readonly deadlineMs?: number;
}

/** How long a Worker may take to start, with a busy machine's module loading. */
const START_MS = 10_000;

/** Connects to the card. Nothing is opened before the first call, and nothing has to be there: it heals by itself. */
export function connectGpu(options: ConnectGpuOptions): Gpu {
  return new NvmlClient(options);
}

interface Question {
  readonly askedAtMs: MonotonicMs;
  readonly timer: Timer;
  readonly resolve: (value: GpuFacts | GpuReading) => void;
  readonly reject: (reason: unknown) => void;
}

interface Running {
  readonly worker: Worker;
  readonly control: Int32Array<SharedArrayBuffer>;
  /** Messages from before the Worker could listen; null once it can. */
  queue: ToWorker[] | null;
}

class NvmlClient implements Gpu {
  readonly #options: ConnectGpuOptions;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #standing: GpuStanding;
  readonly #watchers: Watchers;
  readonly #questions = new Map<number, Question>();
  #running: Running | null = null;
  #lastId = 0;
  #isClosed = false;
  #onClosed: (() => void) | null = null;

  constructor(options: ConnectGpuOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#deadlineMs = options.deadlineMs ?? 1_000;
    this.#standing = new GpuStanding(options.clock, options.log);
    this.#watchers = new Watchers(options.clock);
  }

  async facts(signal?: AbortSignal): Promise<GpuFacts> {
    // as: the Worker answers a question for facts with facts.
    return await this.#ask("facts", signal) as GpuFacts;
  }

  async read(signal?: AbortSignal): Promise<GpuReading> {
    // as: the Worker answers a question for a reading with one.
    return await this.#ask("read", signal) as GpuReading;
  }

  watch(onReading: (reading: BarrierReading) => void, onLost: (cause: GpuUnavailable) => void): Timer {
    const watcher: Watcher = { onReading, onLost };
    this.#watchers.add(watcher);
    const objection = this.#objection();
    if (objection === null) {
      if (this.#watchers.streamId === null) this.#beginStream();
    } else {
      // Not before the caller has its Timer.
      queueMicrotask(() => {
        if (this.#watchers.remove(watcher)) onLost(objection);
      });
    }
    return {
      stop: () => {
        if (this.#watchers.remove(watcher) && this.#watchers.isEmpty) this.#endStream();
      },
    };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#fail(closedError());
    const running = this.#running;
    if (running === null) return;
    // A Worker that hangs in the driver can't be asked; it goes with the process.
    if (running.queue === null && !this.#standing.isWedged) await this.#askToClose();
    running.worker.terminate();
    this.#running = null;
  }

  #askToClose(): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.after(this.#deadlineMs, resolve);
      this.#onClosed = () => {
        timer.stop();
        resolve();
      };
      this.#post({ kind: "close" });
    });
  }

  #objection(): GpuUnavailable | null {
    return this.#isClosed ? closedError() : this.#standing.objection();
  }

  #ask(what: "facts" | "read", signal?: AbortSignal): Promise<GpuFacts | GpuReading> {
    signal?.throwIfAborted();
    const objection = this.#objection();
    if (objection !== null) return Promise.reject(objection);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const askedAtMs = this.#clock.monotonicMs();
      const timer = this.#clock.after(this.#patienceMs(), () => reject(this.#standing.overdue(id, askedAtMs)));
      // An aborted question stays on the books: its call may still hang.
      const onAbort = () => reject(signal?.reason);
      const done = () => signal?.removeEventListener("abort", onAbort);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#questions.set(id, {
        askedAtMs,
        timer,
        resolve: (value) => (done(), resolve(value)),
        reject: (reason) => (done(), reject(reason)),
      });
      this.#post({ kind: "ask", id, what });
    });
  }

  /** A Worker that hasn't started yet is given the time for it too. */
  #patienceMs(): number {
    return this.#running?.queue === null ? this.#deadlineMs : START_MS + this.#deadlineMs;
  }

  #beginStream(): void {
    const id = ++this.#lastId;
    this.#watchers.begin(id, {
      deadlineMs: this.#patienceMs(),
      onOverdue: (sinceMs) => {
        const cause = this.#standing.overdue(id, sinceMs);
        this.#endStream();
        this.#watchers.lose(cause);
      },
    });
    this.#post({ kind: "stream", id });
  }

  /** The Worker streams until this word says otherwise; waking it makes that at once. */
  #endStream(): void {
    this.#watchers.end();
    if (this.#running === null) return;
    const { control } = this.#running;
    Atomics.store(control, CONTROL.stream, 0);
    Atomics.notify(control, CONTROL.stream);
  }

  #post(message: ToWorker): void {
    this.#running ??= this.#start();
    const { worker, control, queue } = this.#running;
    if (queue !== null) {
      queue.push(message);
      return;
    }
    if (message.kind === "stream") Atomics.store(control, CONTROL.stream, message.id);
    if (message.kind === "ask") {
      Atomics.add(control, CONTROL.asked, 1);
      Atomics.notify(control, CONTROL.stream);
    }
    worker.postMessage(message);
  }

  #start(): Running {
    const worker = new Worker(new URL("./nvml.ts", import.meta.url), { type: "module", name: "nvml" });
    worker.addEventListener("message", (event: MessageEvent<FromWorker>) => this.#hear(event.data));
    worker.addEventListener("error", (event) => {
      // Without this the main thread would die of it too.
      event.preventDefault();
      this.#lose(worker, event.message);
    });
    worker.addEventListener("messageerror", () => this.#lose(worker, "a message could not be read"));
    return { worker, control: new Int32Array(new SharedArrayBuffer(CONTROL_BYTES)), queue: [] };
  }

  #hear(message: FromWorker): void {
    switch (message.kind) {
      case "ready":
        return this.#configure();
      case "answer":
        this.#standing.fine();
        return this.#settle(message.id)?.resolve(message.value);
      case "refusal": {
        const cause = fromFailure(message.failure);
        this.#standing.refuse(cause);
        return this.#settle(message.id)?.reject(cause);
      }
      case "reading":
        this.#standing.returned(message.id);
        this.#standing.fine();
        return this.#watchers.deliver(message.id, message.reading);
      case "streamEnded":
        return this.#streamEnded(message);
      case "closed":
        return this.#onClosed?.();
    }
  }

  #configure(): void {
    const running = this.#running;
    if (running === null) return;
    const queue = running.queue ?? [];
    running.queue = null;
    const { source, choice, sysRoot = "/sys" } = this.#options;
    const config = {
      source,
      choice,
      sysRoot,
      control: running.control.buffer,
      monotonicMs: this.#clock.monotonicMs(),
    };
    this.#post({ kind: "configure", config });
    for (const message of queue) {
      // A stream that was given up meanwhile would never learn that it is over.
      if (message.kind !== "stream" || message.id === this.#watchers.streamId) this.#post(message);
    }
  }

  #settle(id: number): Question | undefined {
    this.#standing.returned(id);
    const question = this.#questions.get(id);
    this.#questions.delete(id);
    question?.timer.stop();
    return question;
  }

  #streamEnded({ id, failure }: Extract<FromWorker, { kind: "streamEnded" }>): void {
    this.#standing.returned(id);
    if (failure === null) return;
    const cause = fromFailure(failure);
    this.#standing.refuse(cause);
    if (this.#watchers.streamId === id) this.#watchers.lose(cause);
  }

  /** The Worker itself failed: the next call starts another, after the back-off. */
  #lose(worker: Worker, reason: string): void {
    if (this.#running?.worker !== worker) return;
    worker.terminate();
    this.#running = null;
    this.#standing.forgetOverdue();
    const cause = new GpuUnavailable(
      "lost",
      `Cannot read the GPU: its Worker failed: ${reason}`,
      "It is started again by itself; if this stays, report it with `hyperswap doctor`",
    );
    this.#standing.refuse(cause);
    this.#fail(cause);
  }

  /** Everyone who waits is told. */
  #fail(cause: GpuUnavailable): void {
    const questions = [...this.#questions.values()];
    this.#questions.clear();
    for (const question of questions) {
      question.timer.stop();
      question.reject(cause);
    }
    this.#endStream();
    this.#watchers.lose(cause);
  }
}

function closedError(): GpuUnavailable {
  return new GpuUnavailable("absent", "Cannot read the GPU: it was closed", "Start the service again");
}
