/** One run of the `ollama` workload: how fast a model decodes. */
import type { BenchOutcome } from "../model/autotune.ts";
import { messageOf } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Decode } from "../upstream/ollama_decode.ts";
import { tokensPerSecond } from "../upstream/ollama_parse.ts";

/** Two seconds of a usual model: long enough for a per cent, short enough for a sweep. */
const TOKENS = 128;
/** An answer that ended by itself before that says too little. */
const LEAST_TOKENS = 32;
const PROMPT = "Describe a long walk along a coast, in as much detail as you can.";
const KEEP_ALIVE = "30m";
/** Seeds that every sampler takes. */
const SEEDS = 2 ** 31;

/** The seed varies, so that nothing can be answered from a cache. Rejects only when the signal aborts. */
export async function benchOllama(
  model: string,
  { decode, clock }: { readonly decode: Decode; readonly clock: Clock },
  signal: AbortSignal,
): Promise<BenchOutcome> {
  const seed = Math.floor(clock.random() * SEEDS);
  try {
    const answer = await decode({ model, prompt: PROMPT, tokens: TOKENS, seed, keepAlive: KEEP_ALIVE }, signal);
    const { tokens: count, tokensDurationMs: durationMs, text } = answer;
    const perSecond = tokensPerSecond(answer);
    if (perSecond === null || count === null || durationMs === null || count < LEAST_TOKENS) {
      return { ok: false, isRejected: true, message: `The answer ended after ${count ?? 0} tokens: too few to tell` };
    }
    return {
      ok: true,
      sample: { perSecond, count, durationMs, seed, degenerate: degenerationOf(text), outputBytes: null },
    };
  } catch (error) {
    signal.throwIfAborted();
    return { ok: false, isRejected: false, message: messageOf(error) };
  }
}

/** Words that a text takes at least, and the share of broken characters that it doesn't have. */
const LEAST_WORDS = 4;
const BROKEN_SHARE = 0.05;

/** What computing errors do to text: nothing, one thing for ever, or bytes that are no text. */
export function degenerationOf(text: string): string | null {
  const trimmed = text.trim();
  if (trimmed === "") return "The answer is empty";
  // deno-lint-ignore no-control-regex -- such bytes are what is looked for
  const broken = trimmed.match(/[\u0000-\u0008\u000e-\u001f\ufffd]/g)?.length ?? 0;
  if (broken / trimmed.length > BROKEN_SHARE) return "The answer is full of broken characters";
  const words = new Set(trimmed.toLowerCase().split(/\s+/));
  const letters = new Set(trimmed);
  return words.size < LEAST_WORDS && trimmed.length > 60 || letters.size < LEAST_WORDS
    ? "The answer repeats one thing for ever"
    : null;
}
