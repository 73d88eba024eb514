import type { SwapModel, SwapReport } from "../model/analytics.ts";
import type { HistoryItem } from "../model/history.ts";
import { compare } from "../model/compare.ts";
import { distributionOf } from "../model/distribution.ts";

type Items = readonly HistoryItem[];

/** How long swaps, yields and purges took, what loads achieved, and how that differs by model. */
export function swapReport(items: Items, isTruncated: boolean): SwapReport {
  const of = (kind: HistoryItem["kind"]) => items.filter((item) => item.kind === kind);
  const [swaps, yields, purges] = [of("swap"), of("yield"), of("purge")];
  const released = (some: Items) => some.filter(({ fields }) => fields["outcome"] === "released");
  const margins = numbers(yields, "margin_ms");
  return {
    swapMs: distributionOf(numbers(swaps, "load_ms")),
    yieldMs: distributionOf(numbers(released(yields), "confirm_ms")),
    purgeMs: distributionOf(numbers(released(purges), "confirm_ms")),
    marginMs: distributionOf(margins),
    lateHandOffs: margins.filter((ms) => ms < 0).length,
    yieldOutcomes: countBy(yields, "outcome"),
    purgeOutcomes: countBy(purges, "outcome"),
    classes: countBy(swaps, "class"),
    models: modelsOf(swaps),
    ramAgainstDisk: ramAgainstDisk(swaps),
    read: items.length,
    isTruncated,
  };
}

function modelsOf(swaps: Items): readonly SwapModel[] {
  const byModel = Map.groupBy(swaps, ({ fields }) => String(fields["model"] ?? "unknown"));
  return [...byModel].map(([model, own]) => ({
    model,
    swaps: own.length,
    classes: countBy(own, "class"),
    loadMs: distributionOf(numbers(own, "load_ms")),
    gbPerS: distributionOf(numbers(own, "gb_per_s")),
    tokensPerSecond: distributionOf(numbers(own, "tokens_per_sec")),
  })).sort((a, b) => b.swaps - a.swaps || a.model.localeCompare(b.model));
}

function ramAgainstDisk(swaps: Items): SwapReport["ramAgainstDisk"] {
  const speeds = (wanted: string) => numbers(swaps.filter(({ fields }) => fields["class"] === wanted), "gb_per_s");
  const [cold, warm] = [speeds("cold"), speeds("ram_hit")];
  if (cold.length === 0 || warm.length === 0) return null;
  return compare({ name: "cold", values: cold }, { name: "ram_hit", values: warm }, { among: 1 });
}

function numbers(items: Items, field: string): readonly number[] {
  return items.flatMap(({ fields }) => typeof fields[field] === "number" ? [fields[field]] : []);
}

function countBy(items: Items, field: string): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const { fields } of items) {
    const value = String(fields[field] ?? "unknown");
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return Object.fromEntries([...counts].sort(([a], [b]) => a.localeCompare(b)));
}
