/** Ollama, ComfyUI and host memory as `/api/stats` shows them. */
import * as z from "zod";
import type { CacheTotals } from "../model/cache.ts";
import type { HostMemory, Sample } from "../model/sample.ts";
import type { InstalledModel, OllamaState, ResidentModel } from "../model/tenants.ts";
import { MIB, round, toGib } from "../model/units.ts";
import type { Bytes } from "../model/units.ts";
import { gb, gib, isoOrNull, time, toGb } from "./quantities.ts";

export const RamWire = z.object({
  total_gb: gib("all there is"),
  used_gb: gib("programs and the kernel: total, less free and page cache"),
  cached_gb: gib("page cache that can be dropped"),
  free_gb: gib("free"),
  available_gb: gib("what could be given to programs (MemAvailable)"),
  cache_ratio_pct: z.number().describe("page cache as a share of all memory, %"),
  model_files_gb: gib("of the page cache, model files, as last measured", null),
  model_files_total_gb: gib("all model files that were found", null),
  model_residency_pct: z.number().nullable().describe("share of the model files that is in memory, %"),
  model_files_measured_at: time("when the oldest of these figures was taken", null),
  swap_total_gb: gib("swap space"),
  swap_used_gb: gib("swap in use"),
});

const link = {
  online: z.boolean(),
  url: z.string(),
  reason: z.string().nullable().describe("why it isn't online"),
  is_remote: z.boolean().describe("on another host: unloading there frees nothing here"),
  version: z.string().nullable(),
};

export const LoadedModelWire = z.object({
  name: z.string(),
  vram_gb: gib("what the driver counts for its runner; null where that can't be told", null),
  reported_vram_gb: gib("what Ollama says lies in VRAM"),
  memory_gb: gib("what Ollama says it takes in all"),
  spilled: z.boolean().describe("Ollama says that part of it lies outside VRAM"),
  context_length: z.int().nullable(),
  expires_at: time("when Ollama unloads it by itself", null),
  pid: z.int().nullable().describe("its runner"),
});

export const InstalledModelWire = z.object({
  name: z.string(),
  size_gb: gb("size on disk"),
  family: z.string().nullable(),
  parameter_size: z.string().nullable(),
  quantization: z.string().nullable(),
  is_remote: z.boolean().describe("runs in the cloud: never in VRAM"),
});

export const OllamaWire = z.object({
  ...link,
  active_model_name: z.string().nullable().describe("the resident model used last"),
  active_model_vram_gb: gib("its VRAM: the driver's figure, else Ollama's own", null),
  active_model_vram_basis: z.enum(["driver", "ollama"]).nullable(),
  loaded_models: z.array(LoadedModelWire),
  installed_models: z.array(InstalledModelWire),
});

export const ComfyWire = z.object({
  ...link,
  socket: z.enum(["open", "connecting", "down"]).describe("the status broadcast's WebSocket"),
  executing: z.boolean().nullable(),
  queue_remaining: z.int().nullable().describe("running and pending"),
  running_prompt_id: z.string().nullable(),
  idle_since: time("when the queue last became empty", null),
  progress: z.object({ value: z.number(), max: z.number() }).nullable(),
  vram_gb: gib("what the driver counts for its processes", null),
  vram_free_mb: z.number().nullable().describe("ComfyUI's own figure, MiB; counts torch's reserve as free"),
});

/** Host memory, or null when it can't be read. */
export function viewRam(memory: HostMemory | null, cache: CacheTotals | null): z.output<typeof RamWire> | null {
  if (memory === null) return null;
  return {
    total_gb: toGib(memory.totalBytes),
    used_gb: toGib(memory.applicationsBytes),
    cached_gb: toGib(memory.cachedBytes),
    free_gb: toGib(memory.freeBytes),
    available_gb: toGib(memory.availableBytes),
    cache_ratio_pct: memory.totalBytes === 0 ? 0 : round((memory.cachedBytes / memory.totalBytes) * 100),
    model_files_gb: toGib(cache?.residentBytes ?? null),
    model_files_total_gb: toGib(cache?.bytes ?? null),
    model_residency_pct: cache === null || cache.measuredBytes === 0
      ? null
      : round((cache.residentBytes / cache.measuredBytes) * 100),
    model_files_measured_at: isoOrNull(cache?.measuredAtMs ?? null),
    swap_total_gb: toGib(memory.swapTotalBytes),
    swap_used_gb: toGib(memory.swapTotalBytes - memory.swapFreeBytes),
  };
}

