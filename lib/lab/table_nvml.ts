import type {
  ClockDomain,
  DeviceHandle,
  Nvml,
  NvmlMemory,
  NvmlProcess,
  NvmlProcessUtilization,
  ProcessKind,
  Threshold,
} from "../../ffi/nvml.ts";
import type { FieldValue, ThrottleTimes } from "../../ffi/nvml_fields.ts";
import type { Call, Gauge, GpuPage } from "./gpu_layout.ts";
import { SYMBOLS } from "./nvml_symbols.ts";
import { TableError } from "./table_error.ts";

const DEVICE: DeviceHandle = 1n;
const MEMORY_TEMPERATURE_FIELD = 82;

const THRESHOLDS = {
  shutdown: "shutdownC",
  slowdown: "slowdownC",
  memoryMax: "memoryMaxC",
  gpuMax: "gpuMaxC",
} as const satisfies Record<Threshold, Gauge>;
const CLOCKS = {
  graphics: "graphicsMhz",
  sm: "smMhz",
  memory: "memoryMhz",
  video: "videoMhz",
} as const satisfies Record<
  ClockDomain,
  Gauge
>;
const MAX_CLOCKS = {
  graphics: "maxGraphicsMhz",
  sm: "maxSmMhz",
  memory: "maxMemoryMhz",
  video: "maxVideoMhz",
} as const satisfies Record<ClockDomain, Gauge>;

export interface TableNvmlOptions {
  /**
   * Whether calls block their thread as the driver does when it is told to lag or to hang. Only in a Worker: in the
   * thread that writes the table nobody would end the wait.
   */
  readonly blocks: boolean;
}

/** The library over a simulated card: answers, refuses, lags and hangs as the table says. */
export class TableNvml implements Nvml {
  readonly path = "simulated";
  readonly #page: GpuPage;
  readonly #blocks: boolean;
  #isOpen = true;

  constructor(page: GpuPage, options: TableNvmlOptions) {
    this.#page = page;
    this.#blocks = options.blocks;
  }

