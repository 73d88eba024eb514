/**
 * What is known of files in the page cache and what can be done about it: the words that catalogue, plan and doors share
 * with the Workers that measure and warm.
 */
import type { Bytes, MonotonicMs } from "./units.ts";

/**
 * How a residency was found.
 * - `cachestat`: the kernel's own count; exact.
 * - `mincore`: one bit a page; exact, and used only for files we own or may write, since for others it says "all resident".
 * - `nowait`: random pages asked for with RWF_NOWAIT, resident when the thread read no block for them.
 * - `inblock`: random pages read, resident when the thread read no block for them.
 * - `majflt`: random pages faulted in, resident when that was no major fault.
 * - `memory`: the file system keeps its files in memory and nowhere else (tmpfs).
 * - `empty`: the file has no bytes.
 */
export type ResidencyMethod = "cachestat" | "mincore" | "nowait" | "inblock" | "majflt" | "memory" | "empty";

/** How much of a file is in memory, or why that can't be told. Never a guess. */
export type Residency = MeasuredResidency | UnmeasurableResidency;

export interface MeasuredResidency {
  readonly kind: "measured";
  readonly method: ResidencyMethod;
  readonly sizeBytes: Bytes;
  /** The estimate, whole pages, at most the size. */
  readonly residentBytes: Bytes;
  /** 0–1; 1 for an empty file. */
  readonly share: number;
  /** The 99 % interval of `share`; both ends are `share` where every page was counted. */
  readonly low: number;
  readonly high: number;
  /** Every page was counted. */
  readonly isExact: boolean;
  /** Pages that were looked at one by one; null where the kernel counted. */
  readonly samples: number | null;
  readonly disturbance: Disturbance;
  /** Of this file's pages, what memory pressure pushed out lately; null where the kernel doesn't tell. */
  readonly recentlyEvictedBytes: Bytes | null;
  readonly atMs: MonotonicMs;
}

/** What the measuring itself did to the cache. All zero for methods that only count. */
export interface Disturbance {
  /** Read from the disk because we looked, by the kernel's own account of our thread. */
  readonly readBytes: Bytes;
  /** Asked to be dropped again; the rest was read ahead or still in flight, and stays. */
  readonly droppedBytes: Bytes;
}

export interface UnmeasurableResidency {
  readonly kind: "unmeasurable";
  /** Null where not even that is known. */
  readonly sizeBytes: Bytes | null;
  readonly cause: UnmeasurableCause;
  /** A sentence: what, and why. */
  readonly reason: string;
  readonly atMs: MonotonicMs;
}

export type UnmeasurableCause =
  /** There is no such file any more. */
  | "gone"
  /** It was replaced, or grew or shrank, while it was measured. */
  | "changed"
  /** Outside the roots, not a regular file, or not readable for us. */
  | "refused"
  /** It has holes, which a sampling method would take for resident pages. */
  | "sparse"
  /** This file system doesn't keep files in the page cache (ZFS). */
  | "file_system"
  /** The measuring was given up: cancelled, overdue, or its Worker failed. */
  | "interrupted"
  /** A call failed; `reason` says which. */
  | "failed";

/** Where files may lie, and how long one may ask. */
export interface CacheCall {
  /** Absolute real paths. A file is opened only if its own real path lies below one of them. */
  readonly roots: readonly string[];
  readonly signal?: AbortSignal;
}

/** Why a warm runs at the pace it does: `full`, or held back because others use the disk, or fixed by the owner. */
export type WarmPace = "full" | "polite" | "fixed";

export interface WarmProgress {
  readonly path: string;
  readonly state: "queued" | "warming" | "cancelling";
  /** Warms that come first; 0 once it runs. */
  readonly ahead: number;
  readonly doneBytes: Bytes;
  /** Null until the file was opened. */
  readonly sizeBytes: Bytes | null;
  /** Over the last second or so; null before the first figure. */
  readonly bytesPerS: number | null;
  readonly etaMs: number | null;
  readonly pace: WarmPace | null;
}

