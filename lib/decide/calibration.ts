/**
 * Where a load counts as from RAM and as from disk on this box (SPEC 2.7): what its owner says, else what its own loads
 * have shown, else 2.0 and 0.8 GB/s. Only loads whose pages were counted calibrate, and only what bandwidth can judge.
 */
import type { ClassLimits } from "../model/arbitration.ts";
import type { ClassifyPolicy } from "../model/policy.ts";

/** From here on the weights came from RAM, bytes/s: 0.76 of the 2.63 GB/s that a fully warm 12.87 GB reached. */
export const HIT_BYTES_PER_S = 2.0e9;
/** From here on they came partly from RAM, bytes/s: 2.1 times the 0.38 GB/s of a cold one. */
export const PARTIAL_BYTES_PER_S = 0.8e9;
/** Below this start-up dominates and bandwidth says nothing. */
export const SMALL_BYTES = 2e9;

const HIT_SHARE = 0.76;
const COLD_TIMES = 2.1;
const LEAST_WARM = 10;
const LEAST_COLD = 5;
/** Resident just before, percent, to count as warm or as cold. */
const WARM_PCT = 95;
const COLD_PCT = 10;
/** A disk may be replaced, a machine upgraded: the newest count. */
const KEPT = 50;
const LEAST_READ_GB = 0.5;

/** Bandwidths of loads that were surely warm, and surely cold; bytes/s, oldest first. */
export interface LoadBook {
  readonly warm: readonly number[];
  readonly cold: readonly number[];
  /** What warms read from the disk at: its limit is the best of them. */
  readonly disk: readonly number[];
}

export const NO_LOADS: LoadBook = { warm: [], cold: [], disk: [] };

/** A warm's event, as it was recorded: what it read shows what the disk can do. A short read shows nothing. */
export function noteWarm(book: LoadBook, fields: Readonly<Record<string, unknown>>): LoadBook {
  const { read_gb: readGb, gb_per_s: gbPerS } = fields;
  if (typeof readGb !== "number" || typeof gbPerS !== "number" || readGb < LEAST_READ_GB || gbPerS <= 0) return book;
  return { ...book, disk: [...book.disk, gbPerS * 1e9].slice(-KEPT) };
}

/** The best that the disk was seen to give, bytes/s; null before the first warm. */
export function diskLimit({ disk }: LoadBook): number | null {
  return disk.length === 0 ? null : Math.max(...disk);
}

export interface CountedLoad {
  readonly bytes: number | null;
  readonly bytesPerSecond: number | null;
  readonly residencyPct: number | null;
  /** Every page was counted. */
  readonly isResidencyExact: boolean;
  /** Its time includes no eviction and no wait. */
  readonly isPlain: boolean;
}

export function noteLoad(book: LoadBook, load: CountedLoad): LoadBook {
  const { bytes, bytesPerSecond, residencyPct, isResidencyExact, isPlain } = load;
  const isTelling = isPlain && isResidencyExact && bytes !== null && bytes >= SMALL_BYTES;
  if (!isTelling || bytesPerSecond === null || residencyPct === null) return book;
  const add = (values: readonly number[]) => [...values, bytesPerSecond].slice(-KEPT);
  if (residencyPct >= WARM_PCT) return { ...book, warm: add(book.warm) };
  return residencyPct <= COLD_PCT ? { ...book, cold: add(book.cold) } : book;
}

/** What counts now. Each of the owner's two limits goes before what was measured; below it never lies above hit. */
export function limitsOf(policy: ClassifyPolicy, book: LoadBook): ClassLimits {
  const n = { warmN: book.warm.length, coldN: book.cold.length };
  const found = calibrate(book) ?? { hit: HIT_BYTES_PER_S, partial: PARTIAL_BYTES_PER_S, basis: "default" as const };
  const { hitBytesPerSecond: hit, partialBytesPerSecond: partial } = policy;
  if (hit === null && partial === null) {
    return { hitBytesPerSecond: found.hit, partialBytesPerSecond: found.partial, basis: found.basis, ...n };
  }
  const hitBytesPerSecond = hit ?? Math.max(found.hit, partial ?? 0);
  const partialBytesPerSecond = partial ?? Math.min(found.partial, hitBytesPerSecond);
  return { hitBytesPerSecond, partialBytesPerSecond, basis: "configured", ...n };
}

function calibrate({ warm, cold }: LoadBook) {
  if (warm.length < LEAST_WARM || cold.length < LEAST_COLD) return null;
  const [hit, partial] = [HIT_SHARE * median(warm), COLD_TIMES * median(cold)];
  // A disk nearly as fast as RAM can't be told from it by time.
  return partial < hit ? { hit, partial, basis: "calibrated" as const } : null;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}
