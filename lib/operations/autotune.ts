/** Sweeping a lever against a real workload: how it stands, starting one, and calling it off. */
import * as z from "zod";
import { KNOBS, SWEEP_ENDS, type SweepRequest, type SweepView, WORKLOADS } from "../model/autotune.ts";
import { Failure } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { RunView } from "../model/services.ts";
import { sweepResultFields } from "../model/sweep_fields.ts";
import { round, toIso } from "../model/units.ts";
import { HistoryItemWire, viewHistoryItem } from "./history_view.ts";
import { define } from "./operation.ts";
import { ms, time } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { RunWire, viewRun } from "./run_view.ts";

const value = z.union([z.number(), z.literal("stock")]).describe("in the knob's unit, or stock");
const perSecond = (what: string) => z.number().nullable().describe(`${what}: tok/s or it/s`);

const ResultWire = z.object({
  end: z.enum(SWEEP_ENDS).describe(
    "flat: nothing stands out from the current setting; stopped_early: the card didn't bear a value; " +
      "interrupted: the service ended before the sweep had",
  ),
  message: z.string(),
  control_value: value.describe("the profile's current setting"),
  control_per_second: perSecond("median at the current setting"),
  best_value: value.nullable().describe("the fastest stable value, whether it stands out or not"),
  best_per_second: perSecond("its median"),
  gain_pct: z.number().nullable().describe("of it against the current setting, by fresh runs of both in turn"),
  stands_out: z.boolean().nullable().describe("whether that is more than noise; null: not compared"),
  test: z.string().nullable(),
  p_value: z.number().nullable(),
  n: z.array(z.int()).nullable().describe("fresh runs of the current setting and of the best value"),
  spread_pct: z.number().nullable().describe("between the slowest and the fastest value tried: no gain of anything"),
  stopped_by: z.string().nullable().describe("why the climb ended before its last value"),
  pauses: z.int().describe("times that it gave way to ComfyUI"),
  applied: z.string().nullable().describe("what apply_best did"),
});

const SweepWire = z.object({
  id: z.string(),
  run: z.string().nullable().describe("the run to follow or cancel"),
  knob: z.enum(KNOBS),
  workload: z.enum(WORKLOADS),
  model: z.string().nullable(),
  profile: z.string(),
  phase: z.string(),
  paused: z.boolean().describe("ComfyUI has work: it goes on when that is done"),
  cancelling: z.boolean(),
  candidates: z.array(value).describe("in the order they are tried"),
  measured: z.int().describe("measurements made"),
  planned: z.int().describe("measurements at most"),
  started_at: time("start"),
  elapsed_ms: ms("since then"),
  eta_ms: ms("until it has ended, at the pace so far", null),
});

function viewSweep(view: SweepView, runs: readonly RunView[]): z.output<typeof SweepWire> {
  const { plan: { id, request, candidates } } = view;
  return {
    id,
    run: runs.find(({ operation, state }) => operation === "autotune-sweep" && state === "running")?.id ?? null,
    knob: request.knob,
    workload: request.workload,
    model: view.model,
    profile: request.profile,
    phase: view.phase,
    paused: view.isPaused,
    cancelling: view.isCancelling,
    candidates: [...candidates],
    measured: view.done,
    planned: view.total,
    started_at: toIso(view.startedAtMs),
    elapsed_ms: round(view.elapsedMs, 0),
    eta_ms: round(view.etaMs, 0),
  };
}

export const autotune = define({
  name: "autotune",
  summary: "The sweep under way, the last result, and every step that was recorded with its raw samples",
  access: "read",
  input: z.object({ limit: z.int().min(1).max(1000).default(100).describe("how many records") }),
  output: z.object({
    running: SweepWire.nullable(),
    last_result: HistoryItemWire.nullable(),
    steps: z.array(HistoryItemWire).describe("newest first"),
  }),
  fails: ["unavailable"],
  http: ROUTES.autotune,
  cli: { words: ["autotune"] },
  tool: { name: "get_autotune_status", idempotent: true },
  async handle(services, { limit }) {
    const items = await services.history.list({ limit, kind: "autotune", before: null, durable: true });
    const isStep = ({ fields }: HistoryItem) => fields["event"] === "step";
    const last = items.find(({ fields }) => fields["event"] === "result");
    const current = services.autotune.current();
    return {
      running: current === null ? null : viewSweep(current, services.runs.list()),
      last_result: last === undefined ? null : viewHistoryItem(last),
      steps: items.filter(isStep).map(viewHistoryItem),
    };
  },
});

