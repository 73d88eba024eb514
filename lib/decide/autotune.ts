/**
 * A sweep (SPEC 4.5): preflight, control, one value after the other, and a confirmation of the fastest. Pure: results,
 * samples and cancels arrive as events; what it wants of the card and the lane it tells them in the same step.
 * Read `advance` first. Ways out are in autotune_end.ts; each gives the card back.
 */
import type { Refusal } from "../model/arbitration.ts";
import { type BenchOutcome, isSweepEvent, type SweepEvent, type SweepPlan } from "../model/autotune.ts";
import { type CardSetting, type Lever, LEVERS, type LeverValue } from "../model/card.ts";
import type { ArbiterEvent } from "../model/events.ts";
import type { TuneEvent } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";
import {
  cutShort,
  end,
  endRefused,
  finishStep,
  halt,
  letGo,
  moved,
  settleEnd,
  silent,
  tellStart,
} from "./autotune_end.ts";
import { degeneration, disbelief, judgePreflight, overheating, secondOf } from "./autotune_judge.ts";
import { planSweep, type SweepAround } from "./autotune_plan.ts";
import { type AutotuneState, type AutotuneStep, holdIdOf, newSweep, type Sweep, type Task } from "./autotune_state.ts";
import { nextTask } from "./autotune_tasks.ts";
import { namedValue } from "./autotune_result.ts";
import type { TuningState } from "./card_state.ts";
import { wishFor } from "./card_wishes.ts";
import { hasLane } from "./hold_job.ts";
import { isComfyBusy } from "./lane.ts";
import { allProfiles, valueOn } from "./profiles.ts";

/** What of the house's events a sweep hears by itself; the arbiter and the card it looks at. */
export type SweepHears = SweepEvent | ArbiterEvent | TuneEvent;

/** After a value is set: clocks and power follow within a second. */
const SETTLE_MS = 1_000;
/** The writer answers within a second; a driver that is being reset takes longer. */
const SET_LIMIT_MS = 30_000;
/** How long ComfyUI must have been idle before a paused sweep goes on. */
const RESUME_MS = 5_000;
/** Results in a row that aren't believed before the step counts as failed. */
const MOST_REJECTED = 3;

interface Now {
  readonly atMs: MonotonicMs;
  readonly around: SweepAround;
}

/** One event. */
export function reduceAutotune(state: AutotuneState, event: SweepHears, around: SweepAround): AutotuneStep {
  if (event.type === "sweepAsked") return ask(state, event, around);
  const { sweep } = state;
  if (sweep === null) return silent(state);
  if (event.type === "stopped") return letGo(state, sweep, event.atMs);
  if (event.type === "cardNews") {
    if (event.news.kind !== "xid" || sweep.current === null) return silent(state);
    return halt(state, sweep, { why: `The driver reported Xid ${event.news.code}`, atMs: event.atMs });
  }
  if (event.type === "sampled") return watch(state, sweep, event);
  if (!isSweepEvent(event)) return silent(state);
  switch (event.type) {
    case "sweepCancelled":
      return event.id === sweep.plan.id ? cancel(state, sweep, event.atMs) : silent(state);
    case "sweepPrepared":
      return event.generation === sweep.generation ? prepared(state, sweep, event) : silent(state);
    case "benchEnded":
      return event.generation === sweep.generation && sweep.phase.name === "measuring"
        ? takeResult(state, sweep, event)
        : silent(state);
  }
}

/** What follows from where the lane and the card stand now; called until nothing does. */
export function advance(state: AutotuneState, atMs: MonotonicMs, around: SweepAround): AutotuneStep {
  const { sweep } = state;
  if (sweep === null) return silent(state);
  const { phase } = sweep;
  const hasIt = hasLane(around.arbiter, holdIdOf(sweep));
  if (phase.name === "restoring") return settleEnd(state, sweep, { atMs, card: around.card });
  if (phase.name === "preparing") return silent(state);
  if (phase.name === "queueing") return hasIt ? begin(state, sweep, { atMs, around }) : silent(state);
  if (phase.name === "paused") return resumeWhenIdle(state, sweep, { atMs, around });
  if (!hasIt) return pause(state, sweep, atMs);
  if (around.card.sweep === null) {
    return cutShort(state, sweep, { kind: "cancelled", why: "The card was restored by hand", atMs });
  }
  if (phase.name === "setting") return awaitCard(state, sweep, { atMs, around, sinceMs: phase.sinceMs });
  if (phase.name === "settling" && atMs >= phase.untilMs) return measure(state, sweep);
  return silent(state);
}

