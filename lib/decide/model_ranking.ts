/** Which models are used most, lately. */
import type { RankedModel } from "../model/analytics.ts";
import type { HistoryItem } from "../model/history.ts";
import type { WallMs } from "../model/units.ts";
import { readUses } from "./model_uses.ts";

const SOURCES = ["ollama", "comfyui"] as const;

/** By decayed use, the most used first. What the warm plan goes by is the same figure. */
export function rankModels(items: readonly HistoryItem[], nowMs: WallMs): readonly RankedModel[] {
  const { bySource } = readUses(items, nowMs);
  return SOURCES.flatMap((source) =>
    [...bySource[source]].map(([model, { weight, count, lastAtMs }]) => ({
      source,
      model,
      uses: count,
      score: weight,
      lastUsedAtMs: lastAtMs,
    }))
  ).sort((a, b) => b.score - a.score || a.model.localeCompare(b.model));
}
