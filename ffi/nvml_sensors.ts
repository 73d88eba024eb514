/** The NVML calls about temperature, power, clocks, fans and the bus. */
import { type FieldValue, throttleFields, throttleTimes } from "./nvml_fields.ts";
import type { ClockDomain, DeviceHandle, Nvml, Threshold } from "./nvml.ts";
import type { NvmlLibrary } from "./nvml_library.ts";
import {
  decodeFields,
  decodeTemperature,
  decodeUtilization,
  encodeFields,
  SIZE,
  VERSION,
  versioned,
} from "./nvml_structs.ts";

/** nvmlClockType_t. */
const CLOCK_TYPE = { graphics: 0, sm: 1, memory: 2, video: 3 } as const satisfies Record<ClockDomain, number>;

/** nvmlTemperatureThresholds_t. */
const THRESHOLD_TYPE = { shutdown: 0, slowdown: 1, memoryMax: 2, gpuMax: 3 } as const satisfies Record<
  Threshold,
  number
>;

/** nvmlPcieUtilCounter_t. */
const PCIE_COUNTER = { tx: 0, rx: 1 } as const;

/** nvmlTemperatureSensors_t: the core. */
const CORE_SENSOR = 0;

const PSTATE_UNKNOWN = 32;
const MANUAL_FAN = 1;

/** "This library has no such call, or not for this card": the older call may answer. */
const TRY_OLDER: ReadonlySet<number> = new Set([3, 13, 25]);

const milli = (value: number): number => value / 1000;

type LoadCalls = Pick<Nvml, "utilization" | "temperatureC" | "thresholdC" | "fieldValues">;

/** Utilisation, temperatures and field values. */
export function loadCalls(library: NvmlLibrary): LoadCalls {
  return {
    utilization: (device) => {
      const rates = new DataView(new ArrayBuffer(SIZE.utilization));
      library.call("nvmlDeviceGetUtilizationRates", device, rates);
      return decodeUtilization(rates);
    },
    temperatureC: temperatureCall(library),
    thresholdC: (device, which) => library.u32("nvmlDeviceGetTemperatureThreshold", device, THRESHOLD_TYPE[which]),
    fieldValues: (device, ids) => readFields(library, { device, ids }),
  };
}

function readFields(
  library: NvmlLibrary,
  { device, ids }: { readonly device: DeviceHandle; readonly ids: readonly number[] },
): readonly FieldValue[] {
  const fields = encodeFields(ids);
  library.call("nvmlDeviceGetFieldValues", device, ids.length, fields);
  return decodeFields(fields);
}

/** Temperature by the newer, signed call, or for good by the old one where the newer isn't there. */
function temperatureCall(library: NvmlLibrary): (device: DeviceHandle) => number {
  let isOld = false;
  return (device) => {
    if (!isOld) {
      const info = versioned(SIZE.temperatureV1, VERSION.temperatureV1);
      const code = library.code("nvmlDeviceGetTemperatureV", device, info);
      if (code === 0) return decodeTemperature(info);
      if (!TRY_OLDER.has(code)) throw library.error("nvmlDeviceGetTemperatureV", code);
      isOld = true;
    }
    return library.u32("nvmlDeviceGetTemperature", device, CORE_SENSOR);
  };
}

type PowerCalls = Pick<
  Nvml,
  "powerW" | "powerLimitW" | "enforcedPowerLimitW" | "defaultPowerLimitW" | "powerLimitRangeW" | "energyJ"
>;

/** Power and energy; NVML counts milliwatts and millijoules. */
export function powerCalls(library: NvmlLibrary): PowerCalls {
  return {
    powerW: (device) => milli(library.u32("nvmlDeviceGetPowerUsage", device)),
    powerLimitW: (device) => milli(library.u32("nvmlDeviceGetPowerManagementLimit", device)),
    enforcedPowerLimitW: (device) => milli(library.u32("nvmlDeviceGetEnforcedPowerLimit", device)),
    defaultPowerLimitW: (device) => milli(library.u32("nvmlDeviceGetPowerManagementDefaultLimit", device)),
    powerLimitRangeW: (device) => {
      const [min, max] = library.u32Pair("nvmlDeviceGetPowerManagementLimitConstraints", device);
      return { minW: milli(min), maxW: milli(max) };
    },
    energyJ: (device) => Number(library.u64("nvmlDeviceGetTotalEnergyConsumption", device)) / 1000,
  };
}

