/**
 * The one reload of a model that lies partly outside VRAM (SPEC 2.3): room first, from an idle ComfyUI, confirmed by the
 * driver; then, if its runner does nothing, unload and load again. Whatever is in the way ends it: the model works as it
 * is, only slowly.
 */
import type { ArbiterReply, Cause, PurgeResult, Refusal, YieldResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, Generation } from "../model/events.ts";
import type { Runner } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import type { JobContext, JobStep } from "./job.ts";
import { fits, freeOf } from "./need.ts";
import { type PurgeJob, startPurge, stepPurge } from "./purge_job.ts";
import { preemptSwitch, startSwitch, stepSwitch, type SwitchJob, type SwitchStep } from "./switch_job.ts";
import { canPurge, cantFit, refusal, refusePreempted } from "./switch_plan.ts";
import { startYield, stepYield, type YieldJob } from "./yield_job.ts";

/** How long the runner may take to say what it does. */
const LOOK_MS = 1_000;
/** Each step has its own numbers; the load at the end needs several. */
const STEPS = { purge: 0, look: 1, yield: 2, switch: 3 } as const;

export interface ReloadJob {
  readonly kind: "reload";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly request: SwitchJob["request"];
  readonly startedMs: MonotonicMs;
  /** Whose model it is now. */
  readonly runner: Runner;
  /** What of it lies outside VRAM, and what it takes in all. */
  readonly missingBytes: Bytes;
  readonly neededBytes: Bytes;
  readonly freeBytes: Bytes | null;
  readonly hasLooked: boolean;
  readonly step:
    | { readonly name: "start" }
    | { readonly name: "purge"; readonly job: PurgeJob }
    | { readonly name: "look"; readonly untilMs: MonotonicMs }
    | { readonly name: "yield"; readonly job: YieldJob }
    | { readonly name: "switch"; readonly job: SwitchJob };
  readonly yielded: YieldResult | null;
  readonly purged: PurgeResult | null;
}

export type ReloadOrder = Pick<
  ReloadJob,
  "generation" | "cause" | "request" | "runner" | "missingBytes" | "neededBytes"
>;

type ReloadStep = JobStep<ReloadJob, ArbiterReply>;

export function startReload(order: ReloadOrder, context: JobContext): ReloadStep {
  const freeBytes = freeOf(context.sample.gpu);
  const job: ReloadJob = {
    kind: "reload",
    ...order,
    startedMs: context.atMs,
    freeBytes,
    hasLooked: false,
    step: { name: "start" },
    yielded: null,
    purged: null,
  };
  return advance(job, context);
}

/** One event for a running reload. */
export function stepReload(job: ReloadJob, event: ArbiterEvent, context: JobContext): ReloadStep {
  const fresh = event.type === "reading" ? { ...job, freeBytes: event.reading.freeBytes } : job;
  const { step } = fresh;
  switch (step.name) {
    case "start":
      return advance(fresh, context);
    case "purge": {
      const { job: inner, effects, result } = stepPurge(step.job, event, context);
      return afterPurge(fresh, { job: inner, effects, result }, context);
    }
    case "look":
      return look(fresh, event, context);
    case "yield":
      return afterYield(fresh, stepYield(step.job, event, context), context);
    case "switch":
      return inSwitch(fresh, stepSwitch(step.job, event, withNeed(fresh, context)));
  }
}

/** ComfyUI has work: what can still be left is left. */
export function preemptReload(job: ReloadJob, context: JobContext): ReloadStep {
  switch (job.step.name) {
    case "switch":
      return inSwitch(job, preemptSwitch(job.step.job, context));
    case "start":
    case "look":
      return end(job, refusePreempted());
    case "purge":
    case "yield":
      return { job, effects: [], result: null };
  }
}

function advance(job: ReloadJob, context: JobContext): ReloadStep {
  const { model } = job.request;
  if (!context.mayAct) return end(job, refusal("cancelled", "The mode is no longer auto"));
  if (context.isComfyBusy || context.isYieldWaiting) return end(job, refusePreempted());
  if (!fits(job.missingBytes, job.freeBytes, context.policy)) {
    if (job.purged === null && canPurge(context)) return beginPurge(job, context);
    return end(job, cantFit({ ...context, model, freeBytes: job.freeBytes }));
  }
  if (!job.hasLooked) return beginLook(job, context);
  if (job.yielded === null) return beginYield(job, context);
  const { request, cause, yielded, purged, freeBytes } = job;
  const order = { generation: job.generation + STEPS.switch, cause, request, before: { yielded, purged, freeBytes } };
  return inSwitch(job, startSwitch(order, withNeed(job, context)));
}

