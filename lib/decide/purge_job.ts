/**
 * One purge of ComfyUI (SPEC 2.1, 2.3): `/free` at a moment when it can't get lost, then wait until the driver shows
 * that its bytes fell and stayed level. Its process and CUDA context stay.
 */
import type { Cause, Outcome, PurgeResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, FreeReply, Generation } from "../model/events.ts";
import type { BarrierReading, Sample } from "../model/sample.ts";
import { type Bytes, type MonotonicMs, toGib } from "../model/units.ts";
import { bytesOfAll } from "./release.ts";
import type { JobStep, YieldContext } from "./yield_job.ts";

/** Pause before the queue is read again when it answered too slowly: ComfyUI was collecting garbage. */
const SLOW_RETRY_MS = 500;
/** `/free` is sent at most this often: the second only after nothing fell (SPEC 2.3). */
const MOST_SENDS = 2;

export interface PurgeJob {
  readonly kind: "purge";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly confirm: boolean;
  readonly startedMs: MonotonicMs;
  /** `quiet`: not yet 1 s after the last prompt; `asking`: queue reads and `/free` under way; `falling`: sent. */
  readonly phase: "quiet" | "asking" | "falling";
  readonly pids: readonly number[];
  /** What ComfyUI held when the purge started; null when the driver doesn't say. */
  readonly bytesBefore: Bytes | null;
  readonly isReadable: boolean;
  readonly sends: number;
  readonly firstSentMs: MonotonicMs | null;
  readonly lastSentMs: MonotonicMs | null;
  readonly requestMs: number | null;
  readonly bytesNow: Bytes | null;
  /** The level its bytes have stayed at, and since when. */
  readonly level: { readonly bytes: Bytes; readonly sinceMs: MonotonicMs } | null;
  readonly isOverlapped: boolean;
  readonly failure: string | null;
}

export interface PurgeOrder {
  readonly generation: Generation;
  readonly cause: Cause;
  readonly confirm: boolean;
  /** When ComfyUI's last prompt ended; null when none was seen. */
  readonly idleSinceMs: MonotonicMs | null;
  /** What it was measured to keep after an earlier purge (its CUDA context); null before the first. */
  readonly contextBytes: Bytes | null;
}

/** Pids counted for ComfyUI, and their bytes. */
export function comfyHoldings(sample: Sample): { pids: readonly number[]; bytes: Bytes | null } {
  if (!sample.gpu.available) return { pids: [], bytes: null };
  const mine = sample.gpu.breakdown.processes.filter((process) => process.bucket === "comfy");
  return { pids: mine.map((process) => process.pid), bytes: sample.gpu.breakdown.comfyBytes };
}

export function startPurge(order: PurgeOrder, context: YieldContext): JobStep<PurgeJob, PurgeResult> {
  const { sample, atMs, policy } = context;
  const { pids, bytes } = comfyHoldings(sample);
  const job: PurgeJob = {
    kind: "purge",
    generation: order.generation,
    cause: order.cause,
    confirm: order.confirm,
    startedMs: atMs,
    phase: "quiet",
    pids,
    bytesBefore: bytes,
    isReadable: sample.gpu.available && bytes !== null && pids.length > 0,
    sends: 0,
    firstSentMs: null,
    lastSentMs: null,
    requestMs: null,
    bytesNow: bytes,
    level: null,
    isOverlapped: false,
    failure: null,
  };
  const immediate = immediateOutcome(job, order, context);
  if (immediate !== null) return finish(job, immediate, context);
  const quietAtMs = (order.idleSinceMs ?? -Infinity) + policy.purge.quietMs;
  if (quietAtMs <= atMs) return send(job, "ComfyUI's queue is empty");
  const reason = "a /free within a second of a prompt's end gets lost while ComfyUI collects garbage";
  return { job, effects: [{ kind: "wakeAt", generation: job.generation, atMs: quietAtMs, reason }], result: null };
}

