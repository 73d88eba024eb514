/**
 * A hand-off that somebody waits for at the gate: the same yield or purge as any other, but its winner can't begin
 * before the driver has the memory back. It spares what is kept, as whatever isn't asked for by name does.
 */
import type { ArbiterReply } from "../model/arbitration.ts";
import type { ArbiterEvent } from "../model/events.ts";
import type { ArbiterState, ArbiterStep, Waiting } from "./arbiter_state.ts";
import { type HandOffRequest, servingYield } from "./hand_off_watch.ts";
import { giveWayTo } from "./hold_job.ts";
import { isComfyBusy, refusePurge } from "./lane.ts";

/** Joins what is under way to the same end; else waits for the lane, before which a measurement gives way. */
export function receiveHandOff(
  state: ArbiterState,
  { request, operation, atMs }: Extract<ArbiterEvent, { type: "requested" }> & { readonly request: HandOffRequest },
): ArbiterStep {
  const { id, to } = request;
  if (to === "ollama" && isComfyBusy(state)) return { state, effects: [refusePurge(id)] };
  const { holder } = state;
  if (holder !== null && isServing(state, to)) {
    return { state: { ...state, holder: { ...holder, requestIds: [...holder.requestIds, id] } }, effects: [] };
  }
  const cleared = to === "comfyui" ? giveWayTo(state, "a prompt is held at the gate") : { state, effects: [] };
  const entry: Waiting = { kind: "request", request, operation, sinceMs: atMs };
  return { state: { ...cleared.state, waiting: [...cleared.state.waiting, entry] }, effects: cleared.effects };
}

function isServing(state: ArbiterState, to: HandOffRequest["to"]): boolean {
  if (to === "comfyui") return servingYield(state) !== null;
  return state.holder?.job.kind === "purge" && state.holder.job.confirm;
}

/** How a hand-off ended for who was held, by the answer to it. */
export type HandOffEnd =
  /** The memory is back, by the driver's word. */
  | { readonly kind: "back" }
  /** Nobody held anything. */
  | { readonly kind: "nobody" }
  /** Somebody works with it: it comes back when that ends. */
  | { readonly kind: "busy"; readonly message: string }
  /** The driver can't tell. */
  | { readonly kind: "blind"; readonly message: string }
  /** It doesn't come back. `isQuick`: that was found out at once, as when a server doesn't answer. */
  | { readonly kind: "fault"; readonly message: string; readonly isQuick: boolean };

export function endOf(reply: ArbiterReply): HandOffEnd {
  if (reply.kind === "refused") {
    const { code, message } = reply.refusal;
    return code === "busy" || code === "cancelled"
      ? { kind: "busy", message }
      : { kind: "fault", message, isQuick: true };
  }
  if (reply.kind !== "yield" && reply.kind !== "purge") {
    return { kind: "fault", message: "It was answered with another's", isQuick: true };
  }
  const { outcome, message } = reply.value;
  switch (outcome) {
    case "released":
      return { kind: "back" };
    case "nothing_loaded":
    case "remote":
      return { kind: "nobody" };
    case "busy":
      return { kind: "busy", message };
    case "unconfirmed":
      return { kind: "blind", message };
    case "unreachable":
      return { kind: "fault", message, isQuick: true };
    case "fault":
    case "timeout":
      return { kind: "fault", message, isQuick: false };
  }
}
