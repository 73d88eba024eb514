/** Round trips between models, measured (SPEC 2.8): the vocabulary between the operation and the service. */
import type { Distribution } from "./analytics.ts";
import type { LoadClass } from "./arbitration.ts";

export interface BenchmarkRequest {
  /** Round trips; one model alone is unloaded and reloaded so often. */
  readonly iterations: number;
  /** One or two installed models; null = the resident one and another that is installed. */
  readonly models: readonly string[] | null;
  readonly operation: string;
}

/** One transition: what was resident goes, confirmed, and the other one comes. */
export interface BenchmarkLeg {
  /** From 1. */
  readonly iteration: number;
  /** The model that went; null when there was nothing to unload. */
  readonly from: string | null;
  readonly to: string;
  /** From asking for the unload until the model was ready; what it answered afterwards doesn't count. */
  readonly transitionMs: number;
  /** Until the driver had the memory back; null where it couldn't confirm it. */
  readonly unloadMs: number | null;
  readonly loadMs: number | null;
  readonly tokensPerSecond: number | null;
  readonly residencyBeforePct: number | null;
  readonly class: LoadClass;
  readonly classBasis: string;
  readonly bytesPerSecond: number | null;
  readonly spilled: boolean | null;
  readonly verdict: string;
}

/** All transitions to one model. */
export interface BenchmarkSummary {
  readonly to: string;
  /** Null without any. */
  readonly transitionMs: Distribution | null;
  readonly loadMs: Distribution | null;
  readonly tokensPerSecond: Distribution | null;
  readonly residencyBeforePct: Distribution | null;
  readonly classes: Readonly<Record<string, number>>;
}

export interface BenchmarkResult {
  readonly models: readonly string[];
  readonly iterationsAsked: number;
  /** Whole round trips. */
  readonly iterationsDone: number;
  /** ComfyUI got work meanwhile and went first: what was measured before that stands. */
  readonly hasGivenWay: boolean;
  readonly legs: readonly BenchmarkLeg[];
  readonly summaries: readonly BenchmarkSummary[];
  /** All transitions together. */
  readonly transitionMs: Distribution | null;
  readonly message: string;
}
