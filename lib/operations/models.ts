/** The catalogue: what Ollama has installed and which files ComfyUI offers. */
import * as z from "zod";
import type { ModelEntry } from "../model/services.ts";
import { define } from "./operation.ts";
import { gb, toGb } from "./quantities.ts";
import { pct } from "./residency_view.ts";
import { ROUTES } from "./routes.ts";

export const ModelWire = z.object({
  source: z.enum(["ollama", "comfyui"]),
  name: z.string(),
  folder: z.string().nullable().describe("ComfyUI's folder; null for Ollama"),
  size_gb: gb("size on disk", null),
  family: z.string().nullable(),
  parameter_size: z.string().nullable(),
  quantization: z.string().nullable(),
  resident: z.boolean().nullable().describe("in VRAM now; null where that can't be told"),
  paths: z.array(z.string()).describe("its weight files on this machine, as far as they were found"),
  residency_pct: z.number().nullable().describe("share of these files in the page cache, as last measured, %"),
  problem: z.string().nullable().describe("why it can't be loaded or warmed"),
});

function viewModel(entry: ModelEntry): z.output<typeof ModelWire> {
  return {
    source: entry.source,
    name: entry.name,
    folder: entry.folder,
    size_gb: toGb(entry.sizeBytes),
    family: entry.family,
    parameter_size: entry.parameterSize,
    quantization: entry.quantization,
    resident: entry.resident,
    paths: [...entry.paths ?? []],
    residency_pct: shareOf(entry.residency ?? []),
    problem: entry.problem ?? null,
  };
}

/** Null as long as one of its files isn't known. */
function shareOf(figures: NonNullable<ModelEntry["residency"]>): number | null {
  const measured = figures.flatMap((figure) => figure?.kind === "measured" ? [figure] : []);
  const bytes = measured.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  if (bytes === 0 || measured.length < figures.length) return null;
  return pct(measured.reduce((sum, { residentBytes }) => sum + residentBytes, 0) / bytes);
}

export const models = define({
  name: "models",
  summary: "Models that Ollama has installed and files that ComfyUI offers",
  access: "read",
  input: z.object({
    source: z.enum(["all", "ollama", "comfyui"]).default("all").describe("whose models"),
  }),
  output: z.object({ models: z.array(ModelWire) }),
  fails: ["unavailable", "upstream"],
  http: ROUTES.models,
  cli: { words: ["models"] },
  tool: { name: "list_available_models", idempotent: true },
  async handle(services, { source }, { signal }) {
    const entries = await services.models.list(signal);
    return { models: entries.filter((entry) => source === "all" || entry.source === source).map(viewModel) };
  },
});
