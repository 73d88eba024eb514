/**
 * The card's levers: what may be set, what was set, and what came of it. `decide/card` resolves wishes to one
 * CardSetting, `act/card_writer` carries it out, and everything that is shown comes from a LeverReport.
 */
import type { Timer } from "./ports.ts";
import type { WallMs } from "./units.ts";

/** Every lever of a card, by the name each door uses. */
export const LEVERS = [
  "power_limit_w",
  "lock_core_mhz",
  "lock_mem_mhz",
  "core_offset_mhz",
  "mem_offset_mhz",
  "fan",
] as const;

export type Lever = (typeof LEVERS)[number];

/**
 * A lever's value in its own unit, or `stock`: default power, clocks unlocked, offset 0, fans automatic. A lock's value
 * is the highest clock allowed; a fan's is percent, for all fans together.
 */
export type LeverValue = number | "stock";

/** One value per lever. A lever that isn't named is left as it is. */
export type CardSetting = Readonly<Partial<Record<Lever, LeverValue>>>;

/**
 * How a lever answers, by read-back. `unverified`: accepted, and nothing to read back until the card is under load
 * (locked clocks have no getter). `failed`: the driver refused for a reason that may pass (not ready, lost): try again.
 */
export type LeverVerdict = "honoured" | "ignored" | "not_supported" | "not_permitted" | "unverified" | "failed";

/** What became of one lever. `evidence` says in words what was done and seen. */
export interface LeverReport {
  readonly lever: Lever;
  readonly wanted: LeverValue;
  /** Null: can't be read back (locked clocks), or the read failed. Power and offsets in their unit, never `stock`. */
  readonly readBack: LeverValue | null;
  readonly verdict: LeverVerdict;
  readonly evidence: string;
  /** What helps, e.g. the privilege that is missing. */
  readonly remedy: string | null;
  readonly atMs: WallMs;
}

/** What one lever allows on this card, both ends included. */
export type LeverLimits =
  | {
    readonly adjustable: true;
    readonly min: number;
    readonly max: number;
    /** The number that `stock` stands for; null for locks (no lock) and fans (automatic). */
    readonly stock: number | null;
    /** The values the card knows, ascending, if it names them; others snap to the nearest not above. */
    readonly steps: readonly number[] | null;
  }
  | {
    readonly adjustable: false;
    readonly verdict: "not_supported" | "not_permitted";
    /** E.g. "no fan", "not adjustable". */
    readonly evidence: string;
  };

/** What this card allows, read from the card itself; new after the driver was re-initialised. */
export interface CardLimits {
  readonly uuid: string;
  readonly name: string;
  readonly fanCount: number;
  readonly levers: Readonly<Record<Lever, LeverLimits>>;
}

/** What is set now, read back. */
export interface CardState {
  readonly atMs: WallMs;
  /** As LeverReport.readBack: numbers, fans also `stock`; a lock is what we last set, since nothing reads it back. */
  readonly values: Readonly<Record<Lever, LeverValue | null>>;
  /** The last report for each lever that was applied since the library was opened. */
  readonly reports: Readonly<Partial<Record<Lever, LeverReport>>>;
  /** Levers that the journal says we changed and have not put back. */
  readonly changed: readonly Lever[];
  /** Where Xid errors are heard; null = not measurable here. */
  readonly xidSource: "nvml" | "kmsg" | null;
}

/** Who wants a change. `profile` is the profile in force then, for the quarantine after an unclean end. */
export interface CardReason {
  readonly by: "restore" | "governor" | "confirm_revert" | "sweep" | "operator" | "profile";
  readonly profile: string | null;
  readonly text: string;
}

/** One line of the write-ahead journal, on disk before the change it announces. */
export type JournalEntry =
  | {
    readonly kind: "change";
    readonly atMs: WallMs;
    /** The card, by uuid. */
    readonly gpu: string;
    readonly lever: Lever;
    /** What stood there before, if it could be read. */
    readonly before: LeverValue | null;
    readonly to: LeverValue;
    readonly reason: CardReason;
  }
  /** The lever is back at stock. */
  | { readonly kind: "restored"; readonly atMs: WallMs; readonly gpu: string; readonly lever: Lever }
  /** Changes were found that no one put back: their owner ended without its restore. */
  | { readonly kind: "unclean_end"; readonly atMs: WallMs; readonly gpu: string; readonly profile: string | null };

/** `journal`: only what the journal says we changed; `fans`: of that only the fans; `all`: every lever. */
export type RestoreScope = "all" | "journal" | "fans";

export interface RestoreReport {
  readonly scope: RestoreScope;
  /** Empty when there was nothing to put back. */
  readonly levers: readonly LeverReport[];
  /** Set when an owner before this one ended without its restore; reported until `forgetUncleanEnd`. */
  readonly uncleanEnd: { readonly atMs: WallMs; readonly profile: string | null } | null;
  /** Why the journal couldn't be brought up to date; the card was put back all the same. */
  readonly journalProblem: string | null;
}

/** What happens to the card by itself. */
export type CardEvent =
  /** A fault the driver reported; the number is NVIDIA's. */
  | { readonly kind: "xid"; readonly atMs: WallMs; readonly code: number; readonly source: "nvml" | "kmsg" }
  /** The library was opened anew (driver reload, card lost and back): what was set may be gone. */
  | { readonly kind: "reopened"; readonly atMs: WallMs }
  /** A lever that had failed in passing was tried again. */
  | { readonly kind: "retried"; readonly atMs: WallMs; readonly report: LeverReport }
  /** The writer itself gave manual fans back to the card, since the temperature can't be trusted. */
  | { readonly kind: "fans_released"; readonly atMs: WallMs; readonly reason: string; readonly report: LeverReport };

/** The only way to change a card. Calls reject with GpuUnavailable when the card can't be reached. */
export interface CardControl {
  limits(signal?: AbortSignal): Promise<CardLimits>;
  /** What is set, read back from the card. */
  state(signal?: AbortSignal): Promise<CardState>;
  /** Journals, sets and reads back every lever named, each on its own: one that fails doesn't stop the others. */
  apply(setting: CardSetting, reason: CardReason, signal?: AbortSignal): Promise<readonly LeverReport[]>;
  restore(scope: RestoreScope, signal?: AbortSignal): Promise<RestoreReport>;
  /** Once the quarantine that follows from it is kept. */
  forgetUncleanEnd(signal?: AbortSignal): Promise<void>;
  /** Calls `onEvent` until stopped. */
  watchEvents(onEvent: (event: CardEvent) => void): Timer;
}
