/** One run of the `comfy` workload: how fast ComfyUI samples a fixed SDXL graph. */
import type { BenchOutcome } from "../model/autotune.ts";
import { messageOf } from "../model/failure.ts";
import type { Clock, ComfyApi, ComfyCompletion } from "../model/ports.ts";
import type { ComfyGraph, ComfyWorkApi } from "../upstream/comfy_work.ts";

const STEPS = 20;
const SIDE = 1_024;
/** A cold checkpoint and twenty steps; a server that says nothing for longer has lost the prompt. */
const LIMIT_MS = 180_000;
/** How long an interrupted prompt is waited for before it is left to itself. */
const INTERRUPT_MS = 5_000;

/** Steps as they were timed from the prompt's progress. */
export interface Timed {
  readonly perSecond: number;
  readonly steps: number;
  readonly durationMs: number;
}

export interface ComfyBenchParts {
  readonly work: ComfyWorkApi;
  readonly comfy: Pick<ComfyApi, "interrupt">;
  readonly clock: Clock;
  /** Told before a prompt of ours is posted, and once it is out of the queue. */
  readonly onOwnPrompt: (isOpen: boolean) => void;
}

interface Waiting {
  readonly ids: Set<string>;
  readonly ended: PromiseWithResolvers<{ readonly completion: ComfyCompletion; readonly timed: Timed | null }>;
}

/** Posts the graph and hears of its end from whoever watches ComfyUI anyway. One run at a time. */
export class ComfyBench {
  readonly #parts: ComfyBenchParts;
  #waiting: Waiting | null = null;

  constructor(parts: ComfyBenchParts) {
    this.#parts = parts;
  }

  /** A prompt that ended; true when it was ours, and nobody else's business. */
  completed(completion: ComfyCompletion, timed: Timed | null): boolean {
    if (this.#waiting?.ids.has(completion.promptId) !== true) return false;
    this.#waiting.ended.resolve({ completion, timed });
    return true;
  }

  /** Rejects only when the signal aborts, once the prompt is out of the queue. */
  async run(model: string, signal: AbortSignal): Promise<BenchOutcome> {
    const { work, clock, onOwnPrompt } = this.#parts;
    const promptId = clock.uuid();
    // Any seed that a double holds exactly: a fixed one would be answered from the cache in a millisecond.
    const seed = Math.floor(clock.random() * 2 ** 48);
    const waiting: Waiting = { ids: new Set([promptId]), ended: Promise.withResolvers() };
    this.#waiting = waiting;
    onOwnPrompt(true);
    try {
      waiting.ids.add(await work.post({ promptId, graph: graphOf(model, seed) }, signal));
      const { completion, timed } = await withSignal(waiting.ended.promise, clock.deadline(LIMIT_MS, signal));
      return await this.#outcome(completion, { timed, seed, signal });
    } catch (error) {
      await this.#interrupt(waiting);
      signal.throwIfAborted();
      return { ok: false, isRejected: false, message: messageOf(error) };
    } finally {
      this.#waiting = null;
      onOwnPrompt(false);
    }
  }

  async #outcome(
    completion: ComfyCompletion,
    { timed, seed, signal }: { readonly timed: Timed | null; readonly seed: number; readonly signal: AbortSignal },
  ): Promise<BenchOutcome> {
    if (completion.status !== "success") {
      return { ok: false, isRejected: false, message: completion.error ?? `The prompt ended as ${completion.status}` };
    }
    if (completion.cached?.sampler === true || timed === null) {
      const message = timed === null ? "No steps were seen of the prompt" : "ComfyUI answered from its cache";
      return { ok: false, isRejected: true, message };
    }
    const { image } = completion;
    const outputBytes = image === undefined ? null : await this.#parts.work.pictureBytes(image, signal);
    const degenerate = image === undefined ? "The prompt made no picture" : null;
    const { perSecond, steps: count, durationMs } = timed;
    return { ok: true, sample: { perSecond, count, durationMs, seed, degenerate, outputBytes } };
  }

  /** Somebody wants the card: our prompt leaves, and is waited for as long as that takes at most. */
  async #interrupt({ ids, ended }: Waiting): Promise<void> {
    const { comfy, clock } = this.#parts;
    const deadline = clock.deadline(INTERRUPT_MS);
    try {
      for (const id of ids) await comfy.interrupt(id, deadline);
      await withSignal(ended.promise, deadline);
    } catch {
      // It is gone, or it ends by itself: twenty steps are the most it can take.
    }
  }
}

function graphOf(model: string, seed: number): ComfyGraph {
  const node = (class_type: string, inputs: object) => ({ class_type, inputs });
  return {
    "1": node("CheckpointLoaderSimple", { ckpt_name: model }),
    "2": node("CLIPTextEncode", { clip: ["1", 1], text: "a lighthouse on a rocky coast at dawn, detailed" }),
    "3": node("CLIPTextEncode", { clip: ["1", 1], text: "blurry" }),
    "4": node("EmptyLatentImage", { width: SIDE, height: SIDE, batch_size: 1 }),
    "5": node("KSampler", {
      model: ["1", 0],
      seed,
      steps: STEPS,
      cfg: 7,
      sampler_name: "euler",
      scheduler: "normal",
      positive: ["2", 0],
      negative: ["3", 0],
      latent_image: ["4", 0],
      denoise: 1,
    }),
    "6": node("VAEDecode", { samples: ["5", 0], vae: ["1", 2] }),
    "7": node("PreviewImage", { images: ["6", 0] }),
  };
}

function withSignal<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener("abort", onAbort));
}
