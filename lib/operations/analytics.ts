/** What the record tells beyond single events: how fast, how long, how often, and whether a difference is real. */
import * as z from "zod";
import { METRIC_NAMES, METRICS } from "../model/analytics.ts";
import { round, toIso } from "../model/units.ts";
import { ComparisonWire, DistributionWire, viewComparison, viewDistribution } from "./analytics_view.ts";
import { moment, momentOf } from "./moment.ts";
import { define } from "./operation.ts";
import { time } from "./quantities.ts";
import { ROUTES } from "./routes.ts";

const days = (usual: number) => z.number().min(0.01).max(3_650).default(usual).describe("how many days back");
const Counts = z.record(z.string(), z.int());
const read = z.int().describe("records read");
const truncated = z.boolean().describe("there were more: only the newest were read");
const Workload = z.enum(["ollama", "comfy"]).describe("ollama: decode tokens/s; comfy: sampler iterations/s");
const basis = z.string().describe("how it was measured: only like is compared with like");

export const analyticsProfiles = define({
  name: "analytics-profiles",
  summary: "How fast each profile was in ordinary use, with what the card did meanwhile, and whether profiles differ",
  access: "read",
  input: z.object({ days: days(7) }),
  output: z.object({
    profiles: z.array(z.object({
      profile: z.string().describe('"none" where none was applied'),
      workload: Workload,
      model: z.string().nullable(),
      basis,
      per_second: DistributionWire,
      temperature_c: z.number().nullable(),
      power_w: z.number().nullable(),
      graphics_mhz: z.number().nullable(),
      memory_mhz: z.number().nullable(),
      fan_pct: z.number().nullable(),
      throttled_pct: z.number().nullable().describe("share of the time that the card throttled for heat or power, %"),
    })),
    comparisons: z.array(ComparisonWire.extend({ workload: Workload, model: z.string().nullable(), basis })),
    read,
    truncated,
  }),
  fails: ["unavailable"],
  http: ROUTES["analytics-profiles"],
  cli: { words: ["analytics", "profiles"] },
  tool: { name: "get_profile_performance", idempotent: true },
  async handle(services, input, { signal }) {
    const report = await services.analytics.profiles(input, signal);
    return {
      profiles: report.entries.map(({ thermals, perSecond, profile, workload, model, basis: measuredBy }) => ({
        profile,
        workload,
        model,
        basis: measuredBy,
        per_second: viewDistribution(perSecond),
        temperature_c: round(thermals.temperatureC, 1),
        power_w: round(thermals.powerW, 1),
        graphics_mhz: round(thermals.graphicsMhz, 0),
        memory_mhz: round(thermals.memoryMhz, 0),
        fan_pct: round(thermals.fanPct, 1),
        throttled_pct: round(thermals.throttledPct, 1),
      })),
      comparisons: report.comparisons.map((one) => ({
        ...viewComparison(one),
        workload: one.workload,
        model: one.model,
        basis: one.basis,
      })),
      read: report.read,
      truncated: report.isTruncated,
    };
  },
});

