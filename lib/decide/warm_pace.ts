/**
 * How fast a warm may read: at full speed while nobody else uses the disk, at 300 MB/s once somebody does. Pure.
 *
 * Others can't be told from ourselves while we read: our read-ahead is in flight all the time. So the warm pauses for a
 * few milliseconds now and then and listens: what the disk does in that silence, others do.
 */
import type { WarmPace } from "../model/page_cache.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";

/** At 300 MB/s a foreground reader kept 88 % of its rate; at 1,000 MB/s 65 %, at full speed 32 % (idle class). */
export const POLITE_BYTES_PER_S = 300e6;

/**
 * A disk that can't do several times that would still be taken over: its reader is kept waiting while we read, so we read
 * for a sixth of the time at most. On a disk of 0.4 GB/s a warm at 300 MB/s left a reader 39 % of its rate.
 */
const POLITE_SHARE = 0.15;
const PAUSES_PER_READ = 5;
/** One slow call shall not stop everything. */
const MOST_PAUSE_MS = 1_000;
const LEAST_POLITE_BYTES_PER_S = 10e6;

/** Silence in a row after which a polite warm runs at full speed again; the promise is 2 s. */
const QUIET_MS = 1_000;
/** Of the time, this share is spent on listening while at full speed, unless that would be too seldom. */
const LISTENING_SHARE = 0.02;
const LEAST_INTERVAL_MS = 250;
const MOST_INTERVAL_MS = 1_000;

/** Use of a disk that isn't worth giving way to: a journal's commits, our own record. */
const NEGLIGIBLE_READS_PER_S = 20;
const NEGLIGIBLE_BYTES_PER_S = 8e6;

/**
 * What the others shall keep of the rate they have in our silences, and how the pace follows: a reader of 13,000 IOPS kept
 * 45 % beside 250 MB/s on a disk that had just done 2 GB/s from its own cache, and 88 % on one that does 5.
 */
const KEPT = { least: 0.86, ample: 0.93 } as const;
const SLOWER = 0.65;
const FASTER = 1.2;
/** Silence and reading together that one judgement takes; fewer reads in them than this say nothing. */
const JUDGED_MS = 250;
const JUDGED_READS = 20;

/** What the disk did while we read nothing. */
export interface Silence {
  readonly atMs: MonotonicMs;
  readonly spanMs: number;
  readonly reads: number;
  readonly readBytes: Bytes;
  readonly writtenBytes: Bytes;
}

/** What others did in silences, and what they did in all, since the pace was last judged. */
export interface Tally {
  readonly silentMs: number;
  readonly silentReads: number;
  readonly ms: number;
  readonly reads: number;
}

export interface PaceState {
  readonly pace: WarmPace;
  /** Null = as fast as the disk can. */
  readonly bytesPerS: number | null;
  /** Silences of the last second while polite, oldest first. */
  readonly heard: readonly Silence[];
  /** Since when it is polite; null while it isn't. */
  readonly politeSinceMs: MonotonicMs | null;
  readonly tally: Tally;
  /** When to listen next; null = never (fixed), or in every pause (polite). */
  readonly listenAtMs: MonotonicMs | null;
}

const NO_TALLY: Tally = { silentMs: 0, silentReads: 0, ms: 0, reads: 0 };

/** The pace a warm starts with: it listens before it reads. */
export function initialPace(bytesPerS: "auto" | number, atMs: MonotonicMs): PaceState {
  const none = { heard: [], politeSinceMs: null, tally: NO_TALLY };
  return bytesPerS === "auto"
    ? { ...none, pace: "full", bytesPerS: null, listenAtMs: atMs }
    : { ...none, pace: "fixed", bytesPerS, listenAtMs: null };
}

/** Whether others use the disk enough to give way. One read alone is nobody. */
export function isDisturbing({ spanMs, reads, readBytes, writtenBytes }: Omit<Silence, "atMs">): boolean {
  if (spanMs <= 0) return false;
  const perS = (count: number) => count / spanMs * 1000;
  const isReading = reads > 1 && perS(reads) > NEGLIGIBLE_READS_PER_S;
  return isReading || perS(readBytes) > NEGLIGIBLE_BYTES_PER_S && reads > 1 ||
    perS(writtenBytes) > NEGLIGIBLE_BYTES_PER_S;
}

/**
 * What the disk did while we read, seen from outside. Ours are few and large, so that more reads than usual for what we
 * read are probably somebody's: reason enough to listen at once.
 */
export interface Noise {
  readonly reads: number;
  readonly ownBytes: Bytes;
  /** The fewest reads for a byte of ours so far; null before the first figure. */
  readonly leastReadsPerByte: number | null;
}

export function isSuspicious({ reads, ownBytes, leastReadsPerByte }: Noise): boolean {
  if (leastReadsPerByte === null) return false;
  const own = leastReadsPerByte * ownBytes;
  return reads - own > Math.max(8, own);
}

