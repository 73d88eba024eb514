/** One switch of the Ollama model: make room as `switch_plan.ts` says, load by a one-token request, read back. */
import type { Cause, PurgeResult, SwitchResult, YieldResult } from "../model/arbitration.ts";
import type { ArbiterReply } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, Generation, LoadOutcome } from "../model/events.ts";
import type { LoadReply } from "../model/ports.ts";
import type { Runner } from "../model/tenants.ts";
import { type Bytes, type MonotonicMs } from "../model/units.ts";
import { classifyLoad, verdictOf } from "./classify.ts";
import type { Footprints } from "./footprint.ts";
import { freeOf, needOf } from "./need.ts";
import { type PurgeJob, startPurge, stepPurge } from "./purge_job.ts";
import { bytesOf } from "./release.ts";
import { cantFit, nextMove, refusal, refuseEarly } from "./switch_plan.ts";
import { type JobStep, startYield, stepYield, type YieldContext, type YieldJob } from "./yield_job.ts";
import { canonical, rowOf } from "./yield_targets.ts";

/** How long the look at what was loaded may take. */
const SETTLE_MS = 500;

/** What the arbiter knows beyond the sample. */
export interface SwitchContext extends YieldContext {
  readonly footprints: Footprints;
  readonly keep: readonly string[];
  readonly isComfyBusy: boolean;
  readonly comfyIdleSinceMs: MonotonicMs | null;
  readonly contextBytes: Bytes | null;
  /** Our own loads for the loser of a hand-off wait until then (SPEC 2.4). */
  readonly loserOutUntilMs: MonotonicMs;
}

export interface SwitchJob {
  readonly kind: "switch";
  /** The job owns GENERATIONS_PER_JOB numbers from here; each of its steps takes the next. */
  readonly generation: Generation;
  readonly substep: number;
  readonly cause: Cause;
  readonly request: { readonly model: string; readonly keepAlive: string; readonly prompt: string | null };
  readonly startedMs: MonotonicMs;
  readonly prevModel: string | null;
  readonly wasResident: boolean;
  readonly others: readonly string[];
  readonly step:
    | { readonly name: "yield"; readonly job: YieldJob }
    | { readonly name: "purge"; readonly job: PurgeJob }
    | { readonly name: "wait"; readonly untilMs: MonotonicMs }
    | { readonly name: "load" }
    | { readonly name: "settle"; readonly runners: readonly Runner[] | null; readonly isListed: boolean };
  readonly yielded: YieldResult | null;
  readonly purged: PurgeResult | null;
  readonly isRetried: boolean;
  readonly freeBytes: Bytes | null;
  readonly reply: LoadReply | null;
  readonly vramBytes: Bytes | null;
  readonly spilled: boolean | null;
  readonly othersAfter: readonly string[];
}

type SwitchStep = JobStep<SwitchJob, ArbiterReply>;

/** Generations a job may use for its steps, so that a late result of one step is never taken for the next one's. */
export const GENERATIONS_PER_JOB = 16;

export function startSwitch(
  order: Pick<SwitchJob, "generation" | "cause" | "request">,
  context: SwitchContext,
): SwitchStep {
  const { ollama } = context.sample;
  const names = ollama.resident.map((row) => row.name);
  const job: SwitchJob = {
    kind: "switch",
    ...order,
    substep: 0,
    startedMs: context.atMs,
    prevModel: names[0] ?? null,
    wasResident: names.some((name) => canonical(name) === canonical(order.request.model)),
    others: names.filter((name) => canonical(name) !== canonical(order.request.model)),
    step: { name: "load" },
    yielded: null,
    purged: null,
    isRetried: false,
    freeBytes: freeOf(context.sample.gpu),
    reply: null,
    vramBytes: null,
    spilled: null,
    othersAfter: [],
  };
  const early = refuseEarly(order.request.model, context.sample);
  return early === null ? advance(job, context) : refuse(job, early);
}

/** One event for a running switch. */
export function stepSwitch(job: SwitchJob, event: ArbiterEvent, context: SwitchContext): SwitchStep {
  const fresh = event.type === "reading" ? { ...job, freeBytes: event.reading.freeBytes } : job;
  switch (fresh.step.name) {
    case "yield": {
      const inner = stepYield(fresh.step.job, event, context);
      const next: SwitchJob = { ...fresh, step: { name: "yield", job: inner.job } };
      return inner.result === null
        ? { job: next, effects: inner.effects, result: null }
        : afterYield(next, inner.result, context);
    }
    case "purge": {
      const inner = stepPurge(fresh.step.job, event, context);
      const next: SwitchJob = { ...fresh, step: { name: "purge", job: inner.job } };
      return inner.result === null
        ? { job: next, effects: inner.effects, result: null }
        : afterPurge(next, inner.result, context);
    }
    case "wait":
      return event.atMs >= fresh.step.untilMs ? load(fresh, context) : goOn(fresh);
    case "load":
      return event.type === "loadEnded" && event.generation === stepGeneration(fresh)
        ? onLoadEnded(fresh, event.outcome, context)
        : goOn(fresh);
    case "settle":
      return settle(fresh, event, context);
  }
}

