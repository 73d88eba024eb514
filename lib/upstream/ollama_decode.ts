import type { Clock } from "../model/ports.ts";
import { httpOrigin } from "./http.ts";
import { type Generation, parseGeneration } from "./ollama_parse.ts";

/** One answer of a length that is asked for, with a seed of its own: what a decode speed is measured by. */
export interface DecodeRequest {
  readonly model: string;
  readonly prompt: string;
  readonly tokens: number;
  readonly seed: number;
  readonly keepAlive: string;
}

export type Decode = (request: DecodeRequest, signal: AbortSignal) => Promise<Generation>;

/** A minute and more for a model that spilled; the caller hangs up sooner where it wants to. */
const DEADLINE_MS = 180_000;

/** Not streamed: the figures that count come with the last part. */
export function connectDecode(options: { readonly url: string; readonly clock: Clock }): Decode {
  const origin = httpOrigin(options);
  return ({ model, prompt, tokens, seed, keepAlive }, signal) =>
    origin.ask({
      method: "POST",
      path: "/api/generate",
      body: {
        model,
        // Begins with what the prompt cache can't know.
        prompt: `${options.clock.uuid()} ${prompt}`,
        stream: false,
        keep_alive: keepAlive,
        options: { num_predict: tokens, seed },
      },
      deadlineMs: DEADLINE_MS,
      action: `measure the decoding of ${model}`,
      signal,
    }, parseGeneration);
}
