/** The outcome table of SPEC 2.1, first match wins. */
import type { Outcome } from "../model/arbitration.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { JobContext } from "./job.ts";
import { heldTargets, isGoneByLists, unmeasuredReason, workOf } from "./yield_evidence.ts";
import type { YieldJob } from "./yield_job.ts";
import { isAnswered } from "./yield_news.ts";

/** Looks at an idle runner, a second apart, before that is a fault (SPEC 2.1). */
const IDLE_LOOKS_OF_A_FAULT = 3;
/** A reading older than this says nothing of now: NVML blocks for 0.1 s beside a starting process, not for a second. */
const STALE_MS = 1_000;

/** The outcome as things stand, or null while it is open. */
export function findOutcome(job: YieldJob, context: JobContext): Outcome | null {
  const { sample, atMs, policy } = context;
  if (isNobodyAnswering(job)) return "unreachable";
  if (hasNobody(job)) return "nothing_loaded";
  if (job.phase === "opening") return null;
  const elapsedMs = atMs - job.startedMs;
  const isOver = elapsedMs >= ceilingMs(job, context);
  if (!job.confirm) return isOver || isAnswered(job) ? "unconfirmed" : null;
  if (unmeasuredReason(job, sample) !== null) return isOver || isGoneByLists(job, sample) ? "unconfirmed" : null;
  if (job.releasedMs !== null) return "released";
  const held = heldTargets(job, sample);
  const isWorking = held.some((target) => workOf(job, target, sample) !== null);
  if (elapsedMs >= policy.yield.busyAfterMs && isWorking) return "busy";
  const isIdleForLong = job.idleLooks >= IDLE_LOOKS_OF_A_FAULT && atMs - idleBaseMs(job) >= policy.yield.faultAfterMs;
  const isSeen = job.reading !== null && atMs - job.reading.atMs < STALE_MS;
  if (isSeen && held.length > 0 && !isWorking && isIdleForLong) return "fault";
  if (!isOver) return null;
  return isSeen && job.residual !== null ? "timeout" : "unconfirmed";
}

/** Nothing resident, no runner: by Ollama's word and by its children. */
function hasNobody(job: YieldJob): boolean {
  return job.ps === "listed" && job.areRunnersListed && job.unloads.length === 0 && job.targets.length === 0;
}

/** `/api/ps` doesn't answer, and neither does anything else that was asked. */
function isNobodyAnswering(job: YieldJob): boolean {
  if (job.ps !== "silent") return false;
  return job.unloads.length === 0
    ? job.areRunnersListed && job.targets.length === 0
    : job.unloads.every((unload) => unload.error !== null);
}

function ceilingMs(job: YieldJob, { policy }: JobContext): number {
  const count = Math.max(job.unloads.length, job.targets.length);
  return policy.yield.ceilingMs + policy.yield.ceilingPerModelMs * Math.max(0, count - 1);
}

/** Since when an idle runner has had nothing before it: Ollama unloads one model after another. */
function idleBaseMs(job: YieldJob): MonotonicMs {
  const replies = job.unloads.map((unload) => unload.repliedMs ?? job.startedMs);
  return Math.max(job.startedMs, job.lastGoneMs ?? 0, ...replies);
}
