/** The outcome table of SPEC 2.1, first match wins, and the words that go with each outcome. */
import type { Held, Outcome, YieldResult } from "../model/arbitration.ts";
import { type Bytes, toGib } from "../model/units.ts";
import { bytesOf } from "./release.ts";
import { noEvidence } from "./runner_evidence.ts";
import { isAnswered, type YieldContext, type YieldJob } from "./yield_job.ts";
import { ghostsOf, isInScope, type Target } from "./yield_targets.ts";

/** One-second looks at an idle runner before that is a fault (SPEC 2.1). */
const IDLE_LOOKS_OF_A_FAULT = 3;
/** SM utilisation of the whole card that stands in where the driver gives none by process; labelled as such. */
const BUSY_CARD_PCT = 50;

export interface Verdict {
  readonly outcome: Outcome;
}

/** The outcome as things stand, or null while it is open. */
export function findOutcome(job: YieldJob, context: YieldContext): Verdict | null {
  if (job.isListed && job.unloads.length === 0 && job.targets.length === 0) return { outcome: "nothing_loaded" };
  if (job.phase === "opening") return null;
  if (isNobodyAnswering(job)) return { outcome: "unreachable" };
  if (!job.confirm) return isAnswered(job) ? { outcome: "unconfirmed" } : null;
  const elapsedMs = context.atMs - job.startedMs;
  const { yield: policy } = context.policy;
  const ceilingMs = policy.ceilingMs + policy.ceilingPerModelMs * Math.max(0, job.unloads.length - 1);
  if (isUnmeasured(job, context)) {
    return isGoneByLists(job) || elapsedMs >= ceilingMs ? { outcome: "unconfirmed" } : null;
  }
  if (job.releasedMs !== null) return { outcome: "released" };
  if (elapsedMs >= policy.busyAfterMs && heldTargets(job).some((target) => workOf(job, target, context) !== null)) {
    return { outcome: "busy" };
  }
  if (job.idleLooks >= IDLE_LOOKS_OF_A_FAULT && context.atMs - idleBaseMs(job) >= policy.faultAfterMs) {
    return { outcome: "fault" };
  }
  return elapsedMs >= ceilingMs ? { outcome: "timeout" } : null;
}

/** Every request failed and `/api/ps` doesn't answer either. */
function isNobodyAnswering(job: YieldJob): boolean {
  return job.unloads.length > 0 && job.isListed && job.resident === null &&
    job.unloads.every((unload) => unload.error !== null);
}

/** True when no reading of the driver could ever confirm this yield. */
function isUnmeasured(job: YieldJob, context: YieldContext): boolean {
  if (!job.isReadable || job.residualBytes === null && job.reading === null && !context.sample.gpu.available) {
    return true;
  }
  if (job.targets.some((target) => target.isUnmeasured)) return true;
  return context.sample.ollama.server === null && ghostsOf(job.unloads, job.targets).length > 0;
}

function isGoneByLists(job: YieldJob): boolean {
  const isListedStill = job.resident === null || job.resident.some((name) => isInScope(name, job.scope));
  return job.isRelisted && !isListedStill && job.targets.every((target) => !job.alive.includes(target.runner.pid));
}

/** Since when an idle runner has had nothing before it: Ollama unloads one model after another. */
function idleBaseMs(job: YieldJob): number {
  const replies = job.unloads.map((unload) => unload.repliedMs ?? job.startedMs);
  return Math.max(job.startedMs, job.lastGoneMs ?? 0, ...replies);
}

function heldTargets(job: YieldJob): readonly Target[] {
  const { reading } = job;
  if (reading === null) return job.targets;
  return job.targets.filter((target) => bytesOf(reading, target.runner.pid) !== 0);
}

/** What keeps a held runner, in words; null = nothing that can be seen. */
function workOf(job: YieldJob, target: Target, context: YieldContext): string | null {
  const { pid } = target.runner;
  const isLoading = target.model === null && job.isListed && job.resident !== null && job.alive.includes(pid) &&
    !target.runner.isOrphan;
  if (isLoading) return "it is still loading (not listed yet)";
  const evidence = job.evidence[pid] ?? noEvidence();
  if (evidence.working !== null) return evidence.working;
  const gpu = context.sample.gpu;
  const isBlindBySm = evidence.smPct === null && gpu.available && gpu.reading.smPctByPid === null;
  const cardPct = gpu.available ? gpu.reading.gpuUtilPct : null;
  return isBlindBySm && cardPct !== null && cardPct >= BUSY_CARD_PCT
    ? `the card is ${cardPct} % busy (fallback: the driver gives no utilisation by process)`
    : null;
}

