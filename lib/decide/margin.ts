/**
 * The race of a hand-off, told honestly (SPEC 2.4): margin = the winner's first new allocation − our confirmation;
 * negative = late. From the side a ComfyUI with its weights in RAM can't be beaten: measured late 4 of 4, by 160–197 ms,
 * and it then loads half a model without an error.
 */
import type { MarginPolicy } from "../model/policy.ts";
import type { BarrierReading } from "../model/sample.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import { bytesOfAll } from "./release.ts";

export interface MarginWatch {
  /** The recorded event that gets the margin. */
  readonly key: string;
  readonly pids: readonly number[];
  readonly bytesBefore: Bytes | null;
  readonly startedMs: MonotonicMs;
  readonly confirmedMs: MonotonicMs | null;
  /** False while the yield is still under way. */
  readonly isConcluded: boolean;
  readonly grewMs: MonotonicMs | null;
}

export interface MarginFound {
  readonly marginMs: number | null;
  readonly reason: string | null;
}

/** A reading while the watch is on. The same watch comes back when nothing has changed. */
export function watchGrowth(watch: MarginWatch, reading: BarrierReading, policy: MarginPolicy): MarginWatch {
  if (watch.grewMs !== null) return watch;
  const bytes = bytesOfAll(reading, watch.pids);
  if (bytes === null) return watch;
  if (watch.bytesBefore === null) return { ...watch, bytesBefore: bytes };
  return bytes >= watch.bytesBefore + policy.growthBytes ? { ...watch, grewMs: reading.atMs } : watch;
}

/** The margin once it is known, or known to stay unknown; null while the watch goes on. */
export function findMargin(watch: MarginWatch, atMs: MonotonicMs, policy: MarginPolicy): MarginFound | null {
  if (watch.isConcluded && watch.confirmedMs === null) {
    return { marginMs: null, reason: "the release was not confirmed" };
  }
  if (watch.grewMs !== null && watch.confirmedMs !== null) {
    return { marginMs: watch.grewMs - watch.confirmedMs, reason: null };
  }
  if (atMs - watch.startedMs < policy.watchMs) return null;
  return watch.isConcluded ? { marginMs: null, reason: "the winner took no memory within the watch" } : null;
}

/** What a hand-off's record gets when its margin is known, in wire form. */
export function marginFields(found: MarginFound): Readonly<Record<string, unknown>> {
  if (found.marginMs === null) return { margin_ms: null, margin_reason: found.reason };
  const marginMs = Math.round(found.marginMs * 10) / 10;
  if (marginMs >= 0) return { margin_ms: marginMs, late: false };
  return {
    margin_ms: marginMs,
    late: true,
    consequence: `ComfyUI allocated ${-marginMs} ms before the memory was back: it may have loaded only part of its ` +
      "model, without an error, and then run 2–3 times slower",
    remedy: "Purge ComfyUI and run that prompt again. From the side nothing can hold a prompt back",
  };
}
