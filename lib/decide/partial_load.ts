/**
 * A late hand-off told by its consequence (SPEC 2.4). ComfyUI finds too little free memory, loads part of a model without
 * an error and runs 2–3 times slower until it is purged; what shows that is a peak far below what this workflow took
 * before, or steps far slower than its steps were.
 */
import { type ArbiterEffect, type ArbiterEvent, GENERATIONS_PER_JOB } from "../model/events.ts";
import { type Bytes, type MonotonicMs, round, toGib } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, Waiting } from "./arbiter_state.ts";
import { comfyHoldings } from "./purge_job.ts";

/** A peak below this share of its median, or a step this many times as long as its median, and from how many runs on. */
const LEAST_PEAK_SHARE = 0.8;
const MOST_STEP_FACTOR = 1.6;
const LEAST_RUNS = 3;
/** Whole runs that count, workflows remembered, and prompts whose peak is still wanted. */
const KEPT_RUNS = 10;
const KEPT_WORKFLOWS = 64;
const KEPT_PEAKS = 16;

/** One prompt that ran whole, as it was measured. */
export interface WorkflowRun {
  readonly peakBytes: Bytes | null;
  readonly stepMs: number | null;
}

export interface PartialBook {
  /** By workflow: its last whole runs. */
  readonly runs: Readonly<Record<string, readonly WorkflowRun[]>>;
  /** The most that ComfyUI held while each prompt ran, newest last. */
  readonly peaks: readonly { readonly promptId: string; readonly bytes: Bytes }[];
  /** The record of the last hand-off, until a prompt after it was judged. */
  readonly handOffKey: string | null;
  /** A workflow is thought to lie partly outside VRAM, until it ran whole or ComfyUI was purged. */
  readonly suspect: { readonly workflow: string; readonly isHealed: boolean } | null;
}

export const NO_PARTIALS: PartialBook = { runs: {}, peaks: [], handOffKey: null, suspect: null };

export function watchPartialLoads(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  switch (event.type) {
    case "sampled":
      return heal(notePeak(forgetGone(state)), event.atMs);
    case "promptEnded":
      return event.status === "success" && event.workflow !== null
        ? judge(state, { ...event, workflow: event.workflow })
        : { state, effects: [] };
    default:
      return { state, effects: [] };
  }
}

/** What a server loaded is gone with it. */
function forgetGone(state: ArbiterState): ArbiterState {
  const { sample, partials } = state;
  return partials.suspect === null || sample?.comfy.online !== false
    ? state
    : { ...state, partials: { ...partials, suspect: null } };
}

function notePeak(state: ArbiterState): ArbiterState {
  const { sample, partials } = state;
  const promptId = sample?.comfy.runningPromptId ?? null;
  const bytes = sample === null ? null : comfyHoldings(sample).bytes;
  if (promptId === null || bytes === null) return state;
  const before = partials.peaks.find((entry) => entry.promptId === promptId)?.bytes ?? -1;
  if (bytes <= before) return state;
  const others = partials.peaks.filter((entry) => entry.promptId !== promptId);
  return { ...state, partials: { ...partials, peaks: [...others, { promptId, bytes }].slice(-KEPT_PEAKS) } };
}

interface Ended {
  readonly promptId: string;
  readonly workflow: string;
  readonly stepMs: number | null;
  readonly atMs: MonotonicMs;
}

function judge(state: ArbiterState, { promptId, workflow, stepMs, atMs }: Ended): ArbiterStep {
  const { partials } = state;
  const peakBytes = partials.peaks.find((entry) => entry.promptId === promptId)?.bytes ?? null;
  const run: WorkflowRun = { peakBytes, stepMs };
  const past = partials.runs[workflow] ?? [];
  const verdict = compare(run, past);
  const isTold = verdict !== "unknown" && partials.handOffKey !== null;
  const suspect = typeof verdict === "object"
    ? { workflow, isHealed: false }
    : partials.suspect?.workflow === workflow && verdict === "whole"
    ? null
    : partials.suspect;
  const next: ArbiterState = {
    ...state,
    // Half a model's peak says nothing of what the whole one needs.
    comfy: typeof verdict === "object" ? { ...state.comfy, isCramped: true } : state.comfy,
    partials: {
      runs: typeof verdict === "object" ? partials.runs : withRun(partials.runs, workflow, run),
      peaks: partials.peaks.filter((entry) => entry.promptId !== promptId),
      handOffKey: isTold ? null : partials.handOffKey,
      suspect,
    },
  };
  const effects: ArbiterEffect[] = [];
  if (isTold && partials.handOffKey !== null) {
    const fields = typeof verdict === "object" ? suspectedFields(state, verdict) : { suspected_partial_load: false };
    const reason = typeof verdict === "object" ? verdict.because : "the prompt after it took as much as it always did";
    effects.push({ kind: "amend", key: partials.handOffKey, fields, reason });
  } else if (typeof verdict === "object" && partials.suspect === null) {
    effects.push(note(state, { verdict, workflow, atMs }));
  }
  return { state: next, effects };
}

