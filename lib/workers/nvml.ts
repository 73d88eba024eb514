/**
 * Entry point of the nvml Worker: every call of the driver's library happens here, so that one that hangs holds up
 * nothing else. Its client is nvml_client.ts.
 */
import { systemClock } from "../system/clock.ts";
import { toGpuUnavailable } from "../sample/gpu_failure.ts";
import {
  type Answer,
  CONTROL,
  CONTROL_BYTES,
  type FromWorker,
  type NvmlConfig,
  type Question,
  toFailure,
  type ToWorker,
} from "./nvml_protocol.ts";
import { NvmlSession } from "./nvml_session.ts";

/** Between two readings of a stream. Atomics.wait keeps this pace (1.13 ms); a timer would make it 2.2 ms. */
const STREAM_PAUSE_MS = 1;

/** Two clocks that agree better than this only differ by how long the message took. */
const CLOCK_TOLERANCE_MS = 20;

class NvmlWorker {
  #session: NvmlSession | null = null;
  #control = new Int32Array(new SharedArrayBuffer(CONTROL_BYTES));
  #answered = 0;
  #isStreaming = false;
  readonly #turns = new MessageChannel();

  handle(message: ToWorker): void {
    switch (message.kind) {
      case "configure":
        return this.#configure(message.config);
      case "ask":
        return this.#answer(message);
      case "stream":
        this.#stream(message.id).catch(rethrow);
        return;
      case "close":
        this.#session?.[Symbol.dispose]();
        this.#session = null;
        this.#turns.port1.close();
        return post({ kind: "closed" });
    }
  }

  #configure(config: NvmlConfig): void {
    const differenceMs = config.monotonicMs - systemClock().monotonicMs();
    const offsetMs = Math.abs(differenceMs) < CLOCK_TOLERANCE_MS ? 0 : differenceMs;
    this.#control = new Int32Array(config.control);
    this.#session = new NvmlSession(config, {
      clock: systemClock({ offsetMs }),
      tell: (event) => post({ kind: "event", event }),
    });
  }

  #answer({ id, question }: { readonly id: number; readonly question: Question }): void {
    this.#answered++;
    try {
      post({ kind: "answer", id, value: this.#ask(this.#opened(), question) });
    } catch (error) {
      post({ kind: "refusal", id, failure: toFailure(toGpuUnavailable(error)) });
    }
  }

  #ask(session: NvmlSession, question: Question): Answer {
    switch (question.what) {
      case "facts":
        return session.facts();
      case "read":
        return session.read({ isQuick: this.#isStreaming });
      case "limits":
        return session.limits();
      case "state":
        return session.state();
      case "apply":
        return session.apply(question.setting, question.reason);
      case "restore":
        return session.restore(question.scope);
      case "forget":
        return session.forgetUncleanEnd();
    }
  }

  /** Reads as long as the client wants this stream, and turns to its questions whenever there are some. */
  async #stream(id: number): Promise<void> {
    this.#isStreaming = true;
    let failure: Extract<FromWorker, { kind: "streamEnded" }>["failure"] = null;
    try {
      const session = this.#opened();
      while (Atomics.load(this.#control, CONTROL.stream) === id) {
        post({ kind: "reading", id, reading: session.readBarrier() });
        if (Atomics.load(this.#control, CONTROL.asked) !== this.#answered) await this.#turn();
        Atomics.wait(this.#control, CONTROL.stream, id, STREAM_PAUSE_MS);
      }
    } catch (error) {
      failure = toFailure(toGpuUnavailable(error));
    }
    this.#isStreaming = false;
    post({ kind: "streamEnded", id, failure });
  }

  /** One turn of the event loop, in which what was posted is answered. A timer would take a millisecond or two. */
  #turn(): Promise<void> {
    const { port1, port2 } = this.#turns;
    return new Promise((resolve) => {
      port1.onmessage = () => resolve();
      port2.postMessage(null);
    });
  }

  #opened(): NvmlSession {
    if (this.#session === null) throw new Error("Cannot read a GPU: the Worker was told of none");
    return this.#session;
  }
}

function post(message: FromWorker): void {
  self.postMessage(message);
}

/** Out of the promise, so that the Worker's `error` event tells the client. */
function rethrow(error: unknown): never {
  throw error;
}

const worker = new NvmlWorker();
self.addEventListener("message", (event: MessageEvent<ToWorker>) => worker.handle(event.data));
post({ kind: "ready" });
