/** `request-vram`: an LLM wants room; an idle ComfyUI gives it back at once. Whatever happens, the answer says who holds what. */
import type { Cause, PurgeResult, RequestVramResult } from "../model/arbitration.ts";
import type { ArbiterEvent, Generation } from "../model/events.ts";
import { type Bytes, type MonotonicMs, toGib } from "../model/units.ts";
import type { JobContext, JobStep } from "./job.ts";
import { describeHolders, fits, freeOf, holdersIn } from "./need.ts";
import { holdsModels, type PurgeJob, startPurge, stepPurge } from "./purge_job.ts";

export interface RequestVramJob {
  readonly kind: "requestVram";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly neededBytes: Bytes;
  readonly startedMs: MonotonicMs;
  readonly hadBytes: Bytes | null;
  readonly freeBytes: Bytes | null;
  readonly purge: PurgeJob | null;
}

type RequestVramStep = JobStep<RequestVramJob, RequestVramResult>;

export function startRequestVram(
  order: Pick<RequestVramJob, "generation" | "cause" | "neededBytes">,
  context: JobContext,
): RequestVramStep {
  const freeBytes = freeOf(context.sample.gpu);
  const job: RequestVramJob = {
    kind: "requestVram",
    ...order,
    startedMs: context.atMs,
    hadBytes: freeBytes,
    freeBytes,
    purge: null,
  };
  if (fits(order.neededBytes, freeBytes, context.policy)) {
    return conclude(job, null, { context, why: "It was free already" });
  }
  if (context.isComfyBusy) {
    return conclude(job, null, { context, why: "ComfyUI is executing and is never purged meanwhile" });
  }
  if (holdsModels(context) === false) {
    return conclude(job, null, { context, why: "ComfyUI holds nothing that could be given back" });
  }
  const inner = startPurge({ generation: order.generation, cause: order.cause, confirm: true }, context);
  return forward({ ...job, purge: inner.job }, inner, context);
}

export function stepRequestVram(job: RequestVramJob, event: ArbiterEvent, context: JobContext): RequestVramStep {
  if (job.purge === null) return { job, effects: [], result: null };
  const inner = stepPurge(job.purge, event, context);
  const freeBytes = event.type === "reading" ? event.reading.freeBytes : job.freeBytes;
  return forward({ ...job, freeBytes, purge: inner.job }, inner, context);
}

function forward(
  job: RequestVramJob,
  inner: JobStep<PurgeJob, PurgeResult>,
  context: JobContext,
): RequestVramStep {
  if (inner.result === null) return { job, effects: inner.effects, result: null };
  return conclude(job, inner.result, { context, why: inner.result.message });
}

function conclude(
  job: RequestVramJob,
  purge: PurgeResult | null,
  { context, why }: { readonly context: JobContext; readonly why: string },
): RequestVramStep {
  const isFit = job.freeBytes === null ? null : job.freeBytes >= job.neededBytes;
  // The purge looked later than the sample: it may also have found that ComfyUI had just let go by itself.
  const isBare = purge?.outcome === "released" || purge?.outcome === "nothing_loaded" && purge.remainingBytes !== null;
  const holders = holdersIn(context.sample).filter((share) => !isBare || share.bucket !== "comfy");
  const keptBytes = isBare ? purge?.remainingBytes ?? 0 : 0;
  const stays = keptBytes > 0
    ? [...holders, { bucket: "comfy" as const, bytes: keptBytes, who: ["ComfyUI's CUDA context"] }]
    : holders;
  const message = isFit === true
    ? why
    : `${why}. ${toGib(job.neededBytes)} GB were asked for; the card is held by ${describeHolders(stays)}`;
  return {
    job,
    effects: [],
    result: {
      hadBytes: job.hadBytes,
      neededBytes: job.neededBytes,
      reclaimedBytes: purge?.freedBytes ?? (purge === null ? 0 : null),
      freeBytes: job.freeBytes,
      fits: isFit,
      purge,
      holders: stays,
      message,
    },
  };
}
