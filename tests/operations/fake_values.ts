/** What a box looks like and answers, as plain values that tests change. */
import type {
  ArbitrationView,
  EndRunnerResult,
  PurgeResult,
  SwitchResult,
  YieldResult,
} from "../../lib/model/arbitration.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { AttributedProcess, GpuState, Sample, SourceReport } from "../../lib/model/sample.ts";
import type { ModelEntry } from "../../lib/model/services.ts";
import { GIB } from "../../lib/model/units.ts";

export const GB16 = 16 * GIB;

const OK_SOURCE: SourceReport = { ok: true, durationMs: 0.4, lastOkAtMs: Date.UTC(2026, 0, 1, 12), lastError: null };

/** A runner, ComfyUI and a third party on the card. */
export const PROCESSES: readonly AttributedProcess[] = [
  process({
    pid: 4001,
    name: "llama-server",
    bucket: "ollama",
    usedBytes: 11 * GIB,
    evidence: "child of Ollama's server",
  }),
  process({ pid: 4002, name: "python3", bucket: "comfy", usedBytes: 0.75 * GIB, evidence: "owns ComfyUI's socket" }),
  process({ pid: 4003, name: "whisper", bucket: "unmanaged", usedBytes: 0.5 * GIB, evidence: "no tenant" }),
];

function process(given: Partial<AttributedProcess> & { pid: number; name: string }): AttributedProcess {
  return { startTime: 1, command: null, bucket: "unmanaged", usedBytes: null, smPct: 0, evidence: "", ...given };
}

export const GPU: GpuState = {
  available: true,
  facts: {
    uuid: "GPU-0000",
    index: 0,
    name: "Test Card 16 GB",
    pciBusId: "0000:01:00.0",
    driverVersion: "595.84",
    nvmlVersion: "13.595",
    cudaVersion: "13.1",
    memoryTotalBytes: GB16,
    power: { defaultLimitW: 320, minLimitW: 150, maxLimitW: 370 },
    thresholds: { shutdownC: 98, slowdownC: 95, memoryMaxC: 100, gpuMaxC: 88 },
    fanCount: 2,
    fanMinPct: 30,
    fanMaxPct: 100,
    maxGraphicsMhz: 3105,
    maxMemoryMhz: 11501,
    pcieMaxGen: 4,
    pcieMaxWidth: 16,
  },
  reading: {
    memory: { totalBytes: GB16, usedBytes: 12.5 * GIB, freeBytes: 3.5 * GIB, reservedBytes: 300 * 2 ** 20 },
    processes: [],
    smPctByPid: {},
    gpuUtilPct: 41,
    memoryUtilPct: 12,
    temperatureC: 56,
    memoryTemperatureC: null,
    powerW: 187.26,
    powerLimitW: 320,
    energyJ: 12345.6,
    clocks: { graphicsMhz: 2805, smMhz: 2805, memoryMhz: 11251, videoMhz: 2100 },
    pstate: 2,
    throttleReasons: 0x4,
    throttledMs: { power: 1_500, softwareThermal: 0, hardwareThermal: null, powerBrake: null },
    fans: [{ pct: 41, targetPct: 40, rpm: 1400, policy: "auto" }, {
      pct: 45,
      targetPct: 40,
      rpm: null,
      policy: "auto",
    }],
    pcie: { gen: 4, width: 16, txKbps: 100, rxKbps: 2000 },
  },
  breakdown: {
    ollamaBytes: 11 * GIB,
    comfyBytes: 0.75 * GIB,
    desktopBytes: 0,
    unmanagedBytes: 0.5 * GIB,
    unaccountedBytes: 0.25 * GIB,
    processes: PROCESSES,
  },
};

/** One second of a box with a resident model and an idle ComfyUI. */
export function sample(change: Partial<Sample> = {}): Sample {
  return {
    seq: 1,
    atMs: Date.UTC(2026, 0, 1, 12),
    monotonicMs: Date.UTC(2026, 0, 1, 12),
    simulated: false,
    gpu: GPU,
    memory: {
      totalBytes: 64 * GIB,
      freeBytes: 10 * GIB,
      availableBytes: 50 * GIB,
      cachedBytes: 42 * GIB,
      applicationsBytes: 12 * GIB,
      swapTotalBytes: 8 * GIB,
      swapFreeBytes: 8 * GIB,
    },
    ollama: {
      url: "http://127.0.0.1:11434",
      online: true,
      reason: null,
      isRemote: false,
      version: "0.33.0",
      server: { pid: 4000, startTime: 1 },
      resident: [{
        name: "qwen3:14b",
        digest: "aa",
        sizeBytes: 12 * GIB,
        sizeVramBytes: 11.5 * GIB,
        expiresAtMs: Date.UTC(2026, 0, 1, 12, 30),
        contextLength: 8192,
      }],
      installed: [{
        name: "qwen3:14b",
        digest: "aa",
        sizeBytes: 9_276_000_000,
        modifiedAtMs: null,
        family: "qwen3",
        parameterSize: "14.8B",
        quantization: "Q4_K_M",
        format: "gguf",
        isRemote: false,
      }],
      runners: [{
        pid: 4001,
        startTime: 1,
        generation: "llama-server",
        blob: "sha256-bb",
        modelName: null,
        port: 41001,
        isOrphan: false,
        cpuTicks: 10,
      }],
      blobsByDigest: { aa: ["sha256-bb"] },
    },
    comfy: {
      url: "http://127.0.0.1:8188",
      online: true,
      reason: null,
      isRemote: false,
      version: "0.9.0",
      server: { pid: 4002, startTime: 1 },
      socket: "open",
      queueRemaining: 0,
      executing: false,
      runningPromptId: null,
      idleSinceMs: Date.UTC(2026, 0, 1, 11, 59, 0, 250),
      progress: null,
      vramFreeBytes: 3 * GIB,
    },
    sources: { nvml: OK_SOURCE, meminfo: OK_SOURCE, processes: OK_SOURCE, ollama: OK_SOURCE, comfyui: OK_SOURCE },
    ...change,
  };
}

