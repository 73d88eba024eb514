/** `GET /api/stats`: one second of the box, whole. The live stream sends the same, as differences. */
import * as z from "zod";
import type { Snapshot } from "../model/services.ts";
import type { SourceReport } from "../model/sample.ts";
import { round } from "../model/units.ts";
import { ArbitrationWire, viewArbitration } from "./arbitration_view.ts";
import { HISTORY_SHOWN } from "./frames.ts";
import { GpuStatsWire, viewGpuStats } from "./gpu_view.ts";
import { HistoryItemWire, viewHistoryItem } from "./history_view.ts";
import { define } from "./operation.ts";
import { isoOrNull, time } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { RunSummaryWire, viewRunSummary } from "./run_view.ts";
import { ComfyWire, OllamaWire, RamWire, viewComfy, viewOllama, viewRam } from "./tenants_view.ts";
import { TuningStatsWire, viewTuningStats } from "./tuning_stats.ts";

const SourceWire = z.object({
  ok: z.boolean(),
  duration_ms: z.number().describe("how long its last read took, rounded up to 1, 2, 5, 10, 20, 50 … ms"),
  last_error: z.string().nullable(),
  last_ok_at: time("when it last answered; null while it does, and before it ever did", null),
});

/** Runs that `/api/stats` shows: the newest. */
const RUNS_SHOWN = 10;

export const StatsWire = z.object({
  timestamp: z.number().describe("when the sample was taken, Unix seconds"),
  revision: z.number().int().describe(
    "counts what is shown, from the service's start: the stream's frames carry it too, and a revision has one content",
  ),
  simulated: z.boolean(),
  simulation: z.string().nullable().describe("what a simulated box is called; null on a real one"),
  gpu: GpuStatsWire,
  ram: RamWire.nullable().describe("null when /proc/meminfo can't be read"),
  ollama: OllamaWire,
  comfyui: ComfyWire,
  arbitration: ArbitrationWire,
  tuning: TuningStatsWire.nullable().describe("what is set on the card; null where nothing can be set"),
  history: z.array(HistoryItemWire).describe(`the newest ${HISTORY_SHOWN} events`),
  runs: z.array(RunSummaryWire).describe(`the newest ${RUNS_SHOWN} runs`),
  sources: z.object({
    nvml: SourceWire,
    meminfo: SourceWire,
    processes: SourceWire,
    ollama: SourceWire,
    comfyui: SourceWire,
  }).describe("how each source did at its last read"),
});
export type Stats = z.output<typeof StatsWire>;

/** A snapshot under the names that `/api/stats` keeps. */
export function viewStats(snapshot: Snapshot): Stats {
  const { sample } = snapshot;
  const { sources } = sample;
  return {
    timestamp: round(sample.atMs / 1000, 3),
    revision: snapshot.revision,
    simulated: sample.simulated,
    simulation: snapshot.simulation,
    gpu: viewGpuStats(sample.gpu),
    ram: viewRam(sample.memory, snapshot.cache ?? null),
    ollama: viewOllama(sample),
    comfyui: viewComfy(sample),
    arbitration: viewArbitration(snapshot.arbitration),
    tuning: snapshot.tuning === undefined ? null : viewTuningStats(snapshot.tuning),
    history: snapshot.history.slice(0, HISTORY_SHOWN).map(viewHistoryItem),
    runs: snapshot.runs.slice(0, RUNS_SHOWN).map(viewRunSummary),
    sources: {
      nvml: viewSource(sources.nvml),
      meminfo: viewSource(sources.meminfo),
      processes: viewSource(sources.processes),
      ollama: viewSource(sources.ollama),
      comfyui: viewSource(sources.comfyui),
    },
  };
}

function viewSource(report: SourceReport): z.output<typeof SourceWire> {
  return {
    ok: report.ok,
    duration_ms: roundUpTo125(report.durationMs),
    last_error: report.lastError,
    last_ok_at: report.ok ? null : isoOrNull(report.lastOkAtMs),
  };
}

/** Coarse on purpose: jitter would cost the stream bytes every second and tell nobody anything. */
function roundUpTo125(value: number): number {
  let step = 1;
  while (step * 10 < value) step *= 10;
  return [1, 2, 5, 10].map((factor) => factor * step).find((limit) => value <= limit) ?? step * 10;
}

export const stats = define({
  name: "stats",
  summary: "The whole box in this second: card, memory, both tenants, arbitration, newest events",
  access: "read",
  input: z.object({}),
  output: StatsWire,
  fails: ["unavailable"],
  http: ROUTES.stats,
  cli: { words: ["status"] },
  tool: false,
  handle: (services) => viewStats(services.live.snapshot()),
});
