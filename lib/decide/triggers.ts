/** What makes the arbiter act by itself: ComfyUI gets work, or has had none for a while (SPEC 2.2, 2.3). */
import { type ArbiterEvent, GENERATIONS_PER_JOB } from "../model/events.ts";
import type { Sample } from "../model/sample.ts";
import type { ArbiterState, ArbiterStep, Waiting } from "./arbiter_state.ts";
import { peakOf } from "./footprint.ts";
import { learn } from "./footprint_watch.ts";
import { beginMargin, servingYield } from "./hand_off_watch.ts";
import { movedReload, movedSwitch, moveHolder } from "./lane.ts";
import { recordKey } from "./lane_results.ts";
import { COMFY_KEY, fits, freeOf, needOf } from "./need.ts";
import { comfyHoldings, holdsModels } from "./purge_job.ts";
import { preemptReload } from "./reload_job.ts";
import { preemptSwitch } from "./switch_job.ts";
import { findTargets, isRowTaken } from "./yield_targets.ts";

/** ComfyUI starts work → every resident model not kept goes, unless both fit. Decided on the status frame itself. */
export function yieldForComfy(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type === "sampled" && !event.sample.comfy.online) return { state: dropWaitingYield(state), effects: [] };
  const count = countOf(event);
  if (count === null || count === state.comfy.queueRemaining) return { state, effects: [] };
  const hadWork = (state.comfy.queueRemaining ?? 0) > 0;
  const heard: ArbiterState = { ...state, comfy: { ...state.comfy, queueRemaining: count } };
  if (count === 0) return hadWork ? endStretch(heard) : { state: heard, effects: [] };
  if (hadWork || heard.sample === null) return { state: heard, effects: [] };
  const begun: ArbiterState = { ...heard, comfy: { ...heard.comfy, peakBytes: null, isCramped: false } };
  return decideYield(begun, heard.sample, event);
}

function countOf(event: ArbiterEvent): number | null {
  if (event.type === "comfyActivity") return event.queueRemaining;
  return event.type === "sampled" ? event.sample.comfy.queueRemaining : null;
}

/** Its work is done: what it took is its footprint. */
function endStretch(state: ArbiterState): ArbiterStep {
  const { peakBytes, isCramped } = state.comfy;
  const ended = dropWaitingYield({ ...state, comfy: { ...state.comfy, peakBytes: null } });
  return peakBytes === null || isCramped
    ? { state: ended, effects: [] }
    : learn(ended, { key: COMFY_KEY, measured: peakOf(peakBytes) });
}

/** A yield that still waits when ComfyUI has no work any more lapses, and the watch on its race with it. */
function dropWaitingYield(state: ArbiterState): ArbiterState {
  const lapsed = state.waiting.flatMap((entry) => entry.kind === "auto" && entry.job === "yield" ? [entry] : []);
  const isWatched = lapsed.some(({ generation }) => state.margin?.key === recordKey(generation, "yield"));
  if (lapsed.length === 0) return state;
  return {
    ...state,
    waiting: state.waiting.filter((entry) => !lapsed.some((other) => other === entry)),
    margin: isWatched ? null : state.margin,
  };
}

/** What a prompt of ComfyUI's means for Ollama just now. */
export type YieldChoice =
  | { readonly kind: "nobody" }
  /** `models`: those that are listed; what is only loading has no name yet. */
  | { readonly kind: "yield"; readonly models: readonly string[] }
  | {
    readonly kind: "both_stay" | "observe" | "paused" | "held_back";
    readonly models: readonly string[];
    readonly message: string;
  };

export function chooseYield(
  state: Pick<ArbiterState, "keep" | "holder" | "policy" | "footprints" | "mode">,
  sample: Sample,
): YieldChoice {
  const { gpu, ollama, comfy } = sample;
  if (comfy.isRemote || ollama.isRemote) return { kind: "nobody" };
  const scope = { models: null, keep: state.keep };
  const { resident, runners } = ollama;
  const models = resident.filter((row) => isRowTaken(row, scope, ollama)).map((row) => row.name);
  const targets = findTargets([], { runners, resident, names: ollama, scope });
  const isLoading = state.holder?.job.kind === "switch" || state.holder?.job.kind === "reload" ||
    targets.some((target) => !target.isListed);
  if (models.length === 0 && !isLoading) return { kind: "nobody" };
  const need = needOf(COMFY_KEY, state.policy, state.footprints);
  const held = comfyHoldings(sample).bytes ?? 0;
  // What is loading will take more than it has taken so far: nothing can be said to fit beside it.
  if (!isLoading && need !== null && fits(Math.max(0, need - held), freeOf(gpu), state.policy)) {
    return { kind: "both_stay", models, message: "ComfyUI's need fits beside Ollama: nobody is evicted" };
  }
  if (state.mode !== "auto") {
    const message = state.mode === "observe"
      ? "ComfyUI has work: Ollama would be asked to yield (mode observe)"
      : "ComfyUI has work; arbitration is paused";
    return { kind: state.mode, models, message };
  }
  if (!gpu.available && !state.policy.proceedUnconfirmed) {
    const message = "ComfyUI has work, but the driver can't confirm a release and the configuration says to hold then";
    return { kind: "held_back", models, message };
  }
  return { kind: "yield", models };
}

