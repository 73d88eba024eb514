/** What the gate knows: every request that isn't over, and the one hand-off that is under way for those it holds. */
import type { AdmissionRequest, GateCounts, HeldNote, PassReason, Priority } from "../model/admission.ts";
import type { Step } from "../model/events.ts";
import type { GateEffect, GatePolicy } from "../model/gate.ts";
import type { Tenant } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";

export type GateStep = Step<GateState, GateEffect>;

/** What doesn't change of a request. */
interface GateRequest {
  readonly id: string;
  readonly request: AdmissionRequest;
  readonly priority: Priority;
  readonly wasRetried: boolean;
}

/** A request that waits for its verdict or, refused by its upstream for want of memory, for its one retry. */
export interface Waiter extends GateRequest {
  readonly for: "verdict" | "retry";
  readonly sinceMs: MonotonicMs;
  /** Null until it was found that it has to wait. */
  readonly note: HeldNote | null;
}

/** A request that may go: `offered → taken | lapsed`. */
export interface Flyer extends GateRequest {
  readonly stage: "offered" | "taken";
  readonly atMs: MonotonicMs;
  readonly passedAs: PassReason;
  readonly wasHeld: boolean;
}

/** A hand-off that the arbiter was asked for. */
export interface GateHandOff {
  readonly requestId: string;
  readonly to: Tenant;
  /** The request it was asked for first: it is served, whoever else has come meanwhile. */
  readonly forId: string;
  /** Names its record; null while the lane is still busy with something else. */
  readonly key: string | null;
}

/** Why no hand-off to a tenant is asked for just now. */
export type Obstacle =
  /** Somebody works with the memory: asked again when they have ended. */
  | { readonly kind: "busy"; readonly message: string }
  /** It can't be had, or not confirmed: until then the gate stands open for that tenant. */
  | { readonly kind: "fault" | "blind"; readonly message: string; readonly untilMs: MonotonicMs };

export interface GateState {
  readonly policy: GatePolicy;
  /** In the order of their arrival. */
  readonly waiting: readonly Waiter[];
  /** Sent, or about to be. */
  readonly inFlight: readonly Flyer[];
  readonly handOff: GateHandOff | null;
  readonly obstacles: Readonly<Record<Tenant, Obstacle | null>>;
  /** A prompt was sent and ComfyUI's queue hasn't shown it yet; the time of the last word about it. */
  readonly promptSentMs: MonotonicMs | null;
  /** When a purge for the gate was confirmed last: an older sample shows what ComfyUI held before. */
  readonly comfyBareMs: MonotonicMs | null;
  readonly counts: GateCounts;
  /** How long the last few were held, ms, oldest first: what `Retry-After` goes by. */
  readonly holdsMs: readonly number[];
  readonly nextHandOff: number;
  readonly isStopped: boolean;
}

export function initialGate(policy: GatePolicy): GateState {
  return {
    policy,
    waiting: [],
    inFlight: [],
    handOff: null,
    obstacles: { ollama: null, comfyui: null },
    promptSentMs: null,
    comfyBareMs: null,
    counts: { passed: 0, held: 0, refused: 0, lapsed: 0, open: {}, retried: 0 },
    holdsMs: [],
    nextHandOff: 1,
    isStopped: false,
  };
}
