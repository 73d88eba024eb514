/** Asking for one figure at a time, so that one that can't be had costs nothing else. */
import type { Clock } from "../model/ports.ts";
import type { MonotonicMs } from "../model/units.ts";
import { costOf, isNvmlFailure, toGpuUnavailable } from "./gpu_failure.ts";

/** A figure that is too dear, or too steady, for every second. */
interface Slow {
  value: unknown;
  dueAtMs: MonotonicMs;
}

/**
 * Asks a card's figures by name. What the card never gives is asked for once and then is null; what failed this once is
 * null this once; an error that means the card is gone goes on as GpuUnavailable.
 */
export class GpuFigures {
  readonly #clock: Clock;
  readonly #never = new Set<string>();
  readonly #slow = new Map<string, Slow>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** One figure, now. */
  ask<T>(name: string, read: () => T): T | null {
    if (this.#never.has(name)) return null;
    try {
      return read();
    } catch (error) {
      if (!isNvmlFailure(error)) throw error;
      const cost = costOf(error);
      if (cost === "card") throw toGpuUnavailable(error);
      if (cost === "figure") this.#never.add(name);
      return null;
    }
  }

  /** One figure at most every `everyMs`, first after `afterMs`; its last value in between, null before the first. */
  slow<T>(name: string, when: { readonly everyMs: number; readonly afterMs?: number }, read: () => T): T | null {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#slow.get(name) ?? { value: null, dueAtMs: nowMs + (when.afterMs ?? 0) };
    this.#slow.set(name, known);
    if (nowMs >= known.dueAtMs) {
      known.value = this.ask(name, read);
      known.dueAtMs = nowMs + when.everyMs;
    }
    // as: a name is only ever used with one type, which its `read` gives.
    return known.value as T | null;
  }

  /** The last value of a slow figure, without asking. */
  last<T>(name: string): T | null {
    // as: see `slow`.
    return (this.#slow.get(name)?.value ?? null) as T | null;
  }

  /** Notes that the card answers, but never gives this. */
  giveUp(name: string): void {
    this.#never.add(name);
  }
}
