/** What is kept: events and 1 Hz telemetry. */
import type { WallMs } from "./units.ts";

export const HISTORY_KINDS = [
  "swap",
  "yield",
  "purge",
  "warm",
  // Locked pages that were let go because their file was deleted or replaced.
  "pin",
  // Which of ComfyUI's files its prompts named, summed up over ten minutes; Ollama's uses are its swaps and yields.
  "use",
  // What models and workflows were measured to take, summed up likewise: footprints begin with it.
  "footprint",
  "profile",
  "governor",
  "autotune",
  "benchmark",
  "arbitration",
  "fault",
  "service",
] as const;
export type HistoryKind = typeof HISTORY_KINDS[number];

/** An event before the store numbered it. `fields` are in wire form (OPERATIONS.md: names that stay). */
export interface NewHistoryItem {
  readonly atMs: WallMs;
  readonly kind: HistoryKind;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface HistoryItem extends NewHistoryItem {
  readonly id: number;
}

export interface HistoryQuery {
  readonly limit: number;
  readonly kind: HistoryKind | null;
  /** Only items with a smaller id. */
  readonly before: number | null;
  /** False: only what this service has seen since it started. */
  readonly durable: boolean;
}

/** One second in numbers. Null = unknown, kept as such. */
export interface TelemetryRow {
  readonly atMs: WallMs;
  readonly vramUsedBytes: number | null;
  readonly ollamaBytes: number | null;
  readonly comfyBytes: number | null;
  readonly desktopBytes: number | null;
  readonly unmanagedBytes: number | null;
  readonly unaccountedBytes: number | null;
  readonly gpuUtilPct: number | null;
  readonly memoryUtilPct: number | null;
  readonly temperatureC: number | null;
  readonly memoryTemperatureC: number | null;
  readonly powerW: number | null;
  readonly powerLimitW: number | null;
  readonly fanPct: number | null;
  readonly graphicsMhz: number | null;
  readonly memoryMhz: number | null;
  readonly throttleReasons: number | null;
  readonly pcieRxKbps: number | null;
  readonly pcieTxKbps: number | null;
  readonly ramUsedBytes: number | null;
  readonly ramCachedBytes: number | null;
  readonly ramAvailableBytes: number | null;
  readonly comfyQueue: number | null;
}

export interface StoreStatus {
  readonly path: string | null;
  readonly sizeBytes: number | null;
  readonly rows: Readonly<Record<string, number>>;
  readonly hoursHeld: number | null;
  readonly lastFlushAtMs: WallMs | null;
  /** Why history is not being kept, or null while it is. */
  readonly error: string | null;
  readonly schemaVersion: number | null;
}

/** One measured speed of ordinary use or of a benchmark, with what the card did meanwhile. Null = unknown. */
export interface Throughput {
  /** When it ended. */
  readonly atMs: WallMs;
  /** `ollama`: tokens a second of decoding; `comfy`: sampler iterations a second. */
  readonly workload: "ollama" | "comfy";
  readonly model: string | null;
  /** The profile that was applied; null = none. */
  readonly profile: string | null;
  /** How it was measured: only like is compared with like. */
  readonly basis: string;
  readonly perSecond: number;
  readonly durationMs: number | null;
  readonly temperatureC: number | null;
  readonly powerW: number | null;
  readonly graphicsMhz: number | null;
  readonly memoryMhz: number | null;
  readonly fanPct: number | null;
  /** Share of its seconds in which the card throttled for heat or power brake. */
  readonly throttledPct: number | null;
}
