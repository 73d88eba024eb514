/** The node classes that the simulated ComfyUI knows: enough for real SDXL graphs, and the lab's own. */

/** One input as `/object_info` describes it: a number with bounds, text, a choice, or a link of some type. */
export type InputSpec =
  | { readonly type: "INT" | "FLOAT"; readonly min: number; readonly max: number; readonly default: number }
  | { readonly type: "STRING" }
  | { readonly type: "COMBO"; readonly choices: readonly string[]; readonly tooltip?: string }
  /** Choices are the files of that folder. */
  | { readonly type: "FILE"; readonly folder: string; readonly tooltip: string }
  | { readonly type: "LINK"; readonly of: string };

export interface NodeClass {
  readonly inputs: Readonly<Record<string, InputSpec>>;
  readonly optional?: readonly string[];
  readonly outputs: readonly string[];
  readonly isOutput: boolean;
  /** What executing it does, see comfy_execution.ts. */
  readonly does: "load" | "encode" | "sample" | "decode" | "image" | "preview" | "work" | "fail" | "nothing";
  readonly displayName: string;
  readonly category: string;
}

const whole = (min: number, max: number, preset: number): InputSpec => ({ type: "INT", min, max, default: preset });
const real = (min: number, max: number, preset: number): InputSpec => ({ type: "FLOAT", min, max, default: preset });
const link = (of: string): InputSpec => ({ type: "LINK", of });
const TEXT: InputSpec = { type: "STRING" };
const SEED = whole(0, 2 ** 53, 0);
const SIDE = whole(16, 16_384, 512);
const CHECKPOINT: InputSpec = {
  type: "FILE",
  folder: "checkpoints",
  tooltip: "The name of the checkpoint (model) to load.",
};
const SAMPLERS: InputSpec = {
  type: "COMBO",
  choices: ["euler", "euler_ancestral", "heun", "dpm_2", "dpmpp_2m", "dpmpp_2m_sde", "ddim", "uni_pc"],
};
const SCHEDULERS: InputSpec = {
  type: "COMBO",
  choices: ["simple", "sgm_uniform", "karras", "exponential", "normal", "beta"],
};

export const NODE_CLASSES: Readonly<Record<string, NodeClass>> = {
  CheckpointLoaderSimple: {
    inputs: { ckpt_name: CHECKPOINT },
    outputs: ["MODEL", "CLIP", "VAE"],
    isOutput: false,
    does: "load",
    displayName: "Load Checkpoint",
    category: "loaders",
  },
  VAELoader: {
    inputs: { vae_name: { type: "FILE", folder: "vae", tooltip: "" } },
    outputs: ["VAE"],
    isOutput: false,
    does: "load",
    displayName: "Load VAE",
    category: "loaders",
  },
  CLIPTextEncode: {
    inputs: { text: TEXT, clip: link("CLIP") },
    outputs: ["CONDITIONING"],
    isOutput: false,
    does: "encode",
    displayName: "CLIP Text Encode (Prompt)",
    category: "conditioning",
  },
  EmptyLatentImage: {
    inputs: { width: SIDE, height: SIDE, batch_size: whole(1, 4_096, 1) },
    outputs: ["LATENT"],
    isOutput: false,
    does: "nothing",
    displayName: "Empty Latent Image",
    category: "latent",
  },
  KSampler: {
    inputs: {
      model: link("MODEL"),
      seed: SEED,
      steps: whole(1, 10_000, 20),
      cfg: real(0, 100, 8),
      sampler_name: SAMPLERS,
      scheduler: SCHEDULERS,
      positive: link("CONDITIONING"),
      negative: link("CONDITIONING"),
      latent_image: link("LATENT"),
      denoise: real(0, 1, 1),
    },
    outputs: ["LATENT"],
    isOutput: false,
    does: "sample",
    displayName: "KSampler",
    category: "sampling",
  },
  VAEDecode: {
    inputs: { samples: link("LATENT"), vae: link("VAE") },
    outputs: ["IMAGE"],
    isOutput: false,
    does: "decode",
    displayName: "VAE Decode",
    category: "latent",
  },
  EmptyImage: {
    inputs: {
      width: whole(1, 16_384, 512),
      height: whole(1, 16_384, 512),
      batch_size: whole(1, 4_096, 1),
      color: whole(0, 0xffffff, 0),
    },
    outputs: ["IMAGE"],
    isOutput: false,
    does: "image",
    displayName: "EmptyImage",
    category: "image",
  },
  ImageBlur: {
    inputs: { image: link("IMAGE"), blur_radius: whole(1, 31, 1), sigma: real(0.1, 10, 1) },
    outputs: ["IMAGE"],
    isOutput: false,
    does: "image",
    displayName: "Image Blur",
    category: "image/postprocessing",
  },
  PreviewImage: {
    inputs: { images: link("IMAGE") },
    outputs: [],
    isOutput: true,
    does: "preview",
    displayName: "Preview Image",
    category: "image",
  },
  SaveImage: {
    inputs: { images: link("IMAGE"), filename_prefix: TEXT },
    outputs: [],
    isOutput: true,
    does: "preview",
    displayName: "Save Image",
    category: "image",
  },
  /** The lab's own: so many steps of so many milliseconds, holding so much of the card meanwhile. */
  LabWork: {
    inputs: { steps: whole(1, 10_000, 3), step_ms: real(0, 600_000, 200), vram_gb: real(0, 1_000, 0), seed: SEED },
    optional: ["vram_gb", "seed"],
    outputs: [],
    isOutput: true,
    does: "work",
    displayName: "Lab work",
    category: "lab",
  },
  /** Raises: an exception, the driver's out-of-memory, or what kills the worker and leaves the server alive. */
  LabFail: {
    inputs: { kind: { type: "COMBO", choices: ["value", "oom", "system_exit"] }, seed: SEED },
    optional: ["seed"],
    outputs: [],
    isOutput: true,
    does: "fail",
    displayName: "Lab failure",
    category: "lab",
  },
};

/** How `/object_info` shows an input. */
export function describeInput(spec: InputSpec, files: (folder: string) => readonly string[]): readonly unknown[] {
  switch (spec.type) {
    case "FILE":
      return [files(spec.folder), spec.tooltip === "" ? {} : { tooltip: spec.tooltip }];
    case "COMBO":
      return [spec.choices, {}];
    case "LINK":
      return [spec.of];
    case "STRING":
      return ["STRING", { multiline: true }];
    default:
      return [spec.type, { default: spec.default, min: spec.min, max: spec.max, step: spec.type === "INT" ? 1 : 0.01 }];
  }
}

export function describeClass(name: string, files: (folder: string) => readonly string[]): Record<string, unknown> {
  const node = NODE_CLASSES[name];
  if (node === undefined) return {};
  const described = (names: readonly string[]) =>
    Object.fromEntries(names.map((input) => [input, describeInput(node.inputs[input] ?? TEXT, files)]));
  const optional = node.optional ?? [];
  const required = Object.keys(node.inputs).filter((input) => !optional.includes(input));
  const hasOptional = optional.length > 0;
  return {
    input: { required: described(required), ...(hasOptional ? { optional: described(optional) } : {}) },
    input_order: { required, ...(hasOptional ? { optional } : {}) },
    output: node.outputs,
    output_is_list: node.outputs.map(() => false),
    output_name: node.outputs,
    name,
    display_name: node.displayName,
    description: "",
    python_module: "nodes",
    category: node.category,
    output_node: node.isOutput,
    ...(node.does === "load" ? { output_tooltips: node.outputs.map(() => "") } : {}),
  };
}
