/**
 * One purge of ComfyUI (SPEC 2.1, 2.3): `/free` at a moment when it can't get lost, then wait until the driver shows
 * that its bytes fell and stayed level. Its process and CUDA context stay.
 */
import type { Cause, Outcome, PurgeResult } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, FreeReply, Generation } from "../model/events.ts";
import type { BarrierReading, Sample } from "../model/sample.ts";
import { type Bytes, GIB, type MonotonicMs } from "../model/units.ts";
import type { JobContext, JobStep } from "./job.ts";
import { baselineAt, type Level, noteLevel } from "./purge_baseline.ts";
import { concludePurge } from "./purge_result.ts";
import { bytesOfAll } from "./release.ts";

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
  /** What was read since it was asked, until `/free`'s answer tells when it went out. */
  readonly levels: readonly Level[];
  /** What ComfyUI held when `/free` first went out, by readings: a sample may be a second old. Null until that is known. */
  readonly bytesBefore: Bytes | null;
  /** Why the driver can't be read (any more); null while it can. */
  readonly blindness: string | null;
  readonly sends: number;
  readonly firstSentMs: MonotonicMs | null;
  readonly requestMs: number | null;
  readonly bytesNow: Bytes | null;
  /** The level its bytes have stayed at, and since when. */
  readonly level: { readonly bytes: Bytes; readonly sinceMs: MonotonicMs } | null;
  /** When something is to be done next, by phase: ask, give up on the answer, ask again or end. */
  readonly dueMs: MonotonicMs;
  readonly isOverlapped: boolean;
  readonly failure: string | null;
}

export type PurgeOrder = Pick<PurgeJob, "generation" | "cause" | "confirm">;

type PurgeStep = JobStep<PurgeJob, PurgeResult>;

/** Pids counted for ComfyUI, and their bytes. */
export function comfyHoldings(
  sample: Pick<Sample, "gpu">,
): { readonly pids: readonly number[]; readonly bytes: Bytes | null } {
  if (!sample.gpu.available) return { pids: [], bytes: null };
  const mine = sample.gpu.breakdown.processes.filter((process) => process.bucket === "comfy");
  return { pids: mine.map((process) => process.pid), bytes: sample.gpu.breakdown.comfyBytes };
}

/** What ComfyUI may hold before its context was ever measured without being worth a purge: a context is ~0.8 GiB. */
const UNMEASURED_CONTEXT_BYTES = GIB;

/**
 * Whether ComfyUI holds more than its bare context; null where the driver doesn't say. A purge of a bare context waits
 * ten seconds for a fall that can't come.
 */
export function holdsModels(
  { sample, policy, comfyContextBytes }: Pick<JobContext, "sample" | "policy" | "comfyContextBytes">,
): boolean | null {
  const { bytes } = comfyHoldings(sample);
  return bytes === null ? null : bytes > (comfyContextBytes ?? UNMEASURED_CONTEXT_BYTES) + policy.purge.slackBytes;
}

export function startPurge(order: PurgeOrder, context: JobContext): PurgeStep {
  const { atMs, policy, comfyIdleSinceMs } = context;
  const job = takeStock({
    kind: "purge",
    ...order,
    startedMs: atMs,
    phase: "quiet",
    pids: [],
    levels: [],
    bytesBefore: null,
    blindness: null,
    sends: 0,
    firstSentMs: null,
    requestMs: null,
    bytesNow: null,
    level: null,
    dueMs: Math.max(atMs, (comfyIdleSinceMs ?? -Infinity) + policy.purge.quietMs),
    isOverlapped: false,
    failure: null,
  }, context.sample);
  const immediate = immediateOutcome(context);
  if (immediate !== null) return end(job, immediate, context);
  if (job.dueMs <= atMs) return askIfWorthIt(job, "ComfyUI's queue is empty", context);
  const reason = "a /free within a second of a prompt's end gets lost while ComfyUI collects garbage";
  return { job, effects: [wake(job, reason)], result: null };
}

/** Whose bytes count, by a sample; and whether the driver gives them. */
function takeStock(job: PurgeJob, sample: Sample): PurgeJob {
  const { pids, bytes } = comfyHoldings(sample);
  const isTold = bytes !== null && pids.length > 0;
  const blindness = sample.gpu.available ? isTold ? null : "it gives no bytes for its process" : sample.gpu.reason;
  return { ...job, pids, blindness };
}

function immediateOutcome({ sample, isComfyBusy }: JobContext): Outcome | null {
  if (!sample.comfy.online) return "unreachable";
  if (sample.comfy.isRemote) return "remote";
  return isComfyBusy ? "busy" : null;
}

