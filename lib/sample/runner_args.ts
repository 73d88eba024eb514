import type { ProcEntry } from "../model/ports.ts";
import type { Runner } from "../model/tenants.ts";

/** What a runner's command line tells. */
export type RunnerArgs = Pick<Runner, "generation" | "blob" | "modelName" | "port" | "parallel">;

/**
 * Reads a runner's arguments, or null when the process isn't one: another program, the server itself, a child that
 * shows its parent's command line for the first 3 ms, or a discovery child, which has no `--model`.
 */
export function parseRunnerArgs({ args, name }: Pick<ProcEntry, "args" | "name">): RunnerArgs | null {
  const program = baseName(args[0] ?? "");
  const model = option(args, "--model");
  if (model === null) return null;
  const common = { blob: blobOf(model), modelName: null, port: portOption(args) };
  if (program === "llama-server" || name === "llama-server") {
    return { generation: "llama-server", ...common, parallel: countOption(args, "-np") };
  }
  // comm holds 15 characters.
  if (program === "ollama_llama_server" || name === "ollama_llama_se") {
    return { generation: "ollama_llama_server", ...common };
  }
  if (args[1] !== "runner") return null;
  // The MLX engine is given the model's name: its weights are hundreds of blobs.
  if (args.includes("--mlx-engine")) return { ...common, generation: "mlx", blob: null, modelName: model };
  return { generation: "ollama-runner", ...common };
}

/** True when the command line can only be one that Ollama wrote: its blob, and the flags a person wouldn't give. */
export function isOllamaRunner({ args, name }: Pick<ProcEntry, "args" | "name">): boolean {
  const runner = parseRunnerArgs({ args, name });
  if (runner === null) return false;
  return runner.generation !== "llama-server" || (runner.blob !== null && args.includes("--offline"));
}

/** True for `ollama serve`, by its arguments. */
export function isOllamaServer({ args }: Pick<ProcEntry, "args">): boolean {
  return baseName(args[0] ?? "") === "ollama" && args[1] === "serve";
}

/** `sha256-…` at the end of a path into an Ollama store, or null. */
function blobOf(path: string): string | null {
  return /(?:^|\/)(sha256-[0-9a-f]{64})$/.exec(path)?.[1] ?? null;
}

function portOption(args: readonly string[]): number | null {
  const text = option(args, "--port");
  const port = text === null ? NaN : Number(text);
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : null;
}

function countOption(args: readonly string[], name: string): number | null {
  const count = Number(option(args, name) ?? NaN);
  return Number.isInteger(count) && count > 0 ? count : null;
}

/** The value of `--name value` or `--name=value`. */
export function option(args: readonly string[], name: string): string | null {
  for (const [index, arg] of args.entries()) {
    if (arg === name) return args[index + 1] ?? null;
    if (arg.startsWith(`${name}=`)) return arg.slice(name.length + 1);
  }
  return null;
}

/** The last part of a path; " (deleted)", which /proc adds to a replaced program, is no part of it. */
export function baseName(path: string): string {
  return path.replace(/ \(deleted\)$/, "").replace(/^.*\//, "");
}
