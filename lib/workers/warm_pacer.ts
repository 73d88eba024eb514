/** Keeps a warm's pace: waits where it must, and listens in the silence for others who use the disk. */
import type { ChunkRead } from "../decide/warm_method.ts";
import {
  initialPace,
  isDisturbing,
  isSuspicious,
  nextReadMs,
  type PaceState,
  POLITE_BYTES_PER_S,
  readsAhead,
  reducePace,
  type Silence,
} from "../decide/warm_pace.ts";
import type { WarmMethod } from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import { type Bytes, MIB, type MonotonicMs } from "../model/units.ts";
import type { Disks, DiskUse } from "../sample/disks.ts";
import type { SharedProgress } from "./warm_protocol.ts";

/** A first silence may still bring in what we had asked for; a disk that isn't quiet after this many belongs to others. */
const LISTENINGS = 4;
const LEAST_SPAN_MS = 4;
const MOST_SPAN_MS = 50;
/** Our read-ahead that can be in flight when we stop. */
const IN_FLIGHT: Bytes = 16 * MIB;
/** A pause is worth listening in from here on; its first third is left to our own read-ahead. */
const LISTENABLE_PAUSE_MS = 12;
/** How often noise is looked for, and over how much of ours it means something. */
const NOISE_MS = 80;
const LEAST_NOISE_BYTES: Bytes = 4 * MIB;
/** The share of the newest call in the running mean of the disk's speed. */
const NEWEST = 0.2;

export interface PacerParts {
  readonly clock: Clock;
  readonly disks: Disks;
  readonly shared: SharedProgress;
  readonly bytesPerS: "auto" | number;
}

export class WarmPacer {
  readonly #parts: PacerParts;
  #state: PaceState;
  /** When the pace allows the next call. */
  #nextAtMs: number;
  /** Running mean while at full speed; null before the first call. */
  #fullBytesPerS: number | null = null;
  #heldBackMs = 0;
  /** What the disk and we have done since it was last looked at. */
  #noise: { readonly sinceMs: MonotonicMs; readonly use: DiskUse | null; ownBytes: Bytes };
  #leastReadsPerByte: number | null = null;
  #method: WarmMethod | null = null;
  #between: { readonly ms: number; readonly reads: number } | null = null;

  constructor(parts: PacerParts) {
    this.#parts = parts;
    const atMs = parts.clock.monotonicMs();
    this.#nextAtMs = atMs;
    this.#noise = { sinceMs: atMs, use: null, ownBytes: 0 };
    // A disk without statistics can't be listened to: whoever asks for politeness gets it all the time.
    const bytesPerS = parts.bytesPerS === "auto" && parts.disks.use() === null ? POLITE_BYTES_PER_S : parts.bytesPerS;
    this.#adopt(this.#state = initialPace(bytesPerS, atMs));
  }

  /** Null = as fast as the disk can. */
  get bytesPerS(): number | null {
    return this.#state.bytesPerS;
  }

