/**
 * What a card's library can be asked. `Nvml` only reads; what changes a card is `NvmlLevers`, which is refused unless
 * the library was opened for it.
 *
 * Every call is synchronous and may block (facts: 15–106 ms while a context is made or memory is released), so it
 * belongs in a Worker. Every call throws NvmlError when the driver refuses, when the symbol is missing in this driver's
 * library (code 13), and after `close`.
 */
import type { FieldValue, ThrottleTimes } from "./nvml_fields.ts";
import { identityCalls } from "./nvml_identity.ts";
import { initialise } from "./nvml_init.ts";
import { leverCalls, type NvmlLevers } from "./nvml_levers.ts";
import { LIBRARY_PATHS, NvmlLibrary } from "./nvml_library.ts";
import { memoryCalls } from "./nvml_memory.ts";
import { busCalls, clockCalls, fanCalls, loadCalls, powerCalls } from "./nvml_sensors.ts";

/** A card inside an open library. Void after re-initialisation: key cards by uuid and resolve the handle again. */
export type DeviceHandle = bigint;

export interface NvmlMemory {
  readonly totalBytes: number;
  /** Leaves out what the driver reserves, as nvidia-smi does, unless `reservedBytes` is null. */
  readonly usedBytes: number;
  readonly freeBytes: number;
  /** Null where only the old call is there (driver < 510, some WSL): `usedBytes` then includes it. */
  readonly reservedBytes: number | null;
}

export interface NvmlProcess {
  readonly pid: number;
  /** Null where the driver doesn't give it (the all-ones sentinel: WSL, containers, permission). */
  readonly usedBytes: number | null;
}

export interface NvmlProcessUtilization {
  readonly pid: number;
  /** Microseconds since the Unix epoch, the driver's clock. */
  readonly timestampUs: number;
  readonly smPct: number;
  readonly memoryPct: number;
  readonly encoderPct: number;
  readonly decoderPct: number;
}

export type ProcessKind = "compute" | "graphics";
export type ClockDomain = "graphics" | "sm" | "memory" | "video";
export type Threshold = "shutdown" | "slowdown" | "memoryMax" | "gpuMax";

/** An open library. `lib/lab` has a second one, over a simulated card. */
export interface Nvml extends Disposable {
  /** Where the library came from, as it was given to the loader; "simulated" in the lab. */
  readonly path: string;

  driverVersion(): string;
  nvmlVersion(): string;
  /** "13.0". */
  cudaVersion(): string;

  /** Counts cards that can't be opened too. */
  deviceCount(): number;
  /** Initialises the card (ms; seconds without persistence mode). The order isn't stable. */
  deviceByIndex(index: number): DeviceHandle;
  /** Throws with code 6 when there is no such card. */
  deviceByUuid(uuid: string): DeviceHandle;

  name(device: DeviceHandle): string;
  uuid(device: DeviceHandle): string;
  /** As sysfs writes it: "0000:01:00.0". */
  pciBusId(device: DeviceHandle): string;

  memory(device: DeviceHandle): NvmlMemory;
  /** Empty when nobody is there. One pid may stand in both kinds: take the larger figure, never the sum. */
  processes(device: DeviceHandle, kind: ProcessKind): readonly NvmlProcess[];
  /**
   * Samples newer than `sinceUs` (0 = the whole ring). Empty means that nobody did any work. Impossible rows are
   * dropped, but a pid may still be stale: keep those that stand in the process list. Takes 2 ms.
   */
  processUtilization(device: DeviceHandle, sinceUs: number): readonly NvmlProcessUtilization[];

  /** Share of the last 1/6–1 s with a kernel running, and with memory being read or written; percent. */
  utilization(device: DeviceHandle): { readonly gpuPct: number; readonly memoryPct: number };
  temperatureC(device: DeviceHandle): number;
  thresholdC(device: DeviceHandle, which: Threshold): number;
  /** A one-second average on Ampere and newer. */
  powerW(device: DeviceHandle): number;
  /** What was asked for; laptops give only `enforcedPowerLimitW`. Takes 0.1 ms. */
  powerLimitW(device: DeviceHandle): number;
  enforcedPowerLimitW(device: DeviceHandle): number;
  defaultPowerLimitW(device: DeviceHandle): number;
  powerLimitRangeW(device: DeviceHandle): { readonly minW: number; readonly maxW: number };
  /** Since the driver was loaded. Takes 3 ms. */
  energyJ(device: DeviceHandle): number;

