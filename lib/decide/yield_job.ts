/**
 * One yield, from the first reading to its outcome (SPEC 2.1): ask Ollama to unload, then wait until the driver has
 * really freed the memory. The reply to the unload is a receipt and proves nothing.
 */
import type { Cause, Outcome, YieldResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, Generation } from "../model/events.ts";
import type { Policy } from "../model/policy.ts";
import type { BarrierReading, Sample } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";
import { READINGS_IN_A_ROW, residualOf } from "./release.ts";
import { concludeYield, findOutcome } from "./yield_outcome.ts";
import { type ModelUnload, type Scope, type Target, targetsOf, unloadsOf } from "./yield_targets.ts";
import { isReleased } from "./release.ts";
import { noEvidence, observe, type RunnerEvidence } from "./runner_evidence.ts";

/** How long to wait for the first reading before asking without one: NVML may be blocked by a starting process. */
const FIRST_READING_MS = 30;
/** Pace of looking again at `/api/ps` and the runners while something is held. */
const LOOK_AGAIN_MS = 250;

export interface YieldJob {
  readonly kind: "yield";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly scope: Scope;
  readonly confirm: boolean;
  readonly startedMs: MonotonicMs;
  /** `opening`: waiting for the barrier's first reading; `asked`: the unloads are out. */
  readonly phase: "opening" | "asked";
  /** Null while the driver hasn't been read, or can't be. */
  readonly residualBytes: number | null;
  /** False once the driver can't be read: the outcome is then `unconfirmed` at best. */
  readonly isReadable: boolean;
  readonly targets: readonly Target[];
  readonly unloads: readonly ModelUnload[];
  /** False until `/api/ps` and the children were listed once after the start. */
  readonly isListed: boolean;
  /** False until the children were listed again after every unload was answered. */
  readonly isRelisted: boolean;
  /** Names `/api/ps` gave last; null while it hasn't answered. */
  readonly resident: readonly string[] | null;
  /** Runners (pid, start) that stood in the last list of children. */
  readonly alive: readonly number[];
  readonly reading: BarrierReading | null;
  /** Readings in a row that satisfy the predicate. */
  readonly streak: number;
  readonly releasedMs: MonotonicMs | null;
  readonly evidence: Readonly<Record<number, RunnerEvidence>>;
  /** Looks in a row at which every held runner was idle, and the first of them. */
  readonly idleLooks: number;
  readonly lastGoneMs: MonotonicMs | null;
}

export interface YieldContext {
  readonly policy: Policy;
  readonly sample: Sample;
  readonly atMs: MonotonicMs;
}

export interface JobStep<Job, Result> {
  readonly job: Job;
  readonly effects: readonly ArbiterEffect[];
  /** Null while it goes on. */
  readonly result: Result | null;
}

export interface YieldOrder {
  readonly generation: Generation;
  readonly cause: Cause;
  readonly scope: Scope;
  readonly confirm: boolean;
}

/** Starts a yield, or answers at once where there is nothing to do or nobody to ask. */
export function startYield(order: YieldOrder, context: YieldContext): JobStep<YieldJob, YieldResult> {
  const { sample, atMs } = context;
  const gpu = sample.gpu.available ? sample.gpu : null;
  const job: YieldJob = {
    kind: "yield",
    ...order,
    startedMs: atMs,
    phase: "opening",
    residualBytes: gpu?.reading.memory && gpu.reading.processes
      ? residualOf({ usedBytes: gpu.reading.memory.usedBytes, processes: gpu.reading.processes })
      : null,
    isReadable: gpu !== null,
    targets: targetsOf(sample.ollama.runners, {
      ollama: sample.ollama,
      resident: sample.ollama.resident,
      scope: order.scope,
      breakdown: gpu?.breakdown ?? null,
    }),
    unloads: unloadsOf(sample.ollama.resident, order.scope),
    isListed: false,
    isRelisted: false,
    resident: null,
    alive: sample.ollama.runners.map((runner) => runner.pid),
    reading: null,
    streak: 0,
    releasedMs: null,
    evidence: {},
    idleLooks: 0,
    lastGoneMs: null,
  };
  const immediate = immediateOutcome(job, sample);
  if (immediate !== null) return { job, effects: [], result: concludeYield(job, { ...immediate, context }) };
  const why = "find what is resident before asking for the unload";
  return {
    job,
    effects: [
      { kind: "listRunners", generation: order.generation, reason: why },
      { kind: "listResident", generation: order.generation, reason: why },
      wake(job, atMs + FIRST_READING_MS),
    ],
    result: null,
  };
}

