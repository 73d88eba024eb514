import assert from "node:assert/strict";
import { NVML_CODES, NvmlError } from "../../ffi/nvml_errors.ts";
import { parseModuleVersion } from "../../ffi/nvml_init.ts";
import { LIBRARY_PATHS, librarySearchOrder } from "../../ffi/nvml_library.ts";
import { type Nvml, openNvml } from "../../ffi/nvml.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";

const readText = (path: string): string => {
  throw new Error(`${path} is not here`);
};

function open(stub: Stub): Nvml {
  return openNvml({ paths: [stub.path], readText });
}

function thrown(run: () => unknown): NvmlError {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof NvmlError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was thrown" });
}

stubTest("everything a card says arrives in its unit", (stub) => {
  using nvml = open(stub);
  assert.deepEqual(
    [nvml.path, nvml.driverVersion(), nvml.nvmlVersion(), nvml.cudaVersion(), nvml.deviceCount()],
    [stub.path, "580.159.04", "13.580.159.04", "13.0", 1],
  );
  const gpu = nvml.deviceByIndex(0);
  assert.equal(nvml.deviceByUuid("GPU-stub-0"), gpu);
  assert.deepEqual([nvml.name(gpu), nvml.uuid(gpu), nvml.pciBusId(gpu)], [
    "NVIDIA Stub 16GB",
    "GPU-stub-0",
    "0000:2b:00.0",
  ]);
  assert.deepEqual(nvml.utilization(gpu), { gpuPct: 37, memoryPct: 12 });
  assert.deepEqual([nvml.temperatureC(gpu), nvml.thresholdC(gpu, "shutdown"), nvml.thresholdC(gpu, "gpuMax")], [
    48,
    90,
    93,
  ]);
  assert.deepEqual(
    [nvml.powerW(gpu), nvml.powerLimitW(gpu), nvml.enforcedPowerLimitW(gpu), nvml.defaultPowerLimitW(gpu)],
    [123.456, 320, 310, 320],
  );
  assert.deepEqual(nvml.powerLimitRangeW(gpu), { minW: 150, maxW: 400 });
  assert.equal(nvml.energyJ(gpu), 9876.543);
  const domains = ["graphics", "sm", "memory", "video"] as const;
  assert.deepEqual(domains.map((domain) => nvml.clockMhz(gpu, domain)), [2400, 2401, 2402, 2403]);
  assert.deepEqual(domains.map((domain) => nvml.maxClockMhz(gpu, domain)), [3100, 3101, 3102, 3103]);
  assert.deepEqual([nvml.pstate(gpu), nvml.throttleReasons(gpu)], [2, 4]);
  assert.deepEqual(nvml.throttleTimesMs(gpu), {
    power: 1_500,
    softwareThermal: 5_000,
    hardwareThermal: null,
    powerBrake: null,
  });
  assert.deepEqual([nvml.fanCount(gpu), nvml.fanRangePct(gpu)], [2, { minPct: 30, maxPct: 100 }]);
  const fan = (n: number) => [
    nvml.fanPct(gpu, n),
    nvml.fanTargetPct(gpu, n),
    nvml.fanRpm(gpu, n),
    nvml.fanPolicy(gpu, n),
  ];
  assert.deepEqual([fan(0), fan(1)], [[41, 45, 1500, "auto"], [42, 46, 1501, "manual"]]);
  assert.deepEqual([nvml.pcieGen(gpu), nvml.pcieWidth(gpu), nvml.pcieMaxGen(gpu), nvml.pcieMaxWidth(gpu)], [
    4,
    16,
    5,
    16,
  ]);
  assert.deepEqual([nvml.pcieThroughputKbps(gpu, "tx"), nvml.pcieThroughputKbps(gpu, "rx")], [1000, 1001]);
  assert.deepEqual(nvml.fieldValues(gpu, [82, 9999, 269, 193]), [
    { id: 82, code: 0, value: 66 },
    { id: 9999, code: 3, value: null },
    { id: 269, code: 0, value: 5_000_000_000 },
    { id: 193, code: 0, value: -8 },
  ]);
});

stubTest("temperatures are signed, unknown P-states are null, throttle bits lose nothing", (stub) => {
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  stub.set("temperature", 0xFFFF_FFFBn);
  stub.set("pstate", 32);
  stub.set("throttle", 0x8000_0064n);
  assert.deepEqual([nvml.temperatureC(gpu), nvml.pstate(gpu), nvml.throttleReasons(gpu)], [-5, null, 0x8000_0064]);
});

stubTest("an old driver's library is asked by the calls it has", (stub) => {
  stub.versions("470.82.01", "11.470.82.01");
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  stub.processes("compute", [[4711, 5_000]]);
  // The old call's `used` includes the reserve, and says so by `reservedBytes: null`.
  assert.deepEqual(nvml.memory(gpu), {
    totalBytes: 16 * 2 ** 30,
    freeBytes: 14.5 * 2 ** 30,
    usedBytes: 1.5 * 2 ** 30,
    reservedBytes: null,
  });
  assert.deepEqual(nvml.processes(gpu, "compute"), [{ pid: 4711, usedBytes: 5_000 }]);
  assert.deepEqual([nvml.temperatureC(gpu), nvml.throttleReasons(gpu)], [51, 1]);
  const missing = thrown(() => nvml.fanCount(gpu));
  assert.deepEqual([missing.symbol, missing.code], ["nvmlDeviceGetNumFans", 13]);
  assert.match(missing.message, /does not have it/);
}, "old");

