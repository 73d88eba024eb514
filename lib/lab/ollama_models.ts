import { createHash } from "node:crypto";
import type { Bytes } from "../model/units.ts";
import { manifestText } from "./manifest_text.ts";

const PART = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}$/;
const HOST = /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}$/;

export const MODELS_DIR = "/usr/share/ollama/.ollama/models";

/** A model as it lies in the simulated store. */
export interface LabModel {
  /** Shortest display name, with tag. */
  readonly name: string;
  /** Hex SHA-256 of the manifest. */
  readonly digest: string;
  /** `sha256-…` of the weights; tags of the same weights share it. */
  readonly blob: string;
  readonly blobBytes: Bytes;
  /** Safetensors run in the MLX engine, whatever the server's generation. */
  readonly format: "gguf" | "safetensors";
  readonly family: string;
  readonly parameterSize: string;
  readonly quantization: string;
  readonly contextLength: number;
  readonly embeddingLength: number;
  readonly layers: number;
  /** Key/value cache for each token of context. */
  readonly kvBytesPerToken: Bytes;
  /** Compute and output buffers. */
  readonly bufferBytes: Bytes;
  readonly tokensPerSecond: number;
  readonly isEmbedding: boolean;
  readonly modifiedAtMs: number;
}

export type ModelSpec = Partial<Omit<LabModel, "name" | "blobBytes">> & Pick<LabModel, "name" | "blobBytes">;

/** A plausible model of that name and size; whatever matters to a scene can be given. */
export function labModel(spec: ModelSpec): LabModel {
  const name = displayName(spec.name);
  const blob = spec.blob ?? `sha256-${hex(`weights ${name}`)}`;
  return {
    digest: hex(manifestText({ blob, blobBytes: spec.blobBytes, format: spec.format ?? "gguf" })),
    blob,
    format: "gguf",
    family: "llama",
    parameterSize: `${(spec.blobBytes / 0.65e9).toFixed(1)}B`,
    quantization: "Q4_K_M",
    contextLength: 131_072,
    embeddingLength: 4_096,
    layers: 40,
    kvBytesPerToken: 160 * 1_024,
    bufferBytes: 320e6,
    tokensPerSecond: 660e9 / spec.blobBytes,
    isEmbedding: false,
    modifiedAtMs: Date.UTC(2025, 10, 1),
    ...spec,
    name,
  };
}

/** What the demo's box has installed: real names with their real sizes. */
export function demoModels(): readonly LabModel[] {
  return [
    labModel({
      name: "qwen3:14b",
      blobBytes: 9_276_186_624,
      family: "qwen3",
      parameterSize: "14.8B",
      contextLength: 40_960,
      embeddingLength: 5_120,
      modifiedAtMs: Date.UTC(2025, 10, 20),
    }),
    labModel({
      name: "gemma3:12b",
      blobBytes: 8_149_190_199,
      family: "gemma3",
      parameterSize: "12.2B",
      layers: 48,
      embeddingLength: 3_840,
      modifiedAtMs: Date.UTC(2025, 10, 12),
    }),
    labModel({
      name: "llama3.1:8b",
      blobBytes: 4_920_738_944,
      parameterSize: "8.0B",
      layers: 32,
      kvBytesPerToken: 128 * 1_024,
      modifiedAtMs: Date.UTC(2025, 9, 3),
    }),
    labModel({
      name: "nomic-embed-text",
      blobBytes: 274_290_656,
      family: "nomic-bert",
      parameterSize: "137M",
      quantization: "F16",
      contextLength: 2_048,
      embeddingLength: 768,
      layers: 12,
      kvBytesPerToken: 0,
      bufferBytes: 40e6,
      isEmbedding: true,
      modifiedAtMs: Date.UTC(2025, 8, 1),
    }),
  ];
}

/** The same weights under another tag. */
export function aliasOf(model: LabModel, name: string): LabModel {
  return { ...model, name: displayName(name) };
}

export function hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Null for a name the server refuses as invalid. Otherwise its shortest form: default host, namespace left out, tag kept. */
export function parseName(name: string): string | null {
  const bare = name.replace(/^[a-z]+:\/\//, "");
  const colon = bare.lastIndexOf(":") > bare.lastIndexOf("/") ? bare.lastIndexOf(":") : -1;
  const tag = colon < 0 ? "latest" : bare.slice(colon + 1);
  const parts = (colon < 0 ? bare : bare.slice(0, colon)).split("/");
  if (parts.length > 3 || !PART.test(tag)) return null;
  const [model = "", namespace = "library", host = "registry.ollama.ai"] = parts.reverse();
  if (!PART.test(model) || !PART.test(namespace) || !HOST.test(host)) return null;
  // Letter case makes no difference in any part: the real server finds LIBRARY/tiny as well.
  const isDefaultHost = host.toLowerCase() === "registry.ollama.ai";
  const path = isDefaultHost && namespace.toLowerCase() === "library" ? model : `${namespace}/${model}`;
  return `${isDefaultHost ? "" : `${host}/`}${path}:${tag}`;
}

function displayName(name: string): string {
  const parsed = parseName(name);
  if (parsed === null) throw new RangeError(`Cannot name a model ${JSON.stringify(name)}`);
  return parsed;
}
