import type { Bytes } from "../model/units.ts";
import { type LabModel, MODELS_DIR } from "./ollama_models.ts";

export type RunnerGenerationName = "ollama-runner" | "llama-server" | "mlx";

/** The options of a request that decide how a model is loaded. Null: not given. */
export interface LoadOptions {
  readonly numCtx: number | null;
  readonly numGpu: number | null;
  readonly numBatch: number | null;
  readonly useMmap: boolean | null;
}

export const NO_OPTIONS: LoadOptions = { numCtx: null, numGpu: null, numBatch: null, useMmap: null };

interface Described {
  readonly model: LabModel;
  readonly options: LoadOptions;
  readonly generation: RunnerGenerationName;
  readonly parallel: number;
}

/** Name, executable and command line of a runner, by generation. */
export function runnerArgs(
  { model, options, generation, parallel }: Described,
  { port, contextSize }: { readonly port: number; readonly contextSize: number },
): { readonly name: string; readonly exe: string; readonly args: readonly string[] } {
  const blob = `${MODELS_DIR}/blobs/${model.blob}`;
  if (generation === "mlx") {
    const exe = "/usr/local/bin/ollama";
    const args = [exe, "runner", "--mlx-engine", "--model", model.name, "--port", String(port)];
    return { name: "ollama", exe, args };
  }
  if (generation === "ollama-runner") {
    const exe = "/usr/local/bin/ollama";
    const engine = model.isEmbedding ? ["--ollama-engine"] : [];
    return { name: "ollama", exe, args: [exe, "runner", ...engine, "--model", blob, "--port", String(port)] };
  }
  const exe = "/usr/local/lib/ollama/llama-server";
  const args = [
    ...[exe, "--model", blob, "--port", String(port), "--host", "127.0.0.1", "--no-webui", "--offline"],
    ...["-c", String(contextSize * parallel), "-np", String(parallel)],
    ...["--log-verbosity", "4", "--no-log-prefix", "--no-log-timestamps"],
    ...(options.useMmap === true ? [] : ["--load-mode", "none"]),
    ...["--flash-attn", "auto"],
    ...(model.isEmbedding ? ["--embedding"] : []),
    ...["-b", String(options.numBatch ?? 512), "-ub", String(options.numBatch ?? 512)],
    ...(options.numGpu === null ? [] : ["-ngl", String(options.numGpu)]),
    ...["--context-shift", "--keep", "4"],
  ];
  return { name: "llama-server", exe, args };
}

/** What Ollama says when a runner found no room on the card. */
export function outOfMemoryText(
  { model, generation }: Described,
  { sizeBytes, freeBytes }: { readonly sizeBytes: Bytes; readonly freeBytes: Bytes },
): string {
  if (generation === "mlx") {
    const gib = (bytes: Bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
    return `model requires ${gib(sizeBytes)} but only ${gib(freeBytes)} are available (after 0 B overhead)`;
  }
  const path = `${MODELS_DIR}/blobs/${model.blob}`;
  if (generation === "ollama-runner") {
    return [
      "llama runner process has terminated: cudaMalloc failed: out of memory",
      "error loading model: unable to allocate CUDA0 buffer",
      `panic: unable to load model: ${path}`,
    ].join("\n");
  }
  const mib = (sizeBytes / 2 ** 20).toFixed(2);
  return [
    "llama-server process has terminated: exit status 1: cudaMalloc failed: out of memory " +
    `(attempted to allocate ${mib} MB)`,
    `alloc_tensor_range: failed to allocate CUDA0 buffer of size ${sizeBytes}`,
    `llama_model_load: error loading model: unable to allocate CUDA0 buffer`,
  ].join("\n");
}
