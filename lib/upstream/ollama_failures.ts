import { errorMessage } from "./error_text.ts";
import { UpstreamError } from "./upstream_error.ts";

/**
 * What both runner generations and their backends print when memory doesn't suffice. Matched case-blind anywhere in
 * the text: the runner's own words come wrapped in Ollama's, several lines long.
 */
const OUT_OF_MEMORY = [
  "out of memory",
  "out-of-memory",
  "out of device memory",
  "cudamalloc failed",
  "hipmalloc failed",
  "failed to allocate",
  "unable to allocate",
  "allocation failed",
  "not enough memory",
  "insufficient memory",
  "vk_error_out_of_device_memory",
  "erroroutofmemory",
  "erroroutofdevicememory",
  "requires more system memory",
  "memory layout cannot be allocated",
  "unable to load full model on gpu",
] as const;

/** The MLX engine names both figures: "model requires 12.1 GiB but only 8.0 GiB are available". */
const REQUIRES_MORE = /model requires .* but only .* available/i;

/** True when an error text says that memory (the card's or the host's) didn't suffice. */
export function isOutOfMemory(text: string): boolean {
  const lower = text.toLowerCase();
  return OUT_OF_MEMORY.some((words) => lower.includes(words)) || REQUIRES_MORE.test(text);
}

export type OllamaFailure =
  /** Memory didn't suffice: reclaiming some and trying again may help. */
  | "out_of_memory"
  /** No such model, or its weights are missing. */
  | "unknown_model"
  /** It only embeds: load it through /api/embed. */
  | "embedding_only"
  /** OLLAMA_MAX_QUEUE requests wait already. */
  | "queue_full"
  /** The runner died or was killed for another reason. */
  | "runner_died"
  /** Ollama wasn't reached, or didn't answer in time. */
  | "no_answer"
  | "other";

/** What a failed call to Ollama means for whoever wanted the model. */
export function classifyOllamaFailure(error: unknown): OllamaFailure {
  if (!(error instanceof UpstreamError)) return "other";
  if (error.status === null) return "no_answer";
  const text = error.body === null ? error.reason : errorMessage(error.body) ?? error.body;
  // A refused load is 500, 400 while embedding, or status 200 with the error in the stream.
  if (isOutOfMemory(text)) return "out_of_memory";
  if (error.status === 404) return "unknown_model";
  if (error.status === 503) return "queue_full";
  if (error.status === 400 && /does not support (generate|chat)/.test(text)) return "embedding_only";
  return /process has terminated|no longer running|unexpectedly stopped|while running the model|runner failed/.test(
      text,
    )
    ? "runner_died"
    : "other";
}
