/** A simulated card's levers: what the library's setters do to the table, and what stands there then. */
import type { LeverDomain, NvmlLevers } from "../../ffi/nvml_levers.ts";
import type { Call, Gauge, GpuPage } from "./gpu_layout.ts";
import { SYMBOLS } from "./nvml_symbols.ts";
import { TableError } from "./table_error.ts";

/** What the levers were set to; null: no lock, automatic fans. */
export interface SetLevers {
  readonly powerLimitW: number;
  readonly lockCoreMhz: number | null;
  readonly lockMemMhz: number | null;
  readonly coreOffsetMhz: number;
  readonly memOffsetMhz: number;
  readonly fanPct: number | null;
}

/** A card's clocks go in such steps. */
const CORE_STEP_MHZ = 15;
const LOWEST_CORE_MHZ = 210;
const INVALID_ARGUMENT = 2;
const NOT_SUPPORTED = 3;

const LOCK = { graphics: "coreLockMhz", memory: "memLockMhz" } as const satisfies Record<LeverDomain, Gauge>;
const OFFSET = {
  graphics: { at: "coreOffsetMhz", min: "coreOffsetMinMhz", max: "coreOffsetMaxMhz" },
  memory: { at: "memOffsetMhz", min: "memOffsetMinMhz", max: "memOffsetMaxMhz" },
} as const satisfies Record<LeverDomain, Record<string, Gauge>>;

export function setLevers(page: GpuPage): SetLevers {
  const orNull = (value: number) => value > 0 ? value : null;
  return {
    powerLimitW: page.gauge("powerLimitW"),
    lockCoreMhz: orNull(page.gauge("coreLockMhz")),
    lockMemMhz: orNull(page.gauge("memLockMhz")),
    coreOffsetMhz: page.gauge("coreOffsetMhz"),
    memOffsetMhz: page.gauge("memOffsetMhz"),
    fanPct: page.fan("fanIsManual", 0) === 1 ? orNull(page.fan("fanPinnedPct", 0)) : null,
  };
}

/**
 * The writing side of the library over a table. Each lever is a double of its own, stored at once: the thread that owns
 * the table writes only what isn't a lever, so neither needs the other's lock.
 */
export function tableLevers(page: GpuPage, ask: <T>(call: Call, look: () => T) => T): NvmlLevers {
  const refuse = (call: Call, code: number): never => {
    throw new TableError(SYMBOLS[call], code);
  };
  const set = (call: Call, change: () => void) => {
    ask(call, () => null);
    if (page.code(call) === 0) change();
  };
  const needsFan = (call: Call, fan: number) => {
    if (fan < 0 || fan >= page.gauge("fanCount")) refuse(call, INVALID_ARGUMENT);
  };
  return {
    supportedClocksMhz: (_device, domain) => ask("supportedClocksMhz", () => clocksOf(page, domain)),
    clockOffset: (_device, domain) =>
      ask("clockOffset", () => {
        const { at, min, max } = OFFSET[domain];
        return { mhz: page.gauge(at), minMhz: page.gauge(min), maxMhz: page.gauge(max) };
      }),
    watchXid: () => {
      let seen = ask("watchXid", () => page.gauge("xidCount"));
      const poll = () => {
        const count = page.gauge("xidCount");
        const isNew = count > seen;
        seen = count;
        return isNew ? [page.gauge("xidCode")] : [];
      };
      return { poll, close: () => {} };
    },
    setPowerLimitW: (_device, powerW) =>
      set("setPowerLimitW", () => {
        const isInside = powerW >= page.gauge("minLimitW") && powerW <= page.gauge("maxLimitW");
        if (!isInside) refuse("setPowerLimitW", INVALID_ARGUMENT);
        page.setGauge("powerLimitW", powerW);
        page.setGauge("enforcedLimitW", powerW);
      }),
    lockClocks: (_device, { domain, minMhz, maxMhz }) =>
      set("lockClocks", () => {
        if (minMhz > maxMhz) refuse("lockClocks", INVALID_ARGUMENT);
        page.setGauge(LOCK[domain], maxMhz);
      }),
    unlockClocks: (_device, domain) => set("unlockClocks", () => page.setGauge(LOCK[domain], 0)),
    setClockOffset: (_device, { domain, mhz }) =>
      set("setClockOffset", () => {
        const { at, min, max } = OFFSET[domain];
        if (page.gauge(min) === page.gauge(max)) refuse("setClockOffset", NOT_SUPPORTED);
        if (mhz < page.gauge(min) || mhz > page.gauge(max)) refuse("setClockOffset", INVALID_ARGUMENT);
        page.setGauge(at, mhz);
      }),
    setFanPct: (_device, { fan, pct }) =>
      set("setFanPct", () => {
        needsFan("setFanPct", fan);
        page.setFan("fanPinnedPct", { fan, value: Math.max(pct, page.gauge("fanMinPct")) });
        page.setFan("fanIsManual", { fan, value: 1 });
      }),
    setFanAuto: (_device, fan) =>
      set("setFanAuto", () => {
        needsFan("setFanAuto", fan);
        page.setFan("fanIsManual", { fan, value: 0 });
      }),
  };
}

function clocksOf(page: GpuPage, domain: LeverDomain): readonly number[] {
  if (domain === "memory") {
    const fastest = page.gauge("maxMemoryMhz");
    return [...new Set([405, 5_001, fastest - 250, fastest])].filter((mhz) => mhz <= fastest).sort((a, b) => a - b);
  }
  const count = Math.floor((page.gauge("maxGraphicsMhz") - LOWEST_CORE_MHZ) / CORE_STEP_MHZ) + 1;
  return Array.from({ length: count }, (_, step) => LOWEST_CORE_MHZ + step * CORE_STEP_MHZ);
}
