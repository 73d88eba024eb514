/** Each lever of one card: what it allows, what it stands at, and how it is set. Synchronous and blocking. */
import type { DeviceHandle, Nvml } from "../../ffi/nvml.ts";
import type { LeverDomain, NvmlLevers } from "../../ffi/nvml_levers.ts";
import type { Lever, LeverLimits, LeverValue } from "../model/card.ts";
import { isNvmlFailure } from "./lever_verdict.ts";

export type CardLibrary = Nvml & NvmlLevers;

/** One lever of one card. Everything throws NvmlError. */
export interface LeverDrive {
  limits(): LeverLimits;
  /** Null: nothing reads it back. */
  read(): LeverValue | null;
  set(value: LeverValue): void;
}

/** The lowest speed a person may pin fans to: below it they stutter on GeForce. */
const LEAST_FAN_PCT = 30;

export function leverDrives(nvml: CardLibrary, device: DeviceHandle): Readonly<Record<Lever, LeverDrive>> {
  return {
    power_limit_w: powerDrive(nvml, device),
    lock_core_mhz: lockDrive(nvml, device, "graphics"),
    lock_mem_mhz: lockDrive(nvml, device, "memory"),
    core_offset_mhz: offsetDrive(nvml, device, "graphics"),
    mem_offset_mhz: offsetDrive(nvml, device, "memory"),
    fan: fanDrive(nvml, device),
  };
}

function powerDrive(nvml: CardLibrary, device: DeviceHandle): LeverDrive {
  return {
    limits: () =>
      orRefused("The driver gives no power limits for this card", () => {
        const { minW, maxW } = nvml.powerLimitRangeW(device);
        const stock = nvml.defaultPowerLimitW(device);
        return { adjustable: true, min: Math.ceil(minW), max: Math.floor(maxW), stock, steps: null };
      }),
    read: () => nvml.powerLimitW(device),
    set: (value) => nvml.setPowerLimitW(device, value === "stock" ? nvml.defaultPowerLimitW(device) : value),
  };
}

/** A lock caps the clock: the card may still go as low as it likes when it idles. */
function lockDrive(nvml: CardLibrary, device: DeviceHandle, domain: LeverDomain): LeverDrive {
  let steps: readonly number[] | null = null;
  const known = () => steps ??= nvml.supportedClocksMhz(device, domain);
  return {
    limits: () =>
      orRefused("The driver names no clocks for this card", () => {
        const [min] = known();
        const max = known().at(-1);
        if (min === undefined || max === undefined) return refusedLimits("The driver names no clocks for this card");
        return { adjustable: true, min, max, stock: null, steps: known() };
      }),
    read: () => null,
    set: (value) => {
      if (value === "stock") return nvml.unlockClocks(device, domain);
      nvml.lockClocks(device, { domain, minMhz: Math.min(value, known()[0] ?? value), maxMhz: value });
    },
  };
}

function offsetDrive(nvml: CardLibrary, device: DeviceHandle, domain: LeverDomain): LeverDrive {
  return {
    limits: () =>
      orRefused("The driver has no clock offsets for this card", () => {
        const { minMhz, maxMhz } = nvml.clockOffset(device, domain);
        // Data-centre cards answer every read and a range of 0 to 0.
        if (minMhz === 0 && maxMhz === 0) return refusedLimits("not adjustable: the card's range is 0 to 0");
        return { adjustable: true, min: minMhz, max: maxMhz, stock: 0, steps: null };
      }),
    read: () => nvml.clockOffset(device, domain).mhz,
    set: (value) => nvml.setClockOffset(device, { domain, mhz: value === "stock" ? 0 : value }),
  };
}

/** All fans together. One that is pinned makes them pinned. */
function fanDrive(nvml: CardLibrary, device: DeviceHandle): LeverDrive {
  const fans = () => Array.from({ length: nvml.fanCount(device) }, (_, fan) => fan);
  return {
    limits: () =>
      orRefused("The driver can't control this card's fans", () => {
        if (fans().length === 0) return refusedLimits("no fan");
        const { minPct, maxPct } = nvml.fanRangePct(device);
        const [min, max] = [Math.max(LEAST_FAN_PCT, minPct), Math.min(100, maxPct)];
        return { adjustable: true, min, max, stock: null, steps: null };
      }),
    read: () => {
      if (fans().length === 0) return null;
      const pinned = fans().filter((fan) => nvml.fanPolicy(device, fan) === "manual");
      if (pinned.length === 0) return "stock";
      return Math.min(...pinned.map((fan) => nvml.fanTargetPct(device, fan)));
    },
    set: (value) => {
      // Every fan is tried: one that refuses must not leave the others pinned.
      const errors: unknown[] = [];
      for (const fan of fans()) {
        try {
          if (value === "stock") nvml.setFanAuto(device, fan);
          else nvml.setFanPct(device, { fan, pct: value });
        } catch (error) {
          errors.push(error);
        }
      }
      if (errors.length > 0) throw errors[0];
    },
  };
}

function refusedLimits(evidence: string): LeverLimits {
  return { adjustable: false, verdict: "not_supported", evidence };
}

/** Codes by which a driver says that it has no such figure for this card; any other is the caller's to hear. */
const ABSENT: ReadonlySet<number> = new Set([2, 3, 13, 25, 26]);

function orRefused(evidence: string, read: () => LeverLimits): LeverLimits {
  try {
    return read();
  } catch (error) {
    if (!isNvmlFailure(error) || !ABSENT.has(error.code)) throw error;
    return refusedLimits(`${evidence}: ${error.symbol} returned ${error.codeName}`);
  }
}
