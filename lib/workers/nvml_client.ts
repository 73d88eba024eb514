/** The arbitrated card, seen from the main thread: every driver call happens in the nvml Worker, under a deadline. */
import { type Clock, type Gpu, GpuUnavailable, type Log, type Timer } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
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

/** How long a Worker may take to start: 50 ms usually, seconds on a busy machine that compiles it first. */
const START_MS = 30_000;

/** Connects to the card. Nothing is opened before the first call, and nothing has to be there: it heals by itself. */
export function connectGpu(options: ConnectGpuOptions): Gpu {
  return new NvmlClient(options);
}

interface Question {
  /** Its deadline; null while it still waits for the Worker to start. */
  timer: Timer | null;
  readonly resolve: (value: GpuFacts | GpuReading) => void;
  readonly reject: (reason: unknown) => void;
}

interface Running {
  readonly worker: Worker;
  readonly control: Int32Array<SharedArrayBuffer>;
  /** What waits for the Worker to start; null once it has. */
  starting: { readonly queue: ToWorker[]; readonly timer: Timer } | null;
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
    running.starting?.timer.stop();
    if (running.starting === null && !this.#standing.isWedged) await this.#askToClose();
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
      // An aborted question stays on the books: its call may still hang.
      const onAbort = () => reject(signal?.reason);
      const done = () => signal?.removeEventListener("abort", onAbort);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#questions.set(id, {
        timer: null,
        resolve: (value) => (done(), resolve(value)),
        reject: (reason) => (done(), reject(reason)),
      });
      this.#post({ kind: "ask", id, what });
    });
  }

  #beginStream(): void {
    const id = ++this.#lastId;
    this.#watchers.begin(id);
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
    if (this.#running.starting !== null) this.#running.starting.queue.push(message);
    else this.#send(this.#running, message);
  }

  /** Posts to a Worker that listens; from here on its deadline counts. */
  #send({ worker, control }: Running, message: ToWorker): void {
    if (message.kind === "stream") {
      // One that was given up meanwhile would never learn that it is over.
      if (message.id !== this.#watchers.streamId) return;
      Atomics.store(control, CONTROL.stream, message.id);
      this.#guardStream(message.id);
    }
    if (message.kind === "ask") {
      Atomics.add(control, CONTROL.asked, 1);
      Atomics.notify(control, CONTROL.stream);
      this.#guardQuestion(message.id);
    }
    worker.postMessage(message);
  }

  #guardQuestion(id: number): void {
    const question = this.#questions.get(id);
    if (question === undefined) return;
    const askedAtMs = this.#clock.monotonicMs();
    question.timer = this.#clock.after(this.#deadlineMs, () => question.reject(this.#standing.overdue(id, askedAtMs)));
  }

  #guardStream(id: number): void {
    this.#watchers.guard(this.#deadlineMs, (sinceMs) => {
      const cause = this.#standing.overdue(id, sinceMs);
      this.#endStream();
      this.#watchers.lose(cause);
    });
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
    const timer = this.#clock.after(
      START_MS,
      () => this.#lose(worker, `it has not started within ${START_MS / 1000} s`),
    );
    return { worker, control: new Int32Array(new SharedArrayBuffer(CONTROL_BYTES)), starting: { queue: [], timer } };
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
    if (running === null || running.starting === null) return;
    const { queue, timer } = running.starting;
    timer.stop();
    running.starting = null;
    const { source, choice, sysRoot = "/sys" } = this.#options;
    const monotonicMs = this.#clock.monotonicMs();
    const config = { source, choice, sysRoot, control: running.control.buffer, monotonicMs };
    this.#send(running, { kind: "configure", config });
    for (const message of queue) this.#send(running, message);
  }

  #settle(id: number): Question | undefined {
    this.#standing.returned(id);
    const question = this.#questions.get(id);
    this.#questions.delete(id);
    question?.timer?.stop();
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
    this.#running.starting?.timer.stop();
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
      question.timer?.stop();
      question.reject(cause);
    }
    this.#endStream();
    this.#watchers.lose(cause);
  }
}

function closedError(): GpuUnavailable {
  return new GpuUnavailable("absent", "Cannot read the GPU: it was closed", "Start the service again");
}
