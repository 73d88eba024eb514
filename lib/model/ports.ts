/** What the inside needs from the outside, named by role. Each has a hand-written fake and one contract suite. */
import type { EndRunnerReply } from "./events.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "./sample.ts";
import type { InstalledModel, ProcessId, ResidentModel } from "./tenants.ts";
import type { Bytes, MonotonicMs, WallMs } from "./units.ts";
import type { HistoryItem, HistoryQuery, NewHistoryItem, StoreStatus, TelemetryRow, Throughput } from "./history.ts";

/** A timer that can be stopped; stopping twice does nothing. */
export interface Timer {
  stop(): void;
}

/** The only source of time, timers and randomness (system/ has the real one, lab/ one that a test advances). */
export interface Clock {
  /** Wall clock; may jump. */
  wallMs(): WallMs;
  /** Never jumps back; comparable between threads to about a millisecond. */
  monotonicMs(): MonotonicMs;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  after(ms: number, run: () => void): Timer;
  every(ms: number, run: () => void): Timer;
  /** Aborts after `ms`, or when `parent` does. */
  deadline(ms: number, parent?: AbortSignal): AbortSignal;
  /** A number in [0, 1). */
  random(): number;
  /** A random UUID. */
  uuid(): string;
}

export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** Why a card can't be read, as data: the caller decides what that costs. */
export class GpuUnavailable extends Error {
  override readonly name = "GpuUnavailable";
  constructor(
    readonly kind: "absent" | "wedged" | "lost" | "refused" | "asleep",
    message: string,
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The arbitrated card. Every call has its own deadline and rejects with GpuUnavailable. */
export interface Gpu {
  facts(signal?: AbortSignal): Promise<GpuFacts>;
  /** One second's reading; slow figures are refreshed on their own schedule. */
  read(signal?: AbortSignal): Promise<GpuReading>;
  /**
   * Streams readings every ~1 ms to `onReading` until stopped. One stream at a time serves every barrier;
   * `onLost` is called once when it ends by itself.
   */
  watch(onReading: (reading: BarrierReading) => void, onLost: (cause: GpuUnavailable) => void): Timer;
  /** Drops the library handle and what belongs to it. */
  close(): Promise<void>;
}

/** One process as /proc shows it. Null fields: not readable for us. */
export interface ProcEntry extends ProcessId {
  readonly parentPid: number;
  /** One letter; `Z` is gone. */
  readonly state: string;
  readonly name: string;
  /** Empty for a dying process or a kernel thread. */
  readonly args: readonly string[];
  readonly exe: string | null;
  readonly cwd: string | null;
  readonly cgroup: string | null;
  readonly cpuTicks: number;
}

/** /proc, read through libc (its root is configuration). Calls are synchronous and take microseconds each. */
export interface Proc {
  /** Text of a file below the root, e.g. "meminfo"; throws when it can't be read. */
  read(path: string): string;
  /** Null when there is no such process any more. */
  process(pid: number): ProcEntry | null;
  /** The pids there are, and nothing else of them: one read of the directory. */
  pids(): readonly number[];
  /** Every process with its parent: one pass over the directory. */
  list(): readonly ProcEntry[];
  /** Pids whose descriptors own a listening TCP socket on `port`; empty when none can be seen. */
  listeners(port: number): readonly number[];
  /** Ticks a second (for cpuTicks). */
  readonly ticksPerSecond: number;
}

/** Ends one process by a signal that can't reach any later one with the same pid. */
export type EndRunner = (process: ProcessId) => EndRunnerReply | Promise<EndRunnerReply>;

/** What Ollama answers; errors are UpstreamError. */
export interface OllamaApi {
  readonly url: string;
  readonly isRemote: boolean;
  version(signal: AbortSignal): Promise<string>;
  tags(signal: AbortSignal): Promise<readonly InstalledModel[]>;
  ps(signal: AbortSignal): Promise<readonly ResidentModel[]>;
  /** Weight blobs (`sha256-…`) of a model, from its modelfile; empty for safetensors. */
  weightBlobs(model: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Asks for the unload. The reply is a receipt, nothing more. */
  unload(model: string, signal: AbortSignal): Promise<void>;
  /** Loads by a one-token request, since only a generation carries `load_duration`. */
  load(request: LoadRequest, signal: AbortSignal): Promise<LoadReply>;
  /** Asks a runner itself, on its own loopback port, whether it works. */
  runnerActivity(port: number, signal: AbortSignal): Promise<RunnerTold>;
}

/** What a runner says of itself. */
export interface RunnerTold {
  /** Null: it doesn't say. */
  readonly activity: "loading" | "busy" | "idle" | null;
  /** What it may still generate before it is free, over all of its slots; null where it has no bound or doesn't say. */
  readonly tokensLeft: number | null;
}

export const NOTHING_TOLD: RunnerTold = { activity: null, tokensLeft: null };

export interface LoadRequest {
  readonly model: string;
  readonly keepAlive: string | number;
  /** Null: one token of a unique prompt is asked for. */
  readonly prompt: string | null;
}

export interface LoadReply {
  readonly loadDurationMs: number | null;
  readonly totalDurationMs: number | null;
  /** Null when too few tokens came to tell. */
  readonly tokensPerSecond: number | null;
  readonly response: string;
}

export interface ComfyQueue {
  readonly running: readonly string[];
  readonly pending: readonly string[];
}

/** What `/history/{id}` says of a finished prompt. */
export interface ComfyCompletion {
  readonly promptId: string;
  readonly status: "success" | "error" | "interrupted";
  readonly startedAtMs: WallMs | null;
  readonly endedAtMs: WallMs | null;
  readonly error: string | null;
  /** What it was, where its graph says so: only like prompts can be compared. */
  readonly work?: ComfyWork;
  /** Model files that its graph names, as ComfyUI lists them; absent where it names none. */
  readonly files?: readonly string[];
  /** What of it was answered from the cache of the prompt before; absent where the server doesn't say. */
  readonly cached?: { readonly sampler: boolean; readonly model: boolean };
  /** The first picture it made; absent without one. */
  readonly image?: ComfyImage;
}

/** A picture as ComfyUI's `/view` names it. */
export interface ComfyImage {
  readonly filename: string;
  readonly subfolder: string;
  readonly type: string;
}

export interface ComfyWork {
  /** The file that its sampler uses. */
  readonly model: string;
  /** Such as `1024x1024`, or `1024x1024 x4` for a batch. */
  readonly size: string;
  /** Of its one sampler; absent where there are several, or none that says. */
  readonly steps?: number;
}

export interface ComfyApi {
  readonly url: string;
  readonly isRemote: boolean;
  stats(signal: AbortSignal): Promise<{
    readonly version: string | null;
    readonly vramFreeBytes: Bytes | null;
    readonly argv: readonly string[];
  }>;
  queue(signal: AbortSignal): Promise<ComfyQueue>;
  /** Null while unknown or unfinished. */
  completion(promptId: string, signal: AbortSignal): Promise<ComfyCompletion | null>;
  /** Asks for unload and cache reset. The reply is a receipt, nothing more. */
  free(signal: AbortSignal): Promise<void>;
  interrupt(promptId: string, signal: AbortSignal): Promise<void>;
  /** Model file names of a folder; empty when the server doesn't know the folder. */
  models(folder: string, signal: AbortSignal): Promise<readonly string[]>;
}

/** The record. Writes are buffered and never throw at the caller; a broken store costs history, not the service. */
export interface Store {
  /** Kept at once, on disk before the promise resolves; numbered by the store. */
  append(item: NewHistoryItem): Promise<HistoryItem>;
  /** Adds what became known later (a margin, a watcher's release) to an event. */
  amend(id: number, fields: Readonly<Record<string, unknown>>): Promise<HistoryItem | null>;
  /** Batched: flushed within 5 s. */
  telemetry(row: TelemetryRow): void;
  /** Batched with the telemetry. */
  throughput(measured: Throughput): void;
  history(query: HistoryQuery): Promise<readonly HistoryItem[]>;
  status(): Promise<StoreStatus>;
  close(): Promise<void>;
}
