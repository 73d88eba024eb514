/** A box of plain values: Services that answer what a test has put in, and count what they were asked. */
import type { ArbitrationView, PurgeResult, SwitchResult, YieldResult } from "../../lib/model/arbitration.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { AttributedProcess, GpuState, Sample, SourceReport } from "../../lib/model/sample.ts";
import type { CallOptions, Services, Snapshot } from "../../lib/model/services.ts";
import { GIB } from "../../lib/model/units.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { createRuns } from "../../lib/services/runs.ts";
import type { RunKeeper } from "../../lib/services/runs.ts";

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
    tokensPerSecond: 73.126,
    response: "Hi",
    class: "ram_hit",
    classBasis: "2.63 GB/s",
    bytesPerSecond: 2.63e9,
    residencyBeforePct: 99.9,
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

export interface FakeBox {
  readonly services: Services;
  readonly clock: LabClock;
  readonly runs: RunKeeper;
  /** What was asked, oldest first: `yieldVram {"models":null,…}`. */
  readonly asked: string[];
  /** Errors that were reported as defects. */
  readonly defects: unknown[];
  /** Reports like the service does: counts the ids. */
  report(error: unknown): string;
  /** Replaces the snapshot and tells every subscriber. */
  show(change: Partial<Snapshot>): void;
  /** What the next calls answer or throw. */
  answers: {
    yieldVram: (call: CallOptions) => Promise<YieldResult>;
    purge: (call: CallOptions) => Promise<PurgeResult>;
    switchModel: (call: CallOptions) => Promise<SwitchResult>;
  };
  readonly subscribers: number;
}

/** A box whose services are all here. */
export function fakeBox(options: { readonly simulation?: string | null; readonly isBlank?: boolean } = {}): FakeBox {
  const { simulation = null, isBlank = false } = options;
  const clock = new LabClock();
  const defects: unknown[] = [];
  const runs = createRuns({ clock, onDefect: (error) => defects.push(error) });
  const asked: string[] = [];
  const listeners = new Set<(snapshot: Snapshot) => void>();
  let snapshot: Snapshot = {
    sample: sample({ simulated: simulation !== null }),
    arbitration: ARBITRATION,
    history: HISTORY,
    runs: [],
    simulation,
  };
  let isSampled = !isBlank;
  const ask = (name: string, what: unknown) => asked.push(`${name} ${JSON.stringify(what)}`);
  const box: FakeBox = {
    clock,
    runs,
    asked,
    defects,
    get subscribers() {
      return listeners.size;
    },
    report(error) {
      defects.push(error);
      return `e${defects.length}`;
    },
    show(change) {
      isSampled = true;
      snapshot = { ...snapshot, ...change };
      for (const listener of [...listeners]) listener(snapshot);
    },
    answers: {
      yieldVram: () => Promise.resolve(yieldResult()),
      purge: () => Promise.resolve(purgeResult()),
      switchModel: () => Promise.resolve(switchResult()),
    },
    services: {
      about: { version: "0.1.0", pid: 77, startedAtMs: Date.UTC(2026, 0, 1, 11), simulation },
      arbitration: {
        view: () => snapshot.arbitration,
        set(change) {
          ask("set", change);
          snapshot = {
            ...snapshot,
            arbitration: {
              ...snapshot.arbitration,
              mode: change.mode,
              untilMs: change.untilMs,
              keep: change.keep ?? snapshot.arbitration.keep,
            },
          };
          return snapshot.arbitration;
        },
        yieldVram(request, call) {
          ask("yieldVram", request);
          return box.answers.yieldVram(call);
        },
        purge(request, call) {
          ask("purge", request);
          return box.answers.purge(call);
        },
        requestVram(request) {
          ask("requestVram", request);
          if (request.neededBytes > GB16) {
            return Promise.reject(
              new Failure("wont_fit", "Cannot make room for 20 GiB: the card has 16 GiB", {
                hint: "unmanaged holds 0.5 GiB: pid 4003 whisper",
                details: { unmanaged_gb: 0.5 },
              }),
            );
          }
          return Promise.resolve({
            hadBytes: 3.5 * GIB,
            neededBytes: request.neededBytes,
            reclaimedBytes: 0,
            freeBytes: 3.5 * GIB,
            fits: true,
            purge: null,
            holders: [{ bucket: "unmanaged" as const, bytes: 0.5 * GIB, who: ["pid 4003 whisper 0.5 GiB"] }],
            message: "It fits",
          });
        },
        switchModel(request, call) {
          ask("switchModel", request);
          if (request.model === "nope") {
            return Promise.reject(
              new Failure("not_found", 'Cannot find the model "nope"', {
                hint: "hyperswap models lists what is installed",
              }),
            );
          }
          return box.answers.switchModel(call);
        },
        why({ id }) {
          if (id !== null && id !== 1) throw new Failure("not_found", `Cannot find decision ${id}`);
          return [{
            id: 1,
            atMs: Date.UTC(2026, 0, 1, 11, 59),
            event: "ComfyUI enqueued",
            before: "idle",
            after: "yielding",
            effects: ["unload qwen3:14b"],
            reason: "ComfyUI needs 6 GiB, 3.5 GiB are free",
          }];
        },
      },
      live: {
        snapshot() {
          if (isSampled) return snapshot;
          throw new Failure("unavailable", "Cannot show the box yet: no sample has been taken");
        },
        subscribe(onSnapshot) {
          listeners.add(onSnapshot);
          return { stop: () => void listeners.delete(onSnapshot) };
        },
      },
      history: {
        list(query) {
          ask("history", query);
          return Promise.resolve(
            HISTORY.filter(({ kind }) => query.kind === null || kind === query.kind).slice(0, query.limit),
          );
        },
        status: () =>
          Promise.resolve({
            path: "/var/lib/hyperswap/record.db",
            sizeBytes: 4096,
            rows: { events: 2 },
            hoursHeld: 1.234,
            lastFlushAtMs: null,
            error: null,
            schemaVersion: 1,
          }),
      },
      runs,
      health: {
        report: () => ({
          state: "degraded",
          checks: [{
            name: "nvml",
            state: "degraded",
            finding: "no fans",
            breaks: "fan control",
            remedy: "none needed",
          }],
        }),
      },
      models: {
        list: () =>
          Promise.resolve([
            {
              source: "ollama" as const,
              name: "qwen3:14b",
              folder: null,
              sizeBytes: 9_276_000_000,
              family: "qwen3",
              parameterSize: "14.8B",
              quantization: "Q4_K_M",
              resident: true,
            },
            {
              source: "comfyui" as const,
              name: "sdxl.safetensors",
              folder: "checkpoints",
              sizeBytes: null,
              family: null,
              parameterSize: null,
              quantization: null,
              resident: null,
            },
          ]),
      },
    },
  };
  return box;
}
