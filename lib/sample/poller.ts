import { messageOf } from "../model/failure.ts";
import type { Clock, Timer } from "../model/ports.ts";

export interface PollerOptions {
  readonly clock: Clock;
  /** One round. Expected failures are its own business; what it throws is kept as `crash`. */
  readonly work: (signal: AbortSignal) => Promise<void>;
  /** From the end of one round to the start of the next; asked after each. */
  readonly periodMs: () => number;
  /** Least time between the starts of two rounds, however often it is poked. Default 200 ms. */
  readonly minGapMs?: number;
}

export interface Poller extends Timer {
  /** Asks for a round now; while one runs, for one more after it. */
  poke(): void;
  /** What the last round threw, or null. A throwing round is followed by the next as usual. */
  readonly crash: string | null;
}

/** Repeats one round of work, never two at a time, until stopped. The first round starts at once. */
export function startPoller(options: PollerOptions): Poller {
  const { clock, work, periodMs, minGapMs = 200 } = options;
  const stopped = new AbortController();
  let timer: Timer | null = null;
  let startedAtMs = Number.NEGATIVE_INFINITY;
  let isRunning = false;
  let isWanted = false;
  let crash: string | null = null;

  const schedule = (ms: number) => {
    timer?.stop();
    if (!stopped.signal.aborted) timer = clock.after(ms, round);
  };
  const gapMs = () => Math.max(0, startedAtMs + minGapMs - clock.monotonicMs());
  const round = async () => {
    timer?.stop();
    isRunning = true;
    isWanted = false;
    startedAtMs = clock.monotonicMs();
    try {
      await work(stopped.signal);
      crash = null;
    } catch (error) {
      if (!stopped.signal.aborted) crash = messageOf(error);
    }
    isRunning = false;
    schedule(isWanted ? gapMs() : periodMs());
  };

  round();
  return {
    get crash() {
      return crash;
    },
    poke() {
      isWanted = true;
      if (isRunning || stopped.signal.aborted) return;
      const waitMs = gapMs();
      if (waitMs === 0) round();
      else schedule(waitMs);
    },
    stop() {
      stopped.abort();
      timer?.stop();
    },
  };
}