/**
 * How a warm ended.
 * - `done`: every byte passed through.
 * - `cancelled`: the caller's signal.
 * - `evicting`: the file's own pages began to be pushed out: more reading would only turn memory over.
 * - `cgroup_limit`: the service's cgroup is full.
 * - `memory_floor`: available memory fell below the reserve meanwhile.
 * - `changed`: the file shrank, was replaced or deleted.
 */
export type WarmEnd = "done" | "cancelled" | "evicting" | "cgroup_limit" | "memory_floor" | "changed";

/**
 * How bytes came in, as of the last of them: faulted in by huge pages or spliced to nowhere without a copy, whichever is
 * quicker on the disk; read where the file system can't splice.
 */
export type WarmMethod = "fault" | "splice" | "read";

export interface WarmOutcome {
  readonly path: string;
  readonly end: WarmEnd;
  /** A sentence for any end but `done`; null for that. */
  readonly reason: string | null;
  readonly method: WarmMethod;
  readonly sizeBytes: Bytes;
  /** Passed through, resident or not. */
  readonly doneBytes: Bytes;
  /** Of those, what came from the disk, by the kernel's account; null where it keeps none. */
  readonly diskBytes: Bytes | null;
  readonly durationMs: number;
  /** Of the time, how long others' use of the disk held it back. */
  readonly heldBackMs: number;
  readonly before: Residency;
  /** Measured afterwards, not derived from what was read. */
  readonly after: Residency;
}

export interface WarmCall extends CacheCall {
  /** `auto` = full speed until somebody else uses the disk, then 300 MB/s; a number fixes it. */
  readonly bytesPerS: "auto" | number;
  /** Memory that must stay available beside the file; else Failure wont_fit. */
  readonly reserveBytes: Bytes;
  /** At most four times a second, and with each change of state. */
  readonly onProgress?: (progress: WarmProgress) => void;
}

export interface PinCall extends CacheCall {
  /** What may be locked in all, this file included; else Failure wont_fit. */
  readonly budgetBytes: Bytes;
  readonly onProgress?: (done: { readonly doneBytes: Bytes; readonly sizeBytes: Bytes }) => void;
}

export interface PinnedFile {
  readonly path: string;
  readonly lockedBytes: Bytes;
  readonly sinceMs: MonotonicMs;
}

export interface PinOutcome extends PinnedFile {
  /** MemAvailable around it: locked pages no longer count as available. Null where it can't be read. */
  readonly availableBeforeBytes: Bytes | null;
  readonly availableAfterBytes: Bytes | null;
}

/**
 * The page cache of this machine. Everything runs in Workers; no call holds up the event loop. A file that can't be
 * opened safely is an `unmeasurable` residency, or a Failure (forbidden, not_found) where it was to be changed.
 */
export interface PageCache {
  /** Figures to show: exact, or from ≥ 1,024 random pages. In the order of `paths`; none rejects for one file's sake. */
  measure(paths: readonly string[], call: CacheCall): Promise<readonly Residency[]>;
  /** Figures to skip by (see decide/warm_skip): exact, or from 64 random pages, stopped by the first absent one. */
  probe(paths: readonly string[], call: CacheCall): Promise<readonly Residency[]>;
  /**
   * Reads a file into the cache; one at a time, the rest wait in turn. A cancel resolves it within 100 ms; then at most
   * the call under way follows. One that still waited rejects with the signal's reason.
   */
  warm(path: string, call: WarmCall): Promise<WarmOutcome>;
  /** The warm that runs, then those that wait. */
  queue(): readonly WarmProgress[];
  /** Loads a file and locks its pages until `unpin` or the end of the process. */
  pin(path: string, call: PinCall): Promise<PinOutcome>;
  /** False when it wasn't pinned. */
  unpin(path: string): Promise<boolean>;
  pinned(): readonly PinnedFile[];
  /** Cancels, unpins and ends the Workers. */
  close(): Promise<void>;
}
