/** What every job in the lane may look at, and what a step of one gives back. */
import type { ArbiterEffect } from "../model/events.ts";
import type { Policy } from "../model/policy.ts";
import type { Sample } from "../model/sample.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import type { LoadBook } from "./calibration.ts";
import type { Footprints } from "./footprint.ts";
import type { ResidualHistory } from "./residual.ts";

export interface JobContext {
  readonly policy: Policy;
  /** The newest one. */
  readonly sample: Sample;
  readonly atMs: MonotonicMs;
  readonly footprints: Footprints;
  readonly loads: LoadBook;
  readonly keep: readonly string[];
  readonly residualHistory: ResidualHistory;
  readonly isComfyBusy: boolean;
  /** When ComfyUI's last prompt ended; null while one runs or when none was seen. */
  readonly comfyIdleSinceMs: MonotonicMs | null;
  /** What ComfyUI keeps after a purge (its CUDA context); null before the first one. */
  readonly comfyContextBytes: Bytes | null;
  /** Our own loads for the loser of a hand-off wait until then (SPEC 2.4). */
  readonly loserOutUntilMs: MonotonicMs;
  /** False for automatic work once the mode is no longer auto: it may watch what it began, and asks for nothing more. */
  readonly mayAct: boolean;
  /** ComfyUI has work and its yield waits for the lane: nothing of ours is loaded before that. */
  readonly isYieldWaiting: boolean;
  /** False once everybody who asked for the job has cancelled. */
  readonly isWanted: boolean;
}

export interface JobStep<Job, Result> {
  readonly job: Job;
  readonly effects: readonly ArbiterEffect[];
  /** Null while it goes on. */
  readonly result: Result | null;
}
