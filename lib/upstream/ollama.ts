import {
  type Clock,
  type LoadReply,
  type LoadRequest,
  NOTHING_TOLD,
  type OllamaApi,
  type RunnerTold,
} from "../model/ports.ts";
import { type HttpOrigin, httpOrigin } from "./http.ts";
import { isRemoteUrl } from "./locality.ts";
import { classifyOllamaFailure } from "./ollama_failures.ts";
import {
  parseEmbed,
  parseGeneration,
  parsePs,
  parseRunnerHealth,
  parseRunnerSlots,
  parseTags,
  parseVersion,
  parseWeightBlobs,
  tokensPerSecond,
} from "./ollama_parse.ts";
import { UpstreamError } from "./upstream_error.ts";

export interface OllamaOptions {
  /** Base URL, e.g. http://127.0.0.1:11434. */
  readonly url: string;
  readonly clock: Clock;
  /** Names and addresses of this machine besides loopback. */
  readonly localHosts?: readonly string[];
  /** Bound on a load, generation included. Hanging up is the cure for a load that hangs. Default 300 s. */
  readonly loadDeadlineMs?: number;
}

// Deadlines: /api/ps waits for whoever holds a runner's lock, so longer than 2 s is called a stall. /api/tags is built
// from disk, and hydrated at the server's start. An unload answers after 1–10 ms, unless an MLX model is loading.
const VERSION = {
  method: "GET",
  path: "/api/version",
  deadlineMs: 2_000,
  action: "ask Ollama for its version",
} as const;
const PS = { method: "GET", path: "/api/ps", deadlineMs: 2_000, action: "list resident models" } as const;
const TAGS = { method: "GET", path: "/api/tags", deadlineMs: 5_000, action: "list installed models" } as const;
const SHOW = { method: "POST", path: "/api/show", deadlineMs: 10_000 } as const;
const UNLOAD = { method: "POST", path: "/api/generate", deadlineMs: 5_000 } as const;
/** A runner is on this machine, and its word only worth having when it comes at once. */
const RUNNER = { method: "GET", deadlineMs: 500, action: "ask a runner whether it works" } as const;

const LOAD_DEADLINE_MS = 300_000;

/** Bounds a given prompt's answer: without it Ollama generates until the model stops by itself. */
const ANSWER_TOKENS = 128;

/** A client of one Ollama server. Opens nothing until asked. */
export function connectOllama(options: OllamaOptions): OllamaApi {
  const { clock } = options;
  const origin = httpOrigin({ url: options.url, clock });
  const loader = { origin, clock, deadlineMs: options.loadDeadlineMs ?? LOAD_DEADLINE_MS };
  return {
    url: origin.url,
    isRemote: isRemoteUrl(origin.url, options.localHosts),
    version: (signal) => origin.ask({ ...VERSION, signal }, parseVersion),
    tags: (signal) => origin.ask({ ...TAGS, signal }, parseTags),
    ps: (signal) => origin.ask({ ...PS, signal }, parsePs),
    weightBlobs: (model, signal) =>
      origin.ask({ ...SHOW, action: `show ${model}`, body: { model }, signal }, parseWeightBlobs),
    async unload(model, signal) {
      // No prompt, and keep_alive 0: the one form that unloads at once, embedding models included.
      const body = { model, keep_alive: 0, stream: false };
      await origin.ask({ ...UNLOAD, action: `unload ${model}`, body, signal }, parseGeneration);
    },
    load: (request, signal) => load(request, { ...loader, signal }),
    runnerActivity: (port, signal) => askRunner(httpOrigin({ url: `http://127.0.0.1:${port}`, clock }), signal),
  };
}

interface LoadContext {
  readonly origin: HttpOrigin;
  readonly clock: Clock;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/**
 * Not streamed: one status and one body of known length, so that a refusal is a status and a cut connection is an
 * error. Options that would reload a loaded model (num_ctx and the like) are never sent.
 */
async function load(request: LoadRequest, { origin, clock, deadlineMs, signal }: LoadContext): Promise<LoadReply> {
  const { model } = request;
  // Begins with what the prompt cache can't know, so that the prompt is really evaluated.
  const prompt = request.prompt ?? `${clock.uuid()} ping`;
  const common = { method: "POST", deadlineMs, action: `load ${model}`, signal } as const;
  const keepAlive = { keep_alive: keepAliveValue(request.keepAlive) };
  const options = { num_predict: request.prompt === null ? 1 : ANSWER_TOKENS };
  const body = { model, prompt, stream: false, options, ...keepAlive };
  try {
    const generation = await origin.ask({ ...common, path: "/api/generate", body }, parseGeneration);
    if (!generation.isDone) {
      const reason = "the answer ended without its last part";
      throw new UpstreamError(common.action, {
        url: `${origin.url}/api/generate`,
        kind: "protocol",
        status: 200,
        reason,
      });
    }
    const { loadDurationMs, totalDurationMs, text } = generation;
    return { loadDurationMs, totalDurationMs, tokensPerSecond: tokensPerSecond(generation), response: text };
  } catch (error) {
    if (classifyOllamaFailure(error) !== "embedding_only") throw error;
  }
  // Such a model has nothing to generate; embedding a few words loads it and tells the durations all the same.
  const embed = { model, input: prompt, ...keepAlive };
  const durations = await origin.ask({ ...common, path: "/api/embed", body: embed }, parseEmbed);
  return { ...durations, tokensPerSecond: null, response: "" };
}

/** A bare number in quotes is refused by Ollama (missing unit), and people write it: it goes out as the number. */
function keepAliveValue(keepAlive: string | number): string | number {
  return typeof keepAlive === "string" && /^-?\d+(\.\d+)?$/.test(keepAlive.trim()) ? Number(keepAlive) : keepAlive;
}

/** `/slots` is llama-server's; the older generation answers 404 there and only tells in `/health` while it loads. */
async function askRunner(runner: HttpOrigin, signal: AbortSignal): Promise<RunnerTold> {
  const health = await told(signal, async () => {
    const activity = await runner.ask({ ...RUNNER, path: "/health", signal }, parseRunnerHealth);
    return { activity, tokensLeft: null };
  });
  if (health.activity !== null) return health;
  return await told(signal, () => runner.ask({ ...RUNNER, path: "/slots", signal }, parseRunnerSlots));
}

/** A runner that doesn't answer, or not in words we know, doesn't say. */
async function told(signal: AbortSignal, ask: () => Promise<RunnerTold>): Promise<RunnerTold> {
  try {
    return await ask();
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof UpstreamError)) throw error;
    // llama-server answers 503 while it loads.
    const isLoading = error.status === 503 && error.body !== null && /loading/i.test(error.body);
    return isLoading ? { activity: "loading", tokensLeft: null } : NOTHING_TOLD;
  }
}
