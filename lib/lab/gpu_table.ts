import type { Nvml } from "../../ffi/nvml.ts";
import type { NvmlLevers } from "../../ffi/nvml_levers.ts";
import { type CardSpec, type ClockSet, RTX_4080_SUPER } from "./card_spec.ts";
import { type Call, CALLS, type Gauge, GpuPage, TABLE_BYTES, type TableProcess } from "./gpu_layout.ts";
import { type SetLevers, setLevers, tableLevers } from "./table_levers.ts";
import { TableNvml, type TableNvmlOptions } from "./table_nvml.ts";

/** What the card's sensors show; whatever is left out stays as it is. */
export interface Sensors {
  readonly gpuUtilPct?: number;
  readonly memoryUtilPct?: number;
  readonly temperatureC?: number;
  /** Null: the card has no such sensor. */
  readonly memoryTemperatureC?: number | null;
  readonly powerW?: number;
  readonly powerLimitW?: number;
  readonly energyJ?: number;
  readonly clocks?: ClockSet;
  readonly pstate?: number;
  readonly throttleReasons?: number;
  /** Time at the power limit so far. */
  readonly cappedMs?: number;
  readonly fanPct?: number;
  readonly fanRpm?: number;
  readonly fanIsManual?: boolean;
  readonly pcieGen?: number;
  readonly pcieTxKbps?: number;
  readonly pcieRxKbps?: number;
}

/**
 * A simulated card: the writing side. `buffer` may be posted to any thread and opened there with openGpuTable. It can be
 * told to lie, lag and hang in every way that a driver was seen to.
 */
export class GpuTable {
  readonly card: CardSpec;
  readonly buffer = new SharedArrayBuffer(TABLE_BYTES);
  readonly #page: GpuPage;
  #processes: readonly TableProcess[] = [];
  #usedBytes = 0;
  #hidesAll = false;
  readonly #hidden = new Set<number>();

  constructor(card: CardSpec = RTX_4080_SUPER) {
    this.card = card;
    this.#page = new GpuPage(this.buffer);
    this.#page.format();
    this.#page.write(() => writeCard(this.#page, card));
    this.setMemory({ usedBytes: card.unaccountedBytes, processes: [] });
    this.setSensors({
      gpuUtilPct: 0,
      memoryUtilPct: 0,
      temperatureC: 34,
      memoryTemperatureC: null,
      powerW: card.idleW,
      powerLimitW: card.defaultLimitW,
      energyJ: 0,
      clocks: card.idleClocks,
      pstate: 8,
      throttleReasons: 1,
      cappedMs: 0,
      fanPct: 0,
      fanRpm: 0,
      fanIsManual: false,
      pcieGen: 1,
      pcieTxKbps: 0,
      pcieRxKbps: 0,
    });
  }

  get processes(): readonly TableProcess[] {
    return this.#processes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Device bytes, process rows, or both at one instant. Give them apart to show a reader two halves of the truth. */
  setMemory(change: { readonly usedBytes?: number; readonly processes?: readonly TableProcess[] }): void {
    this.#usedBytes = change.usedBytes ?? this.#usedBytes;
    this.#processes = change.processes ?? this.#processes;
    this.#publish();
  }

  setSensors(sensors: Sensors): void {
    this.#page.write(() => writeSensors(this.#page, { sensors, fanCount: this.card.fanCount }));
  }

  /** Stamps the utilisation samples; readers see only samples newer than those they have. */
  stampUtilization(stampUs: number): void {
    this.#page.write(() => this.#page.setGauge("utilStampUs", stampUs));
  }

  /** Makes one call answer an NVML code; null = answer properly again. */
  fail(call: Call, code: number | null): void {
    this.#page.setCode(call, code ?? 0);
  }

  /** Makes every call answer that code, as after a lost card (15) or an unloaded driver (9); null = over. */
  failAll(code: number | null): void {
    this.#page.setWord("failAll", code ?? 0);
  }

  /** Makes a call, or all of them, take that long. Seen only by readers that block (a Worker's). */
  lag(call: Call | "all", ms: number): void {
    for (const each of call === "all" ? CALLS : [call]) this.#page.setLagUs(each, Math.round(ms * 1_000));
  }

  /** While true no call returns. */
  wedge(isWedged: boolean): void {
    this.#page.setWord("wedged", isWedged ? 1 : 0);
  }

  get isWedged(): boolean {
    return this.#page.word("wedged") === 1;
  }

  /** Holds a call back: the driver does so while a context is made (processes, memory) or memory is released (memory). */
  hold(call: "memory" | "processes", isHeld: boolean): void {
    this.#page.setWord(call === "memory" ? "memoryHeld" : "processesHeld", isHeld ? 1 : 0);
  }

  /** True while a reading of memory and processes can't be had. */
  get isHeld(): boolean {
    return this.#page.word("memoryHeld") === 1 || this.#page.word("processesHeld") === 1;
  }

  /** Lists a process, or all of them, without its bytes: WSL, containers, missing rights. */
  hideBytes(pid: number | "all", isHidden: boolean): void {
    if (pid === "all") this.#hidesAll = isHidden;
    else if (isHidden) this.#hidden.add(pid);
    else this.#hidden.delete(pid);
    this.#publish();
  }

  /** Makes a setter say yes and do nothing, as drivers were seen to; or end that. */
  ignore(call: Call, isIgnored: boolean): void {
    this.#page.setCode(call, isIgnored ? -1 : 0);
  }

  /** What the card's levers were set to, through whichever thread. */
  get levers(): SetLevers {
    return setLevers(this.#page);
  }

  /** The driver tells of a fault. */
  xid(code: number): void {
    this.#page.setGauge("xidCode", code);
    this.#page.setGauge("xidCount", this.#page.gauge("xidCount") + 1);
  }

  /** The library over this table, for code in the same thread: never blocks, whatever the table says. */
  open(): Nvml & NvmlLevers {
    return openPage(this.#page, { blocks: false });
  }

  #publish(): void {
    const rows = this.#processes.map((row) =>
      this.#hidesAll || this.#hidden.has(row.pid) ? { ...row, bytes: null } : row
    );
    this.#page.write(() => {
      this.#page.setGauge("usedBytes", this.#usedBytes);
      this.#page.setProcesses(rows);
    });
  }
}