/** What it needs is known better than from any footprint: what it took, on the card and beside it. */
function withNeed({ request, neededBytes }: ReloadJob, context: JobContext): JobContext {
  return {
    ...context,
    policy: { ...context.policy, needs: { ...context.policy.needs, [request.model]: neededBytes } },
  };
}

function beginPurge(job: ReloadJob, context: JobContext): ReloadStep {
  const generation = job.generation + STEPS.purge;
  return afterPurge(job, startPurge({ generation, cause: job.cause, confirm: true }, context), context);
}

function afterPurge(job: ReloadJob, inner: JobStep<PurgeJob, PurgeResult>, context: JobContext): ReloadStep {
  const stepped: ReloadJob = { ...job, step: { name: "purge", job: inner.job }, purged: inner.result };
  return inner.result === null
    ? { job: stepped, effects: inner.effects, result: null }
    : after(inner.effects, advance(stepped, context));
}

function beginLook(job: ReloadJob, { atMs }: JobContext): ReloadStep {
  const generation = job.generation + STEPS.look;
  const untilMs = atMs + LOOK_MS;
  const reason = `${job.request.model} is reloaded only while its runner does nothing`;
  return {
    job: { ...job, step: { name: "look", untilMs } },
    effects: [
      { kind: "probeRunners", generation, runners: [job.runner], reason },
      { kind: "wakeAt", generation, atMs: untilMs, reason },
    ],
    result: null,
  };
}

function look(job: ReloadJob, event: ArbiterEvent, context: JobContext): ReloadStep {
  if (event.type === "runnersProbed" && event.generation === job.generation + STEPS.look) {
    const probe = event.probes.find(({ pid }) => pid === job.runner.pid);
    const isGone = probe === undefined || probe.cpuSeconds === null;
    if (isGone) return end(job, refusal("not_found", `The runner of ${job.request.model} is gone`));
    if (probe.activity === "busy" || probe.activity === "loading") return end(job, busy(job));
    return advance({ ...job, hasLooked: true }, context);
  }
  const isOverdue = job.step.name === "look" && context.atMs >= job.step.untilMs;
  return isOverdue ? end(job, busy(job)) : { job, effects: [], result: null };
}

function busy({ request }: ReloadJob): Refusal {
  return refusal("busy", `${request.model} is answering somebody: it is reloaded at its next idle moment`);
}

function beginYield(job: ReloadJob, context: JobContext): ReloadStep {
  const order = {
    generation: job.generation + STEPS.yield,
    cause: job.cause,
    scope: { models: [job.request.model], keep: [] },
    confirm: true,
  };
  return afterYield(job, startYield(order, context), context);
}

function afterYield(job: ReloadJob, inner: JobStep<YieldJob, YieldResult>, context: JobContext): ReloadStep {
  const stepped: ReloadJob = { ...job, step: { name: "yield", job: inner.job }, yielded: inner.result };
  if (inner.result === null) return { job: stepped, effects: inner.effects, result: null };
  const { outcome, message } = inner.result;
  const isGone = outcome === "released" || outcome === "nothing_loaded";
  return after(inner.effects, isGone ? advance(stepped, context) : end(stepped, refusal("busy", message)));
}

function inSwitch(job: ReloadJob, { job: inner, effects, result }: SwitchStep): ReloadStep {
  const stepped: ReloadJob = {
    ...job,
    step: { name: "switch", job: inner },
    yielded: inner.yielded ?? job.yielded,
    purged: inner.purged ?? job.purged,
  };
  return { job: stepped, effects, result };
}

function end(job: ReloadJob, why: Refusal): ReloadStep {
  return { job, effects: [], result: { kind: "refused", refusal: why } };
}

function after(effects: readonly ArbiterEffect[], step: ReloadStep): ReloadStep {
  return effects.length === 0 ? step : { ...step, effects: [...effects, ...step.effects] };
}
