/** The models of the small machine, and how a load of one is answered. */
import type { LoadOutcome } from "../../lib/model/events.ts";
import { gib } from "./stories.ts";

export const MODELS: readonly (readonly [string, number])[] = [
  ["alpha:latest", gib(10)],
  ["beta:latest", gib(5)],
  ["gamma:latest", gib(1.5)],
];

export function sizeOf(model: string): number {
  return MODELS.find(([name]) => name === model)?.[1] ?? 0;
}

export function canonicalOf(model: string): string {
  return model.includes(":") ? model : `${model}:latest`;
}

export function loaded(loadDurationMs: number): LoadOutcome {
  return {
    ok: true,
    reply: { loadDurationMs, totalDurationMs: loadDurationMs + 50, tokensPerSecond: null, response: "A" },
  };
}
