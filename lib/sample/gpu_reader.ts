/** One card's library → facts, one second's reading, and the quick reading of a barrier. */
import type { Nvml } from "../../ffi/nvml.ts";
import type { Clock } from "../model/ports.ts";
import type { BarrierReading, FanReading, GpuFacts, GpuMemory, GpuProcess, GpuReading } from "../model/sample.ts";
import { chooseGpu, type ChosenGpu, type GpuChoice, readFacts } from "./gpu_facts.ts";
import { costOf, isNvmlFailure, toGpuUnavailable } from "./gpu_failure.ts";
import { GpuFigures } from "./gpu_figures.ts";
import { mergeProcesses, readSmUtilization } from "./gpu_processes.ts";

/** The id of memory temperature among NVML's fields. */
const FIELD_MEMORY_TEMPERATURE = 82;

/** Each PCIe direction blocks for 20 ms, so they take turns. */
const PCIE_EVERY_MS = 5_000;
const THROTTLED_EVERY_MS = 2_000;
const POLICY_EVERY_MS = 10_000;
const BARRIER_SM_EVERY_MS = 200;

/**
 * What a barrier's utilisation covers. The driver samples about every 200 ms, so a shorter window is often empty; a longer
 * one would still show work from before the barrier.
 */
const BARRIER_SM_WINDOW_US = 500_000;
const READ_SM_WINDOW_US = 1_000_000;

/** How often memory may fail in a row before the library is opened anew: drivers answer UNKNOWN in passing. */
const MOST_MEMORY_FAILURES = 5;
const BARRIER_ATTEMPTS = 3;

export interface ReadOptions {
  /** True while a barrier is open: calls over 1 ms wait, their last values stand. */
  readonly isQuick?: boolean;
}

/**
 * Reads one card. Synchronous and blocking: it lives in the nvml Worker. Every call throws GpuUnavailable when the card
 * can't be read at all, and then everything has to be opened anew; a figure that can't be had is null.
 */
export interface GpuReader {
  facts(): GpuFacts;
  /** Cheap figures are fresh, slow ones keep their last value until their turn comes. */
  read(options?: ReadOptions): GpuReading;
  /** Device bytes and processes only; SM utilisation every 200 ms. Nothing slow. */
  readBarrier(): BarrierReading;
}

export interface GpuReaderOptions {
  readonly clock: Clock;
  readonly choice: GpuChoice;
}

/** Finds the chosen card in an open library and initialises it (ms; seconds without persistence mode). */
export function openGpuReader(nvml: Nvml, options: GpuReaderOptions): GpuReader {
  return new CardReader(nvml, chooseGpu(nvml, options.choice), options.clock);
}

class CardReader implements GpuReader {
  readonly #nvml: Nvml;
  readonly #gpu: ChosenGpu;
  readonly #clock: Clock;
  readonly #figures: GpuFigures;
  #facts: GpuFacts | null = null;
  #hasGraphics = true;
  #memoryFailures = 0;
  #smPctByPid: Readonly<Record<number, number>> | null = null;
  #smSeenUs = 0;
  #barrierSmAtMs = -Infinity;

  constructor(nvml: Nvml, gpu: ChosenGpu, clock: Clock) {
    this.#nvml = nvml;
    this.#gpu = gpu;
    this.#clock = clock;
    this.#figures = new GpuFigures(clock);
  }

  facts(): GpuFacts {
    return this.#facts ??= readFacts(this.#nvml, this.#gpu, this.#figures);
  }

