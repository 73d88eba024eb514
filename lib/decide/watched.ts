/** The detached watcher: runners that held on when their yield ended, until they are seen to have let go. */
import type { YieldResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import type { Sample } from "../model/sample.ts";
import { isSameProcess } from "../model/tenants.ts";
import { round } from "../model/units.ts";
import type { ArbiterStep } from "./arbiter.ts";
import type { ArbiterState, LaneJob, Watched } from "./arbiter_state.ts";
import { rowOf, type Target } from "./yield_targets.ts";

/** Generation of requests that belong to no job. */
const NO_JOB = 0;

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
      needsUnload: target.model === null,
    }];
  });
}

function targetsIn(job: LaneJob): readonly Target[] {
  if (job.kind === "yield") return job.targets;
  return job.kind === "switch" && job.step.name === "yield" ? job.step.job.targets : [];
}

/** On each sample: who has let go since, and who can be asked now that it is listed. */
export function releaseWatched(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type !== "sampled" || state.watched.length === 0) return { state, effects: [] };
  const effects: ArbiterEffect[] = [];
  const watched: Watched[] = [];
  for (const entry of state.watched) {
    if (hasLetGo(entry, event.sample)) {
      const fields = { released_later_ms: round(event.atMs - entry.sinceMs), released_later_pid: entry.process.pid };
      effects.push({
        kind: "amend",
        key: entry.key,
        fields,
        reason: `pid ${entry.process.pid} has let go of its memory`,
      });
      continue;
    }
    const row = entry.needsUnload ? listedRow(entry, event.sample) : null;
    if (row !== null) {
      const reason = `${row} was loading when it was asked to go, and is listed now`;
      effects.push({ kind: "unload", generation: NO_JOB, model: row, reason });
    }
    watched.push(row === null ? entry : { ...entry, model: row, needsUnload: false });
  }
  return { state: { ...state, watched }, effects };
}

function hasLetGo(entry: Watched, sample: Sample): boolean {
  if (!sample.sources.processes.ok || !sample.gpu.available || sample.gpu.reading.processes === null) return false;
  const isRunning = sample.ollama.runners.some((runner) => isSameProcess(runner, entry.process));
  const row = sample.gpu.reading.processes.find((process) => process.pid === entry.process.pid);
  return !isRunning && (row === undefined || row.usedBytes === 0);
}

function listedRow(entry: Watched, sample: Sample): string | null {
  const runner = sample.ollama.runners.find((candidate) => isSameProcess(candidate, entry.process));
  if (runner === undefined) return null;
  return rowOf(runner, sample.ollama.resident, sample.ollama.blobsByDigest)?.name ?? null;
}
