/**
 * What a purge is measured against: what ComfyUI held when `/free` went out. The moment is told only with `/free`'s
 * answer, so what was read since it was asked is kept until then. What it gave back before that moment is none of the
 * purge's doing: taken for it, the purge would end before `/free` had struck.
 */
import type { Bytes, MonotonicMs } from "../model/units.ts";

/** One level of ComfyUI's bytes: readings in a row that showed the same. */
export interface Level {
  readonly bytes: Bytes;
  readonly sinceMs: MonotonicMs;
  readonly readings: number;
}

/** Levels remembered: while memory grows each reading is one, and only those around one moment count. */
const KEPT = 64;

/** Adds a reading. */
export function noteLevel(
  levels: readonly Level[],
  { bytes, atMs }: { readonly bytes: Bytes; readonly atMs: MonotonicMs },
): readonly Level[] {
  const last = levels.at(-1);
  return last?.bytes === bytes
    ? [...levels.slice(0, -1), { ...last, readings: last.readings + 1 }]
    : [...levels, { bytes, sinceMs: atMs, readings: 1 }].slice(-KEPT);
}

/**
 * The lower of the two readings next to that moment, the earlier ones first: a single one may lie between the driver's
 * two calls. Null while there is only one.
 */
export function baselineAt(levels: readonly Level[], atMs: MonotonicMs): Bytes | null {
  const until = levels.filter(({ sinceMs }) => sinceMs <= atMs).length;
  const last = Math.max(0, until - 1);
  const at = levels[last];
  if (at === undefined) return null;
  if (at.readings > 1) return at.bytes;
  const beside = levels[last - 1] ?? levels[last + 1];
  return beside === undefined ? null : Math.min(at.bytes, beside.bytes);
}