  /** What the kernel is to be told of how the file is read. */
  get advice(): "sequential" | "random" {
    return readsAhead(this.#state) ? "sequential" : "random";
  }

  get heldBackMs(): number {
    return this.#heldBackMs;
  }

  /** Before a call: waits as long as the pace wants, and listens when it is time. */
  await(): void {
    const { clock, shared } = this.#parts;
    const beganMs = clock.monotonicMs();
    const { listenAtMs, pace } = this.#state;
    // Noise is looked for first, so that its figures go on.
    if (listenAtMs !== null && (this.#hasNoise(beganMs) || beganMs >= listenAtMs)) this.#listen(beganMs);
    const pauseMs = this.#nextAtMs - clock.monotonicMs();
    if (pace === "polite" && pauseMs >= LISTENABLE_PAUSE_MS) this.#listenInPause(pauseMs);
    else shared.wait(pauseMs);
    this.#heldBackMs += clock.monotonicMs() - beganMs;
  }

  /** After a call. */
  moved({ bytes, diskBytes, ms, method }: ChunkRead): void {
    const { pace } = this.#state;
    // Resident pages say nothing of the disk.
    if (pace === "full" && diskBytes >= bytes / 2) {
      const speed = bytes / Math.max(0.05, ms) * 1000;
      this.#fullBytesPerS = this.#fullBytesPerS === null ? speed : this.#fullBytesPerS * (1 - NEWEST) + speed * NEWEST;
    }
    this.#noise.ownBytes += diskBytes;
    const toMs = this.#parts.clock.monotonicMs();
    if (method !== this.#method) this.#hearAnew(method, toMs);
    this.#nextAtMs = nextReadMs(this.#state, { bytes, fromMs: toMs - ms, toMs, dueMs: this.#nextAtMs });
  }

  /** Another method's reads are of another size, and more of them would pass for somebody else's. */
  #hearAnew(method: WarmMethod, atMs: MonotonicMs): void {
    this.#method = method;
    this.#leastReadsPerByte = null;
    this.#noise = { sinceMs: atMs, use: this.#parts.disks.use(), ownBytes: 0 };
  }

  /** Whether the disk has been busier of late than we alone would make it. */
  #hasNoise(atMs: MonotonicMs): boolean {
    const { sinceMs, use, ownBytes } = this.#noise;
    if (atMs - sinceMs < NOISE_MS) return false;
    const now = this.#parts.disks.use();
    this.#noise = { sinceMs: atMs, use: now, ownBytes: 0 };
    if (use === null || now === null || ownBytes < LEAST_NOISE_BYTES) return false;
    const reads = now.reads - use.reads;
    const isSuspicion = isSuspicious({ reads, ownBytes, leastReadsPerByte: this.#leastReadsPerByte });
    this.#leastReadsPerByte = Math.min(this.#leastReadsPerByte ?? Infinity, reads / ownBytes);
    return isSuspicion;
  }

  #listen(beganMs: number): void {
    const { clock, shared } = this.#parts;
    const spanMs = this.#spanMs();
    let silence: Silence | null = null;
    for (let turn = 0; turn < LISTENINGS && !shared.isCancelled; turn++) {
      silence = this.#hear(spanMs);
      if (silence === null || !isDisturbing(silence)) break;
    }
    const endMs = clock.monotonicMs();
    this.#noise = { sinceMs: endMs, use: this.#parts.disks.use(), ownBytes: 0 };
    if (silence !== null) this.#reduce(silence, endMs - beganMs);
  }

  #listenInPause(pauseMs: number): void {
    this.#parts.shared.wait(pauseMs / 3);
    const silence = this.#hear(pauseMs * 2 / 3);
    if (silence === null) return;
    this.#between = this.#othersSince(silence);
    this.#reduce(silence, 0);
    this.#noise = { sinceMs: silence.atMs, use: this.#parts.disks.use(), ownBytes: 0 };
  }

  /** What others read between the last silence and the beginning of this one. */
  #othersSince(silence: Silence): { readonly ms: number; readonly reads: number } | null {
    const { sinceMs, use, ownBytes } = this.#noise;
    const now = this.#parts.disks.use();
    if (use === null || now === null) return null;
    // Not read ahead, they are of 1 MiB each at most.
    const own = Math.max(this.#leastReadsPerByte ?? 0, 1 / MIB) * ownBytes;
    const reads = Math.max(0, now.reads - use.reads - silence.reads - own);
    return { ms: silence.atMs - silence.spanMs - sinceMs, reads };
  }

  /** As long as our own read-ahead needs to come in. */
  #spanMs(): number {
    if (this.#fullBytesPerS === null) return LEAST_SPAN_MS;
    return Math.min(MOST_SPAN_MS, Math.max(LEAST_SPAN_MS, IN_FLIGHT / this.#fullBytesPerS * 1000));
  }

  #hear(spanMs: number): Silence | null {
    const { clock, disks, shared } = this.#parts;
    const before = disks.use();
    const fromMs = clock.monotonicMs();
    shared.wait(spanMs);
    const after = disks.use();
    const atMs = clock.monotonicMs();
    return before === null || after === null ? null : { atMs, spanMs: atMs - fromMs, ...difference(before, after) };
  }

  #reduce(silence: Silence, costMs: number): void {
    const between = this.#between;
    this.#between = null;
    this.#adopt(reducePace(this.#state, { silence, costMs, fullBytesPerS: this.#fullBytesPerS, between }));
  }

  #adopt(state: PaceState): void {
    if (state.pace !== this.#state.pace) this.#nextAtMs = this.#parts.clock.monotonicMs();
    this.#state = state;
    this.#parts.shared.pace = state.pace;
  }
}

function difference(before: DiskUse, after: DiskUse): DiskUse {
  return {
    reads: after.reads - before.reads,
    readBytes: after.readBytes - before.readBytes,
    writtenBytes: after.writtenBytes - before.writtenBytes,
  };
}
