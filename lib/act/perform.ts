/** Effects → hardware and servers → result events. Decides nothing; a failure is a result like any other. */
import type { ArbiterReply } from "../model/arbitration.ts";
import type { LoadResidency } from "../model/cache.ts";
import {
  type ArbiterEffect,
  type ArbiterEvent,
  type Generation,
  GENERATIONS_PER_JOB,
  type LoadOutcome,
} from "../model/events.ts";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import {
  type Clock,
  type ComfyApi,
  type EndRunner,
  type Gpu,
  type Log,
  NOTHING_TOLD,
  type OllamaApi,
  type Proc,
  type Store,
  type Timer,
} from "../model/ports.ts";
import type { Policy } from "../model/policy.ts";
import type { ProcessId, Runner } from "../model/tenants.ts";
import { classifyOllamaFailure, isOutOfMemory } from "../upstream/ollama_failures.ts";
import { UpstreamError } from "../upstream/upstream_error.ts";
import { freeWhenQuiet } from "./purge.ts";

/** `/api/ps` may stall for seconds while a runner is killed; a yield goes on by the processes meanwhile. */
const LIST_DEADLINE_MS = 500;
/** The unload reply comes within milliseconds (measured 1–8 ms); longer means that nobody is there. */
const UNLOAD_DEADLINE_MS = 5_000;
/** A runner's own port answers in under a millisecond, or not at all. */
const PROBE_DEADLINE_MS = 150;
/** Two queue reads, the pause between them, and `/free`. */
const FREE_DEADLINE_MS = 5_000;

/** An event without its time: `perform` stamps it. */
type Unstamped = ArbiterEvent extends infer E ? E extends ArbiterEvent ? Omit<E, "atMs"> : never : never;

export interface PerformParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly gpu: Gpu;
  readonly proc: Proc;
  readonly ollama: OllamaApi;
  readonly comfy: ComfyApi;
  readonly store: Store;
  /** As it stands now: it changes with the configuration. */
  readonly policy: () => Policy;
  /** The server's children as they are now. */
  readonly listRunners: () => readonly Runner[];
  /** What of a model is in memory before its load, within a fraction of a second, or null. Never rejects. */
  readonly residencyBefore?: (model: string) => Promise<LoadResidency | null>;
  /** Ends that process and no later one; left out, nothing can be ended. Never rejects. */
  readonly endRunner?: EndRunner;
  readonly send: (event: ArbiterEvent) => void;
  readonly resolve: (requestId: string, reply: ArbiterReply) => void;
  /** Called with each event once it is kept, and again when it was completed. */
  readonly onRecorded: (item: HistoryItem) => void;
}

export class Performer {
  readonly #parts: PerformParts;
  #barrier: Timer | null = null;
  readonly #recorded = new Map<string, Promise<HistoryItem | null>>();
  readonly #running = new Map<AbortController, Generation>();
  readonly #pending = new Set<Promise<void>>();

  constructor(parts: PerformParts) {
    this.#parts = parts;
  }

