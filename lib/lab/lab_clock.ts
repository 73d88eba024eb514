import type { Clock, Timer } from "../model/ports.ts";
import type { MonotonicMs, WallMs } from "../model/units.ts";
import { Loopback } from "./loopback.ts";
import { Random } from "./random.ts";

/** 2026-01-01T12:00:00Z: where a lab clock starts unless told otherwise. */
const START_MS = Date.UTC(2026, 0, 1, 12);

/**
 * Loopback round trips without any sign of life after which in-process sockets count as settled. One hop of fetch,
 * WebSocket or a raw socket takes one to three of them (measured on Deno 2.4.2 and 2.9.6), so five is one hop to spare.
 */
const QUIET_TURNS = 5;

/** Real time after which a call that says it is busy is taken for stuck. */
const SETTLE_LIMIT_MS = 20_000;

interface Pending {
  dueMs: number;
  seq: number;
  readonly isQuiet: boolean;
  readonly run: () => void;
}

/**
 * A clock that only its owner advances. Sockets, promises and Workers are real, so between two timers it waits in real
 * time until they have come to rest: what a test sees at a lab instant doesn't depend on the machine's speed.
 */
export class LabClock implements Clock {
  readonly #startMs: number;
  readonly #random: Random;
  readonly #pending: Pending[] = [];
  readonly #busy = new Set<() => number>();
  #elapsedMs = 0;
  #wallOffsetMs = 0;
  #seq = 0;
  #uuids = 0;
  #stirs = 0;
  /** False after a quiet tick: something may still be under way. */
  #isSettled = true;
  #isDriven = false;

  constructor(options: { readonly seed?: number; readonly startMs?: WallMs } = {}) {
    this.#startMs = options.startMs ?? START_MS;
    this.#random = new Random(options.seed ?? 1);
  }

  wallMs(): WallMs {
    return this.#startMs + this.#elapsedMs + this.#wallOffsetMs;
  }

  monotonicMs(): MonotonicMs {
    return this.#startMs + this.#elapsedMs;
  }

  random(): number {
    return this.#random.next();
  }

  /** Counts up: the first is 00000000-0000-4000-8000-000000000001. */
  uuid(): string {
    this.#uuids += 1;
    return `00000000-0000-4000-8000-${this.#uuids.toString(16).padStart(12, "0")}`;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        timer.stop();
        reject(signal?.reason);
      };
      const timer = this.after(ms, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  after(ms: number, run: () => void): Timer {
    return this.#schedule({ dueMs: this.#elapsedMs + Math.max(0, ms), seq: 0, isQuiet: false, run });
  }

  every(ms: number, run: () => void): Timer {
    return this.#repeat({ ms, isQuiet: false, run });
  }

  /**
   * As `every`, for ticks that start no I/O as a rule (a stream of readings): sockets get one turn after each instead
   * of a full settling, which makes a long stream four times as quick to play.
   */
  everyQuietly(ms: number, run: () => void): Timer {
    return this.#repeat({ ms, isQuiet: true, run });
  }

  deadline(ms: number, parent?: AbortSignal): AbortSignal {
    const controller = new AbortController();
    if (parent?.aborted) {
      controller.abort(parent.reason);
      return controller.signal;
    }
    const onParent = () => {
      timer.stop();
      controller.abort(parent?.reason);
    };
    const timer = this.after(ms, () => {
      parent?.removeEventListener("abort", onParent);
      controller.abort(new DOMException(`Cannot wait longer than ${ms} ms`, "TimeoutError"));
    });
    parent?.addEventListener("abort", onParent, { once: true });
    return controller.signal;
  }

  /** Moves the wall clock alone, as NTP or a suspended machine does. */
  jumpWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  /**
   * Registers a count of calls under way that will end **without** the clock advancing (a Worker's answer, a file);
   * settling waits while it is above 0. Loopback sockets need none. Returns what takes it back.
   */
  watchBusy(count: () => number): () => void {
    this.#busy.add(count);
    return () => this.#busy.delete(count);
  }

  /**
   * Says that something moved, so that settling goes on for a while. The lab's servers call it at every read and write;
   * a chain of calls to any other server needs it once a link, or it may be overtaken by the next timer.
   */
  stir(): void {
    this.#stirs += 1;
  }

  /** Moves on by `ms`, firing each timer due on the way in order and settling after each. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#elapsedMs + ms;
    await this.#drive(async (loopback) => {
      while (await this.#fireNext(loopback, untilMs));
      this.#elapsedMs = untilMs;
      await this.#settle(loopback, QUIET_TURNS);
    });
  }

  /**
   * Moves on timer by timer until the predicate holds, and returns the milliseconds that took. Throws when it still
   * doesn't hold after `limitMs`.
   */
  async runUntil(
    predicate: () => boolean,
    options: { readonly limitMs: number; readonly what?: string },
  ): Promise<number> {
    const startMs = this.#elapsedMs;
    const untilMs = startMs + options.limitMs;
    await this.#drive(async (loopback) => {
      while (!predicate()) {
        if (await this.#fireNext(loopback, untilMs)) continue;
        this.#elapsedMs = untilMs;
        if (predicate()) return;
        throw new Error(`Cannot reach ${options.what ?? "the awaited state"} within ${options.limitMs} lab ms`);
      }
    });
    return this.#elapsedMs - startMs;
  }

