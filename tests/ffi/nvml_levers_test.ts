import assert from "node:assert/strict";
import { NvmlError } from "../../ffi/nvml_errors.ts";
import { openNvml } from "../../ffi/nvml.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";
import { STUB_STOCK, StubCard } from "../stub/stub_card.ts";

const readText = () => "";
const openToSet = (stub: Stub) => openNvml({ paths: [stub.path], readText, allowsChanges: true });

function codeOf(run: () => unknown): number {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof NvmlError, String(error));
    return error.code;
  }
  return 0;
}

stubTest("every lever moves the card, and its way back undoes it", (stub) => {
  const card = new StubCard(stub.path);
  using nvml = openToSet(stub);
  const gpu = nvml.deviceByIndex(0);
  nvml.setPowerLimitW(gpu, 370);
  nvml.lockClocks(gpu, { domain: "graphics", minMhz: 210, maxMhz: 2_400 });
  nvml.lockClocks(gpu, { domain: "memory", minMhz: 405, maxMhz: 11_251 });
  nvml.setClockOffset(gpu, { domain: "graphics", mhz: -150 });
  nvml.setClockOffset(gpu, { domain: "memory", mhz: 500 });
  nvml.setFanPct(gpu, { fan: 0, pct: 60 });
  nvml.setFanPct(gpu, { fan: 1, pct: 61 });
  assert.deepEqual(card.levers(), {
    powerW: 370,
    coreLock: [210, 2_400],
    memLock: [405, 11_251],
    coreOffset: -150,
    memOffset: 500,
    fans: [["manual", 60], ["manual", 61]],
  });
  assert.deepEqual([nvml.powerLimitW(gpu), nvml.enforcedPowerLimitW(gpu)], [370, 370]);
  assert.deepEqual(nvml.clockOffset(gpu, "graphics"), { mhz: -150, minMhz: -1_000, maxMhz: 1_000 });
  assert.deepEqual(nvml.clockOffset(gpu, "memory"), { mhz: 500, minMhz: -2_000, maxMhz: 6_000 });
  assert.deepEqual([nvml.fanPolicy(gpu, 1), nvml.fanTargetPct(gpu, 1)], ["manual", 61]);

  nvml.setPowerLimitW(gpu, 320);
  nvml.unlockClocks(gpu, "graphics");
  nvml.unlockClocks(gpu, "memory");
  nvml.setClockOffset(gpu, { domain: "graphics", mhz: 0 });
  nvml.setClockOffset(gpu, { domain: "memory", mhz: 0 });
  for (const fan of [0, 1]) nvml.setFanAuto(gpu, fan);
  assert.deepEqual(card.levers(), STUB_STOCK);
});

stubTest("a library opened for reading reaches no setter", (stub) => {
  const card = new StubCard(stub.path);
  using nvml = openNvml({ paths: [stub.path], readText });
  const gpu = nvml.deviceByIndex(0);
  const setters = [
    () => nvml.setPowerLimitW(gpu, 370),
    () => nvml.lockClocks(gpu, { domain: "graphics", minMhz: 210, maxMhz: 2_400 }),
    () => nvml.unlockClocks(gpu, "memory"),
    () => nvml.setClockOffset(gpu, { domain: "graphics", mhz: 10 }),
    () => nvml.setFanPct(gpu, { fan: 0, pct: 60 }),
    () => nvml.setFanAuto(gpu, 0),
  ];
  for (const setter of setters) {
    assert.throws(setter, /was opened for reading/);
  }
  const levers = [
    "power_limit_w",
    "lock_core_mhz",
    "lock_mem_mhz",
    "core_offset_mhz",
    "mem_offset_mhz",
    "fan",
  ] as const;
  assert.deepEqual(levers.map((lever) => card.calls(lever)), [0, 0, 0, 0, 0, 0]);
});

stubTest("refusals carry the driver's code, and out of range is one", (stub) => {
  const card = new StubCard(stub.path);
  using nvml = openToSet(stub);
  const gpu = nvml.deviceByIndex(0);
  assert.equal(codeOf(() => nvml.setPowerLimitW(gpu, 401)), 2);
  assert.equal(codeOf(() => nvml.setClockOffset(gpu, { domain: "graphics", mhz: 1_001 })), 2);
  card.refuse("power_limit_w", 4);
  card.refuse("core_offset_mhz", 3);
  card.refuse("fan", 27);
  assert.equal(codeOf(() => nvml.setPowerLimitW(gpu, 300)), 4);
  assert.equal(codeOf(() => nvml.setClockOffset(gpu, { domain: "graphics", mhz: 10 })), 3);
  assert.equal(codeOf(() => nvml.setFanAuto(gpu, 0)), 27);
  assert.deepEqual(card.levers(), STUB_STOCK);
});

stubTest("an older driver's offsets go by the calls it has", (stub) => {
  stub.versions("535.183.01", "12.535.183.01");
  const card = new StubCard(stub.path);
  using nvml = openToSet(stub);
  const gpu = nvml.deviceByIndex(0);
  nvml.setClockOffset(gpu, { domain: "memory", mhz: 400 });
  assert.equal(card.levers().memOffset, 400);
  assert.deepEqual(nvml.clockOffset(gpu, "memory"), { mhz: 400, minMhz: -2_000, maxMhz: 6_000 });
}, "old");

stubTest("clock lists come ascending, however long they are", (stub) => {
  using nvml = openToSet(stub);
  const gpu = nvml.deviceByIndex(0);
  assert.deepEqual(nvml.supportedClocksMhz(gpu, "memory"), [405, 5_001, 11_251, 11_501]);
  const graphics = nvml.supportedClocksMhz(gpu, "graphics");
  assert.deepEqual([graphics.length, graphics[0], graphics.at(-1)], [194, 210, 3_105]);
  // More than the first guess has room for.
  stub.set("clocks.graphics", 300);
  assert.equal(nvml.supportedClocksMhz(gpu, "graphics").length, 300);
});

stubTest("faults are heard from the moment of asking, each once", (stub) => {
  const card = new StubCard(stub.path);
  using nvml = openToSet(stub);
  const gpu = nvml.deviceByIndex(0);
  card.xid(13);
  const watch = nvml.watchXid(gpu);
  assert.deepEqual(watch.poll(), []);
  card.xid(79);
  card.xid(48);
  assert.deepEqual([watch.poll(), watch.poll()], [[79, 48], []]);
  watch.close();
  card.xid(31);
  assert.deepEqual(watch.poll(), []);
});

stubTest("where no events are told, that is said", (stub) => {
  using nvml = openToSet(stub);
  assert.equal(codeOf(() => nvml.watchXid(nvml.deviceByIndex(0))), 3);
  assert.equal(stub.calls("nvmlEventSetFree"), 1, "the set goes back");
});
