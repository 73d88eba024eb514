/** What is asked of the page cache and what it answers: the vocabulary between operations, the plan and the record. */
import type { CataloguePlace, CatalogueProblem } from "./catalogue.ts";
import type { PinnedFile, PinOutcome, Residency, WarmEnd, WarmProgress } from "./page_cache.ts";
import type { Bytes, WallMs } from "./units.ts";

/** A model file as it stands in the page cache. */
export interface FileReport {
  readonly path: string;
  readonly source: "ollama" | "comfyui";
  /** Every model that it belongs to, as people name it. */
  readonly names: readonly string[];
  readonly sizeBytes: Bytes;
  /** Null before the first measuring. */
  readonly residency: Residency | null;
  readonly ageMs: number | null;
  readonly isPinned: boolean;
}

/** Sums over the files that were measured. */
export interface CacheTotals {
  readonly files: number;
  readonly measured: number;
  readonly unmeasurable: number;
  /** Of all files. */
  readonly bytes: Bytes;
  /** Of the measured ones. */
  readonly measuredBytes: Bytes;
  readonly residentBytes: Bytes;
  readonly pinnedBytes: Bytes;
  /** When the oldest figure in the sum was taken; null without one. */
  readonly measuredAtMs: WallMs | null;
}

export interface CacheReport {
  readonly totals: CacheTotals;
  /** Largest first. */
  readonly files: readonly FileReport[];
  readonly warming: readonly WarmProgress[];
  readonly places: readonly CataloguePlace[];
  readonly problems: readonly CatalogueProblem[];
}

/** A file that a plan would read, and why it comes where it comes. */
export interface PlanStep {
  readonly path: string;
  readonly names: readonly string[];
  readonly sizeBytes: Bytes;
  /** What isn't in memory yet; all of it where that can't be told or where it is forced. */
  readonly readBytes: Bytes;
  /** Seconds that a load of it would save, by the speeds that were measured. */
  readonly savedS: number;
  /** Expected seconds saved for each GB; what the order is made of. */
  readonly score: number;
  readonly why: string;
  readonly residency: Residency | null;
}

export type SkipCause = "resident" | "pinned" | "budget" | "shadowed" | "broken";

export interface PlanSkip {
  readonly path: string;
  readonly names: readonly string[];
  readonly sizeBytes: Bytes;
  readonly cause: SkipCause;
  readonly why: string;
}

export interface WarmPlan {
  readonly budgetBytes: Bytes;
  /** Where the budget comes from, in words. */
  readonly budgetBasis: string;
  readonly steps: readonly PlanStep[];
  readonly skipped: readonly PlanSkip[];
  readonly readBytes: Bytes;
  /** Part of the budget that resident files take already. */
  readonly keptBytes: Bytes;
  /** Read from the disk because the plan looked, and dropped again of it. */
  readonly probed: { readonly readBytes: Bytes; readonly droppedBytes: Bytes };
}

/** One file of a warm, as it ended. */
export interface WarmedFile {
  readonly path: string;
  readonly names: readonly string[];
  readonly sizeBytes: Bytes;
  /** From the disk; null where the kernel keeps no account. */
  readonly readBytes: Bytes | null;
  readonly durationMs: number;
  /** `skipped`: in memory already. `refused`: it could not be read at all. */
  readonly end: WarmEnd | "skipped" | "refused";
  readonly reason: string | null;
  readonly before: Residency | null;
  readonly after: Residency | null;
}

export interface WarmResult {
  readonly files: readonly WarmedFile[];
  readonly skipped: readonly PlanSkip[];
  /** From the disk; null where it isn't known of one of them. */
  readonly readBytes: Bytes | null;
  /** Of the call, waits for its turn included. */
  readonly durationMs: number;
  /** Of the files alone. */
  readonly readingMs: number;
  /** 0–1 over all files that were to be warmed and could be measured; null where none could. */
  readonly shareBefore: number | null;
  readonly shareAfter: number | null;
  /** Why it ended before the last file; null when it came to the end. */
  readonly stoppedBy: string | null;
  readonly message: string;
}

/** One model, or one file: exactly one of them is given. */
export interface FileChoice {
  readonly model: string | null;
  readonly path: string | null;
}

/** A locked file and whose pins hold it: it is unlocked with the last of them. */
export interface HeldFile extends PinnedFile {
  /** Models' names; a path where that was all that was named. */
  readonly heldFor: readonly string[];
}

export interface PinResult {
  readonly pinned: readonly HeldFile[];
  /** What this call locked or let go. */
  readonly changed: readonly (PinnedFile | PinOutcome)[];
  readonly lockedBytes: Bytes;
  readonly budgetBytes: Bytes;
  readonly availableBeforeBytes: Bytes | null;
  readonly availableAfterBytes: Bytes | null;
  readonly message: string;
}

/** How much of a model lay in memory just before it was loaded. */
export interface LoadResidency {
  /** 0–100. */
  readonly pct: number;
  readonly isExact: boolean;
  readonly method: string;
}

/** What the owner has configured about warming. */
export interface CachePolicy {
  /** Null: a share of what is free or page cache. */
  readonly budgetBytes: Bytes | null;
  /** Null: full speed until somebody else uses the disk. */
  readonly bytesPerS: number | null;
  /** Memory that stays available to programs. */
  readonly reserveBytes: Bytes;
  /** What may be locked in all; 0 = pinning is off. */
  readonly pinBudgetBytes: Bytes;
  readonly atStart: boolean;
  readonly whenIdle: boolean;
  readonly idleMs: number;
}

export const DEFAULT_CACHE_POLICY: CachePolicy = {
  budgetBytes: null,
  bytesPerS: null,
  reserveBytes: 2e9,
  pinBudgetBytes: 0,
  atStart: false,
  whenIdle: false,
  idleMs: 60_000,
};
