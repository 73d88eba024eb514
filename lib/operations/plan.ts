/** What was learned of needs, and what would happen if something ran now; both only look. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import type { FootprintRow } from "../model/footprints.ts";
import { round, toGib } from "../model/units.ts";
import { define } from "./operation.ts";
import { amount, fromGib, gib, ms } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { HolderWire } from "./vram.ts";

const StepWire = z.object({
  action: z.enum(["yield", "purge", "load", "run"]),
  names: z.array(z.string()),
  frees_gb: gib("what that would give back by the newest sample", null),
  reason: z.string(),
});

export const plan = define({
  name: "plan",
  summary: "What would happen if this ran now: who would stay, who would have to go, and by which need; asks nobody",
  access: "read",
  input: z.object({
    model: z.string().min(1).optional().describe("an Ollama model that would be switched to"),
    workflow: z.string().min(1).optional()
      .describe(
        "a workflow that would be queued in ComfyUI, by any name; its needs are known for all of them together",
      ),
    needed_gb: amount("what it needs, GiB; alone: room that an LLM wants").optional(),
  }),
  output: z.object({
    verdict: z.enum(["stays", "makes_room", "waits", "refused"])
      .describe("stays: nobody has to go; makes_room: the steps do; waits: nothing would be done by itself"),
    needed_gb: gib("what it needs; null counts as all of the card", null),
    need_basis: z.enum(["asked", "configured", "measured", "unknown"]),
    need_n: z.int().nullable().describe("measurements behind the need; below 3 none is used"),
    free_gb: gib("free now", null),
    headroom_gb: gib("left free beside it"),
    steps: z.array(StepWire).describe("in order"),
    refusal: z.object({ code: z.string(), message: z.string(), hint: z.string().nullable() }).nullable(),
    holders: z.array(HolderWire).describe("who holds the card now"),
    message: z.string(),
  }),
  fails: ["not_found", "unavailable"],
  http: ROUTES.plan,
  cli: { words: ["plan"], positional: ["model"] },
  tool: { name: "plan_workload", guidance: "Ask it before a switch or a workflow.", idempotent: true },
  handle(services, { model, workflow, needed_gb }) {
    if (model !== undefined && workflow !== undefined) {
      throw new Failure("invalid_input", "Parameters model and workflow exclude each other", {
        hint: "Give one of them",
      });
    }
    if (model === undefined && workflow === undefined && needed_gb === undefined) {
      throw new Failure("invalid_input", "Parameter model is missing: nothing was asked to plan for", {
        hint: "Give model, workflow or needed_gb",
      });
    }
    const found = services.planner.plan({
      model: model ?? null,
      workflow: workflow ?? null,
      neededBytes: needed_gb === undefined ? null : fromGib(needed_gb),
    });
    const { refusal } = found;
    return {
      verdict: found.verdict,
      needed_gb: toGib(found.need.bytes),
      need_basis: found.need.basis,
      need_n: found.need.n,
      free_gb: toGib(found.freeBytes),
      headroom_gb: toGib(found.headroomBytes),
      steps: found.steps.map(({ action, names, freesBytes, reason }) => ({
        action,
        names: [...names],
        frees_gb: toGib(freesBytes),
        reason,
      })),
      refusal: refusal === null ? null : { code: refusal.code, message: refusal.message, hint: refusal.hint },
      holders: found.holders.map(({ bucket, bytes, who }) => ({ bucket, vram_gb: toGib(bytes), who: [...who] })),
      message: found.message,
    };
  },
});

const FootprintWire = z.object({
  name: z.string().describe(
    "the model; comfyui for all of ComfyUI's work together; or a workflow by its files and size",
  ),
  source: z.enum(["ollama", "comfyui"]),
  context_length: z.int().nullable().describe(
    "tokens of context it was loaded with; another size has a row of its own",
  ),
  parallel: z.int().nullable().describe("requests it serves at a time, where its runner says"),
  n: z.int().describe("measurements, at most the last ten"),
  used: z.boolean().describe("whether hand-offs are decided by it: from three measurements on"),
  peak_gb: gib("the largest: what is reckoned with"),
  median_gb: gib("the median"),
  least_gb: gib("the smallest"),
  latest_gb: gib("the newest"),
  steady_gb: gib("what it came to rest at, the median", null),
  misses: z.int().describe("times that it took more than was reckoned with"),
  warm_n: z.int().describe("loads with the weights in memory"),
  warm_ms: ms("their median", null),
  cold_n: z.int().describe("loads with the weights on disk"),
  cold_ms: ms("their median", null),
});

function viewFootprint(row: FootprintRow): z.output<typeof FootprintWire> {
  return {
    name: row.name,
    source: row.source,
    context_length: row.contextLength,
    parallel: row.parallel,
    n: row.n,
    used: row.isUsed,
    peak_gb: toGib(row.peakBytes),
    median_gb: toGib(row.medianBytes),
    least_gb: toGib(row.leastBytes),
    latest_gb: toGib(row.latestBytes),
    steady_gb: toGib(row.steadyBytes),
    misses: row.misses,
    warm_n: row.warm.n,
    warm_ms: round(row.warm.medianMs),
    cold_n: row.cold.n,
    cold_ms: round(row.cold.medianMs),
  };
}

export const footprints = define({
  name: "footprints",
  summary: "What each model and ComfyUI were measured to take, from how many loads, and how long loads took",
  access: "read",
  input: z.object({}),
  output: z.object({ footprints: z.array(FootprintWire).describe("largest first") }),
  fails: ["unavailable"],
  http: ROUTES.footprints,
  cli: { words: ["footprints"] },
  tool: { name: "get_footprints", idempotent: true },
  handle: async (services) => ({ footprints: (await services.planner.footprints()).map(viewFootprint) }),
});