function ask(
  state: AutotuneState,
  { id, request, atMs }: Extract<SweepEvent, { type: "sweepAsked" }>,
  around: SweepAround,
): AutotuneStep {
  const answer = (refusal: Refusal): AutotuneStep => ({
    state,
    effects: [{ kind: "answerSweep", id, reply: { kind: "refused", refusal } }],
    tells: [],
  });
  if (state.sweep !== null) {
    const message = `A sweep of ${state.sweep.plan.request.knob} is under way`;
    return answer({
      code: "busy",
      message,
      hint: "Wait for it, or cancel it: hyperswap autotune cancel",
      details: null,
    });
  }
  const planned = planSweep(id, request, around);
  if ("refusal" in planned) return answer(planned.refusal);
  const sweep = newSweep(planned.plan, atMs);
  const { effects, ...begun } = prepare(state, sweep);
  return { ...begun, effects: [tellStart(sweep), ...effects] };
}

function prepare(state: AutotuneState, sweep: Sweep): AutotuneStep {
  const generation = state.nextGeneration;
  const { plan: { request: { workload } }, model } = sweep;
  return {
    state: { sweep: { ...sweep, generation, phase: { name: "preparing" } }, nextGeneration: generation + 1 },
    effects: [{ kind: "prepareSweep", generation, workload, model }],
    tells: [],
  };
}

function prepared(
  state: AutotuneState,
  sweep: Sweep,
  { refusal, model, atMs }: Extract<SweepEvent, { type: "sweepPrepared" }>,
): AutotuneStep {
  if (sweep.isCancelling) return end(state, sweep, { kind: "cancelled", why: "Cancelled before it began", atMs });
  if (refusal !== null) return endRefused(state, sweep, { refusal, atMs });
  const purpose = `a sweep of ${sweep.plan.request.knob}`;
  const request = { kind: "hold" as const, id: holdIdOf(sweep), purpose };
  return moved(state, { ...sweep, model, phase: { name: "queueing" } }, {
    tells: [{ type: "requested", atMs, request, operation: "autotune-sweep" }],
  });
}

/** The next thing to measure, or the end. */
function begin(state: AutotuneState, sweep: Sweep, { atMs, around }: Now): AutotuneStep {
  if (sweep.isCancelling) return end(state, sweep, { kind: "cancelled", why: "Cancelled", atMs });
  const task = nextTask(sweep);
  if (task === null) return end(state, sweep, { kind: null, why: "", atMs });
  const current = { ...task, startedMs: atMs, samples: [], rejected: [], seconds: [] };
  const text = `Sweep of ${sweep.plan.request.knob}: ${namedValue(sweep, task.value)} (${task.role})`;
  return moved(state, { ...sweep, current, phase: { name: "setting", sinceMs: atMs } }, {
    tells: [{ type: "sweepHolds", atMs, setting: settingFor(task, sweep.plan, around.card), text }],
  });
}

/** The profile's levers hold, whatever the workload would ask for; the knob goes to the task's value. */
function settingFor({ value }: Task, { request }: SweepPlan, card: TuningState): CardSetting {
  const profile = allProfiles(card.profiles).find(({ name }) => name === request.profile);
  const setting: Partial<Record<Lever, LeverValue>> = {};
  for (const lever of LEVERS) {
    const [asked, limits] = [profile?.values[lever], card.card?.limits.levers[lever]];
    const wanted = asked === undefined || limits === undefined ? null : valueOn(limits, asked);
    if (wanted !== null) setting[lever] = wanted;
  }
  return { ...setting, [request.knob]: value };
}

function awaitCard(
  state: AutotuneState,
  sweep: Sweep,
  { atMs, around: { card }, sinceMs }: Now & { readonly sinceMs: MonotonicMs },
): AutotuneStep {
  const { current, plan: { request: { knob } } } = sweep;
  if (current === null) return silent(state);
  if (card.governor.level > 0 || card.governor.isBlind) {
    return halt(state, sweep, { why: `The governor took over: ${card.governor.reason}`, atMs });
  }
  const wish = wishFor(knob, card);
  const asked = card.asked[knob];
  const isWritten = asked === undefined ? wish?.value === "stock" : !asked.isVoid && asked.value === wish?.value;
  if (card.card === null || card.inFlight !== null || wish?.by !== "sweep" || !isWritten) {
    if (atMs - sinceMs < SET_LIMIT_MS) return silent(state);
    return finishStep(state, sweep, { verdict: "failed", reason: "The card didn't take the value in time", atMs });
  }
  const report = asked === undefined ? null : card.reports[knob] ?? null;
  if (current.role === "preflight") {
    const verdict = judgePreflight(sweep.plan, current, report);
    if (verdict.kind === "moved") return finishStep(state, sweep, { verdict: "stable", reason: null, atMs });
    if (verdict.kind === "refused") {
      return finishStep(state, sweep, { verdict: "refused", reason: verdict.why, atMs });
    }
  } else if (report !== null && report.verdict !== "honoured" && report.verdict !== "unverified") {
    return finishStep(state, sweep, { verdict: "failed", reason: report.evidence, atMs });
  }
  return moved(state, { ...sweep, phase: { name: "settling", untilMs: atMs + SETTLE_MS } }, {});
}

