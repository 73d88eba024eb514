import type { Clock, Timer } from "../model/ports.ts";

/** The longest delay a platform timer takes; a longer one would fire at once, so it is armed in pieces. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

export interface SystemClockOptions {
  /**
   * Added to the monotonic clock. Each thread anchors its own at its start, so one started after the wall clock jumped
   * or the machine slept is off by that much; a supervisor can hand over the difference. Default 0.
   */
  readonly offsetMs?: number;
}

/**
 * The real clock. `sleep` and `after` keep the process alive until they are done; `every` and `deadline` don't, so that
 * a command ends when its work ends.
 */
export function systemClock(options: SystemClockOptions = {}): Clock {
  const offsetMs = options.offsetMs ?? 0;
  return {
    wallMs: () => Date.now(),
    monotonicMs: () => performance.timeOrigin + performance.now() + offsetMs,
    sleep,
    after: (ms, run) => arm(ms, run),
    every,
    deadline,
    random: () => Math.random(),
    uuid: () => crypto.randomUUID(),
  };
}

function arm(ms: number, run: () => void): Timer & { unref(): void } {
  let leftMs = Math.max(0, ms);
  let isUnref = false;
  let id: ReturnType<typeof setTimeout> | undefined;
  const next = () => {
    const stepMs = Math.min(leftMs, LONGEST_DELAY_MS);
    leftMs -= stepMs;
    id = setTimeout(() => leftMs > 0 ? next() : run(), stepMs);
    if (isUnref) Deno.unrefTimer(id);
  };
  next();
  return {
    stop: () => clearTimeout(id),
    unref: () => {
      isUnref = true;
      if (id !== undefined) Deno.unrefTimer(id);
    },
  };
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      timer.stop();
      reject(signal?.reason);
    };
    const timer = arm(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

function every(ms: number, run: () => void): Timer {
  const id = setInterval(run, ms);
  Deno.unrefTimer(id);
  return { stop: () => clearInterval(id) };
}

/**
 * Made by hand rather than by AbortSignal.any, whose result is held weakly by its sources: one that only a pending
 * promise listens to may be collected, and then never aborts.
 */
function deadline(ms: number, parent?: AbortSignal): AbortSignal {
  const controller = new AbortController();
  if (parent?.aborted) {
    controller.abort(parent.reason);
    return controller.signal;
  }
  const onParent = () => {
    timer.stop();
    controller.abort(parent?.reason);
  };
  const timer = arm(ms, () => {
    parent?.removeEventListener("abort", onParent);
    controller.abort(new DOMException(`Cannot wait longer than ${ms} ms`, "TimeoutError"));
  });
  timer.unref();
  parent?.addEventListener("abort", onParent, { once: true });
  return controller.signal;
}
