/** A sweep's effects → servers and the record → result events. */
import type { Refusal } from "../model/arbitration.ts";
import type { BenchOutcome, SweepEffect, SweepEvent, SweepReply, SweepWorkload } from "../model/autotune.ts";
import { Failure, messageOf } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Clock, Log, Store } from "../model/ports.ts";

/** Makes a workload's model ready; resolves with its name. Throws Failure where it can't be. */
export type PrepareWorkload = (
  workload: SweepWorkload,
  options: { readonly model: string | null; readonly signal: AbortSignal },
) => Promise<string>;

export interface PerformAutotuneParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<Store, "append">;
  readonly prepare: PrepareWorkload;
  readonly bench: Readonly<Record<SweepWorkload, (model: string, signal: AbortSignal) => Promise<BenchOutcome>>>;
  readonly send: (event: SweepEvent) => void;
  readonly resolve: (id: string, reply: SweepReply) => void;
  readonly onRecorded: (item: HistoryItem) => void;
}

export class AutotunePerformer {
  readonly #parts: PerformAutotuneParts;
  /** What runs now: one at a time, by the generation it was decided on. */
  #running: { readonly generation: number; readonly abort: AbortController } | null = null;
  /** Events are kept one after the other, and the answer comes once they are. */
  #keeping: Promise<void> = Promise.resolve();
  #working: Promise<void> = Promise.resolve();

  constructor(parts: PerformAutotuneParts) {
    this.#parts = parts;
  }

  perform(effect: SweepEffect): void {
    switch (effect.kind) {
      case "prepareSweep":
        return this.#start(effect.generation, (signal) => this.#prepare(effect, signal));
      case "bench":
        return this.#start(effect.generation, (signal) => this.#bench(effect, signal));
      case "abortBench":
        if (this.#running?.generation === effect.generation) this.#running.abort.abort(new Error(effect.reason));
        return;
      case "recordSweep":
        return this.#record(effect);
      case "answerSweep":
        this.#keeping = this.#keeping.then(() => this.#parts.resolve(effect.id, effect.reply));
        return;
    }
  }

  /** Resolves when everything that was started has ended. */
  async settled(): Promise<void> {
    await this.#working;
    await this.#keeping;
  }

  #start(generation: number, run: (signal: AbortSignal) => Promise<void>): void {
    const abort = new AbortController();
    this.#running = { generation, abort };
    // What was aborted before may still be ending: two at once would measure each other.
    this.#working = this.#working.then(() => run(abort.signal)).catch((error) =>
      this.#parts.log.error("Cannot finish a step of a sweep", { error: messageOf(error) })
    );
  }

  async #prepare(
    { generation, workload, model }: Extract<SweepEffect, { kind: "prepareSweep" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { prepare, clock, send } = this.#parts;
    let ready: string | null = null;
    let refusal: Refusal | null = null;
    try {
      signal.throwIfAborted();
      ready = await prepare(workload, { model, signal });
    } catch (error) {
      refusal = refusalOf(error);
    }
    send({ type: "sweepPrepared", atMs: clock.monotonicMs(), generation, model: ready, refusal });
  }

  async #bench(
    { generation, workload, model }: Extract<SweepEffect, { kind: "bench" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { bench, clock, send } = this.#parts;
    let outcome: BenchOutcome;
    try {
      signal.throwIfAborted();
      outcome = await bench[workload](model, signal);
    } catch (error) {
      outcome = { ok: false, isRejected: false, message: messageOf(error) };
    }
    send({ type: "benchEnded", atMs: clock.monotonicMs(), generation, outcome });
  }

  #record({ event, item: { kind, fields } }: Extract<SweepEffect, { kind: "recordSweep" }>): void {
    const { store, clock, log, onRecorded } = this.#parts;
    const kept = store.append({ atMs: clock.wallMs(), kind, fields: { message: event, ...fields } });
    this.#keeping = this.#keeping.then(async () => {
      try {
        onRecorded(await kept);
      } catch (error) {
        log.error("Cannot record a step of a sweep", { error: messageOf(error) });
      }
    });
    // Waited for above; a rejection before its turn must not count as unhandled.
    kept.catch(() => {});
  }
}

function refusalOf(error: unknown): Refusal {
  if (!(error instanceof Failure)) {
    return {
      code: "upstream",
      message: `Cannot make the workload ready: ${messageOf(error)}`,
      hint: null,
      details: null,
    };
  }
  const { code, message, hint, details } = error;
  return { code, message, hint, details };
}
