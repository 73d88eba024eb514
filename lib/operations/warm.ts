/** Getting model files into the page cache ahead of their use, and calling that off. */
import * as z from "zod";
import type { WarmResult } from "../model/cache.ts";
import { Failure } from "../model/failure.ts";
import type { RunView } from "../model/services.ts";
import { round } from "../model/units.ts";
import { budget, bytesOf, SkipWire, viewSkip } from "./cache.ts";
import { define } from "./operation.ts";
import { gb, ms, toGb } from "./quantities.ts";
import { pct } from "./residency_view.ts";
import { ROUTES } from "./routes.ts";
import { RunWire, viewRun } from "./run_view.ts";

const ENDS = [
  "done",
  "skipped",
  "refused",
  "cancelled",
  "evicting",
  "cgroup_limit",
  "memory_floor",
  "changed",
] as const;

const WarmedWire = z.object({
  path: z.string(),
  models: z.array(z.string()),
  size_gb: gb("size"),
  read_gb: gb("read from the disk", null),
  duration_ms: ms("how long it took"),
  end: z.enum(ENDS).describe("skipped: in memory already; evicting: its own pages began to be pushed out"),
  reason: z.string().nullable(),
  residency_before_pct: z.number().nullable(),
  residency_after_pct: z.number().nullable().describe("measured afterwards, not derived from what was read"),
  method: z.string().nullable().describe("how the residency was found"),
});

const WarmWire = z.object({
  files: z.array(WarmedWire),
  skipped: z.array(SkipWire).describe("what the plan left out"),
  read_gb: gb("read from the disk in all", null),
  duration_ms: ms("all of it, waits for its turn included"),
  gb_per_s: z.number().nullable().describe("while it read"),
  residency_before_pct: z.number().nullable(),
  residency_after_pct: z.number().nullable(),
  stopped_by: z.string().nullable().describe("why it ended before the last file"),
  message: z.string(),
});

export function viewWarm(result: WarmResult): z.output<typeof WarmWire> {
  const { readBytes, durationMs, readingMs } = result;
  return {
    files: result.files.map((file) => ({
      path: file.path,
      models: [...file.names],
      size_gb: toGb(file.sizeBytes),
      read_gb: toGb(file.readBytes),
      duration_ms: round(file.durationMs),
      end: file.end,
      reason: file.reason,
      residency_before_pct: shareOf(file.before),
      residency_after_pct: shareOf(file.after),
      method: file.after?.kind === "measured" ? file.after.method : null,
    })),
    skipped: result.skipped.map(viewSkip),
    read_gb: toGb(readBytes),
    duration_ms: round(durationMs),
    gb_per_s: readingMs <= 0 || !readBytes ? null : round(readBytes / 1e6 / readingMs, 2),
    residency_before_pct: pct(result.shareBefore),
    residency_after_pct: pct(result.shareAfter),
    stopped_by: result.stoppedBy,
    message: result.message,
  };
}

function shareOf(residency: WarmResult["files"][number]["after"]): number | null {
  return residency?.kind === "measured" ? pct(residency.share) : null;
}

const force = z.boolean().default(false).describe("read even what is in memory already");
/** One of two ways to say which files are meant. */
export const choice = {
  model_name: z.string().min(1).optional().describe("a model of Ollama's, or a file of ComfyUI's by its name"),
  filepath: z.string().min(1).optional().describe("a model file's absolute path, instead of model_name"),
};

/** The choice as the service takes it. No model's name begins with a slash, so that is a path. */
export function chosen(input: { model_name?: string | undefined; filepath?: string | undefined }) {
  const { model_name: model = null, filepath: path = null } = input;
  return model !== null && path === null && model.startsWith("/") ? { model: null, path: model } : { model, path };
}

export const warmAll = define({
  name: "warm-all",
  summary: "Read the models that are used most into the page cache, within a budget and politely",
  access: "operate",
  input: z.object({
    budget_gb: budget,
    force,
    wait: z.boolean().default(false).describe("true: answer when it has ended"),
  }),
  output: WarmWire,
  fails: ["unavailable", "wont_fit"],
  http: ROUTES["warm-all"],
  cli: { words: ["warm", "all"] },
  tool: {
    name: "prewarm_all_models_to_ram",
    guidance: "Takes seconds to minutes: answers with a run at once, whose progress get_run tells.",
    idempotent: true,
  },
  handle: async (services, { budget_gb, force }, call) =>
    viewWarm(
      await services.cache.warmAll({ budgetBytes: bytesOf(budget_gb), force, operation: "warm-all" }, call),
    ),
});

export const warmModel = define({
  name: "warm-model",
  summary: "Read one model's weights, or one model file, into the page cache",
  access: "operate",
  input: z.object({
    ...choice,
    force,
    blob_only: z.boolean().default(true).describe("false: load the model into VRAM as well"),
    wait: z.boolean().default(true).describe("false: answer at once with the run"),
  }),
  aliases: { model: "model_name", path: "filepath" },
  output: WarmWire,
  fails: ["not_found", "forbidden", "unavailable", "wont_fit", "busy", "upstream"],
  http: ROUTES["warm-model"],
  cli: { words: ["warm", "file"], positional: ["model_name"] },
  tool: { name: "prewarm_single_model", idempotent: true },
  handle: async (services, { force, blob_only, ...input }, call) =>
    viewWarm(
      await services.cache.warmModel(
        { ...chosen(input), force, isWeightsOnly: blob_only, operation: "warm-model" },
        call,
      ),
    ),
});

const WARMS: ReadonlySet<string> = new Set(["warm-all", "warm-model"]);

export const warmCancel = define({
  name: "warm-cancel",
  summary: "End the warm under way: answers with its last state",
  access: "operate",
  input: z.object({ id: z.string().min(1).optional().describe("its run; left out: the one that runs") }),
  output: RunWire,
  fails: ["not_found"],
  http: ROUTES["warm-cancel"],
  cli: { words: ["warm", "cancel"], positional: ["id"] },
  tool: false,
  handle: async ({ runs }, { id }) => viewRun(await runs.cancel(pick(runs.list(), id).id)),
});

/** The oldest one: those that came later wait for it. */
function pick(runs: readonly RunView[], id: string | undefined): RunView {
  const warms = runs.filter(({ operation }) => WARMS.has(operation));
  const found = id === undefined
    ? warms.findLast(({ state }) => state === "running")
    : warms.find((run) => run.id === id);
  if (found !== undefined) return found;
  throw new Failure("not_found", id === undefined ? "No warm is under way" : `There is no warm with id "${id}"`, {
    hint: "`hyperswap runs` lists what runs",
  });
}
