/**
 * A sweep of one lever against a real workload: what is asked, measured and concluded. `decide/autotune` runs it,
 * `act/perform_autotune` measures, and every step is kept with its raw samples.
 */
import type { Comparison } from "./analytics.ts";
import type { Refusal } from "./arbitration.ts";
import type { Lever, LeverValue } from "./card.ts";
import type { NewHistoryItem } from "./history.ts";
import type { CallOptions } from "./services.ts";
import type { MonotonicMs, WallMs } from "./units.ts";

/** Levers that can be swept: fans make nothing faster. */
export const KNOBS = [
  "power_limit_w",
  "lock_core_mhz",
  "lock_mem_mhz",
  "core_offset_mhz",
  "mem_offset_mhz",
] as const satisfies readonly Lever[];
export type Knob = typeof KNOBS[number];

/** `ollama`: decode tokens a second; `comfy`: sampler iterations a second of a fixed SDXL graph. */
export const WORKLOADS = ["ollama", "comfy"] as const;
export type SweepWorkload = typeof WORKLOADS[number];

export interface SweepRequest {
  readonly knob: Knob;
  readonly workload: SweepWorkload;
  /** The profile whose current setting is the control, and whose other levers hold meanwhile. */
  readonly profile: string;
  /** Null: chosen from what the card allows. */
  readonly start: number | null;
  readonly stop: number | null;
  readonly step: number | null;
  readonly repeats: number;
  readonly applyBest: boolean;
  /** Ollama's model, or ComfyUI's checkpoint; null: one is chosen. */
  readonly model: string | null;
}

/** What one run of the workload gave. */
export interface BenchSample {
  readonly perSecond: number;
  /** Tokens, or sampler steps, that were timed. */
  readonly count: number;
  readonly durationMs: number;
  readonly seed: number;
  /** What is wrong with the output by itself, or null. */
  readonly degenerate: string | null;
  /** Bytes of the finished picture; null for text, and where it can't be had. */
  readonly outputBytes: number | null;
}

export type BenchOutcome =
  | { readonly ok: true; readonly sample: BenchSample }
  /** `isRejected`: it ended well and says nothing of the card (answered from a cache, too short). */
  | { readonly ok: false; readonly isRejected: boolean; readonly message: string };

export type StepRole =
  | "preflight"
  | "warm_up"
  | "control"
  | "unlocked"
  | "candidate"
  | "confirm_control"
  | "confirm_best";

/** `cut_short`: cancelled, or ComfyUI took over; its samples don't count. */
export type StepVerdict = "stable" | "unstable" | "failed" | "refused" | "cut_short";

export interface SweepStep {
  readonly role: StepRole;
  readonly value: LeverValue;
  readonly samples: readonly BenchSample[];
  /** Results that were not believed, in words. */
  readonly rejected: readonly string[];
  readonly verdict: StepVerdict;
  readonly reason: string | null;
  /** Of the samples; null without any. */
  readonly medianPerSecond: number | null;
  /** What the card did meanwhile, by the samples of each second. */
  readonly temperatureMaxC: number | null;
  readonly powerW: number | null;
  readonly graphicsMhz: number | null;
  readonly memoryMhz: number | null;
  readonly durationMs: number;
}

/** How a sweep ended. `flat`: nothing stands out from the current setting; `interrupted`: the service ended before it. */
export const SWEEP_ENDS = [
  "improved",
  "flat",
  "stopped_early",
  "cancelled",
  "refused",
  "failed",
  "interrupted",
] as const;
export type SweepEnd = typeof SWEEP_ENDS[number];

