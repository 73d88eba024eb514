/** The sweep under way, as every door shows it. */
import type { SweepView } from "../model/autotune.ts";
import type { MonotonicMs, WallMs } from "../model/units.ts";
import { namedValue } from "./autotune_result.ts";
import type { AutotuneState, Sweep } from "./autotune_state.ts";
import { plannedRuns } from "./autotune_tasks.ts";

export function viewSweep(
  sweep: Sweep,
  { nowMs, toWall }: { readonly nowMs: MonotonicMs; readonly toWall: (ms: MonotonicMs) => WallMs },
): SweepView {
  const made = sweep.steps.reduce((sum, { samples }) => sum + samples.length, sweep.current?.samples.length ?? 0);
  const total = Math.max(made, plannedRuns(sweep.plan));
  const spentMs = sweep.steps.reduce((sum, { durationMs }) => sum + durationMs, 0);
  const measured = sweep.steps.reduce((sum, { samples }) => sum + samples.length, 0);
  return {
    plan: sweep.plan,
    model: sweep.model,
    phase: phaseOf(sweep),
    isPaused: sweep.phase.name === "paused",
    isCancelling: sweep.isCancelling,
    startedAtMs: toWall(sweep.startedMs),
    done: made,
    total,
    etaMs: measured === 0 || sweep.phase.name === "paused" ? null : Math.max(0, total - made) * spentMs / measured,
    steps: sweep.steps,
    elapsedMs: nowMs - sweep.startedMs,
  };
}

/** Where it stands, in words. */
export function phaseOf(sweep: Sweep): string {
  const { current, phase } = sweep;
  const value = current === null ? "" : `${namedValue(sweep, current.value)} (${current.role.replace("_", " ")})`;
  switch (phase.name) {
    case "preparing":
      return "making the workload ready";
    case "queueing":
      return "waiting for the lane";
    case "setting":
      return `setting ${value}`;
    case "settling":
      return `letting ${value} settle`;
    case "measuring":
      return `measuring ${value}, run ${(current?.samples.length ?? 0) + 1} of ${Math.max(1, current?.repeats ?? 1)}`;
    case "paused":
      return "paused: ComfyUI has work";
    case "restoring":
      return "giving the card back";
  }
}

/** The sweep in one line. */
export function describeSweep({ sweep }: AutotuneState): string {
  return sweep === null ? "no sweep" : `sweep of ${sweep.plan.request.knob}: ${phaseOf(sweep)}`;
}
