/** What is known of the sweep under way; decide/autotune.ts moves it. */
import type {
  BenchSample,
  StepRole,
  SweepEffect,
  SweepPlan,
  SweepReply,
  SweepResult,
  SweepStep,
} from "../model/autotune.ts";
import type { LeverValue } from "../model/card.ts";
import type { ArbiterEvent } from "../model/events.ts";
import type { TuneEvent } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";

/** One value to be measured so many times. */
export interface Task {
  readonly role: StepRole;
  readonly value: LeverValue;
  readonly repeats: number;
}

/** One second of the card while a task was measured. */
export interface Second {
  readonly temperatureC: number | null;
  readonly powerW: number | null;
  readonly graphicsMhz: number | null;
  readonly memoryMhz: number | null;
}

/** A step in the making. */
export interface Current extends Task {
  readonly startedMs: MonotonicMs;
  readonly samples: readonly BenchSample[];
  readonly rejected: readonly string[];
  readonly seconds: readonly Second[];
}

export type Phase =
  /** The workload's model is loaded, or the card is freed for ComfyUI. */
  | { readonly name: "preparing" }
  | { readonly name: "queueing" }
  /** The card's writer is at it. */
  | { readonly name: "setting"; readonly sinceMs: MonotonicMs }
  | { readonly name: "settling"; readonly untilMs: MonotonicMs }
  | { readonly name: "measuring" }
  /** ComfyUI has taken over; everything is as it was. */
  | { readonly name: "paused" }
  /** It is over, and the card goes back to what it was. */
  | { readonly name: "restoring"; readonly sinceMs: MonotonicMs; readonly ending: Ending };

export interface Ending {
  readonly result: SweepResult;
  /** What the caller is told instead of the result, or null. */
  readonly refusal: Extract<SweepReply, { kind: "refused" }>["refusal"] | null;
}

export interface Sweep {
  readonly plan: SweepPlan;
  readonly startedMs: MonotonicMs;
  readonly phase: Phase;
  /** Of the effect that is waited for. */
  readonly generation: number;
  readonly model: string | null;
  readonly current: Current | null;
  readonly steps: readonly SweepStep[];
  readonly isCancelling: boolean;
  readonly stoppedBy: string | null;
  /** False once the card showed that it must not be driven on: nothing is measured any more. */
  readonly mayGoOn: boolean;
  readonly pauses: number;
}

/** Where a sweep begins: its workload is made ready, and nothing is measured yet. */
export function newSweep(plan: SweepPlan, startedMs: MonotonicMs): Sweep {
  return {
    plan,
    startedMs,
    phase: { name: "preparing" },
    generation: 0,
    model: plan.request.model,
    current: null,
    steps: [],
    isCancelling: false,
    stoppedBy: null,
    mayGoOn: true,
    pauses: 0,
  };
}

export interface AutotuneState {
  readonly sweep: Sweep | null;
  readonly nextGeneration: number;
}

export const NO_SWEEP: AutotuneState = { sweep: null, nextGeneration: 1 };

/** What a sweep tells the arbiter and the card, in the same step: it crosses no mailbox to get either. */
export type SweepTell = Extract<ArbiterEvent, { type: "requested" | "cancelled" }> | TuneEvent;

export interface AutotuneStep {
  readonly state: AutotuneState;
  readonly effects: readonly SweepEffect[];
  readonly tells: readonly SweepTell[];
}

/** By which the lane is asked for and given back. */
export function holdIdOf({ plan }: Sweep): string {
  return `${plan.id}-lane`;
}
