import type { ArbiterState } from "../decide/arbiter_state.ts";
import { type Footprints, remember } from "../decide/footprint.ts";
import { type PartialBook, withRun } from "../decide/partial_load.ts";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Clock, Log, Store } from "../model/ports.ts";
import type { MonotonicMs } from "../model/units.ts";
import { fieldsOfLearned } from "./footprints.ts";

/** One event tells of so long: thousands of prompts a day would otherwise be thousands of events. */
const WINDOW_MS = 600_000;

export interface LearnedKeeperParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<Store, "append" | "amend">;
}

/** Writes down what was measured to be taken, at once, so that it outlives the service however that ends. */
export class LearnedKeeper {
  readonly #parts: LearnedKeeperParts;
  #sinceMs: MonotonicMs = -Infinity;
  #item: Promise<HistoryItem | null> = Promise.resolve(null);
  #footprints: Footprints = {};
  #runs: PartialBook["runs"] = {};

  constructor(parts: LearnedKeeperParts) {
    this.#parts = parts;
  }

  /** What one decision has learned. */
  note(before: ArbiterState, after: ArbiterState): void {
    const measured = before.footprints === after.footprints ? [] : newest(before.footprints, after.footprints);
    const runs = before.partials.runs === after.partials.runs ? [] : newest(before.partials.runs, after.partials.runs);
    if (measured.length === 0 && runs.length === 0) return;
    const nowMs = this.#parts.clock.monotonicMs();
    const isNew = nowMs - this.#sinceMs >= WINDOW_MS;
    if (isNew) [this.#sinceMs, this.#footprints, this.#runs] = [nowMs, {}, {}];
    for (const [key, one] of measured) this.#footprints = remember(this.#footprints, { key, measured: one });
    for (const [workflow, run] of runs) this.#runs = withRun(this.#runs, workflow, run);
    this.#write(isNew);
  }

  /** Resolves when all of it is written. */
  async settled(): Promise<void> {
    await this.#item;
  }

  #write(isNew: boolean): void {
    const { store, clock, log } = this.#parts;
    const fields = fieldsOfLearned(this.#footprints, this.#runs);
    const atMs = clock.wallMs();
    const before = isNew ? Promise.resolve(null) : this.#item;
    this.#item = before.then(async (item) => {
      // An item that couldn't be written, or is gone, is written anew.
      const amended = item === null ? null : await store.amend(item.id, fields);
      return amended ?? await store.append({ atMs, kind: "footprint", fields });
    }).catch((error) => {
      log.error("Cannot keep what was learned", { error: messageOf(error) });
      return null;
    });
  }
}

/** The last entry of each list that has changed. */
function newest<T>(
  before: Readonly<Record<string, readonly T[]>>,
  after: Readonly<Record<string, readonly T[]>>,
): readonly (readonly [string, T])[] {
  return Object.entries(after).flatMap(([key, list]) => {
    const last = list.at(-1);
    return last === undefined || before[key] === list ? [] : [[key, last] as const];
  });
}