  read(options: ReadOptions = {}): GpuReading {
    const nvml = this.#nvml;
    const { device } = this.#gpu;
    const isQuick = options.isQuick === true;
    const ask = <T>(name: string, read: () => T): T | null => this.#figures.ask(name, read);
    const memory = this.#memory();
    const processes = this.#processes();
    if (!isQuick) this.#readSm(processes);
    const utilization = ask("utilization", () => nvml.utilization(device));
    return {
      memory,
      processes,
      smPctByPid: this.#smPctByPid,
      gpuUtilPct: utilization?.gpuPct ?? null,
      memoryUtilPct: utilization?.memoryPct ?? null,
      temperatureC: ask("temperature", () => nvml.temperatureC(device)),
      memoryTemperatureC: this.#memoryTemperature(),
      powerW: ask("power", () => nvml.powerW(device)),
      // What is enforced is what counts; some laptops give nothing else.
      powerLimitW: ask("enforcedPowerLimit", () => nvml.enforcedPowerLimitW(device)) ??
        this.#slow("powerLimit", { everyMs: POLICY_EVERY_MS, isQuick }, () => nvml.powerLimitW(device)),
      energyJ: this.#slow("energy", { everyMs: 0, isQuick }, () => nvml.energyJ(device)),
      clocks: {
        graphicsMhz: ask("graphicsClock", () => nvml.clockMhz(device, "graphics")),
        smMhz: ask("smClock", () => nvml.clockMhz(device, "sm")),
        memoryMhz: ask("memoryClock", () => nvml.clockMhz(device, "memory")),
        videoMhz: ask("videoClock", () => nvml.clockMhz(device, "video")),
      },
      pstate: ask("pstate", () => nvml.pstate(device)),
      throttleReasons: ask("throttleReasons", () => nvml.throttleReasons(device)),
      throttledMs: this.#slow(
        "throttled",
        { everyMs: THROTTLED_EVERY_MS, isQuick },
        () => nvml.throttleTimesMs(device),
      ),
      fans: this.#fans(isQuick),
      pcie: this.#pcie(isQuick),
    };
  }

  readBarrier(): BarrierReading {
    const startedAtMs = this.#clock.monotonicMs();
    const memory = this.#insist(() => this.#nvml.memory(this.#gpu.device));
    const processes = this.#insist(() => this.#listProcesses());
    const atMs = this.#clock.monotonicMs();
    const { usedBytes, freeBytes } = memory;
    return {
      atMs,
      tookMs: atMs - startedAtMs,
      usedBytes,
      freeBytes,
      processes,
      smPctByPid: this.#barrierSm(processes),
    };
  }

  /** A barrier judges by what it reads: what can't be read ends it, after a few attempts for what fails in passing. */
  #insist<T>(read: () => T): T {
    for (let attempt = 1;; attempt++) {
      try {
        return read();
      } catch (error) {
        if (!isNvmlFailure(error) || costOf(error) !== "once" || attempt === BARRIER_ATTEMPTS) {
          throw toGpuUnavailable(error);
        }
      }
    }
  }

  /** Null for what fails in passing; a card that never gives its memory can't be arbitrated. */
  #memory(): GpuMemory | null {
    try {
      const memory = this.#nvml.memory(this.#gpu.device);
      this.#memoryFailures = 0;
      return memory;
    } catch (error) {
      if (!isNvmlFailure(error) || costOf(error) !== "once") throw toGpuUnavailable(error);
      this.#memoryFailures++;
      if (this.#memoryFailures < MOST_MEMORY_FAILURES) return null;
      throw toGpuUnavailable(error);
    }
  }

  #processes(): readonly GpuProcess[] | null {
    return this.#figures.ask("processes", () => this.#listProcesses());
  }

  /** Both lists, or the error of the one that can't be read: half a list would make a process look gone. */
  #listProcesses(): readonly GpuProcess[] {
    const compute = this.#nvml.processes(this.#gpu.device, "compute");
    return mergeProcesses({ compute, graphics: this.#graphicsProcesses() });
  }

  /** A card without graphics has nobody there; any other error is one. */
  #graphicsProcesses(): readonly { readonly pid: number; readonly usedBytes: number | null }[] {
    if (!this.#hasGraphics) return [];
    try {
      return this.#nvml.processes(this.#gpu.device, "graphics");
    } catch (error) {
      if (!isNvmlFailure(error) || costOf(error) !== "figure") throw error;
      this.#hasGraphics = false;
      return [];
    }
  }
  /** Work since the last reading. */
  #readSm(processes: readonly GpuProcess[] | null): void {
    const nowUs = this.#clock.wallMs() * 1000;
    // A wall clock that was set back would hide every sample until it has caught up.
    const isUsable = this.#smSeenUs > nowUs - 10 * READ_SM_WINDOW_US && this.#smSeenUs <= nowUs + READ_SM_WINDOW_US;
    const sinceUs = isUsable ? this.#smSeenUs : nowUs - READ_SM_WINDOW_US;
    this.#smPctByPid = this.#figures.ask("sm", () => {
      const sm = readSmUtilization(this.#nvml, { device: this.#gpu.device, sinceUs, processes });
      this.#smSeenUs = sm.newestUs;
      return sm.smPctByPid;
    });
  }

  /** Work during the last half second, when it is due; null in between. */
  #barrierSm(processes: readonly GpuProcess[]): Readonly<Record<number, number>> | null {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#barrierSmAtMs < BARRIER_SM_EVERY_MS) return null;
    this.#barrierSmAtMs = nowMs;
    const sinceUs = this.#clock.wallMs() * 1000 - BARRIER_SM_WINDOW_US;
    this.#smPctByPid = this.#figures.ask(
      "sm",
      () => readSmUtilization(this.#nvml, { device: this.#gpu.device, sinceUs, processes }).smPctByPid,
    );
    return this.#smPctByPid;
  }

  #memoryTemperature(): number | null {
    const field = this.#figures.ask("memoryTemperature", () => {
      return this.#nvml.fieldValues(this.#gpu.device, [FIELD_MEMORY_TEMPERATURE])[0] ?? null;
    });
    if (field === null) return null;
    if (field.code === 3) this.#figures.giveUp("memoryTemperature");
    // Cards without that sensor also answer 0.
    return field.value !== null && field.value > 0 ? field.value : null;
  }

  #fans(isQuick: boolean): readonly FanReading[] {
    const { device } = this.#gpu;
    const count = this.#figures.ask("fanCount", () => this.#nvml.fanCount(device)) ?? 0;
    return Array.from({ length: count }, (_, fan) => ({
      pct: this.#figures.ask(`fan${fan}`, () => this.#nvml.fanPct(device, fan)),
      targetPct: this.#figures.ask(`fanTarget${fan}`, () => this.#nvml.fanTargetPct(device, fan)),
      rpm: this.#figures.ask(`fanRpm${fan}`, () => this.#nvml.fanRpm(device, fan)),
      policy: this.#slow(`fanPolicy${fan}`, { everyMs: 0, isQuick }, () => this.#nvml.fanPolicy(device, fan)),
    }));
  }

  #pcie(isQuick: boolean): GpuReading["pcie"] {
    const nvml = this.#nvml;
    const { device } = this.#gpu;
    const every = { everyMs: PCIE_EVERY_MS, isQuick };
    return {
      gen: this.#figures.ask("pcieGen", () => nvml.pcieGen(device)),
      width: this.#slow("pcieWidth", { everyMs: POLICY_EVERY_MS, isQuick }, () => nvml.pcieWidth(device)),
      // Not in the first second either: the first reading should come at once.
      txKbps: this.#slow("pcieTx", { ...every, afterMs: 1_000 }, () => nvml.pcieThroughputKbps(device, "tx")),
      rxKbps: this.#slow("pcieRx", { ...every, afterMs: 3_000 }, () => nvml.pcieThroughputKbps(device, "rx")),
    };
  }

  #slow<T>(
    name: string,
    when: { readonly everyMs: number; readonly afterMs?: number; readonly isQuick: boolean },
    read: () => T,
  ): T | null {
    return when.isQuick ? this.#figures.last(name) : this.#figures.slow(name, when, read);
  }
}
