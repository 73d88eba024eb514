import type { Clock } from "../model/ports.ts";

/**
 * What `start` resolves with, or a TimeoutError after `ms`, when its signal aborts too. Unlike `clock.deadline` it
 * leaves no timer behind when the answer comes first, and the store asks often.
 */
export function within<T>(clock: Clock, ms: number, start: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const controller = new AbortController();
    const timer = clock.after(ms, () => {
      const reason = new DOMException(`Cannot wait longer than ${ms} ms`, "TimeoutError");
      reject(reason);
      controller.abort(reason);
    });
    start(controller.signal).then(resolve, reject).finally(() => timer.stop());
  });
}
