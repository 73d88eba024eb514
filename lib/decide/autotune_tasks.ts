/** What a sweep measures next, by what it has measured so far. */
import type { SweepPlan, SweepStep } from "../model/autotune.ts";
import type { Task } from "./autotune_state.ts";

/** Fewest runs a side that a comparison at 1 % can be made of. */
const LEAST_CONFIRMATIONS = 5;

type Progress = {
  readonly plan: SweepPlan;
  readonly steps: readonly SweepStep[];
  readonly stoppedBy: string | null;
  readonly mayGoOn: boolean;
};

/** Null: nothing more is to be measured. */
export function nextTask(progress: Progress): Task | null {
  const { plan, stoppedBy, mayGoOn } = progress;
  const { repeats } = plan.request;
  if (!mayGoOn) return null;
  const done = progress.steps.filter(({ verdict }) => verdict !== "cut_short");
  const has = (role: Task["role"]) => done.some((step) => step.role === role);
  // A lock shows only under load; everything else is read back.
  if (!has("preflight")) return { role: "preflight", value: plan.farthest, repeats: isLock(plan) ? 1 : 0 };
  if (!has("warm_up")) return { role: "warm_up", value: plan.control, repeats: 1 };
  if (!has("control")) return { role: "control", value: plan.control, repeats };
  if (isLock(plan) && plan.control !== "stock" && !has("unlocked")) {
    return { role: "unlocked", value: "stock", repeats };
  }
  const tried = new Set(done.filter(({ role }) => role === "candidate").map(({ value }) => value));
  const next = stoppedBy === null ? plan.candidates.find((value) => !tried.has(value)) : undefined;
  return next === undefined ? nextConfirmation(progress, done) : { role: "candidate", value: next, repeats };
}

/**
 * The fastest value against the current one, by fresh runs of both in turn (ABBA, so that warming up favours neither):
 * the samples that chose it would flatter it.
 */
function nextConfirmation({ plan, steps }: Progress, done: readonly SweepStep[]): Task | null {
  const best = fastest(steps);
  const control = controlOf(steps);
  if (best === null || control === null || best.median <= control) return null;
  const made = done.filter(({ role }) => role === "confirm_control" || role === "confirm_best").length;
  if (made >= 2 * confirmations(plan)) return null;
  const isControl = made % 4 === 0 || made % 4 === 3;
  return isControl
    ? { role: "confirm_control", value: plan.control, repeats: 1 }
    : { role: "confirm_best", value: best.value, repeats: 1 };
}

export function confirmations({ request }: SweepPlan): number {
  return Math.max(LEAST_CONFIRMATIONS, request.repeats);
}

/** The stable value with the highest median, the control left out. */
export function fastest(
  steps: readonly SweepStep[],
): { readonly value: SweepStep["value"]; readonly median: number } | null {
  let best: { readonly value: SweepStep["value"]; readonly median: number } | null = null;
  for (const { role, verdict, value, medianPerSecond: median } of steps) {
    if ((role !== "candidate" && role !== "unlocked") || verdict !== "stable" || median === null) continue;
    if (best === null || median > best.median) best = { value, median };
  }
  return best;
}

/** The median at the current setting; null before it was measured. */
export function controlOf(steps: readonly SweepStep[]): number | null {
  return steps.find(({ role, verdict }) => role === "control" && verdict === "stable")?.medianPerSecond ?? null;
}

export function isLock({ request: { knob } }: SweepPlan): boolean {
  return knob === "lock_core_mhz" || knob === "lock_mem_mhz";
}

/** Measurements that a whole sweep takes; the confirmation only where something is faster. */
export function plannedRuns(plan: SweepPlan): number {
  const values = plan.candidates.length + 1 + (isLock(plan) && plan.control !== "stock" ? 1 : 0);
  return (isLock(plan) ? 1 : 0) + 1 + values * plan.request.repeats + 2 * confirmations(plan);
}
