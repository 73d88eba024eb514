/** How a step of a sweep ends, and how the sweep does: the card is given back on every way out. */
import type { Refusal } from "../model/arbitration.ts";
import type { StepVerdict, SweepEffect, SweepEnd, SweepResult } from "../model/autotune.ts";
import type { MonotonicMs } from "../model/units.ts";
import { closeStep } from "./autotune_judge.ts";
import { conclude, namedValue, resultFields, startFields, stepFields } from "./autotune_result.ts";
import {
  type AutotuneState,
  type AutotuneStep,
  type Ending,
  holdIdOf,
  type Sweep,
  type SweepTell,
} from "./autotune_state.ts";
import type { TuningState } from "./card_state.ts";
import { allProfiles } from "./profiles.ts";

/** How long the card may take to be what it was before the answer says that it didn't. */
const RESTORE_LIMIT_MS = 10_000;

export function silent(state: AutotuneState): AutotuneStep {
  return { state, effects: [], tells: [] };
}

export function moved(
  state: AutotuneState,
  sweep: Sweep,
  { effects = [], tells = [] }: {
    readonly effects?: readonly SweepEffect[];
    readonly tells?: readonly SweepTell[];
  },
): AutotuneStep {
  return { state: { ...state, sweep }, effects, tells };
}

/** Keeps the step, and says whether the climb goes on. What comes next follows from `queueing`: the lane is held. */
export function finishStep(
  state: AutotuneState,
  sweep: Sweep,
  { verdict, reason, atMs }: {
    readonly verdict: StepVerdict;
    readonly reason: string | null;
    readonly atMs: MonotonicMs;
  },
): AutotuneStep {
  const { current } = sweep;
  if (current === null) return moved(state, { ...sweep, phase: { name: "queueing" } }, {});
  const step = closeStep(current, { verdict, reason, atMs });
  const next: Sweep = { ...sweep, current: null, steps: [...sweep.steps, step], phase: { name: "queueing" } };
  const told: SweepEffect = {
    kind: "recordSweep",
    event: `Sweep of ${sweep.plan.request.knob}: ${namedValue(sweep, step.value)} is ${verdict}`,
    reason: reason ?? `median ${step.medianPerSecond?.toFixed(2) ?? "not measured"} a second`,
    item: { kind: "autotune", fields: stepFields(sweep, step) },
  };
  const ended = afterStep(state, next, { verdict, reason, role: current.role, atMs });
  return { ...ended, effects: [told, ...ended.effects] };
}

function afterStep(
  state: AutotuneState,
  sweep: Sweep,
  { verdict, reason, role, atMs }: {
    readonly verdict: StepVerdict;
    readonly reason: string | null;
    readonly role: string;
    readonly atMs: MonotonicMs;
  },
): AutotuneStep {
  if (verdict === "stable" || verdict === "cut_short") return moved(state, sweep, {});
  const { knob } = sweep.plan.request;
  if (role === "preflight") {
    const message = `Cannot sweep ${knob}: ${reason ?? "the card didn't take it"}`;
    const refusal: Refusal = {
      code: "unavailable",
      message,
      hint: "hyperswap overclock shows what works",
      details: null,
    };
    return endRefused(state, sweep, { refusal, atMs });
  }
  if (role === "candidate") {
    const at = sweep.steps.at(-1);
    const stoppedBy = `${at === undefined ? knob : namedValue(sweep, at.value)} is ${verdict}: ${
      reason ?? "no reason"
    }`;
    return moved(state, { ...sweep, stoppedBy }, {});
  }
  if (role === "confirm_best" || role === "confirm_control") {
    const stoppedBy = `${verdict} in the confirmation: ${reason ?? "no reason"}`;
    return moved(state, { ...sweep, stoppedBy: sweep.stoppedBy ?? stoppedBy, mayGoOn: false }, {});
  }
  // Without its control there is nothing to compare with.
  return end(state, sweep, {
    kind: "failed",
    why: `The current setting can't be measured: ${reason ?? verdict}`,
    atMs,
  });
}

