/** The line at the gate: interactive before batch, and by arrival; whoever has waited for long enough counts as interactive. */
import { type AdmissionRequest, PRIORITIES, type Priority } from "../model/admission.ts";
import type { GatePolicy } from "../model/gate.ts";
import { isSameModel } from "../model/model_names.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { GateState, Waiter } from "./gate_state.ts";

/** The header's word, then what is configured for the path or the model, else interactive. */
export function priorityOf({ priority, path, model }: AdmissionRequest, { batch }: GatePolicy): Priority {
  const said = PRIORITIES.find((name) => name === priority?.trim().toLowerCase());
  if (said !== undefined) return said;
  const isBatch = batch.some((entry) =>
    entry.startsWith("/") ? entry === path : model !== null && isSameModel(entry, model)
  );
  return isBatch ? "batch" : "interactive";
}

/** 0 goes before 1. */
export function classOf({ priority, sinceMs }: Waiter, { ageMs }: GatePolicy, atMs: MonotonicMs): 0 | 1 {
  return priority === "interactive" || atMs - sinceMs >= ageMs ? 0 : 1;
}

/** Everybody who waits, in the order in which they go. */
export function lineOf({ waiting, policy }: GateState, atMs: MonotonicMs): readonly Waiter[] {
  // The sort is stable: of one class the first to arrive goes first.
  return [...waiting].sort((a, b) => classOf(a, policy, atMs) - classOf(b, policy, atMs));
}

/** When to come back, s: as long as the last few were held. */
export function retryAfterS({ holdsMs }: Pick<GateState, "holdsMs">): number {
  const DEFAULT_S = 5;
  const MOST_S = 60;
  if (holdsMs.length === 0) return DEFAULT_S;
  const meanMs = holdsMs.reduce((sum, ms) => sum + ms, 0) / holdsMs.length;
  return Math.min(MOST_S, Math.max(1, Math.ceil(meanMs / 1_000)));
}
