/**
 * One yield, from the first reading to its outcome (SPEC 2.1): ask Ollama to unload, then wait until the driver has
 * really freed the memory. The reply to the unload is a receipt and proves nothing.
 */
import type { Cause, Outcome, YieldResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, Generation } from "../model/events.ts";
import type { BarrierReading, Sample } from "../model/sample.ts";
import type { ResidentModel, Runner } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { JobContext, JobStep } from "./job.ts";
import type { MemoryView } from "./release.ts";
import { isSteady, type Residual, settleResidual, viewOf } from "./residual.ts";
import type { RunnerEvidence } from "./runner_evidence.ts";
import { hearYield, isAnswered, noteBytes } from "./yield_news.ts";
import { findOutcome } from "./yield_outcome.ts";
import { concludeYield } from "./yield_result.ts";
import { findTargets, type ModelUnload, type Scope, type Target, unloadsOf } from "./yield_targets.ts";

/** How long to wait for a steady residual before asking without one: NVML may be blocked by a starting process. */
const OPENING_MS = 30;
/** Pace of looking again at `/api/ps` and the runners: several looks before the verdict "busy" … */
const LOOK_AGAIN_MS = 250;
/** … and then one a second: the samples that a fault is judged by. */
const LOOK_SLOWLY_MS = 1_000;

export interface YieldJob {
  readonly kind: "yield";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly scope: Scope;
  readonly confirm: boolean;
  readonly startedMs: MonotonicMs;
  /** `opening`: the residual is being taken; `asked`: the unloads are out. */
  readonly phase: "opening" | "asked";
  /** The last two looks at the card before the residual was settled. */
  readonly views: readonly MemoryView[];
  /** Null while it isn't settled, or can't be. */
  readonly residual: Residual | null;
  /** Why the driver can't be read (any more): the outcome is then `unconfirmed` at best. Null while it can. */
  readonly blindness: string | null;
  /** The server's children, as last listed. */
  readonly runners: readonly Runner[];
  /** `/api/ps`, as last answered; at first the sample's. */
  readonly rows: readonly ResidentModel[];
  /** Whether `/api/ps` answered when it was last asked. */
  readonly ps: "pending" | "silent" | "listed";
  /** False until the children were listed once after the start. */
  readonly areRunnersListed: boolean;
  /** False where /proc couldn't be read when they were: no child in the list then means nothing. */
  readonly isListTrusted: boolean;
  /** False until the children were listed again after every unload was answered. */
  readonly isRelisted: boolean;
  readonly targets: readonly Target[];
  readonly unloads: readonly ModelUnload[];
  readonly reading: BarrierReading | null;
  /** Readings in a row that satisfy the predicate. */
  readonly streak: number;
  readonly releasedMs: MonotonicMs | null;
  readonly evidence: Readonly<Record<number, RunnerEvidence>>;
  /** Looks in a row at which every held runner was idle. */
  readonly idleLooks: number;
  /** When a target was last seen to have gone: Ollama unloads one model after another. */
  readonly lastGoneMs: MonotonicMs | null;
  readonly nextLookMs: MonotonicMs;
}

export interface YieldOrder {
  readonly generation: Generation;
  readonly cause: Cause;
  readonly scope: Scope;
  readonly confirm: boolean;
}

type YieldStep = JobStep<YieldJob, YieldResult>;

/** Starts a yield, or answers at once where there is nobody to ask. */
export function startYield(order: YieldOrder, context: JobContext): YieldStep {
  const { sample } = context;
  const job = firstState(order, context);
  const immediate = immediateOutcome(job, sample);
  if (immediate !== null) return { job, effects: [], result: concludeYield(job, { outcome: immediate, context }) };
  const why = "find what is resident before asking for the unload";
  return {
    job,
    effects: [
      { kind: "listRunners", generation: order.generation, reason: why },
      { kind: "listResident", generation: order.generation, reason: why },
      wake(job),
    ],
    result: null,
  };
}

function firstState(order: YieldOrder, { sample, atMs }: JobContext): YieldJob {
  const { gpu, ollama } = sample;
  const view = viewOf(gpu);
  const targets = findTargets([], {
    runners: ollama.runners,
    resident: ollama.resident,
    names: ollama,
    scope: order.scope,
  });
  return {
    kind: "yield",
    ...order,
    startedMs: atMs,
    phase: "opening",
    views: view === null ? [] : [view],
    residual: null,
    blindness: gpu.available ? null : gpu.reason,
    runners: ollama.runners,
    rows: ollama.resident,
    ps: "pending",
    areRunnersListed: false,
    isListTrusted: sample.sources.processes.ok,
    isRelisted: false,
    targets: view === null ? targets : noteBytes(targets, view, { isStart: true }),
    unloads: unloadsOf(ollama.resident, order.scope, ollama),
    reading: null,
    streak: 0,
    releasedMs: null,
    evidence: {},
    idleLooks: 0,
    lastGoneMs: null,
    nextLookMs: atMs + OPENING_MS,
  };
}

function immediateOutcome(job: YieldJob, { ollama }: Sample): Outcome | null {
  if (!ollama.online) return "unreachable";
  if (!ollama.isRemote) return null;
  return job.unloads.length === 0 ? "nothing_loaded" : "remote";
}

