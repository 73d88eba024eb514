import assert from "node:assert/strict";
import { GpuTable } from "../../lib/lab/gpu_table.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { type CardReader, labGpu } from "../../lib/lab/lab_gpu.ts";
import { Vram } from "../../lib/lab/vram.ts";
import type { Nvml } from "../../ffi/nvml.ts";
import type { BarrierReading } from "../../lib/model/sample.ts";
import { GpuUnavailable } from "../../lib/model/ports.ts";

function scene() {
  const clock = new LabClock();
  const table = new GpuTable();
  const vram = new Vram({ table, clock });
  /** As little of lib/sample's reader as these tests need. */
  const reader = (nvml: Nvml): CardReader => ({
    facts: () => {
      throw new Error("not needed");
    },
    read: () => {
      throw new Error("not needed");
    },
    readBarrier: (): BarrierReading => {
      const { usedBytes, freeBytes } = nvml.memory(1n);
      const processes = nvml.processes(1n, "compute").map((row) => ({ ...row, kinds: ["compute" as const] }));
      return { atMs: clock.monotonicMs(), tookMs: 0, usedBytes, freeBytes, processes, smPctByPid: null };
    },
  });
  return { clock, table, vram, gpu: labGpu({ table, clock, reader }), nvml: table.open() };
}

Deno.test("used is always the processes and the unaccounted share", () => {
  const { table, vram, nvml } = scene();
  vram.enter(1);
  vram.enter(2, "graphics");
  assert.equal(vram.allocate(1, 5e9), true);
  assert.equal(vram.allocate(2, 4e6), true);
  assert.equal(nvml.memory(1n).usedBytes, 5e9 + 4e6 + table.card.unaccountedBytes);
  assert.equal(vram.allocate(1, vram.freeBytes + 1), false, "no room is no change");
  vram.free(1, 2e9);
  vram.free(1, 9e9);
  assert.equal(vram.heldBytes(1), 0);
  vram.exit(2);
  assert.equal(nvml.memory(1n).usedBytes, table.card.unaccountedBytes);
  assert.deepEqual(vram.log.map(({ kind, bytes }) => [kind, bytes]), [
    ["allocated", 5e9],
    ["allocated", 4e6],
    ["freed", 2e9],
    ["freed", 3e9],
    ["exited", 4e6],
  ]);
});

Deno.test("the truth log knows when memory came and went", async () => {
  const { clock, vram } = scene();
  const startMs = clock.monotonicMs();
  vram.enter(1);
  await clock.advance(10);
  vram.allocate(1, 100);
  assert.equal(vram.releasedAtMs(1), null);
  await clock.advance(10);
  vram.exit(1);
  assert.equal(vram.grewAtMs(1, startMs), startMs + 10);
  assert.equal(vram.grewAtMs(1, startMs + 11), null);
  assert.equal(vram.releasedAtMs(1), startMs + 20);
});

Deno.test("with a skew, list and device are two halves of the truth, and only two readings agree", async () => {
  const { clock, vram, nvml, table } = scene();
  vram.skewMs = 5;
  const unaccounted = table.card.unaccountedBytes;
  const both = () => [nvml.memory(1n).usedBytes - unaccounted, nvml.processes(1n, "compute")[0]?.usedBytes ?? 0];
  vram.enter(1);
  vram.allocate(1, 1_000);
  assert.deepEqual(both(), [0, 1_000]);
  await clock.advance(5);
  assert.deepEqual(both(), [1_000, 1_000]);
  vram.exit(1);
  assert.deepEqual(both(), [0, 1_000]);
  await clock.advance(5);
  assert.deepEqual(both(), [0, 0]);
});

Deno.test("watch gives a reading every lab millisecond, none while the driver holds the call, and ends with its cause", async () => {
  const { clock, table, gpu } = scene();
  const startMs = clock.monotonicMs();
  const seen: number[] = [];
  const lost: GpuUnavailable[] = [];
  gpu.watch((reading) => seen.push(reading.atMs - startMs), (cause) => lost.push(cause));
  await clock.advance(3);
  table.hold("memory", true);
  await clock.advance(3);
  table.hold("memory", false);
  await clock.advance(2);
  assert.deepEqual(seen, [1, 2, 3, 7, 8]);
  table.failAll(15);
  await clock.advance(3);
  assert.equal(seen.length, 5);
  assert.deepEqual(lost.map((cause) => cause.kind), ["lost"]);
  await gpu.close();
});

Deno.test("a card that stays away is wedged after the deadline, and back when it answers", async () => {
  const { clock, table, gpu } = scene();
  table.wedge(true);
  const read = gpu.read();
  await assert.rejects(clock.until(read, { limitMs: 2_000 }), { name: "GpuUnavailable", kind: "wedged" });
  const second = gpu.read();
  await clock.advance(100);
  table.wedge(false);
  // The reader of this scene reads nothing: that it was asked is the point.
  await assert.rejects(clock.until(second, { limitMs: 10 }), /not needed/);
  await gpu.close();
  await assert.rejects(gpu.read(), /closed/);
});
