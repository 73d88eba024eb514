/** After a load: read back what it takes and whether it spilled, and put the answer together. */
import type { LoadFigures, SwapPhases, SwitchResult } from "../model/arbitration.ts";
import type { ArbiterEvent, Generation } from "../model/events.ts";
import { isSameModel } from "../model/model_names.ts";
import type { LoadReply } from "../model/ports.ts";
import type { BarrierReading, Sample } from "../model/sample.ts";
import type { ResidentModel, Runner } from "../model/tenants.ts";
import { round } from "../model/units.ts";
import { diskLimit, limitsOf } from "./calibration.ts";
import { classifyLoad, explainSwap } from "./classify.ts";
import type { JobContext } from "./job.ts";
import { bytesOf } from "./release.ts";
import type { SwitchJob, SwitchStep } from "./switch_job.ts";
import { matchRows } from "./yield_targets.ts";

/** How long the look at what was loaded may take. */
const SETTLE_MS = 500;
/**
 * A load duration below this is no load: a resident model answers after at most 22 ms, the smallest model that was
 * really loaded after 254 ms, since Ollama polls its child every 250 ms (facts/ollama-measured.md).
 */
const LEAST_LOAD_MS = 125;

/** The generation of the step under way. */
export function generationOf(job: SwitchJob): Generation {
  return job.generation + job.substep;
}

export function beginSettle(job: SwitchJob, reply: LoadReply, { atMs }: JobContext): SwitchStep {
  const next: SwitchJob = {
    ...job,
    substep: job.substep + 1,
    reply,
    loadEndedMs: atMs,
    step: { name: "settle", runners: null, isListed: false },
  };
  const reason = "read back what was loaded";
  const generation = generationOf(next);
  return {
    job: next,
    effects: [
      { kind: "listRunners", generation, reason },
      { kind: "listResident", generation, reason },
      { kind: "wakeAt", generation, atMs: atMs + SETTLE_MS, reason },
    ],
    result: null,
  };
}

export function settle(job: SwitchJob, event: ArbiterEvent, context: JobContext): SwitchStep {
  const isMine = "generation" in event && event.generation === generationOf(job);
  const next = hear(job, event, { isMine, sample: context.sample });
  const isRead = next.vramBytes !== null || !context.sample.gpu.available;
  const isSeen = next.step.name === "settle" && next.step.isListed && isRead;
  if (isSeen || isMine && event.type === "woke") return concludeSwitch(next, context);
  return { job: next, effects: [], result: null };
}

function hear(
  job: SwitchJob,
  event: ArbiterEvent,
  { isMine, sample }: { readonly isMine: boolean; readonly sample: Sample },
): SwitchJob {
  if (job.step.name !== "settle") return job;
  // A reading made before the load had ended may show it growing.
  const isAfter = event.type === "reading" && event.atMs >= (job.loadEndedMs ?? 0);
  if (event.type === "reading" && isAfter && job.step.runners !== null) {
    return withBytes(job, event.reading, { runners: job.step.runners, sample });
  }
  if (event.type === "runnersListed" && isMine) return { ...job, step: { ...job.step, runners: event.runners } };
  if (event.type !== "residentListed" || !isMine) return job;
  const listed: SwitchJob = { ...job, step: { ...job.step, isListed: true } };
  return event.resident === null ? listed : withRow(listed, event.resident, sample);
}

function withRow(job: SwitchJob, resident: readonly ResidentModel[], { gpu }: Sample): SwitchJob {
  const { model } = job.request;
  const row = resident.find((entry) => isSameModel(entry.name, model));
  const others = resident.filter((entry) => !isSameModel(entry.name, model));
  return {
    ...job,
    // Without a card nothing can spill from it, and `size_vram` alone proves nothing (a CPU with AMX shows > 0).
    contextLength: row?.contextLength ?? null,
    spilled: row === undefined || !gpu.available ? null : row.sizeVramBytes < row.sizeBytes,
    othersAfter: others.map((entry) => entry.name),
  };
}

function withBytes(
  job: SwitchJob,
  reading: BarrierReading,
  { runners, sample }: { readonly runners: readonly Runner[]; readonly sample: Sample },
): SwitchJob {
  const runner = runnerOf(job, runners, sample);
  const bytes = runner === null ? null : bytesOf(reading, runner.pid);
  return { ...job, runner, vramBytes: bytes === 0 ? job.vramBytes : bytes };
}

