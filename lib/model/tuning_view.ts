/** Tuning as every door shows it. */
import type { CardReason, Lever, LeverLimits, LeverReport, LeverValue } from "./card.ts";
import type { GovernorChange, GovernorPolicy, Profile, Quarantined } from "./tuning.ts";
import type { WallMs } from "./units.ts";

/** A lever that doesn't stand where it was put. */
export interface Drift {
  readonly lever: Lever;
  readonly wanted: LeverValue;
  readonly found: LeverValue | null;
  /** True: another tool keeps writing, and we have backed off. */
  readonly isConflict: boolean;
  /** Running programs that may be behind it. */
  readonly suspects: readonly string[];
}

/** What came of a request, once the card has answered. */
export interface TuneResult {
  readonly message: string;
  readonly levers: readonly LeverView[];
}

/** One lever, as every door shows it. */
export interface LeverView {
  readonly lever: Lever;
  readonly limits: LeverLimits | null;
  /** What is wanted of it now; null = left as it is. */
  readonly wanted: LeverValue | null;
  readonly by: CardReason["by"] | null;
  readonly why: string | null;
  /** What was read back last. */
  readonly readBack: LeverValue | null;
  readonly report: LeverReport | null;
}

export interface ProfileView extends Profile {
  readonly quarantinedFor: string | null;
}

export interface TuningView {
  /** False: nothing can be set now, and `reason` says why. */
  readonly isReady: boolean;
  readonly reason: string | null;
  readonly active: string | null;
  /** Who chose it; `auto` follows the workload. */
  readonly activeBy: "auto" | "operator" | null;
  readonly why: string;
  readonly isAutomatic: boolean;
  readonly profiles: readonly ProfileView[];
  readonly levers: readonly LeverView[];
  readonly fanCount: number | null;
  readonly quarantine: readonly Quarantined[];
  readonly drift: readonly Drift[];
  /** A change that waits for its confirmation. */
  readonly confirm: { readonly what: string; readonly untilMs: WallMs } | null;
  readonly isSweeping: boolean;
  readonly xidSource: "nvml" | "kmsg" | null;
  /** Whether Ollama came back on the card after it was opened anew; null: it wasn't, or nothing was loaded since. */
  readonly ollamaReturn: { readonly isOnGpu: boolean; readonly text: string } | null;
}

export interface GovernorView {
  readonly enabled: boolean;
  readonly level: number;
  readonly isBlind: boolean;
  readonly reason: string;
  /** °C from which a sample is bad; null before the card was read. */
  readonly hotC: number | null;
  readonly badInARow: number;
  readonly goodInARow: number;
  readonly policy: GovernorPolicy;
  /** Newest first. */
  readonly history: readonly (Omit<GovernorChange, "atMs"> & { readonly atMs: WallMs })[];
}
