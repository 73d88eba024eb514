/**
 * Creep-back (SPEC 2.4): a load that begins after Ollama has yielded and before ComfyUI has taken the memory. Others'
 * loads can't be held from the side, so each is recorded, and asked to go again after 2, 8 and 30 s, three times a minute
 * at most: whoever insists is named and left alone then, since asking on would only keep both from working.
 */
import type { YieldResult } from "../model/arbitration.ts";
import { type ArbiterEffect, type ArbiterEvent, GENERATIONS_PER_JOB } from "../model/events.ts";
import { isSameModel } from "../model/model_names.ts";
import type { BarrierReading, Sample } from "../model/sample.ts";
import { isSameProcess, type ProcessId, type Runner } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, LaneJob, Waiting } from "./arbiter_state.ts";
import { type MarginWatch, watchGrowth, watchMarginOf } from "./margin.ts";
import { comfyHoldings } from "./purge_job.ts";
import { viewOf } from "./residual.ts";
import { findTargets, type Target } from "./yield_targets.ts";

/** Pause before an insister is asked to go again, by how often it came back within a minute. */
const PAUSES_MS = [2_000, 8_000, 30_000] as const;
const MOST_REYIELDS = 3;
const MINUTE_MS = 60_000;

/** Somebody who loads a model though the card is ComfyUI's. */
export interface Insister {
  /** The model; its blob where no name is known. */
  readonly who: string;
  /** Its newest runner. */
  readonly process: ProcessId;
  /** Each return within the last minute. */
  readonly seenMs: readonly MonotonicMs[];
  /** Each time it was asked to go for that within the last minute. */
  readonly askedMs: readonly MonotonicMs[];
  readonly dueMs: MonotonicMs | null;
}

export interface CreepWatch {
  /** Open from a yield's end until ComfyUI has taken memory, or has no work any more. */
  readonly window: {
    readonly winner: MarginWatch;
    /** Runners that are no news: they outlived the yield, or were told of already. */
    readonly known: readonly ProcessId[];
  } | null;
  readonly insisters: readonly Insister[];
}

export const NO_CREEP: CreepWatch = { window: null, insisters: [] };

/** A yield for ComfyUI has ended: from now on a new runner is one that crept back. */
export function openWindow(
  state: ArbiterState,
  job: LaneJob,
  { result, key }: { readonly result: YieldResult; readonly key: string },
): CreepWatch {
  const { creep, margin, sample } = state;
  const isForComfy = result.cause.kind === "comfy_enqueued" || result.cause.kind === "crept_back" ||
    margin?.key === key;
  const isOver = result.outcome === "unreachable" || result.outcome === "remote";
  if (job.kind !== "yield" || !isForComfy || isOver || !hasWork(state) || sample === null) return creep;
  const winner = margin?.key === key ? margin : creep.window?.winner ?? winnerOf(sample, job.startedMs);
  const known = [...job.runners, ...creep.window?.known ?? [], ...creep.insisters.map(({ process }) => process)];
  return { ...creep, window: winner.grewMs === null ? { winner, known } : null };
}

function winnerOf(sample: Sample, atMs: MonotonicMs): MarginWatch {
  const { pids, bytes } = comfyHoldings(sample);
  return watchMarginOf("", { pids, bytes, atMs });
}

function hasWork({ comfy }: ArbiterState): boolean {
  return (comfy.queueRemaining ?? 0) > 0;
}

/** Looks for whoever creeps back, and asks them to go once their pause is over. */
export function watchCreepBack(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  switch (event.type) {
    case "reading":
      return { state: followWinner(state, event.reading), effects: [] };
    case "runnersChanged":
      return notice(state, event.runners, event.atMs);
    case "sampled": {
      const seen = followSample(state, event.sample, event.atMs);
      const noticed = notice(seen, event.sample.ollama.runners, event.atMs);
      return { state: askAgain(noticed.state, event), effects: noticed.effects };
    }
    default:
      return { state, effects: [] };
  }
}

function followWinner(state: ArbiterState, look: Parameters<typeof watchGrowth>[1]): ArbiterState {
  const { creep } = state;
  if (creep.window === null) return state;
  const winner = watchGrowth(creep.window.winner, look, state.policy.margin);
  if (winner === creep.window.winner) return state;
  return { ...state, creep: { ...creep, window: winner.grewMs === null ? { ...creep.window, winner } : null } };
}

function followSample(state: ArbiterState, sample: Sample, atMs: MonotonicMs): ArbiterState {
  const view = viewOf(sample.gpu);
  const look: Pick<BarrierReading, "atMs" | "usedBytes" | "processes"> | null = view && { ...view, atMs };
  const followed = look === null ? state : followWinner(state, look);
  const { window, insisters } = followed.creep;
  // Where the driver doesn't tell, that it took its memory is supposed after as long as a margin is watched.
  const isBlind = window !== null && window.winner.bytesBefore === null &&
    atMs - window.winner.startedMs >= state.policy.margin.watchMs;
  const isOver = !hasWork(state) || isBlind;
  const recent = insisters.flatMap((entry) => {
    const isRecent = (ms: MonotonicMs) => atMs - ms < MINUTE_MS;
    const seenMs = entry.seenMs.filter(isRecent);
    return seenMs.length === 0 ? [] : [{ ...entry, seenMs, askedMs: entry.askedMs.filter(isRecent) }];
  });
  if (window === null && insisters.length === 0) return followed;
  return { ...followed, creep: { window: isOver ? null : window, insisters: recent } };
}