export function viewOllama(sample: Sample): z.output<typeof OllamaWire> {
  const { ollama } = sample;
  const loaded = ollama.resident.map((model) => viewLoaded(model, sample));
  const lastUsed = latestExpiry(ollama.resident);
  const active = lastUsed === null ? null : loaded[ollama.resident.indexOf(lastUsed)] ?? null;
  return {
    ...viewLink(ollama),
    active_model_name: active?.name ?? null,
    active_model_vram_gb: active === null ? null : active.vram_gb ?? active.reported_vram_gb,
    active_model_vram_basis: active === null ? null : active.vram_gb === null ? "ollama" : "driver",
    loaded_models: loaded,
    installed_models: ollama.installed.map(viewInstalled),
  };
}

/** The model used last is the one whose keep-alive ends last; one that never ends counts as last. */
function latestExpiry(models: readonly ResidentModel[]): ResidentModel | null {
  const endOf = (model: ResidentModel) => model.expiresAtMs ?? Number.POSITIVE_INFINITY;
  return models.reduce<ResidentModel | null>(
    (best, model) => (best === null || endOf(model) > endOf(best) ? model : best),
    null,
  );
}

function viewLoaded(model: ResidentModel, sample: Sample): z.output<typeof LoadedModelWire> {
  const runner = runnerOf(model, sample.ollama);
  return {
    name: model.name,
    vram_gb: toGib(runner === null ? null : driverBytes(runner.pid, sample)),
    reported_vram_gb: toGib(model.sizeVramBytes),
    memory_gb: toGib(model.sizeBytes),
    spilled: model.sizeVramBytes < model.sizeBytes,
    context_length: model.contextLength,
    expires_at: isoOrNull(model.expiresAtMs),
    pid: runner?.pid ?? null,
  };
}

/** The runner of a listed model: by its weight blob, or by name for engines that name the model. */
function runnerOf(model: ResidentModel, ollama: OllamaState) {
  const blobs = ollama.blobsByDigest[model.digest] ?? [];
  return ollama.runners.find((runner) =>
    (runner.blob !== null && blobs.includes(runner.blob)) || runner.modelName === model.name
  ) ?? null;
}

function driverBytes(pid: number, sample: Sample): Bytes | null {
  if (!sample.gpu.available) return null;
  return sample.gpu.breakdown.processes.find((process) => process.pid === pid)?.usedBytes ?? null;
}

function viewInstalled(model: InstalledModel): z.output<typeof InstalledModelWire> {
  return {
    name: model.name,
    size_gb: toGb(model.sizeBytes),
    family: model.family,
    parameter_size: model.parameterSize,
    quantization: model.quantization,
    is_remote: model.isRemote,
  };
}

export function viewComfy(sample: Sample): z.output<typeof ComfyWire> {
  const { comfy } = sample;
  return {
    ...viewLink(comfy),
    socket: comfy.socket,
    executing: comfy.executing,
    queue_remaining: comfy.queueRemaining,
    running_prompt_id: comfy.runningPromptId,
    idle_since: idleSince(sample),
    progress: comfy.progress === null ? null : { value: comfy.progress.value, max: comfy.progress.max },
    vram_gb: toGib(sample.gpu.available ? sample.gpu.breakdown.comfyBytes : null),
    vram_free_mb: comfy.vramFreeBytes === null ? null : Math.round(comfy.vramFreeBytes / MIB),
  };
}

/** To the second: the two clocks drift against each other by less, and a steady value costs the stream nothing. */
function idleSince(sample: Sample): string | null {
  const { idleSinceMs } = sample.comfy;
  if (idleSinceMs === null) return null;
  const wallMs = sample.atMs - (sample.monotonicMs - idleSinceMs);
  return isoOrNull(Math.round(wallMs / 1000) * 1000);
}

function viewLink(
  state: { url: string; online: boolean; reason: string | null; isRemote: boolean; version: string | null },
) {
  return {
    online: state.online,
    url: state.url,
    reason: state.reason,
    is_remote: state.isRemote,
    version: state.version,
  };
}