/**
 * Whether the kernel may read ahead of us. Its windows of up to 16 MiB come in after the call that set them off: beside
 * others that is a burst they wait for, and it falls into the silence, where it would pass for theirs.
 */
export function readsAhead({ bytesPerS }: Pick<PaceState, "bytesPerS">): boolean {
  return bytesPerS === null || bytesPerS > POLITE_BYTES_PER_S;
}

/** When the next read may begin; `fromMs` is when this one began, `dueMs` when it was due. */
export function nextReadMs(
  state: PaceState,
  last: {
    readonly bytes: Bytes;
    readonly fromMs: MonotonicMs;
    readonly toMs: MonotonicMs;
    readonly dueMs: MonotonicMs;
  },
): MonotonicMs {
  const { pace, bytesPerS } = state;
  if (bytesPerS === null) return last.toMs;
  // Time that was lost isn't caught up on: that would be a burst.
  const byRateMs = Math.max(last.dueMs, last.fromMs) + last.bytes / bytesPerS * 1000;
  if (pace !== "polite") return byRateMs;
  return Math.max(byRateMs, last.toMs + Math.min(MOST_PAUSE_MS, (last.toMs - last.fromMs) * PAUSES_PER_READ));
}

/** What was heard, what listening cost, and how fast the disk was for us; null where that isn't known yet. */
export interface Listened {
  readonly silence: Silence;
  readonly costMs: number;
  readonly fullBytesPerS: number | null;
  /** Since the last silence: how long, and what others read in it; null where that isn't known. */
  readonly between: { readonly ms: number; readonly reads: number } | null;
}

export function reducePace(state: PaceState, listened: Listened): PaceState {
  const { silence, costMs, fullBytesPerS } = listened;
  if (state.pace === "fixed") return state;
  if (state.pace === "full") {
    if (isDisturbing(silence)) return polite(silence, fullBytesPerS);
    const interval = Math.min(MOST_INTERVAL_MS, Math.max(LEAST_INTERVAL_MS, costMs / LISTENING_SHARE));
    return { ...state, listenAtMs: silence.atMs + interval };
  }
  const heard = [...state.heard, silence].filter(({ atMs }) => atMs > silence.atMs - QUIET_MS);
  const isLongEnough = state.politeSinceMs !== null && silence.atMs - state.politeSinceMs >= QUIET_MS;
  if (!isLongEnough || isDisturbing(sum(heard))) return { ...state, heard, ...judged(state, listened) };
  const listenAtMs = silence.atMs + LEAST_INTERVAL_MS;
  return { pace: "full", bytesPerS: null, heard: [], politeSinceMs: null, tally: NO_TALLY, listenAtMs };
}

function polite(silence: Silence, fullBytesPerS: number | null): PaceState {
  const share = fullBytesPerS === null ? POLITE_BYTES_PER_S : fullBytesPerS * POLITE_SHARE;
  return {
    pace: "polite",
    bytesPerS: Math.max(LEAST_POLITE_BYTES_PER_S, Math.min(POLITE_BYTES_PER_S, share)),
    heard: [silence],
    politeSinceMs: silence.atMs,
    tally: NO_TALLY,
    listenAtMs: null,
  };
}

/** Slower while others lose too much by us, faster again while they lose next to nothing. */
function judged(
  { tally, bytesPerS }: PaceState,
  { silence, between }: Listened,
): Pick<PaceState, "tally" | "bytesPerS"> {
  if (between === null || bytesPerS === null) return { tally, bytesPerS };
  const sum: Tally = {
    silentMs: tally.silentMs + silence.spanMs,
    silentReads: tally.silentReads + silence.reads,
    ms: tally.ms + between.ms + silence.spanMs,
    reads: tally.reads + between.reads + silence.reads,
  };
  if (sum.ms < JUDGED_MS) return { tally: sum, bytesPerS };
  if (sum.silentReads < JUDGED_READS) return { tally: NO_TALLY, bytesPerS };
  const kept = (sum.reads / sum.ms) / (sum.silentReads / sum.silentMs);
  const factor = kept < KEPT.least ? SLOWER : kept > KEPT.ample ? FASTER : 1;
  return {
    tally: NO_TALLY,
    bytesPerS: Math.max(LEAST_POLITE_BYTES_PER_S, Math.min(POLITE_BYTES_PER_S, bytesPerS * factor)),
  };
}

function sum(heard: readonly Silence[]): Omit<Silence, "atMs"> {
  const add = (of: (silence: Silence) => number) => heard.reduce((total, silence) => total + of(silence), 0);
  return {
    spanMs: add(({ spanMs }) => spanMs),
    reads: add(({ reads }) => reads),
    readBytes: add(({ readBytes }) => readBytes),
    writtenBytes: add(({ writtenBytes }) => writtenBytes),
  };
}
