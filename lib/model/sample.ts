/**
 * One second of the machine, as everyone sees it. A Sample is made once, by the sampler, and never changed.
 * Unknown is null; the source's report says why.
 */
import type { Bucket, ComfyState, OllamaState, ProcessId } from "./tenants.ts";
import type { Bytes, MonotonicMs, WallMs } from "./units.ts";

/** What stays true of a card until the driver is re-initialised. Null where the card or the driver has no answer. */
export interface GpuFacts {
  readonly uuid: string;
  readonly index: number;
  readonly name: string;
  readonly pciBusId: string | null;
  readonly driverVersion: string;
  readonly nvmlVersion: string;
  readonly cudaVersion: string | null;
  readonly memoryTotalBytes: Bytes;
  readonly power: {
    readonly defaultLimitW: number | null;
    readonly minLimitW: number | null;
    readonly maxLimitW: number | null;
  };
  /** °C at which the card slows down, shuts down, or its memory is too hot. */
  readonly thresholds: {
    readonly shutdownC: number | null;
    readonly slowdownC: number | null;
    readonly memoryMaxC: number | null;
    readonly gpuMaxC: number | null;
  };
  readonly fanCount: number | null;
  readonly fanMinPct: number | null;
  readonly fanMaxPct: number | null;
  readonly maxGraphicsMhz: number | null;
  readonly maxMemoryMhz: number | null;
  readonly pcieMaxGen: number | null;
  readonly pcieMaxWidth: number | null;
}

/** Device memory by the driver. `used` leaves out what the driver reserves, as nvidia-smi does. */
export interface GpuMemory {
  readonly totalBytes: Bytes;
  readonly usedBytes: Bytes;
  readonly freeBytes: Bytes;
  /** Null where only the old call is there, whose `used` then includes it. */
  readonly reservedBytes: Bytes | null;
}

/** A process as the driver lists it: one row a pid, the larger of its compute and graphics figures. */
export interface GpuProcess {
  readonly pid: number;
  /** Null where the driver doesn't give it (WSL, containers, permission). */
  readonly usedBytes: Bytes | null;
  readonly kinds: readonly ("compute" | "graphics")[];
}

export interface FanReading {
  readonly pct: number | null;
  readonly targetPct: number | null;
  readonly rpm: number | null;
  readonly policy: "auto" | "manual" | null;
}

/** Milliseconds by cause; the names are those of the throttle reasons. */
export interface ThrottledMs {
  readonly power: number | null;
  readonly softwareThermal: number | null;
  readonly hardwareThermal: number | null;
  readonly powerBrake: number | null;
}

/** What the driver says of the card each second; slow figures keep their last value until the next read. */
export interface GpuReading {
  readonly memory: GpuMemory | null;
  /** Null: the process list could not be read; an empty list means nobody is there. */
  readonly processes: readonly GpuProcess[] | null;
  /** SM utilisation by pid over the last second, percent; absent pid = did no work. Null = not measurable. */
  readonly smPctByPid: Readonly<Record<number, number>> | null;
  readonly gpuUtilPct: number | null;
  readonly memoryUtilPct: number | null;
  readonly temperatureC: number | null;
  readonly memoryTemperatureC: number | null;
  readonly powerW: number | null;
  readonly powerLimitW: number | null;
  readonly energyJ: number | null;
  readonly clocks: {
    readonly graphicsMhz: number | null;
    readonly smMhz: number | null;
    readonly memoryMhz: number | null;
    readonly videoMhz: number | null;
  };
  readonly pstate: number | null;
  /** Throttle reasons as the driver's bit mask. */
  readonly throttleReasons: number | null;
  /**
   * Time held back since the driver was loaded, by cause: what throttles between two samples shows here. Null where the
   * driver doesn't count it.
   */
  readonly throttledMs: ThrottledMs | null;
  readonly fans: readonly FanReading[];
  readonly pcie: {
    readonly gen: number | null;
    readonly width: number | null;
    readonly txKbps: number | null;
    readonly rxKbps: number | null;
  };
}

/** Device bytes and bytes per process, read one after the other (not one snapshot) while a barrier is open. */
export interface BarrierReading {
  /** When the second of the two calls returned. */
  readonly atMs: MonotonicMs;
  /** How long both calls took together: NVML blocks 15–106 ms while a context is made or memory is released. */
  readonly tookMs: number;
  readonly usedBytes: Bytes;
  readonly freeBytes: Bytes;
  readonly processes: readonly GpuProcess[];
  /** SM utilisation by pid, every ~200 ms; null in the readings between. */
  readonly smPctByPid: Readonly<Record<number, number>> | null;
}

/** A process on the card, with the bucket it counts for and how that was found out. */
export interface AttributedProcess extends ProcessId {
  readonly name: string;
  readonly command: string | null;
  readonly bucket: Bucket;
  readonly usedBytes: Bytes | null;
  readonly smPct: number | null;
  /** Why it is in that bucket, in words. */
  readonly evidence: string;
}

/** VRAM by bucket. A bucket is null when one of its processes has no bytes, or nothing can be attributed at all. */
export interface Breakdown {
  readonly ollamaBytes: Bytes | null;
  readonly comfyBytes: Bytes | null;
  readonly desktopBytes: Bytes | null;
  readonly unmanagedBytes: Bytes | null;
  /** Used − Σ(processes), not below 0: driver contexts and what no process accounts for. */
  readonly unaccountedBytes: Bytes | null;
  readonly processes: readonly AttributedProcess[];
}

/** How the card is: readable, or not and why. `wedged`: a driver call is overdue. `asleep`: runtime-suspended. */
export type GpuState =
  | {
    readonly available: true;
    readonly facts: GpuFacts;
    readonly reading: GpuReading;
    readonly breakdown: Breakdown;
  }
  | {
    readonly available: false;
    readonly kind: "absent" | "wedged" | "lost" | "refused" | "asleep";
    readonly reason: string;
    readonly remedy: string;
    /** The last facts known, if the card was there before. */
    readonly facts: GpuFacts | null;
  };

/** /proc/meminfo, in bytes. Null when it can't be read. */
export interface HostMemory {
  readonly totalBytes: Bytes;
  readonly freeBytes: Bytes;
  readonly availableBytes: Bytes;
  /** Page cache: Cached + Buffers + SReclaimable, less Shmem (tmpfs can't be dropped). */
  readonly cachedBytes: Bytes;
  /** Total − free − page cache: what programs and the kernel hold. */
  readonly applicationsBytes: Bytes;
  readonly swapTotalBytes: Bytes;
  readonly swapFreeBytes: Bytes;
}

/** How one source did at its last read. A source that fails costs its own fields, never the sample. */
export interface SourceReport {
  readonly ok: boolean;
  readonly durationMs: number;
  readonly lastOkAtMs: WallMs | null;
  readonly lastError: string | null;
}

export type SourceName = "nvml" | "meminfo" | "processes" | "ollama" | "comfyui";

export interface Sample {
  readonly seq: number;
  readonly atMs: WallMs;
  readonly monotonicMs: MonotonicMs;
  readonly simulated: boolean;
  readonly gpu: GpuState;
  readonly memory: HostMemory | null;
  readonly ollama: OllamaState;
  readonly comfy: ComfyState;
  readonly sources: Readonly<Record<SourceName, SourceReport>>;
}
