/** What the fake service kept: an hour of figures, a week of swaps, and two profiles that differ. */
import type { Operations } from "../../lib/operations/registry.ts";

type Output<Name extends keyof Operations> = Operations[Name]["output"];

const START_S = 1_767_268_800;
const POINTS = 60;

/** Every figure that the page may ask for, the second half of it; before that nothing was kept. */
export function pastSeries(): Output<"analytics-timeseries"> {
  const at = Array.from({ length: POINTS }, (_, index) => START_S + index * 60);
  const line = (base: number) => at.map((_, index) => index < POINTS / 2 ? null : base + index % 5);
  const figure = (unit: string, base: number) => ({ unit, min: line(base - 2), avg: line(base), max: line(base + 2) });
  return {
    from: new Date(START_S * 1_000).toISOString(),
    bucket_s: 60,
    grain: "minute",
    at,
    series: {
      ollama_gb: figure("GiB", 8),
      comfyui_gb: figure("GiB", 3),
      vram_used_gb: figure("GiB", 12),
      power_w: figure("W", 220),
    },
  };
}

function spread(p50: number, n: number) {
  const quantile = (share: number, least: number) => n < least ? null : p50 * share;
  return {
    n,
    min: p50 * 0.8,
    p25: p50 * 0.95,
    p50,
    p75: p50 * 1.05,
    p95: quantile(1.3, 20),
    p99: quantile(1.5, 100),
    max: p50 * 1.6,
    mean: p50,
    sd: p50 / 10,
  };
}

export const SWAPS: Output<"analytics-swaps"> = {
  swap_ms: spread(4_900, 120),
  yield_ms: spread(412, 34),
  purge_ms: spread(633, 9),
  margin_ms: null,
  late_hand_offs: 1,
  yield_outcomes: { released: 34 },
  purge_outcomes: { released: 9 },
  classes: { cold: 40, ram_hit: 80 },
  models: [{
    model: "qwen3:14b",
    swaps: 120,
    classes: { cold: 40, ram_hit: 80 },
    load_ms: spread(4_900, 120),
    gb_per_s: spread(2.63, 120),
    tokens_per_sec: spread(73.5, 60),
  }],
  limits: { hit_gb_per_s: 2, partial_gb_per_s: 0.8, basis: "default", warm_n: 3, cold_n: 1 },
  ram_against_disk: null,
  read: 163,
  truncated: false,
};

const measured = { workload: "comfy", model: "sd_xl_base_1.0.safetensors", basis: "1024x1024" } as const;
const card = {
  temperature_c: 66,
  power_w: 301,
  graphics_mhz: 2_700,
  memory_mhz: 11_251,
  fan_pct: 40,
  throttled_pct: 0,
};

export const PROFILES: Output<"analytics-profiles"> = {
  profiles: [
    { profile: "balanced", ...measured, ...card, per_second: spread(6.52, 24) },
    { profile: "comfy", ...measured, ...card, per_second: spread(6.71, 24) },
  ],
  comparisons: [{
    ...measured,
    a: "balanced",
    b: "comfy",
    a_n: 24,
    b_n: 24,
    difference_pct: 2.91,
    p_value: 0.0004,
    alpha: 0.01,
    stands_out: true,
    test: "Mann–Whitney U, two-sided, normal approximation with tie and continuity correction",
    verdict: "comfy (n=24) is 2.9 % higher than balanced (n=24), and that stands out from noise",
  }],
  read: 48,
  truncated: false,
};

export const FOOTPRINTS: Output<"footprints"> = {
  footprints: [{
    name: "qwen3:14b",
    source: "ollama",
    context_length: 4_096,
    parallel: 1,
    n: 4,
    used: true,
    peak_gb: 11.2,
    median_gb: 10.9,
    least_gb: 10.8,
    latest_gb: 11,
    steady_gb: 10.7,
    misses: 1,
    warm_n: 3,
    warm_ms: 2_400,
    cold_n: 0,
    cold_ms: null,
  }],
};
