/** The latest sweep's steps, by value: what the table and the curve are drawn of. */
import type { Answer } from "./call.ts";

export type Autotune = Answer<"autotune">;
type Step = Autotune["steps"][number];

export interface SweepPoint {
  readonly value: number | "stock";
  readonly isControl: boolean;
  readonly samples: readonly number[];
  readonly median: number | null;
  readonly verdict: string;
  readonly reason: string | null;
  readonly hottestC: number | null;
  readonly powerW: number | null;
}

export interface SweepPicture {
  readonly id: string;
  readonly knob: string;
  readonly workload: "ollama" | "comfy";
  readonly model: string | null;
  /** In the order they were measured; preflight, warm-up and confirmation left out. */
  readonly points: readonly SweepPoint[];
  /** How many steps there were besides. */
  readonly confirmations: number;
}

const DRAWN: ReadonlySet<string> = new Set(["control", "unlocked", "candidate"]);

/** Null while nothing was swept yet. */
export function latestSweep({ steps }: Autotune): SweepPicture | null {
  const newest = steps[0];
  if (newest === undefined) return null;
  const own = steps.filter((step) => step["sweep"] === newest["sweep"]).toReversed();
  const drawn = own.filter((step) => DRAWN.has(textOf(step["role"]) ?? "") && step["verdict"] !== "cut_short");
  return {
    id: textOf(newest["sweep"]) ?? "",
    knob: textOf(newest["knob"]) ?? "",
    workload: newest["workload"] === "comfy" ? "comfy" : "ollama",
    model: textOf(newest["model"]),
    points: drawn.map(pointOf),
    confirmations: own.filter((step) => textOf(step["role"])?.startsWith("confirm") === true).length,
  };
}

function pointOf(step: Step): SweepPoint {
  const samples: readonly unknown[] = Array.isArray(step["samples"]) ? step["samples"] : [];
  return {
    value: numberOf(step["value"]) ?? "stock",
    isControl: step["role"] === "control",
    samples: samples.flatMap((sample) =>
      typeof sample === "object" && sample !== null && "per_second" in sample ? numberOf(sample.per_second) ?? [] : []
    ),
    median: numberOf(step["per_second"]),
    verdict: textOf(step["verdict"]) ?? "",
    reason: textOf(step["reason"]),
    hottestC: numberOf(step["temperature_max_c"]),
    powerW: numberOf(step["power_w"]),
  };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
