/** Loading a model: what has to give way does so, confirmed; and what the load achieved is told. */
import * as z from "zod";
import type { SwitchResult } from "../model/arbitration.ts";
import { round, toGib } from "../model/units.ts";
import { define } from "./operation.ts";
import { gib, ms, toGb } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { PurgeWire, viewPurge, viewYield, YieldWire } from "./vram.ts";

export const SwitchWire = z.object({
  success: z.boolean(),
  prev_model: z.string().nullable().describe("what was resident before"),
  target_model: z.string(),
  total_duration_ms: ms("all of it, making room included"),
  load_duration_ms: ms("Ollama's own figure for the load", null),
  phases: z.object({
    room_ms: ms("others unloaded and ComfyUI reclaimed, confirmed; a first try that was refused, too", null),
    wait_ms: ms("held back so that ComfyUI surely saw the hand-off", null),
    load_ms: ms("Ollama's own figure", null),
    answer_ms: ms("prompt and answer, by Ollama's own figures", null),
    read_back_ms: ms("from Ollama's reply until the driver had shown what it takes", null),
  }).describe("where the time went, in this order; null: no such part, or nobody says"),
  tokens_per_sec: z.number().nullable(),
  is_ram_hit: z.boolean().describe("class = ram_hit"),
  response: z.string(),
  class: z.enum(["ram_hit", "partial", "cold", "unclassified"]),
  class_basis: z.string().describe("how the class was found"),
  gb_per_s: z.number().nullable().describe("model bytes by load time, GB/s (10⁹)"),
  residency_before_pct: z.number().nullable().describe("share of its file in the page cache just before, %"),
  reclaimed_gb: gib("what had to give way", null),
  vram_gb: gib("what it takes now", null),
  spilled: z.boolean().nullable().describe("part of it lies outside VRAM"),
  already_resident: z.boolean().describe("nothing had to be loaded"),
  yielded: YieldWire.nullable(),
  purged: PurgeWire.nullable(),
  retried: z.boolean().describe("it was refused once, and loaded after a reclaim"),
  verdict: z.string(),
});

function viewSwitch(result: SwitchResult): z.output<typeof SwitchWire> {
  return {
    success: true,
    prev_model: result.prevModel,
    target_model: result.targetModel,
    total_duration_ms: round(result.totalMs, 1),
    load_duration_ms: round(result.loadMs, 1),
    phases: {
      room_ms: round(result.phases.roomMs),
      wait_ms: round(result.phases.waitMs),
      load_ms: round(result.phases.loadMs),
      answer_ms: round(result.phases.answerMs),
      read_back_ms: round(result.phases.readBackMs),
    },
    tokens_per_sec: round(result.tokensPerSecond, 2),
    is_ram_hit: result.class === "ram_hit",
    response: result.response,
    class: result.class,
    class_basis: result.classBasis,
    gb_per_s: toGb(result.bytesPerSecond),
    residency_before_pct: round(result.residencyBeforePct, 1),
    reclaimed_gb: toGib(result.reclaimedBytes),
    vram_gb: toGib(result.vramBytes),
    spilled: result.spilled,
    already_resident: result.alreadyResident,
    yielded: result.yielded === null ? null : viewYield(result.yielded),
    purged: result.purged === null ? null : viewPurge(result.purged),
    retried: result.retried,
    verdict: result.verdict,
  };
}

export const switchModel = define({
  name: "switch-model",
  summary: "Load a model, making room first: unload others, reclaim an idle ComfyUI, each confirmed by the driver",
  access: "operate",
  input: z.object({
    model: z.string().min(1).describe("an installed Ollama model"),
    keep_alive: z.string().min(1).default("30m").describe("how long Ollama keeps it unused"),
    prompt: z.string().optional().describe("what to ask it; one token when left out"),
    wait: z.boolean().default(true).describe("false: answer at once with the run"),
  }),
  aliases: { model_name: "model" },
  output: SwitchWire,
  fails: ["not_found", "busy", "wont_fit", "unavailable", "upstream"],
  http: ROUTES["switch-model"],
  cli: { words: ["switch"], positional: ["model"] },
  tool: {
    name: "switch_ollama_model",
    guidance: "Takes seconds to minutes: report progress. Other models may be unloaded for it.",
    destructive: true,
    idempotent: true,
  },
  handle: async (services, { model, keep_alive, prompt }, call) =>
    viewSwitch(
      await services.arbitration.switchModel(
        { model, keepAlive: keep_alive, prompt: prompt ?? null, operation: "switch-model" },
        call,
      ),
    ),
});