/** Records each runner that is new since the yield. */
function notice(state: ArbiterState, runners: readonly Runner[], atMs: MonotonicMs): ArbiterStep {
  const { creep, sample, keep, mode } = state;
  const { window } = creep;
  if (window === null || sample === null || !hasWork(state)) return { state, effects: [] };
  const fresh = runners.filter((runner) =>
    !runner.isOrphan && !window.known.some((known) => isSameProcess(known, runner))
  );
  if (fresh.length === 0) return { state, effects: [] };
  const scope = { models: null, keep };
  const { resident } = sample.ollama;
  const targets = findTargets([], { runners: fresh, resident, names: sample.ollama, scope });
  const known = [...window.known, ...fresh.map(({ pid, startTime }) => ({ pid, startTime }))];
  let next: ArbiterState = { ...state, creep: { ...creep, window: { ...window, known } } };
  const effects: ArbiterEffect[] = [];
  for (const target of targets.filter((entry) => !isOurs(state, entry))) {
    if (mode === "paused") continue;
    const told = tell(next, target, atMs);
    next = told.state;
    effects.push(...told.effects);
  }
  return { state: next, effects };
}

/** A load of our own is no intruder: it was let go because both fit. */
function isOurs({ holder }: ArbiterState, { model }: Target): boolean {
  const { job } = holder ?? { job: null };
  const isLoad = job?.kind === "switch" || job?.kind === "reload";
  return isLoad && (model === null || isSameModel(model, job.request.model));
}

function tell(state: ArbiterState, { runner, model }: Target, atMs: MonotonicMs): ArbiterStep {
  const { creep, mode } = state;
  const who = model ?? runner.blob ?? "an unknown model";
  const before = creep.insisters.find((entry) => entry.who === who);
  const seenMs = [...before?.seenMs ?? [], atMs];
  const askedMs = before?.askedMs ?? [];
  const isLeft = askedMs.length >= MOST_REYIELDS || mode !== "auto";
  const pauseMs = isLeft ? null : PAUSES_MS[Math.min(askedMs.length, PAUSES_MS.length - 1)] ?? null;
  const { pid, startTime } = runner;
  const dueMs = pauseMs === null ? null : atMs + pauseMs;
  const insister: Insister = { who, process: { pid, startTime }, seenMs, askedMs, dueMs };
  const others = creep.insisters.filter((entry) => entry !== before);
  const message = messageFor({ who, pid, times: seenMs.length, pauseMs, isObserved: mode !== "auto" });
  const fields = {
    decision: "crept_back",
    cause: "crept_back",
    models: [who],
    insists: who,
    pid,
    times: seenMs.length,
    again_in_ms: pauseMs,
    message,
  };
  return {
    state: { ...state, creep: { ...creep, insisters: [...others, insister] } },
    effects: [
      { kind: "record", key: `crept-${pid}-${startTime}`, item: { kind: "arbitration", fields }, reason: message },
    ],
  };
}

function messageFor(
  { who, pid, times, pauseMs, isObserved }: {
    readonly who: string;
    readonly pid: number;
    readonly times: number;
    readonly pauseMs: number | null;
    readonly isObserved: boolean;
  },
): string {
  const often = times === 1 ? "" : ` for the ${times}${["st", "nd", "rd"][times - 1] ?? "th"} time within a minute`;
  const what = `${who} (pid ${pid}) was loaded${often} before ComfyUI had taken the memory it was given`;
  if (isObserved) return `${what} (mode observe)`;
  if (pauseMs !== null) return `${what}: it is asked to go again in ${pauseMs / 1_000} s, unless ComfyUI is faster`;
  return `${what}: whoever uses it insists. It was asked ${MOST_REYIELDS} times within a minute and is left alone now; ` +
    "keep it, pause that client, or let the gate hold it";
}

/** Their pause is over, and ComfyUI still waits for its memory: one yield for all of them. */
function askAgain(state: ArbiterState, { atMs, sample }: Extract<ArbiterEvent, { type: "sampled" }>): ArbiterState {
  const { creep, mode, policy } = state;
  const due = creep.insisters.filter(({ dueMs }) => dueMs !== null && dueMs <= atMs);
  if (due.length === 0) return state;
  const isYielding = state.holder?.job.kind === "yield" ||
    state.waiting.some((entry) => entry.kind === "auto" && entry.job === "yield");
  if (isYielding) return state;
  const mayAsk = creep.window !== null && mode === "auto" && (sample.gpu.available || policy.proceedUnconfirmed);
  const present = due.filter(({ process }) => sample.ollama.runners.some((runner) => isSameProcess(runner, process)));
  const isAsked = mayAsk && present.length > 0;
  const insisters = creep.insisters.map((entry) => {
    if (!due.includes(entry)) return entry;
    const askedMs = isAsked && present.includes(entry) ? [...entry.askedMs, atMs] : entry.askedMs;
    return { ...entry, dueMs: null, askedMs };
  });
  const next = { ...state, creep: { ...creep, insisters } };
  if (!isAsked) return next;
  const entry: Waiting = {
    kind: "auto",
    job: "yield",
    cause: { kind: "crept_back" },
    sinceMs: atMs,
    generation: state.nextGeneration,
  };
  return {
    ...next,
    waiting: [entry, ...state.waiting],
    nextGeneration: state.nextGeneration + GENERATIONS_PER_JOB,
  };
}
