/** How much a warm reads before it looks around again. Pure. */
import { type Bytes, KIB, MIB } from "../model/units.ts";

const LEAST_CHUNK: Bytes = 256 * KIB;
/** What is done between two costs CPU: 2 GiB of a disk of 3 GB/s took about 90 ms of it in chunks of 8 MiB, 60 in these. */
const MOST_CHUNK: Bytes = 32 * MIB;
const CHUNK_STEP: Bytes = 64 * KIB;
/** What a chunk should take, of the disk or of the pace: others who want the disk are noticed between two, or wait for it. */
const CHUNK_MS = 25;

export const FIRST_CHUNK: Bytes = MIB;

/** The next call's size, from how long the last took. */
export function nextChunk(
  last: { readonly bytes: Bytes; readonly ms: number },
  bytesPerS: number | null,
): Bytes {
  // A call for resident pages takes next to nothing.
  const byTime = last.bytes / Math.max(0.05, last.ms) * CHUNK_MS;
  const byPace = bytesPerS === null ? MOST_CHUNK : bytesPerS / 1000 * CHUNK_MS;
  const bytes = Math.floor(Math.min(byTime, byPace) / CHUNK_STEP) * CHUNK_STEP;
  return Math.max(LEAST_CHUNK, Math.min(MOST_CHUNK, bytes));
}
