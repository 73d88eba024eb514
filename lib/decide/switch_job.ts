/** One switch of the Ollama model: make room as `switch_plan.ts` says, load by a one-token request, read back. */
import type { ArbiterReply, Cause, PcieLink, PurgeResult, YieldResult } from "../model/arbitration.ts";
import type { LoadResidency } from "../model/cache.ts";
import type { ArbiterEffect, ArbiterEvent, Generation, LoadOutcome } from "../model/events.ts";
import { isSameModel } from "../model/model_names.ts";
import type { LoadReply } from "../model/ports.ts";
import type { Runner } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import { linkOf } from "./classify.ts";
import type { JobContext, JobStep } from "./job.ts";
import { freeOf } from "./need.ts";
import { type PurgeJob, startPurge, stepPurge } from "./purge_job.ts";
import { nextMove, refusal, refuseEarly, refusePreempted, refuseUnknown } from "./switch_plan.ts";
import { explain, EXPLAIN_MS, hasMoved, refuse, unfit } from "./switch_refusal.ts";
import { beginSettle, concludeSwitch, generationOf, settle } from "./switch_settle.ts";
import { startYield, stepYield, type YieldJob } from "./yield_job.ts";

/** What is added to the configured deadline of a load before it is taken for lost: act/ hangs up first. */
const DEADLINE_GRACE_MS = 1_000;

export interface SwitchJob {
  readonly kind: "switch";
  /** The job owns GENERATIONS_PER_JOB numbers from here; each of its steps takes the next. */
  readonly generation: Generation;
  readonly substep: number;
  readonly cause: Cause;
  readonly request: { readonly model: string; readonly keepAlive: string; readonly prompt: string | null };
  readonly startedMs: MonotonicMs;
  readonly prevModel: string | null;
  readonly wasListed: boolean;
  readonly others: readonly string[];
  readonly step:
    | { readonly name: "yield"; readonly job: YieldJob }
    | { readonly name: "purge"; readonly job: PurgeJob }
    | { readonly name: "wait"; readonly untilMs: MonotonicMs }
    | { readonly name: "load"; readonly untilMs: MonotonicMs }
    | { readonly name: "settle"; readonly runners: readonly Runner[] | null; readonly isListed: boolean }
    /** It can't fit: who holds the rest is told by a sample that is newer than the refusal. */
    | { readonly name: "explain"; readonly sinceMs: MonotonicMs };
  readonly yielded: YieldResult | null;
  readonly purged: PurgeResult | null;
  /** It was refused for want of memory once: what is reclaimed now is for the one retry. */
  readonly isRetry: boolean;
  /** Something was asked back since then: a retry without that could only fail again. */
  readonly isReclaimed: boolean;
  readonly freeBytes: Bytes | null;
  /** Held back in all, and when the load was last asked for and answered: where the time went. */
  readonly waitedMs: number;
  readonly loadAskedMs: MonotonicMs | null;
  readonly loadEndedMs: MonotonicMs | null;
  readonly reply: LoadReply | null;
  /** What of it was in memory just before the load; null where that couldn't be told. */
  readonly residency: LoadResidency | null;
  /** The link as the newest sample of the load shows it; a card at rest has it slower. */
  readonly link: PcieLink | null;
  /** What was loaded, as the look at it found it. */
  readonly runner: Runner | null;
  readonly contextLength: number | null;
  readonly vramBytes: Bytes | null;
  readonly spilled: boolean | null;
  /** What else `/api/ps` listed after the load; null while it hasn't said. */
  readonly othersAfter: readonly string[] | null;
}

export type SwitchStep = JobStep<SwitchJob, ArbiterReply>;

export function startSwitch(
  { before, ...order }: Pick<SwitchJob, "generation" | "cause" | "request"> & {
    /** What was given back for it already. */
    readonly before?: Pick<SwitchJob, "yielded" | "purged" | "freeBytes">;
  },
  context: JobContext,
): SwitchStep {
  const names = context.sample.ollama.resident.map((row) => row.name);
  const { model } = order.request;
  const job: SwitchJob = {
    kind: "switch",
    ...order,
    substep: 0,
    startedMs: context.atMs,
    prevModel: names[0] ?? null,
    wasListed: names.some((name) => isSameModel(name, model)),
    others: names.filter((name) => !isSameModel(name, model)),
    step: { name: "wait", untilMs: context.atMs },
    yielded: before?.yielded ?? null,
    purged: before?.purged ?? null,
    isRetry: false,
    isReclaimed: false,
    freeBytes: before?.freeBytes ?? freeOf(context.sample.gpu),
    waitedMs: 0,
    loadAskedMs: null,
    loadEndedMs: null,
    reply: null,
    residency: null,
    link: null,
    runner: null,
    contextLength: null,
    vramBytes: null,
    spilled: null,
    othersAfter: null,
  };
  const early = refuseEarly(model, context.sample);
  return early === null ? advance(job, context) : refuse(job, early);
}