function measure(state: AutotuneState, sweep: Sweep): AutotuneStep {
  if (sweep.model === null) return silent(state);
  const generation = state.nextGeneration;
  const { workload } = sweep.plan.request;
  return {
    state: { sweep: { ...sweep, generation, phase: { name: "measuring" } }, nextGeneration: generation + 1 },
    effects: [{ kind: "bench", generation, workload, model: sweep.model }],
    tells: [],
  };
}

/** A second of the card while something is set: the ceiling counts from the moment it is. */
function watch(
  state: AutotuneState,
  sweep: Sweep,
  { sample, atMs }: Extract<ArbiterEvent, { type: "sampled" }>,
): AutotuneStep {
  const { current, phase } = sweep;
  if (current === null) return silent(state);
  const heat = overheating(sample);
  if (heat !== null) return halt(state, sweep, { why: heat, atMs });
  const second = secondOf(sample);
  if (second === null || phase.name !== "measuring") return silent(state);
  return moved(state, { ...sweep, current: { ...current, seconds: [...current.seconds, second] } }, {});
}

function takeResult(
  state: AutotuneState,
  sweep: Sweep,
  { outcome, atMs }: { readonly outcome: BenchOutcome; readonly atMs: MonotonicMs },
): AutotuneStep {
  const { current } = sweep;
  if (current === null) return silent(state);
  const doubt = disbelief(outcome, sweep.steps);
  if (doubt !== null) {
    const rejected = [...current.rejected, doubt];
    const next = { ...sweep, current: { ...current, rejected } };
    if (sweep.isCancelling) return cutShort(state, next, { kind: "cancelled", why: "Cancelled", atMs });
    if (rejected.length < MOST_REJECTED) return measure(state, next);
    return finishStep(state, next, { verdict: "failed", reason: `Not to be believed: ${doubt}`, atMs });
  }
  if (!outcome.ok) return finishStep(state, sweep, { verdict: "failed", reason: outcome.message, atMs });
  const samples = [...current.samples, outcome.sample];
  const next: Sweep = { ...sweep, current: { ...current, samples } };
  const defect = degeneration(outcome.sample, sweep.steps);
  if (defect !== null) return finishStep(state, next, { verdict: "unstable", reason: defect, atMs });
  if (current.role === "preflight") return moved(state, { ...next, phase: { name: "setting", sinceMs: atMs } }, {});
  if (samples.length >= current.repeats) return finishStep(state, next, { verdict: "stable", reason: null, atMs });
  return sweep.isCancelling
    ? cutShort(state, next, { kind: "cancelled", why: "Cancelled", atMs })
    : measure(state, next);
}

/** A measurement in flight ends first; whatever else is under way is left at once. */
function cancel(state: AutotuneState, sweep: Sweep, atMs: MonotonicMs): AutotuneStep {
  const next = { ...sweep, isCancelling: true };
  const reason = "the sweep was cancelled";
  switch (sweep.phase.name) {
    case "measuring":
    case "restoring":
      return moved(state, next, {});
    case "preparing":
      return moved(state, next, { effects: [{ kind: "abortBench", generation: sweep.generation, reason }] });
    default:
      return cutShort(state, next, { kind: "cancelled", why: "Cancelled", atMs });
  }
}

/** The lane is gone: ComfyUI has work. What was half measured doesn't count, and the card goes back at once. */
function pause(state: AutotuneState, sweep: Sweep, atMs: MonotonicMs): AutotuneStep {
  if (sweep.isCancelling) return cutShort(state, sweep, { kind: "cancelled", why: "Cancelled", atMs });
  const reason = "ComfyUI has work: the sweep pauses and the card is as it was";
  const closed = finishStep(state, sweep, { verdict: "cut_short", reason, atMs });
  const { sweep: left } = closed.state;
  if (left === null) return closed;
  const abort = sweep.phase.name === "measuring"
    ? [{ kind: "abortBench" as const, generation: sweep.generation, reason }]
    : [];
  return {
    state: { ...closed.state, sweep: { ...left, phase: { name: "paused" }, pauses: sweep.pauses + 1 } },
    effects: [...abort, ...closed.effects],
    tells: [{ type: "sweepHolds", atMs, setting: null, text: reason }],
  };
}

function resumeWhenIdle(
  state: AutotuneState,
  sweep: Sweep,
  { atMs, around: { arbiter } }: Now,
): AutotuneStep {
  const { idleSinceMs } = arbiter.comfy;
  const isIdle = !isComfyBusy(arbiter) && arbiter.holder === null && idleSinceMs !== null &&
    atMs - idleSinceMs >= RESUME_MS;
  return isIdle ? prepare(state, sweep) : silent(state);
}
