/** The answer of a purge: its figures, and one sentence for people. */
import type { Outcome, PurgeResult } from "../model/arbitration.ts";
import { type Bytes, toGib } from "../model/units.ts";
import type { JobContext } from "./job.ts";
import type { PurgeJob } from "./purge_job.ts";

interface Ending {
  readonly outcome: Outcome;
  readonly context: JobContext;
}

export function concludePurge(job: PurgeJob, { outcome, context }: Ending): PurgeResult {
  const freedBytes = freedBytesOf(job, outcome);
  return {
    outcome,
    cause: job.cause,
    requestMs: job.requestMs,
    confirmMs: outcome === "released" ? context.atMs - job.startedMs : null,
    freedBytes,
    remainingBytes: job.blindness === null ? job.bytesNow : null,
    confirmedBy: outcome === "released" ? "NVML: ComfyUI's bytes fell and stayed level for 250 ms" : null,
    overlapped: job.isOverlapped,
    message: messageFor(job, { outcome, context, freedBytes }),
  };
}

/** What `/free` gave back; null where it wasn't sent, or the driver doesn't say. */
function freedBytesOf(job: PurgeJob, outcome: Outcome): Bytes | null {
  if (outcome === "nothing_loaded") return 0;
  const { bytesBefore, bytesNow, blindness, sends } = job;
  if (blindness !== null || sends === 0 || bytesBefore === null || bytesNow === null) return null;
  return Math.max(0, bytesBefore - bytesNow);
}

function messageFor(
  job: PurgeJob,
  { outcome, context, freedBytes }: Ending & { readonly freedBytes: Bytes | null },
): string {
  const { comfy } = context.sample;
  switch (outcome) {
    case "nothing_loaded":
      return "ComfyUI holds no model";
    case "unreachable":
      return `ComfyUI at ${comfy.url} doesn't answer: ${job.failure ?? comfy.reason ?? "unknown"}`;
    case "remote":
      return `ComfyUI at ${comfy.url} runs on another host: purging there frees nothing on this card`;
    case "unconfirmed":
      return job.confirm
        ? `ComfyUI was asked to free its memory, but the driver can't confirm it: ${job.blindness ?? "unknown"}`
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
        : `Nothing fell to a steady level within the ceiling after ${job.sends} ${
          job.sends === 1 ? "request" : "requests"
        }: models held by custom nodes outlive /free`;
  }
}