/** One event for a running switch. */
export function stepSwitch(job: SwitchJob, event: ArbiterEvent, context: JobContext): SwitchStep {
  const fresh = withFree(job, event);
  const { step } = fresh;
  switch (step.name) {
    case "yield":
      return afterYield(fresh, stepYield(step.job, event, context), context);
    case "purge":
      return afterPurge(fresh, stepPurge(step.job, event, context), context);
    case "wait":
      return event.atMs >= step.untilMs ? advance(fresh, context) : goOn(fresh);
    case "load":
      if (event.type === "loadEnded" && event.generation === generationOf(fresh)) {
        return onLoadEnded(fresh, event.outcome, context);
      }
      return event.atMs >= step.untilMs ? giveUpLoad(fresh) : goOn(fresh);
    case "settle":
      return settle(fresh, event, context);
    case "explain": {
      const isNews = event.type === "sampled" || event.atMs - step.sinceMs >= EXPLAIN_MS;
      return isNews ? refuse(fresh, unfit(fresh, context)) : goOn(fresh);
    }
  }
}

function withFree(job: SwitchJob, event: ArbiterEvent): SwitchJob {
  if (event.type === "reading") return { ...job, freeBytes: event.reading.freeBytes };
  if (event.type !== "sampled") return job;
  const { gpu } = event.sample;
  const link = job.step.name === "load" || job.step.name === "settle" ? linkOf(gpu) ?? job.link : job.link;
  return { ...job, freeBytes: freeOf(gpu) ?? job.freeBytes, link };
}

/** ComfyUI has work: a load is hung up on, what is loaded already is answered for at once, the rest ends by itself. */
export function preemptSwitch(job: SwitchJob, context: JobContext): SwitchStep {
  switch (job.step.name) {
    case "load":
      return refuse(job, refusePreempted(), [abortOf(job, "ComfyUI has work, and this load wants the same memory")]);
    case "wait":
      return refuse(job, refusePreempted());
    case "settle":
      return concludeSwitch(job, context);
    case "explain":
      return refuse(job, unfit(job, context));
    case "yield":
    case "purge":
      return goOn(job);
  }
}

function goOn(job: SwitchJob): SwitchStep {
  return { job, effects: [], result: null };
}

function abortOf(job: SwitchJob, reason: string): ArbiterEffect {
  return { kind: "abort", generation: job.generation, reason };
}

/** The next move by the newest look at the card; nothing is loaded for nobody, or before a ComfyUI that waits. */
function advance(job: SwitchJob, context: JobContext): SwitchStep {
  if (!context.isWanted) return refuse(job, refusal("cancelled", "Cancelled before it loaded"));
  if (context.isYieldWaiting) return refuse(job, refusePreempted());
  const move = nextMove({
    ...context,
    model: job.request.model,
    freeBytes: job.freeBytes,
    hasYielded: job.yielded !== null,
    hasPurged: job.purged !== null,
    isRetry: job.isRetry,
    isReclaimed: job.isReclaimed,
  });
  switch (move.kind) {
    case "refuse":
      return move.refusal.code === "wont_fit" && hasMoved(job) ? explain(job, context) : refuse(job, move.refusal);
    case "yield":
      return beginYield(job, context);
    case "purge":
      return beginPurge(job, context);
    case "load":
      return context.loserOutUntilMs > context.atMs ? waitOut(job, context) : load(job, context);
  }
}

function beginYield(job: SwitchJob, context: JobContext): SwitchStep {
  const next = { ...job, substep: job.substep + 1 };
  const scope = { models: null, keep: [...context.keep, job.request.model] };
  return afterYield(
    next,
    startYield({ generation: generationOf(next), cause: job.cause, scope, confirm: true }, context),
    context,
  );
}

