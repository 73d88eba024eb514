/** How wishes reach the lane and leave it: requests, cancels, and the end of what nobody asked for. */
import type { ArbiterReply, ArbiterRequest, Refusal } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import type { ArbiterState, ArbiterStep, LaneJob, Waiting } from "./arbiter_state.ts";
import { receiveHandOff } from "./hand_off.ts";
import { objectionToHold } from "./hold_job.ts";
import { isAutomatic, isComfyBusy, refusePurge } from "./lane.ts";
import { recordKey } from "./lane_results.ts";
import { objectionToEnd } from "./stuck.ts";
import { refusal } from "./switch_plan.ts";

export function receiveRequest(
  state: ArbiterState,
  event: Extract<ArbiterEvent, { type: "requested" }>,
): ArbiterStep {
  const { request, operation } = event;
  if (state.sample === null) {
    return {
      state,
      effects: [refuse(request.id, "unavailable", "The first sample isn't in yet", "Try again in a second")],
    };
  }
  if (request.kind === "handOff") return receiveHandOff(state, { ...event, request });
  const objection = objectionToHold(state, request.id);
  if (objection !== null) return { state, effects: [objection] };
  const why = request.kind === "endRunner" ? objectionToEnd(state, request.process) : null;
  if (why !== null) return { state, effects: [refuseAs(request.id, why)] };
  if (request.kind === "purge" && isComfyBusy(state)) return { state, effects: [refusePurge(request.id)] };
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

function refuse(
  requestId: string,
  ...[code, message, hint]: ["unavailable" | "cancelled", string, string]
): ArbiterEffect {
  const reply: ArbiterReply = { kind: "refused", refusal: refusal(code, message, { hint }) };
  return { kind: "resolve", requestId, reply, reason: message };
}

function refuseAs(requestId: string, why: Refusal): ArbiterEffect {
  return { kind: "resolve", requestId, reply: { kind: "refused", refusal: why }, reason: why.message };
}

/**
 * A waiting request leaves, and so does a job that has done nothing yet; a load is hung up on, which cancels it. What
 * the servers were asked for still takes effect: its job goes on without its caller, so that nothing starts over memory
 * that is on its way back, and the record is kept.
 */
export function cancelRequest(
  state: ArbiterState,
  event: Extract<ArbiterEvent, { type: "cancelled" }>,
): ArbiterStep {
  const { requestId } = event;
  const isOther = (entry: Waiting) => entry.kind !== "request" || entry.request.id !== requestId;
  const waiting = state.waiting.filter(isOther);
  if (waiting.length < state.waiting.length) {
    const answer = refuse(requestId, "cancelled", "Cancelled before it began", "Nothing was changed");
    return { state: { ...state, waiting }, effects: [answer] };
  }
  const { holder } = state;
  if (holder === null || !holder.requestIds.includes(requestId)) return { state, effects: [] };
  const requestIds = holder.requestIds.filter((id) => id !== requestId);
  if (requestIds.length > 0 || isUnderWay(state, holder.job)) {
    const hint = "What was asked of the servers still takes effect";
    const answer = refuse(requestId, "cancelled", "Cancelled", hint);
    return { state: { ...state, holder: { ...holder, requestIds } }, effects: [answer] };
  }
  const isLoad = holder.job.kind === "switch" && holder.job.step.name === "load";
  const hint = isLoad ? "The load under way was hung up on" : "Nothing more is done for it";
  return {
    state: { ...state, holder: null },
    effects: [
      refuse(requestId, "cancelled", "Cancelled", hint),
      { kind: "abort", generation: holder.job.generation, reason: "cancelled by the caller" },
    ],
  };
}

/** True once somebody was asked to give memory back, or while a hand-off counts on this job. */
function isUnderWay(state: ArbiterState, job: LaneJob): boolean {
  return state.margin?.key === recordKey(job.generation, "yield") || hasAsked(job);
}

function hasAsked(job: LaneJob): boolean {
  switch (job.kind) {
    case "yield":
      return job.phase === "asked";
    case "purge":
      return job.phase !== "quiet" || job.sends > 0;
    case "requestVram":
      return job.purge !== null && hasAsked(job.purge);
    case "switch":
      return (job.step.name === "yield" || job.step.name === "purge") && hasAsked(job.step.job);
    case "reload":
      if (job.step.name === "switch") return hasAsked(job.step.job);
      return (job.step.name === "yield" || job.step.name === "purge") && hasAsked(job.step.job);
    case "endRunner":
      return job.phase !== "opening";
    case "hold":
      return false;
  }
}

/** The mode isn't auto any more: automatic work that waits, or has done nothing yet, is dropped. */
export function callOffAutomatic(state: ArbiterState): ArbiterStep {
  const waiting = state.waiting.filter((entry) => entry.kind !== "auto");
  const { holder } = state;
  const isDropped = holder !== null && isAutomatic(holder) && !hasAsked(holder.job);
  const left = isDropped ? null : holder;
  // A watch on the winner's growth goes with the yield it belongs to.
  const { margin } = state;
  const isWatched = margin !== null && (margin.concludedMs !== null ||
    left !== null && margin.key === recordKey(left.job.generation, "yield"));
  const reason = "the mode is no longer auto";
  const effects: ArbiterEffect[] = isDropped ? [{ kind: "abort", generation: holder.job.generation, reason }] : [];
  return { state: { ...state, waiting, holder: left, margin: isWatched ? margin : null }, effects };
}
