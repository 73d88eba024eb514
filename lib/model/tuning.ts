/**
 * Tuning the card: profiles, the governor, and what is asked and heard of them. Levers and their verdicts are in
 * card.ts; `decide/card` turns all of this into one setting per lever.
 */
import type {
  CardEvent,
  CardLimits,
  CardReason,
  CardSetting,
  CardState,
  Lever,
  LeverReport,
  RestoreReport,
  RestoreScope,
} from "./card.ts";
import type { NewHistoryItem } from "./history.ts";
import type { MonotonicMs } from "./units.ts";

/** A profile's value: absolute in the lever's unit, or relative to the card. `default` is stock. */
export type ProfileValue = number | "default" | "max";

export type ProfileValues = Readonly<Partial<Record<Lever, ProfileValue>>>;

/** Settings under a name. `measured` is the evidence behind each; a lever without any says so when shown. */
export interface Profile {
  readonly name: string;
  readonly isBuiltIn: boolean;
  readonly values: ProfileValues;
  readonly measured: Readonly<Partial<Record<Lever, string>>>;
}

/** A profile that was active when something went wrong: not chosen again until it is applied by hand. */
export interface Quarantined {
  readonly profile: string;
  readonly reason: string;
}

/** What outlives the service: profiles made by users, and which ones are quarantined. */
export interface TuningBook {
  readonly profiles: readonly Profile[];
  readonly quarantine: readonly Quarantined[];
}

/** Keeps the book between two lives of the service. */
export interface TuningStore {
  /** An empty book where there is none yet. */
  load(): Promise<TuningBook>;
  save(book: TuningBook): Promise<void>;
}

/** SPEC 4.4, every number. */
export interface GovernorPolicy {
  readonly enabled: boolean;
  /** Hot = the card's slowdown threshold less this. */
  readonly hotMarginC: number;
  /** Hot where the card names no threshold. */
  readonly hotFallbackC: number;
  readonly memoryHotC: number;
  /** A good sample is at most hot less this. */
  readonly recoverMarginC: number;
  /** Driver bits that make a sample bad: software and hardware thermal, power brake. */
  readonly throttleMask: number;
  readonly badSamples: number;
  readonly goodSamples: number;
  readonly cooldownMs: number;
  /** Samples in a row without a temperature before the sensor counts as blind. */
  readonly blindSamples: number;
  /** Rung 1: fans at least. */
  readonly fanPct: number;
  /** Rung 4: of the default power. */
  readonly powerPct: number;
}

export interface TuningPolicy {
  /** Whether the profile follows the workload. */
  readonly isAutomatic: boolean;
  /** How long the other workload must have been quiet, and the least time between two switches. */
  readonly dwellMs: number;
  /** Idle time of both after which `balanced` is applied; null = never. */
  readonly idleMs: number | null;
  /** Whether a lever that another tool changed is set again. */
  readonly reapply: boolean;
  /** How often what is set is read back. */
  readonly verifyMs: number;
  readonly governor: GovernorPolicy;
}

export const DEFAULT_TUNING: TuningPolicy = {
  isAutomatic: true,
  dwellMs: 5_000,
  idleMs: null,
  reapply: false,
  verifyMs: 5_000,
  governor: {
    enabled: true,
    hotMarginC: 8,
    hotFallbackC: 83,
    memoryHotC: 100,
    recoverMarginC: 5,
    throttleMask: 0x60 | 0x80,
    badSamples: 5,
    goodSamples: 30,
    cooldownMs: 20_000,
    blindSamples: 3,
    fanPct: 80,
    powerPct: 85,
  },
};

/** What the governor does on each rung, by level. */
export const RUNGS = ["stock", "fans", "no_offsets", "default_power", "reduced_power"] as const;
export type Rung = typeof RUNGS[number];

export interface GovernorChange {
  readonly atMs: MonotonicMs;
  readonly from: number;
  readonly to: number;
  readonly reason: string;
}

