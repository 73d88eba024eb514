/** What a simulated card is: everything that doesn't change while it runs. */
import { GIB, MIB } from "../model/units.ts";

/** Four clock domains, MHz. */
export interface ClockSet {
  readonly graphics: number;
  readonly sm: number;
  readonly memory: number;
  readonly video: number;
}

export interface CardSpec {
  readonly name: string;
  readonly uuid: string;
  readonly pciBusId: string;
  readonly driverVersion: string;
  readonly nvmlVersion: string;
  readonly cudaVersion: string;
  readonly totalBytes: number;
  /** What the driver keeps for itself; not part of `used`. */
  readonly reservedBytes: number;
  /** What is used and belongs to no process: driver contexts. */
  readonly unaccountedBytes: number;
  readonly defaultLimitW: number;
  readonly minLimitW: number;
  readonly maxLimitW: number;
  readonly idleW: number;
  /** °C. Null: the card doesn't say (GeForce has no memory temperature). */
  readonly thresholds: {
    readonly shutdown: number;
    readonly slowdown: number;
    readonly memoryMax: number | null;
    readonly gpuMax: number;
  };
  readonly fanCount: number;
  readonly fanMinPct: number;
  readonly fanMaxPct: number;
  readonly fanMaxRpm: number;
  readonly maxClocks: ClockSet;
  /** Lowest and highest clock offset, MHz; 0 and 0: not adjustable. */
  readonly offsets: {
    readonly graphics: readonly [number, number];
    readonly memory: readonly [number, number];
  };
  readonly idleClocks: ClockSet;
  readonly pcieMaxGen: number;
  readonly pcieMaxWidth: number;
}

/** The card that the project's own figures were measured on, in name and limits. */
export const RTX_4080_SUPER: CardSpec = {
  name: "Simulated RTX 4080 SUPER",
  uuid: "GPU-51e0c0de-0408-4080-8000-5eed00000001",
  pciBusId: "0000:01:00.0",
  driverVersion: "595.84",
  nvmlVersion: "13.595.84",
  cudaVersion: "13.2",
  totalBytes: 16_376 * MIB,
  reservedBytes: 436 * MIB,
  unaccountedBytes: 250 * MIB,
  defaultLimitW: 320,
  minLimitW: 150,
  maxLimitW: 370,
  idleW: 14,
  thresholds: { shutdown: 96, slowdown: 91, memoryMax: null, gpuMax: 88 },
  fanCount: 2,
  fanMinPct: 30,
  fanMaxPct: 100,
  fanMaxRpm: 3_200,
  offsets: { graphics: [-1_000, 1_000], memory: [-2_000, 6_000] },
  maxClocks: { graphics: 3_105, sm: 3_105, memory: 11_501, video: 2_415 },
  idleClocks: { graphics: 210, sm: 210, memory: 405, video: 555 },
  pcieMaxGen: 4,
  pcieMaxWidth: 16,
};

/** The room a card has for programs when nobody is there. */
export function roomBytes(card: CardSpec): number {
  return card.totalBytes - card.reservedBytes - card.unaccountedBytes;
}

/** A small card, for scenes where everything is tight. */
export const SMALL_CARD: CardSpec = {
  ...RTX_4080_SUPER,
  name: "Simulated 8 GB card",
  uuid: "GPU-51e0c0de-0408-4080-8000-5eed00000002",
  totalBytes: 8 * GIB,
};
