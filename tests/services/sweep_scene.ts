/** The house over a simulated box with levers that do something, on a clock that only the test advances. */
import { openCardJournal } from "../../lib/act/card_journal.ts";
import { CardWriter } from "../../lib/act/card_writer.ts";
import type { House } from "../../lib/house.ts";
import type { Box } from "../../lib/lab/box.ts";
import { RTX_4080_SUPER } from "../../lib/lab/card_spec.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { MEASURED_SILICON, type Silicon } from "../../lib/lab/pace.ts";
import type { SweepRequest } from "../../lib/model/autotune.ts";
import type { CardControl, CardEvent } from "../../lib/model/card.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import type { Store } from "../../lib/model/ports.ts";
import { DEFAULT_TUNING, type TuningBook } from "../../lib/model/tuning.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";

export interface SweepScene extends AsyncDisposable {
  readonly clock: LabClock;
  readonly box: Box;
  readonly house: House;
  readonly store: Store;
  /** What the house logged as a warning or worse. */
  readonly complaints: readonly string[];
  /** Lets the box's time pass until the promise has settled. */
  until<T>(promise: Promise<T>): Promise<T>;
  /** Levers that don't stand at stock, as the card itself has them. */
  offStock(): readonly string[];
}

export const SWEEP: SweepRequest = {
  knob: "power_limit_w",
  workload: "comfy",
  profile: "balanced",
  start: null,
  stop: null,
  step: null,
  repeats: 3,
  applyBest: false,
  model: null,
};

const LIMIT_MS = 3_600_000;

export interface SweepSceneOptions {
  readonly seed?: number;
  readonly silicon?: Partial<Silicon>;
  readonly book?: TuningBook;
  /** Default: one of its own, in memory. */
  readonly store?: Store;
}

export async function openSweepScene(options: SweepSceneOptions = {}): Promise<SweepScene> {
  const { seed = 1, book = { profiles: [], quarantine: [] }, store = memoryStore() } = options;
  const clock = new LabClock({ seed });
  const until = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: LIMIT_MS });
  const complaints: string[] = [];
  const complain = (message: string) => void complaints.push(message);
  let hear: <R>(reading: R) => R = (reading) => reading;
  const lab = await openLabHouse({
    clock,
    seed,
    store,
    settle: until,
    machine: { profile: "desktop", silicon: { ...MEASURED_SILICON, noise: 0.003, ...options.silicon } },
    policy: { needs: {}, purge: { ...DEFAULT_POLICY.purge, idleMs: null } },
    gpu: (box) =>
      box.gpu((nvml) => {
        const reader = openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } });
        return {
          facts: () => reader.facts(),
          readBarrier: () => reader.readBarrier(),
          read: () => hear(reader.read()),
        };
      }),
    furnish: (box, dir) => {
      const control = labControl(box, dir);
      hear = (reading) => control.heard(reading);
      return {
        log: { debug() {}, info() {}, warn: complain, error: complain },
        tuning: {
          control,
          book: { load: () => Promise.resolve(book), save: () => Promise.resolve() },
          policy: DEFAULT_TUNING,
        },
      };
    },
  });
  await clock.advance(2_000);
  const { box, house } = lab;
  return {
    clock,
    box,
    house,
    store,
    complaints,
    until,
    offStock: () => offStock(box),
    [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose](),
  };
}

function offStock(box: Box): readonly string[] {
  const { powerLimitW, lockCoreMhz, lockMemMhz, coreOffsetMhz, memOffsetMhz, fanPct } = box.table.levers;
  const stock = [
    ["power", powerLimitW === RTX_4080_SUPER.defaultLimitW],
    ["core lock", lockCoreMhz === null],
    ["memory lock", lockMemMhz === null],
    ["core offset", coreOffsetMhz === 0],
    ["memory offset", memOffsetMhz === 0],
    ["fan", fanPct === null],
  ] as const;
  return stock.filter(([, isStock]) => !isStock).map(([name]) => name);
}

/** The writer in this very thread, over the box's own table, with the journal beside it. */
function labControl(box: Box, dir: string): CardControl & { heard<R>(reading: R): R } {
  const nvml = box.table.open();
  const device = nvml.deviceByIndex(0);
  const uuid = nvml.uuid(device);
  const writer = new CardWriter({ nvml, device, uuid, name: "lab", journal: openCardJournal(dir), clock: box.clock });
  const listeners = new Set<(event: CardEvent) => void>();
  const ears = nvml.watchXid(device);
  const answer = async <T>(work: () => T): Promise<T> => {
    // The real writer answers from a Worker: never in the same turn.
    await box.clock.sleep(3);
    return work();
  };
  return {
    limits: () => answer(() => writer.limits()),
    state: () => answer(() => ({ ...writer.state(), xidSource: "nvml" as const })),
    apply: (setting, reason) => answer(() => writer.apply(setting, reason)),
    restore: (scope) => answer(() => writer.restore(scope)),
    forgetUncleanEnd: () => answer(() => writer.forgetUncleanEnd()),
    watchEvents: (onEvent) => {
      listeners.add(onEvent);
      return { stop: () => void listeners.delete(onEvent) };
    },
    heard(reading) {
      for (const code of ears.poll()) {
        for (const tell of listeners) tell({ kind: "xid", atMs: box.clock.wallMs(), code, source: "nvml" });
      }
      return reading;
    },
  };
}
