/** What makes the arbiter act by itself: ComfyUI gets work, or has had none for a while (SPEC 2.2, 2.3). */
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import { GIB } from "../model/units.ts";
import type { ArbiterStep } from "./arbiter.ts";
import type { ArbiterState, Waiting } from "./arbiter_state.ts";
import { refusal } from "./switch_plan.ts";
import { COMFY_KEY, fits, freeOf, needOf } from "./need.ts";
import { comfyHoldings } from "./purge_job.ts";
import { isInScope } from "./yield_targets.ts";

/** What ComfyUI may hold before its context was ever measured without being worth a purge: a context is ~0.8 GiB. */
const UNMEASURED_CONTEXT_BYTES = GIB;

/** ComfyUI starts work → every resident model not kept goes, unless both fit. Decided on the status frame itself. */
export function yieldForComfy(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  const count = countOf(event);
  if (count === null || count === state.comfy.queueRemaining) return { state, effects: [] };
  const hadWork = (state.comfy.queueRemaining ?? 0) > 0;
  const heard: ArbiterState = { ...state, comfy: { ...state.comfy, queueRemaining: count } };
  if (hadWork || count === 0 || heard.sample === null) return { state: heard, effects: [] };
  return decideYield(heard, event);
}

function countOf(event: ArbiterEvent): number | null {
  if (event.type === "comfyActivity") return event.queueRemaining;
  return event.type === "sampled" && event.sample.comfy.online ? event.sample.comfy.queueRemaining : null;
}

function decideYield(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  const sample = state.sample;
  if (sample === null || sample.comfy.isRemote || sample.ollama.isRemote) return { state, effects: [] };
  const leaving = sample.ollama.resident.filter((row) => isInScope(row.name, { models: null, keep: state.keep }));
  const isLoading = sample.ollama.runners.length > sample.ollama.resident.length;
  const isLoadOfOurs = state.holder?.job.kind === "switch";
  if (leaving.length === 0 && !isLoading && !isLoadOfOurs) return { state, effects: [] };
  const models = leaving.map((row) => row.name);
  const need = needOf(COMFY_KEY, state.policy, state.footprints);
  const held = comfyHoldings(sample).bytes ?? 0;
  if (need !== null && fits(Math.max(0, need - held), freeOf(sample.gpu), state.policy)) {
    return note(state, event, {
      decision: "both_stay",
      models,
      message: "ComfyUI's measured need fits beside Ollama: nobody is evicted",
    });
  }
  if (state.mode !== "auto") {
    const message = state.mode === "observe"
      ? "ComfyUI has work: Ollama would be asked to yield (mode observe)"
      : "ComfyUI has work; arbitration is paused";
    return note(state, event, { decision: state.mode, models, message });
  }
  if (!sample.gpu.available && !state.policy.proceedUnconfirmed) {
    const message = "ComfyUI has work, but the driver can't confirm a release and the configuration says to hold then";
    return note(state, event, { decision: "held_back", models, message });
  }
  return enqueueYield(state, event);
}

/** The automatic yield goes to the front; a load of ours that runs is hung up on, since it wants the same memory. */
function enqueueYield(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  const entry: Waiting = { kind: "auto", job: "yield", cause: { kind: "comfy_enqueued" }, sinceMs: event.atMs };
  // The entry at the front gets the next generation: the lane hands them out in order.
  const key = `job-${state.nextGeneration}-yield`;
  const sample = state.sample;
  const { pids, bytes } = sample === null ? { pids: [], bytes: null } : comfyHoldings(sample);
  const server = sample?.comfy.server ?? null;
  const winners = server === null || pids.includes(server.pid) ? pids : [...pids, server.pid];
  const margin = winners.length === 0 || state.margin !== null ? state.margin : {
    key,
    pids: winners,
    bytesBefore: bytes,
    startedMs: event.atMs,
    confirmedMs: null,
    isConcluded: false,
    grewMs: null,
  };
  const queued: ArbiterState = { ...state, margin, waiting: [entry, ...state.waiting] };
  return preemptLoad(queued);
}

function preemptLoad(state: ArbiterState): ArbiterStep {
  const { holder } = state;
  if (holder?.job.kind !== "switch" || (holder.job.step.name !== "load" && holder.job.step.name !== "wait")) {
    return { state, effects: [] };
  }
  const why = refusal("busy", "ComfyUI began to execute while the model was loading: the load was hung up on", {
    hint: "Try again when ComfyUI's queue is empty",
  });
  const reason = "ComfyUI has work, and this load wants the same memory";
  const effects: ArbiterEffect[] = [{ kind: "abort", generation: holder.job.generation, reason }];
  for (const requestId of holder.requestIds) {
    effects.push({ kind: "resolve", requestId, reply: { kind: "refused", refusal: why }, reason });
  }
  return { state: { ...state, holder: null }, effects };
}

function note(
  state: ArbiterState,
  event: ArbiterEvent,
  fields: { readonly decision: string; readonly models: readonly string[]; readonly message: string },
): ArbiterStep {
  const item = { kind: "arbitration" as const, fields: { ...fields, cause: "comfy_enqueued" } };
  return { state, effects: [{ kind: "record", key: `note-${event.atMs}`, item, reason: fields.message }] };
}

/** ComfyUI's queue truly empty for long enough → purge, once per idle stretch. */
export function idlePurge(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  const { sample, comfy, policy } = state;
  if (event.type !== "sampled" || sample === null || policy.purge.idleMs === null) return { state, effects: [] };
  const isIdle = comfy.queueRemaining === 0 && sample.comfy.online && sample.comfy.executing !== true &&
    comfy.idleSinceMs !== null && event.atMs - comfy.idleSinceMs >= policy.purge.idleMs;
  const isFree = state.holder === null && state.waiting.length === 0 && state.margin === null;
  if (!isIdle || !isFree || sample.comfy.isRemote || comfy.purgeTriedForMs === comfy.idleSinceMs) {
    return { state, effects: [] };
  }
  const { bytes } = comfyHoldings(sample);
  const floor = (comfy.context?.bytes ?? UNMEASURED_CONTEXT_BYTES) + policy.purge.slackBytes;
  if (bytes === null || bytes <= floor) return { state, effects: [] };
  const tried: ArbiterState = { ...state, comfy: { ...comfy, purgeTriedForMs: comfy.idleSinceMs } };
  if (state.mode === "observe") {
    return note(tried, event, {
      decision: "observe",
      models: [],
      message: "ComfyUI is idle and would be purged (mode observe)",
    });
  }
  if (state.mode === "paused") return { state, effects: [] };
  const entry: Waiting = { kind: "auto", job: "purge", cause: { kind: "comfy_idle" }, sinceMs: event.atMs };
  return { state: { ...tried, waiting: [entry] }, effects: [] };
}
