/** ComfyUI's part of the house: it is watched, and whoever has to do with its prompts is told of them. */
import type { ArbiterEvent } from "../model/events.ts";
import type { Clock, ComfyCompletion, Log } from "../model/ports.ts";
import { type ComfyActivity, type ComfyWatch, watchComfy } from "../sample/comfy_watch.ts";
import type { TimedSteps } from "../sample/step_rate.ts";
import type { ComfyClient } from "../upstream/comfy.ts";
import type { AutotuneService } from "./autotune.ts";
import type { BenchmarkService } from "./benchmark.ts";
import type { EvidenceKeeper } from "./evidence.ts";

export interface ComfyKeeperParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly comfy: ComfyClient;
  readonly send: (event: ArbiterEvent) => void;
  readonly benchmark: Pick<BenchmarkService, "comfyHeard">;
  readonly autotune: Pick<AutotuneService, "completed">;
  readonly evidence: Pick<EvidenceKeeper, "completed">;
  /** Told the model files of a prompt that ended: what was used is worth keeping warm. */
  readonly noteUse: (files: readonly string[]) => void;
}

export class ComfyKeeper {
  readonly watch: ComfyWatch;
  readonly #parts: ComfyKeeperParts;

  constructor(parts: ComfyKeeperParts) {
    this.#parts = parts;
    this.watch = watchComfy({
      api: parts.comfy,
      clock: parts.clock,
      onActivity: (activity) => this.#heard(activity),
      onCompleted: (completion, timed) => this.#ended(completion, timed),
    });
  }

  stop(): void {
    this.watch.stop();
  }

  /** The arbiter first: the race of a hand-off is run in milliseconds. */
  #heard({ atMs, queueRemaining }: ComfyActivity): void {
    this.#parts.send({ type: "comfyActivity", atMs, queueRemaining });
    this.#parts.benchmark.comfyHeard(queueRemaining);
  }

  #ended(completion: ComfyCompletion, timed: TimedSteps | null): void {
    const { clock, log, send, autotune, evidence, noteUse } = this.#parts;
    const { promptId, status, files = [] } = completion;
    log.debug("A prompt ended", { prompt: promptId, status });
    // A sweep's own prompts are no ordinary use.
    if (autotune.completed(completion, timed)) return;
    evidence.completed(completion, timed, clock.wallMs());
    const stepMs = timed === null ? null : 1_000 / timed.perSecond;
    const workflow = workflowOf(completion);
    send({ type: "promptEnded", atMs: clock.monotonicMs(), promptId, status, workflow, stepMs });
    noteUse(files);
  }
}

/** By its model files, and its size where the graph says so: what is like it takes as much and as long. */
function workflowOf({ files = [], work }: ComfyCompletion): string | null {
  if (files.length === 0) return null;
  return [[...new Set(files)].sort().join(" + "), ...(work === undefined ? [] : [work.size])].join(", ");
}
