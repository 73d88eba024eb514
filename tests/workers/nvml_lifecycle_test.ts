/** Libraries, cards and Workers that come, go, sleep and fail. */
import assert from "node:assert/strict";
import { GpuTable } from "../../lib/lab/gpu_table.ts";
import { stubTest } from "../stub/compile_stub.ts";
import { gpuTest, refused, until, watch, withGpu } from "./gpu_under_test.ts";

const MEMORY = "nvmlDeviceGetMemoryInfo_v2";

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
  const errors: ErrorEvent[] = [];
  const fail = (worker: EventTarget) => {
    started++;
    const error = new ErrorEvent("error", { message: "no such module", cancelable: true });
    errors.push(error);
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
      assert.ok(errors.every((error) => error.defaultPrevented), "an error left alone would end the service");
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

Deno.test("a Worker that fails while a call is overdue takes the call with it", async () => {
  const workers: EventTarget[] = [];
  await withWorkers(
    (worker) => workers.push(worker),
    () =>
      withGpu({ source: { kind: "library", paths: [] } }, async ({ gpu, clock }) => {
        const reading = gpu.read();
        workers[0]?.dispatchEvent(new MessageEvent("message", { data: { kind: "ready" } }));
        clock.advance(1_000);
        assert.equal((await refused(reading)).kind, "wedged");
        workers[0]?.dispatchEvent(new ErrorEvent("error", { message: "it is gone", cancelable: true }));
        assert.match((await refused(gpu.read())).message, /it is gone/);
        clock.advance(1_000);
        const again = gpu.read();
        assert.equal(workers.length, 2, "another is started: nothing hangs any more");
        clock.advance(30_000);
        assert.equal((await refused(again)).kind, "lost");
      }),
  );
});

stubTest("a library whose card is another one is closed again", (stub) =>
  withGpu(
    { source: { kind: "library", paths: [stub.path] }, choice: { uuid: "GPU-elsewhere", index: null } },
    async ({ gpu }) => {
      assert.equal((await refused(gpu.facts())).kind, "absent");
      assert.deepEqual([stub.calls("nvmlInit_v2"), stub.calls("nvmlShutdown")], [1, 1]);
    },
  ));
