/** Gives memory back to the system after a crowd has left: the allocator keeps what a thousand streams took. */
import type { Clock, Timer } from "../model/ports.ts";

export interface MemoryReturnOptions {
  readonly clock: Clock;
  /** Streams that are open now. */
  readonly streams: () => number;
  /** Returns what is free; takes some milliseconds. */
  readonly trim: () => void;
}

const LOOK_MS = 10_000;
/** Fewer than these left behind is no memory worth the milliseconds. */
const CROWD = 100;

/** Looks from time to time until stopped. */
export function returnMemory({ clock, streams, trim }: MemoryReturnOptions): Timer {
  let most = 0;
  return clock.every(LOOK_MS, () => {
    const now = streams();
    if (most - now >= CROWD) {
      trim();
      most = now;
    }
    most = Math.max(most, now);
  });
}