stubTest("with nothing but the required symbols, every call is refused and none crashes", (stub) => {
  const error = thrown(() => open(stub));
  assert.deepEqual([error.symbol, error.code], ["nvmlSystemGetDriverVersion", 13]);
  assert.equal(stub.calls("nvmlShutdown"), 1, "what was initialised is shut down again");
}, "bare");

stubTest("a library without a required symbol is not opened", (stub) => {
  const error = thrown(() => open(stub));
  assert.deepEqual([error.symbol, error.code], ["dlopen", 12]);
  assert.match(error.message, /nvmlInit_v2/);
}, "noInit");

Deno.test("a library that is nowhere is absent, one that is no library is named", async () => {
  const absent = thrown(() => openNvml({ paths: ["/nonexistent/libnvidia-ml.so.1"], readText }));
  assert.match(absent.message, /not on this machine/);
  assert.match(absent.hint ?? "", /Install the NVIDIA driver/);
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "no library");
  const broken = thrown(() => openNvml({ paths: ["/nonexistent/libnvidia-ml.so.1", file], readText }));
  assert.ok(broken.message.includes(file), broken.message);
  await Deno.remove(file);
});

Deno.test("the search never takes the unversioned name, and a configured path comes first", () => {
  assert.ok(LIBRARY_PATHS.every((path) => path.endsWith("libnvidia-ml.so.1")));
  assert.deepEqual(librarySearchOrder("/opt/x.so").slice(0, 2), ["/opt/x.so", "libnvidia-ml.so.1"]);
  assert.equal(librarySearchOrder(null), LIBRARY_PATHS);
});

stubTest("the first library that opens is taken", (stub) => {
  using nvml = openNvml({ paths: ["/nonexistent/libnvidia-ml.so.1", stub.path], readText });
  assert.equal(nvml.path, stub.path);
});

stubTest("a refused start says what is wrong and what helps", (stub) => {
  stub.versions("535.86.05", "12.535.86.05");
  const says = (code: number, read = readText) => {
    stub.answer("nvmlInit_v2", code);
    const error = thrown(() => openNvml({ paths: [stub.path], readText: read }));
    assert.equal(error.code, code);
    assert.ok(error.hint !== null && error.hint.length > 20, `code ${code} has a remedy`);
    return error.message;
  };
  assert.match(says(9), /kernel module is not loaded/);
  assert.match(says(4), /NO_PERMISSION/);
  assert.match(says(17), /operating system blocks/);
  assert.match(says(999), /UNKNOWN/);
  assert.match(says(15), /lost/);
  assert.match(says(23), /INSUFFICIENT_RESOURCES/);
  const module = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n";
  assert.match(says(18, () => module), /library \(535\.86\.05\).*module \(535\.54\.03\)/);
  assert.match(says(18), /library \(535\.86\.05\).*module \(unknown\)/);
  stub.answer("nvmlSystemGetNVMLVersion", 1);
  assert.match(says(18), /library \(unknown\)/);
});

Deno.test("both kernel modules tell their version", () => {
  assert.equal(
    parseModuleVersion("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)"),
    "580.159.04",
  );
  assert.equal(parseModuleVersion("something else"), null);
});

stubTest("every return code arrives with number, name and symbol", (stub) => {
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  for (const [code, name] of Object.entries(NVML_CODES)) {
    if (code === "0") continue;
    stub.answer("nvmlDeviceGetPowerUsage", Number(code));
    const error = thrown(() => nvml.powerW(gpu));
    assert.deepEqual([error.symbol, error.code, error.codeName], ["nvmlDeviceGetPowerUsage", Number(code), name]);
  }
  stub.answer("nvmlDeviceGetPowerUsage", 31);
  assert.match(thrown(() => nvml.powerW(gpu)).message, /CODE_31 \(words of the stub\)/);
});

stubTest("memory falls back to the old call on 13, 25 and 999, and stays there", (stub) => {
  for (const code of [13, 25, 999]) {
    using nvml = open(stub);
    const gpu = nvml.deviceByIndex(0);
    stub.answer("nvmlDeviceGetMemoryInfo_v2", code, 1);
    const before = stub.calls("nvmlDeviceGetMemoryInfo_v2");
    assert.equal(nvml.memory(gpu).reservedBytes, null);
    assert.equal(nvml.memory(gpu).reservedBytes, null, "a change of meaning would look like an allocation");
    assert.equal(stub.calls("nvmlDeviceGetMemoryInfo_v2"), before + 1);
  }
});