type Verdict = "unknown" | "whole" | { readonly because: string };

/** Against the medians of its whole runs; each figure counts from three of them on. */
function compare(run: WorkflowRun, past: readonly WorkflowRun[]): Verdict {
  const peak = medianOf(past.map(({ peakBytes }) => peakBytes));
  const step = medianOf(past.map(({ stepMs }) => stepMs));
  if (peak !== null && run.peakBytes !== null && run.peakBytes < LEAST_PEAK_SHARE * peak.median) {
    const because =
      `ComfyUI held ${toGib(run.peakBytes)} GB at most, where this workflow took ${toGib(peak.median)} GB ` +
      `(median of ${peak.n})`;
    return { because };
  }
  if (step !== null && run.stepMs !== null && run.stepMs > MOST_STEP_FACTOR * step.median) {
    const because = `a step took ${round(run.stepMs)} ms, where this workflow's took ${round(step.median)} ms ` +
      `(median of ${step.n})`;
    return { because };
  }
  const isKnown = peak !== null && run.peakBytes !== null || step !== null && run.stepMs !== null;
  return isKnown ? "whole" : "unknown";
}

function medianOf(values: readonly (number | null)[]): { readonly median: number; readonly n: number } | null {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  const n = known.length;
  const [low, high] = [known[Math.floor((n - 1) / 2)], known[Math.ceil((n - 1) / 2)]];
  return n < LEAST_RUNS || low === undefined || high === undefined ? null : { median: (low + high) / 2, n };
}

/** The newest runs of the workflows that ran last. */
export function withRun(runs: PartialBook["runs"], workflow: string, run: WorkflowRun): PartialBook["runs"] {
  const { [workflow]: past = [], ...others } = runs;
  const kept = Object.entries(others).slice(-(KEPT_WORKFLOWS - 1));
  return Object.fromEntries([...kept, [workflow, [...past, run].slice(-KEPT_RUNS)]]);
}

function remedyOf({ policy }: ArbiterState): string {
  return policy.healPartial
    ? "ComfyUI is purged at its next idle moment; the next run loads the whole model"
    : "Purge ComfyUI and run it again; comfyui.heal_partial = true does the purge by itself at the next idle moment";
}

function suspectedFields(state: ArbiterState, { because }: { readonly because: string }) {
  return { suspected_partial_load: true, suspected_because: because, remedy: remedyOf(state) };
}

/** Without a hand-off of ours to complete: somebody else was in the way. */
function note(
  state: ArbiterState,
  { verdict, workflow, atMs }: {
    readonly verdict: { readonly because: string };
    readonly workflow: string;
    readonly atMs: MonotonicMs;
  },
): ArbiterEffect {
  const message = `ComfyUI seems to have loaded only part of a model: ${verdict.because}. ${remedyOf(state)}`;
  const fields = {
    decision: "suspected_partial_load",
    cause: "partial_load",
    models: [],
    workflow,
    ...suspectedFields(state, verdict),
    message,
  };
  return { kind: "record", key: `note-${atMs}`, item: { kind: "arbitration", fields }, reason: message };
}

/** If configured: purged once ComfyUI is idle, so that the next run loads the whole model. */
function heal(state: ArbiterState, atMs: MonotonicMs): ArbiterStep {
  const { partials: { suspect }, policy, mode, comfy, sample, nextGeneration: generation } = state;
  const isWanted = suspect !== null && !suspect.isHealed && policy.healPartial && mode === "auto";
  const isIdle = comfy.queueRemaining === 0 && comfy.idleSinceMs !== null &&
    atMs - comfy.idleSinceMs >= policy.purge.quietMs && sample !== null && sample.comfy.online &&
    !sample.comfy.isRemote;
  const isFree = state.holder === null && state.waiting.length === 0 && state.margin === null;
  if (!isWanted || !isIdle || !isFree || suspect === null) return { state, effects: [] };
  const cause = { kind: "partial_load" as const };
  const entry: Waiting = { kind: "auto", job: "purge", cause, sinceMs: atMs, generation };
  return {
    state: {
      ...state,
      partials: { ...state.partials, suspect: { ...suspect, isHealed: true } },
      comfy: { ...comfy, purgeTriedForMs: comfy.idleSinceMs },
      waiting: [entry],
      nextGeneration: generation + GENERATIONS_PER_JOB,
    },
    effects: [],
  };
}
