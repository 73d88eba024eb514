/** The catalogue: what Ollama has installed and which files ComfyUI offers. */
import * as z from "zod";
import type { ModelEntry } from "../model/services.ts";
import { define } from "./operation.ts";
import { gb, toGb } from "./quantities.ts";
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
  };
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