const bound = (what: string) =>
  z.number().optional().describe(`${what}, in the knob's unit; left out: chosen from what the card allows`);

const SweepInput = z.object({
  knob: z.enum([...KNOBS, "lock_core_max"]).describe("the lever that is swept; lock_core_max means lock_core_mhz"),
  profile: z.string().min(1).default("balanced").describe("whose current setting is the control, and what else holds"),
  workload: z.enum(WORKLOADS).default("ollama").describe("ollama: decode tok/s; comfy: SDXL 1024², 20 steps, it/s"),
  start: bound("first value"),
  stop: bound("last value"),
  step: z.number().positive().optional().describe("distance of two values"),
  repeats: z.int().min(1).max(20).default(3).describe("measurements of each value"),
  apply_best: z.boolean().default(false)
    .describe(
      "apply the fastest value if it stands out: saved in a profile of your own, set by hand for a built-in one",
    ),
  model: z.string().min(1).optional().describe("Ollama's model or ComfyUI's checkpoint; left out: one is chosen"),
  wait: z.boolean().default(false).describe("true: answer when it has ended"),
});

function requestOf(input: z.output<typeof SweepInput>): SweepRequest {
  const { knob, workload, profile, start, stop, step, repeats, apply_best: applyBest, model } = input;
  return {
    knob: knob === "lock_core_max" ? "lock_core_mhz" : knob,
    workload,
    profile,
    start: start ?? null,
    stop: stop ?? null,
    step: step ?? null,
    repeats,
    applyBest,
    model: model ?? null,
  };
}

export const autotuneSweep = define({
  name: "autotune-sweep",
  summary: "Try one lever's values against a real workload, and say whether any is faster than the current setting",
  access: "tune",
  input: SweepInput,
  output: ResultWire,
  fails: ["not_found", "busy", "forbidden", "unavailable", "upstream", "wont_fit"],
  http: ROUTES["autotune-sweep"],
  cli: { words: ["autotune", "sweep"], positional: ["knob"] },
  tool: {
    name: "run_overclock_sweep",
    guidance:
      "Takes minutes: answers with a run at once, whose progress get_run tells. The card is put back afterwards.",
    destructive: true,
  },
  admit: (services, input) => services.autotune.admit(requestOf(input)),
  handle: async (services, input, call) => sweepResultFields(await services.autotune.sweep(requestOf(input), call)),
});

export const autotuneCancel = define({
  name: "autotune-cancel",
  summary: "End the sweep under way: the measurement in flight ends, and the profile is back",
  access: "tune",
  input: z.object({ id: z.string().min(1).optional().describe("its run; left out: the one that runs") }),
  output: RunWire,
  fails: ["not_found"],
  http: ROUTES["autotune-cancel"],
  cli: { words: ["autotune", "cancel"], positional: ["id"] },
  tool: false,
  handle: async ({ runs }, { id }) => viewRun(await runs.cancel(pick(runs.list(), id).id)),
});

function pick(runs: readonly RunView[], id: string | undefined): RunView {
  const sweeps = runs.filter(({ operation }) => operation === "autotune-sweep");
  const found = id === undefined
    ? sweeps.find(({ state }) => state === "running")
    : sweeps.find((run) => run.id === id);
  if (found !== undefined) return found;
  throw new Failure("not_found", id === undefined ? "No sweep is under way" : `There is no sweep with id "${id}"`, {
    hint: "`hyperswap runs` lists what runs",
  });
}
