/** What stays true of a card until its library is opened anew. */
import type { DeviceHandle, Nvml } from "../../ffi/nvml.ts";
import { GpuUnavailable } from "../model/ports.ts";
import type { GpuFacts } from "../model/sample.ts";
import { isNvmlFailure, toGpuUnavailable } from "./gpu_failure.ts";
import type { GpuFigures } from "./gpu_figures.ts";

/** Which card is arbitrated. The uuid wins; an index isn't stable over reboots. Neither: the first card. */
export interface GpuChoice {
  readonly uuid: string | null;
  readonly index: number | null;
}

/** A card inside an open library. */
export interface ChosenGpu {
  readonly device: DeviceHandle;
  readonly index: number;
}

/** Finds the chosen card, or throws GpuUnavailable saying what there is instead. Initialises it. */
export function chooseGpu(nvml: Nvml, choice: GpuChoice): ChosenGpu {
  try {
    const count = nvml.deviceCount();
    if (count === 0) {
      throw new GpuUnavailable(
        "absent",
        "Cannot find a GPU: the NVIDIA driver sees none",
        "Check that the GPU is on the bus (`lspci`) and bound to the nvidia driver, or that the container is given it",
      );
    }
    if (choice.uuid !== null) return byUuid(nvml, { uuid: choice.uuid, count });
    const index = choice.index ?? 0;
    if (index < count) return { device: nvml.deviceByIndex(index), index };
    throw new GpuUnavailable(
      "absent",
      `Cannot find GPU ${index}: the NVIDIA driver sees ${count}`,
      `Set gpu.index to 0–${count - 1}, or gpu.uuid`,
    );
  } catch (error) {
    throw toGpuUnavailable(error);
  }
}

function byUuid(nvml: Nvml, wanted: { uuid: string; count: number }): ChosenGpu {
  let device: DeviceHandle;
  try {
    device = nvml.deviceByUuid(wanted.uuid);
  } catch (error) {
    if (!isNvmlFailure(error) || (error.code !== 6 && error.code !== 2)) throw error;
    const message = `Cannot find GPU ${wanted.uuid}: the NVIDIA driver sees ${wanted.count} other`;
    throw new GpuUnavailable("absent", message, "Set gpu.uuid to one that `nvidia-smi -L` lists, or leave it out", {
      cause: error,
    });
  }
  // With one card there is nothing to look for; opening the others would wake them.
  for (let index = 0; wanted.count > 1 && index < wanted.count; index++) {
    if (handleAt(nvml, index) === device) return { device, index };
  }
  return { device, index: 0 };
}

/** Null for a card that is counted but can't be opened. */
function handleAt(nvml: Nvml, index: number): DeviceHandle | null {
  try {
    return nvml.deviceByIndex(index);
  } catch (error) {
    if (!isNvmlFailure(error)) throw error;
    return null;
  }
}

/** Reads the facts. Takes some ms: some of these calls are slow, so once is enough. */
export function readFacts(nvml: Nvml, gpu: ChosenGpu, figures: GpuFigures): GpuFacts {
  const { device, index } = gpu;
  const ask = <T>(name: string, read: () => T): T | null => figures.ask(name, read);
  const range = ask("powerLimitRange", () => nvml.powerLimitRangeW(device));
  const fanCount = ask("fanCount", () => nvml.fanCount(device));
  // A card without fans answers "invalid argument" to every other fan call.
  const fans = fanCount === null || fanCount === 0 ? null : ask("fanRange", () => nvml.fanRangePct(device));
  const identity = identify(nvml, device);
  return {
    ...identity,
    index,
    pciBusId: ask("pciBusId", () => nvml.pciBusId(device)),
    nvmlVersion: ask("nvmlVersion", () => nvml.nvmlVersion()) ?? "unknown",
    cudaVersion: ask("cudaVersion", () => nvml.cudaVersion()),
    power: {
      defaultLimitW: ask("defaultPowerLimit", () => nvml.defaultPowerLimitW(device)),
      minLimitW: range?.minW ?? null,
      maxLimitW: range?.maxW ?? null,
    },
    thresholds: {
      shutdownC: ask("shutdownThreshold", () => nvml.thresholdC(device, "shutdown")),
      slowdownC: ask("slowdownThreshold", () => nvml.thresholdC(device, "slowdown")),
      memoryMaxC: ask("memoryMaxThreshold", () => nvml.thresholdC(device, "memoryMax")),
      gpuMaxC: ask("gpuMaxThreshold", () => nvml.thresholdC(device, "gpuMax")),
    },
    fanCount,
    fanMinPct: fans?.minPct ?? null,
    fanMaxPct: fans?.maxPct ?? null,
    maxGraphicsMhz: ask("maxGraphicsClock", () => nvml.maxClockMhz(device, "graphics")),
    maxMemoryMhz: ask("maxMemoryClock", () => nvml.maxClockMhz(device, "memory")),
    pcieMaxGen: ask("pcieMaxGen", () => nvml.pcieMaxGen(device)),
    pcieMaxWidth: ask("pcieMaxWidth", () => nvml.pcieMaxWidth(device)),
  };
}

/** What a card can't be arbitrated without. */
function identify(
  nvml: Nvml,
  device: DeviceHandle,
): Pick<GpuFacts, "uuid" | "name" | "driverVersion" | "memoryTotalBytes"> {
  try {
    return {
      uuid: nvml.uuid(device),
      name: nvml.name(device),
      driverVersion: nvml.driverVersion(),
      memoryTotalBytes: nvml.memory(device).totalBytes,
    };
  } catch (error) {
    throw toGpuUnavailable(error);
  }
}
