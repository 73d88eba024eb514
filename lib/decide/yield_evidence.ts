/** What is seen of a yield's targets: who still holds, what it is doing, and whether the driver can tell at all. */
import type { Sample } from "../model/sample.ts";
import { isSameProcess } from "../model/tenants.ts";
import { bytesOf, isResidualVoid } from "./release.ts";
import { noEvidence } from "./runner_evidence.ts";
import type { YieldJob } from "./yield_job.ts";
import { isRowTaken, matchRows, openRows, type Target } from "./yield_targets.ts";

/** SM utilisation of the whole card that stands in where the driver gives none by process; labelled as such. */
const BUSY_CARD_PCT = 50;

/** True while the process stands in the last list of the server's children. */
export function isAlive(job: YieldJob, target: Target): boolean {
  return job.runners.some((runner) => isSameProcess(runner, target.runner));
}

/** Targets that hold something by the last reading, or are about to: a runner that has just been started. */
export function heldTargets(job: YieldJob, sample: Sample | null = null): readonly Target[] {
  const { reading } = job;
  if (reading === null) return job.targets;
  return job.targets.filter((target) =>
    bytesOf(reading, target.runner.pid) !== 0 || sample !== null && isLoading(job, target, sample)
  );
}

/** Not listed yet although `/api/ps` answers: its memory is being taken, and an unload now would do nothing. */
export function isLoading(job: YieldJob, target: Target, { ollama }: Sample): boolean {
  if (target.isListed || target.runner.isOrphan || job.ps !== "listed" || !isAlive(job, target)) return false;
  // A row whose blobs aren't known may be this runner's: then nothing can be said.
  return openRows(job.rows, matchRows(job.runners, job.rows, ollama), ollama).length === 0;
}

/** What keeps a held runner, in words; null = nothing that can be seen. */
export function workOf(job: YieldJob, target: Target, sample: Sample): string | null {
  if (isLoading(job, target, sample)) return "it is still loading (not listed yet)";
  const evidence = job.evidence[target.runner.pid] ?? noEvidence();
  if (evidence.working !== null) return evidence.working;
  const { gpu } = sample;
  const isBlindBySm = evidence.smPct === null && gpu.available && gpu.reading.smPctByPid === null;
  const cardPct = gpu.available ? gpu.reading.gpuUtilPct : null;
  return isBlindBySm && cardPct !== null && cardPct >= BUSY_CARD_PCT
    ? `the card is ${cardPct} % busy (fallback: the driver gives no utilisation by process)`
    : null;
}

/** Why a held runner that does nothing doesn't go, in words. */
export function idleReason(job: YieldJob, { runner, model }: Target): string {
  if (runner.isOrphan) return "its server is gone: nobody can unload it by asking";
  const { error, isDeleted } = job.unloads.find((unload) => unload.model === model) ??
    { error: null, isDeleted: false };
  if (isDeleted && error !== null) {
    return `its model was deleted while it was loaded, so nobody can unload it by name: ${error}`;
  }
  return error === null ? "idle as far as can be seen" : `idle, and Ollama refused to unload it: ${error}`;
}

/** Why no reading of the driver could ever confirm this yield; null while one could. */
export function unmeasuredReason(job: YieldJob, sample: Sample): string | null {
  if (job.blindness !== null) return job.blindness;
  const { reading } = job;
  if (reading === null) return null;
  for (const target of job.targets) {
    const { pid } = target.runner;
    if (bytesOf(reading, pid) === null) return `the driver gives no bytes for pid ${pid}`;
    const isUnseen = target.bytesBefore === null && !reading.processes.some((process) => process.pid === pid);
    if (isUnseen && target.claimsVram) return `the driver doesn't list pid ${pid}, which Ollama says holds VRAM`;
  }
  if (job.residual !== null && isResidualVoid(reading, job.residual)) {
    return "a process whose bytes the driver didn't give has left meanwhile, with an unknown part of the memory";
  }
  const unseen = unseenModel(job, sample);
  return unseen === null ? null : `no process can be told to be the one that holds ${unseen}`;
}

/**
 * A listed model that no target carries, though some process may. Where every runner of a server that can be seen is a
 * target or belongs to another row, such a row is a ghost instead: its runner crashed, and Ollama hasn't noticed.
 */
function unseenModel(job: YieldJob, sample: Sample): string | null {
  const { ollama } = sample;
  const missing = job.unloads.find((unload) =>
    unload.claimsVram && !job.targets.some((target) => target.isListed && target.model === unload.model)
  );
  if (missing === undefined) return null;
  const rows = matchRows(job.runners, job.rows, ollama);
  const isStranger = job.runners.some((runner) =>
    !runner.isOrphan && !rows.has(runner.pid) && !job.targets.some((target) => isSameProcess(target.runner, runner))
  );
  const isHidden = ollama.server === null || !job.isListTrusted || isUnknownHolder(job, sample);
  return isStranger || isHidden ? missing.model : null;
}

/** A process that counts for Ollama and holds memory, yet is no runner that is known. */
function isUnknownHolder(job: YieldJob, { gpu, ollama }: Sample): boolean {
  if (!gpu.available) return false;
  const known = [...job.runners, ...ollama.runners, ...job.targets.map((target) => target.runner)];
  return gpu.breakdown.processes.some((process) =>
    process.bucket === "ollama" && process.usedBytes !== 0 && !known.some((runner) => runner.pid === process.pid)
  );
}

/** True when `/api/ps` and the list of children show nothing of the scope any more: a hint, no proof. */
export function isGoneByLists(job: YieldJob, { ollama }: Sample): boolean {
  return job.isRelisted && job.ps === "listed" && !job.rows.some((row) => isRowTaken(row, job.scope, ollama)) &&
    !job.targets.some((target) => isAlive(job, target));
}
