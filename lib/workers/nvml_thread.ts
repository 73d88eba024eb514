/** The nvml Worker as a thread: started when it is first needed, told what waits once it listens, given up when it fails. */
import type { Clock, Timer } from "../model/ports.ts";
import { CONTROL, CONTROL_BYTES, type FromWorker, type NvmlConfig, type ToWorker } from "./nvml_protocol.ts";

/** How long a Worker may take to start: 50 ms usually, seconds on a busy machine that compiles it first. */
const START_MS = 30_000;

export interface NvmlThreadParts {
  readonly clock: Clock;
  readonly config: Omit<NvmlConfig, "control" | "monotonicMs">;
  /** The last word before a message goes to a Worker that listens; from here on its deadline counts. False: dropped. */
  readonly sending: (message: ToWorker) => boolean;
  readonly hear: (message: Exclude<FromWorker, { kind: "ready" }>) => void;
  /** The Worker itself has failed; the next message starts another. */
  readonly lost: (reason: string) => void;
}

interface Running {
  readonly worker: Worker;
  readonly control: Int32Array<SharedArrayBuffer>;
  /** What waits for the Worker to start; null once it has. */
  starting: { readonly queue: ToWorker[]; readonly timer: Timer } | null;
}

export class NvmlThread {
  readonly #parts: NvmlThreadParts;
  #running: Running | null = null;

  constructor(parts: NvmlThreadParts) {
    this.#parts = parts;
  }

  get isListening(): boolean {
    return this.#running !== null && this.#running.starting === null;
  }

  post(message: ToWorker): void {
    this.#running ??= this.#start();
    if (this.#running.starting !== null) this.#running.starting.queue.push(message);
    else this.#send(this.#running, message);
  }

  /** The Worker streams until this word says otherwise; waking it makes that at once. */
  endStream(): void {
    if (this.#running === null) return;
    const { control } = this.#running;
    Atomics.store(control, CONTROL.stream, 0);
    Atomics.notify(control, CONTROL.stream);
  }

  /** Ends it, whatever it does. */
  terminate(): void {
    this.#running?.starting?.timer.stop();
    this.#running?.worker.terminate();
    this.#running = null;
  }

  #start(): Running {
    const worker = new Worker(new URL("./nvml.ts", import.meta.url), { type: "module", name: "nvml" });
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
      if (data.kind === "ready") this.#configure();
      else this.#parts.hear(data);
    });
    worker.addEventListener("error", (event) => {
      // Without this the main thread would die of it too.
      event.preventDefault();
      this.#lose(worker, event.message);
    });
    worker.addEventListener("messageerror", () => this.#lose(worker, "a message could not be read"));
    const late = () => this.#lose(worker, `it has not started within ${START_MS / 1000} s`);
    const timer = this.#parts.clock.after(START_MS, late);
    return { worker, control: new Int32Array(new SharedArrayBuffer(CONTROL_BYTES)), starting: { queue: [], timer } };
  }

  #configure(): void {
    const running = this.#running;
    if (running === null || running.starting === null) return;
    const { queue, timer } = running.starting;
    timer.stop();
    running.starting = null;
    const { clock, config } = this.#parts;
    const control = running.control.buffer;
    this.#send(running, { kind: "configure", config: { ...config, control, monotonicMs: clock.monotonicMs() } });
    for (const message of queue) this.#send(running, message);
  }

  #send({ worker, control }: Running, message: ToWorker): void {
    if (!this.#parts.sending(message)) return;
    if (message.kind === "stream") Atomics.store(control, CONTROL.stream, message.id);
    if (message.kind === "ask") {
      Atomics.add(control, CONTROL.asked, 1);
      Atomics.notify(control, CONTROL.stream);
    }
    worker.postMessage(message);
  }

  #lose(worker: Worker, reason: string): void {
    if (this.#running?.worker !== worker) return;
    this.terminate();
    this.#parts.lost(reason);
  }
}