export const analyticsSwaps = define({
  name: "analytics-swaps",
  summary: "How long swaps, yields and purges took, how loads were classed, and each model's figures",
  access: "read",
  input: z.object({ days: days(7) }),
  output: z.object({
    swap_ms: DistributionWire.nullable().describe("loads, ms"),
    yield_ms: DistributionWire.nullable().describe("yields until the driver's confirmation, ms"),
    purge_ms: DistributionWire.nullable().describe("purges until the driver's confirmation, ms"),
    margin_ms: DistributionWire.nullable().describe("confirmation before the winner's first allocation, ms"),
    late_hand_offs: z.int().describe("with a negative margin"),
    yield_outcomes: Counts,
    purge_outcomes: Counts,
    classes: Counts.describe("loads by class"),
    models: z.array(z.object({
      model: z.string(),
      swaps: z.int(),
      classes: Counts,
      load_ms: DistributionWire.nullable(),
      gb_per_s: DistributionWire.nullable(),
      tokens_per_sec: DistributionWire.nullable(),
    })),
    limits: z.object({
      hit_gb_per_s: z.number().describe("from here on a load is a RAM cache hit, GB/s"),
      partial_gb_per_s: z.number().describe("from here on it is partly cached, GB/s"),
      basis: z.enum(["configured", "calibrated", "default"]),
      warm_n: z.int().describe("loads that were surely warm: 10 calibrate"),
      cold_n: z.int().describe("loads that were surely cold: 5 calibrate"),
    }).describe("what loads are classed by now"),
    ram_against_disk: ComparisonWire.nullable().describe("load speed, GB/s; null where one of them was never seen"),
    read,
    truncated,
  }),
  fails: ["unavailable"],
  http: ROUTES["analytics-swaps"],
  cli: { words: ["analytics", "swaps"] },
  tool: { name: "get_swap_statistics", idempotent: true },
  async handle(services, input, { signal }) {
    const report = await services.analytics.swaps(input, signal);
    const limits = services.planner.limits();
    return {
      swap_ms: viewDistribution(report.swapMs),
      yield_ms: viewDistribution(report.yieldMs),
      purge_ms: viewDistribution(report.purgeMs),
      margin_ms: viewDistribution(report.marginMs),
      late_hand_offs: report.lateHandOffs,
      yield_outcomes: { ...report.yieldOutcomes },
      purge_outcomes: { ...report.purgeOutcomes },
      classes: { ...report.classes },
      models: report.models.map((one) => ({
        model: one.model,
        swaps: one.swaps,
        classes: { ...one.classes },
        load_ms: viewDistribution(one.loadMs),
        gb_per_s: viewDistribution(one.gbPerS),
        tokens_per_sec: viewDistribution(one.tokensPerSecond),
      })),
      limits: {
        hit_gb_per_s: round(limits.hitBytesPerSecond / 1e9, 2),
        partial_gb_per_s: round(limits.partialBytesPerSecond / 1e9, 2),
        basis: limits.basis,
        warm_n: limits.warmN,
        cold_n: limits.coldN,
      },
      ram_against_disk: report.ramAgainstDisk === null ? null : viewComparison(report.ramAgainstDisk),
      read: report.read,
      truncated: report.isTruncated,
    };
  },
});

const Line = z.array(z.number().nullable());

export const analyticsTimeseries = define({
  name: "analytics-timeseries",
  summary: "Any figure of the telemetry over any span: least, average and most a bucket",
  access: "read",
  input: z.object({
    metric: z.array(z.enum(METRIC_NAMES)).min(1).max(METRIC_NAMES.length).describe("which figures"),
    from: moment("start; an hour before the end when left out"),
    to: moment("end; now when left out"),
    points: z.int().min(2).max(5_000).default(600).describe("buckets at most"),
  }),
  output: z.object({
    from: time("start of the first bucket"),
    bucket_s: z.number().describe("width of a bucket, seconds"),
    grain: z.enum(["raw", "minute", "hour"]).describe("rows the buckets are made of"),
    at: z.array(z.number()).describe("start of each bucket, Unix seconds"),
    series: z.record(
      z.string(),
      z.object({ unit: z.string(), min: Line, avg: Line, max: Line }),
    ).describe("by metric; null where nothing was recorded"),
  }),
  fails: ["unavailable"],
  http: ROUTES["analytics-timeseries"],
  cli: { words: ["analytics", "timeseries"], positional: [] },
  tool: { name: "get_timeseries", idempotent: true },
  async handle(services, { metric, from, to, points }, { signal }) {
    const metrics = [...new Set(metric)];
    const series = await services.analytics.series(
      { metrics, from: momentOf(from), to: momentOf(to), points },
      signal,
    );
    return {
      from: toIso(series.atMs[0] ?? 0),
      bucket_s: series.bucketMs / 1_000,
      grain: series.grain,
      at: series.atMs.map((ms) => ms / 1_000),
      series: Object.fromEntries(metrics.map((name) => {
        const { min = [], avg = [], max = [] } = series.lines[name] ?? {};
        return [name, { unit: METRICS[name], min: [...min], avg: [...avg], max: [...max] }];
      })),
    };
  },
});

export const analyticsModels = define({
  name: "analytics-models",
  summary: "Which models are used most, lately: each use counts half after three days",
  access: "read",
  input: z.object({ days: days(30) }),
  output: z.object({
    models: z.array(z.object({
      rank: z.int(),
      source: z.enum(["ollama", "comfyui"]),
      model: z.string(),
      uses: z.int(),
      score: z.number().describe("uses, each halved every three days; being unloaded counts as half a use"),
      last_used_at: time("its last use"),
    })),
  }),
  fails: ["unavailable"],
  http: ROUTES["analytics-models"],
  cli: { words: ["analytics", "models"] },
  tool: { name: "get_model_ranking", idempotent: true },
  async handle(services, input, { signal }) {
    const ranked = await services.analytics.models(input, signal);
    return {
      models: ranked.map(({ source, model, uses, score, lastUsedAtMs }, at) => ({
        rank: at + 1,
        source,
        model,
        uses,
        score: round(score, 3),
        last_used_at: toIso(lastUsedAtMs),
      })),
    };
  },
});
