/** The NVML calls about memory and the processes that hold or use it. */
import type { DeviceHandle, Nvml, NvmlMemory, NvmlProcess, NvmlProcessUtilization, ProcessKind } from "./nvml.ts";
import { NvmlError } from "./nvml_errors.ts";
import type { NvmlLibrary } from "./nvml_library.ts";
import {
  decodeMemoryV1,
  decodeMemoryV2,
  decodeProcesses,
  decodeProcessUtilization,
  PROCESS_ENTRY_MAX,
  processStride,
  SIZE,
  UNWRITTEN,
  VERSION,
  versioned,
  writtenStride,
} from "./nvml_structs.ts";
import type { NvmlSymbol } from "./nvml_symbols.ts";

const NOT_FOUND = 6;
const INSUFFICIENT_SIZE = 7;
const UNKNOWN = 999;

/** "This library has no such version of the call": 13 is what GetMemoryInfo_v2 answers to a wrong version word. */
const VERSION_REFUSED: ReadonlySet<number> = new Set([13, 25]);

/** A live list can outgrow the buffer between two calls; after this many growths something else is wrong. */
const MOST_GROWTHS = 5;

/** Memory, processes and process utilisation. */
export function memoryCalls(
  library: NvmlLibrary,
  driverVersion: string,
): Pick<Nvml, "memory" | "processes" | "processUtilization"> {
  const lists = {
    compute: processList(library, {
      newest: "nvmlDeviceGetComputeRunningProcesses_v3",
      older: "nvmlDeviceGetComputeRunningProcesses_v2",
      driverVersion,
    }),
    graphics: processList(library, {
      newest: "nvmlDeviceGetGraphicsRunningProcesses_v3",
      older: "nvmlDeviceGetGraphicsRunningProcesses_v2",
      driverVersion,
    }),
  } satisfies Record<ProcessKind, (device: DeviceHandle) => readonly NvmlProcess[]>;
  return {
    memory: memoryCall(library),
    processes: (device, kind) => lists[kind](device),
    processUtilization: processUtilizationCall(library),
  };
}

/**
 * Memory by the newer call, or by the old one where the newer isn't accepted. Once one of them has answered it stays
 * with that one: their `used` differ by the driver's reserve (0.6 GB), and a change in the middle of a barrier would
 * look like an allocation.
 */
function memoryCall(library: NvmlLibrary): (device: DeviceHandle) => NvmlMemory {
  let version: 1 | 2 | null = null;
  return (device) => {
    if (version !== 1) {
      const info = versioned(SIZE.memoryV2, VERSION.memoryV2);
      const code = library.code("nvmlDeviceGetMemoryInfo_v2", device, info);
      if (code === 0) {
        version = 2;
        return decodeMemoryV2(info);
      }
      // WSL answered 999 to the newer call; where that call has worked before, 999 means what it says.
      const isRefused = VERSION_REFUSED.has(code) || code === UNKNOWN;
      if (version === 2 || !isRefused) throw library.error("nvmlDeviceGetMemoryInfo_v2", code);
    }
    const info = new DataView(new ArrayBuffer(SIZE.memoryV1));
    library.call("nvmlDeviceGetMemoryInfo", device, info);
    version = 1;
    return decodeMemoryV1(info);
  };
}

interface ListSymbols {
  readonly newest: "nvmlDeviceGetComputeRunningProcesses_v3" | "nvmlDeviceGetGraphicsRunningProcesses_v3";
  readonly older: "nvmlDeviceGetComputeRunningProcesses_v2" | "nvmlDeviceGetGraphicsRunningProcesses_v2";
  readonly driverVersion: string;
}

/** One process list: exactly one version of the call is ever used, and its buffer is kept. */
function processList(library: NvmlLibrary, symbols: ListSymbols): (device: DeviceHandle) => readonly NvmlProcess[] {
  const symbol = library.has(symbols.newest) ? symbols.newest : symbols.older;
  // The 535 drivers' long entry belongs to _v3 alone.
  const expected = symbol === symbols.newest ? processStride(symbols.driverVersion) : 24;
  let buffer = new Uint8Array(16 * PROCESS_ENTRY_MAX);
  const count = new Uint32Array(1);
  return (device) => {
    for (let growth = 0; growth < MOST_GROWTHS; growth++) {
      buffer.fill(UNWRITTEN);
      count[0] = buffer.length / PROCESS_ENTRY_MAX;
      const code = library.code(symbol, device, count, buffer);
      if (code === 0) return readList(buffer, { count: count[0], expected, symbol });
      if (code !== INSUFFICIENT_SIZE) throw library.error(symbol, code);
      buffer = new Uint8Array((2 * count[0] + 8) * PROCESS_ENTRY_MAX);
    }
    throw library.error(symbol, INSUFFICIENT_SIZE);
  };
}

/**
 * Decodes what the driver wrote, by the stride it wrote with. A length that fits no stride makes the list unreadable:
 * pids and bytes would change places, and a wrong figure is worse than none.
 */
function readList(
  buffer: Uint8Array<ArrayBuffer>,
  list: { count: number; expected: 24 | 32; symbol: NvmlSymbol },
): readonly NvmlProcess[] {
  if (list.count === 0) return [];
  const stride = writtenStride(buffer, list.count);
  if (stride === null) {
    throw new NvmlError(list.symbol, UNKNOWN, {
      message:
        `Cannot read the GPU's process list: ${list.symbol} wrote ${list.count} entries of a size that is neither ` +
        `24 nor 32 bytes (${list.expected} expected of this driver)`,
      hint: "A library that stands in for the driver's (a vGPU shim) may be loaded; check --nvml and LD_PRELOAD",
    });
  }
  return decodeProcesses(new DataView(buffer.buffer), { count: list.count, stride });
}

/** Process utilisation. The driver's ring has a fixed capacity, asked for once. */
function processUtilizationCall(
  library: NvmlLibrary,
): (device: DeviceHandle, sinceUs: number) => readonly NvmlProcessUtilization[] {
  const symbol = "nvmlDeviceGetProcessUtilization";
  const count = new Uint32Array(1);
  let buffer = new DataView(new ArrayBuffer(0));
  return (device, sinceUs) => {
    for (let growth = 0; growth < MOST_GROWTHS; growth++) {
      const capacity = buffer.byteLength / SIZE.processUtilizationSample;
      count[0] = capacity;
      const code = library.code(symbol, device, capacity === 0 ? null : buffer, count, BigInt(Math.floor(sinceUs)));
      // Nobody did any work: no error, and `count` is left as it was.
      if (code === NOT_FOUND) return [];
      if (code === 0) return decodeProcessUtilization(buffer, { count: Math.min(count[0], capacity), sinceUs });
      if (code !== INSUFFICIENT_SIZE) throw library.error(symbol, code);
      buffer = new DataView(new ArrayBuffer(Math.max(count[0], capacity + 8) * SIZE.processUtilizationSample));
    }
    throw library.error(symbol, INSUFFICIENT_SIZE);
  };
}
