/** What the arbiter knows. The lane is part of it: everything that moves VRAM is its one job, everything else waits. */
import type { ArbiterRequest, Cause } from "../model/arbitration.ts";
import { type ArbiterEffect, type Generation, GENERATIONS_PER_JOB, type Step } from "../model/events.ts";
import type { Mode, Policy } from "../model/policy.ts";
import type { Sample } from "../model/sample.ts";
import type { ProcessId } from "../model/tenants.ts";
import type { Bytes, MonotonicMs, WallMs } from "../model/units.ts";
import type { WorkerWatch } from "./comfy_worker.ts";
import { type LoadBook, NO_LOADS } from "./calibration.ts";
import { type CreepWatch, NO_CREEP } from "./creep_back.ts";
import type { EndRunnerJob } from "./end_runner_job.ts";
import type { Footprints } from "./footprint.ts";
import type { SeenBytes } from "./footprint_watch.ts";
import type { HoldJob } from "./hold_job.ts";
import type { MarginWatch } from "./margin.ts";
import type { OwnPrompt } from "./own_prompts.ts";
import { NO_PARTIALS, type PartialBook } from "./partial_load.ts";
import type { PurgeJob } from "./purge_job.ts";
import type { ReloadJob, ReloadOrder } from "./reload_job.ts";
import { type ChildBook, NO_CHILDREN } from "./refusals.ts";
import type { RequestVramJob } from "./request_vram_job.ts";
import { NO_HISTORY, type ResidualHistory } from "./residual.ts";
import { NO_SPILLS, type SpillBook } from "./spill.ts";
import type { Stuck } from "./stuck.ts";
import type { SwitchJob } from "./switch_job.ts";
import type { YieldJob } from "./yield_job.ts";

export type LaneJob = YieldJob | PurgeJob | SwitchJob | ReloadJob | EndRunnerJob | RequestVramJob | HoldJob;

export type ArbiterStep = Step<ArbiterState, ArbiterEffect>;

/** Somebody who wants the lane, with the request it answers (automatic work answers none). */
export type Waiting =
  | {
    readonly kind: "request";
    readonly request: ArbiterRequest;
    readonly operation: string;
    readonly sinceMs: MonotonicMs;
  }
  | {
    readonly kind: "auto";
    readonly job: "yield" | "purge";
    readonly cause: Cause;
    readonly sinceMs: MonotonicMs;
    /** Taken when it was queued, since the watch on the winner's growth already names its record. */
    readonly generation: Generation;
  }
  | {
    readonly kind: "auto";
    readonly job: "reload";
    readonly cause: Cause;
    readonly sinceMs: MonotonicMs;
    readonly generation: Generation;
    readonly order: Omit<ReloadOrder, "generation" | "cause">;
  };

/** The job in the lane, and which requests its result answers. */
export interface Holder {
  readonly job: LaneJob;
  /** Who waits for its answer; empty for automatic work, and once everybody has cancelled. */
  readonly requestIds: readonly string[];
}

/** A runner that held on when its yield ended: its release is still recorded when it comes. */
export interface Watched {
  readonly process: ProcessId;
  readonly model: string | null;
  readonly key: string;
  readonly sinceMs: MonotonicMs;
  /** It was loading: the unload must be asked for once it is listed. */
  readonly needsUnload: boolean;
  /** Nobody asked for its yield: it is unloaded only while the mode is auto and ComfyUI has work. */
  readonly isAutomatic: boolean;
  /** How often it was asked since its yield ended, and when it was last asked at all. */
  readonly asks: number;
  readonly askedMs: MonotonicMs;
}

export interface ComfyNews {
  /** Running + pending by the newest of frame and sample; null before the first. */
  readonly queueRemaining: number | null;
  readonly idleSinceMs: MonotonicMs | null;
  /** The idle stretch (its start) in which a purge was tried already. */
  readonly purgeTriedForMs: MonotonicMs | null;
  /** What it kept after the last confirmed purge: its CUDA context. Null before, and after a restart. */
  readonly context: { readonly process: ProcessId; readonly bytes: Bytes } | null;
  /** The most it was seen to hold in this stretch of work. */
  readonly peakBytes: Bytes | null;
  /** Its hand-off came late in this stretch: it may have loaded half a model, and its peak says nothing of its need. */
  readonly isCramped: boolean;
}

export interface ArbiterState {
  readonly policy: Policy;
  readonly mode: Mode;
  readonly modeUntilMs: WallMs | null;
  readonly keep: readonly string[];
  /** Null before the first sample: nothing is decided then. */
  readonly sample: Sample | null;
  readonly residualHistory: ResidualHistory;
  readonly comfy: ComfyNews;
  /** Queued in ComfyUI by ourselves; null: nothing is. */
  readonly ownPrompt: OwnPrompt | null;
  readonly holder: Holder | null;
  readonly waiting: readonly Waiting[];
  readonly margin: MarginWatch | null;
  readonly watched: readonly Watched[];
  /** Reported as a fault, and not gone since. */
  readonly stuck: readonly Stuck[];
  readonly creep: CreepWatch;
  readonly spills: SpillBook;
  readonly children: ChildBook;
  readonly partials: PartialBook;
  /** The prompt that runs, and since when nothing was seen of that; null: none runs, or it can't be told. */
  readonly worker: WorkerWatch | null;
  /** A purge that ended while its `/free` was still being prepared: it may have gone out after all. */
  readonly lateFree: { readonly generation: Generation; readonly key: string } | null;
  readonly footprints: Footprints;
  /** Times that a need was too small, by footprint. */
  readonly misses: Readonly<Record<string, number>>;
  readonly seenBytes: SeenBytes;
  /** Bandwidths that loads are judged by. */
  readonly loads: LoadBook;
  readonly nextGeneration: Generation;
  readonly isBarrierOpen: boolean;
  /** The driver stopped answering: not asked again before a sample has read it. */
  readonly isBarrierLost: boolean;
  /** Our own loads for the loser of a hand-off wait until then. */
  readonly loserOutUntilMs: MonotonicMs;
  readonly handOffs: number;
  readonly lateHandOffs: number;
  readonly lastMarginMs: number | null;
  readonly isStopped: boolean;
}

/** What an earlier service had learned. */
export interface Learned {
  readonly footprints?: Footprints;
  readonly workflows?: PartialBook["runs"];
  readonly loads?: LoadBook;
}

export function initialArbiter(
  policy: Policy,
  { footprints = {}, workflows = {}, loads = NO_LOADS }: Learned = {},
): ArbiterState {
  return {
    policy,
    mode: policy.mode,
    modeUntilMs: null,
    keep: policy.yield.keep,
    sample: null,
    residualHistory: NO_HISTORY,
    comfy: {
      queueRemaining: null,
      idleSinceMs: null,
      purgeTriedForMs: null,
      context: null,
      peakBytes: null,
      isCramped: false,
    },
    ownPrompt: null,
    holder: null,
    waiting: [],
    margin: null,
    watched: [],
    stuck: [],
    creep: NO_CREEP,
    spills: NO_SPILLS,
    children: NO_CHILDREN,
    partials: { ...NO_PARTIALS, runs: workflows },
    worker: null,
    lateFree: null,
    footprints,
    misses: {},
    seenBytes: {},
    loads,
    nextGeneration: GENERATIONS_PER_JOB,
    isBarrierOpen: false,
    isBarrierLost: false,
    loserOutUntilMs: 0,
    handOffs: 0,
    lateHandOffs: 0,
    lastMarginMs: null,
    isStopped: false,
  };
}
