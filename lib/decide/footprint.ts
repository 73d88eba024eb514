/**
 * What a model, or ComfyUI, was measured to take (SPEC 2.10, the part that decides whether to yield). Like is reckoned
 * with like: another context size or number of slots takes other memory. Never used below three measurements; the
 * largest of the last ten counts.
 */
import type { ProcessId } from "../model/tenants.ts";
import { isSameProcess } from "../model/tenants.ts";
import type { Bytes } from "../model/units.ts";

/** Measurements before a footprint is used (SPEC 2.10). */
export const LEAST_MEASUREMENTS = 3;
/** How many of the last measurements count (SPEC 2.2: its last 10 workflows), and how many of all shapes are kept. */
const COUNTED = 10;
const KEPT = 30;

/** One stay in VRAM. */
export interface Measurement {
  readonly peakBytes: Bytes;
  /** What it came to rest at; null where only the most is known. */
  readonly steadyBytes: Bytes | null;
  /** How it was loaded: tokens of context a slot, and slots; null where nobody says, or for ComfyUI. */
  readonly contextLength: number | null;
  readonly parallel: number | null;
  /** The runner it was; a later look at the same one corrects it instead of counting twice. */
  readonly process: ProcessId | null;
}

/** By key, oldest first. */
export type Footprints = Readonly<Record<string, readonly Measurement[]>>;

/** A stay of which only the most is known. */
export function peakOf(peakBytes: Bytes): Measurement {
  return { peakBytes, steadyBytes: null, contextLength: null, parallel: null, process: null };
}

export function remember(
  footprints: Footprints,
  { key, measured }: { readonly key: string; readonly measured: Measurement },
): Footprints {
  const others = (footprints[key] ?? []).filter(({ process }) =>
    process === null || measured.process === null || !isSameProcess(process, measured.process)
  );
  return { ...footprints, [key]: [...others, measured].slice(-KEPT) };
}

/** Those of one shape, the newest ten. */
export function alike(measured: readonly Measurement[], shape: Shape | undefined): readonly Measurement[] {
  if (shape === undefined) return [];
  return measured.filter((one) => isAlike(one, shape)).slice(-COUNTED);
}

export type Shape = Pick<Measurement, "contextLength" | "parallel">;

export function isAlike(a: Shape, b: Shape): boolean {
  return a.contextLength === b.contextLength && a.parallel === b.parallel;
}

/** Those that count for the next load: it will most likely be loaded as the last one was. */
export function counting(footprints: Footprints, key: string): readonly Measurement[] {
  const measured = footprints[key] ?? [];
  return alike(measured, measured.at(-1));
}

/** The need to reckon with, or null below three measurements. */
export function knownNeed(footprints: Footprints, key: string): Bytes | null {
  const measured = counting(footprints, key);
  return measured.length < LEAST_MEASUREMENTS ? null : Math.max(...measured.map(({ peakBytes }) => peakBytes));
}
