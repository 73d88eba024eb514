/** The lane: one job at a time moves VRAM. Requests enter, wait, are started, and each is answered exactly once. */
import type { ArbiterReply, ArbiterRequest, Cause, PurgeResult, YieldResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, Generation } from "../model/events.ts";
import type { ArbiterState, Holder, LaneJob, Waiting } from "./arbiter_state.ts";
import type { ArbiterStep } from "./arbiter.ts";
import { purgeRecord, swapRecord, yieldRecord } from "./arbiter_records.ts";
import { remember } from "./footprint.ts";
import { COMFY_KEY } from "./need.ts";
import { startPurge, stepPurge } from "./purge_job.ts";
import { startRequestVram, stepRequestVram } from "./request_vram_job.ts";
import { GENERATIONS_PER_JOB, startSwitch, stepSwitch, type SwitchContext } from "./switch_job.ts";
import { refusal } from "./switch_plan.ts";
import { watchHeld } from "./watched.ts";
import { startYield, stepYield } from "./yield_job.ts";
import { canonical } from "./yield_targets.ts";

/** How a job ended, whichever it was. */
interface Ended {
  readonly reply: ArbiterReply;
  /** Yields and purges that happened on the way, for the record. */
  readonly yielded: YieldResult | null;
  readonly purged: PurgeResult | null;
}

interface Moved {
  readonly job: LaneJob;
  readonly effects: readonly ArbiterEffect[];
  readonly ended: Ended | null;
}

/** What a job may look at, from the arbiter's state. Only called once there is a sample. */
export function contextOf(state: ArbiterState, atMs: number): SwitchContext | null {
  if (state.sample === null) return null;
  return {
    policy: state.policy,
    sample: state.sample,
    atMs,
    footprints: state.footprints,
    keep: state.keep,
    isComfyBusy: (state.comfy.queueRemaining ?? 0) > 0 || state.sample.comfy.executing === true,
    comfyIdleSinceMs: state.comfy.idleSinceMs,
    contextBytes: state.comfy.context?.bytes ?? null,
    loserOutUntilMs: state.loserOutUntilMs,
  };
}

export function receiveRequest(
  state: ArbiterState,
  event: Extract<ArbiterEvent, { type: "requested" }>,
): ArbiterStep {
  const { request, operation } = event;
  if (state.sample === null) {
    return answer(state, request.id, "unavailable", "The first sample isn't in yet", "Try again in a second");
  }
  const isPurgeBusy = request.kind === "purge" && (contextOf(state, event.atMs)?.isComfyBusy ?? false);
  if (isPurgeBusy) {
    const hint = "It is never purged or interrupted while it has work: try again when its queue is empty";
    return answer(state, request.id, "busy", "ComfyUI is executing", hint);
  }
  const joined = joinRunning(state, request);
  if (joined !== null) return { state: joined, effects: [] };
  const entry: Waiting = { kind: "request", request, operation, sinceMs: event.atMs };
  return { state: { ...state, waiting: [...state.waiting, entry] }, effects: [] };
}

/** A second "unload everything" while one is under way is the same wish: both get its answer. */
function joinRunning(state: ArbiterState, request: ArbiterRequest): ArbiterState | null {
  const { holder } = state;
  if (holder === null || request.kind !== "yield" || request.models !== null || !request.confirm) return null;
  const { job } = holder;
  const isSame = job.kind === "yield" && job.scope.models === null && job.scope.keep.length === 0 && job.confirm;
  return isSame ? { ...state, holder: { ...holder, requestIds: [...holder.requestIds, request.id] } } : null;
}

function answer(
  state: ArbiterState,
  requestId: string,
  ...[code, message, hint]: ["unavailable" | "busy" | "cancelled", string, string]
): ArbiterStep {
  const reply: ArbiterReply = { kind: "refused", refusal: refusal(code, message, { hint }) };
  return { state, effects: [{ kind: "resolve", requestId, reply, reason: message }] };
}

