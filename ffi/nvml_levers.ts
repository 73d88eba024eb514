/** The NVML calls that change a card, what reads their changes back, and the events that tell of faults. */
import type { DeviceHandle } from "./nvml.ts";
import { NvmlError } from "./nvml_errors.ts";
import type { NvmlLibrary } from "./nvml_library.ts";
import { SIZE, VERSION, versioned } from "./nvml_structs.ts";
import type { NvmlSymbol } from "./nvml_symbols.ts";

export type LeverDomain = "graphics" | "memory";

/** A clock offset and the range the card takes; 0 to 0 is a card whose offsets can't be changed. */
export interface ClockOffset {
  readonly mhz: number;
  readonly minMhz: number;
  readonly maxMhz: number;
}

/** Faults of one card since it was made. */
export interface XidWatch {
  /** Xid numbers that came since the last look; never waits. 999 stands for one the driver doesn't name. */
  poll(): readonly number[];
  close(): void;
}

/**
 * What can be set. Needs root; every call throws NvmlError with the driver's code. Success only means "accepted": read
 * back what can be read back.
 */
export interface NvmlLevers {
  /** Ascending, every memory clock's own list joined; empty where the card names none. Takes some ms. */
  supportedClocksMhz(device: DeviceHandle, domain: LeverDomain): readonly number[];
  /** Of the fastest P-state. */
  clockOffset(device: DeviceHandle, domain: LeverDomain): ClockOffset;
  /** Faults from now on, or an error where this driver or platform tells none. */
  watchXid(device: DeviceHandle): XidWatch;

  setPowerLimitW(device: DeviceHandle, powerW: number): void;
  /** Keeps a clock inside a range. Nothing reads it back. */
  lockClocks(device: DeviceHandle, lock: { domain: LeverDomain; minMhz: number; maxMhz: number }): void;
  unlockClocks(device: DeviceHandle, domain: LeverDomain): void;
  setClockOffset(device: DeviceHandle, offset: { domain: LeverDomain; mhz: number }): void;
  /** Makes the fan manual too. */
  setFanPct(device: DeviceHandle, target: { fan: number; pct: number }): void;
  /** Gives the fan back to the card. */
  setFanAuto(device: DeviceHandle, fan: number): void;
}

/** nvmlClockType_t of the two domains that offsets exist for. */
const CLOCK_TYPE = { graphics: 0, memory: 2 } as const satisfies Record<LeverDomain, number>;
/** Offsets go to the fastest P-state, as the vendor's own tool does since Pascal. */
const FASTEST_PSTATE = 0;
/** nvmlEventTypeXidCriticalError. Registering more brings events from an idle card within milliseconds. */
const XID_EVENT = 8n;
/** More than a storm within one look; the rest comes with the next. */
const MOST_EVENTS = 64;
const INSUFFICIENT_SIZE = 7;
const NO_PERMISSION = 4;

/** "This library has no such call, or not for this card": the older call may answer. */
const TRY_OLDER: ReadonlySet<number> = new Set([3, 13, 25]);

const OLD_OFFSET = {
  graphics: {
    get: "nvmlDeviceGetGpcClkVfOffset",
    range: "nvmlDeviceGetGpcClkMinMaxVfOffset",
    set: "nvmlDeviceSetGpcClkVfOffset",
  },
  memory: {
    get: "nvmlDeviceGetMemClkVfOffset",
    range: "nvmlDeviceGetMemClkMinMaxVfOffset",
    set: "nvmlDeviceSetMemClkVfOffset",
  },
} as const satisfies Record<LeverDomain, Record<string, NvmlSymbol>>;

const LOCK = {
  graphics: { set: "nvmlDeviceSetGpuLockedClocks", reset: "nvmlDeviceResetGpuLockedClocks" },
  memory: { set: "nvmlDeviceSetMemoryLockedClocks", reset: "nvmlDeviceResetMemoryLockedClocks" },
} as const satisfies Record<LeverDomain, Record<string, NvmlSymbol>>;

