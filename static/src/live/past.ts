/** What the history panel shows: which figures, over which span, and what the service answered. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { type Answer, call, Refusal } from "./call.ts";

export type PastSeries = Answer<"analytics-timeseries">;
type Metric = Parameters<typeof call<"analytics-timeseries">>[1]["metric"][number];

export interface FigureGroup {
  readonly name: string;
  readonly metrics: readonly { readonly metric: Metric; readonly label: string }[];
}

export const GROUPS: readonly FigureGroup[] = [
  {
    name: "VRAM",
    metrics: [
      { metric: "ollama_gb", label: "Ollama" },
      { metric: "comfyui_gb", label: "ComfyUI" },
      { metric: "vram_used_gb", label: "All" },
    ],
  },
  { name: "Power", metrics: [{ metric: "power_w", label: "Drawn" }, { metric: "power_limit_w", label: "Limit" }] },
  {
    name: "Heat",
    metrics: [
      { metric: "temperature_c", label: "Core" },
      { metric: "memory_temperature_c", label: "Memory" },
    ],
  },
  { name: "Load", metrics: [{ metric: "gpu_util_pct", label: "GPU" }, { metric: "fan_pct", label: "Fan" }] },
  {
    name: "Page cache",
    metrics: [{ metric: "ram_cached_gb", label: "Cache" }, { metric: "ram_used_gb", label: "Used" }],
  },
];

export const SPANS = [
  { label: "1 h", ms: 3_600_000 },
  { label: "24 h", ms: 86_400_000 },
  { label: "7 d", ms: 7 * 86_400_000 },
  { label: "30 d", ms: 30 * 86_400_000 },
] as const;

/** A span that ends now, or one that was picked in the chart. */
export type PastSpan = { readonly lastMs: number } | { readonly fromMs: number; readonly toMs: number };

export interface Past {
  readonly series: ReadonlySignal<PastSeries | null>;
  /** Why there is no series, or null. */
  readonly error: ReadonlySignal<string | null>;
  load(group: FigureGroup, span: PastSpan): Promise<void>;
}

/** A bucket a pixel or two. */
const POINTS = 600;

export function createPast(): Past {
  const series = signal<PastSeries | null>(null);
  const error = signal<string | null>(null);
  let latest = 0;
  const load = async ({ metrics }: FigureGroup, span: PastSpan) => {
    const mine = ++latest;
    const limits = "lastMs" in span
      ? { from: `${span.lastMs / 1_000}s` }
      : { from: new Date(span.fromMs).toISOString(), to: new Date(span.toMs).toISOString() };
    try {
      const answer = await call("analytics-timeseries", {
        metric: metrics.map(({ metric }) => metric),
        points: POINTS,
        ...limits,
      });
      // An answer that was overtaken by a later question is not shown.
      if (mine === latest) [series.value, error.value] = [answer, null];
    } catch (cause) {
      if (!(cause instanceof Refusal)) throw cause;
      if (mine === latest) error.value = cause.message;
    }
  };
  return { series, error, load };
}