stubTest("memory never changes its meaning once the newer call has worked", (stub) => {
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  assert.equal(nvml.memory(gpu).reservedBytes, 512 * 2 ** 20);
  stub.answer("nvmlDeviceGetMemoryInfo_v2", 999, 1);
  assert.equal(thrown(() => nvml.memory(gpu)).code, 999);
  assert.equal(nvml.memory(gpu).reservedBytes, 512 * 2 ** 20);
  stub.answer("nvmlDeviceGetMemoryInfo_v2", 15, 1);
  assert.equal(thrown(() => nvml.memory(gpu)).code, 15);
  assert.equal(stub.calls("nvmlDeviceGetMemoryInfo"), 0);
});

stubTest("the process list grows with its processes", (stub) => {
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  assert.deepEqual(nvml.processes(gpu, "compute"), []);
  const rows = Array.from({ length: 40 }, (_, i) => [100 + i, i === 7 ? null : i * 2 ** 30] as const);
  stub.processes("compute", rows);
  stub.processes("graphics", [[900, 12_345]]);
  assert.deepEqual(nvml.processes(gpu, "compute"), rows.map(([pid, usedBytes]) => ({ pid, usedBytes })));
  assert.deepEqual(nvml.processes(gpu, "graphics"), [{ pid: 900, usedBytes: 12_345 }]);
  stub.processes("compute", rows.slice(0, 1));
  assert.equal(nvml.processes(gpu, "compute").length, 1, "a process that vanished is gone from the next list");
  stub.answer("nvmlDeviceGetComputeRunningProcesses_v3", 7);
  assert.equal(
    thrown(() => nvml.processes(gpu, "compute")).code,
    7,
    "a driver that never has enough isn't asked for ever",
  );
});

stubTest("a process list is read by the stride it was written with", (stub) => {
  const rows = [[4711, 11_000_000_000], [4712, null], [4713, 7]] as const;
  const expected = rows.map(([pid, usedBytes]) => ({ pid, usedBytes }));
  stub.processes("compute", rows);
  const read = (driver: string, stride: number) => {
    stub.versions(driver, `12.${driver}`);
    stub.set("stride", stride);
    using nvml = open(stub);
    return nvml.processes(nvml.deviceByIndex(0), "compute");
  };
  assert.deepEqual(read("535.54.03", 32), expected);
  assert.deepEqual(read("535.104.05", 24), expected);
  assert.deepEqual(read("535.54.03", 24), expected, "the version lied");
  assert.deepEqual(read("580.159.04", 32), expected, "the version lied");
  const error = thrown(() => read("580.159.04", 28));
  assert.match(error.message, /neither 24 nor 32/);
});

stubTest("process utilisation: nobody worked is no error, rubbish is dropped, the ring is sized once", (stub) => {
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  const symbol = "nvmlDeviceGetProcessUtilization";
  assert.deepEqual(nvml.processUtilization(gpu, 0), []);
  assert.equal(stub.calls(symbol), 2, "once for the ring's capacity, once for the rows");
  const now = 1_700_000_000_000_000;
  stub.utilization([
    { pid: 10, atUs: now, sm: 83, rest: 4 },
    { pid: 11, atUs: now - 5_000_000, sm: 50 },
    { pid: 12, atUs: now, sm: 3_000_000 },
  ]);
  assert.deepEqual(nvml.processUtilization(gpu, now - 1_000_000), [
    { pid: 10, timestampUs: now, smPct: 83, memoryPct: 4, encoderPct: 4, decoderPct: 4 },
  ]);
  assert.equal(stub.calls(symbol), 3);
  stub.set("ring", 100);
  assert.equal(nvml.processUtilization(gpu, now - 1_000_000).length, 1, "a ring that grew is followed");
  stub.answer(symbol, 3);
  assert.equal(thrown(() => nvml.processUtilization(gpu, now)).code, 3);
});

stubTest("after close every call throws instead of crashing, and closing again does nothing", (stub) => {
  const nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  nvml.close();
  nvml.close();
  nvml[Symbol.dispose]();
  assert.equal(stub.calls("nvmlShutdown"), 1);
  const calls: readonly (() => unknown)[] = [
    () => nvml.driverVersion(),
    () => nvml.deviceByIndex(0),
    () => nvml.deviceByUuid("GPU-stub-0"),
    () => nvml.memory(gpu),
    () => nvml.processes(gpu, "compute"),
    () => nvml.processUtilization(gpu, 0),
    () => nvml.temperatureC(gpu),
    () => nvml.fanRpm(gpu, 0),
    () => nvml.powerLimitRangeW(gpu),
    () => nvml.fieldValues(gpu, [82]),
    () => nvml.throttleReasons(gpu),
  ];
  for (const call of calls) {
    const error = thrown(call);
    assert.deepEqual([error.code, error.codeName], [1, "UNINITIALIZED"]);
  }
});

stubTest("a lost card is told by every call", (stub) => {
  using nvml = open(stub);
  const gpu = nvml.deviceByIndex(0);
  stub.set("lost", 1);
  assert.equal(thrown(() => nvml.memory(gpu)).codeName, "GPU_IS_LOST");
  assert.equal(thrown(() => nvml.processes(gpu, "graphics")).code, 15);
});
