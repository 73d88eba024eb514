/** What is known and wanted of the card's levers. decide/card.ts moves it. */
import type { CardLimits, CardReason, CardSetting, Lever, LeverReport, LeverValue } from "../model/card.ts";
import type {
  CardWrite,
  Profile,
  ProfileValue,
  Quarantined,
  TuneEffect,
  TuningBook,
  TuningPolicy,
} from "../model/tuning.ts";
import type { Drift } from "../model/tuning_view.ts";
import type { MonotonicMs } from "../model/units.ts";
import { type GovernorState, initialGovernor } from "./governor.ts";
import { NOT_AWAITED, type OllamaReturn } from "./ollama_return.ts";
import { NO_WORKLOAD, type WorkloadState } from "./workload.ts";

/** What somebody set by hand. */
export interface ByHand {
  readonly profile: string | null;
  readonly levers: Readonly<Partial<Record<Lever, ProfileValue>>>;
  /** False after a restore by hand: the card stays at stock until a profile is applied again. */
  readonly isAutomatic: boolean;
}

/** What is undone unless somebody confirms in time. */
export interface Trial {
  readonly untilMs: MonotonicMs;
  readonly what: string;
  readonly before: { readonly hand: ByHand; readonly profiles: readonly Profile[] };
}

/** A wish that won: what one lever is to be, and why. */
export interface Wish {
  readonly value: LeverValue;
  readonly by: CardReason["by"];
  readonly text: string;
}

/** The last write that was decided for a lever. */
export interface Asked extends Wish {
  readonly atMs: MonotonicMs;
  /** True: it must be written again, whatever is wanted. */
  readonly isVoid: boolean;
}

export interface CardKnown {
  readonly limits: CardLimits;
  readonly values: Readonly<Record<Lever, LeverValue | null>>;
  readonly xidSource: "nvml" | "kmsg" | null;
}

export type InFlight =
  | { readonly kind: "apply"; readonly generation: number; readonly writes: readonly CardWrite[] }
  | { readonly kind: "restore"; readonly generation: number };

/** Who waits for the card's answer, and for which levers. */
export interface Waiting {
  readonly requestId: string;
  readonly levers: readonly Lever[];
  readonly message: string;
  /** Written into the history with what came of it; null: nothing is. */
  readonly cause: string | null;
}

export interface TuningState {
  readonly policy: TuningPolicy;
  /** Null: the card's writer isn't there (yet), and `reason` says why. */
  readonly card: CardKnown | null;
  readonly reason: string | null;
  readonly isOpening: boolean;
  readonly openAtMs: MonotonicMs;
  readonly readAtMs: MonotonicMs | null;
  readonly governor: GovernorState;
  readonly workload: WorkloadState;
  readonly hand: ByHand;
  readonly trial: Trial | null;
  /** Set while a change that nobody confirmed is being taken back. */
  readonly isReverting: boolean;
  readonly sweep: { readonly setting: CardSetting; readonly text: string } | null;
  readonly profiles: readonly Profile[];
  readonly quarantine: readonly Quarantined[];
  readonly asked: Readonly<Partial<Record<Lever, Asked>>>;
  readonly reports: Readonly<Partial<Record<Lever, LeverReport>>>;
  readonly inFlight: InFlight | null;
  readonly generation: number;
  /** When levers that failed are tried again. */
  readonly retry: { readonly atMs: MonotonicMs; readonly tries: number } | null;
  readonly drift: readonly Drift[];
  /** When each lever was set again because another tool had changed it. */
  readonly reapplied: Readonly<Partial<Record<Lever, readonly MonotonicMs[]>>>;
  readonly waiting: readonly Waiting[];
  /** Until then the fans stay with the card, since the machine goes to sleep; null: it doesn't. */
  readonly fansRestUntilMs: MonotonicMs | null;
  readonly ollama: OllamaReturn;
  /** The profile that the history was last told of. */
  readonly toldProfile: string | null;
  readonly isStopped: boolean;
  /** What the mode withholds: nothing is set by itself unless it is `auto`. */
  readonly isWithheld: boolean;
}

export const NO_HAND: ByHand = { profile: null, levers: {}, isAutomatic: true };

/** `hasWriter` false: there is nobody to set the card, e.g. in a house that only reads. */
export function initialTuning(
  policy: TuningPolicy,
  book: TuningBook,
  { hasWriter }: { readonly hasWriter: boolean },
): TuningState {
  return {
    policy,
    card: null,
    reason: hasWriter ? "The card has not been opened yet" : "This process reads the card and sets nothing",
    isOpening: !hasWriter,
    openAtMs: 0,
    readAtMs: null,
    governor: initialGovernor(policy.governor),
    workload: NO_WORKLOAD,
    hand: { ...NO_HAND, isAutomatic: policy.isAutomatic },
    trial: null,
    isReverting: false,
    sweep: null,
    profiles: book.profiles,
    quarantine: book.quarantine,
    asked: {},
    reports: {},
    inFlight: null,
    generation: 0,
    retry: null,
    drift: [],
    reapplied: {},
    waiting: [],
    fansRestUntilMs: null,
    ollama: NOT_AWAITED,
    toldProfile: null,
    isStopped: false,
    isWithheld: false,
  };
}

export interface TuningStep {
  readonly state: TuningState;
  readonly effects: readonly TuneEffect[];
}

export function bookOf(state: TuningState): TuningBook {
  return { profiles: state.profiles, quarantine: state.quarantine };
}
