/**
 * What the gate hears and what it asks for: requests of the two tenants that are held until their memory is confirmed
 * back (SPEC 2.9). The proxies' side of it is in admission.ts.
 */
import type {
  AdmissionRequest,
  GateCounts,
  GateOutcome,
  GateUrls,
  HeldView,
  OpenReason,
  PassReason,
  Verdict,
} from "./admission.ts";
import type { ArbiterReply } from "./arbitration.ts";
import type { Tenant } from "./tenants.ts";
import type { MonotonicMs } from "./units.ts";

/** SPEC 2.9, every number. */
export interface GatePolicy {
  /** Requests held at a time, of both tenants together; one more is told to come back. */
  readonly mostHeld: number;
  /** How long a request may be held. */
  readonly deadlineMs: number;
  /** A batch request that has waited for so long counts as interactive. */
  readonly ageMs: number;
  /** Paths ("/api/embed") and models that count as batch, unless the request's header says otherwise. */
  readonly batch: readonly string[];
}

export const DEFAULT_GATE_POLICY: GatePolicy = {
  mostHeld: 256,
  deadlineMs: 600_000,
  ageMs: 60_000,
  batch: [],
};

export type GateEvent =
  & { readonly atMs: MonotonicMs }
  & (
    | { readonly type: "gateOffered"; readonly id: string; readonly request: AdmissionRequest }
    /** Its proxy is about to send it. */
    | { readonly type: "gateTaken"; readonly id: string }
    /** Its client left before it was sent. */
    | { readonly type: "gateLeft"; readonly id: string }
    | { readonly type: "gateEnded"; readonly id: string; readonly outcome: GateOutcome }
    /** The upstream refused it for want of memory. */
    | { readonly type: "gateRefused"; readonly id: string; readonly message: string }
    /** The arbiter's answer to a hand-off that the gate asked for. */
    | { readonly type: "gateAnswered"; readonly requestId: string; readonly reply: ArbiterReply }
    /** Once a second while something is held: deadlines don't depend on samples that may have stopped. */
    | { readonly type: "gateTicked" }
    /** An ordered end begins: what is held passes, and so does whatever comes on connections that are still open. */
    | { readonly type: "gateStopped" }
  );

/** A verdict as data; the ticket is made by whoever delivers it. */
export type GateVerdict =
  | (Omit<Extract<Verdict, { kind: "pass" }>, "ticket">)
  | Extract<Verdict, { kind: "refused" | "lapsed" }>;

export type GateEffect =
  & { readonly reason: string }
  & (
    /** The answer to an offer; exactly one each. */
    | { readonly kind: "gateVerdict"; readonly id: string; readonly verdict: GateVerdict }
    /** The answer to a refusal for want of memory; exactly one each. */
    | { readonly kind: "gateRetry"; readonly id: string; readonly heldMs: number; readonly isOn: boolean }
    /** Asks the arbiter for the lane: everything in the way of `to` goes, confirmed. */
    | { readonly kind: "gateHandOff"; readonly requestId: string; readonly to: Tenant }
    | { readonly kind: "gateCallOff"; readonly requestId: string }
    /** Completes the record of the hand-off that served held requests. */
    | { readonly kind: "gateAmend"; readonly key: string; readonly fields: Readonly<Record<string, unknown>> }
  );

export function isGateEvent<E extends { readonly type: string }>(event: E | GateEvent): event is GateEvent {
  return event.type.startsWith("gate");
}

export function isGateEffect<E extends { readonly kind: string }>(effect: E | GateEffect): effect is GateEffect {
  return effect.kind.startsWith("gate");
}

/** Passes that mean that the gate stood open. */
const OPEN: Readonly<Record<OpenReason, true>> = {
  paused: true,
  observe: true,
  blind: true,
  fault: true,
  stuck: true,
  remote: true,
  stopping: true,
};

export function isOpenReason(reason: PassReason): reason is OpenReason {
  return Object.hasOwn(OPEN, reason);
}

/** The gate as operations show it. */
export interface GateView {
  readonly urls: GateUrls;
  /** In the order in which they go. */
  readonly held: readonly HeldView[];
  readonly counts: GateCounts;
}