/** What somebody asks for. `confirmMs`: taken back unless confirmed within that time. */
export type TuneRequest =
  /** `auto` follows the workload again. */
  | { readonly kind: "profile"; readonly name: string; readonly confirmMs: number | null }
  | {
    readonly kind: "lever";
    readonly lever: Lever;
    readonly value: ProfileValue;
    readonly confirmMs: number | null;
  }
  | {
    readonly kind: "save";
    readonly name: string;
    readonly values: ProfileValues;
    readonly confirmMs: number | null;
  }
  | { readonly kind: "delete"; readonly name: string }
  | { readonly kind: "confirm" }
  | { readonly kind: "governor"; readonly enabled: boolean | null; readonly reset: boolean }
  | { readonly kind: "restore"; readonly scope: RestoreScope };

export type TuneReply =
  /** `levers`: those that were asked about; what became of each is in the view. */
  | { readonly kind: "done"; readonly message: string; readonly levers: readonly Lever[] }
  | {
    readonly kind: "refused";
    readonly code: "invalid_input" | "not_found" | "busy" | "unavailable" | "forbidden";
    readonly message: string;
    readonly hint: string;
  };

export type TuneEvent =
  & { readonly atMs: MonotonicMs }
  & (
    | {
      readonly type: "cardOpened";
      readonly limits: CardLimits;
      readonly state: CardState;
      readonly uncleanEnd: RestoreReport["uncleanEnd"];
    }
    | { readonly type: "cardClosed"; readonly reason: string }
    /** `suspects`: running programs that are known to set cards. */
    | { readonly type: "cardRead"; readonly state: CardState; readonly suspects: readonly string[] }
    | {
      readonly type: "cardApplied";
      readonly generation: number;
      readonly reports: readonly LeverReport[];
      /** Why the card couldn't be reached, or null. */
      readonly error: string | null;
    }
    | {
      readonly type: "cardRestored";
      readonly generation: number;
      readonly reports: readonly LeverReport[];
      readonly error: string | null;
    }
    | { readonly type: "cardNews"; readonly news: CardEvent }
    | { readonly type: "tuneAsked"; readonly requestId: string; readonly request: TuneRequest }
    /** The owner's configuration was read again. */
    | { readonly type: "tuningConfigured"; readonly policy: TuningPolicy }
    /** A sweep holds these levers; null gives them back. */
    | { readonly type: "sweepHolds"; readonly setting: CardSetting | null; readonly text: string }
  );

/** One call of the card's writer. */
export interface CardWrite {
  readonly setting: CardSetting;
  readonly reason: CardReason;
}

export type TuneEffect =
  /** Undoes what an earlier life left, then reads what the card allows and what is set. */
  | { readonly kind: "openCard" }
  | { readonly kind: "readCard" }
  | { readonly kind: "applyCard"; readonly generation: number; readonly writes: readonly CardWrite[] }
  | { readonly kind: "restoreCard"; readonly generation: number; readonly scope: RestoreScope }
  /** `forgetsUncleanEnd`: once it is kept, the journal may forget why. */
  | { readonly kind: "keepBook"; readonly book: TuningBook; readonly forgetsUncleanEnd: boolean }
  | {
    readonly kind: "recordTuning";
    readonly event: string;
    readonly reason: string;
    readonly item: Omit<NewHistoryItem, "atMs">;
  }
  | { readonly kind: "answerTuning"; readonly requestId: string; readonly reply: TuneReply };

const EVENT_TYPES: ReadonlySet<string> = new Set<TuneEvent["type"]>([
  "cardOpened",
  "cardClosed",
  "cardRead",
  "cardApplied",
  "cardRestored",
  "cardNews",
  "tuneAsked",
  "tuningConfigured",
  "sweepHolds",
]);

/** Whether an event of the house's one mailbox concerns the card's tuning alone. */
export function isTuneEvent<E extends { readonly type: string }>(event: E | TuneEvent): event is TuneEvent {
  return EVENT_TYPES.has(event.type);
}

const EFFECT_KINDS: ReadonlySet<string> = new Set<TuneEffect["kind"]>([
  "openCard",
  "readCard",
  "applyCard",
  "restoreCard",
  "keepBook",
  "recordTuning",
  "answerTuning",
]);

/** Whether an effect is for the card's performer. */
export function isTuneEffect<E extends { readonly kind: string }>(effect: E | TuneEffect): effect is TuneEffect {
  return EFFECT_KINDS.has(effect.kind);
}
