/** Sweeps, joined: whoever asks for one, what makes its workload ready, and what measures. */
import { benchOllama } from "../act/bench_ollama.ts";
import { ComfyBench, type Timed } from "../act/bench_comfy.ts";
import { AutotunePerformer, type PrepareWorkload } from "../act/perform_autotune.ts";
import { planSweep, type SweepAround, sweptModel } from "../decide/autotune_plan.ts";
import type { AutotuneState } from "../decide/autotune_state.ts";
import { viewSweep } from "../decide/autotune_view.ts";
import type { Autotune, SweepEffect, SweepEvent, SweepReply, SweepRequest, SweepResult } from "../model/autotune.ts";
import { didYouMean } from "../model/did_you_mean.ts";
import type { ArbiterEvent } from "../model/events.ts";
import { Failure } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import { isSameModel } from "../model/model_names.ts";
import type { Clock, ComfyApi, ComfyCompletion, Log, OllamaApi, Store } from "../model/ports.ts";
import type { Arbitration, CallOptions } from "../model/services.ts";
import { connectComfyWork } from "../upstream/comfy_work.ts";
import { connectDecode } from "../upstream/ollama_decode.ts";

export interface AutotuneParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<Store, "append">;
  readonly ollama: Pick<OllamaApi, "url">;
  readonly comfy: Pick<ComfyApi, "url" | "models" | "interrupt">;
  readonly arbitration: Arbitration;
  readonly state: () => SweepAround & { readonly autotune: AutotuneState };
  readonly send: (event: SweepEvent | ArbiterEvent) => void;
  readonly onRecorded: (item: HistoryItem) => void;
}

const OPERATION = "autotune-sweep";
const KEEP_ALIVE = "30m";
/** Outcomes of a yield after which ComfyUI has the card to itself, as far as anybody can tell. */
const FREED: ReadonlySet<string> = new Set(["released", "nothing_loaded", "unconfirmed", "unreachable"]);

interface Caller {
  readonly answer: (reply: SweepReply) => void;
  readonly call: CallOptions;
}

export class AutotuneService implements Autotune {
  readonly #parts: AutotuneParts;
  readonly #performer: AutotunePerformer;
  readonly #comfyBench: ComfyBench;
  readonly #callers = new Map<string, Caller>();

