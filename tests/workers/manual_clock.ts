/** A clock that moves only when a test says so, for a client whose Worker answers in real time. */
import type { Clock, Timer } from "../../lib/model/ports.ts";

interface Entry {
  dueMs: number;
  readonly everyMs: number | null;
  readonly run: () => void;
}

export class ManualClock implements Clock {
  #ms: number;
  readonly #entries = new Set<Entry>();

  constructor(startMs = 5_000) {
    this.#ms = startMs;
  }

  /** Timers that are armed. */
  get armed(): number {
    return this.#entries.size;
  }

  /** Moves on, firing what is due on the way in order. */
  advance(ms: number): void {
    const untilMs = this.#ms + ms;
    for (;;) {
      const [next] = [...this.#entries].filter((entry) => entry.dueMs <= untilMs).sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      this.#ms = Math.max(this.#ms, next.dueMs);
      if (next.everyMs === null) this.#entries.delete(next);
      else next.dueMs += next.everyMs;
      next.run();
    }
    this.#ms = untilMs;
  }

  monotonicMs(): number {
    return this.#ms;
  }
  wallMs(): number {
    return this.#ms;
  }
  after(ms: number, run: () => void): Timer {
    return this.#arm({ dueMs: this.#ms + ms, everyMs: null, run });
  }
  every(ms: number, run: () => void): Timer {
    return this.#arm({ dueMs: this.#ms + ms, everyMs: ms, run });
  }
  sleep(): never {
    throw new Error("not in this clock");
  }
  deadline(): never {
    throw new Error("not in this clock");
  }
  random(): number {
    return 0.5;
  }
  uuid(): string {
    return "00000000-0000-4000-8000-000000000000";
  }

  #arm(entry: Entry): Timer {
    this.#entries.add(entry);
    return { stop: () => this.#entries.delete(entry) };
  }
}