/** The answer that goes to whoever asked, and into the record. */
export function concludeYield(
  job: YieldJob,
  { outcome, context }: { readonly outcome: Outcome; readonly context: YieldContext },
): YieldResult {
  const replies = job.unloads.flatMap((unload) => (unload.repliedMs === null ? [] : [unload.repliedMs]));
  const held = outcome === "released" || outcome === "nothing_loaded" ? [] : describeHeld(job, context);
  return {
    outcome,
    cause: job.cause,
    requestMs: replies.length === 0 ? null : Math.max(...replies) - job.startedMs,
    confirmMs: outcome === "released" && job.releasedMs !== null ? job.releasedMs - job.startedMs : null,
    freedBytes: freedOf(job, outcome),
    models: job.unloads.map((unload) => unload.model),
    pids: job.targets.map((target) => target.runner.pid),
    confirmedBy: outcome === "released"
      ? `NVML: every runner gone from the process list and used memory back at its residual, on two readings in a row`
      : null,
    held,
    message: messageFor(job, outcome, { held, context }),
  };
}

function freedOf(job: YieldJob, outcome: Outcome): Bytes | null {
  if (outcome === "nothing_loaded") return 0;
  if (job.reading === null || job.targets.some((target) => target.isUnmeasured || target.bytesBefore === null)) {
    return null;
  }
  let freed = 0;
  for (const target of job.targets) {
    const now = bytesOf(job.reading, target.runner.pid);
    if (now === null) return null;
    freed += Math.max(0, (target.bytesBefore ?? 0) - now);
  }
  return freed;
}

function describeHeld(job: YieldJob, context: YieldContext): readonly Held[] {
  return heldTargets(job).map((target) => ({
    pid: target.runner.pid,
    model: target.model,
    bytes: job.reading === null ? target.bytesBefore : bytesOf(job.reading, target.runner.pid),
    evidence: workOf(job, target, context) ??
      (target.runner.isOrphan ? "its server is gone: nobody can unload it by asking" : "idle as far as can be seen"),
  }));
}

function messageFor(
  job: YieldJob,
  outcome: Outcome,
  { held, context }: { readonly held: readonly Held[]; readonly context: YieldContext },
): string {
  const who = held.map((entry) => `pid ${entry.pid}${entry.model === null ? "" : ` (${entry.model})`}`).join(", ");
  const url = context.sample.ollama.url;
  switch (outcome) {
    case "nothing_loaded":
      return "Ollama holds no model";
    case "unreachable":
      return `Ollama at ${url} doesn't answer: ${context.sample.ollama.reason ?? "every unload failed"}`;
    case "remote":
      return `Ollama at ${url} runs on another host: unloading there frees nothing on this card`;
    case "unconfirmed":
      return unconfirmedMessage(job, context);
    case "released": {
      const freed = freedOf(job, outcome);
      return freed === null ? "The driver has the memory back" : `The driver has ${toGib(freed)} GB back`;
    }
    case "busy":
      return `Ollama still works: ${who}: ${held.find((entry) => entry.evidence !== "")?.evidence ?? "unknown"}. ` +
        "It unloads when that ends; its release will be recorded";
    case "fault":
      return `${who} is idle and still holds memory: restart Ollama, or end that runner alone`;
    case "timeout":
      return held.length === 0
        ? "Every runner is gone, yet the driver still counts memory as used that nobody holds"
        : `${who} still holds memory after the ceiling`;
  }
}

function unconfirmedMessage(job: YieldJob, context: YieldContext): string {
  if (!job.confirm) return "Unload requested; not waited for, since confirm=false";
  const gpu = context.sample.gpu;
  const why = gpu.available ? "the driver gives no bytes for its process" : gpu.reason;
  return isGoneByLists(job)
    ? `Ollama lists nothing any more, but the driver can't confirm it: ${why}`
    : `The driver can't confirm anything: ${why}`;
}
