import type { Clock, Timer } from "../model/ports.ts";
import type { GpuTable } from "./gpu_table.ts";
import { LabClock } from "./lab_clock.ts";
import type { Pace } from "./pace.ts";
import type { PageCache } from "./page_cache.ts";
import type { ProcTree } from "./proc_tree.ts";
import type { Random } from "./random.ts";
import type { Timing } from "./timing.ts";
import type { Vram } from "./vram.ts";

/** What the simulated programs stand on: the machine of which they are part. */
export interface Ground {
  readonly clock: Clock;
  readonly random: Random;
  readonly table: GpuTable;
  readonly vram: Vram;
  readonly processes: ProcTree;
  readonly pageCache: PageCache;
  readonly timing: Timing;
  /** How fast the card works by its levers. */
  readonly pace: Pace;
  /** Whether the driver holds calls back while it makes contexts and releases memory (15–106 ms each, measured). */
  readonly driverHolds: boolean;
  /** What the lab's own code threw: a mistake in the simulation, never a quirk. */
  readonly onError: (error: unknown) => void;
}

/** Tells a lab clock that something moved; any other clock needs no telling. */
export function stirOf(clock: Clock): () => void {
  return clock instanceof LabClock ? () => clock.stir() : () => {};
}

/** Holds a driver call back for a while, where the box has such a driver. */
export function holdCall(ground: Ground, call: "memory" | "processes", ms: number): Timer {
  if (!ground.driverHolds) return { stop: () => {} };
  ground.table.hold(call, true);
  return ground.clock.after(ms, () => ground.table.hold(call, false));
}
