/** What an event tells about the world, before anybody decides from it. */
import type { ArbiterEvent } from "../model/events.ts";
import type { Sample } from "../model/sample.ts";
import { isSameProcess } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, ComfyNews } from "./arbiter_state.ts";
import { comfyHoldings } from "./purge_job.ts";
import { followResidual } from "./residual.ts";
import { withoutEnded } from "./stuck.ts";

export function hear(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  switch (event.type) {
    case "sampled":
      return endMode(hearSample(state, event.sample, event.atMs), event);
    case "comfyActivity": {
      const idleSinceMs = idleSince(state.comfy, event.queueRemaining, event.atMs);
      return { state: { ...state, comfy: { ...state.comfy, idleSinceMs } }, effects: [] };
    }
    case "freeReplied":
      return hearLateFree(state, event);
    default:
      return { state, effects: [] };
  }
}

function hearSample(state: ArbiterState, sample: Sample, atMs: MonotonicMs): ArbiterState {
  return {
    ...state,
    sample,
    stuck: withoutEnded(state.stuck, sample),
    isBarrierLost: state.isBarrierLost && !sample.gpu.available,
    residualHistory: followResidual(state.residualHistory, sample.gpu),
    comfy: hearComfy(state.comfy, sample, atMs),
  };
}

/** The count itself is stored by `yieldForComfy`, which has to see it change. */
function hearComfy(news: ComfyNews, sample: Sample, atMs: MonotonicMs): ComfyNews {
  const { online, queueRemaining, server } = sample.comfy;
  // A restarted ComfyUI is another process: what the old one kept says nothing about it.
  const isRestarted = news.context !== null && server !== null && !isSameProcess(news.context.process, server);
  const context = isRestarted ? null : news.context;
  // Nothing is known of a server that is down; its queue is gone with it.
  if (!online) return { ...news, context, peakBytes: null, queueRemaining: null, idleSinceMs: null };
  const { bytes } = comfyHoldings(sample);
  const isWorking = (news.queueRemaining ?? 0) > 0;
  return {
    ...news,
    context,
    peakBytes: isWorking && bytes !== null ? Math.max(news.peakBytes ?? 0, bytes) : news.peakBytes,
    idleSinceMs: queueRemaining === null ? news.idleSinceMs : idleSince(news, queueRemaining, atMs),
  };
}

/** Since when the queue has been empty, with the newest count taken in; null while it has work. */
function idleSince(news: ComfyNews, queueRemaining: number, atMs: MonotonicMs): MonotonicMs | null {
  return queueRemaining > 0 ? null : news.idleSinceMs ?? atMs;
}

function endMode(state: ArbiterState, { sample, atMs }: Extract<ArbiterEvent, { type: "sampled" }>): ArbiterStep {
  if (state.modeUntilMs === null || sample.atMs < state.modeUntilMs) return { state, effects: [] };
  const reason = `the time of mode ${state.mode} is over`;
  const fields = { mode: "auto", until_ms: null, keep: state.keep, message: `Mode is auto again: ${reason}` };
  return {
    state: { ...state, mode: "auto", modeUntilMs: null },
    effects: [{ kind: "record", key: `mode-${atMs}`, item: { kind: "arbitration", fields }, reason }],
  };
}

/** The `/free` of a purge that gave way while it was being prepared: it went out after all, beside a prompt. */
function hearLateFree(state: ArbiterState, event: Extract<ArbiterEvent, { type: "freeReplied" }>): ArbiterStep {
  const { lateFree } = state;
  if (lateFree === null || event.generation !== lateFree.generation) return { state, effects: [] };
  const next = { ...state, lateFree: null };
  if (event.reply.kind !== "sent") return { state: next, effects: [] };
  const reason = "/free went out as a prompt arrived: it may strike right after that prompt";
  return {
    state: next,
    effects: [{ kind: "amend", key: lateFree.key, fields: { purge_overlapped: true }, reason }],
  };
}
