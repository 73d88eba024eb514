import assert from "node:assert/strict";
import { JOURNAL_FILE, openCardJournal } from "../../lib/act/card_journal.ts";
import type { LeverReport } from "../../lib/model/card.ts";
import { STUB_STOCK } from "../stub/stub_card.ts";
import { BY_PROFILE, cardTest, reading, UUID } from "./card_scene.ts";

const verdicts = (reports: readonly LeverReport[]) =>
  Object.fromEntries(reports.map(({ lever, verdict, readBack }) => [lever, [verdict, readBack]]));

const only = ([report, ...rest]: readonly LeverReport[]): LeverReport => {
  assert.ok(report !== undefined && rest.length === 0);
  return report;
};

const EVERYTHING = {
  power_limit_w: 370,
  lock_core_mhz: 2_405,
  lock_mem_mhz: 11_251,
  core_offset_mhz: 150,
  mem_offset_mhz: 500,
  fan: 60,
} as const;

cardTest("the limits are the card's own", ({ open }) => {
  const { levers, fanCount, uuid } = open().limits();
  assert.deepEqual([fanCount, uuid], [2, "GPU-stub-0"]);
  const range = (lever: keyof typeof levers) => {
    const limits = levers[lever];
    return limits.adjustable ? [limits.min, limits.max, limits.stock] : limits.evidence;
  };
  assert.deepEqual(range("power_limit_w"), [150, 400, 320]);
  assert.deepEqual(range("lock_core_mhz"), [210, 3_105, null]);
  assert.deepEqual(range("lock_mem_mhz"), [405, 11_501, null]);
  assert.deepEqual(range("core_offset_mhz"), [-1_000, 1_000, 0]);
  assert.deepEqual(range("mem_offset_mhz"), [-2_000, 6_000, 0]);
  assert.deepEqual(range("fan"), [30, 100, null]);
});

cardTest("a card without fans and with a range of 0 to 0 says so, and no setter is called", ({ stub, card, open }) => {
  stub.set("fans", 0);
  card.write({ coreOffsetMin: 0, coreOffsetMax: 0 });
  const reports = open().apply({ fan: 50, core_offset_mhz: 100 }, BY_PROFILE);
  assert.deepEqual(verdicts(reports), { fan: ["not_supported", null], core_offset_mhz: ["not_supported", null] });
  assert.deepEqual(reports.map(({ evidence }) => evidence), ["not adjustable: the card's range is 0 to 0", "no fan"]);
  assert.deepEqual([card.calls("fan"), card.calls("core_offset_mhz")], [0, 0]);
  assert.equal(open().state().values.fan, null);
});

cardTest("every lever is set, read back and reported", ({ card, open }) => {
  const writer = open();
  assert.deepEqual(verdicts(writer.apply(EVERYTHING, BY_PROFILE)), {
    power_limit_w: ["honoured", 370],
    lock_core_mhz: ["unverified", null],
    lock_mem_mhz: ["unverified", null],
    core_offset_mhz: ["honoured", 150],
    mem_offset_mhz: ["honoured", 500],
    fan: ["honoured", 60],
  });
  assert.deepEqual(card.levers(), {
    powerW: 370,
    // The card's clocks go in steps: the nearest not above.
    coreLock: [210, 2_400],
    memLock: [405, 11_251],
    coreOffset: 150,
    memOffset: 500,
    fans: [["manual", 60], ["manual", 60]],
  });
  assert.deepEqual(writer.state().values, { ...EVERYTHING, lock_core_mhz: 2_400 });
  assert.deepEqual([...writer.state().changed].sort(), Object.keys(EVERYTHING).sort());
});

cardTest("what is outside the card's range is brought inside", ({ card, open }) => {
  const reports = open().apply({ power_limit_w: 900, fan: 5, core_offset_mhz: -9_999 }, BY_PROFILE);
  assert.ok(reports.every(({ verdict }) => verdict === "honoured"));
  assert.deepEqual([card.levers().powerW, card.levers().coreOffset, card.levers().fans[0]], [400, -1_000, [
    "manual",
    30,
  ]]);
});

cardTest("a lever that stands there already is left alone", ({ card, dir, open }) => {
  const reports = open().apply({ power_limit_w: 320, core_offset_mhz: 0, fan: "stock" }, BY_PROFILE);
  assert.ok(reports.every(({ verdict }) => verdict === "honoured"));
  assert.deepEqual(["power_limit_w", "core_offset_mhz", "fan"].map((lever) => card.calls(lever as "fan")), [0, 0, 0]);
  assert.throws(() => Deno.statSync(`${dir}/${JOURNAL_FILE}`), Deno.errors.NotFound);
});

