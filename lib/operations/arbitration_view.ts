/** Arbitration as doors show it: who has the card and the lane, who waits and why. */
import * as z from "zod";
import { causeWord } from "../model/arbitration.ts";
import type { ArbitrationView, Decision } from "../model/arbitration.ts";
import { round, toIso } from "../model/units.ts";
import { isoOrNull, ms, time } from "./quantities.ts";

export const MODES = ["auto", "observe", "paused"] as const;

export const ArbitrationWire = z.object({
  mode: z.enum(MODES).describe("auto acts; observe decides and touches nothing; paused does nothing by itself"),
  until: time("when observe or paused ends by itself; null = by hand", null),
  keep: z.array(z.string()).describe("models never unloaded by an automatic yield or a switch"),
  holder: z.enum(["ollama", "comfyui", "both"]).nullable().describe("whose work was admitted last"),
  lane: z.object({
    job: z.enum(["yield", "purge", "switch", "requestVram"]),
    cause: z.string(),
    phase: z.string(),
    since: time("since when"),
  }).nullable().describe("what moves VRAM just now; one at a time"),
  waiting: z.array(z.object({
    kind: z.enum(["yield", "purge", "switch", "requestVram", "auto"]),
    reason: z.string(),
    since: time("since when"),
  })),
  watching: z.array(z.object({ model: z.string().nullable(), pid: z.int(), since: time("since when") }))
    .describe("busy or stuck runners whose release is still awaited"),
  gate: z.object({ ollama: z.string().nullable(), comfyui: z.string().nullable() })
    .describe("URLs of the gate, null where it is off"),
  hand_offs: z.int(),
  late_hand_offs: z.int().describe("the winner allocated before the memory was back"),
  last_margin_ms: ms("the last hand-off's margin; negative = late", null),
});
export type ArbitrationStats = z.output<typeof ArbitrationWire>;

export const DecisionWire = z.object({
  id: z.int(),
  at: time("when"),
  event: z.string(),
  before: z.string(),
  after: z.string(),
  effects: z.array(z.string()),
  reason: z.string(),
});

export function viewArbitration(view: ArbitrationView): ArbitrationStats {
  return {
    mode: view.mode,
    until: isoOrNull(view.untilMs),
    keep: [...view.keep],
    holder: view.holder,
    lane: view.lane === null ? null : {
      job: view.lane.job,
      cause: causeWord(view.lane.cause),
      phase: view.lane.phase,
      since: toIso(view.lane.sinceMs),
    },
    waiting: view.waiting.map(({ kind, reason, sinceMs }) => ({ kind, reason, since: toIso(sinceMs) })),
    watching: view.watching.map(({ model, pid, sinceMs }) => ({ model, pid, since: toIso(sinceMs) })),
    gate: { ollama: null, comfyui: null },
    hand_offs: view.handOffs,
    late_hand_offs: view.lateHandOffs,
    last_margin_ms: round(view.lastMarginMs),
  };
}

export function viewDecision(decision: Decision): z.output<typeof DecisionWire> {
  const { id, event, before, after, reason } = decision;
  return { id, at: toIso(decision.atMs), event, before, after, effects: [...decision.effects], reason };
}