/** The card must not be driven on: the step in flight is dropped, and nothing more is measured. */
export function halt(
  state: AutotuneState,
  sweep: Sweep,
  { why, atMs }: { readonly why: string; readonly atMs: MonotonicMs },
): AutotuneStep {
  const abort = abortOf(sweep, why);
  const closed = finishStep(state, sweep, { verdict: "unstable", reason: why, atMs });
  const { sweep: left } = closed.state;
  if (left === null || left.phase.name === "restoring") return { ...closed, effects: [...abort, ...closed.effects] };
  const stoppedBy = left.stoppedBy ?? why;
  const ended = end(closed.state, { ...left, stoppedBy, mayGoOn: false }, { kind: null, why: "", atMs });
  return {
    ...ended,
    effects: [...abort, ...closed.effects, ...ended.effects],
    tells: [...closed.tells, ...ended.tells],
  };
}

/** What is being measured is left; nothing where nothing is. */
function abortOf({ phase, generation }: Sweep, reason: string): readonly SweepEffect[] {
  return phase.name === "measuring" ? [{ kind: "abortBench", generation, reason }] : [];
}

/** The step in flight is kept as cut short, and the sweep ends. */
export function cutShort(
  state: AutotuneState,
  sweep: Sweep,
  ending: { readonly kind: SweepEnd; readonly why: string; readonly atMs: MonotonicMs },
): AutotuneStep {
  const abort = abortOf(sweep, ending.why);
  const closed = finishStep(state, sweep, { verdict: "cut_short", reason: ending.why, atMs: ending.atMs });
  const { sweep: left } = closed.state;
  if (left === null) return closed;
  const ended = end(closed.state, left, ending);
  return {
    ...ended,
    effects: [...abort, ...closed.effects, ...ended.effects],
    tells: [...closed.tells, ...ended.tells],
  };
}

/** `kind` null: everything was tried. The card and the lane are given back; the answer waits for the card. */
export function end(
  state: AutotuneState,
  sweep: Sweep,
  { kind, why, atMs }: { readonly kind: SweepEnd | null; readonly why: string; readonly atMs: MonotonicMs },
): AutotuneStep {
  const result = conclude(sweep, kind === null ? null : { kind, why });
  const refusal: Refusal | null = kind === "cancelled"
    ? {
      code: "cancelled",
      message: `Sweep of ${sweep.plan.request.knob}: ${why}`,
      hint: "Its steps are kept",
      details: null,
    }
    : kind === "failed"
    ? { code: "upstream", message: why, hint: "hyperswap autotune shows what was measured", details: null }
    : null;
  return giveBack(state, sweep, { ending: { result, refusal }, atMs });
}

export function endRefused(
  state: AutotuneState,
  sweep: Sweep,
  { refusal, atMs }: { readonly refusal: Refusal; readonly atMs: MonotonicMs },
): AutotuneStep {
  const result = conclude(sweep, { kind: "refused", why: refusal.message });
  return giveBack(state, sweep, { ending: { result, refusal }, atMs });
}

function giveBack(
  state: AutotuneState,
  sweep: Sweep,
  { ending, atMs }: { readonly ending: Ending; readonly atMs: MonotonicMs },
): AutotuneStep {
  return moved(state, { ...sweep, current: null, phase: { name: "restoring", sinceMs: atMs, ending } }, {
    tells: [
      { type: "sweepHolds", atMs, setting: null, text: ending.result.message },
      { type: "cancelled", atMs, requestId: holdIdOf(sweep) },
    ],
  });
}

