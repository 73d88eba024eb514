/** Who listens to the stream of barrier readings, and whether it still flows. */
import type { Clock, GpuUnavailable, Timer } from "../model/ports.ts";
import type { BarrierReading } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";

export interface Watcher {
  readonly onReading: (reading: BarrierReading) => void;
  readonly onLost: (cause: GpuUnavailable) => void;
}

interface Stream {
  readonly id: number;
  /** Null while it waits for the Worker to start. */
  guard: Timer | null;
}

/** One stream for every watcher: it begins with the first and ends with the last of them. */
export class Watchers {
  readonly #clock: Clock;
  readonly #watchers = new Set<Watcher>();
  #stream: Stream | null = null;
  /** When the newest reading came, or when the first was asked for. */
  #lastAtMs: MonotonicMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isEmpty(): boolean {
    return this.#watchers.size === 0;
  }

  /** Id of the stream under way, or null. */
  get streamId(): number | null {
    return this.#stream?.id ?? null;
  }

  add(watcher: Watcher): void {
    this.#watchers.add(watcher);
  }

  /** False when it wasn't there any more. */
  remove(watcher: Watcher): boolean {
    return this.#watchers.delete(watcher);
  }

  /** Notes that a stream was asked for. */
  begin(id: number): void {
    this.#stream = { id, guard: null };
  }

  /** From now on `onOverdue` is called once if no reading comes for `deadlineMs`. */
  guard(deadlineMs: number, onOverdue: (sinceMs: MonotonicMs) => void): void {
    if (this.#stream === null) return;
    this.#lastAtMs = this.#clock.monotonicMs();
    this.#stream.guard = this.#clock.every(deadlineMs / 4, () => {
      if (this.#clock.monotonicMs() - this.#lastAtMs >= deadlineMs) onOverdue(this.#lastAtMs);
    });
  }

  deliver(id: number, reading: BarrierReading): void {
    if (this.#stream?.id !== id) return;
    this.#lastAtMs = this.#clock.monotonicMs();
    // A watcher may stop itself or another on what it hears.
    for (const watcher of [...this.#watchers]) if (this.#watchers.has(watcher)) watcher.onReading(reading);
  }

  /** The stream is no longer wanted, or no longer there. */
  end(): void {
    this.#stream?.guard?.stop();
    this.#stream = null;
  }

  /** Tells every watcher, once, that there will be no more readings. */
  lose(cause: GpuUnavailable): void {
    this.end();
    const lost = [...this.#watchers];
    this.#watchers.clear();
    for (const watcher of lost) watcher.onLost(cause);
  }
}