function beginPurge(job: SwitchJob, context: JobContext): SwitchStep {
  const next = { ...job, substep: job.substep + 1 };
  return afterPurge(
    next,
    startPurge({ generation: generationOf(next), cause: job.cause, confirm: true }, context),
    context,
  );
}

function afterYield(job: SwitchJob, inner: JobStep<YieldJob, YieldResult>, context: JobContext): SwitchStep {
  const stepped: SwitchJob = { ...job, step: { name: "yield", job: inner.job }, yielded: inner.result };
  const { result, effects } = inner;
  if (result === null) return { job: stepped, effects, result: null };
  const isThrough = result.outcome === "released" || result.outcome === "nothing_loaded" ||
    (result.outcome === "unconfirmed" && context.policy.proceedUnconfirmed);
  if (isThrough) return after(effects, advance({ ...stepped, isReclaimed: true }, context));
  const isBusy = result.outcome === "busy";
  const why = refusal(isBusy ? "busy" : "unavailable", `Cannot switch to '${job.request.model}': ${result.message}`, {
    hint: isBusy ? "Try again when the request it answers has ended" : "See `hyperswap health`",
    details: { outcome: result.outcome, pids: result.pids },
  });
  return refuse(stepped, why, effects);
}

function afterPurge(job: SwitchJob, inner: JobStep<PurgeJob, PurgeResult>, context: JobContext): SwitchStep {
  const stepped: SwitchJob = { ...job, step: { name: "purge", job: inner.job }, purged: inner.result };
  const { result, effects } = inner;
  if (result === null) return { job: stepped, effects, result: null };
  if (result.outcome !== "busy") return after(effects, advance({ ...stepped, isReclaimed: true }, context));
  const why = refusal("busy", `Cannot switch to '${job.request.model}': ${result.message}`, {
    hint: "Try again when ComfyUI's queue is empty",
  });
  return refuse(stepped, why, effects);
}

function after(effects: readonly ArbiterEffect[], step: SwitchStep): SwitchStep {
  return effects.length === 0 ? step : { ...step, effects: [...effects, ...step.effects] };
}

function waitOut(job: SwitchJob, { loserOutUntilMs: untilMs, atMs }: JobContext): SwitchStep {
  const waitedMs = job.waitedMs + untilMs - atMs;
  const next: SwitchJob = { ...job, substep: job.substep + 1, step: { name: "wait", untilMs }, waitedMs };
  const reason = "ComfyUI may not see another's allocation for 2 s after a hand-off";
  return {
    job: next,
    effects: [{ kind: "wakeAt", generation: generationOf(next), atMs: untilMs, reason }],
    result: null,
  };
}

function load(job: SwitchJob, { atMs, policy }: JobContext): SwitchStep {
  const untilMs = atMs + policy.load.deadlineMs + DEADLINE_GRACE_MS;
  const next: SwitchJob = { ...job, substep: job.substep + 1, step: { name: "load", untilMs }, loadAskedMs: atMs };
  const generation = generationOf(next);
  const reason = job.isRetry
    ? `${job.request.model} was refused for want of memory: the one retry`
    : `${job.request.model} was asked for`;
  return {
    job: next,
    effects: [
      { kind: "load", generation, request: job.request, reason },
      { kind: "wakeAt", generation, atMs: untilMs, reason: "a load that hangs is hung up on" },
    ],
    result: null,
  };
}

function onLoadEnded(job: SwitchJob, outcome: LoadOutcome, context: JobContext): SwitchStep {
  const { model } = job.request;
  if (outcome.ok) return beginSettle({ ...job, residency: outcome.residency ?? null }, outcome.reply, context);
  if (outcome.isUnknownModel) return refuse(job, refuseUnknown(model, context.sample));
  if (outcome.isOutOfMemory) {
    // Reclaim what there is, then exactly one retry.
    if (!job.isRetry) return advance({ ...job, isRetry: true, isReclaimed: false }, context);
    return explain(job, context);
  }
  return refuse(job, refusal("upstream", `Ollama could not load '${model}': ${outcome.message}`));
}

/** A runner that dies within milliseconds of its start leaves its load hanging for ever, and every other one behind it. */
function giveUpLoad(job: SwitchJob): SwitchStep {
  const why = refusal("upstream", `Ollama did not finish loading '${job.request.model}' in time: it was hung up on`, {
    hint: "Its runner may have died as it started: see Ollama's log",
  });
  return refuse(job, why, [abortOf(job, "the load is overdue")]);
}
