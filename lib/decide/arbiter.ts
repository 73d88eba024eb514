/**
 * The arbiter: who may have the card. A pure reducer; each event passes the stages below in order, and each stage adds
 * what it decided. Read `reduceArbiter` first.
 */
import type { ArbiterReply } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import type { ModeChange } from "../model/arbitration.ts";
import type { Policy } from "../model/policy.ts";
import type { ArbiterState, ArbiterStep, LaneJob } from "./arbiter_state.ts";
import { watchWorker } from "./comfy_worker.ts";
import { NO_CREEP, watchCreepBack } from "./creep_back.ts";
import { noteWarm } from "./calibration.ts";
import { watchFootprints } from "./footprint_watch.ts";
import { hear } from "./hearing.ts";
import { giveWay } from "./hold_job.ts";
import { startNext, stepLane } from "./lane.ts";
import { callOffAutomatic, cancelRequest, receiveRequest } from "./lane_requests.ts";
import { findMargin, marginFields, watchGrowth } from "./margin.ts";
import { hideOwnPrompt } from "./own_prompts.ts";
import { watchPartialLoads } from "./partial_load.ts";
import { hearRefusals } from "./refusals.ts";
import { mendSpills } from "./spill.ts";
import { refusal } from "./switch_plan.ts";
import { idlePurge, yieldForComfy } from "./triggers.ts";
import { releaseWatched } from "./watched.ts";

type Stage = (state: ArbiterState, event: ArbiterEvent) => ArbiterStep;

const STAGES: readonly Stage[] = [
  hear,
  watchFootprints,
  takeOrders,
  yieldForComfy,
  giveWay,
  stepLane,
  watchMargin,
  releaseWatched,
  watchCreepBack,
  hearRefusals,
  mendSpills,
  watchPartialLoads,
  watchWorker,
  idlePurge,
  startNext,
  tendBarrier,
];

export function reduceArbiter(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (state.isStopped) return { state, effects: [] };
  if (event.type === "stopped") return stop(state);
  const heard = hideOwnPrompt(state, event);
  let next = heard.state;
  const effects: ArbiterEffect[] = [];
  for (const stage of STAGES) {
    const step = stage(next, heard.event);
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

function takeOrders(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  switch (event.type) {
    case "warmed":
      return { state: { ...state, loads: noteWarm(state.loads, event.fields) }, effects: [] };
    case "requested":
      return receiveRequest(state, event);
    case "cancelled":
      return cancelRequest(state, event);
    case "modeSet":
      return setMode(state, event.change, event.atMs);
    case "configured":
      return setPolicy(state, event.policy, event.atMs);
    default:
      return { state, effects: [] };
  }
}

/** Mode and kept models are the owner's of the moment: they change only where the configuration itself has. */
function setPolicy(state: ArbiterState, policy: Policy, atMs: number): ArbiterStep {
  const { mode, yield: { keep } } = state.policy;
  const isKeepNew = JSON.stringify(keep) !== JSON.stringify(policy.yield.keep);
  const next: ArbiterState = { ...state, policy, keep: isKeepNew ? policy.yield.keep : state.keep };
  return policy.mode === mode
    ? { state: next, effects: [] }
    : setMode(next, { mode: policy.mode, untilMs: null, keep: null }, atMs);
}

function setMode(state: ArbiterState, { mode, untilMs, keep }: ModeChange, atMs: number): ArbiterStep {
  const next: ArbiterState = {
    ...state,
    mode,
    modeUntilMs: mode === "auto" ? null : untilMs,
    keep: keep ?? state.keep,
  };
  const called = mode === "auto" ? { state: next, effects: [] } : callOffAutomatic(next);
  const item = {
    kind: "arbitration" as const,
    fields: { mode, until_ms: next.modeUntilMs, keep: next.keep, message: `Mode set to ${mode}` },
  };
  const record: ArbiterEffect = { kind: "record", key: `mode-${atMs}`, item, reason: "the mode was set" };
  return { state: called.state, effects: [...called.effects, record] };
}

/** Watches the winner's first allocation while a hand-off is fresh, and completes its record. */
function watchMargin(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (state.margin === null) return { state, effects: [] };
  const { margin: policy } = state.policy;
  const margin = event.type === "reading" ? watchGrowth(state.margin, event.reading, policy) : state.margin;
  const found = findMargin(margin, event.atMs, policy);
  if (found === null) return { state: margin === state.margin ? state : { ...state, margin }, effects: [] };
  const isLate = found.marginMs !== null && found.marginMs < 0;
  const next: ArbiterState = {
    ...state,
    margin: null,
    comfy: isLate ? { ...state.comfy, isCramped: true } : state.comfy,
    handOffs: state.handOffs + (margin.confirmedMs === null ? 0 : 1),
    lateHandOffs: state.lateHandOffs + (isLate ? 1 : 0),
    lastMarginMs: found.marginMs ?? state.lastMarginMs,
  };
  const reason = found.reason ??
    (isLate ? "the winner allocated before the memory was back" : "the memory was back in time");
  return { state: next, effects: [{ kind: "amend", key: margin.key, fields: marginFields(found), reason }] };
}

/** The barrier streams while a job or a margin needs it, and not a reading longer. */
function tendBarrier(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  const isWanted = state.margin !== null || state.holder !== null && needsReadings(state.holder.job);
  if (event.type === "barrierLost") {
    const reason = "the driver stopped answering";
    const effects: ArbiterEffect[] = state.isBarrierOpen ? [{ kind: "closeBarrier", reason }] : [];
    return { state: { ...state, isBarrierOpen: false, isBarrierLost: true }, effects };
  }
  const isReadable = (state.sample?.gpu.available ?? false) && !state.isBarrierLost;
  if (isWanted && isReadable && !state.isBarrierOpen) {
    const reason = "a release is to be confirmed by the driver";
    return { state: { ...state, isBarrierOpen: true }, effects: [{ kind: "openBarrier", reason }] };
  }
  if (!isWanted && state.isBarrierOpen) {
    const reason = "nobody waits for a release any more";
    return { state: { ...state, isBarrierOpen: false }, effects: [{ kind: "closeBarrier", reason }] };
  }
  return { state, effects: [] };
}

/** A load takes seconds and is read back when it has ended, and a measurement waits for no release. */
function needsReadings(job: LaneJob): boolean {
  if (job.kind === "hold") return false;
  if (job.kind === "reload") return job.step.name !== "switch" || needsReadings(job.step.job);
  return job.kind !== "switch" || !["load", "wait", "explain"].includes(job.step.name);
}

/** After `stopped` nothing moves: every request is answered, the barrier is closed. */
function stop(state: ArbiterState): ArbiterStep {
  const waiting = state.waiting.flatMap((entry) => (entry.kind === "request" ? [entry.request.id] : []));
  const open = [...(state.holder?.requestIds ?? []), ...waiting];
  const reply: ArbiterReply = {
    kind: "refused",
    refusal: refusal("unavailable", "HyperSwap is shutting down", { hint: "Ask again when it is back" }),
  };
  const effects: ArbiterEffect[] = open.map((requestId) => ({ kind: "resolve", requestId, reply, reason: "shutdown" }));
  if (state.holder !== null) {
    effects.push({ kind: "abort", generation: state.holder.job.generation, reason: "shutdown" });
  }
  if (state.isBarrierOpen) effects.push({ kind: "closeBarrier", reason: "shutdown" });
  return {
    state: {
      ...state,
      isStopped: true,
      holder: null,
      waiting: [],
      watched: [],
      creep: NO_CREEP,
      margin: null,
      lateFree: null,
      isBarrierOpen: false,
    },
    effects,
  };
}
