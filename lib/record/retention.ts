import type { MonotonicMs, WallMs } from "../model/units.ts";

export interface Retention {
  readonly telemetryMs: number;
  readonly minutesMs: number;
  readonly hoursMs: number;
  readonly eventsMs: number;
}

const DAY_MS = 86_400_000;

/** SPEC 5: raw rows 14 days, minutes 180 days, hours 5 years, events a year. */
export const DEFAULT_RETENTION: Retention = {
  telemetryMs: 14 * DAY_MS,
  minutesMs: 180 * DAY_MS,
  hoursMs: 5 * 365 * DAY_MS,
  eventsMs: 365 * DAY_MS,
};

/** How far wall clock and monotonic clock may drift apart before that counts as a jump. */
const JUMP_MS = 60_000;
/** How long the wall clock must have run evenly before anything is deleted by its word. */
const STEADY_MS = 600_000;
const INTERVAL_MS = 3_600_000;

/**
 * Says when old rows may be deleted: hourly, and only by a wall clock that has run evenly for ten minutes. A machine
 * that boots with a wrong date and is set right by NTP would otherwise delete its whole history.
 */
export class PruneSchedule {
  #offsetMs: number | null = null;
  #steadySinceMs: MonotonicMs = 0;
  #lastMs: MonotonicMs | null = null;

  /** To be asked every few seconds; true = prune now. */
  isDue(now: { readonly wallMs: WallMs; readonly monotonicMs: MonotonicMs }): boolean {
    const offsetMs = now.wallMs - now.monotonicMs;
    if (this.#offsetMs === null || Math.abs(offsetMs - this.#offsetMs) > JUMP_MS) {
      this.#offsetMs = offsetMs;
      this.#steadySinceMs = now.monotonicMs;
    }
    if (now.monotonicMs - this.#steadySinceMs < STEADY_MS) return false;
    if (this.#lastMs !== null && now.monotonicMs - this.#lastMs < INTERVAL_MS) return false;
    this.#lastMs = now.monotonicMs;
    return true;
  }
}