/** Opens a simulated card from another thread. Calls block there as the driver's do, unless told otherwise. */
export function openGpuTable(
  buffer: SharedArrayBuffer,
  options: TableNvmlOptions = { blocks: true },
): Nvml & NvmlLevers {
  const page = new GpuPage(buffer);
  if (!page.isFormatted()) throw new RangeError("Cannot open a GPU table: nothing was written to it");
  return openPage(page, options);
}

function openPage(page: GpuPage, options: TableNvmlOptions): Nvml & NvmlLevers {
  const nvml = new TableNvml(page, options);
  return Object.assign(nvml, tableLevers(page, (call, look) => nvml.ask(call, look)));
}

function writeCard(page: GpuPage, card: CardSpec): void {
  page.setText("driverVersion", card.driverVersion);
  page.setText("nvmlVersion", card.nvmlVersion);
  page.setText("cudaVersion", card.cudaVersion);
  page.setText("name", card.name);
  page.setText("uuid", card.uuid);
  page.setText("pciBusId", card.pciBusId);
  const gauges: Partial<Record<Gauge, number>> = {
    totalBytes: card.totalBytes,
    reservedBytes: card.reservedBytes,
    defaultLimitW: card.defaultLimitW,
    minLimitW: card.minLimitW,
    maxLimitW: card.maxLimitW,
    shutdownC: card.thresholds.shutdown,
    slowdownC: card.thresholds.slowdown,
    memoryMaxC: card.thresholds.memoryMax ?? NaN,
    gpuMaxC: card.thresholds.gpuMax,
    fanCount: card.fanCount,
    fanMinPct: card.fanMinPct,
    fanMaxPct: card.fanMaxPct,
    maxGraphicsMhz: card.maxClocks.graphics,
    maxSmMhz: card.maxClocks.sm,
    maxMemoryMhz: card.maxClocks.memory,
    maxVideoMhz: card.maxClocks.video,
    pcieMaxGen: card.pcieMaxGen,
    pcieMaxWidth: card.pcieMaxWidth,
    pcieWidth: card.pcieMaxWidth,
    utilStampUs: 0,
    coreLockMhz: 0,
    memLockMhz: 0,
    coreOffsetMhz: 0,
    memOffsetMhz: 0,
    coreOffsetMinMhz: card.offsets.graphics[0],
    coreOffsetMaxMhz: card.offsets.graphics[1],
    memOffsetMinMhz: card.offsets.memory[0],
    memOffsetMaxMhz: card.offsets.memory[1],
    xidCount: 0,
  };
  writeGauges(page, gauges);
}

function writeSensors(page: GpuPage, { sensors, fanCount }: { sensors: Sensors; fanCount: number }): void {
  const { clocks, fanPct, fanRpm, fanIsManual, memoryTemperatureC, powerLimitW, ...plain } = sensors;
  writeGauges(page, plain);
  if (memoryTemperatureC !== undefined) page.setGauge("memoryTemperatureC", memoryTemperatureC ?? NaN);
  if (powerLimitW !== undefined) writeGauges(page, { powerLimitW, enforcedLimitW: powerLimitW });
  if (clocks !== undefined) {
    const { graphics, sm, memory, video } = clocks;
    writeGauges(page, { graphicsMhz: graphics, smMhz: sm, memoryMhz: memory, videoMhz: video });
  }
  for (let fan = 0; fan < fanCount; fan += 1) {
    if (fanPct !== undefined) page.setFan("fanPct", { fan, value: fanPct });
    if (fanPct !== undefined) page.setFan("fanTargetPct", { fan, value: fanPct });
    if (fanRpm !== undefined) page.setFan("fanRpm", { fan, value: fanRpm });
    if (fanIsManual !== undefined) page.setFan("fanIsManual", { fan, value: fanIsManual ? 1 : 0 });
  }
}

function writeGauges(page: GpuPage, values: Readonly<Partial<Record<Gauge, number>>>): void {
  for (const [name, value] of Object.entries(values)) {
    // as: Object.entries widens the keys of a record that has only gauges.
    if (value !== undefined) page.setGauge(name as Gauge, value);
  }
}
