/**
 * The race of a hand-off, told honestly (SPEC 2.4): margin = the winner's first new allocation − our confirmation;
 * negative = late. From the side a ComfyUI with its weights in RAM can't be beaten: measured late 4 of 4, by 160–197 ms,
 * and it then loads half a model without an error.
 */
import type { MarginPolicy } from "../model/policy.ts";
import type { BarrierReading } from "../model/sample.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import { bytesOfAll } from "./release.ts";

/**
 * Some ms below the earliest that ComfyUI was seen to grow after the frame that announced its work (47 ms on an H200; the
 * frame itself takes a few). A reading before that shows what it held already, and is newer than the last sample.
 */
const FIRST_GROWTH_MS = 40;

export interface MarginWatch {
  /** The recorded event that gets the margin. */
  readonly key: string;
  readonly pids: readonly number[];
  /** The least it held since; null while the driver hasn't said. */
  readonly bytesBefore: Bytes | null;
  readonly startedMs: MonotonicMs;
  readonly confirmedMs: MonotonicMs | null;
  /** When the yield ended, whatever came of it; null while it is under way. */
  readonly concludedMs: MonotonicMs | null;
  readonly grewMs: MonotonicMs | null;
  /** The winner was held at the gate and hasn't begun: the work that comes next is its own. */
  readonly isHeld: boolean;
}

export interface MarginFound {
  readonly marginMs: number | null;
  readonly reason: string | null;
}

export function watchMarginOf(
  key: string,
  { pids, bytes, atMs, isHeld = false }: {
    readonly pids: readonly number[];
    readonly bytes: Bytes | null;
    readonly atMs: MonotonicMs;
    readonly isHeld?: boolean;
  },
): MarginWatch {
  const open = { confirmedMs: null, concludedMs: null, grewMs: null };
  return { key, pids, bytesBefore: bytes, startedMs: atMs, ...open, isHeld };
}

/** A reading while the watch is on. The same watch comes back when nothing has changed. */
export function watchGrowth(
  watch: MarginWatch,
  reading: Pick<BarrierReading, "atMs" | "usedBytes" | "processes">,
  policy: MarginPolicy,
): MarginWatch {
  if (watch.grewMs !== null) return watch;
  const bytes = bytesOfAll(reading, watch.pids);
  if (bytes === null) return watch;
  const isStart = reading.atMs - watch.startedMs < FIRST_GROWTH_MS;
  // It may give up another model first: what counts is the growth from the lowest point.
  if (isStart || watch.bytesBefore === null || bytes < watch.bytesBefore) {
    return bytes === watch.bytesBefore ? watch : { ...watch, bytesBefore: bytes };
  }
  return bytes >= watch.bytesBefore + policy.growthBytes ? { ...watch, grewMs: reading.atMs } : watch;
}

/** The margin once it is known, or known to stay unknown; null while the watch goes on. */
export function findMargin(watch: MarginWatch, atMs: MonotonicMs, policy: MarginPolicy): MarginFound | null {
  if (watch.concludedMs === null) return null;
  if (watch.confirmedMs === null) return { marginMs: null, reason: "the release was not confirmed" };
  if (watch.grewMs !== null) return { marginMs: watch.grewMs - watch.confirmedMs, reason: null };
  if (atMs - watch.concludedMs < policy.watchMs) return null;
  const reason = watch.bytesBefore === null
    ? "the driver gave no bytes for ComfyUI's process"
    : "ComfyUI took no memory within the watch";
  return { marginMs: null, reason };
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
    remedy: "Purge ComfyUI and run that prompt again. From the side nothing can hold a prompt back; the gate can",
  };
}
