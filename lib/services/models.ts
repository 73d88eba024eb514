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
}

/** What the servers themselves list: Ollama's tags and ComfyUI's folders. */
export class ModelsService implements Models {
  readonly #parts: ModelsParts;

  constructor(parts: ModelsParts) {
    this.#parts = parts;
  }

  async list(signal: AbortSignal): Promise<readonly ModelEntry[]> {
    const { sample } = this.#parts.snapshot();
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
    }));
    return [...llms, ...(sample.comfy.online ? await this.#comfyFiles(signal) : [])];
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