  /** Lets I/O come to rest without moving on. */
  async settle(): Promise<void> {
    await this.#drive(() => Promise.resolve());
  }

  /** Moves on until the promise has settled, and gives its value. Throws when it hasn't after `limitMs`. */
  async until<T>(promise: Promise<T>, options: { readonly limitMs: number; readonly what?: string }): Promise<T> {
    let isDone = false;
    const done = () => {
      isDone = true;
    };
    promise.then(done, done);
    await this.runUntil(() => isDone, options);
    return await promise;
  }

  async #drive(work: (loopback: Loopback) => Promise<void>): Promise<void> {
    if (this.#isDriven) throw new Error("Cannot advance a lab clock that is being advanced");
    this.#isDriven = true;
    try {
      await using loopback = await Loopback.open();
      // What was started before this call comes to rest before the first timer fires.
      await this.#settle(loopback, QUIET_TURNS);
      await work(loopback);
    } finally {
      this.#isDriven = false;
    }
  }

  async #fireNext(loopback: Loopback, untilMs: number): Promise<boolean> {
    const next = this.#pending[0];
    if (next === undefined || next.dueMs > untilMs) return false;
    // After quiet ticks something may still be under way: a proper timer finds the sockets at rest.
    if (!next.isQuiet && !this.#isSettled) await this.#settle(loopback, QUIET_TURNS);
    if (this.#pending[0] !== next) return true;
    this.#pending.shift();
    this.#elapsedMs = Math.max(this.#elapsedMs, next.dueMs);
    next.run();
    await this.#settle(loopback, next.isQuiet ? 1 : QUIET_TURNS);
    return true;
  }

  async #settle(loopback: Loopback, quietTurns: number): Promise<void> {
    const startedMs = performance.now();
    let quiet = 0;
    let stirs = this.#stirs;
    let needed = quietTurns;
    while (quiet < needed) {
      await loopback.turn();
      const busy = this.#countBusy();
      if (busy > 0 && performance.now() - startedMs > SETTLE_LIMIT_MS) {
        throw new Error(`Cannot settle: ${busy} calls are still busy after ${SETTLE_LIMIT_MS} ms of real time`);
      }
      const isQuiet = busy === 0 && stirs === this.#stirs;
      quiet = isQuiet ? quiet + 1 : 0;
      if (!isQuiet) needed = QUIET_TURNS;
      stirs = this.#stirs;
    }
    this.#isSettled = needed === QUIET_TURNS;
  }

  #countBusy(): number {
    let busy = 0;
    for (const count of this.#busy) busy += count();
    return busy;
  }

  #repeat({ ms, isQuiet, run }: { ms: number; isQuiet: boolean; run: () => void }): Timer {
    const periodMs = Math.max(0.001, ms);
    const entry: Pending = {
      dueMs: this.#elapsedMs + periodMs,
      seq: 0,
      isQuiet,
      run: () => {
        entry.dueMs += periodMs;
        this.#insert(entry);
        run();
      },
    };
    return this.#schedule(entry);
  }

  #schedule(entry: Pending): Timer {
    this.#insert(entry);
    return {
      stop: () => {
        const at = this.#pending.indexOf(entry);
        if (at >= 0) this.#pending.splice(at, 1);
      },
    };
  }

  /** Keeps the list in firing order: by time, then as they were armed. */
  #insert(entry: Pending): void {
    entry.seq = this.#seq++;
    let low = 0;
    let high = this.#pending.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#pending[middle];
      if (other !== undefined && other.dueMs <= entry.dueMs) low = middle + 1;
      else high = middle;
    }
    this.#pending.splice(low, 0, entry);
  }
}