/** One event for a running yield. Results of other generations change nothing. */
export function stepYield(job: YieldJob, event: ArbiterEvent, context: JobContext): YieldStep {
  const heard = hearYield(job, event, context);
  const asked = heard.phase === "opening" ? open(heard, context) : pursue(heard, event, context);
  const outcome = findOutcome(asked.job, context);
  if (outcome === null) return asked;
  return { job: asked.job, effects: asked.effects, result: concludeYield(asked.job, { outcome, context }) };
}

/** Opening: the unloads go out as soon as the residual is steady, or without that when it doesn't become so. */
function open(job: YieldJob, context: JobContext): YieldStep {
  const { atMs, policy, residualHistory } = context;
  const { slackBytes } = policy.yield;
  const isOverdue = atMs >= job.nextLookMs;
  const isReady = job.areRunnersListed && (job.blindness !== null || isSteady(job.views, slackBytes));
  if (!isReady && !isOverdue) return goOn(job);
  if (dueUnloads(job).length === 0 && (job.ps === "pending" || !job.areRunnersListed)) {
    if (!isOverdue) return goOn(job);
    const waiting = { ...job, nextLookMs: atMs + LOOK_AGAIN_MS };
    return { job: waiting, effects: [wake(waiting)], result: null };
  }
  const asked: YieldJob = {
    ...job,
    phase: "asked",
    residual: settleResidual(job.views, residualHistory),
    nextLookMs: atMs + LOOK_AGAIN_MS,
  };
  const effects: ArbiterEffect[] = [
    { kind: "probeRunners", ...probesOf(asked), reason: "a first look at the runners' own work" },
    wake(asked),
  ];
  if (dueUnloads(asked).length === 0) {
    const reason = "nothing is listed that could be asked: see whether the runner is still there";
    effects.push({ kind: "listRunners", generation: job.generation, reason });
  }
  return sendUnloads(asked, effects, context);
}

/** Asked: ask for what has shown up since, list again once all is answered, look again from time to time. */
function pursue(job: YieldJob, event: ArbiterEvent, context: JobContext): YieldStep {
  const { generation } = job;
  const effects: ArbiterEffect[] = [];
  if (event.type === "unloadReplied" && event.generation === generation && isAnswered(job)) {
    const reason = "every unload is answered: see whether another runner has come since";
    effects.push({ kind: "listRunners", generation, reason }, { kind: "listResident", generation, reason });
  }
  if (context.atMs < job.nextLookMs) return sendUnloads(job, effects, context);
  const isEarly = context.atMs - job.startedMs < context.policy.yield.busyAfterMs + LOOK_AGAIN_MS;
  const next: YieldJob = { ...job, nextLookMs: context.atMs + (isEarly ? LOOK_AGAIN_MS : LOOK_SLOWLY_MS) };
  const reason = "memory is still held";
  effects.push(
    { kind: "listRunners", generation, reason },
    { kind: "listResident", generation, reason },
    { kind: "probeRunners", ...probesOf(job), reason },
    wake(next),
  );
  return sendUnloads(next, effects, context);
}

function sendUnloads(job: YieldJob, more: readonly ArbiterEffect[], { atMs, mayAct }: JobContext): YieldStep {
  const due = dueUnloads(job);
  if (due.length === 0) return { job, effects: more, result: null };
  if (!mayAct) {
    const unloads = job.unloads.filter((unload) => unload.sentMs !== null);
    return { job: { ...job, unloads }, effects: more, result: null };
  }
  const effects: ArbiterEffect[] = due.map((unload) => ({
    kind: "unload",
    generation: job.generation,
    model: unload.askedAs,
    reason: reasonFor(unload),
  }));
  const unloads = job.unloads.map((unload) =>
    due.includes(unload) ? { ...unload, sentMs: atMs, attempts: unload.attempts + 1 } : unload
  );
  return {
    job: { ...job, unloads, isRelisted: false },
    effects: [...effects, ...more],
    result: null,
  };
}

function reasonFor({ model, askedAs, attempts }: ModelUnload): string {
  if (askedAs !== model) {
    return `${model} was deleted while it was loaded: its weights are installed as ${askedAs}, too`;
  }
  return attempts === 0 ? `${model} is resident and not kept` : `${model} is still there after it was asked`;
}

/** Not asked yet. A row of the last sample that no runner carries may be gone by now: `/api/ps` has the word on it. */
function dueUnloads(job: YieldJob): readonly ModelUnload[] {
  return job.unloads.filter(({ sentMs, model }) =>
    sentMs === null &&
    (job.ps !== "pending" || job.targets.some((target) => target.isListed && target.model === model))
  );
}

function goOn(job: YieldJob): YieldStep {
  return { job, effects: [], result: null };
}

function probesOf(job: YieldJob): { generation: Generation; runners: readonly Runner[] } {
  return { generation: job.generation, runners: job.targets.map((target) => target.runner) };
}

function wake(job: YieldJob): ArbiterEffect {
  return { kind: "wakeAt", generation: job.generation, atMs: job.nextLookMs, reason: "look again" };
}