function decideYield(state: ArbiterState, sample: Sample, event: ArbiterEvent): ArbiterStep {
  const choice = chooseYield(state, sample);
  switch (choice.kind) {
    case "yield":
      return enqueueYield(state, sample, event);
    case "nobody": {
      const { gpu, ollama, comfy } = sample;
      // What began to load since the last sample is found only by looking, and looking is all that is done if nothing did.
      const mayLook = state.mode === "auto" && ollama.online && !ollama.isRemote && !comfy.isRemote &&
        (gpu.available || state.policy.proceedUnconfirmed);
      return mayLook ? enqueueYield(state, sample, event) : { state, effects: [] };
    }
    default: {
      const { kind: decision, models, message } = choice;
      return note(state, event, { decision, models, message });
    }
  }
}

/** The automatic yield goes to the front; one that is under way already serves this prompt, too. */
function enqueueYield(state: ArbiterState, sample: Sample, event: ArbiterEvent): ArbiterStep {
  const running = servingYield(state);
  const generation = running ?? state.nextGeneration;
  const key = recordKey(generation, "yield");
  const watching = beginMargin(state, sample, { key, atMs: event.atMs });
  if (running !== null) return watching;
  const cause = { kind: "comfy_enqueued" as const };
  const entry: Waiting = { kind: "auto", job: "yield", cause, sinceMs: event.atMs, generation };
  const queued: ArbiterState = {
    ...watching.state,
    waiting: [entry, ...state.waiting],
    nextGeneration: state.nextGeneration + GENERATIONS_PER_JOB,
  };
  // A load of ours wants the same memory.
  const kind = queued.holder?.job.kind;
  const preempted = kind === "switch" || kind === "reload" ? preempt(queued, event) : { state: queued, effects: [] };
  return { state: preempted.state, effects: [...watching.effects, ...preempted.effects] };
}

function preempt(state: ArbiterState, { atMs }: ArbiterEvent): ArbiterStep {
  return moveHolder(
    state,
    atMs,
    (job, context) => {
      if (job.kind === "switch") return movedSwitch(job, preemptSwitch(job, context));
      if (job.kind === "reload") return movedReload(job, preemptReload(job, context));
      return { job, effects: [], reply: null, yielded: null, purged: null };
    },
  );
}

interface Note {
  readonly decision: string;
  readonly models: readonly string[];
  readonly message: string;
  readonly cause?: "comfy_enqueued" | "comfy_idle";
}

function note(state: ArbiterState, event: ArbiterEvent, { cause = "comfy_enqueued", ...fields }: Note): ArbiterStep {
  const item = { kind: "arbitration" as const, fields: { ...fields, cause } };
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
  const isWorthIt = holdsModels({ sample, policy, comfyContextBytes: comfy.context?.bytes ?? null });
  if (isWorthIt !== true || state.mode === "paused") return { state, effects: [] };
  const tried: ArbiterState = { ...state, comfy: { ...comfy, purgeTriedForMs: comfy.idleSinceMs } };
  if (state.mode === "observe") {
    const message = "ComfyUI is idle and would be purged (mode observe)";
    return note(tried, event, { decision: "observe", models: [], message, cause: "comfy_idle" });
  }
  const entry: Waiting = {
    kind: "auto",
    job: "purge",
    cause: { kind: "comfy_idle" },
    sinceMs: event.atMs,
    generation: state.nextGeneration,
  };
  const nextGeneration = state.nextGeneration + GENERATIONS_PER_JOB;
  return { state: { ...tried, waiting: [...state.waiting, entry], nextGeneration }, effects: [] };
}
