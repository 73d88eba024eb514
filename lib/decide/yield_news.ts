/** What a yield learns from an event, before anything is decided from it. */
import type { ArbiterEvent } from "../model/events.ts";
import { isSameModel } from "../model/model_names.ts";
import type { BarrierReading } from "../model/sample.ts";
import { isSameProcess, type ResidentModel, type Runner } from "../model/tenants.ts";
import type { Bytes } from "../model/units.ts";
import type { JobContext } from "./job.ts";
import { bytesOf, isReleased, type MemoryView, READINGS_IN_A_ROW } from "./release.ts";
import { isSteady, settleResidual } from "./residual.ts";
import { noEvidence, observe } from "./runner_evidence.ts";
import { heldTargets, isAlive, unmeasuredReason } from "./yield_evidence.ts";
import type { YieldJob } from "./yield_job.ts";
import { findTargets, type ModelUnload, otherNameOf, type Target, unloadOf, unloadsOf } from "./yield_targets.ts";

/** Times a model is asked to go: once more after a refusal, which may have been a passing one. */
const MOST_ATTEMPTS = 2;

export function hearYield(job: YieldJob, event: ArbiterEvent, context: JobContext): YieldJob {
  if ("generation" in event && event.generation !== job.generation) return job;
  switch (event.type) {
    case "reading":
      return hearReading(job, event.reading, context);
    case "barrierLost":
      return { ...job, blindness: event.reason };
    case "sampled":
      return event.sample.gpu.available ? job : { ...job, blindness: event.sample.gpu.reason };
    case "unloadReplied":
      return hearReply(job, event, context);
    case "runnersListed":
      return hearRunners(job, event.runners, context);
    case "residentListed":
      return event.resident === null
        ? askUnlisted({ ...job, ps: "silent" })
        : hearResident(job, event.resident, context);
    case "runnersProbed":
      return hearProbes(job, event);
    default:
      return job;
  }
}

export function isAnswered(job: YieldJob): boolean {
  return job.unloads.every((unload) => unload.repliedMs !== null);
}

/** Adds what the driver says each target holds. At the start the newest look counts, later the first one. */
export function noteBytes(
  targets: readonly Target[],
  view: MemoryView,
  { isStart }: { readonly isStart: boolean },
): readonly Target[] {
  if (!isStart && targets.every((target) => target.bytesBefore !== null)) return targets;
  return targets.map((target) => {
    const bytes = view.processes.find((process) => process.pid === target.runner.pid)?.usedBytes ?? null;
    const isNews = bytes !== null && (isStart || target.bytesBefore === null);
    return isNews ? { ...target, bytesBefore: bytes } : target;
  });
}

function hearReading(job: YieldJob, reading: BarrierReading, context: JobContext): YieldJob {
  // A stream that ran already may deliver what was read before anybody asked: it says nothing about this yield.
  if (reading.atMs < job.startedMs) return job;
  const { slackBytes } = context.policy.yield;
  const isStart = job.phase === "opening";
  const targets = noteBytes(job.targets, reading, { isStart });
  if (isStart) return { ...job, reading, targets, views: [...job.views, reading].slice(-2) };
  const pids = targets.map((target) => target.runner.pid);
  const evidence = reading.smPctByPid === null ? job.evidence : observe(job.evidence, pids, { sm: reading });
  const next: YieldJob = { ...job, reading, targets, evidence };
  const { residual } = job;
  if (residual === null) return lateResidual(next, context);
  const holds = job.isRelisted && !targets.some((target) => isStillComing(job, target)) &&
    isReleased(reading, { targets: pids, residual, slackBytes }) && unmeasuredReason(next, context.sample) === null;
  const streak = holds ? job.streak + 1 : 0;
  return { ...next, streak, releasedMs: streak >= READINGS_IN_A_ROW ? reading.atMs : null };
}

/** The unloads went out before the driver had answered: its word still counts while no target has begun to leave. */
function lateResidual(job: YieldJob, { policy, residualHistory }: JobContext): YieldJob {
  const { slackBytes } = policy.yield;
  const views = job.reading === null ? job.views : [...job.views, job.reading].slice(-2);
  const areAllThere = job.targets.every(({ runner, bytesBefore }) =>
    bytesBefore === null || views.every((view) => (bytesOf(view, runner.pid) ?? 0) >= bytesBefore - slackBytes)
  );
  if (!areAllThere || !isSteady(views, slackBytes)) return { ...job, views };
  return { ...job, views, residual: settleResidual(views, residualHistory) };
}

/** A runner that holds nothing only because it hasn't begun to take any. */
function isStillComing(job: YieldJob, target: Target): boolean {
  return !target.isListed && !target.runner.isOrphan && target.bytesBefore === null && isAlive(job, target);
}

