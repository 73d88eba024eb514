/** One at a time, in the order of asking. Whoever is cancelled while waiting leaves the line. */
import type { CallOptions } from "../model/services.ts";

export class TurnTaking {
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  /** `what` is taken in turns, as whoever waits is told. */
  constructor(readonly what: string) {}

  async take<T>(call: CallOptions, work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = before.then(() => turn.promise);
    try {
      if (this.#waiting++ > 0) {
        call.progress({ phase: `waiting for the ${this.what} before it`, done: null, etaMs: null });
      }
      await untilAborted(before, call.signal);
      return await work();
    } finally {
      this.#waiting -= 1;
      turn.resolve();
    }
  }
}

async function untilAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
