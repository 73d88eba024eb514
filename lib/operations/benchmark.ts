/** Round trips between two models (or one, unloaded and reloaded), measured: each transition, and all together. */
import * as z from "zod";
import type { BenchmarkLeg, BenchmarkSummary } from "../model/benchmark.ts";
import { round } from "../model/units.ts";
import { DistributionWire, viewDistribution } from "./analytics_view.ts";
import { define } from "./operation.ts";
import { ms, toGb } from "./quantities.ts";
import { ROUTES } from "./routes.ts";

const LegWire = z.object({
  iteration: z.int().describe("the round trip, from 1"),
  from: z.string().nullable().describe("the model that went; null when nothing had to"),
  to: z.string(),
  transition_ms: ms("from asking for the unload until the model was ready"),
  unload_ms: ms("until the driver had the memory back", null),
  load_ms: ms("Ollama's own figure", null),
  tokens_per_sec: z.number().nullable(),
  residency_before_pct: z.number().nullable().describe("share of its file in the page cache just before, %"),
  class: z.enum(["ram_hit", "partial", "cold", "unclassified"]),
  class_basis: z.string(),
  gb_per_s: z.number().nullable().describe("model bytes by load time, GB/s (10⁹)"),
  spilled: z.boolean().nullable(),
  verdict: z.string(),
});

const Spread = DistributionWire.nullable().describe("null without values");

const SummaryWire = z.object({
  to: z.string(),
  transition_ms: Spread,
  load_ms: Spread,
  tokens_per_sec: Spread,
  residency_before_pct: Spread,
  classes: z.record(z.string(), z.int()).describe("transitions by class"),
});

function viewLeg(leg: BenchmarkLeg): z.output<typeof LegWire> {
  return {
    iteration: leg.iteration,
    from: leg.from,
    to: leg.to,
    transition_ms: round(leg.transitionMs),
    unload_ms: round(leg.unloadMs),
    load_ms: round(leg.loadMs),
    tokens_per_sec: round(leg.tokensPerSecond, 2),
    residency_before_pct: round(leg.residencyBeforePct),
    class: leg.class,
    class_basis: leg.classBasis,
    gb_per_s: toGb(leg.bytesPerSecond),
    spilled: leg.spilled,
    verdict: leg.verdict,
  };
}

function viewSummary(of: BenchmarkSummary): z.output<typeof SummaryWire> {
  return {
    to: of.to,
    transition_ms: viewDistribution(of.transitionMs),
    load_ms: viewDistribution(of.loadMs),
    tokens_per_sec: viewDistribution(of.tokensPerSecond),
    residency_before_pct: viewDistribution(of.residencyBeforePct),
    classes: { ...of.classes },
  };
}

export const benchmark = define({
  name: "benchmark",
  summary: "Measure round trips between two models, or one unloaded and reloaded; gives way to ComfyUI at once",
  access: "operate",
  input: z.object({
    iterations: z.int().min(1).max(50).default(2).describe("round trips"),
    models: z.array(z.string().min(1)).max(2).optional()
      .describe("one or two installed Ollama models; left out: the resident one and the smallest other"),
    wait: z.boolean().default(true).describe("false: answer at once with the run"),
  }),
  output: z.object({
    models: z.array(z.string()).describe("in the order of a round trip"),
    iterations_asked: z.int(),
    iterations_done: z.int().describe("whole round trips"),
    given_way: z.boolean().describe("ComfyUI got work meanwhile: what was measured before that stands"),
    legs: z.array(LegWire).describe("each transition, in order"),
    summaries: z.array(SummaryWire).describe("by the model that came"),
    transition_ms: Spread,
    message: z.string(),
  }),
  fails: ["not_found", "busy", "wont_fit", "unavailable", "upstream"],
  http: ROUTES.benchmark,
  cli: { words: ["benchmark"] },
  tool: {
    name: "run_model_switch_benchmark",
    guidance: "Takes a minute or more, unloads and loads models: report progress. Refused while ComfyUI executes.",
    destructive: true,
  },
  async handle(services, { iterations, models = [] }, call) {
    const request = { iterations, models: models.length === 0 ? null : models, operation: "benchmark" };
    const result = await services.benchmark.run(request, call);
    return {
      models: [...result.models],
      iterations_asked: result.iterationsAsked,
      iterations_done: result.iterationsDone,
      given_way: result.hasGivenWay,
      legs: result.legs.map(viewLeg),
      summaries: result.summaries.map(viewSummary),
      transition_ms: viewDistribution(result.transitionMs),
      message: result.message,
    };
  },
});
