/** A measurement holds the lane, so that nothing else moves memory meanwhile; ComfyUI's work takes it away at once. */
import type { ArbiterReply, Cause } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, Generation } from "../model/events.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ArbiterStep } from "./arbiter_state.ts";
import { refusal } from "./switch_plan.ts";

export interface HoldJob {
  readonly kind: "hold";
  readonly generation: Generation;
  readonly cause: Cause;
  readonly startedMs: MonotonicMs;
  /** What is measured, in words. */
  readonly purpose: string;
}

/** Whether the hold that was asked for by this id has the lane now. */
export function hasLane({ holder }: Pick<ArbiterState, "holder">, requestId: string): boolean {
  return holder?.job.kind === "hold" && holder.requestIds.includes(requestId);
}

/** ComfyUI has work, in whatever mode: whoever only measures lets go of the lane before anything is decided of it. */
export function giveWay(state: ArbiterState, _event: ArbiterEvent): ArbiterStep {
  return (state.comfy.queueRemaining ?? 0) === 0 ? { state, effects: [] } : giveWayTo(state, "ComfyUI has work");
}

/** A measurement in the lane ends; what it measures is told why. */
export function giveWayTo(state: ArbiterState, why: string): ArbiterStep {
  const { holder } = state;
  if (holder?.job.kind !== "hold") return { state, effects: [] };
  const reason = `${why}: the measurement gives way`;
  const reply: ArbiterReply = {
    kind: "refused",
    refusal: refusal("busy", `The measurement gave way: ${why}`, { hint: "It goes on when ComfyUI is idle" }),
  };
  const effects: ArbiterEffect[] = holder.requestIds.map((requestId) => ({
    kind: "resolve",
    requestId,
    reply,
    reason,
  }));
  return { state: { ...state, holder: null }, effects };
}

/** Who asks for something else meanwhile is told at once: a sweep takes minutes. Null: it may go on. */
export function objectionToHold({ holder }: ArbiterState, requestId: string): ArbiterEffect | null {
  if (holder?.job.kind !== "hold") return null;
  const why = refusal("busy", `The card is being measured: ${holder.job.purpose}`, {
    hint: "Wait for it, or cancel it: hyperswap runs",
  });
  return { kind: "resolve", requestId, reply: { kind: "refused", refusal: why }, reason: why.message };
}
