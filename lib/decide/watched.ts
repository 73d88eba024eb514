/** The detached watcher: runners that held on when their yield ended, until they are seen to have let go. */
import type { YieldResult } from "../model/arbitration.ts";
import { type ArbiterEffect, type ArbiterEvent, NO_JOB } from "../model/events.ts";
import type { Sample } from "../model/sample.ts";
import { isSameProcess } from "../model/tenants.ts";
import { type MonotonicMs, round } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, LaneJob, Watched } from "./arbiter_state.ts";
import { isRowTaken, matchRows, type Target } from "./yield_targets.ts";

/** Runners watched at once; a box has a handful. */
const MOST_WATCHED = 32;
/** Pause before a model that stays busy is asked again (SPEC 2.1: back off per model). */
const PAUSES_MS = [2_000, 8_000, 30_000] as const;

/** The runners to go on watching after a yield that left some behind. */
export function watchHeld(
  job: LaneJob,
  { result, key, atMs }: { readonly result: YieldResult; readonly key: string; readonly atMs: number },
): readonly Watched[] {
  if (result.outcome !== "busy" && result.outcome !== "fault" && result.outcome !== "timeout") return [];
  const targets = targetsIn(job);
  return result.held.flatMap((held) => {
    const target = targets.find((entry) => entry.runner.pid === held.pid);
    if (target === undefined) return [];
    const { pid, startTime } = target.runner;
    return [{
      process: { pid, startTime },
      model: target.model,
      key,
      sinceMs: atMs,
      needsUnload: !target.isListed,
      isAutomatic: result.cause.kind !== "operation" && result.cause.kind !== "gate",
      asks: 0,
      askedMs: atMs,
    }];
  });
}

export function targetsIn(job: LaneJob): readonly Target[] {
  if (job.kind === "yield") return job.targets;
  if (job.kind === "reload") return job.step.name === "yield" ? job.step.job.targets : [];
  return job.kind === "switch" && job.step.name === "yield" ? job.step.job.targets : [];
}

/** One entry a process: the newest yield that it outlived is the one that hears of its end. */
export function mergeWatched(watched: readonly Watched[], fresh: readonly Watched[]): readonly Watched[] {
  const others = watched.filter((entry) => !fresh.some((other) => isSameProcess(entry.process, other.process)));
  return [...others, ...fresh].slice(-MOST_WATCHED);
}

/** On each sample: who has let go since, and who can be asked now that it is listed. */
export function releaseWatched(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type !== "sampled" || state.watched.length === 0) return { state, effects: [] };
  const effects: ArbiterEffect[] = [];
  const watched: Watched[] = [];
  for (const entry of state.watched) {
    const { pid } = entry.process;
    if (hasLetGo(entry, event.sample)) {
      const fields = { released_later_ms: round(event.atMs - entry.sinceMs), released_later_pid: pid };
      effects.push({ kind: "amend", key: entry.key, fields, reason: `pid ${pid} has let go of its memory` });
      continue;
    }
    const row = entry.needsUnload || isDueAgain(entry, event.atMs) ? listedRow(entry, event.sample) : null;
    if (row === null || !isStillWanted(state, entry, row)) {
      watched.push(row === null || !entry.needsUnload ? entry : { ...entry, model: row.name, needsUnload: false });
      continue;
    }
    const reason = entry.needsUnload
      ? `${row.name} was loading when it was asked to go, and is listed now`
      : `${row.name} is still there ${Math.round((event.atMs - entry.askedMs) / 1_000)} s after it was asked to go`;
    effects.push({ kind: "unload", generation: NO_JOB, model: row.name, reason });
    const asks = entry.needsUnload ? 0 : entry.asks + 1;
    watched.push({ ...entry, model: row.name, needsUnload: false, asks, askedMs: event.atMs });
  }
  return { state: { ...state, watched }, effects };
}

/**
 * A busy model unloads when its answer ends, unless a request with a keep_alive of its own has rescued it meanwhile: so it
 * is asked again, ever more seldom. Whoever asked by hand asks again by hand.
 */
function isDueAgain({ isAutomatic, asks, askedMs }: Watched, atMs: MonotonicMs): boolean {
  return isAutomatic && atMs - askedMs >= (PAUSES_MS[Math.min(asks, PAUSES_MS.length - 1)] ?? Infinity);
}

function hasLetGo(entry: Watched, sample: Sample): boolean {
  if (!sample.sources.processes.ok || !sample.gpu.available || sample.gpu.reading.processes === null) return false;
  const isRunning = sample.ollama.runners.some((runner) => isSameProcess(runner, entry.process));
  const row = sample.gpu.reading.processes.find((process) => process.pid === entry.process.pid);
  return !isRunning && (row === undefined || row.usedBytes === 0);
}

type Row = Sample["ollama"]["resident"][number];

function listedRow(entry: Watched, { ollama }: Sample): Row | null {
  const runner = ollama.runners.find((candidate) => isSameProcess(candidate, entry.process));
  return runner === undefined ? null : matchRows(ollama.runners, ollama.resident, ollama).get(runner.pid) ?? null;
}

/** What nobody asked for is done only in mode auto, for a ComfyUI that still has work, and not to what is kept. */
function isStillWanted(state: ArbiterState, entry: Watched, row: Row): boolean {
  if (!entry.isAutomatic) return true;
  const { mode, comfy, keep, sample } = state;
  return mode === "auto" && (comfy.queueRemaining ?? 0) > 0 && sample !== null &&
    isRowTaken(row, { models: null, keep }, sample.ollama);
}
