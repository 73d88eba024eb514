/** Distributions and comparisons in wire form. */
import * as z from "zod";
import type { Comparison, Distribution } from "../model/analytics.ts";
import { round } from "../model/units.ts";

export const DistributionWire = z.object({
  n: z.int().describe("values behind it"),
  min: z.number(),
  p25: z.number(),
  p50: z.number(),
  p75: z.number(),
  p95: z.number().nullable().describe("null below 20 values"),
  p99: z.number().nullable().describe("null below 100 values"),
  max: z.number(),
  mean: z.number(),
  sd: z.number().nullable().describe("sample standard deviation; null for one value"),
});

export function viewDistribution(of: Distribution): z.output<typeof DistributionWire>;
export function viewDistribution(of: Distribution | null): z.output<typeof DistributionWire> | null;
export function viewDistribution(of: Distribution | null): z.output<typeof DistributionWire> | null {
  if (of === null) return null;
  return {
    n: of.n,
    min: round(of.min, 2),
    p25: round(of.p25, 2),
    p50: round(of.median, 2),
    p75: round(of.p75, 2),
    p95: round(of.p95, 2),
    p99: round(of.p99, 2),
    max: round(of.max, 2),
    mean: round(of.mean, 2),
    sd: round(of.sd, 3),
  };
}

export const ComparisonWire = z.object({
  a: z.string(),
  b: z.string(),
  a_n: z.int(),
  b_n: z.int(),
  difference_pct: z.number().nullable().describe("of the medians, b against a, %"),
  p_value: z.number().nullable().describe("null where there are too few values"),
  alpha: z.number().describe("what p must not exceed: 1 % shared out among all comparisons of this answer"),
  stands_out: z.boolean().nullable().describe(
    "whether the difference is more than noise; null = too few values to tell",
  ),
  test: z.string(),
  verdict: z.string(),
});

export function viewComparison(of: Comparison): z.output<typeof ComparisonWire> {
  return {
    a: of.a,
    b: of.b,
    a_n: of.aN,
    b_n: of.bN,
    difference_pct: round(of.differencePct, 2),
    p_value: of.pValue === null ? null : Number(of.pValue.toPrecision(3)),
    alpha: Number(of.alpha.toPrecision(3)),
    stands_out: of.standsOut,
    test: of.test,
    verdict: of.verdict,
  };
}
