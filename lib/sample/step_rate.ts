import type { MonotonicMs } from "../model/units.ts";

/** Steps between the first and the last that are timed: fewer tell more of the frames' jitter than of the card. */
const LEAST_STEPS = 4;
const LEAST_MS = 200;
/** Nothing samples faster: such frames come from a cache, or from a node that counts something else. */
const MOST_PER_SECOND = 500;

/** A run of steps as it was timed. */
export interface TimedSteps {
  readonly perSecond: number;
  readonly steps: number;
  readonly durationMs: number;
}

interface Run {
  readonly max: number;
  readonly firstValue: number;
  readonly firstAtMs: MonotonicMs;
  readonly value: number;
  readonly atMs: MonotonicMs;
}

/**
 * Iterations a second, from the progress frames of one prompt. Timed from the first finished step to the last: the time
 * before the first holds the loading of the model, the time after the last the decoding of the picture.
 */
export class StepRate {
  #promptId: string | null = null;
  #run: Run | null = null;
  #best: TimedSteps | null = null;

  /** A frame; the same step is told twice by servers that send both kinds of frames. */
  note(
    { promptId, value, max }: { readonly promptId: string; readonly value: number; readonly max: number },
    atMs: number,
  ) {
    if (promptId !== this.#promptId) {
      this.#promptId = promptId;
      this.#run = null;
      this.#best = null;
    }
    const run = this.#run;
    if (value <= 0) return;
    if (run !== null && run.max === max && value === run.value) return;
    // Another node counts from the beginning.
    if (run === null || run.max !== max || value < run.value) {
      this.#run = { max, firstValue: value, firstAtMs: atMs, value, atMs };
      return;
    }
    this.#run = { ...run, value, atMs };
    const timed = timedOf(this.#run);
    if (timed !== null && timed.steps >= (this.#best?.steps ?? 0)) this.#best = timed;
  }

  /** The longest run of steps of that prompt; null when too few were seen. It is told once. */
  take(promptId: string): TimedSteps | null {
    if (promptId !== this.#promptId) return null;
    const best = this.#best;
    this.#promptId = this.#run = this.#best = null;
    return best;
  }
}

function timedOf({ firstValue, firstAtMs, value, atMs }: Run): TimedSteps | null {
  const steps = value - firstValue;
  const durationMs = atMs - firstAtMs;
  if (steps < LEAST_STEPS || durationMs < LEAST_MS) return null;
  const perSecond = steps / durationMs * 1_000;
  return perSecond > MOST_PER_SECOND ? null : { perSecond, steps, durationMs };
}
