/** The answer of a yield: its figures, who still holds what, and one sentence for people. */
import type { Held, Outcome, YieldResult } from "../model/arbitration.ts";
import { toGib } from "../model/units.ts";
import type { JobContext } from "./job.ts";
import { bytesOf } from "./release.ts";
import { heldTargets, idleReason, isGoneByLists, unmeasuredReason, workOf } from "./yield_evidence.ts";
import type { YieldJob } from "./yield_job.ts";
import { freedBytesOf } from "./yield_news.ts";

interface Ending {
  readonly outcome: Outcome;
  readonly context: JobContext;
}

export function concludeYield(job: YieldJob, { outcome, context }: Ending): YieldResult {
  const replies = job.unloads.flatMap((unload) => (unload.repliedMs === null ? [] : [unload.repliedMs]));
  const isConfirmed = outcome === "released" && job.releasedMs !== null;
  const held = outcome === "released" || outcome === "nothing_loaded" ? [] : describeHeld(job, context);
  return {
    outcome,
    cause: job.cause,
    requestMs: replies.length === 0 ? null : Math.max(...replies) - job.startedMs,
    confirmMs: isConfirmed ? job.releasedMs - job.startedMs : null,
    freedBytes: outcome === "nothing_loaded" ? 0 : freedBytesOf(job),
    models: job.unloads.map((unload) => unload.model),
    pids: job.targets.map((target) => target.runner.pid),
    confirmedBy: isConfirmed
      ? "NVML: every runner gone from the process list and used memory back at its residual, on two readings in a row"
      : null,
    held,
    message: messageFor(job, { outcome, held, context }),
  };
}

function describeHeld(job: YieldJob, { sample }: JobContext): readonly Held[] {
  return heldTargets(job, sample).map((target) => ({
    pid: target.runner.pid,
    startTime: target.runner.startTime,
    model: target.model,
    bytes: job.reading === null ? target.bytesBefore : bytesOf(job.reading, target.runner.pid),
    evidence: workOf(job, target, sample) ?? idleReason(job, target),
  }));
}

function messageFor(
  job: YieldJob,
  { outcome, held, context }: Ending & { readonly held: readonly Held[] },
): string {
  const who = held.map(describe).join(", ");
  const { url, reason } = context.sample.ollama;
  switch (outcome) {
    case "nothing_loaded":
      return job.scope.models === null && job.scope.keep.length === 0
        ? "Ollama holds no model"
        : "Ollama holds no model that was meant";
    case "unreachable":
      return `Ollama at ${url} doesn't answer: ${reason ?? "neither its list nor any unload was answered"}`;
    case "remote":
      return `Ollama at ${url} runs on another host: unloading there frees nothing on this card`;
    case "unconfirmed":
      return unconfirmedMessage(job, context);
    case "released": {
      const freed = freedBytesOf(job);
      return freed === null ? "The driver has the memory back" : `The driver has ${toGib(freed)} GB back`;
    }
    case "busy":
      return `Ollama still works: ${who}. It unloads when that ends; its release will be recorded`;
    case "fault":
      return `Ollama still holds memory without working: ${who}. ${remedyFor(held)}`;
    case "timeout":
      return held.length === 0
        ? "Every runner is gone, yet the driver still counts memory as used that nobody holds"
        : `Ollama still holds memory after the ceiling: ${who}`;
  }
}

/** The ladder's last step, by the words that take it. */
function remedyFor(held: readonly Held[]): string {
  const [first] = held;
  if (first?.pid == null || first.startTime == null) return "Restart Ollama, or end that runner alone";
  return `Restart Ollama, or end that runner alone: hyperswap runner end ${first.pid} ${first.startTime}`;
}

function describe({ pid, model, bytes, evidence }: Held): string {
  const size = bytes === null ? "" : `, ${toGib(bytes)} GB`;
  return `pid ${pid} (${model ?? "model unknown"}${size}): ${evidence}`;
}

function unconfirmedMessage(job: YieldJob, { sample }: JobContext): string {
  if (!job.confirm) {
    return job.unloads.length === 0
      ? "Nothing is listed yet that could be unloaded; not waited for, since confirm=false"
      : "Unload requested; not waited for, since confirm=false";
  }
  const why = unmeasuredReason(job, sample) ?? "it gave no reading while this yield lasted";
  return isGoneByLists(job, sample)
    ? `Ollama lists nothing of it any more, but the driver can't confirm it: ${why}`
    : `The driver can't confirm anything: ${why}`;
}
