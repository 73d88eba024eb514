/** How much each model was used lately, and what keeping it in memory saves; from the event log. */
import type { HistoryItem } from "../model/history.ts";
import { canonical } from "../model/model_names.ts";
import type { WallMs } from "../model/units.ts";

/** After this time a use counts half. */
const HALF_LIFE_MS = 3 * 86_400_000;
/** Being resident when it was evicted says less than being asked for. */
const EVICTED_WEIGHT = 0.5;
/** What was unloaded longer ago than this, and not asked for since, isn't next. */
const NEXT_MS = 86_400_000;
/** Loads from disk and from memory, GB/s, where too few were measured here (SPEC 2.7: 12.87 GB on one box). */
const USUAL_COLD = 0.38;
const USUAL_WARM = 2.63;
/** Loads of each class before a box's own median counts. */
const LEAST_LOADS = 3;

export interface Usage {
  /** Uses, each halved every three days. */
  readonly weight: number;
  readonly count: number;
  readonly lastAtMs: WallMs;
}

export interface Uses {
  readonly bySource: Readonly<Record<"ollama" | "comfyui", ReadonlyMap<string, Usage>>>;
  /** Seconds that a GB (10⁹ bytes) in memory saves a load, and how many loads say so (0: the usual figure). */
  readonly savedSPerGb: number;
  readonly loads: number;
  /** Models that were unloaded since they were last loaded, newest first: what is asked for next. */
  readonly yielded: readonly string[];
}

/** Reads the events, in any order. */
export function readUses(items: readonly HistoryItem[], nowMs: WallMs): Uses {
  const ollama = new Map<string, Usage>();
  const comfyui = new Map<string, Usage>();
  const yielded = new Map<string, WallMs>();
  for (const { kind, fields, atMs } of items.toSorted((a, b) => a.atMs - b.atMs)) {
    const note = (uses: Map<string, Usage>, key: string, share = 1) =>
      uses.set(
        key,
        add(uses.get(key), {
          weight: share * 0.5 ** (Math.max(0, nowMs - atMs) / HALF_LIFE_MS),
          atMs,
        }),
      );
    if (kind === "swap" && typeof fields["model"] === "string") {
      note(ollama, canonical(fields["model"]));
      yielded.delete(canonical(fields["model"]));
    }
    if (kind === "yield") {
      for (const name of textsOf(fields["models"])) {
        note(ollama, canonical(name), EVICTED_WEIGHT);
        yielded.delete(canonical(name));
        yielded.set(canonical(name), atMs);
      }
    }
    for (const name of textsOf(fields["checkpoints"])) note(comfyui, name);
  }
  const lately = [...yielded].filter(([, atMs]) => nowMs - atMs <= NEXT_MS).map(([name]) => name);
  return { bySource: { ollama, comfyui }, ...speedOf(items), yielded: lately.reverse() };
}

/** The key under which a model's uses stand. */
export function useKey(source: "ollama" | "comfyui", name: string): string {
  return source === "ollama" ? canonical(name) : name;
}

function add(before: Usage | undefined, use: { readonly weight: number; readonly atMs: WallMs }): Usage {
  return {
    weight: (before?.weight ?? 0) + use.weight,
    count: (before?.count ?? 0) + 1,
    lastAtMs: Math.max(before?.lastAtMs ?? 0, use.atMs),
  };
}

function speedOf(items: readonly HistoryItem[]): Pick<Uses, "savedSPerGb" | "loads"> {
  const rates = (wanted: string) =>
    items.flatMap(({ kind, fields }) => {
      const rate = fields["gb_per_s"];
      return kind === "swap" && fields["class"] === wanted && typeof rate === "number" && rate > 0 ? [rate] : [];
    });
  const [cold, warm] = [rates("cold"), rates("ram_hit")];
  if (cold.length < LEAST_LOADS || warm.length < LEAST_LOADS) {
    return { savedSPerGb: 1 / USUAL_COLD - 1 / USUAL_WARM, loads: 0 };
  }
  return { savedSPerGb: Math.max(0, 1 / median(cold) - 1 / median(warm)), loads: cold.length + warm.length };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : [];
}
