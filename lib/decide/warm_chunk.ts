/** How much a warm reads before it looks around again. Pure. */
import { type Bytes, KIB, MIB } from "../model/units.ts";

const LEAST_CHUNK: Bytes = 256 * KIB;
const MOST_CHUNK: Bytes = 8 * MIB;
const CHUNK_STEP: Bytes = 64 * KIB;
/** What one call should take: a cancel waits for it, and more calls cost more CPU. */
const CHUNK_MS = 25;
/** At a fixed pace a chunk shall not be worth more than this, or reading comes in gulps. */
const GULP_MS = 40;

export const FIRST_CHUNK: Bytes = MIB;

/** The next call's size, from how long the last took. */
export function nextChunk(
  last: { readonly bytes: Bytes; readonly ms: number },
  bytesPerS: number | null,
): Bytes {
  // A call for resident pages takes next to nothing.
  const byTime = last.bytes / Math.max(0.05, last.ms) * CHUNK_MS;
  const byPace = bytesPerS === null ? MOST_CHUNK : bytesPerS * GULP_MS / 1000;
  const bytes = Math.floor(Math.min(byTime, byPace) / CHUNK_STEP) * CHUNK_STEP;
  return Math.max(LEAST_CHUNK, Math.min(MOST_CHUNK, bytes));
}
