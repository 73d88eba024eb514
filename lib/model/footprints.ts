/** What was measured to be taken, and what would happen if something ran now: the vocabulary of `footprints` and `plan`. */
import type { HolderShare, Refusal } from "./arbitration.ts";
import type { Bytes } from "./units.ts";

/** Where a need comes from, in the order they count (SPEC 2.2). An unknown one counts as all of the card. */
export type NeedBasis = "asked" | "configured" | "measured" | "unknown";

export interface Need {
  readonly bytes: Bytes | null;
  readonly basis: NeedBasis;
  /** Measurements behind it; null where it wasn't measured. */
  readonly n: number | null;
}

/** Times of the loads of one class. */
export interface LoadTimes {
  readonly n: number;
  /** Null without any. */
  readonly medianMs: number | null;
}

/** What one model, or ComfyUI, was measured to take. */
export interface FootprintRow {
  /** The model's name; "comfyui" for all of ComfyUI's work together, or one workflow by its files and size. */
  readonly name: string;
  readonly source: "ollama" | "comfyui";
  /** Tokens of context a slot, and slots; null where nobody says, or for ComfyUI. Like counts with like. */
  readonly contextLength: number | null;
  readonly parallel: number | null;
  readonly n: number;
  /** Whether hand-offs are decided by it: not below three measurements. */
  readonly isUsed: boolean;
  /** The largest of the last ten: what is reckoned with. */
  readonly peakBytes: Bytes;
  readonly medianBytes: Bytes;
  readonly leastBytes: Bytes;
  /** Newest. */
  readonly latestBytes: Bytes;
  /** What it came to rest at, the median; null where only the most is known. */
  readonly steadyBytes: Bytes | null;
  /** Times that the need reckoned with was too small. */
  readonly misses: number;
  /** Loads whose weights were in memory, and those whose weights weren't. */
  readonly warm: LoadTimes;
  readonly cold: LoadTimes;
}

export type PlanAction = "yield" | "purge" | "load" | "run";

export interface PlanStep {
  readonly action: PlanAction;
  /** Models that would be asked to go, or the one that would be loaded. */
  readonly names: readonly string[];
  /** What that would give back by the newest sample; null = not known, or nothing is given back by it. */
  readonly freesBytes: Bytes | null;
  readonly reason: string;
}

/** What would happen, in order. Nothing was asked of anybody. */
export interface WorkloadPlan {
  readonly need: Need;
  readonly freeBytes: Bytes | null;
  readonly headroomBytes: Bytes;
  /** `stays`: nobody has to go; `makes_room`: the steps do; `waits`: nothing would be done by itself; `refused`: see there. */
  readonly verdict: "stays" | "makes_room" | "waits" | "refused";
  readonly steps: readonly PlanStep[];
  readonly refusal: Refusal | null;
  readonly holders: readonly HolderShare[];
  readonly message: string;
}

export interface PlanRequest {
  /** An Ollama model that would be switched to. */
  readonly model: string | null;
  /** A workflow that would be queued in ComfyUI. */
  readonly workflow: string | null;
  /** What it needs; alone: room that an LLM wants. */
  readonly neededBytes: Bytes | null;
}