function goOn(job: SwitchJob): SwitchStep {
  return { job, effects: [], result: null };
}

function refuse(job: SwitchJob, why: Extract<ArbiterReply, { kind: "refused" }>["refusal"]): SwitchStep {
  return { job, effects: [], result: { kind: "refused", refusal: why } };
}

function stepGeneration(job: SwitchJob): Generation {
  return job.generation + job.substep;
}

function advance(job: SwitchJob, context: SwitchContext): SwitchStep {
  const move = nextMove({
    model: job.request.model,
    sample: context.sample,
    policy: context.policy,
    footprints: context.footprints,
    freeBytes: job.freeBytes,
    isComfyBusy: context.isComfyBusy,
    contextBytes: context.contextBytes,
    hasYielded: job.yielded !== null,
    hasPurged: job.purged !== null,
    keep: context.keep,
  });
  switch (move.kind) {
    case "refuse":
      return refuse(job, move.refusal);
    case "yield":
      return beginYield(job, context);
    case "purge":
      return beginPurge(job, context);
    case "load":
      return load(job, context);
  }
}

function beginYield(job: SwitchJob, context: SwitchContext): SwitchStep {
  const next = { ...job, substep: job.substep + 1 };
  const scope = { models: null, keep: [...context.keep, job.request.model] };
  const inner = startYield({ generation: stepGeneration(next), cause: job.cause, scope, confirm: true }, context);
  const stepped: SwitchJob = { ...next, step: { name: "yield", job: inner.job } };
  return inner.result === null
    ? { job: stepped, effects: inner.effects, result: null }
    : afterYield(stepped, inner.result, context);
}

function beginPurge(job: SwitchJob, context: SwitchContext): SwitchStep {
  const next = { ...job, substep: job.substep + 1 };
  const inner = startPurge({
    generation: stepGeneration(next),
    cause: job.cause,
    confirm: true,
    idleSinceMs: context.comfyIdleSinceMs,
    contextBytes: context.contextBytes,
  }, context);
  const stepped: SwitchJob = { ...next, step: { name: "purge", job: inner.job } };
  return inner.result === null
    ? { job: stepped, effects: inner.effects, result: null }
    : afterPurge(stepped, inner.result, context);
}

function afterYield(job: SwitchJob, result: YieldResult, context: SwitchContext): SwitchStep {
  const next = { ...job, yielded: result };
  const isThrough = result.outcome === "released" || result.outcome === "nothing_loaded" ||
    result.outcome === "remote" ||
    (result.outcome === "unconfirmed" && context.policy.proceedUnconfirmed);
  if (isThrough) return advance(next, context);
  const code = result.outcome === "busy" ? "busy" : "unavailable";
  return refuse(
    next,
    refusal(code, `Cannot switch to '${job.request.model}': ${result.message}`, {
      hint: result.outcome === "busy" ? "Try again when the request it answers has ended" : "See `hyperswap health`",
      details: { outcome: result.outcome, pids: result.pids },
    }),
  );
}

function afterPurge(job: SwitchJob, result: PurgeResult, context: SwitchContext): SwitchStep {
  const next = { ...job, purged: result };
  if (result.outcome !== "busy") return advance(next, context);
  return refuse(
    next,
    refusal("busy", `Cannot switch to '${job.request.model}': ${result.message}`, {
      hint: "Try again when ComfyUI's queue is empty",
    }),
  );
}

function load(job: SwitchJob, context: SwitchContext): SwitchStep {
  if (context.loserOutUntilMs > context.atMs) {
    const next: SwitchJob = {
      ...job,
      substep: job.substep + 1,
      step: { name: "wait", untilMs: context.loserOutUntilMs },
    };
    const reason = "ComfyUI may not see another's allocation for 2 s after a hand-off";
    const effect: ArbiterEffect = {
      kind: "wakeAt",
      generation: stepGeneration(next),
      atMs: context.loserOutUntilMs,
      reason,
    };
    return { job: next, effects: [effect], result: null };
  }
  const next: SwitchJob = { ...job, substep: job.substep + 1, step: { name: "load" } };
  return {
    job: next,
    effects: [{
      kind: "load",
      generation: stepGeneration(next),
      request: job.request,
      reason: `${job.request.model} was asked for`,
    }],
    result: null,
  };
}