  /** Starts an effect. Its result comes back through `send`. */
  perform(effect: ArbiterEffect): void {
    switch (effect.kind) {
      case "openBarrier":
        return this.#openBarrier();
      case "closeBarrier":
        this.#barrier?.stop();
        this.#barrier = null;
        return;
      case "unload":
        return this.#start(effect.generation, (signal) => this.#unload(effect.generation, effect.model, signal));
      case "listRunners":
        return this.#send({ type: "runnersListed", generation: effect.generation, runners: this.#parts.listRunners() });
      case "listResident":
        return this.#start(effect.generation, (signal) => this.#listResident(effect.generation, signal));
      case "probeRunners":
        return this.#start(effect.generation, (signal) => this.#probe(effect.generation, effect.runners, signal));
      case "freeComfy":
        return this.#start(effect.generation, (signal) => this.#free(effect.generation, signal));
      case "load":
        return this.#start(effect.generation, (signal) => this.#load(effect, signal));
      case "endRunner":
        return this.#start(effect.generation, () => this.#end(effect.generation, effect.process));
      case "abort":
        return this.#abort(effect.generation, effect.reason);
      case "wakeAt":
        this.#parts.clock.after(Math.max(0, effect.atMs - this.#parts.clock.monotonicMs()), () => {
          this.#send({ type: "woke", generation: effect.generation });
        });
        return;
      case "record":
        return this.#record(effect);
      case "amend":
        return this.#amend(effect);
      case "resolve":
        return this.#parts.resolve(effect.requestId, effect.reply);
    }
  }

  /** Resolves when everything that was started has ended; used at shutdown. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #send(event: Unstamped): void {
    // The omitted time is put back here, so the union's member is whole again.
    this.#parts.send({ ...event, atMs: this.#parts.clock.monotonicMs() } as ArbiterEvent);
  }

  #openBarrier(): void {
    this.#barrier?.stop();
    this.#barrier = this.#parts.gpu.watch(
      (reading) => this.#parts.send({ type: "reading", atMs: reading.atMs, reading }),
      (cause) => this.#send({ type: "barrierLost", reason: cause.message }),
    );
  }

  #start(generation: Generation, run: (signal: AbortSignal) => Promise<void>): void {
    const controller = new AbortController();
    this.#running.set(controller, generation);
    this.#follow(run(controller.signal).finally(() => this.#running.delete(controller)), "effect");
  }

  /** Keeps a promise until it ends; what escapes it is a bug, and said so. */
  #follow(work: Promise<unknown>, what: string): void {
    const followed = work.then(() => {}, (error) => {
      this.#parts.log.error(`Cannot finish an ${what}`, { error: messageOf(error) });
    }).finally(() => this.#pending.delete(followed));
    this.#pending.add(followed);
  }

  #abort(generation: Generation, reason: string): void {
    for (const [controller, owner] of this.#running) {
      if (owner >= generation && owner < generation + GENERATIONS_PER_JOB) controller.abort(new Error(reason));
    }
  }

  async #unload(generation: Generation, model: string, signal: AbortSignal): Promise<void> {
    const { ollama, clock } = this.#parts;
    let error: string | null = null;
    let isUnknown = false;
    try {
      await ollama.unload(model, clock.deadline(UNLOAD_DEADLINE_MS, signal));
    } catch (cause) {
      error = messageOf(cause);
      isUnknown = classifyOllamaFailure(cause) === "unknown_model";
    }
    this.#send({ type: "unloadReplied", generation, model, error, isUnknown });
  }

  async #listResident(generation: Generation, signal: AbortSignal): Promise<void> {
    const { ollama, clock, log } = this.#parts;
    try {
      const resident = await ollama.ps(clock.deadline(LIST_DEADLINE_MS, signal));
      this.#send({ type: "residentListed", generation, resident });
    } catch (error) {
      log.debug("Cannot list resident models", { error: messageOf(error) });
      this.#send({ type: "residentListed", generation, resident: null });
    }
  }

  async #probe(generation: Generation, runners: readonly Runner[], signal: AbortSignal): Promise<void> {
    const { ollama, proc, clock } = this.#parts;
    const deadline = clock.deadline(PROBE_DEADLINE_MS, signal);
    const probes = await Promise.all(runners.map(async (runner) => {
      const entry = proc.process(runner.pid);
      const isSame = entry !== null && entry.startTime === runner.startTime;
      const told = runner.port === null
        ? NOTHING_TOLD
        : await ollama.runnerActivity(runner.port, deadline).catch(() => NOTHING_TOLD);
      const cpuSeconds = isSame ? entry.cpuTicks / proc.ticksPerSecond : null;
      return { pid: runner.pid, startTime: runner.startTime, cpuSeconds, ...told };
    }));
    this.#send({ type: "runnersProbed", generation, probes });
  }

  async #free(generation: Generation, signal: AbortSignal): Promise<void> {
    const { comfy, clock } = this.#parts;
    const reply = await freeWhenQuiet(comfy, clock, clock.deadline(FREE_DEADLINE_MS, signal));
    this.#send({ type: "freeReplied", generation, reply });
  }

  async #end(generation: Generation, process: ProcessId): Promise<void> {
    const { endRunner } = this.#parts;
    const reply = endRunner === undefined
      ? { kind: "failed" as const, message: "nothing here can end a process" }
      : await endRunner(process);
    this.#send({ type: "runnerEnded", generation, reply });
  }

  async #load(effect: Extract<ArbiterEffect, { kind: "load" }>, signal: AbortSignal): Promise<void> {
    const { ollama, clock, policy, residencyBefore } = this.#parts;
    let outcome: LoadOutcome;
    try {
      // Hanging up is the cure for a load that hangs for ever: it cancels the load on Ollama's side.
      // Asked beside it: the load waits for nobody, and a runner reads nothing before it has started.
      const before = residencyBefore?.(effect.request.model) ?? Promise.resolve(null);
      const reply = await ollama.load(effect.request, clock.deadline(policy().load.deadlineMs, signal));
      outcome = { ok: true, reply, residency: await before };
    } catch (error) {
      const status = error instanceof UpstreamError ? error.status : null;
      outcome = {
        ok: false,
        message: messageOf(error),
        isOutOfMemory: isOutOfMemory(messageOf(error)),
        isUnknownModel: status === 404,
      };
    }
    this.#send({ type: "loadEnded", generation: effect.generation, outcome });
  }

  #record(effect: Extract<ArbiterEffect, { kind: "record" }>): void {
    const { store, clock, log, onRecorded } = this.#parts;
    const kept = store.append({ atMs: clock.wallMs(), ...effect.item }).then((item) => {
      onRecorded(item);
      return item;
    }, (error) => {
      log.error("Cannot record an event", { error: messageOf(error), kind: effect.item.kind });
      return null;
    });
    this.#recorded.set(effect.key, kept);
    this.#follow(kept, "event");
    // Only the newest few are ever completed later.
    if (this.#recorded.size > 64) {
      const oldest = this.#recorded.keys().next().value;
      if (oldest !== undefined) this.#recorded.delete(oldest);
    }
  }

  #amend(effect: Extract<ArbiterEffect, { kind: "amend" }>): void {
    const { store, log, onRecorded } = this.#parts;
    const kept = this.#recorded.get(effect.key);
    // A hand-off that found nothing to hand over has no record to complete.
    if (kept === undefined) return;
    const amended = kept.then(async (item) => item === null ? null : await store.amend(item.id, effect.fields))
      .then((item) => {
        if (item !== null) onRecorded(item);
      }, (error) => log.error("Cannot complete a record", { error: messageOf(error), key: effect.key }));
    this.#follow(amended, "record");
  }
}