/** Once the card has answered: the best value is applied where that was asked for, and the caller hears. */
export function settleEnd(
  state: AutotuneState,
  sweep: Sweep,
  { atMs, card }: { readonly atMs: MonotonicMs; readonly card: TuningState },
): AutotuneStep {
  const { phase } = sweep;
  if (phase.name !== "restoring") return silent(state);
  const isBack = card.sweep === null && card.inFlight === null;
  const isLate = atMs - phase.sinceMs >= RESTORE_LIMIT_MS;
  if (!isBack && !isLate) return silent(state);
  const { result, refusal } = phase.ending;
  const apply = isBack && refusal === null && result.end === "improved" && sweep.plan.request.applyBest
    ? applyBest(sweep, { card, atMs, value: result.bestValue })
    : null;
  const late = isBack ? "" : ". The card has not answered yet: hyperswap overclock shows where it stands";
  const told = { ...result, message: result.message + late, applied: apply?.text ?? null };
  const { id } = sweep.plan;
  return {
    state: { ...state, sweep: null },
    effects: [
      tellResult(sweep, told),
      {
        kind: "answerSweep",
        id,
        reply: refusal === null ? { kind: "done", result: told } : { kind: "refused", refusal },
      },
    ],
    tells: apply === null ? [] : [apply.tell],
  };
}

export function tellStart(sweep: Sweep): SweepEffect {
  const { knob, workload } = sweep.plan.request;
  return {
    kind: "recordSweep",
    event: `A sweep of ${knob} has begun`,
    reason: `Asked for, against ${workload}`,
    item: { kind: "autotune", fields: startFields(sweep) },
  };
}

function tellResult(sweep: Sweep, result: SweepResult): SweepEffect {
  return {
    kind: "recordSweep",
    event: `The sweep of ${sweep.plan.request.knob} has ended: ${result.end}`,
    reason: result.message,
    item: { kind: "autotune", fields: resultFields(sweep, result) },
  };
}

/** A profile of the user's takes the value; the built-in ones can't be changed, so it is set by hand there. */
function applyBest(
  sweep: Sweep,
  { card, atMs, value }: {
    readonly card: TuningState;
    readonly atMs: MonotonicMs;
    readonly value: number | "stock" | null;
  },
): { readonly tell: SweepTell; readonly text: string } | null {
  if (value === null) return null;
  const { knob, profile: name } = sweep.plan.request;
  const profile = allProfiles(card.profiles).find((each) => each.name === name);
  const wanted = value === "stock" ? "default" as const : value;
  const requestId = `${sweep.plan.id}-apply`;
  if (profile !== undefined && !profile.isBuiltIn) {
    const request = { kind: "save" as const, name, values: { ...profile.values, [knob]: wanted }, confirmMs: null };
    return { tell: { type: "tuneAsked", atMs, requestId, request }, text: `saved in profile ${name}` };
  }
  const request = { kind: "lever" as const, lever: knob, value: wanted, confirmMs: null };
  return { tell: { type: "tuneAsked", atMs, requestId, request }, text: `set by hand: ${name} is built in` };
}

/** Shutdown: the card's own end puts everything back. What the sweep had found by then is kept. */
export function letGo(state: AutotuneState, sweep: Sweep, atMs: MonotonicMs): AutotuneStep {
  const { plan: { id, request: { knob } }, phase, generation } = sweep;
  const why = `The service stopped in the middle of the sweep of ${knob}`;
  const closed = finishStep(state, sweep, { verdict: "cut_short", reason: why, atMs });
  const result = phase.name === "restoring"
    ? phase.ending.result
    : conclude(closed.state.sweep ?? sweep, { kind: "interrupted", why });
  const refusal: Refusal = { code: "unavailable", message: why, hint: "Its steps are kept", details: null };
  return {
    state: { ...state, sweep: null },
    effects: [
      { kind: "abortBench", generation, reason: "the service is stopping" },
      ...closed.effects,
      tellResult(sweep, result),
      { kind: "answerSweep", id, reply: { kind: "refused", refusal } },
    ],
    tells: [],
  };
}
