import assert from "node:assert/strict";
import { gpuTest, healed, refused, until, watch } from "./gpu_under_test.ts";

const MEMORY = "nvmlDeviceGetMemoryInfo_v2";
const PROCESSES = "nvmlDeviceGetComputeRunningProcesses_v3";

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
