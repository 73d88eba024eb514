/** What only readings tell: whether a locked clock is kept, and whether the temperature is one. Pure but for its memory. */
import type { GpuReading } from "../model/sample.ts";
import { TOLERANCE } from "./lever_verdict.ts";

/** Below this the clock is low because there is nothing to do. */
const LOADED_PCT = 50;
/** One reading may catch the clock on its way. */
const READINGS_FOR_A_VERDICT = 3;

export interface LockWatch {
  readonly valueMhz: number;
  /** A verdict, once enough readings under load agree; null while they don't. */
  see(reading: GpuReading): { readonly verdict: "honoured" | "ignored"; readonly evidence: string } | null;
}

/**
 * Judges a lock by the clock under load: above it means ignored; at it, honoured. A clock that stays below may be held
 * there by power or heat, so it proves nothing.
 */
export function watchLock(clock: "graphicsMhz" | "memoryMhz", valueMhz: number): LockWatch {
  let above = 0;
  let at = 0;
  return {
    valueMhz,
    see: (reading) => {
      const mhz = reading.clocks[clock];
      if (mhz === null || (reading.gpuUtilPct ?? 0) < LOADED_PCT) return null;
      const tolerance = TOLERANCE.lock_core_mhz;
      above = mhz > valueMhz + tolerance ? above + 1 : 0;
      at = Math.abs(mhz - valueMhz) <= tolerance ? at + 1 : 0;
      const under = `under load the clock was ${mhz} MHz, the lock is ${valueMhz} MHz`;
      if (above >= READINGS_FOR_A_VERDICT) return { verdict: "ignored", evidence: `The lock does not hold: ${under}` };
      return at >= READINGS_FOR_A_VERDICT ? { verdict: "honoured", evidence: `The lock holds: ${under}` } : null;
    },
  };
}

/** Readings in a row without a temperature after which the sensor counts as dead. */
const DEAD_READINGS = 2;
/** Seconds that a temperature may stand still while power swings. */
const FROZEN_READINGS = 60;
/** A swing of this share of the power limit moves any working sensor by more than a degree. */
const SWING_SHARE = 0.25;
const SWING_W = 50;

/** Tells a sensor that has died or frozen: fans pinned by hand must not depend on it (a frozen one was seen after resume). */
export class TemperatureTrust {
  #missing = 0;
  #standing: { readonly temperatureC: number; count: number; lowestW: number; highestW: number } | null = null;

  /** Why the temperature can't be trusted; null while it can. */
  see(reading: GpuReading): string | null {
    const { temperatureC, powerW, powerLimitW } = reading;
    if (temperatureC === null) {
      this.#missing++;
      return this.#missing >= DEAD_READINGS
        ? `The temperature could not be read ${this.#missing} times in a row`
        : null;
    }
    this.#missing = 0;
    if (powerW === null) return null;
    const before = this.#standing;
    if (before === null || before.temperatureC !== temperatureC) {
      this.#standing = { temperatureC, count: 1, lowestW: powerW, highestW: powerW };
      return null;
    }
    before.count++;
    before.lowestW = Math.min(before.lowestW, powerW);
    before.highestW = Math.max(before.highestW, powerW);
    const swingW = before.highestW - before.lowestW;
    const enoughW = Math.max(SWING_W, SWING_SHARE * (powerLimitW ?? 0));
    if (before.count < FROZEN_READINGS || swingW < enoughW) return null;
    return `The temperature has stood at ${temperatureC} °C for ${before.count} readings while power moved by ` +
      `${Math.round(swingW)} W`;
  }
}
