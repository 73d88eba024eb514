import assert from "node:assert/strict";
import { openNvml } from "../../ffi/nvml.ts";
import { type Clock, GpuUnavailable } from "../../lib/model/ports.ts";
import { type GpuReader, openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { mergeProcesses } from "../../lib/sample/gpu_processes.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";

const WALL_MS = 1_764_600_000_000;
const FIRST_CARD = { uuid: null, index: null };

/** A clock that only the test moves; the reader asks nothing else of it. */
function stillClock() {
  const state = { ms: 5_000, wallOffsetMs: 0 };
  const never = () => {
    throw new Error("the reader waits for nothing");
  };
  const clock: Clock = {
    monotonicMs: () => state.ms,
    wallMs: () => WALL_MS + state.ms + state.wallOffsetMs,
    sleep: never,
    after: never,
    every: never,
    deadline: never,
    random: never,
    uuid: never,
  };
  return { clock, state };
}

type Time = ReturnType<typeof stillClock>["state"];

/** A test over the stub with an open reader of its first card. */
function readerTest(name: string, run: (given: { stub: Stub; reader: GpuReader; time: Time }) => void): void {
  stubTest(name, (stub) => {
    using nvml = openNvml({ paths: [stub.path], readText: () => "" });
    const { clock, state } = stillClock();
    run({ stub, reader: openGpuReader(nvml, { clock, choice: FIRST_CARD }), time: state });
  });
}

function unavailable(run: () => unknown): GpuUnavailable {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof GpuUnavailable, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was thrown" });
}

readerTest("the facts of a card", ({ reader, stub }) => {
  const facts = {
    uuid: "GPU-stub-0",
    index: 0,
    name: "NVIDIA Stub 16GB",
    pciBusId: "0000:2b:00.0",
    driverVersion: "580.159.04",
    nvmlVersion: "13.580.159.04",
    cudaVersion: "13.0",
    memoryTotalBytes: 16 * 2 ** 30,
    power: { defaultLimitW: 320, minLimitW: 150, maxLimitW: 400 },
    thresholds: { shutdownC: 90, slowdownC: 91, memoryMaxC: 92, gpuMaxC: 93 },
    fanCount: 2,
    fanMinPct: 30,
    fanMaxPct: 100,
    maxGraphicsMhz: 3100,
    maxMemoryMhz: 3102,
    pcieMaxGen: 5,
    pcieMaxWidth: 16,
  };
  assert.deepEqual(reader.facts(), facts);
  assert.deepEqual(reader.facts(), facts);
  assert.equal(stub.calls("nvmlDeviceGetMaxClockInfo"), 2, "facts are read once");
});

readerTest("one second's reading", ({ reader, stub }) => {
  stub.processes("compute", [[100, 5 * 2 ** 30], [101, null]]);
  stub.processes("graphics", [[100, 5 * 2 ** 30 + 1], [102, 7]]);
  stub.utilization([{ pid: 100, atUs: (WALL_MS + 4_900) * 1000, sm: 63 }, {
    pid: 777,
    atUs: (WALL_MS + 4_900) * 1000,
    sm: 99,
  }]);
  const reading = reader.read();
  assert.deepEqual(reading, {
    memory: {
      totalBytes: 16 * 2 ** 30,
      usedBytes: 2 ** 30,
      freeBytes: 14.5 * 2 ** 30,
      reservedBytes: 512 * 2 ** 20,
    },
    processes: [
      { pid: 100, usedBytes: 5 * 2 ** 30 + 1, kinds: ["compute", "graphics"] },
      { pid: 101, usedBytes: null, kinds: ["compute"] },
      { pid: 102, usedBytes: 7, kinds: ["graphics"] },
    ],
    smPctByPid: { 100: 63 },
    gpuUtilPct: 37,
    memoryUtilPct: 12,
    temperatureC: 48,
    memoryTemperatureC: 66,
    powerW: 123.456,
    powerLimitW: 310,
    energyJ: 9876.543,
    clocks: { graphicsMhz: 2400, smMhz: 2401, memoryMhz: 2402, videoMhz: 2403 },
    pstate: 2,
    throttleReasons: 4,
    throttledMs: { power: 1_500, softwareThermal: 5_000, hardwareThermal: null, powerBrake: null },
    fans: [
      { pct: 41, targetPct: 45, rpm: 1500, policy: "auto" },
      { pct: 42, targetPct: 46, rpm: 1501, policy: "manual" },
    ],
    pcie: { gen: 4, width: 16, txKbps: null, rxKbps: null },
  });
});

readerTest("slow figures come on their own schedule, and keep their value in between", ({ reader, stub, time }) => {
  const symbols = {
    throughput: "nvmlDeviceGetPcieThroughput",
    policy: "nvmlDeviceGetFanControlPolicy_v2",
    width: "nvmlDeviceGetCurrPcieLinkWidth",
    energy: "nvmlDeviceGetTotalEnergyConsumption",
    utilization: "nvmlDeviceGetProcessUtilization",
  };
  for (let second = 0; second < 20; second++, time.ms += 1_000) {
    const before = stub.calls(symbols.throughput);
    const { pcie } = reader.read();
    assert.ok(stub.calls(symbols.throughput) - before <= 1, "the two directions take turns");
    if (second >= 3) assert.deepEqual([pcie.txKbps, pcie.rxKbps, pcie.width], [1000, 1001, 16]);
  }
  assert.equal(stub.calls(symbols.throughput), 4 + 4);
  // Each second, both fans: what was set by hand, here or by another tool, is to be seen at once.
  assert.equal(stub.calls(symbols.policy), 20 * 2);
  assert.equal(stub.calls(symbols.width), 2);
  assert.equal(stub.calls(symbols.energy), 20);
  assert.equal(stub.calls(symbols.utilization), 21, "once more, for the ring's size");
});

readerTest("while a barrier is open nothing slow is asked, and the last values stand", ({ reader, stub, time }) => {
  for (let second = 0; second < 4; second++, time.ms += 1_000) reader.read();
  const slow = [
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetFanControlPolicy_v2",
    "nvmlDeviceGetCurrPcieLinkWidth",
  ];
  const before = slow.map((symbol) => stub.calls(symbol));
  time.ms += 60_000;
  const reading = reader.read({ isQuick: true });
  assert.deepEqual(slow.map((symbol) => stub.calls(symbol)), before);
  assert.deepEqual([reading.energyJ, reading.pcie.txKbps, reading.fans[1]?.policy], [9876.543, 1000, "manual"]);
  for (let ms = 0; ms < 1_000; ms++, time.ms++) reader.readBarrier();
  const [throughput, energy, utilization] = slow.map((symbol, i) => stub.calls(symbol) - before[i]!);
  assert.deepEqual([throughput, energy, utilization], [0, 0, 5], "SM utilisation every 200 ms");
});

readerTest("a barrier reads memory, then processes", ({ reader, stub }) => {
  stub.processes("compute", [[100, 9_000]]);
  stub.utilization([{ pid: 100, atUs: (WALL_MS + 4_600) * 1000, sm: 88 }]);
  assert.deepEqual(reader.readBarrier(), {
    atMs: 5_000,
    tookMs: 0,
    usedBytes: 2 ** 30,
    freeBytes: 14.5 * 2 ** 30,
    processes: [{ pid: 100, usedBytes: 9_000, kinds: ["compute"] }],
    smPctByPid: { 100: 88 },
  });
  assert.equal(reader.readBarrier().smPctByPid, null, "null in the readings between");
  assert.deepEqual(reader.read({ isQuick: true }).smPctByPid, { 100: 88 });
});

readerTest("a barrier doesn't count work from before it", ({ reader, stub }) => {
  stub.processes("compute", [[100, 9_000]]);
  stub.utilization([{ pid: 100, atUs: (WALL_MS + 4_400) * 1000, sm: 88 }]);
  assert.deepEqual(reader.readBarrier().smPctByPid, {});
});

readerTest("a barrier outlasts an error in passing and ends at one that stays", ({ reader, stub }) => {
  stub.answer("nvmlDeviceGetComputeRunningProcesses_v3", 999, 2);
  assert.deepEqual(reader.readBarrier().processes, []);
  stub.answer("nvmlDeviceGetComputeRunningProcesses_v3", 999);
  assert.equal(unavailable(() => reader.readBarrier()).kind, "lost");
  stub.answer("nvmlDeviceGetComputeRunningProcesses_v3", 4);
  assert.equal(unavailable(() => reader.readBarrier()).kind, "refused", "an unreadable list is not an empty one");
});

readerTest("what the card never gives is asked for once", ({ reader, stub, time }) => {
  const gone = ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", "nvmlDeviceGetPerformanceState"];
  for (const symbol of gone) stub.answer(symbol, 3);
  stub.answer("nvmlDeviceGetProcessUtilization", 3);
  stub.answer("nvmlDeviceGetEnforcedPowerLimit", 3);
  stub.set("field.82.code", 3);
  for (let second = 0; second < 5; second++, time.ms += 1_000) {
    const reading = reader.read();
    assert.deepEqual([reading.temperatureC, reading.pstate, reading.smPctByPid, reading.memoryTemperatureC], [
      null,
      null,
      null,
      null,
    ]);
    assert.equal(reading.powerLimitW, 320, "the limit that was asked for stands in for the enforced one");
  }
  for (const symbol of [...gone, "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetEnforcedPowerLimit"]) {
    assert.equal(stub.calls(symbol), 1, symbol);
  }
  assert.equal(stub.calls("nvmlDeviceGetFieldValues"), 1 + 3, "the temperature once, the throttle counters every 2 s");
});

readerTest("what fails in passing is null this once", ({ reader, stub }) => {
  stub.answer("nvmlDeviceGetPowerUsage", 999, 1);
  stub.answer("nvmlDeviceGetComputeRunningProcesses_v3", 27, 1);
  const first = reader.read();
  assert.deepEqual([first.powerW, first.processes], [null, null]);
  const second = reader.read();
  assert.deepEqual([second.powerW, second.processes], [123.456, []]);
});

readerTest("half a process list is no list", ({ reader, stub }) => {
  stub.processes("compute", [[100, 9_000]]);
  stub.answer("nvmlDeviceGetGraphicsRunningProcesses_v3", 999, 1);
  assert.equal(reader.read().processes, null);
  stub.answer("nvmlDeviceGetGraphicsRunningProcesses_v3", 3);
  assert.equal(reader.read().processes?.length, 1, "a card without graphics has nobody there");
});

readerTest("a card without fans is asked nothing about them", ({ reader, stub }) => {
  stub.set("fans", 0);
  assert.deepEqual(reader.read().fans, []);
  const facts = reader.facts();
  assert.deepEqual([facts.fanCount, facts.fanMinPct], [0, null]);
  assert.equal(stub.calls("nvmlDeviceGetMinMaxFanSpeed") + stub.calls("nvmlDeviceGetFanSpeed_v2"), 0);
});

readerTest("a memory temperature of 0 is no sensor", ({ reader, stub }) => {
  stub.set("field.82.value", 0);
  stub.set("field.82.code", 0);
  assert.equal(reader.read().memoryTemperatureC, null);
});

readerTest("memory that fails again and again means the card", ({ reader, stub }) => {
  reader.read();
  stub.answer("nvmlDeviceGetMemoryInfo_v2", 999);
  for (let i = 0; i < 4; i++) assert.equal(reader.read().memory, null);
  stub.answer("nvmlDeviceGetMemoryInfo_v2", 0);
  assert.equal(reader.read().memory?.usedBytes, 2 ** 30);
  stub.answer("nvmlDeviceGetMemoryInfo_v2", 999);
  for (let i = 0; i < 4; i++) assert.equal(reader.read().memory, null, "only failures in a row count");
  assert.equal(unavailable(() => reader.read()).kind, "lost");
});

readerTest("each code that means the card is told with its kind and a remedy", ({ reader, stub }) => {
  const kinds = { 1: "lost", 9: "absent", 15: "lost", 16: "lost", 18: "absent", 28: "lost" };
  for (const [code, kind] of Object.entries(kinds)) {
    stub.answer("nvmlDeviceGetUtilizationRates", Number(code), 1);
    const error = unavailable(() => reader.read());
    assert.equal(error.kind, kind, code);
    assert.ok(error.remedy.length > 10);
  }
  stub.set("lost", 1);
  assert.match(unavailable(() => reader.readBarrier()).message, /GPU_IS_LOST/);
});

readerTest("a wall clock set back doesn't make workers look idle", ({ reader, stub, time }) => {
  stub.processes("compute", [[100, 9_000]]);
  const work = () =>
    stub.utilization([{ pid: 100, atUs: (WALL_MS + time.ms + time.wallOffsetMs - 10) * 1000, sm: 70 }]);
  work();
  assert.deepEqual(reader.read().smPctByPid, { 100: 70 });
  time.ms += 1_000;
  time.wallOffsetMs = -3_600_000;
  work();
  assert.deepEqual(reader.read().smPctByPid, { 100: 70 });
});

stubTest("the card is chosen by uuid or index, and a wrong choice says what there is", (stub) => {
  stub.set("count", 3);
  using nvml = openNvml({ paths: [stub.path], readText: () => "" });
  const { clock } = stillClock();
  const open = (uuid: string | null, index: number | null) => openGpuReader(nvml, { clock, choice: { uuid, index } });
  assert.deepEqual([open("GPU-stub-2", 0).facts().index, open("GPU-stub-2", 0).facts().uuid], [2, "GPU-stub-2"]);
  assert.equal(open(null, 1).facts().uuid, "GPU-stub-1");
  assert.equal(open(null, null).facts().index, 0);
  assert.match(unavailable(() => open("GPU-other", null)).message, /sees 3 other/);
  const beyond = unavailable(() => open(null, 3));
  assert.deepEqual([beyond.kind, beyond.message], ["absent", "Cannot find GPU 3: the NVIDIA driver sees 3"]);
  stub.answer("nvmlDeviceGetHandleByIndex_v2", 4, 1);
  assert.equal(unavailable(() => open(null, 0)).kind, "refused");
  stub.set("count", 0);
  assert.match(unavailable(() => open(null, null)).message, /sees none/);
});

stubTest("with one card nothing else is opened to find its index", (stub) => {
  using nvml = openNvml({ paths: [stub.path], readText: () => "" });
  openGpuReader(nvml, { clock: stillClock().clock, choice: { uuid: "GPU-stub-0", index: null } });
  assert.equal(stub.calls("nvmlDeviceGetHandleByIndex_v2"), 0);
});

Deno.test("one row a pid: the larger figure, and unknown only where both are", () => {
  const row = (pid: number, usedBytes: number | null) => ({ pid, usedBytes });
  assert.deepEqual(
    mergeProcesses({ compute: [row(1, null), row(2, 5), row(3, null)], graphics: [row(1, 4), row(2, 3), row(3, null)] })
      .map((process) => process.usedBytes),
    [4, 5, null],
  );
  assert.deepEqual(mergeProcesses({ compute: [row(1, 2), row(1, 3)] }), [{ pid: 1, usedBytes: 3, kinds: ["compute"] }]);
});
