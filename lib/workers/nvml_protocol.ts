/** What the nvml Worker and its client say to each other. Everything here survives structured cloning. */
import type {
  CardEvent,
  CardLimits,
  CardReason,
  CardSetting,
  CardState,
  LeverReport,
  RestoreReport,
  RestoreScope,
} from "../model/card.ts";
import { GpuUnavailable } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import type { GpuChoice } from "../sample/gpu_facts.ts";

/** Where the card comes from: the driver's library, or a simulated card's table. */
export type GpuSource =
  | {
    readonly kind: "library";
    /** Files or sonames in search order; null = the usual places. */
    readonly paths: readonly string[] | null;
  }
  | { readonly kind: "simulated"; readonly table: SharedArrayBuffer };

/** Who may set the card's levers, and where that is journalled. */
export interface LeverAccess {
  /** Where the card's journal lies. */
  readonly stateDir: string;
  /** False: no setter of the card's library is ever called. */
  readonly mayChange: boolean;
  /** False for a restore beside an owner that still lives: what it left is no unclean end. */
  readonly marksUncleanEnd: boolean;
}

export interface NvmlConfig {
  readonly source: GpuSource;
  readonly choice: GpuChoice;
  readonly sysRoot: string;
  /** How long a card that could sleep must be idle before its library is let go; null = never. */
  readonly releaseIdleMs: number | null;
  /** Null: only readings are asked for. */
  readonly levers: LeverAccess | null;
  readonly control: SharedArrayBuffer;
  /** The client's monotonic clock as it sends this, so that both threads stamp alike. */
  readonly monotonicMs: number;
}

/**
 * Words of the control buffer, an Int32Array. A Worker that streams never returns to its event loop by itself, so it
 * learns from here that it should: that the stream is over, or that something was asked.
 */
export const CONTROL = {
  /** Id of the wanted stream; 0 = none. */
  stream: 0,
  /** Questions posted so far. */
  asked: 1,
} as const;

/** Bytes of the control buffer. */
export const CONTROL_BYTES = 8;

/** What can be asked, each with its answer. */
export interface Answers {
  readonly facts: GpuFacts;
  readonly read: GpuReading;
  readonly limits: CardLimits;
  readonly state: CardState;
  readonly apply: readonly LeverReport[];
  readonly restore: RestoreReport;
  readonly forget: null;
}

export type Question =
  | { readonly what: "facts" | "read" | "limits" | "state" | "forget" }
  | { readonly what: "apply"; readonly setting: CardSetting; readonly reason: CardReason }
  | { readonly what: "restore"; readonly scope: RestoreScope };

export type Answer = Answers[keyof Answers];

export type ToWorker =
  | { readonly kind: "configure"; readonly config: NvmlConfig }
  | { readonly kind: "ask"; readonly id: number; readonly question: Question }
  | { readonly kind: "stream"; readonly id: number }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "answer"; readonly id: number; readonly value: Answer }
  | { readonly kind: "refusal"; readonly id: number; readonly failure: GpuFailure }
  /** What happened to the card by itself; comes between answers. */
  | { readonly kind: "event"; readonly event: CardEvent }
  | { readonly kind: "reading"; readonly id: number; readonly reading: BarrierReading }
  /** The stream is over: asked for (null), or because the card can't be read any more. */
  | { readonly kind: "streamEnded"; readonly id: number; readonly failure: GpuFailure | null }
  | { readonly kind: "closed" };

/** GpuUnavailable as data: cloning an error loses its class and fields. */
export interface GpuFailure {
  readonly kind: GpuUnavailable["kind"];
  readonly message: string;
  readonly remedy: string;
}

export function toFailure(error: GpuUnavailable): GpuFailure {
  return { kind: error.kind, message: error.message, remedy: error.remedy };
}

export function fromFailure(failure: GpuFailure): GpuUnavailable {
  return new GpuUnavailable(failure.kind, failure.message, failure.remedy);
}
