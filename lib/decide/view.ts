/** The arbiter's state as operations show it. */
import type { ArbitrationView } from "../model/arbitration.ts";
import type { MonotonicMs, WallMs } from "../model/units.ts";
import type { ArbiterState } from "./arbiter_state.ts";
import { describeJob } from "./describe.ts";
import { comfyHoldings } from "./purge_job.ts";

/** `toWall` turns the arbiter's monotonic times into wall clock. */
export function viewArbiter(state: ArbiterState, toWall: (ms: MonotonicMs) => WallMs): ArbitrationView {
  const job = state.holder?.job ?? null;
  return {
    mode: state.mode,
    untilMs: state.modeUntilMs,
    keep: state.keep,
    lane: job === null ? null : {
      job: job.kind,
      cause: job.cause,
      phase: describeJob(job),
      sinceMs: toWall(job.startedMs),
    },
    waiting: state.waiting.map((entry) => ({
      kind: entry.kind === "request" ? entry.request.kind : "auto" as const,
      reason: job === null ? "about to start" : `behind: ${describeJob(job)}`,
      sinceMs: toWall(entry.sinceMs),
    })),
    holder: holderOf(state),
    watching: state.watched.map((entry) => ({
      model: entry.model,
      pid: entry.process.pid,
      sinceMs: toWall(entry.sinceMs),
    })),
    lateHandOffs: state.lateHandOffs,
    handOffs: state.handOffs,
    lastMarginMs: state.lastMarginMs,
    stuck: state.stuck.map(({ process, model, bytes, evidence, sinceMs }) => ({
      ...process,
      model,
      bytes,
      evidence,
      sinceMs: toWall(sinceMs),
    })),
    comfyWorker: workerOf(state),
    insisters: state.creep.insisters.map(({ who, process, seenMs, dueMs }) => ({
      model: who,
      pid: process.pid,
      times: seenMs.length,
      lastAtMs: toWall(seenMs.at(-1) ?? 0),
      nextAtMs: dueMs === null ? null : toWall(dueMs),
    })),
  };
}

function workerOf({ worker, sample }: ArbiterState): NonNullable<ArbitrationView["comfyWorker"]> | null {
  if (worker === null || sample === null || !worker.isTold) return null;
  return { promptId: worker.promptId, stillMs: sample.monotonicMs - worker.stillSinceMs };
}

/** Who holds memory worth naming: a tenant above its bare context. Null when neither, or nothing can be read. */
function holderOf(state: ArbiterState): ArbitrationView["holder"] {
  const { sample } = state;
  if (sample === null || !sample.gpu.available) return null;
  const ollama = (sample.gpu.breakdown.ollamaBytes ?? 0) > 0;
  const context = (state.comfy.context?.bytes ?? 0) + state.policy.purge.slackBytes;
  const comfy = (comfyHoldings(sample).bytes ?? 0) > context;
  if (ollama && comfy) return "both";
  return ollama ? "ollama" : comfy ? "comfyui" : null;
}