export const ARBITRATION: ArbitrationView = {
  mode: "auto",
  untilMs: null,
  keep: [],
  lane: null,
  waiting: [],
  holder: "ollama",
  watching: [],
  lateHandOffs: 1,
  handOffs: 4,
  lastMarginMs: 812.5,
};

export function yieldResult(change: Partial<YieldResult> = {}): YieldResult {
  return {
    outcome: "released",
    cause: { kind: "operation", operation: "free-vram", requestId: "r1" },
    requestMs: 1.34,
    confirmMs: 231.77,
    freedBytes: 11 * GIB,
    models: ["qwen3:14b"],
    pids: [4001],
    confirmedBy: "NVML: pid 4001 is gone",
    held: [],
    message: "11 GiB are back",
    ...change,
  };
}

export function purgeResult(change: Partial<PurgeResult> = {}): PurgeResult {
  return {
    outcome: "released",
    cause: { kind: "operation", operation: "comfy-free", requestId: "r2" },
    requestMs: 12,
    confirmMs: 1400,
    freedBytes: 6 * GIB,
    remainingBytes: 0.8 * GIB,
    confirmedBy: "NVML: fell and stayed level",
    overlapped: false,
    message: "6 GiB are back",
    ...change,
  };
}

export function switchResult(change: Partial<SwitchResult> = {}): SwitchResult {
  return {
    prevModel: null,
    targetModel: "qwen3:14b",
    totalMs: 5200,
    loadMs: 4901.2,
    phases: { roomMs: 180, waitMs: null, loadMs: 4901.2, answerMs: 61.4, readBackMs: 9 },
    tokensPerSecond: 73.126,
    response: "Hi",
    class: "ram_hit",
    classBasis: "2.63 GB/s",
    bytesPerSecond: 2.63e9,
    residencyBeforePct: 99.9,
    figures: {
      sizeBytes: 9.28e9,
      isResidencyExact: true,
      isPlain: true,
      limits: { hitBytesPerSecond: 2e9, partialBytesPerSecond: 0.8e9, basis: "default", warmN: 0, coldN: 0 },
      contextLength: 4_096,
      parallel: 1,
      process: { pid: 4001, startTime: 7 },
      diskBytesPerSecond: 3.1e9,
      link: { gen: 4, width: 16, maxGen: 4, maxWidth: 16 },
    },
    reclaimedBytes: null,
    vramBytes: 11 * GIB,
    spilled: false,
    alreadyResident: false,
    yielded: null,
    purged: null,
    retried: false,
    verdict: "From RAM, at full speed",
    ...change,
  };
}

export const HISTORY: readonly HistoryItem[] = [
  {
    id: 2,
    atMs: Date.UTC(2026, 0, 1, 11, 59),
    kind: "yield",
    fields: { outcome: "released", freed_gb: 11, margin_ms: null },
  },
  { id: 1, atMs: Date.UTC(2026, 0, 1, 11, 58), kind: "swap", fields: { model: "qwen3:14b", class: "cold" } },
];

export const MODELS: readonly ModelEntry[] = [
  {
    source: "ollama",
    name: "qwen3:14b",
    folder: null,
    sizeBytes: 9_276_000_000,
    family: "qwen3",
    parameterSize: "14.8B",
    quantization: "Q4_K_M",
    resident: true,
  },
  {
    source: "comfyui",
    name: "sdxl.safetensors",
    folder: "checkpoints",
    sizeBytes: null,
    family: null,
    parameterSize: null,
    quantization: null,
    resident: null,
  },
];

export function endRunnerResult(change: Partial<EndRunnerResult> = {}): EndRunnerResult {
  return {
    outcome: "released",
    process: { pid: 4001, startTime: 991 },
    model: "qwen3:14b",
    confirmMs: 164.31,
    freedBytes: 11 * GIB,
    confirmedBy: "NVML: pid 4001 is gone",
    message: "pid 4001 was ended",
    ...change,
  };
}
