/**
 * What a load achieved, by bandwidth (SPEC 2.7): bytes ÷ load time. Measured on one box: 12.87 GB fully warm in 4.901 s
 * (2.63 GB/s), cold in 34.267 s (0.38 GB/s). A fixed duration is wrong, and so is the bus rate.
 */
import type { ClassLimits, LoadClass, LoadFigures, PcieLink, SwapPhases } from "../model/arbitration.ts";
import type { GpuState } from "../model/sample.ts";
import { type Bytes, round } from "../model/units.ts";
import { limitsOf, NO_LOADS, SMALL_BYTES } from "./calibration.ts";

/** Residency limits for small models, percent (SPEC 2.7). */
const HIT_PCT = 90;
const PARTIAL_PCT = 50;

export interface LoadFacts {
  readonly bytes: Bytes | null;
  readonly loadMs: number | null;
  /** Page-cache residency measured just before; null when it wasn't. */
  readonly residencyPct: number | null;
  /** Every page was counted, not a sample of them. */
  readonly isResidencyExact?: boolean;
  /** False when the time includes an eviction or queueing. */
  readonly isPlain: boolean;
}

export interface Classification {
  readonly class: LoadClass;
  readonly basis: string;
  readonly bytesPerSecond: number | null;
}

/** 2.0 and 0.8 GB/s. */
const BUILT_IN = limitsOf({ hitBytesPerSecond: null, partialBytesPerSecond: null }, NO_LOADS);

export function classifyLoad(load: LoadFacts, limits: ClassLimits = BUILT_IN): Classification {
  const { bytes, loadMs, residencyPct } = load;
  const bytesPerSecond = bytes === null || loadMs === null || loadMs <= 0 ? null : (bytes / loadMs) * 1000;
  if (bytesPerSecond === null || bytes === null) {
    return { class: "unclassified", basis: "no load time was given", bytesPerSecond: null };
  }
  if (bytes < SMALL_BYTES) {
    if (residencyPct === null) {
      const basis = "below 2 GB start-up dominates, and residency was not measured before the load";
      return { class: "unclassified", basis, bytesPerSecond };
    }
    return { class: byResidency(residencyPct), basis: `residency before: ${residencyPct} %`, bytesPerSecond };
  }
  if (!load.isPlain) {
    return { class: "unclassified", basis: "the load time includes an eviction or a wait", bytesPerSecond };
  }
  const found = byBandwidth(bytesPerSecond, limits);
  const basis = `bandwidth: model bytes ÷ load time${whence(limits)}`;
  const seen = residencyPct === null ? found : byResidency(residencyPct);
  if (seen === found) return { class: found, basis, bytesPerSecond };
  // Both are shown; pages that were counted are the better witness, since a load's time has more than reading in it.
  const isOver = load.isResidencyExact === true;
  const against = isOver
    ? `${basis} says ${WORDS[found]}`
    : `yet ${residencyPct} % of it seemed to be in memory before`;
  return {
    class: isOver ? seen : found,
    basis: isOver ? `residency before: ${residencyPct} %; ${against}` : `${basis}; ${against}`,
    bytesPerSecond,
  };
}

function byResidency(pct: number): LoadClass {
  if (pct >= HIT_PCT) return "ram_hit";
  return pct >= PARTIAL_PCT ? "partial" : "cold";
}

function byBandwidth(bytesPerSecond: number, limits: ClassLimits): LoadClass {
  if (bytesPerSecond >= limits.hitBytesPerSecond) return "ram_hit";
  return bytesPerSecond >= limits.partialBytesPerSecond ? "partial" : "cold";
}

/** Limits that aren't the built-in ones are said, with what they rest on. */
function whence({ basis, hitBytesPerSecond, partialBytesPerSecond, warmN, coldN }: ClassLimits): string {
  if (basis === "default") return "";
  const limits = `${rate(hitBytesPerSecond)} and ${rate(partialBytesPerSecond)} GB/s`;
  return basis === "configured"
    ? `, by the configured ${limits}`
    : `, by ${limits}: calibrated from ${warmN} warm and ${coldN} cold loads`;
}

function rate(bytesPerSecond: number): string {
  return (bytesPerSecond / 1e9).toFixed(2);
}

const WORDS: Readonly<Record<LoadClass, string>> = {
  ram_hit: "RAM Cache Hit",
  partial: "Partial Cache",
  cold: "Cold Disk Load",
  unclassified: "Unclassified",
};

/** One sentence for people. */
export function verdictOf(found: Classification): string {
  const speed = found.bytesPerSecond === null ? "" : ` at ${rate(found.bytesPerSecond)} GB/s`;
  return `${WORDS[found.class]}${speed} (${found.basis})`;
}

export interface SwapFacts {
  readonly found: Classification;
  readonly figures: Pick<LoadFigures, "sizeBytes" | "link" | "diskBytesPerSecond">;
  readonly phases: SwapPhases;
  readonly residencyPct: number | null;
  readonly spilled: boolean | null;
}

/** "Why was that slow?", in words: the class, and whatever else explains the time. */
export function explainSwap({ found, figures, phases, residencyPct, spilled }: SwapFacts): string {
  const { sizeBytes, link } = figures;
  const because: string[] = [];
  if (sizeBytes !== null && residencyPct !== null && residencyPct < 90) {
    const missing = sizeBytes * (1 - residencyPct / 100);
    const limit = figures.diskBytesPerSecond === null
      ? ""
      : `, which gave ${rate(figures.diskBytesPerSecond)} GB/s at best`;
    because.push(
      `${(missing / 1e9).toFixed(1)} of its ${(sizeBytes / 1e9).toFixed(1)} GB had to come from disk${limit}`,
    );
  }
  if (link !== null && isNarrow(link)) because.push(`the card's PCIe link runs at x${link.width} of x${link.maxWidth}`);
  if (spilled === true) because.push("part of it lies outside VRAM, where it runs on the CPU");
  if (phases.roomMs !== null && phases.roomMs > (phases.loadMs ?? 0)) {
    because.push(`making room took ${round(phases.roomMs / 1000)} s of it`);
  }
  if (phases.waitMs !== null) because.push(`it was held back for ${round(phases.waitMs / 1000)} s after a hand-off`);
  return [verdictOf(found), ...because].join("; ");
}

/** The card's link as it runs now; null where the card doesn't say. */
export function linkOf(gpu: GpuState): PcieLink | null {
  if (!gpu.available) return null;
  const { gen, width } = gpu.reading.pcie;
  if (gen === null || width === null) return null;
  return { gen, width, maxGen: gpu.facts.pcieMaxGen, maxWidth: gpu.facts.pcieMaxWidth };
}

/** The generation falls by itself while a card is idle, lanes don't. */
export function isNarrow({ width, maxWidth }: { readonly width: number; readonly maxWidth: number | null }): boolean {
  return maxWidth !== null && width < maxWidth;
}

/** What a PCIe lane carries, bytes/s, by generation. */
const LANE_BYTES_PER_S: readonly number[] = [0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9];

/** What the link could carry as it ran, bytes/s; null for a generation that isn't known here. */
export function linkRate({ gen, width }: { readonly gen: number; readonly width: number }): number | null {
  const lane = LANE_BYTES_PER_S[gen];
  return lane === undefined || lane === 0 ? null : lane * width;
}