cardTest("accepted and ignored is called ignored, with what the card still reads", ({ card, open }) => {
  card.write({ memOffset: 250 });
  card.ignore("mem_offset_mhz");
  const report = only(open().apply({ mem_offset_mhz: 0 }, BY_PROFILE));
  assert.deepEqual([report.verdict, report.readBack], ["ignored", 250]);
  assert.match(report.evidence, /accepted stock and the card still reads 250 MHz/);
});

cardTest("two megahertz beside is honoured, and so is the card's own step; three beside and still is not", (scene) => {
  const { card, open } = scene;
  card.write({ memSnap: 100 });
  const snapped = only(open().apply({ mem_offset_mhz: 555 }, BY_PROFILE));
  assert.deepEqual([snapped.verdict, snapped.readBack], ["honoured", 500]);
  assert.match(snapped.evidence, /Asked for 555 MHz, the card took 500 MHz/);
  card.write({ coreOffset: 98 });
  assert.equal(only(open().apply({ core_offset_mhz: 100 }, BY_PROFILE)).verdict, "honoured");
  card.write({ coreOffset: 97 });
  card.ignore("core_offset_mhz");
  assert.equal(only(open().apply({ core_offset_mhz: 100 }, BY_PROFILE)).verdict, "ignored");
});

cardTest("a refused lever names the privilege it needs, and the others are set all the same", ({ card, open }) => {
  card.refuse("power_limit_w", 4);
  card.refuse("fan", 3);
  const writer = open();
  const reports = writer.apply({ power_limit_w: 370, fan: 60, core_offset_mhz: 50 }, BY_PROFILE);
  assert.deepEqual(verdicts(reports), {
    power_limit_w: ["not_permitted", 320],
    core_offset_mhz: ["honoured", 50],
    fan: ["not_supported", "stock"],
  });
  const [power] = reports;
  assert.match(
    power?.evidence ?? "",
    /Cannot set power limit to 370 W: nvmlDeviceSetPowerManagementLimit returned NO_PERM/,
  );
  assert.match(power?.remedy ?? "", /CAP_SYS_ADMIN/);
  // What was refused outright has not moved, so there is nothing to put back.
  assert.deepEqual(writer.state().changed, ["core_offset_mhz"]);
  assert.equal(writer.limits().levers.fan.adjustable, false, "a readable range doesn't mean a settable lever");
});

cardTest("a fan's own minimum is taken for what it is", ({ card, open }) => {
  card.fanMinimum(0, 45);
  card.fanMinimum(1, 45);
  const report = only(open().apply({ fan: 35 }, BY_PROFILE));
  assert.deepEqual([report.verdict, report.readBack], ["honoured", 45]);
});

cardTest("fans that stay where they were are ignored, whoever has them", ({ card, open }) => {
  card.ignore("fan");
  assert.deepEqual(verdicts(open().apply({ fan: 60 }, BY_PROFILE)), { fan: ["ignored", "stock"] });
  card.pinFan(0, 58);
  card.pinFan(1, 58);
  assert.deepEqual(verdicts(open().apply({ fan: 60 }, BY_PROFILE)), { fan: ["ignored", 58] });
});

cardTest("a lock is judged by the clock under load", ({ open }) => {
  const writer = open();
  writer.apply({ lock_core_mhz: 2_400, lock_mem_mhz: 5_001 }, BY_PROFILE);
  const verdict = (lever: "lock_core_mhz" | "lock_mem_mhz") => writer.state().reports[lever]?.verdict;
  writer.observe(reading({ gpuUtilPct: 3 }));
  writer.observe(reading());
  writer.observe(reading());
  assert.deepEqual([verdict("lock_core_mhz"), verdict("lock_mem_mhz")], ["unverified", "unverified"]);
  writer.observe(reading());
  // At 2,400 as locked; the memory runs on at 11,251.
  assert.deepEqual([verdict("lock_core_mhz"), verdict("lock_mem_mhz")], ["honoured", "ignored"]);
  // Wanted again, it keeps what was found out.
  writer.apply({ lock_core_mhz: 2_400 }, BY_PROFILE);
  assert.equal(verdict("lock_core_mhz"), "honoured");
});

