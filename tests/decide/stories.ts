/** Builders for the arbiter's stories: a card that holds certain processes, servers in a certain state. */
import { reduceArbiter } from "../../lib/decide/arbiter.ts";
import type { ArbiterState } from "../../lib/decide/arbiter_state.ts";
import type { ArbiterEffect, ArbiterEvent } from "../../lib/model/events.ts";
import { DEFAULT_POLICY, type Policy } from "../../lib/model/policy.ts";
import type { AttributedProcess, BarrierReading, Breakdown, GpuState } from "../../lib/model/sample.ts";
import type {
  Bucket,
  ComfyState,
  InstalledModel,
  OllamaState,
  ResidentModel,
  Runner,
} from "../../lib/model/tenants.ts";
import { GIB } from "../../lib/model/units.ts";

export const START_MS = 1_000_000;
/** Wall clock of the scenes: monotonic time plus this. */
export const WALL_OFFSET_MS = 1_700_000_000_000;

export const OLLAMA_SERVER = { pid: 100, startTime: 10 };
export const COMFY_SERVER = { pid: 200, startTime: 20 };
export const CARD_BYTES = 16 * GIB;
/** What no process accounts for on the card of the stories. */
export const RESIDUAL_BYTES = Math.round(0.3 * GIB);

/** A process on the card; bytes null = the driver doesn't say. */
export interface Held {
  readonly pid: number;
  readonly bucket: Bucket;
  readonly bytes: number | null;
  readonly name?: string;
  readonly startTime?: number;
}

export const gib = (count: number) => Math.round(count * GIB);

export function blobOf(model: string): string {
  return `sha256-${model.replace(":", "-")}`;
}

export function runner(pid: number, model: string, more: Partial<Runner> = {}): Runner {
  return {
    pid,
    startTime: pid * 10,
    generation: "ollama-runner",
    blob: blobOf(model),
    modelName: null,
    port: 40_000 + pid,
    isOrphan: false,
    cpuTicks: 100,
    ...more,
  };
}

export function row(name: string, more: Partial<ResidentModel> = {}): ResidentModel {
  return {
    name,
    digest: `digest-${name}`,
    sizeBytes: gib(10),
    sizeVramBytes: gib(10),
    expiresAtMs: null,
    contextLength: 4096,
    ...more,
  };
}

export function installed(name: string, more: Partial<InstalledModel> = {}): InstalledModel {
  return {
    name,
    digest: `digest-${name}`,
    sizeBytes: 9.7e9,
    modifiedAtMs: null,
    family: null,
    parameterSize: null,
    quantization: null,
    format: "gguf",
    isRemote: false,
    ...more,
  };
}

const MODELS = ["alpha:latest", "beta:latest", "gamma:latest"];

export function ollama(more: Partial<OllamaState> = {}): OllamaState {
  const models = more.installed ?? MODELS.map((name) => installed(name));
  return {
    url: "http://127.0.0.1:11434",
    online: true,
    reason: null,
    isRemote: false,
    version: "0.24.0",
    server: OLLAMA_SERVER,
    resident: [],
    installed: models,
    runners: [],
    blobsByDigest: Object.fromEntries(models.map(({ digest, name }) => [digest, [blobOf(name)]])),
    ...more,
  };
}

export function comfy(more: Partial<ComfyState> = {}): ComfyState {
  return {
    url: "http://127.0.0.1:8188",
    online: true,
    reason: null,
    isRemote: false,
    version: "0.3.64",
    server: COMFY_SERVER,
    socket: "open",
    queueRemaining: 0,
    executing: false,
    runningPromptId: null,
    idleSinceMs: null,
    progress: null,
    vramFreeBytes: null,
    ...more,
  };
}