  constructor(parts: AutotuneParts) {
    const { clock, ollama, comfy, send } = parts;
    this.#parts = parts;
    const decode = connectDecode({ url: ollama.url, clock });
    this.#comfyBench = new ComfyBench({
      work: connectComfyWork({ url: comfy.url, clock }),
      comfy,
      clock,
      onOwnPrompt: (isOpen) => send({ type: "ownPrompt", atMs: clock.monotonicMs(), isOpen }),
    });
    this.#performer = new AutotunePerformer({
      ...parts,
      prepare: (workload, options) =>
        workload === "ollama" ? this.#prepareOllama(options) : this.#prepareComfy(options),
      bench: {
        ollama: (model, signal) => benchOllama(model, { decode, clock }, signal),
        comfy: (model, signal) => this.#comfyBench.run(model, signal),
      },
      resolve: (id, reply) => {
        this.#callers.get(id)?.answer(reply);
        this.#callers.delete(id);
      },
    });
  }

  current(): ReturnType<Autotune["current"]> {
    const { sweep } = this.#parts.state().autotune;
    const { clock } = this.#parts;
    const offsetMs = clock.wallMs() - clock.monotonicMs();
    return sweep === null ? null : viewSweep(sweep, { nowMs: clock.monotonicMs(), toWall: (ms) => ms + offsetMs });
  }

  admit(request: SweepRequest): void {
    const state = this.#parts.state();
    if (state.autotune.sweep !== null) {
      throw new Failure("busy", `A sweep of ${state.autotune.sweep.plan.request.knob} is under way`, {
        hint: "Wait for it, or cancel it: hyperswap autotune cancel",
      });
    }
    const planned = planSweep("", request, state);
    if ("refusal" in planned) throw failureOf(planned.refusal);
  }

  async sweep(request: SweepRequest, call: CallOptions): Promise<SweepResult> {
    const { clock, send } = this.#parts;
    // One id for both: who follows the run finds its steps, and the other way round.
    const id = call.runId ?? clock.uuid();
    const { promise, resolve } = Promise.withResolvers<SweepReply>();
    const onAbort = () => send({ type: "sweepCancelled", atMs: clock.monotonicMs(), id });
    this.#callers.set(id, { answer: resolve, call });
    call.signal.addEventListener("abort", onAbort, { once: true });
    try {
      send({ type: "sweepAsked", atMs: clock.monotonicMs(), id, request });
      if (call.signal.aborted) onAbort();
      const reply = await promise;
      if (reply.kind === "refused") throw failureOf(reply.refusal);
      return reply.result;
    } finally {
      call.signal.removeEventListener("abort", onAbort);
    }
  }

  perform(effect: SweepEffect): void {
    this.#performer.perform(effect);
  }

  settled(): Promise<void> {
    return this.#performer.settled();
  }

  /** A prompt that ended; true when it was a sweep's. */
  completed(completion: ComfyCompletion, timed: Timed | null): boolean {
    return this.#comfyBench.completed(completion, timed);
  }

  /** Called after each transition: tells the caller where the sweep stands. */
  report(): void {
    const view = this.current();
    if (view === null) return;
    const { phase, done, total, etaMs } = view;
    const share = total === 0 ? null : done / total;
    this.#callers.get(view.plan.id)?.call.progress({ phase, done: share, etaMs });
  }

  /** The model stands on the card before anything is measured. */
  async #prepareOllama({ model, signal }: Parameters<PrepareWorkload>[1]): Promise<string> {
    const { arbitration, state } = this.#parts;
    const { sample } = state().arbiter;
    const chosen = model ?? (sample === null ? null : sweptModel(sample.ollama));
    if (chosen === null) {
      throw new Failure("not_found", "Ollama has no model to measure with", {
        hint: "Install one that generates text, or name one: model",
      });
    }
    const request = { model: chosen, keepAlive: KEEP_ALIVE, prompt: null, operation: OPERATION };
    const { spilled } = await arbitration.switchModel(request, { signal, progress: () => {} });
    if (spilled === true) {
      const message = `${chosen} lies partly outside VRAM: that would measure the bus, not the card`;
      throw new Failure("wont_fit", message, { hint: "Name a smaller model, or free the card first" });
    }
    const resident = state().arbiter.sample?.ollama.resident.find(({ name }) => isSameModel(name, chosen));
    return resident?.name ?? chosen;
  }

  /** Ollama goes, so that ComfyUI loads the whole of its model. */
  async #prepareComfy({ model, signal }: Parameters<PrepareWorkload>[1]): Promise<string> {
    const { arbitration, comfy } = this.#parts;
    const names = await comfy.models("checkpoints", signal);
    const chosen = model ?? names.find((name) => /xl/i.test(name)) ?? names[0];
    if (chosen === undefined) {
      throw new Failure("not_found", "ComfyUI has no checkpoint to measure with", { hint: "Add an SDXL checkpoint" });
    }
    if (!names.includes(chosen)) {
      const near = didYouMean(chosen, names);
      throw new Failure("not_found", `ComfyUI has no checkpoint ${JSON.stringify(chosen)}`, {
        hint: near === null ? `There are ${names.join(", ")}` : `Did you mean ${near}?`,
      });
    }
    const yielded = await arbitration.yieldVram({ models: null, confirm: true, operation: OPERATION }, {
      signal,
      progress: () => {},
    });
    if (!FREED.has(yielded.outcome)) {
      throw new Failure("busy", yielded.message, { hint: "Try again when Ollama is idle" });
    }
    return chosen;
  }
}

function failureOf({ code, message, hint, details }: Extract<SweepReply, { kind: "refused" }>["refusal"]): Failure {
  return new Failure(code, message, {
    ...(hint === null ? {} : { hint }),
    ...(details === null ? {} : { details }),
  });
}
