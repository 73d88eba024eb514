import { useKey } from "../decide/model_uses.ts";
import { labelOf } from "../decide/warm_plan.ts";
import type { Catalogue, CatalogueEntry } from "../model/catalogue.ts";
import type { Residency } from "../model/page_cache.ts";
import type { Clock, ComfyApi } from "../model/ports.ts";
import type { ModelEntry, Models, Snapshot } from "../model/services.ts";

/** ComfyUI's folders that hold weights a workflow loads (facts: comfyui-measured section 7). */
const FOLDERS = ["checkpoints", "diffusion_models", "text_encoders", "vae", "loras", "controlnet", "upscale_models"];
/** ComfyUI answers a folder's list in milliseconds when it isn't collecting garbage. */
const FOLDER_DEADLINE_MS = 3_000;

export interface ModelsParts {
  readonly clock: Clock;
  readonly comfy: ComfyApi;
  readonly snapshot: () => Snapshot;
  /** What lies on this machine; null before it was read. */
  readonly catalogue: () => Catalogue | null;
  /** As last measured. */
  readonly residency: (path: string) => Residency | null;
}

/** What the servers themselves list, Ollama's tags and ComfyUI's folders, with the files behind them. */
export class ModelsService implements Models {
  readonly #parts: ModelsParts;

  constructor(parts: ModelsParts) {
    this.#parts = parts;
  }

  async list(signal: AbortSignal): Promise<readonly ModelEntry[]> {
    const { sample } = this.#parts.snapshot();
    const entries = this.#parts.catalogue()?.entries.filter(({ isShadowed }) => !isShadowed) ?? [];
    const byKey = new Map(entries.map((entry) => [keyOf(entry), entry]));
    const resident = new Set(sample.ollama.resident.map((row) => row.digest));
    const llms = sample.ollama.installed.map((model): ModelEntry => ({
      source: "ollama",
      name: model.name,
      folder: null,
      sizeBytes: model.sizeBytes,
      family: model.family,
      parameterSize: model.parameterSize,
      quantization: model.quantization,
      resident: sample.ollama.online ? resident.has(model.digest) : null,
      ...this.#files(take(byKey, useKey("ollama", model.name))),
    }));
    const files = sample.comfy.online ? await this.#comfyFiles(signal) : [];
    const offered = files.map((model) => ({
      ...model,
      ...this.#files(take(byKey, labelOf(model)), model.sizeBytes),
    }));
    // What lies on the disk while its server is away, or in folders that it wasn't asked about.
    const others = [...byKey.values()].map((entry) => this.#fromDisk(entry));
    return [...llms, ...offered, ...others];
  }

  #fromDisk(entry: CatalogueEntry): ModelEntry {
    const { source, name, folder, sizeBytes } = entry;
    const unknown = { family: null, parameterSize: null, quantization: null, resident: null };
    return { source, name, folder, sizeBytes, ...unknown, ...this.#files(entry) };
  }

  #files(entry: CatalogueEntry | null, sizeBytes?: number | null): Partial<ModelEntry> {
    if (entry === null) return {};
    const { files: paths, problem } = entry;
    const residency = paths.map((path) => this.#parts.residency(path));
    return { paths, residency, problem, ...(sizeBytes === null ? { sizeBytes: entry.sizeBytes } : {}) };
  }

  async #comfyFiles(signal: AbortSignal): Promise<readonly ModelEntry[]> {
    const { clock, comfy } = this.#parts;
    const deadline = clock.deadline(FOLDER_DEADLINE_MS, signal);
    const folders = await Promise.all(FOLDERS.map(async (folder) => {
      const names = await comfy.models(folder, deadline).catch(() => []);
      return names.map((name): ModelEntry => ({
        source: "comfyui",
        name,
        folder,
        sizeBytes: null,
        family: null,
        parameterSize: null,
        quantization: null,
        resident: null,
      }));
    }));
    return folders.flat();
  }
}

function keyOf(entry: CatalogueEntry): string {
  return entry.source === "ollama" ? useKey("ollama", entry.name) : labelOf(entry);
}

/** The entry, which then counts as told. */
function take(entries: Map<string, CatalogueEntry>, key: string): CatalogueEntry | null {
  const entry = entries.get(key) ?? null;
  entries.delete(key);
  return entry;
}
