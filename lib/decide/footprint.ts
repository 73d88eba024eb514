/**
 * What a model, or ComfyUI, was measured to take (SPEC 2.10, the part that decides whether to yield). Never used below
 * three measurements; the largest of the last ten counts.
 */
import type { Bytes } from "../model/units.ts";

/** Measurements before a footprint is used (SPEC 2.10). */
export const LEAST_MEASUREMENTS = 3;
/** How many of the last measurements count (SPEC 2.2: its last 10 workflows). */
const KEPT = 10;

/** The last measured sizes by key, oldest first, bytes. */
export type Footprints = Readonly<Record<string, readonly Bytes[]>>;

export function remember(footprints: Footprints, key: string, bytes: Bytes): Footprints {
  const kept = [...(footprints[key] ?? []), bytes].slice(-KEPT);
  return { ...footprints, [key]: kept };
}

/** The need to reckon with, or null below three measurements. */
export function knownNeed(footprints: Footprints, key: string): Bytes | null {
  const measured = footprints[key] ?? [];
  return measured.length < LEAST_MEASUREMENTS ? null : Math.max(...measured);
}