function immediateOutcome(job: PurgeJob, order: PurgeOrder, { sample, policy }: YieldContext): Outcome | null {
  if (!sample.comfy.online) return "unreachable";
  if (sample.comfy.isRemote) return "remote";
  if (sample.gpu.available && sample.gpu.reading.processes !== null && sample.comfy.server !== null) {
    if (job.pids.length === 0) return "nothing_loaded";
    const isBare = order.contextBytes !== null && job.bytesBefore !== null &&
      job.bytesBefore <= order.contextBytes + policy.purge.slackBytes;
    if (isBare) return "nothing_loaded";
  }
  return null;
}

/** One event for a running purge. */
export function stepPurge(job: PurgeJob, event: ArbiterEvent, context: YieldContext): JobStep<PurgeJob, PurgeResult> {
  switch (event.type) {
    case "comfyActivity":
      if (event.queueRemaining === 0) return goOn(job);
      // A prompt goes first: what was sent already may strike after it, and the record says so.
      return finish({ ...job, isOverlapped: job.firstSentMs !== null }, "busy", context);
    case "barrierLost":
      return goOn({ ...job, isReadable: false });
    case "reading":
      return job.phase === "falling" ? weigh(job, event.reading, context) : goOn(job);
    case "freeReplied":
      return event.generation === job.generation ? onFree(job, event.reply, context) : goOn(job);
    case "woke":
      return event.generation === job.generation ? onWake(job, context) : goOn(job);
    default:
      return goOn(job);
  }
}

function goOn(job: PurgeJob): JobStep<PurgeJob, PurgeResult> {
  return { job, effects: [], result: null };
}

function send(job: PurgeJob, reason: string): JobStep<PurgeJob, PurgeResult> {
  return {
    job: { ...job, phase: "asking" },
    effects: [{ kind: "freeComfy", generation: job.generation, reason }],
    result: null,
  };
}

function onFree(job: PurgeJob, reply: FreeReply, context: YieldContext): JobStep<PurgeJob, PurgeResult> {
  switch (reply.kind) {
    case "occupied":
      return finish(job, "busy", context);
    case "slow":
      return {
        job: { ...job, phase: job.sends === 0 ? "quiet" : "falling" },
        effects: [wake(job, context.atMs + SLOW_RETRY_MS, "ComfyUI answered slowly: it may be collecting garbage")],
        result: null,
      };
    case "failed":
      return finish({ ...job, failure: reply.message }, "unreachable", context);
    case "sent":
      return onSent(job, reply, context);
  }
}

function onSent(
  job: PurgeJob,
  reply: Extract<FreeReply, { kind: "sent" }>,
  context: YieldContext,
): JobStep<PurgeJob, PurgeResult> {
  const sent: PurgeJob = {
    ...job,
    phase: "falling",
    sends: job.sends + 1,
    firstSentMs: job.firstSentMs ?? reply.sentAtMs,
    lastSentMs: reply.sentAtMs,
    requestMs: reply.sentAtMs + reply.requestMs - job.startedMs,
    level: null,
  };
  if (!job.confirm || !job.isReadable) return finish(sent, "unconfirmed", context);
  const { resendAfterMs, ceilingMs } = context.policy.purge;
  const reason = "nothing may have fallen by then";
  return {
    job: sent,
    effects: [
      ...(sent.sends < MOST_SENDS ? [wake(sent, reply.sentAtMs + resendAfterMs, reason)] : []),
      wake(sent, (sent.firstSentMs ?? context.atMs) + ceilingMs, "the ceiling"),
    ],
    result: null,
  };
}

function onWake(job: PurgeJob, context: YieldContext): JobStep<PurgeJob, PurgeResult> {
  const { policy, atMs } = context;
  if (job.phase === "quiet") {
    const isOverdue = atMs - job.startedMs >= policy.purge.ceilingMs + policy.purge.quietMs;
    return isOverdue ? finish(job, "timeout", context) : send(job, "ComfyUI has been quiet for long enough");
  }
  if (job.phase === "asking") return goOn(job);
  if (!job.isReadable) return finish(job, "unconfirmed", context);
  if (job.firstSentMs !== null && atMs - job.firstSentMs >= policy.purge.ceilingMs) {
    return finish(job, hasFallen(job, context) ? "released" : "timeout", context);
  }
  const isResendDue = job.sends < MOST_SENDS && job.lastSentMs !== null &&
    atMs - job.lastSentMs >= policy.purge.resendAfterMs && !hasFallen(job, context);
  return isResendDue ? send(job, "nothing has fallen for 5 s: the first /free got lost") : goOn(job);
}

