/** How fast the simulated card works by its levers, and what it does when it is driven too far. */
import type { CardSpec } from "./card_spec.ts";
import { Random } from "./random.ts";
import type { SetLevers } from "./table_levers.ts";

/** What working beyond its stability does to a card: a fault of the driver's, garbage, or the end of the program. */
export type Breakdown = "xid" | "degenerate" | "crash";

/** One piece of silicon. */
export interface Silicon {
  /** Diffusion speed against stock, by watts allowed: between two points by their distance. */
  readonly diffusion: readonly (readonly [watts: number, factor: number])[];
  /** How far a run's speed strays, either way. */
  readonly noise: number;
  /** The highest offsets it bears under load; null: whatever can be set. */
  readonly stableCoreOffsetMhz: number | null;
  readonly stableMemOffsetMhz: number | null;
  readonly breakdown: Breakdown;
}

/** As measured (SPEC 4.2): 5.48 it/s at 222 W to 6.71 at 370 W, against 6.52 at 320 W. */
export const MEASURED_SILICON: Silicon = {
  diffusion: [[150, 0.62], [222, 0.8405], [259, 0.954], [296, 0.9969], [320, 1], [333, 1.0169], [370, 1.0282]],
  noise: 0,
  stableCoreOffsetMhz: null,
  stableMemOffsetMhz: null,
  breakdown: "xid",
};

/** A card that no power makes faster than stock. */
export const FLAT_SILICON: Silicon = { ...MEASURED_SILICON, diffusion: [[150, 1], [370, 1]] };

/** Clocks that neither workload is held back by: locks at and above them did nothing. */
const DECODE_CORE_MHZ = 1_500;
const DIFFUSION_CORE_MHZ = 2_400;
const BUSY_CORE_MHZ = 2_745;
const BUSY_MEMORY_MHZ = 11_251;
/** Decoding never drew more than this. */
const DECODE_W = 222;
/** What of a higher core clock reaches a diffusion step. */
const CORE_SHARE = 0.4;

export class Pace {
  readonly silicon: Silicon;
  readonly #random: Random;
  #levers: SetLevers | null = null;
  #coming: SetLevers | null = null;

  constructor(silicon: Silicon, seed: number) {
    this.silicon = silicon;
    this.#random = new Random(seed ^ 0x9e3779b9);
  }

  /** Once a tick of the sensors: what was set takes until the next to show. */
  follow(levers: SetLevers): void {
    this.#levers = this.#coming ?? levers;
    this.#coming = levers;
  }

  /** How far one run strays from its speed; drawn once a run. */
  stray(): number {
    const { noise } = this.silicon;
    return noise === 0 ? 1 : 1 + this.#random.between(-noise, noise);
  }

  /** Decoding against stock: bound by the memory's clock, by power only where very little is allowed. */
  decode(): number {
    const levers = this.#levers;
    if (levers === null) return 1;
    const memoryMhz = Math.min(BUSY_MEMORY_MHZ + levers.memOffsetMhz / 2, levers.lockMemMhz ?? Infinity);
    const coreMhz = levers.lockCoreMhz ?? BUSY_CORE_MHZ;
    return memoryMhz / BUSY_MEMORY_MHZ * Math.min(1, coreMhz / DECODE_CORE_MHZ) *
      Math.min(1, levers.powerLimitW / DECODE_W);
  }

  /** A sampling step against stock: bound by power, then by the core's clock. */
  diffusion(): number {
    const levers = this.#levers;
    if (levers === null) return 1;
    const coreMhz = levers.lockCoreMhz ?? BUSY_CORE_MHZ;
    const gained = 1 + levers.coreOffsetMhz / BUSY_CORE_MHZ * CORE_SHARE;
    return along(this.silicon.diffusion, levers.powerLimitW) * Math.min(1, coreMhz / DIFFUSION_CORE_MHZ) * gained;
  }

  /** What goes wrong with work that is done now; null: nothing. */
  breakdown(): Breakdown | null {
    const { stableCoreOffsetMhz: core, stableMemOffsetMhz: memory, breakdown } = this.silicon;
    const levers = this.#levers;
    const isBeyond = levers !== null &&
      (levers.coreOffsetMhz > (core ?? Infinity) || levers.memOffsetMhz > (memory ?? Infinity));
    return isBeyond ? breakdown : null;
  }
}

function along(points: Silicon["diffusion"], at: number): number {
  const above = points.findIndex(([x]) => x >= at);
  if (above <= 0) return points[Math.max(0, above)]?.[1] ?? 1;
  const [[x0, y0], [x1, y1]] = [points[above - 1] ?? [0, 1], points[above] ?? [1, 1]];
  return y0 + (y1 - y0) * (at - x0) / (x1 - x0);
}

/** Whether silicon and card agree on what stock is: diffusion at the default limit is the measure of all else. */
export function paceOf(card: CardSpec, silicon: Silicon, seed: number): Pace {
  const stock = along(silicon.diffusion, card.defaultLimitW);
  const diffusion = silicon.diffusion.map(([watts, factor]) => [watts, factor / stock] as const);
  return new Pace({ ...silicon, diffusion }, seed);
}
