/** The lane: one job at a time moves VRAM. What waits is started in order, and each request is answered exactly once. */
import type { ArbiterReply, PurgeResult, YieldResult } from "../model/arbitration.ts";
import { type ArbiterEffect, type ArbiterEvent, type Generation, GENERATIONS_PER_JOB } from "../model/events.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, Holder, LaneJob, Waiting } from "./arbiter_state.ts";
import { watchHandOff } from "./hand_off_watch.ts";
import { type EndRunnerJob, startEndRunner, stepEndRunner } from "./end_runner_job.ts";
import type { HoldJob } from "./hold_job.ts";
import type { JobContext, JobStep } from "./job.ts";
import { keepResults } from "./lane_results.ts";
import { startPurge, stepPurge } from "./purge_job.ts";
import { type ReloadJob, startReload, stepReload } from "./reload_job.ts";
import { startRequestVram, stepRequestVram } from "./request_vram_job.ts";
import { startSwitch, stepSwitch, type SwitchJob, type SwitchStep } from "./switch_job.ts";
import { refusal } from "./switch_plan.ts";
import { startYield, stepYield } from "./yield_job.ts";

/** What one step made of a job. */
export interface Moved {
  readonly job: LaneJob;
  readonly effects: readonly ArbiterEffect[];
  /** Its answer, once it has ended. */
  readonly reply: ArbiterReply | null;
  /** A yield or purge that ended in this step, be it the job itself or a step of it: recorded when it happens. */
  readonly yielded: YieldResult | null;
  readonly purged: PurgeResult | null;
}

/** True when ComfyUI has work, by the newest word there is. */
export function isComfyBusy({ comfy, sample }: Pick<ArbiterState, "comfy" | "sample">): boolean {
  return comfy.queueRemaining === null ? sample?.comfy.executing === true : comfy.queueRemaining > 0;
}

/** True for work that nobody asked for: it acts in mode auto only. */
export function isAutomatic({ job, requestIds }: Holder): boolean {
  return requestIds.length === 0 && job.cause.kind !== "operation";
}

/** What the job in the lane may look at; null before the first sample. */
export function contextOf(
  state: ArbiterState,
  { isAuto, isWanted }: { readonly isAuto: boolean; readonly isWanted: boolean },
  atMs: MonotonicMs,
): JobContext | null {
  if (state.sample === null) return null;
  return {
    policy: state.policy,
    sample: state.sample,
    atMs,
    footprints: state.footprints,
    loads: state.loads,
    keep: state.keep,
    residualHistory: state.residualHistory,
    isComfyBusy: isComfyBusy(state),
    comfyIdleSinceMs: state.comfy.idleSinceMs,
    comfyContextBytes: state.comfy.context?.bytes ?? null,
    loserOutUntilMs: state.loserOutUntilMs,
    mayAct: state.mode === "auto" || !isAuto,
    isYieldWaiting: state.waiting.some((entry) => entry.kind === "auto" && entry.job === "yield"),
    isWanted,
  };
}

/** Gives the job in the lane what `step` makes of it. */
export function moveHolder(
  state: ArbiterState,
  atMs: MonotonicMs,
  step: (job: LaneJob, context: JobContext) => Moved,
): ArbiterStep {
  const { holder } = state;
  if (holder === null) return { state, effects: [] };
  const isAuto = isAutomatic(holder);
  const context = contextOf(state, { isAuto, isWanted: isAuto || holder.requestIds.length > 0 }, atMs);
  if (context === null) return { state, effects: [] };
  return commit(state, holder, { moved: step(holder.job, context), atMs });
}

/** Gives the event to the job in the lane. */
export function stepLane(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type === "requested") return { state, effects: [] };
  return moveHolder(state, event.atMs, (job, context) => move(job, event, context));
}

function move(job: LaneJob, event: ArbiterEvent, context: JobContext): Moved {
  switch (job.kind) {
    case "yield":
      return movedYield(stepYield(job, event, context));
    case "purge":
      return movedPurge(stepPurge(job, event, context));
    case "switch":
      return movedSwitch(job, stepSwitch(job, event, context));
    case "requestVram":
      return movedRequest(stepRequestVram(job, event, context));
    case "reload":
      return movedReload(job, stepReload(job, event, context));
    case "endRunner":
      return movedEnd(stepEndRunner(job, event, context));
    case "hold":
      return held(job);
  }
}

/** It stays until it is cancelled or gives way. */
function held(job: HoldJob): Moved {
  return { job, effects: [], reply: null, yielded: null, purged: null };
}

function movedYield({ job, effects, result: value }: ReturnType<typeof stepYield>): Moved {
  return { job, effects, reply: value && { kind: "yield", value }, yielded: value, purged: null };
}

function movedPurge({ job, effects, result: value }: ReturnType<typeof stepPurge>): Moved {
  return { job, effects, reply: value && { kind: "purge", value }, yielded: null, purged: value };
}

function movedRequest({ job, effects, result: value }: ReturnType<typeof stepRequestVram>): Moved {
  return { job, effects, reply: value && { kind: "requestVram", value }, yielded: null, purged: value && value.purge };
}

export function movedSwitch(before: SwitchJob | null, { job, effects, result: reply }: SwitchStep): Moved {
  const yielded = job.yielded === before?.yielded ? null : job.yielded;
  const purged = job.purged === before?.purged ? null : job.purged;
  return { job, effects, reply, yielded, purged };
}

