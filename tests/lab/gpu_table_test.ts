import assert from "node:assert/strict";
import { type Call, CALLS, GpuPage, type TableProcess } from "../../lib/lab/gpu_layout.ts";
import { GpuTable, openGpuTable } from "../../lib/lab/gpu_table.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Question } from "./table_reader_worker.ts";
import { RTX_4080_SUPER } from "../../lib/lab/card_spec.ts";
import type { Nvml } from "../../ffi/nvml.ts";
import type { NvmlLevers } from "../../ffi/nvml_levers.ts";

const ROW: TableProcess = { pid: 900_001, bytes: 9_000_000_001, isCompute: true, isGraphics: false, smPct: 0 };

function codeOf(ask: () => unknown): number | null {
  try {
    ask();
    return null;
  } catch (error) {
    assert.ok(error instanceof Error && error.name === "NvmlError", String(error));
    return (error as Error & { code: number }).code;
  }
}

/** Every call of the interface once, by name. */
function calls(nvml: Nvml & NvmlLevers): Record<Call, () => unknown> {
  const device = 1n;
  return {
    driverVersion: () => nvml.driverVersion(),
    nvmlVersion: () => nvml.nvmlVersion(),
    cudaVersion: () => nvml.cudaVersion(),
    deviceCount: () => nvml.deviceCount(),
    deviceByIndex: () => nvml.deviceByIndex(0),
    deviceByUuid: () => nvml.deviceByUuid(RTX_4080_SUPER.uuid),
    name: () => nvml.name(device),
    uuid: () => nvml.uuid(device),
    pciBusId: () => nvml.pciBusId(device),
    memory: () => nvml.memory(device),
    processes: () => nvml.processes(device, "compute"),
    processUtilization: () => nvml.processUtilization(device, 0),
    utilization: () => nvml.utilization(device),
    temperatureC: () => nvml.temperatureC(device),
    thresholdC: () => nvml.thresholdC(device, "slowdown"),
    powerW: () => nvml.powerW(device),
    powerLimitW: () => nvml.powerLimitW(device),
    enforcedPowerLimitW: () => nvml.enforcedPowerLimitW(device),
    defaultPowerLimitW: () => nvml.defaultPowerLimitW(device),
    powerLimitRangeW: () => nvml.powerLimitRangeW(device),
    energyJ: () => nvml.energyJ(device),
    clockMhz: () => nvml.clockMhz(device, "graphics"),
    maxClockMhz: () => nvml.maxClockMhz(device, "memory"),
    pstate: () => nvml.pstate(device),
    throttleReasons: () => nvml.throttleReasons(device),
    throttleTimesMs: () => nvml.throttleTimesMs(device),
    fanCount: () => nvml.fanCount(device),
    fanRangePct: () => nvml.fanRangePct(device),
    fanPct: () => nvml.fanPct(device, 1),
    fanTargetPct: () => nvml.fanTargetPct(device, 1),
    fanRpm: () => nvml.fanRpm(device, 0),
    fanPolicy: () => nvml.fanPolicy(device, 0),
    pcieGen: () => nvml.pcieGen(device),
    pcieWidth: () => nvml.pcieWidth(device),
    pcieMaxGen: () => nvml.pcieMaxGen(device),
    pcieMaxWidth: () => nvml.pcieMaxWidth(device),
    pcieThroughputKbps: () => nvml.pcieThroughputKbps(device, "rx"),
    fieldValues: () => nvml.fieldValues(device, [82]),
    supportedClocksMhz: () => nvml.supportedClocksMhz(device, "graphics"),
    clockOffset: () => nvml.clockOffset(device, "graphics"),
    watchXid: () => nvml.watchXid(device),
    setPowerLimitW: () => nvml.setPowerLimitW(device, 300),
    lockClocks: () => nvml.lockClocks(device, { domain: "graphics", minMhz: 210, maxMhz: 2_400 }),
    unlockClocks: () => nvml.unlockClocks(device, "graphics"),
    setClockOffset: () => nvml.setClockOffset(device, { domain: "memory", mhz: 100 }),
    setFanPct: () => nvml.setFanPct(device, { fan: 0, pct: 50 }),
    setFanAuto: () => nvml.setFanAuto(device, 0),
  };
}

Deno.test("a fresh card answers every call, and each can be made to refuse", () => {
  const table = new GpuTable();
  const asks = calls(table.open());
  for (const call of CALLS) {
    assert.equal(codeOf(asks[call]), null, call);
    table.fail(call, 999);
    assert.equal(codeOf(asks[call]), 999, call);
    table.fail(call, null);
  }
  table.failAll(15);
  for (const call of CALLS) assert.equal(codeOf(asks[call]), 15, call);
  table.failAll(null);
  assert.equal(codeOf(asks.memory), null);
});