function hearReply(
  job: YieldJob,
  event: Extract<ArbiterEvent, { type: "unloadReplied" }>,
  { sample }: JobContext,
): YieldJob {
  const { targets, rows: resident } = job;
  const unloads = job.unloads.map((unload): ModelUnload => {
    if (unload.askedAs !== event.model || unload.sentMs === null || unload.repliedMs !== null) return unload;
    const replied = { ...unload, repliedMs: event.atMs, error: event.error };
    if (!event.isUnknown) return replied;
    // Deleted while it was loaded: one blob is one runner, whichever of its names it is asked by (seen on 0.24).
    const other = otherNameOf(unload.model, { resident, targets, names: sample.ollama });
    const isNews = other !== null && other !== unload.askedAs;
    return isNews
      ? { ...unload, askedAs: other, isDeleted: true, sentMs: null, repliedMs: null }
      : { ...replied, isDeleted: true };
  });
  return { ...job, unloads };
}

function hearRunners(job: YieldJob, runners: readonly Runner[], context: JobContext): YieldJob {
  const hasLeft = job.targets.some((target) => isAlive(job, target) && !isIn(runners, target));
  const isListTrusted = context.sample.sources.processes.ok;
  // What had gone before anything was asked is none of this yield's doing: the sample was up to a second old.
  const isStart = job.phase === "opening" && isListTrusted;
  const targets = isStart ? job.targets.filter((target) => isIn(runners, target)) : job.targets;
  const listed = withTargets({
    ...job,
    targets,
    runners,
    areRunnersListed: true,
    isListTrusted,
    lastGoneMs: hasLeft ? context.atMs : job.lastGoneMs,
    isRelisted: job.isRelisted || job.phase === "asked" && isAnswered(job),
  }, context);
  return listed.ps === "silent" ? askUnlisted(listed) : listed;
}

/** `/api/ps` doesn't say which models are there: runners are asked to go by what their weights are installed as. */
function askUnlisted(job: YieldJob): YieldJob {
  const unloads = [...job.unloads];
  for (const { model, isListed, runner } of job.targets) {
    if (model === null || isListed || runner.isOrphan) continue;
    if (unloads.some((unload) => isSameModel(unload.model, model))) continue;
    unloads.push(unloadOf(model, { claimsVram: false, isUnlisted: true }));
  }
  return unloads.length === job.unloads.length ? job : { ...job, unloads };
}

function isIn(runners: readonly Runner[], target: Target): boolean {
  return runners.some((runner) => isSameProcess(runner, target.runner));
}

function hearResident(job: YieldJob, rows: readonly ResidentModel[], context: JobContext): YieldJob {
  const listed = unloadsOf(rows, job.scope, context.sample.ollama);
  const isListed = (unload: ModelUnload) => listed.some((row) => row.model === unload.model);
  const unloads = job.unloads.filter((unload) => isListed(unload) || unload.sentMs !== null).map((unload) =>
    isListed(unload) && (unload.error !== null || unload.isUnlisted) && unload.attempts < MOST_ATTEMPTS
      ? { ...unload, sentMs: null, repliedMs: null, error: null, isUnlisted: false }
      : unload
  );
  const fresh = listed.filter((row) => !unloads.some((unload) => unload.model === row.model));
  return withTargets({ ...job, rows, ps: "listed", unloads: [...unloads, ...fresh] }, context);
}

function withTargets(job: YieldJob, { sample }: JobContext): YieldJob {
  const { runners, rows: resident, scope } = job;
  return { ...job, targets: findTargets(job.targets, { runners, resident, names: sample.ollama, scope }) };
}

function hearProbes(job: YieldJob, event: Extract<ArbiterEvent, { type: "runnersProbed" }>): YieldJob {
  const pids = job.targets.map((target) => target.runner.pid);
  const next = { ...job, evidence: observe(job.evidence, pids, { probes: event.probes, atMs: event.atMs }) };
  const held = heldTargets(next);
  const isIdle = held.length > 0 &&
    held.every(({ runner }) => (next.evidence[runner.pid] ?? noEvidence()).working === null);
  return { ...next, idleLooks: isIdle ? job.idleLooks + 1 : 0 };
}

/** What the targets held at the start less what they hold now; null where the driver doesn't say. */
export function freedBytesOf(job: YieldJob): Bytes | null {
  if (job.reading === null) return null;
  let freed = 0;
  for (const { runner, bytesBefore, claimsVram } of job.targets) {
    const now = bytesOf(job.reading, runner.pid);
    if (now === null || bytesBefore === null && (claimsVram || now > 0)) return null;
    freed += Math.max(0, (bytesBefore ?? 0) - now);
  }
  return freed;
}