/** A waiting request leaves; a running switch is hung up on, which cancels the load. Other jobs end by themselves. */
export function cancelRequest(
  state: ArbiterState,
  event: Extract<ArbiterEvent, { type: "cancelled" }>,
): ArbiterStep {
  const { requestId } = event;
  const isWaiting = state.waiting.some((entry) => entry.kind === "request" && entry.request.id === requestId);
  if (isWaiting) {
    const waiting = state.waiting.filter((entry) => entry.kind !== "request" || entry.request.id !== requestId);
    return answer({ ...state, waiting }, requestId, "cancelled", "Cancelled before it began", "Nothing was changed");
  }
  const { holder } = state;
  if (holder === null || !holder.requestIds.includes(requestId)) return { state, effects: [] };
  const others = holder.requestIds.filter((id) => id !== requestId);
  const isSwitch = holder.job.kind === "switch";
  const next: ArbiterState = {
    ...state,
    holder: isSwitch && others.length === 0 ? null : { ...holder, requestIds: others },
  };
  const hint = isSwitch ? "A load under way was hung up on" : "What was asked of the servers still takes effect";
  const step = answer(next, requestId, "cancelled", "Cancelled", hint);
  if (!isSwitch) return step;
  return {
    state: step.state,
    effects: [...step.effects, { kind: "abort", generation: holder.job.generation, reason: "cancelled by the caller" }],
  };
}

/** Gives the event to the job in the lane. */
export function stepLane(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  const context = contextOf(state, event.atMs);
  if (state.holder === null || context === null || event.type === "requested") return { state, effects: [] };
  const moved = move(state.holder.job, event, context);
  return commit(state, { holder: state.holder, moved, atMs: event.atMs });
}

function move(job: LaneJob, event: ArbiterEvent, context: SwitchContext): Moved {
  switch (job.kind) {
    case "yield": {
      const step = stepYield(job, event, context);
      return { ...step, ended: step.result && endedYield(step.result) };
    }
    case "purge": {
      const step = stepPurge(job, event, context);
      return { ...step, ended: step.result && endedPurge(step.result) };
    }
    case "switch": {
      const step = stepSwitch(job, event, context);
      return { ...step, ended: step.result && endedSwitch(step.job, step.result) };
    }
    case "requestVram": {
      const step = stepRequestVram(job, event, context);
      const ended = step.result &&
        { reply: { kind: "requestVram" as const, value: step.result }, yielded: null, purged: step.result.purge };
      return { ...step, ended };
    }
  }
}

function endedYield(value: YieldResult): Ended {
  return { reply: { kind: "yield", value }, yielded: value, purged: null };
}

function endedPurge(value: PurgeResult): Ended {
  return { reply: { kind: "purge", value }, yielded: null, purged: value };
}

function endedSwitch(job: LaneJob, reply: ArbiterReply): Ended {
  return job.kind === "switch"
    ? { reply, yielded: job.yielded, purged: job.purged }
    : { reply, yielded: null, purged: null };
}

/** Stores what a job has become, or ends it: answers, records, and keeps what was learned. */
function commit(
  state: ArbiterState,
  { holder, moved, atMs }: { readonly holder: Holder; readonly moved: Moved; readonly atMs: number },
): ArbiterStep {
  if (moved.ended === null) {
    const isUnchanged = moved.job === holder.job && moved.effects.length === 0;
    return isUnchanged
      ? { state, effects: [] }
      : { state: { ...state, holder: { ...holder, job: moved.job } }, effects: moved.effects };
  }
  const { reply, yielded, purged } = moved.ended;
  const key = `job-${moved.job.generation}`;
  const effects: ArbiterEffect[] = [...moved.effects];
  for (const requestId of holder.requestIds) {
    effects.push({ kind: "resolve", requestId, reply, reason: "the job it asked for has ended" });
  }
  let next: ArbiterState = { ...state, holder: null };
  if (yielded !== null) {
    if (yielded.outcome !== "nothing_loaded" || holder.requestIds.length > 0) {
      effects.push({ kind: "record", key: `${key}-yield`, item: yieldRecord(yielded), reason: yielded.message });
    }
    next = afterYield(next, yielded, { key: `${key}-yield`, job: moved.job, atMs });
  }
  if (purged !== null) {
    effects.push({ kind: "record", key: `${key}-purge`, item: purgeRecord(purged), reason: purged.message });
    next = afterPurge(next, purged);
  }
  if (reply.kind === "switch") {
    effects.push({ kind: "record", key: `${key}-swap`, item: swapRecord(reply.value), reason: reply.value.verdict });
    const { vramBytes, spilled, targetModel } = reply.value;
    if (vramBytes !== null && vramBytes > 0 && spilled !== true) {
      next = { ...next, footprints: remember(next.footprints, canonical(targetModel), vramBytes) };
    }
  }
  return { state: next, effects };
}

