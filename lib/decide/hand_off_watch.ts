/** The watch on a hand-off's winner, and whether a yield that is under way serves it already. */
import type { ArbiterRequest } from "../model/arbitration.ts";
import type { ArbiterEffect, Generation } from "../model/events.ts";
import { canonical } from "../model/model_names.ts";
import type { Sample } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ArbiterStep } from "./arbiter_state.ts";
import { recordKey } from "./lane_results.ts";
import { marginFields, watchMarginOf } from "./margin.ts";
import { comfyHoldings } from "./purge_job.ts";

export type HandOffRequest = Extract<ArbiterRequest, { kind: "handOff" }>;

/** The generation of a yield under way that takes all that an automatic one would; null without one. */
export function servingYield({ holder, keep }: ArbiterState): Generation | null {
  if (holder?.job.kind !== "yield") return null;
  const { scope, confirm, generation } = holder.job;
  const kept = keep.map(canonical);
  const isSame = confirm && scope.models === null && scope.keep.every((name) => kept.includes(canonical(name)));
  return isSame ? generation : null;
}

/** Its yield begins: from now on the winner's first allocation is watched. */
export function watchHandOff(
  state: ArbiterState,
  { to }: HandOffRequest,
  { generation, atMs }: { readonly generation: Generation; readonly atMs: MonotonicMs },
): ArbiterStep {
  if (to === "ollama" || state.sample === null) return { state, effects: [] };
  const key = recordKey(generation, "yield");
  return beginMargin(state, state.sample, { key, atMs, isHeld: true });
}

/**
 * Watches the winner's first allocation from now on. An older hand-off that is still watched ends without a margin; one
 * whose yield is still under way keeps its watch, and so does one whose winner was held until now: this is its work.
 */
export function beginMargin(
  state: ArbiterState,
  sample: Sample,
  { key, atMs, isHeld = false }: { readonly key: string; readonly atMs: MonotonicMs; readonly isHeld?: boolean },
): ArbiterStep {
  const { margin: older } = state;
  if (older !== null && older.concludedMs === null) return { state, effects: [] };
  if (older !== null && older.isHeld && !isHeld) {
    return { state: { ...state, margin: { ...older, isHeld: false } }, effects: [] };
  }
  const { pids, bytes } = comfyHoldings(sample);
  const server = sample.comfy.server;
  const winners = server === null || pids.includes(server.pid) ? pids : [...pids, server.pid];
  const reason = "another hand-off began before ComfyUI took memory";
  const effects: ArbiterEffect[] = older === null
    ? []
    : [{ kind: "amend", key: older.key, fields: marginFields({ marginMs: null, reason }), reason }];
  const margin = watchMarginOf(key, { pids: winners, bytes, atMs, isHeld });
  return { state: { ...state, margin }, effects };
}
