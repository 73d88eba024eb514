/**
 * Ends one runner that was reported as stuck, because its owner asked for that by pid and start time, and waits until the
 * driver has its memory back. Its server is never ended: it finds out at the next request, and loads again.
 */
import type { ArbiterReply, Cause, EndRunnerResult, Outcome } from "../model/arbitration.ts";
import type { ArbiterEvent, EndRunnerReply, Generation } from "../model/events.ts";
import type { BarrierReading } from "../model/sample.ts";
import type { ProcessId } from "../model/tenants.ts";
import { type Bytes, type MonotonicMs, toGib } from "../model/units.ts";
import type { JobContext, JobStep } from "./job.ts";
import { bytesOf, isReleased, type MemoryView, READINGS_IN_A_ROW } from "./release.ts";
import { isSteady, type Residual, settleResidual, viewOf } from "./residual.ts";
import { refusal } from "./switch_plan.ts";

/** How long a steady residual is waited for. */
const OPENING_MS = 100;
/** How long the driver may take to have the memory back; measured: 90–174 ms after an exit. */
const CEILING_MS = 10_000;

export interface EndRunnerJob {
  readonly kind: "endRunner";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly process: ProcessId;
  readonly model: string | null;
  readonly startedMs: MonotonicMs;
  /** `opening`: the residual is being taken; `ending`: the signal is out; `releasing`: it has gone. */
  readonly phase: "opening" | "ending" | "releasing";
  readonly views: readonly MemoryView[];
  readonly residual: Residual | null;
  /** Why the driver can't confirm it; null while it can. */
  readonly blindness: string | null;
  readonly bytesBefore: Bytes | null;
  readonly streak: number;
  readonly dueMs: MonotonicMs;
}

type EndRunnerStep = JobStep<EndRunnerJob, ArbiterReply>;

export function startEndRunner(
  order: Pick<EndRunnerJob, "generation" | "cause" | "process" | "model">,
  { sample, atMs }: JobContext,
): EndRunnerStep {
  const { gpu } = sample;
  const view = viewOf(gpu);
  const job: EndRunnerJob = {
    kind: "endRunner",
    ...order,
    startedMs: atMs,
    phase: "opening",
    views: view === null ? [] : [view],
    residual: null,
    blindness: gpu.available ? null : gpu.reason,
    bytesBefore: view === null ? null : bytesOf(view, order.process.pid),
    streak: 0,
    dueMs: atMs + OPENING_MS,
  };
  const reason = "see what is held before it is ended";
  return {
    job,
    effects: [{ kind: "wakeAt", generation: job.generation, atMs: job.dueMs, reason }],
    result: null,
  };
}

export function stepEndRunner(job: EndRunnerJob, event: ArbiterEvent, context: JobContext): EndRunnerStep {
  const heard = hear(job, event);
  if (event.type === "runnerEnded" && event.generation === heard.generation && heard.phase === "ending") {
    return onEnded(heard, event.reply, context);
  }
  if (heard.phase === "releasing" && event.type === "reading") return weigh(heard, event.reading, context);
  if (heard.phase === "opening") {
    const isReady = heard.blindness !== null || isSteady(heard.views, context.policy.yield.slackBytes);
    return isReady || context.atMs >= heard.dueMs ? send(heard, context) : goOn(heard);
  }
  if (context.atMs < heard.dueMs) return goOn(heard);
  return heard.phase === "ending"
    ? fail(heard, "it was signalled, and nothing came of it")
    : conclude(heard, heard.residual === null ? "unconfirmed" : "timeout", context);
}

function hear(job: EndRunnerJob, event: ArbiterEvent): EndRunnerJob {
  if (event.type === "barrierLost") return { ...job, blindness: event.reason };
  if (event.type === "sampled" && !event.sample.gpu.available) return { ...job, blindness: event.sample.gpu.reason };
  if (event.type !== "reading" || job.phase !== "opening") return job;
  return {
    ...job,
    views: [...job.views, event.reading].slice(-2),
    bytesBefore: bytesOf(event.reading, job.process.pid),
  };
}

function goOn(job: EndRunnerJob): EndRunnerStep {
  return { job, effects: [], result: null };
}

function send(job: EndRunnerJob, { atMs, policy, residualHistory }: JobContext): EndRunnerStep {
  const isSettled = isSteady(job.views, policy.yield.slackBytes);
  const residual = isSettled ? settleResidual(job.views, residualHistory) : null;
  const dueMs = atMs + CEILING_MS;
  const { generation, process } = job;
  const reason = `pid ${process.pid} was reported as stuck, and its end was asked for`;
  return {
    job: { ...job, phase: "ending", residual, dueMs },
    effects: [
      { kind: "endRunner", generation, process, reason },
      { kind: "wakeAt", generation, atMs: dueMs, reason: "the ceiling" },
    ],
    result: null,
  };
}

function onEnded(job: EndRunnerJob, reply: EndRunnerReply, context: JobContext): EndRunnerStep {
  switch (reply.kind) {
    case "signalled":
    case "gone": {
      const releasing: EndRunnerJob = { ...job, phase: "releasing" };
      return job.blindness === null ? goOn(releasing) : conclude(releasing, "unconfirmed", context);
    }
    case "other_process": {
      const message = `Pid ${job.process.pid} is another process by now: nothing was ended`;
      return { job, effects: [], result: { kind: "refused", refusal: refusal("not_found", message) } };
    }
    case "failed":
      return fail(job, reply.message);
  }
}

function fail(job: EndRunnerJob, why: string): EndRunnerStep {
  const hint = "HyperSwap needs CAP_KILL or root to end another user's process; restarting Ollama ends it, too";
  const refused = refusal("unavailable", `Cannot end pid ${job.process.pid}: ${why}`, { hint });
  return { job, effects: [], result: { kind: "refused", refusal: refused } };
}

function weigh(job: EndRunnerJob, reading: BarrierReading, context: JobContext): EndRunnerStep {
  if (job.blindness !== null) return conclude(job, "unconfirmed", context);
  const { residual, process } = job;
  const { slackBytes } = context.policy.yield;
  const isBack = residual !== null && isReleased(reading, { targets: [process.pid], residual, slackBytes });
  const streak = isBack ? job.streak + 1 : 0;
  const next: EndRunnerJob = { ...job, streak };
  return streak >= READINGS_IN_A_ROW ? conclude(next, "released", context) : goOn(next);
}

function conclude(job: EndRunnerJob, outcome: Outcome, { atMs }: JobContext): EndRunnerStep {
  const isBack = outcome === "released";
  const freedBytes = isBack ? job.bytesBefore : null;
  const who = `pid ${job.process.pid} (${job.model ?? "model unknown"})`;
  const value: EndRunnerResult = {
    outcome,
    process: job.process,
    model: job.model,
    confirmMs: isBack ? atMs - job.startedMs : null,
    freedBytes,
    confirmedBy: isBack
      ? "NVML: its process gone and used memory back at its residual, on two readings in a row"
      : null,
    message: isBack
      ? `${who} was ended, and the driver has ${toGib(freedBytes) ?? "an unknown number of"} GB back`
      : outcome === "timeout"
      ? `${who} was ended, but the driver still counts its memory as used`
      : `${who} was ended; the driver can't confirm that its memory is back: ${
        job.blindness ?? "it gave no steady reading"
      }`,
  };
  return { job, effects: [], result: { kind: "endRunner", value } };
}