/** Everything about levers; the setters throw before the library is called unless changes are allowed. */
export function leverCalls(library: NvmlLibrary, options: { readonly allowsChanges: boolean }): NvmlLevers {
  const set = (symbol: NvmlSymbol, change: () => number): void => {
    if (!options.allowsChanges) {
      const message = `Cannot call ${symbol}: the library was opened for reading`;
      throw new NvmlError(symbol, NO_PERMISSION, { message });
    }
    const code = change();
    if (code !== 0) throw library.error(symbol, code);
  };
  return {
    supportedClocksMhz: (device, domain) => supportedClocks(library, device, domain),
    clockOffset: (device, domain) => readOffset(library, device, domain),
    watchXid: (device) => watchXid(library, device),
    setPowerLimitW: (device, powerW) => {
      const symbol = "nvmlDeviceSetPowerManagementLimit";
      set(symbol, () => library.code(symbol, device, Math.round(powerW * 1000)));
    },
    lockClocks: (device, { domain, minMhz, maxMhz }) => {
      const symbol = LOCK[domain].set;
      set(symbol, () => library.code(symbol, device, minMhz, maxMhz));
    },
    unlockClocks: (device, domain) => {
      const symbol = LOCK[domain].reset;
      set(symbol, () => library.code(symbol, device));
    },
    setClockOffset: (device, { domain, mhz }) => {
      // The new call first; the old one only where the new is missing, since it is deprecated.
      const info = offsetStruct(domain);
      info.setInt32(12, mhz, true);
      let symbol: NvmlSymbol = "nvmlDeviceSetClockOffsets";
      if (library.has(symbol) && options.allowsChanges) {
        const code = library.code(symbol, device, info);
        if (code === 0) return;
        if (!TRY_OLDER.has(code)) throw library.error(symbol, code);
      }
      symbol = OLD_OFFSET[domain].set;
      const old = symbol;
      set(old, () => library.code(old, device, mhz));
    },
    setFanPct: (device, { fan, pct }) => {
      const symbol = "nvmlDeviceSetFanSpeed_v2";
      set(symbol, () => library.code(symbol, device, fan, pct));
    },
    setFanAuto: (device, fan) => {
      const symbol = "nvmlDeviceSetDefaultFanSpeed_v2";
      set(symbol, () => library.code(symbol, device, fan));
    },
  };
}

function offsetStruct(domain: LeverDomain): DataView<ArrayBuffer> {
  const info = versioned(SIZE.clockOffsetV1, VERSION.clockOffsetV1);
  info.setUint32(4, CLOCK_TYPE[domain], true);
  info.setUint32(8, FASTEST_PSTATE, true);
  return info;
}

function readOffset(library: NvmlLibrary, device: DeviceHandle, domain: LeverDomain): ClockOffset {
  const symbol = "nvmlDeviceGetClockOffsets";
  const info = offsetStruct(domain);
  const code = library.code(symbol, device, info);
  if (code === 0) {
    return { mhz: info.getInt32(12, true), minMhz: info.getInt32(16, true), maxMhz: info.getInt32(20, true) };
  }
  if (!TRY_OLDER.has(code)) throw library.error(symbol, code);
  const old = OLD_OFFSET[domain];
  const out = new Int32Array(1);
  library.call(old.get, device, out);
  const [minMhz, maxMhz] = library.i32Pair(old.range, device);
  return { mhz: out[0]!, minMhz, maxMhz };
}

/** Ascending and without doubles. */
function supportedClocks(library: NvmlLibrary, device: DeviceHandle, domain: LeverDomain): readonly number[] {
  const memory = clockList((count, list) => library.code("nvmlDeviceGetSupportedMemoryClocks", device, count, list));
  if (typeof memory === "number") throw library.error("nvmlDeviceGetSupportedMemoryClocks", memory);
  if (domain === "memory") return ascending(memory);
  const graphics: number[] = [];
  for (const memoryMhz of memory) {
    const symbol = "nvmlDeviceGetSupportedGraphicsClocks";
    const list = clockList((count, into) => library.code(symbol, device, memoryMhz, count, into));
    if (typeof list === "number") throw library.error(symbol, list);
    graphics.push(...list);
  }
  return ascending(graphics);
}

function ascending(values: Iterable<number>): readonly number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

/** A list of unknown length: grows until it fits. Gives the code when that isn't the trouble. */
function clockList(
  ask: (count: Uint32Array<ArrayBuffer>, list: Uint32Array<ArrayBuffer>) => number,
): readonly number[] | number {
  for (let capacity = 256;;) {
    const count = new Uint32Array([capacity]);
    const list = new Uint32Array(capacity);
    const code = ask(count, list);
    if (code === 0) return [...list.subarray(0, count[0])];
    if (code !== INSUFFICIENT_SIZE || count[0]! <= capacity) return code;
    capacity = count[0]!;
  }
}

/** A wait of 0 ms returns at once (20 µs), so faults are looked for with each reading and no call is ever in flight. */
function watchXid(library: NvmlLibrary, device: DeviceHandle): XidWatch {
  const handle = new BigUint64Array(1);
  library.call("nvmlEventSetCreate", handle);
  const set = handle[0]!;
  let isOpen = true;
  const close = () => {
    // Its code changes nothing: a lost card refuses, and the library goes either way.
    if (isOpen && library.has("nvmlEventSetFree")) library.code("nvmlEventSetFree", set);
    isOpen = false;
  };
  const code = library.code("nvmlDeviceRegisterEvents", device, XID_EVENT, set);
  if (code !== 0) {
    close();
    throw library.error("nvmlDeviceRegisterEvents", code);
  }
  return {
    poll: () => {
      const codes: number[] = [];
      const data = new DataView(new ArrayBuffer(SIZE.eventData));
      while (isOpen && codes.length < MOST_EVENTS && library.code("nvmlEventSetWait_v2", set, data, 0) === 0) {
        if (data.getBigUint64(8, true) === XID_EVENT) codes.push(Number(data.getBigUint64(16, true)));
      }
      return codes;
    },
    close,
  };
}
