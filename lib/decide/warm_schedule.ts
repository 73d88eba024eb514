/** When to warm by itself: once after the start, and while both tenants are idle. Pure. */
import type { Mode } from "../model/policy.ts";
import type { Sample } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";

export interface WarmSchedule {
  readonly atStart: boolean;
  readonly whenIdle: boolean;
  /** How long nobody has worked before it counts as idle. */
  readonly idleMs: number;
}

/** After an automatic warm the next one looks again this much later: what left memory meanwhile is little. */
const AGAIN_MS = 600_000;

export interface ScheduleState {
  readonly isStarted: boolean;
  readonly busyAtMs: MonotonicMs | null;
  readonly endedAtMs: MonotonicMs | null;
  /** What the automatic warm under way was started for; null while none is. */
  readonly running: "start" | "idle" | null;
}

export const INITIAL_SCHEDULE: ScheduleState = { isStarted: false, busyAtMs: null, endedAtMs: null, running: null };

export interface ScheduleFacts {
  readonly atMs: MonotonicMs;
  readonly mode: Mode;
  /** A catalogue and a sample are there. */
  readonly isReady: boolean;
  /** A tenant computes or loads, or VRAM is being moved. */
  readonly isBusy: boolean;
  /** Somebody's warm is under way. */
  readonly isWarming: boolean;
}

export type ScheduleMove =
  | { readonly kind: "start"; readonly trigger: "start" | "idle"; readonly reason: string }
  | { readonly kind: "stop"; readonly reason: string };

export interface ScheduleStep {
  readonly state: ScheduleState;
  readonly move: ScheduleMove | null;
}

/** One second. `observe` and `paused` touch nothing, so nothing is warmed by itself then. */
export function stepSchedule(state: ScheduleState, facts: ScheduleFacts, policy: WarmSchedule): ScheduleStep {
  const seen = facts.isBusy || state.busyAtMs === null ? { ...state, busyAtMs: facts.atMs } : state;
  if (seen.running !== null) {
    // A start's warm is what was asked for; one for want of other work makes room as soon as there is some.
    const isUnwanted = facts.mode !== "auto" || seen.running === "idle" && facts.isBusy;
    return {
      state: seen,
      move: isUnwanted ? { kind: "stop", reason: "a tenant has work, or automatic work is off" } : null,
    };
  }
  if (!facts.isReady || facts.mode !== "auto" || facts.isWarming) return { state: seen, move: null };
  if (policy.atStart && !seen.isStarted) return begin(seen, "start", "the service has started");
  const idleMs = facts.atMs - (seen.busyAtMs ?? facts.atMs);
  const isDue = seen.endedAtMs === null || facts.atMs - seen.endedAtMs >= AGAIN_MS;
  if (policy.whenIdle && idleMs >= policy.idleMs && isDue) return begin(seen, "idle", "both tenants are idle");
  return { state: seen, move: null };
}

/** An automatic warm has ended, or there was nothing to warm. */
export function endSchedule(state: ScheduleState, atMs: MonotonicMs): ScheduleState {
  return { ...state, running: null, endedAtMs: atMs };
}

function begin(state: ScheduleState, trigger: "start" | "idle", reason: string): ScheduleStep {
  return { state: { ...state, isStarted: true, running: trigger }, move: { kind: "start", trigger, reason } };
}

/** A card that works is somebody's; what the desktop takes stays far below. */
const WORKING_PCT = 30;

/** Whether a tenant computes or loads: what it does with the disk or the card comes first. */
export function isTenantBusy({ gpu, comfy, ollama }: Sample): boolean {
  const isComputing = gpu.available && (gpu.reading.gpuUtilPct ?? 0) >= WORKING_PCT;
  const isQueued = comfy.executing === true || (comfy.queueRemaining ?? 0) > 0;
  // A runner is listed once it has loaded.
  return isComputing || isQueued || ollama.runners.length > ollama.resident.length;
}
