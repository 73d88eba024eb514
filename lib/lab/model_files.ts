/** The simulated box's model files: a store and ComfyUI's folders, of their true size and empty inside (sparse). */
import type { Bytes } from "../model/units.ts";
import { type ComfyModel, modelPath } from "./comfy_models.ts";
import { CONFIG_BLOB, configText, manifestText } from "./manifest_text.ts";
import { type LabModel, MODELS_DIR } from "./ollama_models.ts";

export interface ModelFilesOptions {
  /** The folder that is the box's "/". */
  readonly root: string;
  readonly ollama: readonly LabModel[];
  readonly comfy: readonly ComfyModel[];
}

/** Lays them out, and gives each file's size by its path on the box. */
export function layOutModels({ root, ollama, comfy }: ModelFilesOptions): ReadonlyMap<string, Bytes> {
  const sizes = new Map<string, Bytes>();
  const write = (path: string, text: string) => {
    Deno.mkdirSync(parentOf(root + path), { recursive: true });
    Deno.writeTextFileSync(root + path, text);
  };
  const stretch = (path: string, bytes: Bytes) => {
    write(path, "");
    Deno.truncateSync(root + path, bytes);
    sizes.set(path, bytes);
  };
  write(`${MODELS_DIR}/blobs/${CONFIG_BLOB}`, configText());
  for (const model of ollama) {
    stretch(`${MODELS_DIR}/blobs/${model.blob}`, model.blobBytes);
    write(manifestPath(model.name), manifestText(model));
  }
  for (const model of comfy) stretch(modelPath(model), model.fileBytes);
  return sizes;
}

/** `name` is the shortest display form: host and namespace stand in it only where they aren't the usual ones. */
export function manifestPath(name: string): string {
  const colon = name.lastIndexOf(":");
  const parts = name.slice(0, colon).split("/");
  const [model = "", namespace = "library", host = "registry.ollama.ai"] = parts.reverse();
  return `${MODELS_DIR}/manifests/${host}/${namespace}/${model}/${name.slice(colon + 1)}`;
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