function immediateOutcome(job: YieldJob, sample: Sample): { outcome: Outcome } | null {
  if (sample.ollama.isRemote) {
    return { outcome: sample.ollama.online && job.unloads.length === 0 ? "nothing_loaded" : remoteOrDown(sample) };
  }
  return sample.ollama.online ? null : { outcome: "unreachable" };
}

function remoteOrDown(sample: Sample): Outcome {
  return sample.ollama.online ? "remote" : "unreachable";
}

/** One event for a running yield. Events of other generations change nothing. */
export function stepYield(job: YieldJob, event: ArbiterEvent, context: YieldContext): JobStep<YieldJob, YieldResult> {
  const next = absorb(job, event, context);
  const asked = next.phase === "opening" ? ask(next, event, context) : askAgain(next, event, context);
  const outcome = findOutcome(asked.job, context);
  if (outcome === null) return asked;
  return { job: asked.job, effects: asked.effects, result: concludeYield(asked.job, { ...outcome, context }) };
}

/** What an event tells, before anything is decided from it. */
function absorb(job: YieldJob, event: ArbiterEvent, context: YieldContext): YieldJob {
  switch (event.type) {
    case "reading":
      return absorbReading(job, event.reading, context.policy.yield.slackBytes);
    case "barrierLost":
      return { ...job, isReadable: false };
    case "unloadReplied":
      if (event.generation !== job.generation) return job;
      return {
        ...job,
        unloads: job.unloads.map((unload) =>
          unload.model === event.model && unload.repliedMs === null
            ? { ...unload, repliedMs: event.atMs, error: event.error }
            : unload
        ),
      };
    case "runnersListed":
      return event.generation === job.generation ? absorbRunners(job, event.runners, context) : job;
    case "residentListed":
      return event.generation === job.generation ? absorbResident(job, event.resident, context) : job;
    case "runnersProbed":
      return event.generation === job.generation ? absorbProbes(job, event) : job;
    default:
      return job;
  }
}

function absorbReading(job: YieldJob, reading: BarrierReading, slackBytes: number): YieldJob {
  if (job.phase === "opening") {
    // The smaller residual is the safe one: a reading taken while memory is on its way back shows too large a one.
    const residual = residualOf(reading);
    const residualBytes = job.residualBytes === null ? residual : Math.min(job.residualBytes, residual);
    return { ...job, reading, residualBytes };
  }
  const targets = job.targets.map((target) => target.runner.pid);
  const holds = job.residualBytes !== null && job.isRelisted &&
    isReleased(reading, { targets, residualBytes: job.residualBytes, slackBytes });
  const streak = holds ? job.streak + 1 : 0;
  const evidence = reading.smPctByPid === null ? job.evidence : observe(job.evidence, targets, { sm: reading });
  return {
    ...job,
    reading,
    streak,
    evidence,
    releasedMs: streak >= READINGS_IN_A_ROW ? reading.atMs : null,
  };
}

function absorbRunners(
  job: YieldJob,
  runners: Parameters<typeof targetsOf>[0],
  context: YieldContext,
): YieldJob {
  const gpu = context.sample.gpu;
  const found = targetsOf(runners, {
    ollama: context.sample.ollama,
    resident: context.sample.ollama.resident,
    scope: job.scope,
    breakdown: gpu.available ? gpu.breakdown : null,
  });
  const isKnown = (target: Target) =>
    job.targets.some((known) =>
      known.runner.pid === target.runner.pid && known.runner.startTime === target.runner.startTime
    );
  const alive = runners.map((runner) => runner.pid);
  const someoneLeft = job.targets.some((target) =>
    job.alive.includes(target.runner.pid) && !alive.includes(target.runner.pid)
  );
  return {
    ...job,
    targets: [...job.targets, ...found.filter((target) => !isKnown(target))],
    alive,
    lastGoneMs: someoneLeft ? context.atMs : job.lastGoneMs,
    isRelisted: job.isRelisted || (job.phase === "asked" && isAnswered(job)),
  };
}

