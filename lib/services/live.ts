import type { CacheTotals } from "../model/cache.ts";
import { Failure } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Log, Timer } from "../model/ports.ts";
import type { Sample } from "../model/sample.ts";
import type { Live, RunView, Snapshot } from "../model/services.ts";
import type { ArbitrationView } from "../model/arbitration.ts";
import type { ComfyState } from "../model/tenants.ts";
import { messageOf } from "../model/failure.ts";

/** Events a snapshot carries (OPERATIONS.md: history[] holds the last 50). */
const HISTORY_KEPT = 50;

export interface LiveParts {
  readonly log: Log;
  /** What is set on the card. */
  readonly tuning?: () => NonNullable<Snapshot["tuning"]>;
  readonly arbitration: () => ArbitrationView;
  readonly runs: () => readonly RunView[];
  readonly simulation: string | null;
  /** What ComfyUI's watcher knows now: its news can't wait for the next second. */
  readonly comfy: () => Omit<ComfyState, "server">;
  readonly cache: () => CacheTotals | null;
}

/**
 * Everything live as one immutable value: made anew each second, and whenever arbitration, the record or the runs move.
 * Between these moments it stands, so that whoever asks sees what the followers were shown.
 */
export class LiveService implements Live {
  readonly #parts: LiveParts;
  readonly #subscribers = new Set<(snapshot: Snapshot) => void>();
  #sample: Sample | null = null;
  #history: readonly HistoryItem[] = [];
  #revision = 0;
  /** The newest; null when something has moved since and nobody has looked. */
  #shown: Snapshot | null = null;

  constructor(parts: LiveParts) {
    this.#parts = parts;
  }

  snapshot(): Snapshot {
    return this.#shown ??= this.#take();
  }

  #take(): Snapshot {
    if (this.#sample === null) {
      throw new Failure("unavailable", "The first sample isn't in yet", { hint: "Try again in a second" });
    }
    const { comfy } = this.#parts;
    const tuning = this.#parts.tuning?.();
    return {
      revision: this.#revision,
      ...(tuning === undefined ? {} : { tuning }),
      sample: { ...this.#sample, comfy: { ...comfy(), server: this.#sample.comfy.server } },
      arbitration: this.#parts.arbitration(),
      history: this.#history,
      runs: this.#parts.runs(),
      simulation: this.#parts.simulation,
      cache: this.#parts.cache(),
    };
  }

  subscribe(onSnapshot: (snapshot: Snapshot) => void): Timer {
    this.#subscribers.add(onSnapshot);
    return { stop: () => void this.#subscribers.delete(onSnapshot) };
  }

  /** A new second. */
  publish(sample: Sample): void {
    this.#sample = sample;
    this.#tell();
  }

  /** An event that was kept, or completed later; the newest come first. */
  remember(item: HistoryItem): void {
    const known = this.#history.findIndex((entry) => entry.id === item.id);
    this.#history = known === -1
      ? [item, ...this.#history].slice(0, HISTORY_KEPT)
      : this.#history.map((entry) => (entry.id === item.id ? item : entry));
    this.#tell();
  }

  /** What an earlier service kept, newest first. */
  restore(items: readonly HistoryItem[]): void {
    this.#history = items.slice(0, HISTORY_KEPT);
  }

  /** Something moved between two seconds. */
  touch(): void {
    this.#tell();
  }

  #tell(): void {
    this.#revision += 1;
    this.#shown = null;
    if (this.#sample === null || this.#subscribers.size === 0) return;
    const snapshot = this.snapshot();
    for (const tell of this.#subscribers) {
      try {
        tell(snapshot);
      } catch (error) {
        this.#parts.log.error("Cannot tell a subscriber", { error: messageOf(error) });
      }
    }
  }
}
