import assert from "node:assert/strict";
import { GpuTable, openGpuTable } from "../../lib/lab/gpu_table.ts";

const GPU = 1n;
const STOCK = {
  powerLimitW: 320,
  lockCoreMhz: null,
  lockMemMhz: null,
  coreOffsetMhz: 0,
  memOffsetMhz: 0,
  fanPct: null,
};

Deno.test("what one thread's library sets, the table and every other library show", () => {
  const table = new GpuTable();
  assert.deepEqual(table.levers, STOCK);
  const nvml = openGpuTable(table.buffer, { blocks: false });
  nvml.setPowerLimitW(GPU, 370);
  nvml.lockClocks(GPU, { domain: "graphics", minMhz: 210, maxMhz: 2_400 });
  nvml.lockClocks(GPU, { domain: "memory", minMhz: 405, maxMhz: 5_001 });
  nvml.setClockOffset(GPU, { domain: "graphics", mhz: -100 });
  nvml.setClockOffset(GPU, { domain: "memory", mhz: 800 });
  for (const fan of [0, 1]) nvml.setFanPct(GPU, { fan, pct: 20 });
  const set = { powerLimitW: 370, lockCoreMhz: 2_400, lockMemMhz: 5_001, coreOffsetMhz: -100, memOffsetMhz: 800 };
  // 20 % is below what the fans do: they are raised to their minimum.
  assert.deepEqual(table.levers, { ...set, fanPct: 30 });
  const other = table.open();
  assert.deepEqual([other.powerLimitW(GPU), other.enforcedPowerLimitW(GPU)], [370, 370]);
  assert.deepEqual([other.fanPolicy(GPU, 1), other.fanTargetPct(GPU, 1)], ["manual", 30]);
  // The owner's sensors go on; they don't undo what was set.
  table.setSensors({ fanPct: 55, powerW: 100 });
  assert.deepEqual([other.fanTargetPct(GPU, 1), other.fanPct(GPU, 1)], [30, 55]);
  nvml.setPowerLimitW(GPU, 320);
  nvml.unlockClocks(GPU, "graphics");
  nvml.unlockClocks(GPU, "memory");
  nvml.setClockOffset(GPU, { domain: "graphics", mhz: 0 });
  nvml.setClockOffset(GPU, { domain: "memory", mhz: 0 });
  for (const fan of [0, 1]) nvml.setFanAuto(GPU, fan);
  assert.deepEqual(table.levers, STOCK);
});

Deno.test("a setter refuses what the card doesn't take, and can be told to refuse or to do nothing", () => {
  const table = new GpuTable();
  const nvml = table.open();
  const code = (code: number) => (error: unknown) => error instanceof Error && "code" in error && error.code === code;
  assert.throws(() => nvml.setPowerLimitW(GPU, 371), code(2));
  assert.throws(() => nvml.setClockOffset(GPU, { domain: "graphics", mhz: 1_001 }), code(2));
  assert.throws(() => nvml.setFanPct(GPU, { fan: 2, pct: 50 }), code(2));
  table.fail("setPowerLimitW", 4);
  assert.throws(() => nvml.setPowerLimitW(GPU, 300), code(4));
  table.ignore("setClockOffset", true);
  nvml.setClockOffset(GPU, { domain: "graphics", mhz: 100 });
  assert.deepEqual(table.levers, STOCK);
});

Deno.test("faults reach who listens, once", () => {
  const table = new GpuTable();
  table.xid(13);
  const watch = table.open().watchXid(GPU);
  assert.deepEqual(watch.poll(), []);
  table.xid(79);
  assert.deepEqual([watch.poll(), watch.poll()], [[79], []]);
});
