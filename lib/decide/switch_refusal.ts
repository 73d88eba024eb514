/** How a switch ends without its model: at once, or once it is seen who holds the rest. */
import type { Refusal } from "../model/arbitration.ts";
import type { ArbiterEffect } from "../model/events.ts";
import type { JobContext } from "./job.ts";
import type { SwitchJob, SwitchStep } from "./switch_job.ts";
import { cantFit } from "./switch_plan.ts";
import { generationOf } from "./switch_settle.ts";

/** A sample comes each second; without one, the last has to do. */
export const EXPLAIN_MS = 1_500;

export function refuse(job: SwitchJob, why: Refusal, effects: readonly ArbiterEffect[] = []): SwitchStep {
  return { job, effects, result: { kind: "refused", refusal: why } };
}

/** Something of ours has come or gone since it began. */
export function hasMoved({ yielded, purged, isRetry }: SwitchJob): boolean {
  return yielded !== null || purged !== null || isRetry;
}

/** The last sample may be older than what has just died or gone: who holds the rest is said by the next one. */
export function explain(job: SwitchJob, { atMs }: JobContext): SwitchStep {
  const next: SwitchJob = { ...job, substep: job.substep + 1, step: { name: "explain", sinceMs: atMs } };
  const reason = "it can't fit: see who holds the rest";
  return {
    job: next,
    effects: [{ kind: "wakeAt", generation: generationOf(next), atMs: atMs + EXPLAIN_MS, reason }],
    result: null,
  };
}

export function unfit(job: SwitchJob, context: JobContext): Refusal {
  return cantFit({ ...context, model: job.request.model, freeBytes: job.freeBytes });
}
