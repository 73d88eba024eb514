/** Gives memory back to the system after a crowd: the allocator keeps what a thousand streams or requests took. */
import type { Clock, Timer } from "../model/ports.ts";

export interface MemoryReturnOptions {
  readonly clock: Clock;
  /** Streams that are open now. */
  readonly streams: () => number;
  /** Requests answered so far. */
  readonly answered: () => number;
  /** Returns what is free; takes some milliseconds. */
  readonly trim: () => void;
}

const LOOK_MS = 10_000;
/** Fewer streams left behind are no memory worth the milliseconds. */
const CROWD = 100;
/** Nor are fewer requests: five thousand mixed ones leave some 47 MB of holes. */
const MANY_REQUESTS = 1_000;

/** Looks from time to time until stopped. */
export function returnMemory({ clock, streams, answered, trim }: MemoryReturnOptions): Timer {
  let most = 0;
  let trimmedAt = answered();
  return clock.every(LOOK_MS, () => {
    const now = streams();
    if (most - now >= CROWD || answered() - trimmedAt >= MANY_REQUESTS) {
      trim();
      most = now;
      trimmedAt = answered();
    }
    most = Math.max(most, now);
  });
}