function runnerOf(job: SwitchJob, runners: readonly Runner[], { ollama }: Sample): Runner | null {
  const children = runners.filter((runner) => !runner.isOrphan);
  const installed = ollama.installed.find((entry) => isSameModel(entry.name, job.request.model));
  if (installed !== undefined) {
    const row = { name: installed.name, digest: installed.digest, sizeBytes: 0, sizeVramBytes: 0 };
    const rows = matchRows(children, [{ ...row, expiresAtMs: null, contextLength: null }], ollama);
    const mine = children.find((runner) => rows.has(runner.pid));
    if (mine !== undefined) return mine;
  }
  return children.length === 1 ? children[0] ?? null : null;
}

export function concludeSwitch(job: SwitchJob, context: JobContext): SwitchStep {
  const { sample, atMs } = context;
  const { model } = job.request;
  const entry = sample.ollama.installed.find((row) => isSameModel(row.name, model));
  const durationMs = job.reply?.loadDurationMs ?? null;
  const alreadyResident = job.wasListed && !job.isRetry && (durationMs === null || durationMs < LEAST_LOAD_MS);
  const loadMs = alreadyResident ? null : durationMs;
  const residencyBeforePct = alreadyResident || job.residency === null ? null : round(job.residency.pct);
  const figures: LoadFigures = {
    sizeBytes: entry?.sizeBytes ?? null,
    isResidencyExact: residencyBeforePct === null ? null : job.residency?.isExact ?? null,
    isPlain: !hasOllamaEvicted(job),
    limits: limitsOf(context.policy.classify, context.loads),
    contextLength: job.contextLength,
    parallel: job.runner?.parallel ?? null,
    process: job.runner === null ? null : { pid: job.runner.pid, startTime: job.runner.startTime },
    diskBytesPerSecond: diskLimit(context.loads),
    link: job.link,
  };
  const found = classifyLoad({
    bytes: figures.sizeBytes,
    loadMs,
    residencyPct: residencyBeforePct,
    isResidencyExact: figures.isResidencyExact === true,
    isPlain: figures.isPlain,
  }, figures.limits);
  const phases = phasesOf(job, { loadMs, atMs });
  const facts = { found, figures, phases, residencyPct: residencyBeforePct, spilled: job.spilled };
  const value: SwitchResult = {
    prevModel: job.prevModel,
    targetModel: entry?.name ?? model,
    totalMs: atMs - job.startedMs,
    loadMs,
    phases,
    tokensPerSecond: job.reply?.tokensPerSecond ?? null,
    response: job.reply?.response ?? "",
    class: found.class,
    classBasis: alreadyResident ? "it was resident already: nothing was loaded" : found.basis,
    bytesPerSecond: found.bytesPerSecond,
    residencyBeforePct,
    figures,
    reclaimedBytes: job.purged?.freedBytes ?? null,
    vramBytes: job.vramBytes,
    spilled: job.spilled,
    alreadyResident,
    yielded: job.yielded,
    purged: job.purged,
    retried: job.isRetry,
    verdict: alreadyResident ? "Already resident" : explainSwap(facts),
  };
  return { job, effects: [], result: { kind: "switch", value } };
}

function phasesOf(
  job: SwitchJob,
  { loadMs, atMs }: { readonly loadMs: number | null; readonly atMs: number },
): SwapPhases {
  const { startedMs, waitedMs, loadAskedMs, loadEndedMs, reply } = job;
  const hasMadeRoom = job.yielded !== null || job.purged !== null || job.isRetry;
  const totalMs = reply?.totalDurationMs ?? null;
  return {
    roomMs: hasMadeRoom && loadAskedMs !== null ? loadAskedMs - startedMs - waitedMs : null,
    waitMs: waitedMs > 0 ? waitedMs : null,
    loadMs,
    answerMs: totalMs === null ? null : Math.max(0, totalMs - (reply?.loadDurationMs ?? 0)),
    readBackMs: loadEndedMs === null ? null : atMs - loadEndedMs,
  };
}

/** True when a model that this switch let stay is gone: its eviction is part of the load's duration. */
function hasOllamaEvicted(job: SwitchJob): boolean {
  const { othersAfter } = job;
  if (othersAfter === null) return false;
  const asked = job.yielded?.models ?? [];
  return job.others.some((name) => !asked.includes(name) && !othersAfter.includes(name));
}