type ClockCalls = Pick<Nvml, "clockMhz" | "maxClockMhz" | "pstate" | "throttleReasons" | "throttleTimesMs">;

/** Clocks, P-state and what holds them back. */
export function clockCalls(library: NvmlLibrary, driverVersion: string): ClockCalls {
  const counters = throttleFields(driverVersion);
  const counterIds = Object.values(counters).filter((id) => id !== null);
  const throttleSymbol = library.has("nvmlDeviceGetCurrentClocksEventReasons")
    ? "nvmlDeviceGetCurrentClocksEventReasons"
    : "nvmlDeviceGetCurrentClocksThrottleReasons";
  return {
    clockMhz: (device, domain) => library.u32("nvmlDeviceGetClockInfo", device, CLOCK_TYPE[domain]),
    maxClockMhz: (device, domain) => library.u32("nvmlDeviceGetMaxClockInfo", device, CLOCK_TYPE[domain]),
    pstate: (device) => {
      const pstate = library.u32("nvmlDeviceGetPerformanceState", device);
      return pstate === PSTATE_UNKNOWN ? null : pstate;
    },
    throttleReasons: (device) => Number(BigInt.asUintN(32, library.u64(throttleSymbol, device))),
    throttleTimesMs: (device) => throttleTimes(counters, readFields(library, { device, ids: counterIds })),
  };
}

type FanCalls = Pick<Nvml, "fanCount" | "fanRangePct" | "fanPct" | "fanTargetPct" | "fanRpm" | "fanPolicy">;

/** Fans. */
export function fanCalls(library: NvmlLibrary): FanCalls {
  return {
    fanCount: (device) => library.u32("nvmlDeviceGetNumFans", device),
    fanRangePct: (device) => {
      const [minPct, maxPct] = library.u32Pair("nvmlDeviceGetMinMaxFanSpeed", device);
      return { minPct, maxPct };
    },
    fanPct: (device, fan) => library.u32("nvmlDeviceGetFanSpeed_v2", device, fan),
    fanTargetPct: (device, fan) => library.u32("nvmlDeviceGetTargetFanSpeed", device, fan),
    fanRpm: (device, fan) => {
      const info = versioned(SIZE.fanSpeedInfoV1, VERSION.fanSpeedInfoV1);
      info.setUint32(4, fan, true);
      library.call("nvmlDeviceGetFanSpeedRPM", device, info);
      return info.getUint32(8, true);
    },
    fanPolicy: (device, fan) =>
      library.u32("nvmlDeviceGetFanControlPolicy_v2", device, fan) === MANUAL_FAN ? "manual" : "auto",
  };
}

type BusCalls = Pick<Nvml, "pcieGen" | "pcieWidth" | "pcieMaxGen" | "pcieMaxWidth" | "pcieThroughputKbps">;

/** The PCIe link. */
export function busCalls(library: NvmlLibrary): BusCalls {
  return {
    pcieGen: (device) => library.u32("nvmlDeviceGetCurrPcieLinkGeneration", device),
    pcieWidth: (device) => library.u32("nvmlDeviceGetCurrPcieLinkWidth", device),
    pcieMaxGen: (device) => library.u32("nvmlDeviceGetMaxPcieLinkGeneration", device),
    pcieMaxWidth: (device) => library.u32("nvmlDeviceGetMaxPcieLinkWidth", device),
    pcieThroughputKbps: (device, direction) =>
      library.u32("nvmlDeviceGetPcieThroughput", device, PCIE_COUNTER[direction]),
  };
}
