/** Where ComfyUI keeps which kind of model, and which files of a folder it offers (facts: comfyui-measured section 7). */
import { type ExtraFolder, kindOf } from "./extra_paths.ts";
import { joinPath, normalizePath } from "./paths.ts";
import { baseName } from "./runner_args.ts";

/** A kind of model and its folders, the first of which wins where two have the same name. */
export interface ModelKind {
  readonly kind: string;
  readonly folders: readonly string[];
}

/** Kinds that lie in a folder of their own name; some have a second one from before they were renamed. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  checkpoints: ["checkpoints"],
  loras: ["loras"],
  vae: ["vae"],
  text_encoders: ["text_encoders", "clip"],
  diffusion_models: ["unet", "diffusion_models"],
  clip_vision: ["clip_vision"],
  style_models: ["style_models"],
  embeddings: ["embeddings"],
  diffusers: ["diffusers"],
  vae_approx: ["vae_approx"],
  controlnet: ["controlnet", "t2i_adapter"],
  gligen: ["gligen"],
  upscale_models: ["upscale_models"],
  latent_upscale_models: ["latent_upscale_models"],
  hypernetworks: ["hypernetworks"],
  photomaker: ["photomaker"],
  classifiers: ["classifiers"],
  model_patches: ["model_patches"],
  audio_encoders: ["audio_encoders"],
  background_removal: ["background_removal"],
  frame_interpolation: ["frame_interpolation"],
  geometry_estimation: ["geometry_estimation"],
  optical_flow: ["optical_flow"],
  detection: ["detection"],
};

/** Kinds that hold settings, programs or data. */
const NO_MODELS = new Set(["configs", "custom_nodes", "datasets", "fonts"]);
/** What a workflow saves goes there and is offered again. */
const OUTPUT_KINDS = ["checkpoints", "clip", "vae", "diffusion_models", "loras"];
const WEIGHT_FILE = /\.(?:ckpt|pt|pt2|bin|pth|safetensors|pkl|sft)$/i;

/** The folders of a server that was started without further files. */
export function defaultKinds(modelsDir: string): readonly ModelKind[] {
  return Object.entries(KINDS).map(([kind, names]) => ({ kind, folders: names.map((name) => `${modelsDir}/${name}`) }));
}

/** What its own output adds, after everything else. */
export function outputFolders(outputDir: string): readonly ExtraFolder[] {
  return OUTPUT_KINDS.map((name) => ({ kind: kindOf(name), path: `${outputDir}/${name}`, isFirst: false }));
}

/** Adds folders one after the other: two that go first end up in the opposite order, as in ComfyUI. */
export function addFolders(kinds: readonly ModelKind[], extra: readonly ExtraFolder[]): readonly ModelKind[] {
  const byKind = new Map(kinds.map(({ kind, folders }) => [kind, folders]));
  for (const { kind, path, isFirst } of extra) {
    const folders = byKind.get(kind) ?? [];
    const isThere = folders.includes(path);
    if (isThere && !isFirst) continue;
    const others = folders.filter((folder) => folder !== path);
    byKind.set(kind, isFirst ? [path, ...others] : [...others, path]);
  }
  return [...byKind].map(([kind, folders]) => ({ kind, folders }));
}

export function holdsModels(kind: string): boolean {
  return !NO_MODELS.has(kind);
}

/** Whether ComfyUI offers a file of that name in a folder of that kind. Kinds that it doesn't know take every file. */
export function offersFile(kind: string, name: string): boolean {
  if (kind === "diffusers") return false;
  if (kind === "classifiers") return /^\.*[^.]*$/.test(baseName(name));
  return KINDS[kind] === undefined || WEIGHT_FILE.test(name);
}

/** What a server's command line says about its places. */
export interface ComfyPlaces {
  readonly baseDir: string;
  readonly modelsDir: string;
  readonly outputDir: string;
  /** Files of further folders, in the order they are read. */
  readonly extraFiles: readonly string[];
}

/** Null when it isn't the command line of a script, or what it is relative to isn't known. */
export function placesOfServer(
  { args, cwd }: { readonly args: readonly string[]; readonly cwd: string | null },
): ComfyPlaces | null {
  const script = args.find((arg) => arg.endsWith(".py"));
  if (script === undefined) return null;
  const from = (path: string) => path.startsWith("/") ? normalizePath(path) : cwd && normalizePath(joinPath(cwd, path));
  const scriptPath = from(script);
  if (scriptPath === null) return null;
  const scriptDir = scriptPath.replace(/\/[^/]*$/, "") || "/";
  const named = (option: string) => {
    const [value] = valuesOf(args, option).slice(-1);
    return value === undefined ? null : from(value);
  };
  const baseDir = named("--base-directory") ?? scriptDir;
  return {
    baseDir,
    modelsDir: named("--models-directory") ?? `${baseDir}/models`,
    outputDir: named("--output-directory") ?? `${baseDir}/output`,
    extraFiles: [
      `${scriptDir}/extra_model_paths.yaml`,
      ...valuesOf(args, "--extra-model-paths-config").flatMap((path) => from(path) ?? []),
    ],
  };
}

/** The places of a folder that was named as ComfyUI's. */
export function placesOfFolder(baseDir: string): ComfyPlaces {
  return {
    baseDir,
    modelsDir: `${baseDir}/models`,
    outputDir: `${baseDir}/output`,
    extraFiles: [`${baseDir}/extra_model_paths.yaml`],
  };
}

/** All values of an option, which may be given several times and take several values each. */
function valuesOf(args: readonly string[], option: string): readonly string[] {
  const values: string[] = [];
  let isOpen = false;
  for (const arg of args) {
    if (arg.startsWith("--")) {
      isOpen = arg === option;
      if (arg.startsWith(`${option}=`)) values.push(arg.slice(option.length + 1));
    } else if (isOpen) values.push(arg);
  }
  return values;
}