function onLoadEnded(job: SwitchJob, outcome: LoadOutcome, context: SwitchContext): SwitchStep {
  if (outcome.ok) {
    const next: SwitchJob = {
      ...job,
      substep: job.substep + 1,
      reply: outcome.reply,
      step: { name: "settle", runners: null, isListed: false },
    };
    const reason = "read back what was loaded";
    const generation = stepGeneration(next);
    return {
      job: next,
      effects: [
        { kind: "listRunners", generation, reason },
        { kind: "listResident", generation, reason },
        { kind: "wakeAt", generation, atMs: context.atMs + SETTLE_MS, reason },
      ],
      result: null,
    };
  }
  if (outcome.isUnknownModel) return refuse(job, refusal("not_found", outcome.message));
  if (!outcome.isOutOfMemory) {
    return refuse(job, refusal("upstream", `Ollama could not load '${job.request.model}': ${outcome.message}`));
  }
  return onOutOfMemory(job, context);
}

/** Out of memory: reclaim an idle ComfyUI, then exactly one retry. */
function onOutOfMemory(job: SwitchJob, context: SwitchContext): SwitchStep {
  const facts = { model: job.request.model, sample: context.sample, freeBytes: job.freeBytes };
  if (job.isRetried) return refuse(job, cantFit(needOf(job.request.model, context.policy, context.footprints), facts));
  const retrying: SwitchJob = { ...job, isRetried: true };
  if (job.purged === null && !context.isComfyBusy && context.sample.comfy.online) return beginPurge(retrying, context);
  return refuse(job, cantFit(needOf(job.request.model, context.policy, context.footprints), facts));
}

function settle(job: SwitchJob, event: ArbiterEvent, context: SwitchContext): SwitchStep {
  if (job.step.name !== "settle") return goOn(job);
  const isMine = "generation" in event && event.generation === stepGeneration(job);
  let next: SwitchJob = job;
  if (event.type === "runnersListed" && isMine) next = { ...job, step: { ...job.step, runners: event.runners } };
  if (event.type === "residentListed" && isMine) next = withRow(job, event.resident ?? [], context);
  if (event.type === "reading") next = withBytes(next, event, context);
  const step = next.step.name === "settle" ? next.step : job.step;
  const isSeen = step.isListed && (next.vramBytes !== null || !context.sample.gpu.available);
  const isOver = event.type === "woke" && isMine;
  return isSeen || isOver ? conclude(next, context) : goOn(next);
}

function withRow(job: SwitchJob, resident: Parameters<typeof rowOf>[1], _context: SwitchContext): SwitchJob {
  if (job.step.name !== "settle") return job;
  const row = resident.find((entry) => canonical(entry.name) === canonical(job.request.model));
  return {
    ...job,
    step: { ...job.step, isListed: true },
    spilled: row === undefined ? null : row.sizeVramBytes < row.sizeBytes,
    othersAfter: resident.map((entry) => entry.name).filter((name) => canonical(name) !== canonical(job.request.model)),
  };
}

function withBytes(
  job: SwitchJob,
  event: Extract<ArbiterEvent, { type: "reading" }>,
  context: SwitchContext,
): SwitchJob {
  if (job.step.name !== "settle" || job.step.runners === null) return job;
  const { ollama } = context.sample;
  const digest = ollama.installed.find((entry) => canonical(entry.name) === canonical(job.request.model))?.digest;
  const blobs = digest === undefined ? [] : ollama.blobsByDigest[digest] ?? [];
  const mine = job.step.runners.filter((runner) => runner.blob !== null && blobs.includes(runner.blob));
  const only = job.step.runners.length === 1 ? job.step.runners : mine;
  const runner = only[0];
  const bytes = runner === undefined ? null : bytesOf(event.reading, runner.pid);
  return { ...job, vramBytes: bytes === 0 ? job.vramBytes : bytes };
}

function conclude(job: SwitchJob, context: SwitchContext): SwitchStep {
  const { model } = job.request;
  const entry = context.sample.ollama.installed.find((row) => canonical(row.name) === canonical(model));
  const loadMs = job.wasResident ? null : job.reply?.loadDurationMs ?? null;
  const evictedByOllama = job.yielded === null && job.others.some((name) => !job.othersAfter.includes(name));
  const found = classifyLoad({
    bytes: entry?.sizeBytes ?? null,
    loadMs,
    residencyPct: null,
    isPlain: !evictedByOllama,
  });
  const value: SwitchResult = {
    prevModel: job.prevModel,
    targetModel: entry?.name ?? model,
    totalMs: context.atMs - job.startedMs,
    loadMs,
    tokensPerSecond: job.reply?.tokensPerSecond ?? null,
    response: job.reply?.response ?? "",
    class: found.class,
    classBasis: job.wasResident ? "it was resident already: nothing was loaded" : found.basis,
    bytesPerSecond: found.bytesPerSecond,
    residencyBeforePct: null,
    reclaimedBytes: job.purged?.freedBytes ?? null,
    vramBytes: job.vramBytes,
    spilled: job.spilled,
    alreadyResident: job.wasResident,
    yielded: job.yielded,
    purged: job.purged,
    retried: job.isRetried,
    verdict: job.wasResident ? "Already resident" : verdictOf(found),
  };
  return { job, effects: [], result: { kind: "switch", value } };
}