export interface SweepResult {
  readonly end: SweepEnd;
  /** One sentence or two. */
  readonly message: string;
  readonly controlValue: LeverValue;
  readonly controlMedian: number | null;
  /** The fastest stable value, whether it stands out or not; null when none was measured. */
  readonly bestValue: LeverValue | null;
  readonly bestMedian: number | null;
  /** Of the best value against the current setting, by fresh runs of both in turn; null where they weren't made. */
  readonly gainPct: number | null;
  readonly comparison: Comparison | null;
  /** Between the slowest and the fastest value tried, against the control: no gain of anything. */
  readonly spreadPct: number | null;
  /** Why the climb ended before its last value, or null. */
  readonly stoppedBy: string | null;
  readonly pauses: number;
  /** What `apply_best` did, or null. */
  readonly applied: string | null;
}

/** What a sweep is about, once it was checked against the card. */
export interface SweepPlan {
  readonly id: string;
  readonly request: SweepRequest;
  readonly control: LeverValue;
  /** In the order they are tried. */
  readonly candidates: readonly LeverValue[];
  /** The one farthest from what the card reads now. */
  readonly farthest: LeverValue;
}

export interface SweepView {
  readonly plan: SweepPlan;
  readonly model: string | null;
  readonly phase: string;
  readonly isPaused: boolean;
  readonly isCancelling: boolean;
  readonly startedAtMs: WallMs;
  /** Measurements made, and how many there will be at most. */
  readonly done: number;
  readonly total: number;
  readonly etaMs: number | null;
  readonly elapsedMs: number;
  readonly steps: readonly SweepStep[];
}

/** Sweeps of the card. */
export interface Autotune {
  /** The one under way, or null. */
  current(): SweepView | null;
  /** Throws Failure where a sweep can't begin now: what can be told at once. */
  admit(request: SweepRequest): void;
  /** Resolves when the card has been given back. */
  sweep(request: SweepRequest, call: CallOptions): Promise<SweepResult>;
}

/** Answers a sweep's caller, exactly once. */
export type SweepReply =
  | { readonly kind: "done"; readonly result: SweepResult }
  | { readonly kind: "refused"; readonly refusal: Refusal };

export type SweepEvent =
  & { readonly atMs: MonotonicMs }
  & (
    | { readonly type: "sweepAsked"; readonly id: string; readonly request: SweepRequest }
    | { readonly type: "sweepCancelled"; readonly id: string }
    /** The workload stands ready: its model is loaded, or the card is free for ComfyUI. */
    | {
      readonly type: "sweepPrepared";
      readonly generation: number;
      readonly model: string | null;
      readonly refusal: Refusal | null;
    }
    | { readonly type: "benchEnded"; readonly generation: number; readonly outcome: BenchOutcome }
  );

export type SweepEffect =
  | {
    readonly kind: "prepareSweep";
    readonly generation: number;
    readonly workload: SweepWorkload;
    readonly model: string | null;
  }
  | { readonly kind: "bench"; readonly generation: number; readonly workload: SweepWorkload; readonly model: string }
  | { readonly kind: "abortBench"; readonly generation: number; readonly reason: string }
  | {
    readonly kind: "recordSweep";
    readonly event: string;
    readonly reason: string;
    readonly item: Omit<NewHistoryItem, "atMs">;
  }
  | { readonly kind: "answerSweep"; readonly id: string; readonly reply: SweepReply };

const EVENT_TYPES: ReadonlySet<string> = new Set<SweepEvent["type"]>([
  "sweepAsked",
  "sweepCancelled",
  "sweepPrepared",
  "benchEnded",
]);

/** Whether an event of the house's one mailbox concerns a sweep alone. */
export function isSweepEvent<E extends { readonly type: string }>(event: E | SweepEvent): event is SweepEvent {
  return EVENT_TYPES.has(event.type);
}

const EFFECT_KINDS: ReadonlySet<string> = new Set<SweepEffect["kind"]>([
  "prepareSweep",
  "bench",
  "abortBench",
  "recordSweep",
  "answerSweep",
]);

/** Whether an effect is for the sweep's performer. */
export function isSweepEffect<E extends { readonly kind: string }>(effect: E | SweepEffect): effect is SweepEffect {
  return EFFECT_KINDS.has(effect.kind);
}
