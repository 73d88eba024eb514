/** How a file is read into the cache, and in which pieces. Pure. */
import type { WarmMethod } from "../model/page_cache.ts";
import { type Bytes, KIB, MIB } from "../model/units.ts";

/**
 * From here on the kernel's own read-ahead keeps the disk busy, and telling it ahead only does harm: WILLNEED makes
 * 4 KiB folios, which every later reader pays for (mapping 2 GiB took 49–80 ms instead of 1–2).
 */
const AMPLE_READ_AHEAD = MIB;

/**
 * One call of WILLNEED reads no more than the larger of read-ahead and request size, and says nothing of the rest: in
 * steps of 4 MiB at 128 KiB it left 69 % of a file on the disk.
 */
const AHEAD_PIECE: Bytes = MIB;
const LEAST_PIECE: Bytes = 128 * KIB;

export interface WarmWay {
  readonly method: WarmMethod;
  /** What one WILLNEED asks for; null for the method without. */
  readonly pieceBytes: Bytes | null;
  /** How far ahead of the read position the disk is kept told. */
  readonly aheadBytes: Bytes | null;
}

/** Chooses by the disk's read-ahead; what isn't known counts as small, which is only slower, never incomplete. */
export function warmWay(
  disk: { readonly readAheadBytes: Bytes | null; readonly maxRequestBytes: Bytes | null },
): WarmWay {
  const readAheadBytes = disk.readAheadBytes ?? 0;
  if (readAheadBytes >= AMPLE_READ_AHEAD) return { method: "sendfile", pieceBytes: null, aheadBytes: null };
  const most = Math.max(readAheadBytes, disk.maxRequestBytes ?? 0, LEAST_PIECE);
  return { method: "sendfile_ahead", pieceBytes: Math.min(AHEAD_PIECE, most), aheadBytes: 8 * MIB };
}

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
