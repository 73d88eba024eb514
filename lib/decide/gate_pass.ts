/** The answers of the gate: pass, refuse, retry. Each takes its request out of the line. */
import type { PassReason } from "../model/admission.ts";
import { isOpenReason } from "../model/gate.ts";
import type { MonotonicMs } from "../model/units.ts";
import { round } from "../model/units.ts";
import type { Flyer, GateState, GateStep, Waiter } from "./gate_state.ts";

/** Holds that `Retry-After` goes by. */
const HOLDS_KEPT = 10;

export function admit(
  state: GateState,
  entry: Waiter,
  { reason, why, atMs }: { readonly reason: PassReason; readonly why: string; readonly atMs: MonotonicMs },
): GateStep {
  const { id, request, priority, note, sinceMs } = entry;
  const wasHeld = note !== null;
  const heldMs = wasHeld ? Math.max(0, atMs - request.arrivedAtMs) : 0;
  const message = wasHeld ? `It was held for ${round(heldMs)} ms: ${why}` : why;
  const common = { id, request, priority, wasHeld, wasRetried: false };
  const flyer: Flyer = { ...common, stage: "offered", atMs, passedAs: reason };
  return {
    state: {
      ...withoutWaiter(state, id),
      inFlight: [...state.inFlight, flyer],
      holdsMs: wasHeld ? [...state.holdsMs, atMs - sinceMs].slice(-HOLDS_KEPT) : state.holdsMs,
    },
    effects: [{
      kind: "gateVerdict",
      id,
      verdict: { kind: "pass", heldMs, reason, isOpen: isOpenReason(reason), message },
      reason: why,
    }],
  };
}

export function refuse(
  state: GateState,
  { id }: Waiter,
  { status, retryAfterS, message }: {
    readonly status: 429 | 503;
    readonly retryAfterS: number | null;
    readonly message: string;
  },
): GateStep {
  const { counts } = state;
  return {
    state: { ...withoutWaiter(state, id), counts: { ...counts, refused: counts.refused + 1 } },
    effects: [{
      kind: "gateVerdict",
      id,
      verdict: { kind: "refused", status, retryAfterS, message },
      reason: message,
    }],
  };
}

/** On: its proxy sends the kept body once more. Off: the upstream's refusal is passed on. */
export function answerRetry(
  state: GateState,
  { id, request, priority, sinceMs }: Waiter,
  { isOn, why, atMs }: { readonly isOn: boolean; readonly why: string; readonly atMs: MonotonicMs },
): GateStep {
  const { counts } = state;
  const common = { id, request, priority, wasHeld: true, wasRetried: true };
  const flyer: Flyer = { ...common, stage: "taken", atMs, passedAs: "released" };
  return {
    state: {
      ...withoutWaiter(state, id),
      inFlight: [...state.inFlight, flyer],
      counts: isOn ? { ...counts, retried: counts.retried + 1 } : counts,
    },
    effects: [{ kind: "gateRetry", id, heldMs: atMs - sinceMs, isOn, reason: why }],
  };
}

export function withoutWaiter(state: GateState, id: string): GateState {
  return { ...state, waiting: state.waiting.filter((entry) => entry.id !== id) };
}

export function withoutFlyer(state: GateState, id: string): GateState {
  return { ...state, inFlight: state.inFlight.filter((entry) => entry.id !== id) };
}