/** Quiet for long enough, so that the newest sample is younger than its last prompt: is there anything to free? */
function askIfWorthIt(job: PurgeJob, reason: string, context: JobContext): PurgeStep {
  const { gpu, comfy } = context.sample;
  const isTold = gpu.available && gpu.reading.processes !== null && comfy.server !== null;
  const { pids, bytes } = comfyHoldings(context.sample);
  const isNothing = isTold && (pids.length === 0 || isBare(bytes, context));
  return isNothing ? end({ ...job, bytesNow: bytes }, "nothing_loaded", context) : ask(job, reason, context);
}

/** No more than what it was measured to keep after an earlier purge: its CUDA context. */
function isBare(bytes: Bytes | null, { comfyContextBytes, policy }: JobContext): boolean {
  return bytes !== null && comfyContextBytes !== null && bytes <= comfyContextBytes + policy.purge.slackBytes;
}

/** One event for a running purge. Results of other generations change nothing. */
export function stepPurge(job: PurgeJob, event: ArbiterEvent, context: JobContext): PurgeStep {
  if (event.type === "freeReplied" && event.generation === job.generation && job.phase === "asking") {
    return onFree({ ...job, phase: "falling" }, event.reply, context);
  }
  if (context.isComfyBusy) return giveWay(job, context);
  const heard = hear(job, event);
  // Once lost, the driver's word may lie on the far side of a restart: it confirms nothing for this purge any more.
  const isReading = event.type === "reading" && heard.blindness === null;
  const step = isReading ? weigh(heard, event.reading, context) : goOn(heard);
  return step.result === null && context.atMs >= step.job.dueMs ? onDue(step.job, context) : step;
}

function hear(job: PurgeJob, event: ArbiterEvent): PurgeJob {
  if (event.type === "barrierLost") return { ...job, blindness: event.reason };
  if (event.type !== "sampled") return job;
  // Until it is asked, a process may still come to the card.
  if (job.phase === "quiet") return takeStock(job, event.sample);
  return event.sample.gpu.available ? job : { ...job, blindness: event.sample.gpu.reason };
}

function goOn(job: PurgeJob): PurgeStep {
  return { job, effects: [], result: null };
}

/** A prompt goes first. What was sent already and hasn't struck may strike after it, and the record says so. */
function giveWay(job: PurgeJob, context: JobContext): PurgeStep {
  const isOverlapped = job.firstSentMs !== null && !hasFallen(job, context);
  return end({ ...job, isOverlapped }, "busy", context);
}

function ask(job: PurgeJob, reason: string, { atMs, policy }: JobContext): PurgeStep {
  const dueMs = (job.firstSentMs ?? atMs) + policy.purge.ceilingMs;
  const asked = job.sends === 0 ? { ...job, levels: [] } : job;
  const asking: PurgeJob = { ...asked, phase: "asking", dueMs };
  return {
    job: asking,
    effects: [{ kind: "freeComfy", generation: job.generation, reason }, wake(asking, "the answer is overdue then")],
    result: null,
  };
}

function onFree(job: PurgeJob, reply: FreeReply, context: JobContext): PurgeStep {
  switch (reply.kind) {
    case "sent":
      return onSent(job, reply, context);
    case "occupied":
      return giveWay(job, context);
    case "slow": {
      const phase = job.sends === 0 ? "quiet" : "falling";
      const later: PurgeJob = { ...job, phase, dueMs: context.atMs + SLOW_RETRY_MS };
      const reason = "ComfyUI answered slowly: it may be collecting garbage";
      return { job: later, effects: [wake(later, reason)], result: null };
    }
    case "failed": {
      const failed = { ...job, failure: reply.message };
      // What was sent before may still strike: a second request that fails ends nothing.
      return job.sends === 0 ? end(failed, "unreachable", context) : fall(failed, context);
    }
  }
}

function onSent(job: PurgeJob, reply: Extract<FreeReply, { kind: "sent" }>, context: JobContext): PurgeStep {
  const firstSentMs = job.firstSentMs ?? reply.sentAtMs;
  const sent: PurgeJob = {
    ...job,
    sends: job.sends + 1,
    firstSentMs,
    bytesBefore: job.bytesBefore ?? baselineAt(job.levels, firstSentMs),
    requestMs: reply.sentAtMs + reply.requestMs - job.startedMs,
  };
  if (context.isComfyBusy) return giveWay(sent, context);
  if (!job.confirm || job.blindness !== null) return end(sent, "unconfirmed", context);
  return fall(sent, context);
}

