import type { Exchange, HeaderPairs } from "./exchange.ts";

/** What a runner says of itself on its own loopback port. */
export interface RunnerWords {
  readonly isLoading: boolean;
  /** 0–1. */
  readonly progress: number;
  readonly contextSize: number;
  readonly work: { readonly promptTokens: number; readonly decoded: number; readonly remaining: number } | null;
}

const JSON_TYPE: HeaderPairs = [["Content-Type", "application/json; charset=utf-8"]];

/** `ollama runner` (0.24): only /health says anything, and not whether it works. */
export function answerOllamaRunner(exchange: Exchange, words: RunnerWords): Promise<void> {
  if (exchange.head.path !== "/health") return notFound(exchange);
  const body = words.isLoading
    ? { status: 3, progress: Math.round(words.progress * 100) / 100 }
    : { status: 0, progress: 1 };
  return exchange.send({ status: 200, headers: JSON_TYPE, body: JSON.stringify(body) });
}

/** The MLX engine: what it says on its port was never measured, so it says nothing that could be taken for a word. */
export function answerMlxRunner(exchange: Exchange): Promise<void> {
  return notFound(exchange);
}

/** llama-server (0.33): /health refuses while it loads, /slots tells who is served and how much is left. */
export function answerLlamaServer(exchange: Exchange, words: RunnerWords): Promise<void> {
  if (words.isLoading) {
    const error = { message: "Loading model", type: "unavailable_error", code: 503 };
    return exchange.send({ status: 503, headers: JSON_TYPE, body: JSON.stringify({ error }) });
  }
  if (exchange.head.path === "/health") {
    return exchange.send({ status: 200, headers: JSON_TYPE, body: '{"status":"ok"}' });
  }
  if (exchange.head.path !== "/slots") return notFound(exchange);
  return exchange.send({ status: 200, headers: JSON_TYPE, body: JSON.stringify([slot(words)]) });
}

function slot(words: RunnerWords): Record<string, unknown> {
  const idle = { id: 0, n_ctx: words.contextSize, speculative: false, is_processing: words.work !== null };
  if (words.work === null) return idle;
  const { promptTokens, decoded, remaining } = words.work;
  return {
    ...idle,
    id_task: 1,
    n_prompt_tokens: promptTokens + decoded,
    n_prompt_tokens_processed: promptTokens,
    n_prompt_tokens_cache: 0,
    params: samplerParams(decoded + remaining),
    next_token: [{ has_next_token: remaining > 0, has_new_line: false, n_remain: remaining, n_decoded: decoded }],
  };
}

/** The sampler's settings as llama-server prints them; nobody decides on them, but a parser meets them. */
function samplerParams(maxTokens: number): Record<string, unknown> {
  return {
    seed: 1,
    temperature: 0.8,
    dynatemp_range: 0,
    dynatemp_exponent: 1,
    top_k: 40,
    top_p: 0.9,
    min_p: 0,
    top_n_sigma: -1,
    xtc_probability: 0,
    xtc_threshold: 0.1,
    typical_p: 1,
    repeat_last_n: 64,
    repeat_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    dry_multiplier: 0,
    dry_base: 1.75,
    dry_allowed_length: 2,
    dry_penalty_last_n: 64,
    mirostat: 0,
    mirostat_tau: 5,
    mirostat_eta: 0.1,
    adaptive_target: -1,
    adaptive_decay: 0.9,
    max_tokens: maxTokens,
    n_predict: maxTokens,
    n_keep: 4,
    n_discard: 0,
    ignore_eos: false,
    stream: true,
    n_probs: 0,
    min_keep: 0,
    chat_format: "Content-only",
    reasoning_format: "deepseek",
    reasoning_in_content: false,
    generation_prompt: "",
    samplers: ["penalties", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
    "speculative.types": "none",
    timings_per_token: false,
    post_sampling_probs: false,
    backend_sampling: false,
    lora: [],
  };
}

function notFound(exchange: Exchange): Promise<void> {
  const error = { code: 404, message: "File Not Found", type: "not_found_error" };
  return exchange.send({ status: 404, headers: JSON_TYPE, body: JSON.stringify({ error }) });
}