Deno.test("memory adds up, and processes carry their kinds", () => {
  const table = new GpuTable();
  const nvml = table.open();
  const device = nvml.deviceByIndex(0);
  table.setMemory({
    usedBytes: 9_000_000_123,
    processes: [ROW, { pid: 900_002, bytes: 4_000_000, isCompute: false, isGraphics: true, smPct: 3 }],
  });
  const memory = nvml.memory(device);
  assert.equal(memory.usedBytes, 9_000_000_123);
  assert.equal(memory.totalBytes, (memory.reservedBytes ?? 0) + memory.usedBytes + memory.freeBytes);
  assert.deepEqual(nvml.processes(device, "compute"), [{ pid: 900_001, usedBytes: 9_000_000_001 }]);
  assert.deepEqual(nvml.processes(device, "graphics"), [{ pid: 900_002, usedBytes: 4_000_000 }]);
  table.hideBytes(900_001, true);
  assert.deepEqual(nvml.processes(device, "compute"), [{ pid: 900_001, usedBytes: null }]);
  table.hideBytes(900_001, false);
  table.stampUtilization(5_000);
  assert.deepEqual(nvml.processUtilization(device, 4_999).map((row) => [row.pid, row.smPct]), [[900_002, 3]]);
  assert.deepEqual(nvml.processUtilization(device, 5_000), []);
});

Deno.test("what a GeForce hasn't got is refused or absent, as the driver does", () => {
  const nvml = new GpuTable().open();
  assert.equal(codeOf(() => nvml.thresholdC(1n, "memoryMax")), 3);
  assert.deepEqual(nvml.fieldValues(1n, [82, 1]), [{ id: 82, code: 3, value: null }, { id: 1, code: 3, value: null }]);
  assert.equal(codeOf(() => nvml.deviceByUuid("GPU-nope")), 6);
  assert.equal(codeOf(() => nvml.deviceByIndex(1)), 2);
  const fanless = new GpuTable({ ...RTX_4080_SUPER, fanCount: 0 }).open();
  assert.equal(fanless.fanCount(1n), 0);
  for (const ask of [() => fanless.fanPct(1n, 0), () => fanless.fanPolicy(1n, 0), () => fanless.fanRangePct(1n)]) {
    assert.equal(codeOf(ask), 2);
  }
});

Deno.test("nothing can be asked after close", () => {
  const table = new GpuTable();
  const nvml = table.open();
  nvml.close();
  nvml.close();
  const asks = calls(nvml);
  for (const call of CALLS) assert.equal(codeOf(asks[call]), 1, call);
  assert.equal(codeOf(calls(table.open()).memory), null, "another reader lives on");
  assert.throws(() => openGpuTable(new SharedArrayBuffer(8)), /wrong size/);
});

Deno.test("a reader waits for a writer that lost its core half-way", async () => {
  const table = new GpuTable();
  table.setMemory({ usedBytes: 1 });
  const page = new GpuPage(table.buffer);
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL("./table_reader_worker.ts", import.meta.url).href, { type: "module" });
  const next = () =>
    new Promise((resolve) => worker.addEventListener("message", (event) => resolve(event.data), { once: true }));
  try {
    await next();
    worker.postMessage({ buffer: table.buffer } satisfies Question);
    page.write(() => {
      worker.postMessage({ ask: "memory" } satisfies Question);
      // Hundreds of times as long as a write takes: the reader is in the middle of it.
      Atomics.wait(pause, 0, 0, 300);
      page.setGauge("usedBytes", 2);
    });
    assert.equal(await next(), "asking");
    assert.deepEqual(await next(), { usedBytes: 2 });
  } finally {
    worker.terminate();
  }
});

Deno.test("a reader in another thread sees whole writes, and is held as long as the driver holds it", async () => {
  const clock = new LabClock();
  const table = new GpuTable();
  const worker = new Worker(new URL("./table_reader_worker.ts", import.meta.url).href, { type: "module" });
  const replies: unknown[] = [];
  await new Promise((resolve) => worker.addEventListener("message", resolve, { once: true }));
  worker.addEventListener("message", ({ data }) => replies.push(data));
  const tell = (question: Question) => worker.postMessage(question);
  const rowsOf = (count: number) => Array.from({ length: count }, (_, pid) => ({ ...ROW, pid, bytes: count }));
  try {
    table.setMemory({ processes: rowsOf(1) });
    tell({ buffer: table.buffer });
    tell({ ask: "pairs" });
    for (let count = 1; replies.length === 0; count = count % 50 + 1) {
      table.setMemory({ processes: rowsOf(count) });
      if (count === 50) await clock.settle();
    }
    assert.deepEqual(replies.shift(), { torn: 0, kinds: 50 });

    table.hold("memory", true);
    tell({ ask: "memory" });
    while (replies.length === 0) await clock.settle();
    table.setMemory({ usedBytes: 1 });
    for (let turn = 0; turn < 30; turn += 1) await clock.settle();
    assert.deepEqual(replies, ["asking"], "it may not return while it is held");
    table.setMemory({ usedBytes: 2 });
    table.hold("memory", false);
    while (replies.length < 2) await clock.settle();
    assert.deepEqual(replies[1], { usedBytes: 2 });
  } finally {
    worker.terminate();
  }
});
