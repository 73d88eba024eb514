/** The page cache: what of each model file is in it, and what a warm would read. */
import * as z from "zod";
import type { CacheReport, PlanSkip, PlanStep } from "../model/cache.ts";
import { round } from "../model/units.ts";
import { define } from "./operation.ts";
import { amount, gb, isoOrNull, time, toGb } from "./quantities.ts";
import { pct, ResidencyWire, viewResidency } from "./residency_view.ts";
import { ROUTES } from "./routes.ts";

const FileWire = z.object({
  path: z.string(),
  source: z.enum(["ollama", "comfyui"]),
  models: z.array(z.string()).describe("every model that it belongs to"),
  size_gb: gb("size"),
  ...ResidencyWire.shape,
  age_s: z.number().nullable().describe("how old the figure is, s"),
  pinned: z.boolean().describe("its pages are locked"),
});

const WarmingWire = z.object({
  path: z.string(),
  state: z.enum(["queued", "warming", "cancelling"]),
  ahead: z.int().describe("warms that come first"),
  done_pct: z.number().nullable(),
  mb_per_s: z.number().nullable(),
  eta_ms: z.number().nullable(),
  pace: z.enum(["full", "polite", "fixed"]).nullable().describe("polite: held back, since others use the disk"),
});

const ReportWire = z.object({
  files_total: z.int().describe("model files that were found, each once"),
  files_measured: z.int(),
  files_unmeasurable: z.int(),
  size_gb: gb("all of them"),
  resident_gb: gb("of the measured ones, in the page cache"),
  residency_pct: z.number().nullable().describe("resident bytes by measured bytes, %"),
  pinned_gb: gb("locked in memory"),
  measured_at: time("when the oldest of these figures was taken", null),
  files: z.array(FileWire).describe("largest first; empty with include_files=false"),
  warming: z.array(WarmingWire).describe("the file that is read now, then those that wait"),
  places: z.array(z.object({
    source: z.enum(["ollama", "comfyui"]),
    path: z.string(),
    origin: z.string().describe("who named it"),
    problem: z.string().nullable(),
  })).describe("where models were looked for"),
  problems: z.array(z.object({ path: z.string(), problem: z.string() })).describe("what was found and can't be used"),
});

export function viewReport(report: CacheReport, withFiles: boolean): z.output<typeof ReportWire> {
  const { totals } = report;
  return {
    files_total: totals.files,
    files_measured: totals.measured,
    files_unmeasurable: totals.unmeasurable,
    size_gb: toGb(totals.bytes),
    resident_gb: toGb(totals.residentBytes),
    residency_pct: totals.measuredBytes === 0 ? null : pct(totals.residentBytes / totals.measuredBytes),
    pinned_gb: toGb(totals.pinnedBytes),
    measured_at: isoOrNull(totals.measuredAtMs),
    files: !withFiles ? [] : report.files.map((file) => ({
      path: file.path,
      source: file.source,
      models: [...file.names],
      size_gb: toGb(file.sizeBytes),
      ...viewResidency(file.residency),
      age_s: file.ageMs === null ? null : round(file.ageMs / 1_000),
      pinned: file.isPinned,
    })),
    warming: report.warming.map((warm) => ({
      path: warm.path,
      state: warm.state,
      ahead: warm.ahead,
      done_pct: warm.sizeBytes === null || warm.sizeBytes === 0 ? null : pct(warm.doneBytes / warm.sizeBytes),
      mb_per_s: warm.bytesPerS === null ? null : round(warm.bytesPerS / 1e6),
      eta_ms: round(warm.etaMs, 0),
      pace: warm.pace,
    })),
    places: report.places.map((place) => ({ ...place })),
    problems: report.problems.map((problem) => ({ ...problem })),
  };
}

export const cacheReport = define({
  name: "cache-report",
  summary: "How much of each model file is in the page cache, measured, with method, interval and age",
  access: "read",
  input: z.object({
    include_files: z.boolean().default(true).describe("false: only the sums"),
  }),
  output: ReportWire,
  fails: ["unavailable"],
  http: ROUTES["cache-report"],
  cli: { words: ["cache"] },
  tool: {
    name: "get_page_cache_residency",
    guidance: "A model whose files are resident loads from RAM in seconds, one that isn't from disk in up to a minute.",
    idempotent: true,
  },
  handle: async (services, { include_files }, { signal }) =>
    viewReport(await services.cache.report(signal), include_files),
});

const StepWire = z.object({
  path: z.string(),
  models: z.array(z.string()),
  size_gb: gb("size"),
  read_gb: gb("not in memory yet"),
  saves_s: z.number().describe("seconds that a load would be faster, by the speeds measured here"),
  score: z.number().describe("expected seconds saved for each GB: what the order is made of"),
  why: z.string(),
  residency_pct: z.number().nullable().describe("in the page cache now, %"),
});

export const SkipWire = z.object({
  path: z.string(),
  models: z.array(z.string()),
  size_gb: gb("size"),
  cause: z.enum(["resident", "pinned", "budget", "shadowed", "broken"]),
  why: z.string(),
});

export function viewSkip({ path, names, sizeBytes, cause, why }: PlanSkip): z.output<typeof SkipWire> {
  return { path, models: [...names], size_gb: toGb(sizeBytes), cause, why };
}

function viewStep(step: PlanStep): z.output<typeof StepWire> {
  return {
    path: step.path,
    models: [...step.names],
    size_gb: toGb(step.sizeBytes),
    read_gb: toGb(step.readBytes),
    saves_s: round(step.savedS),
    score: round(step.score, 3),
    why: step.why,
    residency_pct: viewResidency(step.residency).residency_pct,
  };
}

/** GB of files to have in memory. */
export const budget = amount(
  "GB (10⁹ bytes) of model files to have in memory; left out: what is configured, else 80 % of what is free or page cache",
).optional();

export const warmPlan = define({
  name: "warm-plan",
  summary: "What a warm would read, in which order and why, and what it would leave out; reads nothing",
  access: "read",
  input: z.object({ budget_gb: budget }),
  output: z.object({
    budget_gb: gb("what model files may take"),
    budget_basis: z.string(),
    kept_gb: gb("of the budget, in memory already"),
    read_gb: gb("what would be read"),
    steps: z.array(StepWire).describe("in order"),
    skipped: z.array(SkipWire),
    probe_read_mb: z.number().describe("what looking at the files read from the disk, MB"),
    probe_dropped_mb: z.number().describe("of that, dropped again, MB"),
  }),
  fails: ["unavailable"],
  http: ROUTES["warm-plan"],
  cli: { words: ["warm", "plan"] },
  tool: { name: "get_warm_plan", idempotent: true },
  async handle(services, { budget_gb }, { signal }) {
    const plan = await services.cache.plan({ budgetBytes: bytesOf(budget_gb), force: false }, signal);
    return {
      budget_gb: toGb(plan.budgetBytes),
      budget_basis: plan.budgetBasis,
      kept_gb: toGb(plan.keptBytes),
      read_gb: toGb(plan.readBytes),
      steps: plan.steps.map(viewStep),
      skipped: plan.skipped.map(viewSkip),
      probe_read_mb: round(plan.probed.readBytes / 1e6, 2),
      probe_dropped_mb: round(plan.probed.droppedBytes / 1e6, 2),
    };
  },
});

/** A budget in GB as bytes; null where none was given. */
export function bytesOf(gigabytes: number | undefined): number | null {
  return gigabytes === undefined ? null : Math.round(gigabytes * 1e9);
}