cardTest("a clock below its lock proves nothing", ({ open }) => {
  const writer = open();
  writer.apply({ lock_core_mhz: 3_000 }, BY_PROFILE);
  for (let second = 0; second < 10; second++) writer.observe(reading());
  assert.equal(writer.state().reports.lock_core_mhz?.verdict, "unverified");
});

cardTest("a temperature that can't be read twice running gives pinned fans back", ({ card, open }) => {
  const writer = open();
  writer.apply({ fan: 40 }, BY_PROFILE);
  assert.deepEqual(writer.observe(reading({ temperatureC: null })), []);
  const [event] = writer.observe(reading({ temperatureC: null }));
  assert.ok(event?.kind === "fans_released");
  assert.match(event.reason, /could not be read 2 times/);
  assert.deepEqual(card.levers(), STUB_STOCK);
  assert.deepEqual(writer.observe(reading({ temperatureC: null })), [], "once");
});

cardTest("a temperature that stands still while power swings gives pinned fans back", ({ card, open }) => {
  const writer = open();
  writer.apply({ fan: 40 }, BY_PROFILE);
  const events = Array.from({ length: 60 }, (_, second) => writer.observe(reading({ powerW: second < 30 ? 40 : 300 })));
  assert.deepEqual(events.slice(0, 59).flat(), []);
  assert.ok(events[59]?.[0]?.kind === "fans_released");
  assert.deepEqual(card.levers(), STUB_STOCK);
});

cardTest("fans that another tool pinned are not ours to give back; a steady load is no frozen sensor", (scene) => {
  const { card, open } = scene;
  const writer = open();
  card.pinFan(0, 50);
  for (let second = 0; second < 3; second++) writer.observe(reading({ temperatureC: null }));
  assert.deepEqual(card.levers().fans[0], ["manual", 50]);
  writer.apply({ fan: 40 }, BY_PROFILE);
  for (let second = 0; second < 200; second++) {
    assert.deepEqual(writer.observe(reading({ powerW: 200 + second % 30 })), []);
  }
});

cardTest("a driver that isn't ready is asked again until it is", ({ card, clock, open }) => {
  card.refuse("fan", 27);
  const writer = open();
  const report = only(writer.apply({ fan: 50 }, BY_PROFILE));
  assert.equal(report.verdict, "failed");
  assert.deepEqual(writer.observe(reading()), []);
  clock.nowMs += 5_000;
  assert.equal(writer.observe(reading()).length, 1, "tried, and failed again");
  card.refuse("fan", 0);
  clock.nowMs += 5_000;
  const [event] = writer.observe(reading());
  assert.ok(event?.kind === "retried" && event.report.verdict === "honoured");
  clock.nowMs += 50_000;
  assert.deepEqual(writer.observe(reading()), []);
  assert.deepEqual(card.levers().fans, [["manual", 50], ["manual", 50]]);
});

cardTest("the journal names every change, on disk, before its first setter is called", ({ dir, nvml, open }) => {
  const seen: (readonly string[])[] = [];
  const look = () => seen.push(openCardJournal(dir).changed(UUID));
  open({
    nvml: {
      ...nvml,
      setPowerLimitW: (device, powerW) => (look(), nvml.setPowerLimitW(device, powerW)),
      setFanPct: (device, target) => (look(), nvml.setFanPct(device, target)),
      lockClocks: (device, lock) => (look(), nvml.lockClocks(device, lock)),
      setClockOffset: (device, offset) => (look(), nvml.setClockOffset(device, offset)),
    },
  }).apply(EVERYTHING, BY_PROFILE);
  assert.equal(seen.length, 7, "both fans, and every other lever once");
  for (const changed of seen) assert.deepEqual([...changed].sort(), Object.keys(EVERYTHING).sort());
});

cardTest("without a journal nothing is changed", ({ card, dir, open }) => {
  // A folder in the journal's place can't be written, whoever runs this.
  Deno.mkdirSync(`${dir}/${JOURNAL_FILE}`);
  const report = only(open().apply({ power_limit_w: 370 }, BY_PROFILE));
  assert.equal(report.verdict, "failed");
  assert.match(report.evidence, /Nothing was changed: the card's journal can't be written/);
  assert.deepEqual([card.levers(), card.calls("power_limit_w")], [STUB_STOCK, 0]);
});
