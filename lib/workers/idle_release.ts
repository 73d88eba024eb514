/**
 * When an idle card's library is let go. An open handle alone keeps a laptop's second GPU awake; once it is closed, the
 * kernel suspends the card about 6 s later. Only where the kernel may do that, and nothing of ours is set on it.
 */
import type { GpuReading } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";

/** A card that isn't suspended by then is somebody else's, or can't be: it is looked at again. */
const GRACE_MS = 20_000;
/** After a release that let nothing sleep the next one waits twice as long, up to this. */
const LONGEST_IDLE_MS = 600_000;

export class IdleRelease {
  readonly #idleMs: number;
  #waitMs: number;
  #idleSinceMs: MonotonicMs | null = null;
  #released: { readonly sinceMs: MonotonicMs; hasSlept: boolean } | null = null;

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
    this.#waitMs = idleMs;
  }

  /** After a reading: whether to let go now. `mayRelease` is asked only once the card has been idle long enough. */
  isDue(reading: GpuReading, { atMs, mayRelease }: { atMs: MonotonicMs; mayRelease: () => boolean }): boolean {
    if (!isIdle(reading)) {
      this.#idleSinceMs = null;
      return false;
    }
    this.#idleSinceMs ??= atMs;
    if (atMs - this.#idleSinceMs < this.#waitMs || !mayRelease()) return false;
    this.#idleSinceMs = null;
    this.#released = { sinceMs: atMs, hasSlept: false };
    return true;
  }

  /** Whether it stays let go, by what the kernel says of the card. */
  isResting({ atMs, isAsleep }: { readonly atMs: MonotonicMs; readonly isAsleep: boolean }): boolean {
    const released = this.#released;
    if (released === null) return false;
    if (isAsleep) {
      released.hasSlept = true;
      this.#waitMs = this.#idleMs;
      return true;
    }
    // Awake again after its sleep: a program uses it.
    if (!released.hasSlept && atMs - released.sinceMs < GRACE_MS) return true;
    if (!released.hasSlept) this.#waitMs = Math.min(LONGEST_IDLE_MS, this.#waitMs * 2);
    this.#released = null;
    return false;
  }

  /** Somebody has asked for the card. */
  end(): void {
    this.#released = null;
    this.#idleSinceMs = null;
  }
}

/** Nobody on it and nothing done; a list that can't be read says neither. */
function isIdle({ processes, gpuUtilPct }: GpuReading): boolean {
  return processes !== null && processes.length === 0 && (gpuUtilPct ?? 0) === 0;
}