function absorbResident(
  job: YieldJob,
  resident: Sample["ollama"]["resident"] | null,
  context: YieldContext,
): YieldJob {
  if (resident === null) return { ...job, isListed: true };
  const fresh = unloadsOf(resident, job.scope).filter((row) =>
    !job.unloads.some((known) => known.model === row.model && known.error === null)
  );
  const targets = job.targets.map((target) => {
    if (target.model !== null) return target;
    const named = targetsOf([target.runner], {
      ollama: context.sample.ollama,
      resident,
      scope: job.scope,
      breakdown: context.sample.gpu.available ? context.sample.gpu.breakdown : null,
    })[0];
    return named === undefined ? target : { ...target, model: named.model };
  });
  return {
    ...job,
    targets,
    unloads: [...job.unloads.filter((row) => !fresh.some((other) => other.model === row.model)), ...fresh],
    resident: resident.map((row) => row.name),
    isListed: true,
  };
}

function absorbProbes(job: YieldJob, event: Extract<ArbiterEvent, { type: "runnersProbed" }>): YieldJob {
  const pids = job.targets.map((target) => target.runner.pid);
  const evidence = observe(job.evidence, pids, { probes: event.probes, atMs: event.atMs });
  const isIdle = event.probes.every((probe) => (evidence[probe.pid] ?? noEvidence()).working === null);
  return { ...job, evidence, idleLooks: isIdle ? job.idleLooks + 1 : 0 };
}

export function isAnswered(job: YieldJob): boolean {
  return job.unloads.every((unload) => unload.repliedMs !== null);
}

/** Opening: the unloads go out with the first reading, or without one when it doesn't come. */
function ask(job: YieldJob, event: ArbiterEvent, context: YieldContext): JobStep<YieldJob, YieldResult> {
  const isDue = event.type === "reading" || !job.isReadable || context.atMs - job.startedMs >= FIRST_READING_MS;
  if (!isDue || (job.unloads.length === 0 && !job.isListed)) return { job, effects: [], result: null };
  return sendUnloads({ ...job, phase: "asked" }, context, [
    { kind: "probeRunners", ...probesOf(job), reason: "a first look at the runners' own work" },
    wake(job, context.atMs + LOOK_AGAIN_MS),
  ]);
}

/** Asked: ask for what has shown up since, list again once all is answered, look again from time to time. */
function askAgain(job: YieldJob, event: ArbiterEvent, context: YieldContext): JobStep<YieldJob, YieldResult> {
  const effects: ArbiterEffect[] = [];
  if (event.type === "unloadReplied" && isAnswered(job)) {
    const reason = "every unload is answered: see whether another runner has come since";
    effects.push({ kind: "listRunners", generation: job.generation, reason });
    effects.push({ kind: "listResident", generation: job.generation, reason });
  }
  if (event.type === "woke") {
    const reason = "memory is still held";
    effects.push({ kind: "listRunners", generation: job.generation, reason });
    effects.push({ kind: "listResident", generation: job.generation, reason });
    const elapsed = context.atMs - job.startedMs;
    // Three looks before the verdict "busy", then one a second: the samples that a fault is judged by.
    effects.push({ kind: "probeRunners", ...probesOf(job), reason });
    const pauseMs = elapsed < context.policy.yield.busyAfterMs + LOOK_AGAIN_MS ? LOOK_AGAIN_MS : 1_000;
    effects.push(wake(job, context.atMs + pauseMs));
  }
  return sendUnloads(job, context, effects);
}

function sendUnloads(
  job: YieldJob,
  context: YieldContext,
  more: readonly ArbiterEffect[],
): JobStep<YieldJob, YieldResult> {
  const due = job.unloads.filter((unload) => unload.sentMs === null);
  const effects: ArbiterEffect[] = due.map((unload) => ({
    kind: "unload",
    generation: job.generation,
    model: unload.model,
    reason: `${unload.model} is resident and not kept`,
  }));
  const unloads = due.length === 0
    ? job.unloads
    : job.unloads.map((unload) => (unload.sentMs === null ? { ...unload, sentMs: context.atMs } : unload));
  const nothingToAsk = unloads.length === 0 && job.phase === "asked" && !job.isRelisted;
  return {
    job: nothingToAsk ? { ...job, isRelisted: true } : { ...job, unloads },
    effects: [...effects, ...more],
    result: null,
  };
}

function probesOf(job: YieldJob): { generation: Generation; runners: readonly Target["runner"][] } {
  return { generation: job.generation, runners: job.targets.map((target) => target.runner) };
}

function wake(job: YieldJob, atMs: MonotonicMs): ArbiterEffect {
  return { kind: "wakeAt", generation: job.generation, atMs, reason: "look again" };
}