/** Waits for the fall: until it is time to send once more, or until the ceiling. */
function fall(job: PurgeJob, context: JobContext): PurgeStep {
  const { ceilingMs, resendAfterMs } = context.policy.purge;
  const sentMs = job.firstSentMs ?? job.startedMs;
  const isTwice = mayAskAgain(job, context);
  const falling: PurgeJob = { ...job, phase: "falling", dueMs: sentMs + (isTwice ? resendAfterMs : ceilingMs) };
  const reason = isTwice ? "nothing may have fallen by then" : "the ceiling";
  return { job: falling, effects: [wake(falling, reason)], result: null };
}

function mayAskAgain(job: PurgeJob, { mayAct }: JobContext): boolean {
  return mayAct && job.sends < MOST_SENDS && job.failure === null;
}

function onDue(job: PurgeJob, context: JobContext): PurgeStep {
  const { policy, atMs } = context;
  if (job.phase === "quiet") {
    const isOverdue = atMs - job.startedMs >= policy.purge.ceilingMs + policy.purge.quietMs;
    if (isOverdue || !mayAskAgain(job, context)) return end(job, "timeout", context);
    return askIfWorthIt(job, "ComfyUI has been quiet for long enough", context);
  }
  if (job.sends === 0) return end({ ...job, failure: "it didn't answer in time" }, "unreachable", context);
  if (job.blindness !== null) return end(job, "unconfirmed", context);
  if (job.bytesBefore === null) return end({ ...job, blindness: "it gave no reading" }, "unconfirmed", context);
  const ceilingAtMs = (job.firstSentMs ?? job.startedMs) + policy.purge.ceilingMs;
  if (!hasFallen(job, context)) {
    if (atMs >= ceilingAtMs) return end(job, "timeout", context);
    if (mayAskAgain(job, context)) return ask(job, "nothing has fallen for 5 s: the first /free got lost", context);
  }
  // Falling, but not yet level: a little beyond the ceiling, no longer.
  const lastMs = ceilingAtMs + policy.purge.levelMs;
  if (atMs >= lastMs) return end(job, "timeout", context);
  const waiting: PurgeJob = { ...job, dueMs: atMs < ceilingAtMs ? ceilingAtMs : lastMs };
  return { job: waiting, effects: [wake(waiting, "the ceiling")], result: null };
}

export function hasFallen(job: PurgeJob, { policy }: JobContext): boolean {
  return job.sends > 0 && job.bytesBefore !== null && job.bytesNow !== null &&
    job.bytesNow < job.bytesBefore - policy.purge.slackBytes;
}

/** Fell, and then stayed level (±64 MB for 250 ms). What fell before `/free` was sent is none of its doing. */
function weigh(job: PurgeJob, reading: BarrierReading, context: JobContext): PurgeStep {
  const bytes = bytesOfAll(reading, job.pids);
  if (bytes === null) {
    const blind: PurgeJob = { ...job, blindness: "it gives no bytes for its process" };
    return job.phase === "falling" ? end(blind, "unconfirmed", context) : goOn(blind);
  }
  if (job.sends === 0 && isBare(bytes, context)) return end({ ...job, bytesNow: bytes }, "nothing_loaded", context);
  if (job.firstSentMs === null || job.bytesBefore === null) {
    return goOn(withBaseline(job, { bytes, atMs: reading.atMs }));
  }
  const { slackBytes, levelMs } = context.policy.purge;
  const isLevel = job.level !== null && Math.abs(bytes - job.level.bytes) <= slackBytes;
  const level = isLevel && job.level !== null ? job.level : { bytes, sinceMs: reading.atMs };
  const next: PurgeJob = { ...job, bytesNow: bytes, level };
  if (!hasFallen(next, context) || reading.atMs - level.sinceMs < levelMs) return goOn(next);
  return end(next, "released", context);
}

/** Not sent yet, or not enough was read by then: what it held as `/free` went out is still to be told. */
function withBaseline(job: PurgeJob, reading: { readonly bytes: Bytes; readonly atMs: MonotonicMs }): PurgeJob {
  const levels = noteLevel(job.levels, reading);
  const bytesBefore = job.firstSentMs === null ? null : baselineAt(levels, job.firstSentMs);
  return { ...job, levels, bytesBefore, bytesNow: reading.bytes };
}

function wake(job: PurgeJob, reason: string): ArbiterEffect {
  return { kind: "wakeAt", generation: job.generation, atMs: job.dueMs, reason };
}

/** Ends it. A `/free` that is still being prepared is called off. */
function end(job: PurgeJob, outcome: Outcome, context: JobContext): PurgeStep {
  const reason = "the purge has ended";
  const effects: ArbiterEffect[] = job.phase === "asking"
    ? [{ kind: "abort", generation: job.generation, reason }]
    : [];
  return { job, effects, result: concludePurge(job, { outcome, context }) };
}
