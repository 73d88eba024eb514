/** Arbitration as doors show it: who has the card and the lane, who waits and why. */
import * as z from "zod";
import { causeWord } from "../model/arbitration.ts";
import type { ArbitrationView, Decision } from "../model/arbitration.ts";
import { round, toGib, toIso } from "../model/units.ts";
import { GateCountsWire, GateUrlsWire, HeldWire, viewGate } from "./gate_view.ts";
import { gib, isoOrNull, ms, time } from "./quantities.ts";

export const MODES = ["auto", "observe", "paused"] as const;

export const ArbitrationWire = z.object({
  mode: z.enum(MODES).describe("auto acts; observe decides and touches nothing; paused does nothing by itself"),
  until: time("when observe or paused ends by itself; null = by hand", null),
  keep: z.array(z.string()).describe("models never unloaded by an automatic yield or a switch"),
  holder: z.enum(["ollama", "comfyui", "both"]).nullable().describe("whose work was admitted last"),
  lane: z.object({
    job: z.enum(["yield", "purge", "switch", "requestVram", "hold", "reload", "endRunner"]),
    cause: z.string(),
    phase: z.string(),
    since: time("since when"),
  }).nullable().describe("what moves VRAM just now; one at a time"),
  waiting: z.array(z.object({
    kind: z.enum(["yield", "purge", "switch", "requestVram", "handOff", "hold", "endRunner", "auto", "held"]),
    reason: z.string(),
    since: time("since when"),
  })),
  watching: z.array(z.object({ model: z.string().nullable(), pid: z.int(), since: time("since when") }))
    .describe("busy or stuck runners whose release is still awaited"),
  stuck: z.array(z.object({
    pid: z.int(),
    starttime: z.int(),
    model: z.string().nullable(),
    vram_gb: gib("what it held when it was reported", null),
    evidence: z.string(),
    since: time("since when"),
  })).describe("runners that neither work nor go; `runner end` ends one where the configuration allows it"),
  insisters: z.array(z.object({
    model: z.string(),
    pid: z.int(),
    times: z.int().describe("how often it came back within the last minute"),
    last: time("when last"),
    next: time("when it is asked to go again; null = it isn't, unless it comes back once more", null),
  })).describe("models that came back before ComfyUI had taken the memory it was given"),
  comfyui_worker: z.object({ prompt_id: z.string(), still_s: z.number() }).nullable()
    .describe("a prompt that does nothing any more: ComfyUI's worker may be dead; null = nothing of the kind"),
  gate: GateUrlsWire,
  held: z.array(HeldWire).describe("requests that are held at the gate, in the order in which they go"),
  gate_counts: GateCountsWire,
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
    waiting: [
      ...view.waiting,
      ...(view.gate?.held ?? []).map(({ reason, sinceMs }) => ({ kind: "held" as const, reason, sinceMs })),
    ].map(({ kind, reason, sinceMs }) => ({ kind, reason, since: toIso(sinceMs) })),
    watching: view.watching.map(({ model, pid, sinceMs }) => ({ model, pid, since: toIso(sinceMs) })),
    stuck: (view.stuck ?? []).map(({ pid, startTime, model, bytes, evidence, sinceMs }) => ({
      pid,
      starttime: startTime,
      model,
      vram_gb: toGib(bytes),
      evidence,
      since: toIso(sinceMs),
    })),
    insisters: (view.insisters ?? []).map(({ model, pid, times, lastAtMs, nextAtMs }) => ({
      model,
      pid,
      times,
      last: toIso(lastAtMs),
      next: isoOrNull(nextAtMs),
    })),
    comfyui_worker: view.comfyWorker == null
      ? null
      : { prompt_id: view.comfyWorker.promptId, still_s: Math.round(view.comfyWorker.stillMs / 1_000) },
    ...viewGate(view.gate),
    hand_offs: view.handOffs,
    late_hand_offs: view.lateHandOffs,
    last_margin_ms: round(view.lastMarginMs),
  };
}

export function viewDecision(decision: Decision): z.output<typeof DecisionWire> {
  const { id, event, before, after, reason } = decision;
  return { id, at: toIso(decision.atMs), event, before, after, effects: [...decision.effects], reason };
}