/** A card that holds these processes, and the residual. */
export function card(held: readonly Held[], residualBytes = RESIDUAL_BYTES): Extract<GpuState, { available: true }> {
  const { usedBytes, freeBytes, processes, smPctByPid } = reading(0, held, { residualBytes });
  const nowhere = { gen: null, width: null, txKbps: null, rxKbps: null };
  return {
    available: true,
    facts: {
      uuid: "GPU-1",
      index: 0,
      name: "Story card",
      pciBusId: null,
      driverVersion: "595.84",
      nvmlVersion: "13",
      cudaVersion: null,
      memoryTotalBytes: CARD_BYTES,
      power: { defaultLimitW: null, minLimitW: null, maxLimitW: null },
      thresholds: { shutdownC: null, slowdownC: null, memoryMaxC: null, gpuMaxC: null },
      fanCount: null,
      fanMinPct: null,
      fanMaxPct: null,
      maxGraphicsMhz: null,
      maxMemoryMhz: null,
      pcieMaxGen: null,
      pcieMaxWidth: null,
    },
    reading: {
      memory: { totalBytes: CARD_BYTES, usedBytes, freeBytes, reservedBytes: 0 },
      processes,
      smPctByPid: smPctByPid ?? {},
      gpuUtilPct: 0,
      memoryUtilPct: 0,
      temperatureC: 50,
      memoryTemperatureC: null,
      powerW: 50,
      powerLimitW: 320,
      energyJ: null,
      clocks: { graphicsMhz: null, smMhz: null, memoryMhz: null, videoMhz: null },
      pstate: 0,
      throttleReasons: 0,
      throttledMs: null,
      fans: [],
      pcie: nowhere,
    },
    breakdown: breakdownOf(held, residualBytes),
  };
}

export function absent(kind: "absent" | "wedged" = "absent"): GpuState {
  return { available: false, kind, reason: `the card is ${kind}`, remedy: "install the driver", facts: null };
}

function breakdownOf(held: readonly Held[], residualBytes: number): Breakdown {
  const processes: AttributedProcess[] = held.map(({ pid, bucket, bytes, name, startTime }) => ({
    pid,
    startTime: startTime ?? pid * 10,
    name: name ?? bucket,
    command: null,
    bucket,
    usedBytes: bytes,
    smPct: 0,
    evidence: "told by the story",
  }));
  const sum = (bucket: Bucket) =>
    processes.filter((entry) => entry.bucket === bucket).reduce<number | null>(
      (total, entry) => total === null || entry.usedBytes === null ? null : total + entry.usedBytes,
      0,
    );
  return {
    ollamaBytes: sum("ollama"),
    comfyBytes: sum("comfy"),
    desktopBytes: sum("desktop"),
    unmanagedBytes: sum("unmanaged"),
    unaccountedBytes: residualBytes,
    processes,
  };
}

/** A reading of a card that holds these processes. `blindBytes`: what those hold whose bytes the driver doesn't give. */
export function reading(
  atMs: number,
  held: readonly Held[],
  more: { residualBytes?: number; blindBytes?: number; smPctByPid?: Record<number, number> | null } = {},
): BarrierReading {
  const { residualBytes = RESIDUAL_BYTES, blindBytes = 0, smPctByPid = null } = more;
  const usedBytes = held.reduce((sum, { bytes }) => sum + (bytes ?? 0), residualBytes + blindBytes);
  return {
    atMs,
    tookMs: 0.03,
    usedBytes,
    freeBytes: CARD_BYTES - usedBytes,
    processes: held.map(({ pid, bytes }) => ({ pid, usedBytes: bytes, kinds: ["compute"] })),
    smPctByPid,
  };
}

export function policy(more: Partial<Omit<Policy, "yield">> & { yield?: Partial<Policy["yield"]> } = {}): Policy {
  return { ...DEFAULT_POLICY, ...more, yield: { ...DEFAULT_POLICY.yield, ...more.yield } };
}

/** Plays events on a state, and collects what they ask for. */
export function play(
  state: ArbiterState,
  events: readonly ArbiterEvent[],
): { readonly state: ArbiterState; readonly effects: readonly ArbiterEffect[] } {
  const effects: ArbiterEffect[] = [];
  let next = state;
  for (const event of events) {
    const step = reduceArbiter(next, event);
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}