function afterYield(
  state: ArbiterState,
  result: YieldResult,
  { key, job, atMs }: { readonly key: string; readonly job: LaneJob; readonly atMs: number },
): ArbiterState {
  const margin = state.margin?.key === key
    ? { ...state.margin, isConcluded: true, confirmedMs: result.outcome === "released" ? atMs : null }
    : state.margin;
  const isHandOff = result.cause.kind === "comfy_enqueued";
  return {
    ...state,
    margin,
    loserOutUntilMs: isHandOff ? atMs + state.policy.margin.loserOutMs : state.loserOutUntilMs,
    watched: [...state.watched, ...watchHeld(job, { result, key, atMs })],
  };
}

function afterPurge(state: ArbiterState, result: PurgeResult): ArbiterState {
  const server = state.sample?.comfy.server ?? null;
  if (result.outcome !== "released" || result.remainingBytes === null || server === null) return state;
  const peak = state.comfy.peakBytes;
  return {
    ...state,
    comfy: { ...state.comfy, context: { process: server, bytes: result.remainingBytes }, peakBytes: null },
    footprints: peak === null ? state.footprints : remember(state.footprints, COMFY_KEY, peak),
  };
}

/** Starts what waits, first come first served, until something occupies the lane. */
export function startNext(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  let next = state;
  const effects: ArbiterEffect[] = [];
  while (next.holder === null && next.waiting.length > 0) {
    const context = contextOf(next, event.atMs);
    const [first, ...rest] = next.waiting;
    if (context === null || first === undefined) break;
    const generation = next.nextGeneration;
    const queued = { ...next, waiting: rest, nextGeneration: generation + GENERATIONS_PER_JOB };
    const { holder, moved } = begin(first, generation, context);
    const step = commit(queued, { holder, moved, atMs: event.atMs });
    next = step.state.holder === null && moved.ended === null ? { ...step.state, holder } : step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

function begin(entry: Waiting, generation: Generation, context: SwitchContext): { holder: Holder; moved: Moved } {
  const request = entry.kind === "request" ? entry.request : null;
  const cause: Cause = entry.kind === "request"
    ? { kind: "operation", operation: entry.operation, requestId: entry.request.id }
    : entry.cause;
  const moved = beginJob(entry, { generation, cause, context });
  return {
    moved,
    holder: {
      job: moved.job,
      requestIds: request === null ? [] : [request.id],
      operation: entry.kind === "request" ? entry.operation : null,
    },
  };
}

function beginJob(
  entry: Waiting,
  { generation, cause, context }: {
    readonly generation: Generation;
    readonly cause: Cause;
    readonly context: SwitchContext;
  },
): Moved {
  const kind = entry.kind === "request" ? entry.request.kind : entry.job;
  const request = entry.kind === "request" ? entry.request : null;
  if (request?.kind === "switch") {
    const step = startSwitch({ generation, cause, request }, context);
    return { ...step, ended: step.result && endedSwitch(step.job, step.result) };
  }
  if (request?.kind === "requestVram") {
    const step = startRequestVram({ generation, cause, neededBytes: request.neededBytes }, context);
    const ended = step.result &&
      { reply: { kind: "requestVram" as const, value: step.result }, yielded: null, purged: step.result.purge };
    return { ...step, ended };
  }
  if (kind === "purge") {
    const confirm = request?.kind === "purge" ? request.confirm : true;
    const { comfyIdleSinceMs: idleSinceMs, contextBytes } = context;
    const step = startPurge({ generation, cause, confirm, idleSinceMs, contextBytes }, context);
    return { ...step, ended: step.result && endedPurge(step.result) };
  }
  // An explicit yield takes what it names, kept models included; an automatic one spares them.
  const scope = request?.kind === "yield" ? { models: request.models, keep: [] } : { models: null, keep: context.keep };
  const confirm = request?.kind === "yield" ? request.confirm : true;
  const step = startYield({ generation, cause, scope, confirm }, context);
  return { ...step, ended: step.result && endedYield(step.result) };
}
