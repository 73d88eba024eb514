import assert from "node:assert/strict";
import type { Sample } from "../../lib/model/sample.ts";
import { telemetryRow } from "../../lib/record/recorder.ts";
import { AT_MS, row } from "./store_contract.ts";

const LINK = {
  url: "http://127.0.0.1",
  online: false,
  reason: "not asked",
  isRemote: false,
  version: null,
  server: null,
};
const REPORT = { ok: true, durationMs: 1, lastOkAtMs: AT_MS, lastError: null };

function sample(parts: Pick<Sample, "gpu" | "memory"> & { readonly queue: number | null }): Sample {
  return {
    seq: 1,
    atMs: AT_MS,
    monotonicMs: AT_MS,
    simulated: true,
    gpu: parts.gpu,
    memory: parts.memory,
    ollama: { ...LINK, resident: [], installed: [], runners: [], blobsByDigest: {} },
    comfy: {
      ...LINK,
      socket: "down",
      queueRemaining: parts.queue,
      executing: null,
      runningPromptId: null,
      idleSinceMs: null,
      progress: null,
      vramFreeBytes: null,
    },
    sources: { nvml: REPORT, meminfo: REPORT, processes: REPORT, ollama: REPORT, comfyui: REPORT },
  };
}

function fan(pct: number | null) {
  return { pct, targetPct: null, rpm: null, policy: null };
}

Deno.test("every figure of a row is the sample's own", () => {
  const expected = row(AT_MS);
  const memory = {
    totalBytes: 1,
    freeBytes: 2,
    availableBytes: expected.ramAvailableBytes ?? 0,
    cachedBytes: expected.ramCachedBytes ?? 0,
    applicationsBytes: expected.ramUsedBytes ?? 0,
    swapTotalBytes: 3,
    swapFreeBytes: 4,
  };
  const { ollamaBytes, comfyBytes, desktopBytes, unmanagedBytes, unaccountedBytes, ...rest } = expected;
  const gpu: Sample["gpu"] = {
    available: true,
    facts: {
      uuid: "GPU-1",
      index: 0,
      name: "card",
      pciBusId: null,
      driverVersion: "1",
      nvmlVersion: "1",
      cudaVersion: null,
      memoryTotalBytes: 1,
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
      memory: { totalBytes: 5, usedBytes: rest.vramUsedBytes ?? 0, freeBytes: 6, reservedBytes: null },
      processes: [],
      smPctByPid: null,
      gpuUtilPct: rest.gpuUtilPct,
      memoryUtilPct: rest.memoryUtilPct,
      temperatureC: rest.temperatureC,
      memoryTemperatureC: rest.memoryTemperatureC,
      powerW: rest.powerW,
      powerLimitW: rest.powerLimitW,
      energyJ: 7,
      clocks: { graphicsMhz: rest.graphicsMhz, smMhz: 8, memoryMhz: rest.memoryMhz, videoMhz: 9 },
      pstate: 2,
      throttleReasons: rest.throttleReasons,
      throttledMs: null,
      fans: [fan(12), fan(rest.fanPct), fan(null)],
      pcie: { gen: 4, width: 16, txKbps: rest.pcieTxKbps, rxKbps: rest.pcieRxKbps },
    },
    breakdown: { ollamaBytes, comfyBytes, desktopBytes, unmanagedBytes, unaccountedBytes, processes: [] },
  };
  assert.deepEqual(telemetryRow(sample({ gpu, memory, queue: expected.comfyQueue })), expected);
});

Deno.test("a card that can't be read and a machine that says nothing leave every figure unknown", () => {
  const gpu: Sample["gpu"] = { available: false, kind: "wedged", reason: "r", remedy: "m", facts: null };
  const { atMs, ...figures } = telemetryRow(sample({ gpu, memory: null, queue: null }));
  assert.equal(atMs, AT_MS);
  assert.equal(Object.keys(figures).length, 22);
  assert.deepEqual([...new Set(Object.values(figures))], [null]);
});