  driverVersion(): string {
    return this.ask("driverVersion", () => this.#page.text("driverVersion"));
  }
  nvmlVersion(): string {
    return this.ask("nvmlVersion", () => this.#page.text("nvmlVersion"));
  }
  cudaVersion(): string {
    return this.ask("cudaVersion", () => this.#page.text("cudaVersion"));
  }

  deviceCount(): number {
    return this.ask("deviceCount", () => 1);
  }
  deviceByIndex(index: number): DeviceHandle {
    return this.ask("deviceByIndex", () => index === 0 ? DEVICE : this.#refuse("deviceByIndex", 2));
  }
  deviceByUuid(uuid: string): DeviceHandle {
    return this.ask("deviceByUuid", () => uuid === this.#page.text("uuid") ? DEVICE : this.#refuse("deviceByUuid", 6));
  }

  name(_device: DeviceHandle): string {
    return this.ask("name", () => this.#page.text("name"));
  }
  uuid(_device: DeviceHandle): string {
    return this.ask("uuid", () => this.#page.text("uuid"));
  }
  pciBusId(_device: DeviceHandle): string {
    return this.ask("pciBusId", () => this.#page.text("pciBusId"));
  }

  memory(_device: DeviceHandle): NvmlMemory {
    this.#awaitWord("memoryHeld");
    return this.ask("memory", () => {
      const totalBytes = this.#gauge("memory", "totalBytes");
      const reservedBytes = this.#gauge("memory", "reservedBytes");
      const usedBytes = this.#gauge("memory", "usedBytes");
      return { totalBytes, usedBytes, reservedBytes, freeBytes: totalBytes - reservedBytes - usedBytes };
    });
  }

  processes(_device: DeviceHandle, kind: ProcessKind): readonly NvmlProcess[] {
    this.#awaitWord("processesHeld");
    return this.ask("processes", () =>
      this.#page.processes()
        .filter((row) => kind === "compute" ? row.isCompute : row.isGraphics)
        .map((row) => ({ pid: row.pid, usedBytes: row.bytes })));
  }

  processUtilization(_device: DeviceHandle, sinceUs: number): readonly NvmlProcessUtilization[] {
    return this.ask("processUtilization", () => {
      const timestampUs = this.#page.gauge("utilStampUs");
      if (!(timestampUs > sinceUs)) return [];
      return this.#page.processes().filter((row) => row.smPct > 0).map((row) => ({
        pid: row.pid,
        timestampUs,
        smPct: row.smPct,
        memoryPct: Math.round(row.smPct / 2),
        encoderPct: 0,
        decoderPct: 0,
      }));
    });
  }

  utilization(_device: DeviceHandle): { readonly gpuPct: number; readonly memoryPct: number } {
    return this.ask("utilization", () => ({
      gpuPct: this.#gauge("utilization", "gpuUtilPct"),
      memoryPct: this.#gauge("utilization", "memoryUtilPct"),
    }));
  }
  temperatureC(_device: DeviceHandle): number {
    return this.#figure("temperatureC", "temperatureC");
  }
  thresholdC(_device: DeviceHandle, which: Threshold): number {
    return this.#figure("thresholdC", THRESHOLDS[which]);
  }
  powerW(_device: DeviceHandle): number {
    return this.#figure("powerW", "powerW");
  }
  powerLimitW(_device: DeviceHandle): number {
    return this.#figure("powerLimitW", "powerLimitW");
  }
  enforcedPowerLimitW(_device: DeviceHandle): number {
    return this.#figure("enforcedPowerLimitW", "enforcedLimitW");
  }
  defaultPowerLimitW(_device: DeviceHandle): number {
    return this.#figure("defaultPowerLimitW", "defaultLimitW");
  }
  powerLimitRangeW(_device: DeviceHandle): { readonly minW: number; readonly maxW: number } {
    return this.ask("powerLimitRangeW", () => ({
      minW: this.#gauge("powerLimitRangeW", "minLimitW"),
      maxW: this.#gauge("powerLimitRangeW", "maxLimitW"),
    }));
  }
  energyJ(_device: DeviceHandle): number {
    return this.#figure("energyJ", "energyJ");
  }

  clockMhz(_device: DeviceHandle, domain: ClockDomain): number {
    return this.#figure("clockMhz", CLOCKS[domain]);
  }
  maxClockMhz(_device: DeviceHandle, domain: ClockDomain): number {
    return this.#figure("maxClockMhz", MAX_CLOCKS[domain]);
  }
  pstate(_device: DeviceHandle): number | null {
    return this.#figure("pstate", "pstate");
  }
  throttleReasons(_device: DeviceHandle): number {
    return this.#figure("throttleReasons", "throttleReasons");
  }
  throttleTimesMs(_device: DeviceHandle): ThrottleTimes {
    // It never gets hot enough for the other three.
    return this.ask("throttleTimesMs", () => ({
      power: this.#gauge("throttleTimesMs", "cappedMs"),
      softwareThermal: 0,
      hardwareThermal: 0,
      powerBrake: 0,
    }));
  }

  fanCount(_device: DeviceHandle): number {
    return this.#figure("fanCount", "fanCount");
  }
  fanRangePct(_device: DeviceHandle): { readonly minPct: number; readonly maxPct: number } {
    return this.ask("fanRangePct", () => {
      this.#checkFan("fanRangePct", 0);
      return { minPct: this.#gauge("fanRangePct", "fanMinPct"), maxPct: this.#gauge("fanRangePct", "fanMaxPct") };
    });
  }
  fanPct(_device: DeviceHandle, fan: number): number {
    return this.ask("fanPct", () => this.#fan("fanPct", fan));
  }
  fanTargetPct(_device: DeviceHandle, fan: number): number {
    return this.ask("fanTargetPct", () => {
      const pinnedPct = this.#page.fan("fanIsManual", fan) === 1 ? this.#page.fan("fanPinnedPct", fan) : NaN;
      return Number.isNaN(pinnedPct) ? this.#fan("fanTargetPct", fan) : pinnedPct;
    });
  }
  fanRpm(_device: DeviceHandle, fan: number): number {
    return this.ask("fanRpm", () => this.#fan("fanRpm", fan));
  }
  fanPolicy(_device: DeviceHandle, fan: number): "auto" | "manual" {
    return this.ask("fanPolicy", () => {
      this.#checkFan("fanPolicy", fan);
      return this.#page.fan("fanIsManual", fan) === 1 ? "manual" : "auto";
    });
  }

  pcieGen(_device: DeviceHandle): number {
    return this.#figure("pcieGen", "pcieGen");
  }
  pcieWidth(_device: DeviceHandle): number {
    return this.#figure("pcieWidth", "pcieWidth");
  }
  pcieMaxGen(_device: DeviceHandle): number {
    return this.#figure("pcieMaxGen", "pcieMaxGen");
  }
  pcieMaxWidth(_device: DeviceHandle): number {
    return this.#figure("pcieMaxWidth", "pcieMaxWidth");
  }
  pcieThroughputKbps(_device: DeviceHandle, direction: "tx" | "rx"): number {
    return this.#figure("pcieThroughputKbps", direction === "tx" ? "pcieTxKbps" : "pcieRxKbps");
  }

  fieldValues(_device: DeviceHandle, ids: readonly number[]): readonly FieldValue[] {
    return this.ask("fieldValues", () =>
      ids.map((id) => {
        const value = id === MEMORY_TEMPERATURE_FIELD ? this.#page.gauge("memoryTemperatureC") : NaN;
        return Number.isNaN(value) ? { id, code: 3, value: null } : { id, code: 0, value };
      }));
  }

  close(): void {
    this.#isOpen = false;
  }
  [Symbol.dispose](): void {
    this.close();
  }

  /** Answers as the table says: after its lag, with its code, or with what `look` sees undisturbed. */
  ask<T>(call: Call, look: () => T): T {
    if (!this.#isOpen) return this.#refuse(call, 1);
    this.#awaitWord("wedged");
    const lagUs = this.#page.lagUs(call);
    if (this.#blocks && lagUs > 0) this.#page.waitWhile("idle", { value: 0, ms: lagUs / 1_000 });
    const code = this.#page.word("failAll") || this.#page.code(call);
    // A setter told to be ignored isn't refused.
    if (code > 0) return this.#refuse(call, code);
    return this.#page.read(look);
  }

  #awaitWord(word: "wedged" | "memoryHeld" | "processesHeld"): void {
    while (this.#blocks && this.#page.word(word) === 1) this.#page.waitWhile(word, { value: 1 });
  }

  #figure(call: Call, gauge: Gauge): number {
    return this.ask(call, () => this.#gauge(call, gauge));
  }

  #gauge(call: Call, gauge: Gauge): number {
    const value = this.#page.gauge(gauge);
    return Number.isNaN(value) ? this.#refuse(call, 3) : value;
  }

  #fan(call: "fanPct" | "fanTargetPct" | "fanRpm", fan: number): number {
    this.#checkFan(call, fan);
    const value = this.#page.fan(call, fan);
    return Number.isNaN(value) ? this.#refuse(call, 3) : value;
  }

  /** A card without fans answers "invalid argument" to everything about them, as the H200 does. */
  #checkFan(call: Call, fan: number): void {
    if (fan < 0 || fan >= this.#page.gauge("fanCount")) this.#refuse(call, 2);
  }

  #refuse(call: Call, code: number): never {
    throw new TableError(SYMBOLS[call], code);
  }
}
