import type { Distribution } from "./analytics.ts";

/** Values that a quantile takes: with fewer it would be the largest value under another name. */
const LEAST_P95 = 20;
const LEAST_P99 = 100;

/** Null for no values. */
export function distributionOf(values: readonly number[]): Distribution | null {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const n = sorted.length;
  const [min, max] = [sorted[0], sorted[n - 1]];
  if (min === undefined || max === undefined) return null;
  const mean = sorted.reduce((sum, value) => sum + value, 0) / n;
  const squares = sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    n,
    min,
    p25: quantile(sorted, 0.25),
    median: quantile(sorted, 0.5),
    p75: quantile(sorted, 0.75),
    p95: n < LEAST_P95 ? null : quantile(sorted, 0.95),
    p99: n < LEAST_P99 ? null : quantile(sorted, 0.99),
    max,
    mean,
    sd: n < 2 ? null : Math.sqrt(squares / (n - 1)),
  };
}

/** Of sorted values, at least one; between two neighbours by their distance. */
export function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? low;
  return low + (high - low) * (at - Math.floor(at));
}

/** Null for no known value. */
export function meanOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}
