/** What every Gpu must do, on each one there is: the Worker over a library, the Worker over the lab, the lab alone. */
import assert from "node:assert/strict";
import { GpuTable } from "../../lib/lab/gpu_table.ts";
import { labGpu } from "../../lib/lab/lab_gpu.ts";
import { type Gpu, GpuUnavailable, type Log } from "../../lib/model/ports.ts";
import type { BarrierReading } from "../../lib/model/sample.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectGpu } from "../../lib/workers/nvml_client.ts";
import { stubTest } from "../stub/compile_stub.ts";

const clock = systemClock();
const log: Log = { debug() {}, info() {}, warn() {}, error() {} };
const choice = { uuid: null, index: null };

/** A card that holds one process, and can be lost. */
interface Subject {
  readonly gpu: Gpu;
  readonly process: { readonly pid: number; readonly usedBytes: number };
  readonly lose: () => void;
}

const PROCESS = { pid: 4711, usedBytes: 5 * 2 ** 30 };

function table(): GpuTable {
  const card = new GpuTable();
  const row = { pid: PROCESS.pid, bytes: PROCESS.usedBytes, smPct: 0, isCompute: true, isGraphics: false };
  card.setMemory({ usedBytes: PROCESS.usedBytes, processes: [row] });
  return card;
}

async function contract({ gpu, process, lose }: Subject): Promise<void> {
  // A stream in this thread is paced by a timer that lets the process end.
  const isRunning = clock.after(60_000, () => {});
  try {
    assert.deepEqual(await gpu.facts(), await gpu.facts());
    const expected = [{ ...process, kinds: ["compute"] }];
    assert.deepEqual((await gpu.read()).processes, expected);

    const readings = await new Promise<readonly BarrierReading[]>((resolve, reject) => {
      const seen: BarrierReading[] = [];
      const timer = gpu.watch((reading) => {
        if (seen.push(reading) < 5) return;
        timer.stop();
        timer.stop();
        resolve(seen);
      }, reject);
    });
    assert.deepEqual(readings[0]?.processes, expected);
    assert.ok(readings.every((reading, i) => i === 0 || reading.atMs > (readings[i - 1]?.atMs ?? 0)));
    // Whatever was under way when it stopped is behind this answer.
    await gpu.read();
    assert.equal(readings.length, 5, "nothing comes after stop");

    const lost = new Promise<GpuUnavailable>((resolve) => gpu.watch(() => {}, resolve));
    await gpu.read();
    lose();
    assert.equal((await lost).kind, "lost");
    await assert.rejects(gpu.read(), (error) => error instanceof GpuUnavailable && error.remedy !== "");
  } finally {
    isRunning.stop();
    await gpu.close();
    await gpu.close();
  }
  await assert.rejects(gpu.facts(), GpuUnavailable);
}

stubTest("Gpu contract: the Worker over the driver's library", async (stub) => {
  stub.processes("compute", [[PROCESS.pid, PROCESS.usedBytes]]);
  const gpu = connectGpu({
    source: { kind: "library", paths: [stub.path] },
    choice,
    clock,
    log,
    sysRoot: "/nonexistent",
  });
  await contract({ gpu, process: PROCESS, lose: () => stub.set("lost", 1) });
});

Deno.test("Gpu contract: the Worker over the lab's card", async () => {
  const card = table();
  const gpu = connectGpu({ source: { kind: "simulated", table: card.buffer }, choice, clock, log });
  await contract({ gpu, process: PROCESS, lose: () => card.failAll(15) });
});

Deno.test("Gpu contract: the lab's card without a Worker", async () => {
  const card = table();
  const gpu = labGpu({ table: card, clock, reader: (nvml) => openGpuReader(nvml, { clock, choice }) });
  await contract({ gpu, process: PROCESS, lose: () => card.failAll(15) });
});
