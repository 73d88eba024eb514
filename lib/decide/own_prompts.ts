/**
 * Our own prompts (a sweep's) never trigger arbitration (SPEC 2.5): while one is queued, the arbiter sees ComfyUI's
 * queue without it. One at a time; it is told of before it is posted, so that no status frame can come first.
 */
import type { ArbiterEvent } from "../model/events.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState } from "./arbiter_state.ts";

/** Null `overMs`: it is queued, runs, or is about to be posted. */
export interface OwnPrompt {
  readonly overMs: MonotonicMs | null;
  /** The largest count since it was posted. */
  readonly count: number;
}

/** How long after its end a frame may still count it: the broadcast comes after the history. */
const LINGER_MS = 2_000;

export function hideOwnPrompt(
  state: ArbiterState,
  event: ArbiterEvent,
): { readonly state: ArbiterState; readonly event: ArbiterEvent } {
  if (event.type === "ownPrompt") {
    if (event.isOpen) return { state: { ...state, ownPrompt: { overMs: null, count: 0 } }, event };
    if (state.ownPrompt === null) return { state, event };
    // What counts from a prompt's end counts from this one's, too: `/free` waits until it is quiet.
    const { comfy } = state;
    const idleSinceMs = comfy.idleSinceMs === null ? null : event.atMs;
    const ownPrompt = { ...state.ownPrompt, overMs: event.atMs };
    return { state: { ...state, ownPrompt, comfy: { ...comfy, idleSinceMs } }, event };
  }
  const { ownPrompt } = state;
  const count = countOf(event);
  if (ownPrompt === null || count === null) return { state, event };
  // It was posted to an empty queue, so that it is the first to leave: from then on all that is counted is others'.
  const hasLeft = count < ownPrompt.count;
  const isLate = ownPrompt.overMs !== null && (count === 0 || event.atMs - ownPrompt.overMs >= LINGER_MS);
  if (hasLeft || isLate) return { state: { ...state, ownPrompt: null }, event };
  const next = count === ownPrompt.count ? state : { ...state, ownPrompt: { ...ownPrompt, count } };
  return { state: next, event: withCount(event, Math.max(0, count - 1)) };
}

function countOf(event: ArbiterEvent): number | null {
  if (event.type === "comfyActivity") return event.queueRemaining;
  return event.type === "sampled" ? event.sample.comfy.queueRemaining : null;
}

function withCount(event: ArbiterEvent, queueRemaining: number): ArbiterEvent {
  if (event.type === "comfyActivity") return { ...event, queueRemaining };
  if (event.type !== "sampled") return event;
  const comfy = { ...event.sample.comfy, queueRemaining, executing: queueRemaining > 0 };
  return { ...event, sample: { ...event.sample, comfy } };
}
