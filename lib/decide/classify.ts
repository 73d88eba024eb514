/**
 * What a load achieved, by bandwidth (SPEC 2.7): bytes ÷ load time. Measured on one box: 12.87 GB fully warm in 4.901 s
 * (2.63 GB/s), cold in 34.267 s (0.38 GB/s). A fixed duration is wrong, and so is the bus rate.
 */
import type { LoadClass } from "../model/arbitration.ts";
import type { Bytes } from "../model/units.ts";

/** From here on the weights came from RAM, bytes/s (SPEC 2.7). */
export const HIT_BYTES_PER_S = 2.0e9;
/** From here on they came partly from RAM, bytes/s (SPEC 2.7). */
export const PARTIAL_BYTES_PER_S = 0.8e9;
/** Below this start-up dominates and bandwidth says nothing (SPEC 2.7). */
export const SMALL_BYTES = 2e9;
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

export function classifyLoad(load: LoadFacts): Classification {
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
  const found = byBandwidth(bytesPerSecond);
  const basis = "bandwidth: model bytes ÷ load time";
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

function byBandwidth(bytesPerSecond: number): LoadClass {
  if (bytesPerSecond >= HIT_BYTES_PER_S) return "ram_hit";
  return bytesPerSecond >= PARTIAL_BYTES_PER_S ? "partial" : "cold";
}

const WORDS: Readonly<Record<LoadClass, string>> = {
  ram_hit: "RAM Cache Hit",
  partial: "Partial Cache",
  cold: "Cold Disk Load",
  unclassified: "Unclassified",
};

/** One sentence for people. */
export function verdictOf(found: Classification): string {
  const rate = found.bytesPerSecond === null ? "" : ` at ${(found.bytesPerSecond / 1e9).toFixed(2)} GB/s`;
  return `${WORDS[found.class]}${rate} (${found.basis})`;
}