function movedEnd({ job, effects, result: reply }: JobStep<EndRunnerJob, ArbiterReply>): Moved {
  return { job, effects, reply, yielded: null, purged: null };
}

export function movedReload(
  before: ReloadJob | null,
  { job, effects, result: reply }: ReturnType<typeof stepReload>,
): Moved {
  const yielded = job.yielded === before?.yielded ? null : job.yielded;
  const purged = job.purged === before?.purged ? null : job.purged;
  return { job, effects, reply, yielded, purged };
}

/** Stores what a job has become, or ends it: answers, records, and keeps what was learned. */
function commit(
  state: ArbiterState,
  before: Pick<Holder, "requestIds"> & { readonly job: LaneJob | null },
  { moved, atMs }: { readonly moved: Moved; readonly atMs: MonotonicMs },
): ArbiterStep {
  const { requestIds } = before;
  const { job, effects, reply } = moved;
  const isAsked = requestIds.length > 0;
  if (reply === null) {
    const going = job === before.job ? state : { ...state, holder: { job, requestIds } };
    const kept = keepResults(going, moved, { isAsked, atMs });
    return { state: kept.state, effects: [...effects, ...kept.effects] };
  }
  const answers: ArbiterEffect[] = requestIds.map((requestId) => ({
    kind: "resolve",
    requestId,
    reply,
    reason: "the job it asked for has ended",
  }));
  const kept = keepResults({ ...state, holder: null }, moved, { isAsked, atMs });
  return { state: kept.state, effects: [...effects, ...answers, ...kept.effects] };
}

/** Starts what waits, first come first served, until something occupies the lane. */
export function startNext(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  let next = state;
  const effects: ArbiterEffect[] = [];
  while (next.holder === null && next.sample !== null) {
    const [first, ...rest] = next.waiting;
    if (first === undefined) break;
    const step = begin({ ...next, waiting: rest }, first, event.atMs);
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

function begin(state: ArbiterState, entry: Waiting, atMs: MonotonicMs): ArbiterStep {
  const isAuto = entry.kind === "auto";
  const context = contextOf(state, { isAuto, isWanted: true }, atMs);
  if (context === null) return { state, effects: [] };
  if (isAuto) {
    const moved = beginAutomatic(entry, context);
    return commit(state, { job: null, requestIds: [] }, { moved, atMs });
  }
  const { request } = entry;
  const isPurge = request.kind === "purge" || request.kind === "handOff" && request.to === "ollama";
  if (isPurge && context.isComfyBusy) return { state, effects: [refusePurge(request.id)] };
  const generation = state.nextGeneration;
  const watching = request.kind === "handOff"
    ? watchHandOff(state, request, { generation, atMs })
    : { state, effects: [] };
  const moved = beginRequest(entry, generation, context);
  const numbered = { ...watching.state, nextGeneration: generation + GENERATIONS_PER_JOB };
  const begun = commit(numbered, { job: null, requestIds: [request.id] }, { moved, atMs });
  return { state: begun.state, effects: [...watching.effects, ...begun.effects] };
}

/** An executing ComfyUI is never purged (SPEC 2.3). */
export function refusePurge(requestId: string): ArbiterEffect {
  const hint = "It is never purged or interrupted while it has work: try again when its queue is empty";
  const why = refusal("busy", "ComfyUI is executing", { hint });
  return { kind: "resolve", requestId, reply: { kind: "refused", refusal: why }, reason: why.message };
}

function beginAutomatic(entry: Extract<Waiting, { kind: "auto" }>, context: JobContext): Moved {
  const { generation, cause, job } = entry;
  if (entry.job === "reload") return movedReload(null, startReload({ ...entry.order, generation, cause }, context));
  if (job === "purge") return movedPurge(startPurge({ generation, cause, confirm: true }, context));
  const scope = { models: null, keep: context.keep };
  return movedYield(startYield({ generation, cause, scope, confirm: true }, context));
}

function beginRequest(
  { request, operation }: Extract<Waiting, { kind: "request" }>,
  generation: Generation,
  context: JobContext,
): Moved {
  const order = { generation, cause: { kind: "operation" as const, operation, requestId: request.id } };
  switch (request.kind) {
    case "yield": {
      // An explicit yield takes what it names, kept models included; an automatic one spares them.
      const scope = { models: request.models, keep: [] };
      return movedYield(startYield({ ...order, scope, confirm: request.confirm }, context));
    }
    case "purge":
      return movedPurge(startPurge({ ...order, confirm: request.confirm }, context));
    case "requestVram":
      return movedRequest(startRequestVram({ ...order, neededBytes: request.neededBytes }, context));
    case "switch": {
      const { model, keepAlive, prompt } = request;
      return movedSwitch(null, startSwitch({ ...order, request: { model, keepAlive, prompt } }, context));
    }
    case "handOff": {
      const cause = { kind: "gate" as const, requestId: request.id };
      if (request.to === "ollama") return movedPurge(startPurge({ generation, cause, confirm: true }, context));
      const scope = { models: null, keep: context.keep };
      return movedYield(startYield({ generation, cause, scope, confirm: true }, context));
    }
    case "endRunner": {
      const { process, model } = request;
      return movedEnd(startEndRunner({ ...order, process, model }, context));
    }
    case "hold":
      return held({ kind: "hold", ...order, startedMs: context.atMs, purpose: request.purpose });
  }
}
