import type { Learned } from "../decide/arbiter_state.ts";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem, HistoryKind } from "../model/history.ts";
import type { Clock, Log, Store } from "../model/ports.ts";
import type { RunView } from "../model/services.ts";
import { tellInterrupted } from "./autotune_past.ts";
import { seedLearned, seedLoads } from "./footprints.ts";

/** Events that every door shows at once. */
const SHOWN = 50;
/** Swaps, and ten minutes of measurements, that are learned from at start. */
const SEED_SWAPS = 1_000;
const SEED_FOOTPRINTS = 1_000;
/** Warms that show what the disk can do. */
const SEED_WARMS = 50;

/** Events that sum up what was seen, for the next start: nothing that happened. */
const SUMMED_UP: ReadonlySet<HistoryKind> = new Set(["use", "footprint"]);

/** What an earlier service left. */
export interface Past {
  /** The newest events, newest first. */
  readonly items: readonly HistoryItem[];
  /** What its swaps had shown. */
  readonly learned: Learned;
  /** Runs that were cut off with it. */
  readonly runs: readonly RunView[];
}

export interface PastParts {
  readonly store: Pick<Store, "append" | "history">;
  readonly clock: Clock;
  readonly log: Log;
  /** Whoever only looks can't know whether the sweep's owner lives on. */
  readonly isOwner: boolean;
}

/** Reads it; a record that can't be read costs what was learned, never the start. */
export async function readPast({ store, clock, log, isOwner }: PastParts): Promise<Past> {
  try {
    const run = isOwner ? await tellInterrupted({ store, clock }) : null;
    const newest = await store.history({ limit: 2 * SHOWN, kind: null, before: null, durable: true });
    const swaps = await store.history({ limit: SEED_SWAPS, kind: "swap", before: null, durable: true });
    const warms = await store.history({ limit: SEED_WARMS, kind: "warm", before: null, durable: true });
    const kept = await store.history({ limit: SEED_FOOTPRINTS, kind: "footprint", before: null, durable: true });
    const items = newest.filter(({ kind }) => !SUMMED_UP.has(kind)).slice(0, SHOWN);
    const learned = { ...seedLearned(kept, swaps), loads: seedLoads(swaps, warms) };
    return { items, learned, runs: run === null ? [] : [run] };
  } catch (error) {
    log.warn("Cannot read what was kept earlier", { error: messageOf(error) });
    return { items: [], learned: {}, runs: [] };
  }
}