function hasFallen(job: PurgeJob, { policy }: YieldContext): boolean {
  return job.bytesBefore !== null && job.bytesNow !== null &&
    job.bytesNow < job.bytesBefore - policy.purge.slackBytes;
}

/** Fell, and then stayed level (±64 MB for 250 ms). */
function weigh(job: PurgeJob, reading: BarrierReading, context: YieldContext): JobStep<PurgeJob, PurgeResult> {
  const bytes = bytesOfAll(reading, job.pids);
  if (bytes === null) return finish({ ...job, isReadable: false }, "unconfirmed", context);
  const { slackBytes, levelMs } = context.policy.purge;
  const isLevel = job.level !== null && Math.abs(bytes - job.level.bytes) <= slackBytes;
  const level = isLevel && job.level !== null ? job.level : { bytes, sinceMs: reading.atMs };
  const next: PurgeJob = { ...job, bytesNow: bytes, level };
  if (!hasFallen(next, context) || reading.atMs - level.sinceMs < levelMs) return goOn(next);
  return finish(next, "released", context);
}

function wake(job: PurgeJob, atMs: MonotonicMs, reason: string): ArbiterEffect {
  return { kind: "wakeAt", generation: job.generation, atMs, reason };
}

function finish(job: PurgeJob, outcome: Outcome, context: YieldContext): JobStep<PurgeJob, PurgeResult> {
  const isMeasured = job.isReadable && job.bytesBefore !== null && job.bytesNow !== null;
  const freedBytes = outcome === "nothing_loaded"
    ? 0
    : isMeasured && job.firstSentMs !== null
    ? Math.max(0, (job.bytesBefore ?? 0) - (job.bytesNow ?? 0))
    : null;
  const result: PurgeResult = {
    outcome,
    cause: job.cause,
    requestMs: job.requestMs,
    confirmMs: outcome === "released" ? context.atMs - job.startedMs : null,
    freedBytes,
    remainingBytes: isMeasured ? job.bytesNow : null,
    confirmedBy: outcome === "released" ? "NVML: ComfyUI's bytes fell and stayed level for 250 ms" : null,
    overlapped: job.isOverlapped,
    message: messageFor(job, outcome, { freedBytes, context }),
  };
  return { job, effects: [], result };
}

function messageFor(
  job: PurgeJob,
  outcome: Outcome,
  { freedBytes, context }: { readonly freedBytes: Bytes | null; readonly context: YieldContext },
): string {
  const { comfy, gpu } = context.sample;
  switch (outcome) {
    case "nothing_loaded":
      return "ComfyUI holds no model";
    case "unreachable":
      return `ComfyUI at ${comfy.url} doesn't answer: ${job.failure ?? comfy.reason ?? "unknown"}`;
    case "remote":
      return `ComfyUI at ${comfy.url} runs on another host: purging there frees nothing on this card`;
    case "unconfirmed":
      return job.confirm
        ? `ComfyUI was asked to free its memory, but the driver can't confirm it: ${
          gpu.available ? "it gives no bytes for its process" : gpu.reason
        }`
        : "ComfyUI was asked to free its memory; not waited for, since confirm=false";
    case "released":
      return `The driver has ${toGib(freedBytes ?? 0)} GB back; ComfyUI keeps ${toGib(job.bytesNow ?? 0)} GB`;
    case "busy":
      return job.isOverlapped
        ? "A prompt arrived after /free was sent: it may strike right after that prompt"
        : "ComfyUI has work: it is never purged meanwhile";
    case "fault":
    case "timeout":
      return job.sends === 0
        ? "ComfyUI never answered promptly enough to be asked"
        : `Nothing fell within the ceiling after ${job.sends} requests: models held by custom nodes outlive /free`;
  }
}
