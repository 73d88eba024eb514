/** What can be asked of the record beyond its newest events, and what it answers. */
import type { HistoryItem, HistoryKind, TelemetryRow } from "./history.ts";
import type { WallMs } from "./units.ts";

/** Figures of the telemetry that series can be drawn of, with the unit they are given in. */
export const METRICS = {
  vram_used_gb: "GiB",
  ollama_gb: "GiB",
  comfyui_gb: "GiB",
  desktop_gb: "GiB",
  unmanaged_gb: "GiB",
  unaccounted_gb: "GiB",
  gpu_util_pct: "%",
  memory_util_pct: "%",
  temperature_c: "°C",
  memory_temperature_c: "°C",
  power_w: "W",
  power_limit_w: "W",
  fan_pct: "%",
  graphics_mhz: "MHz",
  memory_mhz: "MHz",
  pcie_rx_mbps: "MB/s",
  pcie_tx_mbps: "MB/s",
  ram_used_gb: "GiB",
  ram_cached_gb: "GiB",
  ram_available_gb: "GiB",
  comfy_queue: "prompts",
} as const;
export type Metric = keyof typeof METRICS;
// Object.keys loses the key type; the object above is a literal without further keys.
export const METRIC_NAMES = Object.keys(METRICS) as [Metric, ...Metric[]];

export interface SeriesQuery {
  readonly metrics: readonly Metric[];
  readonly fromMs: WallMs;
  readonly toMs: WallMs;
  /** At most so many buckets. */
  readonly points: number;
}

/** Null where nothing was recorded. */
export interface SeriesLine {
  readonly min: readonly (number | null)[];
  readonly avg: readonly (number | null)[];
  readonly max: readonly (number | null)[];
}

export interface Series {
  /** What the buckets are made of. */
  readonly grain: "raw" | "minute" | "hour";
  readonly bucketMs: number;
  /** Each bucket's start. */
  readonly atMs: readonly WallMs[];
  readonly lines: Readonly<Partial<Record<Metric, SeriesLine>>>;
}

/** How values lie. A quantile is null where there are too few to have one: p95 takes 20, p99 takes 100. */
export interface Distribution {
  readonly n: number;
  readonly min: number;
  readonly p25: number;
  readonly median: number;
  readonly p75: number;
  readonly p95: number | null;
  readonly p99: number | null;
  readonly max: number;
  readonly mean: number;
  /** Sample standard deviation; null for one value. */
  readonly sd: number | null;
}

/** Two sets of values of one thing, and whether their difference stands out from noise. */
export interface Comparison {
  readonly a: string;
  readonly b: string;
  readonly aN: number;
  readonly bN: number;
  /** Of the medians, b against a. */
  readonly differencePct: number | null;
  readonly pValue: number | null;
  /** The chance of a false alarm that was allowed, shared out among all comparisons made at once. */
  readonly alpha: number;
  /** Null: too few values to tell. */
  readonly standsOut: boolean | null;
  readonly test: string;
  /** One sentence. */
  readonly verdict: string;
}

export interface Thermals {
  readonly temperatureC: number | null;
  readonly powerW: number | null;
  readonly graphicsMhz: number | null;
  readonly memoryMhz: number | null;
  readonly fanPct: number | null;
  readonly throttledPct: number | null;
}

/** One workload under one profile. */
export interface ProfileEntry {
  readonly profile: string;
  readonly workload: "ollama" | "comfy";
  readonly model: string | null;
  readonly basis: string;
  readonly perSecond: Distribution;
  /** Means of what the card did meanwhile. */
  readonly thermals: Thermals;
}

export interface ProfileReport {
  readonly entries: readonly ProfileEntry[];
  readonly comparisons: readonly (Comparison & Pick<ProfileEntry, "workload" | "model" | "basis">)[];
  /** Measurements read; the oldest are left out beyond a bound. */
  readonly read: number;
  readonly isTruncated: boolean;
}

export interface SwapModel {
  readonly model: string;
  readonly swaps: number;
  readonly classes: Readonly<Record<string, number>>;
  readonly loadMs: Distribution | null;
  readonly gbPerS: Distribution | null;
  readonly tokensPerSecond: Distribution | null;
}

export interface SwapReport {
  readonly swapMs: Distribution | null;
  readonly yieldMs: Distribution | null;
  readonly purgeMs: Distribution | null;
  /** Negative = the winner allocated before the confirmation. */
  readonly marginMs: Distribution | null;
  readonly lateHandOffs: number;
  readonly yieldOutcomes: Readonly<Record<string, number>>;
  readonly purgeOutcomes: Readonly<Record<string, number>>;
  readonly classes: Readonly<Record<string, number>>;
  readonly models: readonly SwapModel[];
  /** Load speed from memory against from disk; null where either was never seen. */
  readonly ramAgainstDisk: Comparison | null;
  readonly read: number;
  readonly isTruncated: boolean;
}

export interface RankedModel {
  readonly source: "ollama" | "comfyui";
  readonly model: string;
  readonly uses: number;
  /** Uses, each halved every three days. */
  readonly score: number;
  readonly lastUsedAtMs: WallMs;
}

export interface EventsPage {
  readonly events: readonly HistoryItem[];
  /** Where the next page begins; null = there is none. */
  readonly next: number | null;
}

export interface TelemetryPage {
  readonly rows: readonly TelemetryRow[];
  readonly next: WallMs | null;
}

/** Long reads of the record, in a connection and a thread of their own: they delay neither writes nor the service. */
export interface Archive {
  series(query: SeriesQuery, signal: AbortSignal): Promise<Series>;
  profiles(query: { readonly sinceMs: WallMs }, signal: AbortSignal): Promise<ProfileReport>;
  swaps(query: { readonly sinceMs: WallMs }, signal: AbortSignal): Promise<SwapReport>;
  models(
    query: { readonly sinceMs: WallMs; readonly nowMs: WallMs },
    signal: AbortSignal,
  ): Promise<readonly RankedModel[]>;
  /** Oldest first, of [fromMs, toMs), after the event `after`. */
  events(
    query: {
      readonly fromMs: WallMs;
      readonly toMs: WallMs;
      readonly after: number;
      readonly kind: HistoryKind | null;
    },
    signal: AbortSignal,
  ): Promise<EventsPage>;
  /** Oldest first, of [fromMs, toMs). */
  telemetry(
    query: { readonly fromMs: WallMs; readonly toMs: WallMs },
    signal: AbortSignal,
  ): Promise<TelemetryPage>;
  close(): void;
}
