import { type Bytes, GIB } from "../model/units.ts";

export const COMFY_DIR = "/opt/ComfyUI";

/** A weights file and what it takes to run it. */
export interface ComfyModel {
  readonly folder: string;
  /** Relative to its folder, as the server lists it. */
  readonly name: string;
  readonly fileBytes: Bytes;
  /** What its weights take on the card. */
  readonly weightBytes: Bytes;
  /** What a 1024² image takes beside the weights while it is made. */
  readonly workBytes: Bytes;
  /** How much slower a step is than SDXL's. */
  readonly stepFactor: number;
}

/** SDXL peaked at 9.9 GiB with 0.8 GiB of context (measured); Flux in fp8 needs nearly all of a 16 GB card. */
export function demoComfyModels(): readonly ComfyModel[] {
  return [
    {
      folder: "checkpoints",
      name: "sd_xl_base_1.0.safetensors",
      fileBytes: 6_938_078_334,
      weightBytes: Math.round(6.5 * GIB),
      workBytes: Math.round(2.6 * GIB),
      stepFactor: 1,
    },
    {
      folder: "checkpoints",
      name: "flux1-dev-fp8.safetensors",
      fileBytes: 17_246_524_772,
      weightBytes: Math.round(11.6 * GIB),
      workBytes: Math.round(1.4 * GIB),
      stepFactor: 4.6,
    },
    {
      folder: "checkpoints",
      name: "dreamshaper_8.safetensors",
      fileBytes: 2_132_625_894,
      weightBytes: Math.round(2 * GIB),
      workBytes: Math.round(1.1 * GIB),
      stepFactor: 0.45,
    },
    {
      folder: "vae",
      name: "sdxl_vae.safetensors",
      fileBytes: 334_641_164,
      weightBytes: Math.round(0.31 * GIB),
      workBytes: 0,
      stepFactor: 0,
    },
  ];
}

/** What `GET /models` lists, in its order. */
export const MODEL_FOLDERS = [
  "checkpoints",
  "configs",
  "loras",
  "vae",
  "text_encoders",
  "diffusion_models",
  "clip_vision",
  "style_models",
  "embeddings",
  "diffusers",
  "vae_approx",
  "controlnet",
  "gligen",
  "upscale_models",
  "custom_nodes",
  "hypernetworks",
  "photomaker",
  "classifiers",
  "model_patches",
  "audio_encoders",
] as const;

/** Kinds that were renamed have a second folder. */
const SECOND_FOLDERS: Readonly<Record<string, readonly string[]>> = {
  text_encoders: ["text_encoders", "clip"],
  diffusion_models: ["unet", "diffusion_models"],
  controlnet: ["controlnet", "t2i_adapter"],
};

/** What `GET /experiment/models` tells: every kind but settings and programs, with its folders. */
export function folderPaths(): readonly { readonly name: string; readonly folders: readonly string[] }[] {
  return MODEL_FOLDERS.filter((name) => name !== "configs" && name !== "custom_nodes").map((name) => ({
    name,
    folders: (SECOND_FOLDERS[name] ?? [name]).map((folder) => `${COMFY_DIR}/models/${folder}`),
  }));
}

/** The file behind a model, for the page cache. */
export function modelPath(model: ComfyModel): string {
  return `${COMFY_DIR}/models/${model.folder}/${model.name}`;
}