  clockMhz(device: DeviceHandle, domain: ClockDomain): number;
  /** Takes 1.3 ms. */
  maxClockMhz(device: DeviceHandle, domain: ClockDomain): number;
  /** 0–15; null where the driver says unknown. */
  pstate(device: DeviceHandle): number | null;
  /** The driver's bit mask, its low 32 bits. Bit 0 is idle, which is no throttle. */
  throttleReasons(device: DeviceHandle): number;
  /** What the reasons miss between two looks at them: time held back since the driver was loaded, by cause. Takes 1 ms. */
  throttleTimesMs(device: DeviceHandle): ThrottleTimes;

  /** 0 on a card without fans. Ask before any other fan call: those answer "invalid argument" there. */
  fanCount(device: DeviceHandle): number;
  fanRangePct(device: DeviceHandle): { readonly minPct: number; readonly maxPct: number };
  /** What the fan is driven at, not a tachometer; may exceed 100. */
  fanPct(device: DeviceHandle, fan: number): number;
  fanTargetPct(device: DeviceHandle, fan: number): number;
  fanRpm(device: DeviceHandle, fan: number): number;
  fanPolicy(device: DeviceHandle, fan: number): "auto" | "manual";

  /** Drops at idle: no fault. */
  pcieGen(device: DeviceHandle): number;
  pcieWidth(device: DeviceHandle): number;
  pcieMaxGen(device: DeviceHandle): number;
  pcieMaxWidth(device: DeviceHandle): number;
  /** KB/s over the next 20 ms: the call blocks that long. */
  pcieThroughputKbps(device: DeviceHandle, direction: "tx" | "rx"): number;

  /** One result per id, in order; a field without an answer has its own code. */
  fieldValues(device: DeviceHandle, ids: readonly number[]): readonly FieldValue[];

  /** Gives the library back. Later calls throw; closing twice does nothing. */
  close(): void;
}

export interface OpenNvmlOptions {
  /** Files or sonames tried in this order; LIBRARY_PATHS when left out. */
  readonly paths?: readonly string[];
  /** Reads /proc/driver/nvidia/version when library and kernel module don't match; Libc.readText does. */
  readonly readText: (path: string) => string;
  /**
   * True: the calls that change a card reach the driver. Whoever says so keeps a journal. Left out, each of them throws
   * before the library is called.
   */
  readonly allowsChanges?: boolean;
}

/** Loads and initialises the driver's library. Throws NvmlError, with a hint, when either is refused. */
export function openNvml(options: OpenNvmlOptions): Nvml & NvmlLevers {
  const library = NvmlLibrary.load(options.paths ?? LIBRARY_PATHS);
  try {
    initialise(library, options.readText);
  } catch (error) {
    library.close();
    throw error;
  }
  const close = closeOnce(library);
  try {
    const identity = identityCalls(library);
    return {
      path: library.path,
      ...identity,
      ...memoryCalls(library, identity.driverVersion()),
      ...loadCalls(library),
      ...powerCalls(library),
      ...clockCalls(library, identity.driverVersion()),
      ...fanCalls(library),
      ...busCalls(library),
      ...leverCalls(library, { allowsChanges: options.allowsChanges === true }),
      close,
      [Symbol.dispose]: close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Init is counted by the library, so every open needs its own shutdown, once. */
function closeOnce(library: NvmlLibrary): () => void {
  let isOpen = true;
  return () => {
    if (!isOpen) return;
    isOpen = false;
    // Its code changes nothing: a lost card refuses the shutdown, and the library goes either way.
    library.code("nvmlShutdown");
    library.close();
  };
}
