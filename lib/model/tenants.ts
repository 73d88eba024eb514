import type { Bytes, MonotonicMs, WallMs } from "./units.ts";

/** The two programs whose VRAM HyperSwap moves. */
export type Tenant = "ollama" | "comfyui";

/** Who a process's VRAM is counted for (SPEC 2.6). `unmanaged` can never be given back by the arbiter. */
export type Bucket = "ollama" | "comfy" | "desktop" | "unmanaged";

/** A process that can't be mistaken for a later one with the same pid. */
export interface ProcessId {
  readonly pid: number;
  /** Field 22 of /proc/PID/stat, clock ticks since boot. 0 where /proc doesn't show the process. */
  readonly startTime: number;
}

/** True for the same process, not merely the same pid. */
export function isSameProcess(a: ProcessId, b: ProcessId): boolean {
  return a.pid === b.pid && a.startTime === b.startTime;
}

/** A row of Ollama's `/api/ps`. Listed doesn't mean alive: a crashed runner stays listed. */
export interface ResidentModel {
  /** Shortest display name, always with tag. */
  readonly name: string;
  /** Hex SHA-256 of the manifest, without prefix. */
  readonly digest: string;
  readonly sizeBytes: Bytes;
  /** What Ollama says lies in VRAM. No proof of it (facts: > 0 was seen on a machine without a GPU). */
  readonly sizeVramBytes: Bytes;
  readonly expiresAtMs: WallMs | null;
  readonly contextLength: number | null;
}

/** A row of `/api/tags`. */
export interface InstalledModel {
  readonly name: string;
  readonly digest: string;
  /** All layers and the config: what the manifest adds up to. */
  readonly sizeBytes: Bytes;
  readonly modifiedAtMs: WallMs | null;
  readonly family: string | null;
  readonly parameterSize: string | null;
  readonly quantization: string | null;
  readonly format: string | null;
  /** True for a stub that runs in the cloud: no weights here, never in VRAM. */
  readonly isRemote: boolean;
}

/** Which program runs the weights: `ollama runner` (≤ 0.2x), llama-server (≥ 0.30), or the MLX engine. */
export type RunnerGeneration = "ollama-runner" | "llama-server" | "mlx" | "ollama_llama_server";

/** A child of the Ollama server that holds, or is about to hold, a model. Discovery children are not runners. */
export interface Runner extends ProcessId {
  readonly generation: RunnerGeneration;
  /** `sha256-…` of the weight blob its `--model` ends in; null for MLX, which names the model instead. */
  readonly blob: string | null;
  /** The name MLX gives; null otherwise. */
  readonly modelName: string | null;
  /** Its own loopback port; null when its arguments don't say. */
  readonly port: number | null;
  /** True once its server is gone (parent 1): nobody can unload it by asking. */
  readonly isOrphan: boolean;
  /** Requests it serves at a time, where its arguments say; absent or null elsewhere. */
  readonly parallel?: number | null;
  /** User + system CPU time so far, clock ticks; null when unreadable. */
  readonly cpuTicks: number | null;
}

/** What an upstream looks like from here. */
export interface UpstreamLink {
  readonly url: string;
  readonly online: boolean;
  /** Why it isn't online, or null. */
  readonly reason: string | null;
  /** True when the URL names another host: unloading there frees nothing here. */
  readonly isRemote: boolean;
  readonly version: string | null;
  /** The process that owns the listening socket; null when remote or unreadable. */
  readonly server: ProcessId | null;
}

export interface OllamaState extends UpstreamLink {
  readonly resident: readonly ResidentModel[];
  readonly installed: readonly InstalledModel[];
  readonly runners: readonly Runner[];
  /** Manifest digest → weight blobs (`sha256-…`), as far as `/api/show` or the store told. */
  readonly blobsByDigest: Readonly<Record<string, readonly string[]>>;
}

export interface ComfyState extends UpstreamLink {
  /** Health of the WebSocket that carries the status broadcast. */
  readonly socket: "open" | "connecting" | "down";
  /** Running + pending, from the newest of status frame and `/queue`; null when neither is known. */
  readonly queueRemaining: number | null;
  /** True while a prompt runs; null when unknown. */
  readonly executing: boolean | null;
  /** The running prompt's id, from `/queue`. */
  readonly runningPromptId: string | null;
  /** When the queue last became empty. */
  readonly idleSinceMs: MonotonicMs | null;
  /** Progress of the running prompt, where the server shows it to an observer. */
  readonly progress: { readonly value: number; readonly max: number } | null;
  /** User + system CPU time of its server's process so far, clock ticks; absent or null when unreadable. */
  readonly serverCpuTicks?: number | null;
  /** `vram_free` of `/system_stats`; counts torch's own reserve as free. */
  readonly vramFreeBytes: Bytes | null;
}
