/**
 * The arbiter: who may have the card. A pure reducer; each event passes the stages below in order, and each stage adds
 * what it decided. Read `reduceArbiter` first.
 */
import type { ArbiterEffect, ArbiterEvent, Step } from "../model/events.ts";
import type { ArbiterReply } from "../model/arbitration.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ComfyNews } from "./arbiter_state.ts";
import { cancelRequest, receiveRequest, startNext, stepLane } from "./lane.ts";
import { comfyHoldings } from "./purge_job.ts";
import { findMargin, marginFields, watchGrowth } from "./margin.ts";
import { idlePurge, yieldForComfy } from "./triggers.ts";
import { releaseWatched } from "./watched.ts";
import { refusal } from "./switch_plan.ts";
import { isSameProcess } from "../model/tenants.ts";

export type ArbiterStep = Step<ArbiterState, ArbiterEffect>;
type Stage = (state: ArbiterState, event: ArbiterEvent) => ArbiterStep;

const STAGES: readonly Stage[] = [
  hear,
  takeOrders,
  yieldForComfy,
  stepLane,
  watchMargin,
  releaseWatched,
  idlePurge,
  startNext,
  tendBarrier,
];

export function reduceArbiter(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (state.isStopped) return { state, effects: [] };
  if (event.type === "stopped") return stop(state);
  let next = state;
  const effects: ArbiterEffect[] = [];
  for (const stage of STAGES) {
    const step = stage(next, event);
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

/** What an event tells about the world, before anybody decides from it. */
function hear(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type === "sampled") return { state: hearSample(state, event), effects: [] };
  if (event.type !== "comfyActivity") return { state, effects: [] };
  const idleSinceMs = idleSince(state, event.queueRemaining, event.atMs);
  return { state: { ...state, comfy: { ...state.comfy, idleSinceMs } }, effects: [] };
}

/**
 * Since when the queue has been empty, with the newest count taken in; null while it has work. The count itself is
 * stored by `yieldForComfy`, which has to see it change.
 */
function idleSince(state: ArbiterState, queueRemaining: number, atMs: MonotonicMs): MonotonicMs | null {
  if (queueRemaining > 0) return null;
  const hadWork = (state.comfy.queueRemaining ?? 0) > 0;
  return hadWork || state.comfy.idleSinceMs === null ? atMs : state.comfy.idleSinceMs;
}

function hearSample(state: ArbiterState, event: Extract<ArbiterEvent, { type: "sampled" }>): ArbiterState {
  const { sample } = event;
  const isOver = state.modeUntilMs !== null && sample.atMs >= state.modeUntilMs;
  const { bytes } = comfyHoldings(sample);
  const isWorking = (state.comfy.queueRemaining ?? 0) > 0;
  const peakBytes = isWorking && bytes !== null ? Math.max(state.comfy.peakBytes ?? 0, bytes) : state.comfy.peakBytes;
  const server = sample.comfy.server;
  // A restarted ComfyUI is another process: what the old one kept says nothing about it.
  const context = state.comfy.context !== null && server !== null && isSameProcess(state.comfy.context.process, server)
    ? state.comfy.context
    : server === null
    ? state.comfy.context
    : null;
  const { online, queueRemaining } = sample.comfy;
  const comfy: ComfyNews = online
    ? {
      ...state.comfy,
      context,
      peakBytes,
      idleSinceMs: queueRemaining === null ? state.comfy.idleSinceMs : idleSince(state, queueRemaining, event.atMs),
    }
    // Nothing is known of a server that is down; its queue is gone with it.
    : { ...state.comfy, context, peakBytes: null, queueRemaining: null, idleSinceMs: null };
  return {
    ...state,
    sample,
    mode: isOver ? "auto" : state.mode,
    modeUntilMs: isOver ? null : state.modeUntilMs,
    comfy,
  };
}

function takeOrders(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  switch (event.type) {
    case "requested":
      return receiveRequest(state, event);
    case "cancelled":
      return cancelRequest(state, event);
    case "modeSet": {
      const { mode, untilMs, keep } = event.change;
      const next = { ...state, mode, modeUntilMs: untilMs, keep: keep ?? state.keep };
      const item = {
        kind: "arbitration" as const,
        fields: { mode, until_ms: untilMs, keep: next.keep, message: `Mode set to ${mode}` },
      };
      const reason = "the mode was set by hand";
      return { state: next, effects: [{ kind: "record", key: `mode-${event.atMs}`, item, reason }] };
    }
    default:
      return { state, effects: [] };
  }
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
  const isWanted = state.holder !== null || state.margin !== null;
  const isLost = event.type === "barrierLost";
  if (isWanted && !state.isBarrierOpen && (state.sample?.gpu.available ?? false) && !isLost) {
    const reason = "a release is to be confirmed by the driver";
    return { state: { ...state, isBarrierOpen: true }, effects: [{ kind: "openBarrier", reason }] };
  }
  if (state.isBarrierOpen && (!isWanted || isLost)) {
    const reason = isLost ? "the driver stopped answering" : "nobody waits for a release any more";
    return { state: { ...state, isBarrierOpen: false }, effects: [{ kind: "closeBarrier", reason }] };
  }
  return { state, effects: [] };
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
    state: { ...state, isStopped: true, holder: null, waiting: [], margin: null, isBarrierOpen: false },
    effects,
  };
}
