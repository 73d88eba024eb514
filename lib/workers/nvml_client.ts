/** The arbitrated card, seen from the main thread: every driver call happens in the nvml Worker, under a deadline. */
import type { CardControl } from "../model/card.ts";
import { type Clock, type Gpu, GpuUnavailable, type Log, type Timer } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import type { GpuChoice } from "../sample/gpu_facts.ts";
import { type CardClient, cardClient } from "./card_client.ts";
import {
  type Answer,
  type Answers,
  fromFailure,
  type FromWorker,
  type GpuSource,
  type LeverAccess,
  type Question,
  type ToWorker,
} from "./nvml_protocol.ts";
import { GpuStanding } from "./nvml_standing.ts";
import { NvmlThread } from "./nvml_thread.ts";
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
  /** Left out: the card is only read. */
  readonly levers?: LeverAccess;
  /** How long a card that could sleep must be idle before its library is let go; left out: never. */
  readonly releaseIdleMs?: number | null;
}

/** The card, and the way to its levers. */
export interface GpuConnection extends Gpu {
  readonly card: CardControl;
}

/** Setting several levers takes one sync of the journal and some driver calls; a busy disk may hold a sync for seconds. */
const SETTING_MS = 10_000;

/** Connects to the card. Nothing is opened before the first call, and nothing has to be there: it heals by itself. */
export function connectGpu(options: ConnectGpuOptions): GpuConnection {
  return new NvmlClient(options);
}

interface Asked {
  readonly isSetting: boolean;
  /** Its deadline; null while it still waits for the Worker to start. */
  timer: Timer | null;
  readonly resolve: (value: Answer) => void;
  readonly reject: (reason: unknown) => void;
}

class NvmlClient implements GpuConnection {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #standing: GpuStanding;
  readonly #watchers: Watchers;
  readonly #questions = new Map<number, Asked>();
  readonly #card: CardClient;
  readonly #thread: NvmlThread;
  #lastId = 0;
  #isClosed = false;
  #onClosed: (() => void) | null = null;

  constructor(options: ConnectGpuOptions) {
    this.#clock = options.clock;
    this.#deadlineMs = options.deadlineMs ?? 1_000;
    this.#standing = new GpuStanding(options.clock, options.log);
    this.#watchers = new Watchers(options.clock);
    this.#card = cardClient({
      ask: (question, signal) => this.#ask(question, signal),
      mayChange: options.levers?.mayChange === true,
    });
    const { clock, source, choice, sysRoot = "/sys", levers = null, releaseIdleMs = null } = options;
    this.#thread = new NvmlThread({
      clock,
      config: { source, choice, sysRoot, levers, releaseIdleMs },
      sending: (message) => this.#sending(message),
      hear: (message) => this.#hear(message),
      lost: (reason) => this.#lose(reason),
    });
  }

  get card(): CardControl {
    return this.#card.control;
  }

  facts(signal?: AbortSignal): Promise<GpuFacts> {
    return this.#ask<"facts">({ what: "facts" }, signal);
  }

  read(signal?: AbortSignal): Promise<GpuReading> {
    return this.#ask<"read">({ what: "read" }, signal);
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
    // A Worker that hangs in the driver can't be asked; it goes with the process.
    if (this.#thread.isListening && !this.#standing.isWedged) await this.#askToClose();
    this.#thread.terminate();
  }

  #askToClose(): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.after(this.#deadlineMs, resolve);
      this.#onClosed = () => {
        timer.stop();
        resolve();
      };
      this.#thread.post({ kind: "close" });
    });
  }

  #objection(): GpuUnavailable | null {
    return this.#isClosed ? closedError() : this.#standing.objection();
  }

  async #ask<What extends keyof Answers>(question: Question, signal?: AbortSignal): Promise<Answers[What]> {
    signal?.throwIfAborted();
    const objection = this.#objection();
    if (objection !== null) throw objection;
    const id = ++this.#lastId;
    const answer = await new Promise<Answer>((resolve, reject) => {
      // An aborted question stays on the books: its call may still hang.
      const onAbort = () => reject(signal?.reason);
      const done = () => signal?.removeEventListener("abort", onAbort);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#questions.set(id, {
        isSetting: question.what !== "facts" && question.what !== "read",
        timer: null,
        resolve: (value) => (done(), resolve(value)),
        reject: (reason) => (done(), reject(reason)),
      });
      this.#thread.post({ kind: "ask", id, question });
    });
    // as: the Worker answers each question with its own kind of answer.
    return answer as Answers[What];
  }

  #beginStream(): void {
    const id = ++this.#lastId;
    this.#watchers.begin(id);
    this.#thread.post({ kind: "stream", id });
  }

  #endStream(): void {
    this.#watchers.end();
    this.#thread.endStream();
  }

  /** From here on a message's deadline counts. */
  #sending(message: ToWorker): boolean {
    // A stream that was given up meanwhile would never learn that it is over.
    if (message.kind === "stream" && message.id !== this.#watchers.streamId) return false;
    if (message.kind === "stream") this.#guardStream(message.id);
    if (message.kind === "ask") this.#guardQuestion(message.id);
    return true;
  }

  #guardQuestion(id: number): void {
    const question = this.#questions.get(id);
    if (question === undefined) return;
    const askedAtMs = this.#clock.monotonicMs();
    // What waits behind a setting has its patience too.
    const isBehind = [...this.#questions.values()].some(({ isSetting }) => isSetting);
    const deadlineMs = this.#deadlineMs + (isBehind ? SETTING_MS : 0);
    question.timer = this.#clock.after(deadlineMs, () => question.reject(this.#standing.overdue(id, askedAtMs)));
  }

  #guardStream(id: number): void {
    this.#watchers.guard(this.#deadlineMs, (sinceMs) => {
      const cause = this.#standing.overdue(id, sinceMs);
      this.#endStream();
      this.#watchers.lose(cause);
    });
  }

  #hear(message: Exclude<FromWorker, { kind: "ready" }>): void {
    switch (message.kind) {
      case "answer":
        this.#standing.fine();
        return this.#settle(message.id)?.resolve(message.value);
      case "refusal": {
        const cause = fromFailure(message.failure);
        this.#standing.refuse(cause);
        return this.#settle(message.id)?.reject(cause);
      }
      case "event":
        return this.#card.hear(message.event);
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

  #settle(id: number): Asked | undefined {
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
  #lose(reason: string): void {
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
