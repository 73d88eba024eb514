import assert from "node:assert/strict";
import { GpuTable } from "../../lib/lab/gpu_table.ts";
import { type Gpu, GpuUnavailable, type Log } from "../../lib/model/ports.ts";
import type { BarrierReading } from "../../lib/model/sample.ts";
import { connectGpu, type ConnectGpuOptions } from "../../lib/workers/nvml_client.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";
import { ManualClock } from "./manual_clock.ts";

const MEMORY = "nvmlDeviceGetMemoryInfo_v2";
const PROCESSES = "nvmlDeviceGetComputeRunningProcesses_v3";

/** Waits for a condition that other threads bring about. */
async function until(holds: () => boolean, what: string): Promise<void> {
  for (let look = 0; look < 10_000; look++) {
    if (holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  throw new assert.AssertionError({ message: `never came: ${what}` });
}

async function refused(call: Promise<unknown>): Promise<GpuUnavailable> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof GpuUnavailable, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was refused" });
}

/** Waits until the card can be read again. */
async function healed(gpu: Gpu, clock: ManualClock): Promise<void> {
  let isHealed = false;
  for (let look = 0; look < 10_000 && !isHealed; look++) {
    clock.advance(1_000);
    // The answer may be a while in coming; the clock that judges it stands still.
    isHealed = await gpu.read().then(() => true, () => false);
    if (!isHealed) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.ok(isHealed);
}

interface Given {
  readonly gpu: Gpu;
  readonly clock: ManualClock;
  readonly logged: string[];
}

/** A connected card on a clock of its own, closed afterwards. */
async function withGpu(
  options: Pick<ConnectGpuOptions, "source"> & Partial<ConnectGpuOptions>,
  run: (given: Given) => Promise<void>,
): Promise<void> {
  const clock = new ManualClock();
  const logged: string[] = [];
  const note = (message: string) => void logged.push(message);
  const log: Log = { debug: note, info: note, warn: note, error: note };
  const gpu = connectGpu({ clock, log, choice: { uuid: null, index: null }, sysRoot: "/nonexistent", ...options });
  try {
    await run({ gpu, clock, logged });
  } finally {
    await gpu.close();
    assert.equal(clock.armed, 0, "no timer outlives the client");
  }
}

function gpuTest(name: string, run: (given: Given & { readonly stub: Stub }) => Promise<void>): void {
  stubTest(
    name,
    (stub) => withGpu({ source: { kind: "library", paths: [stub.path] } }, (given) => run({ ...given, stub })),
  );
}

/** Watches, and keeps what comes. */
function watch(gpu: Gpu) {
  const readings: BarrierReading[] = [];
  const lost: GpuUnavailable[] = [];
  const timer = gpu.watch((reading) => readings.push(reading), (cause) => lost.push(cause));
  return { readings, lost, stop: () => timer.stop() };
}

gpuTest("facts and readings come from the Worker", async ({ gpu, stub }) => {
  stub.processes("compute", [[4711, 2 ** 33]]);
  assert.equal((await gpu.facts()).name, "NVIDIA Stub 16GB");
  const reading = await gpu.read();
  assert.deepEqual(reading.processes, [{ pid: 4711, usedBytes: 2 ** 33, kinds: ["compute"] }]);
  assert.equal(reading.memory?.usedBytes, 2 ** 30);
  assert.equal(stub.calls("nvmlInit_v2"), 1);
});

gpuTest("a driver that blocks for 300 ms is healthy", async ({ gpu, stub, clock, logged }) => {
  await gpu.facts();
  const before = stub.calls(MEMORY);
  stub.hold(MEMORY);
  const reading = gpu.read();
  await until(() => stub.calls(MEMORY) > before, "the call");
  clock.advance(300);
  stub.release(MEMORY);
  assert.equal((await reading).memory?.usedBytes, 2 ** 30);
  assert.deepEqual(logged, []);
});

gpuTest("a driver that hangs is wedged, isn't asked again, and heals when its call returns", async (given) => {
  const { gpu, stub, clock, logged } = given;
  await gpu.facts();
  const before = stub.calls(MEMORY);
  stub.hold(MEMORY);
  const reading = gpu.read();
  await until(() => stub.calls(MEMORY) > before, "the call");
  clock.advance(999);
  assert.deepEqual(logged, []);
  clock.advance(1);
  const first = await refused(reading);
  assert.deepEqual([first.kind, first.message], [
    "wedged",
    "Cannot read the GPU: a driver call has not returned for 1.0 s",
  ]);
  clock.advance(4_000);
  const asked = stub.calls(MEMORY);
  for (let tick = 0; tick < 5; tick++) assert.match((await refused(gpu.read())).message, /5\.0 s/);
  assert.equal((await refused(gpu.facts())).kind, "wedged");
  const { lost } = watch(gpu);
  await until(() => lost.length === 1, "the watcher's end");
  assert.equal(lost[0]?.kind, "wedged");
  assert.equal(stub.calls(MEMORY), asked);
  stub.release(MEMORY);
  await until(() => logged.length === 2, "the healing");
  assert.equal((await gpu.read()).memory?.usedBytes, 2 ** 30);
  assert.deepEqual(logged, ["The GPU's driver does not answer: a call is overdue", "The GPU's driver answers again"]);
});

stubTest("a library that comes later is found, at growing intervals", async (stub) => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/libnvidia-ml.so.1`;
  await withGpu({ source: { kind: "library", paths: [path] } }, async ({ gpu, clock, logged }) => {
    const absent = await refused(gpu.read());
    assert.deepEqual([absent.kind, absent.remedy.slice(0, 25)], ["absent", "Install the NVIDIA driver"]);
    await Deno.symlink(stub.path, path);
    stub.answer("nvmlInit_v2", 9);
    const attempts: number[] = [];
    for (let second = 1; second <= 70; second++) {
      clock.advance(1_000);
      const before = stub.calls("nvmlInit_v2");
      await refused(gpu.read());
      if (stub.calls("nvmlInit_v2") > before) attempts.push(second);
    }
    assert.deepEqual(attempts, [1, 3, 7, 15, 31, 61]);
    stub.answer("nvmlInit_v2", 0);
    clock.advance(30_000);
    assert.equal((await gpu.facts()).driverVersion, "580.159.04");
    assert.equal((await gpu.read()).temperatureC, 48);
    assert.deepEqual(logged, [
      "Cannot open the NVIDIA driver's library: libnvidia-ml.so.1 is not on this machine",
      "Cannot open the GPU: the NVIDIA kernel module is not loaded",
      "The GPU can be read again",
    ], "each change once");
  });
  await Deno.remove(folder, { recursive: true });
});

gpuTest("a lost card is closed, and opened anew when it is back", async ({ gpu, stub, clock }) => {
  await gpu.read();
  for (let time = 1; time <= 2; time++) {
    stub.set("lost", 1);
    const both = await Promise.all([refused(gpu.read()), refused(gpu.facts())]);
    assert.deepEqual(both.map((cause) => cause.kind), ["lost", "lost"]);
    assert.equal(stub.calls("nvmlShutdown"), stub.calls("nvmlInit_v2"), "what was opened was closed");
    stub.set("lost", 0);
    clock.advance(999);
    assert.equal((await refused(gpu.read())).kind, "lost", "not before the back-off");
    clock.advance(1);
    assert.equal(
      (await gpu.read()).temperatureC,
      48,
      "two failed calls are one failed attempt, and healing starts afresh",
    );
  }
});

gpuTest("watchers share one stream; it ends with the last of them, at once", async ({ gpu, stub, clock }) => {
  const first = watch(gpu);
  const second = watch(gpu);
  await until(() => first.readings.length >= 20 && second.readings.length >= 20, "readings");
  assert.deepEqual(first.readings[3], second.readings[3]);
  const [a, b] = first.readings;
  assert.ok(a !== undefined && b !== undefined && b.atMs > a.atMs && a.usedBytes === 2 ** 30);
  assert.ok(a.atMs >= clock.monotonicMs() && a.atMs < clock.monotonicMs() + 60_000, "stamped by the client's clock");
  first.stop();
  first.stop();
  const stopped = first.readings.length;
  const seen = second.readings.length;
  await until(() => second.readings.length > seen + 5, "readings for the other");
  assert.equal(first.readings.length, stopped);
  second.stop();
  // The question is answered after the stream has ended.
  await gpu.facts();
  const calls = stub.calls(MEMORY);
  await gpu.facts();
  assert.equal(stub.calls(MEMORY), calls);
  const third = watch(gpu);
  await until(() => third.readings.length > 0, "a later stream");
  third.stop();
  assert.deepEqual([first.lost, second.lost, third.lost], [[], [], []]);
});

gpuTest("questions are answered while a stream flows, without slow calls", async ({ gpu, stub }) => {
  await gpu.read();
  const slow = ["nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetCurrPcieLinkWidth"];
  const before = slow.map((symbol) => stub.calls(symbol));
  const { readings, stop } = watch(gpu);
  await until(() => readings.length > 0, "a reading");
  for (let tick = 0; tick < 3; tick++) {
    const seen = readings.length;
    assert.equal((await gpu.read()).energyJ, 9876.543);
    await until(() => readings.length > seen, "the stream going on");
  }
  assert.deepEqual(slow.map((symbol) => stub.calls(symbol)), before);
  stop();
});

gpuTest("a stream that stalls is told to every watcher, once, and heals", async ({ gpu, stub, clock }) => {
  const watchers = [watch(gpu), watch(gpu)];
  await until(() => watchers.every(({ readings }) => readings.length > 0), "readings");
  const before = stub.calls(PROCESSES);
  stub.hold(PROCESSES);
  await until(() => stub.calls(PROCESSES) > before, "the call");
  // What was under way arrives before the client's clock goes on.
  await new Promise((resolve) => setTimeout(resolve, 5));
  clock.advance(750);
  assert.deepEqual(watchers.map(({ lost }) => lost.length), [0, 0], "a context being made blocks for 106 ms");
  clock.advance(20_000);
  assert.deepEqual(watchers.map(({ lost }) => lost.map((cause) => cause.kind)), [["wedged"], ["wedged"]]);
  stub.release(PROCESSES);
  await healed(gpu, clock);
  assert.equal(stub.calls("nvmlShutdown"), 0, "nothing was closed for it");
});

gpuTest("a stalled call that returns with an error is no longer a hanging driver", async ({ gpu, stub, clock }) => {
  const { readings, lost } = watch(gpu);
  await until(() => readings.length > 0, "a reading");
  const before = stub.calls(PROCESSES);
  stub.hold(PROCESSES);
  await until(() => stub.calls(PROCESSES) > before, "the call");
  clock.advance(20_000);
  assert.deepEqual(lost.map((cause) => cause.kind), ["wedged"]);
  stub.set("lost", 1);
  stub.release(PROCESSES);
  await until(() => stub.calls("nvmlShutdown") === 1, "the library being closed");
  stub.set("lost", 0);
  await healed(gpu, clock);
});

gpuTest("a stream over a lost card ends with the reason", async ({ gpu, stub }) => {
  const { readings, lost } = watch(gpu);
  await until(() => readings.length > 0, "a reading");
  stub.set("lost", 1);
  await until(() => lost.length === 1, "the end");
  assert.equal(lost[0]?.kind, "lost");
  assert.match(lost[0]?.message ?? "", /GPU_IS_LOST/);
});

gpuTest("an aborted question is refused with the caller's reason", async ({ gpu, stub }) => {
  await gpu.facts();
  stub.hold(MEMORY);
  const controller = new AbortController();
  const reading = gpu.read(controller.signal);
  controller.abort(new Error("enough"));
  await assert.rejects(reading, /enough/);
  await assert.rejects(gpu.read(controller.signal), /enough/);
  stub.release(MEMORY);
  assert.equal((await gpu.read()).temperatureC, 48);
});

gpuTest("closing gives the library back, refuses what waits, and works while the driver hangs", async (given) => {
  const { gpu, stub } = given;
  await gpu.read();
  const watcher = watch(gpu);
  await until(() => watcher.readings.length > 0, "a reading");
  await gpu.close();
  assert.equal(stub.calls("nvmlShutdown"), 1);
  assert.equal(watcher.lost[0]?.kind, "absent");
  assert.match((await refused(gpu.read())).message, /closed/);
  await withGpu({ source: { kind: "library", paths: [stub.path] } }, async (other) => {
    await other.gpu.facts();
    stub.hold(MEMORY);
    const reading = other.gpu.read();
    other.clock.advance(1_000);
    assert.equal((await refused(reading)).kind, "wedged");
    await other.gpu.close();
  });
  stub.release(MEMORY);
});

stubTest("a card that sleeps is not woken, and is seen awake at once", async (stub) => {
  const sysRoot = await Deno.makeTempDir();
  const device = `${sysRoot}/bus/pci/devices/0000:2b:00.0`;
  await Deno.mkdir(`${device}/power`, { recursive: true });
  const put = (file: string, text: string) => Deno.writeTextFile(`${device}/${file}`, `${text}\n`);
  await Promise.all([put("vendor", "0x10de"), put("class", "0x030000"), put("power/runtime_status", "suspended")]);
  await withGpu({ source: { kind: "library", paths: [stub.path] }, sysRoot }, async ({ gpu }) => {
    assert.equal((await refused(gpu.read())).kind, "asleep");
    assert.equal((await refused(gpu.facts())).kind, "asleep");
    assert.equal(stub.calls("nvmlInit_v2"), 0);
    await put("power/runtime_status", "active");
    assert.equal((await gpu.read()).temperatureC, 48);
    await put("power/runtime_status", "suspended");
    const calls = stub.calls(MEMORY);
    assert.equal((await refused(gpu.read())).kind, "asleep");
    assert.equal(stub.calls(MEMORY), calls);
    await put("power/runtime_status", "active");
    await gpu.read();
    assert.equal(stub.calls("nvmlInit_v2"), 1, "what was open stayed open");
  });
  await Deno.remove(sysRoot, { recursive: true });
});

Deno.test("a simulated card goes the same way", async () => {
  const table = new GpuTable();
  table.setMemory({ usedBytes: 5 * 2 ** 30 });
  await withGpu({ source: { kind: "simulated", table: table.buffer } }, async ({ gpu }) => {
    assert.equal((await gpu.facts()).uuid, table.card.uuid);
    assert.equal((await gpu.read()).memory?.usedBytes, 5 * 2 ** 30);
    const { readings, stop } = watch(gpu);
    await until(() => readings.length > 0, "a reading");
    table.setMemory({ usedBytes: 2 ** 30 });
    await until(() => readings.at(-1)?.usedBytes === 2 ** 30, "the release");
    stop();
  });
});

/** Runs with a Worker that only does what it is told here. */
async function withWorkers(onStart: (worker: EventTarget) => void, run: () => Promise<void>): Promise<void> {
  const Real = globalThis.Worker;
  class FakeWorker extends EventTarget {
    constructor() {
      super();
      onStart(this);
    }
    postMessage(): void {}
    terminate(): void {
      this.dispatchEvent(new Event("terminated"));
    }
  }
  Object.assign(globalThis, { Worker: FakeWorker });
  try {
    await run();
  } finally {
    Object.assign(globalThis, { Worker: Real });
  }
}

Deno.test("a Worker that fails is started again, after the back-off", async () => {
  let started = 0;
  const fail = (worker: EventTarget) => {
    started++;
    const error = new ErrorEvent("error", { message: "no such module", cancelable: true });
    queueMicrotask(() => worker.dispatchEvent(error));
  };
  await withWorkers(fail, () =>
    withGpu({ source: { kind: "library", paths: [] } }, async ({ gpu, clock }) => {
      const [reading, watcher] = [gpu.read(), watch(gpu)];
      assert.match((await refused(reading)).message, /Worker failed: no such module/);
      assert.equal(watcher.lost.length, 1);
      await refused(gpu.read());
      assert.equal(started, 1);
      clock.advance(1_000);
      await refused(gpu.read());
      assert.equal(started, 2);
    }));
});

Deno.test("a Worker that never starts is given up, and is no hanging driver", async () => {
  let terminated = 0;
  await withWorkers(
    (worker) => worker.addEventListener("terminated", () => terminated++),
    () =>
      withGpu({ source: { kind: "library", paths: [] } }, async ({ gpu, clock }) => {
        const [reading, watcher] = [gpu.read(), watch(gpu)];
        clock.advance(29_999);
        assert.equal(terminated, 0);
        clock.advance(1);
        const cause = await refused(reading);
        assert.deepEqual([cause.kind, terminated], ["lost", 1]);
        assert.match(cause.message, /has not started within 30 s/);
        assert.equal(watcher.lost[0], cause);
      }),
  );
});
