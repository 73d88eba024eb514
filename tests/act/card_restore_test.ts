import assert from "node:assert/strict";
import { JOURNAL_FILE, openCardJournal, parseJournal } from "../../lib/act/card_journal.ts";
import { type JournalEntry, LEVERS } from "../../lib/model/card.ts";
import { STUB_STOCK } from "../stub/stub_card.ts";
import { BY_PROFILE, cardTest, UUID } from "./card_scene.ts";

const EVERYTHING = {
  power_limit_w: 370,
  lock_core_mhz: 2_400,
  lock_mem_mhz: 11_251,
  core_offset_mhz: 150,
  mem_offset_mhz: 500,
  fan: 60,
} as const;

const change = (lever: "fan" | "power_limit_w", to: number): JournalEntry => ({
  kind: "change",
  atMs: 1,
  gpu: UUID,
  lever,
  before: "stock",
  to,
  reason: BY_PROFILE,
});

cardTest("what an owner left behind is put back by the next, which is told who was in force", ({ card, open }) => {
  open().apply(EVERYTHING, BY_PROFILE);
  const report = open().restore("journal");
  assert.deepEqual(card.levers(), STUB_STOCK);
  assert.deepEqual(report.levers.map(({ lever }) => lever), [
    "fan",
    "mem_offset_mhz",
    "core_offset_mhz",
    "lock_mem_mhz",
    "lock_core_mhz",
    "power_limit_w",
  ], "pinned fans first: they are what harms an unwatched card");
  assert.ok(report.levers.every(({ verdict }) => verdict === "honoured"));
  assert.equal(report.uncleanEnd?.profile, "comfy");
});

cardTest("the unclean end is told until it is kept elsewhere, also after another restore", ({ dir, open }) => {
  open().apply(EVERYTHING, BY_PROFILE);
  // As ExecStopPost does, before the next start.
  open().restore("journal");
  const next = open();
  assert.deepEqual([next.restore("journal").levers, next.restore("journal").uncleanEnd?.profile], [[], "comfy"]);
  next.forgetUncleanEnd();
  assert.equal(open().restore("journal").uncleanEnd, null);
  assert.equal(openCardJournal(dir).isEmpty(), true);
});

cardTest("an owner's own restore at its end is no unclean end, and leaves an empty journal", ({ dir, open }) => {
  const writer = open();
  writer.apply(EVERYTHING, BY_PROFILE);
  assert.equal(writer.restore("journal").uncleanEnd, null);
  assert.equal(Deno.readTextFileSync(`${dir}/${JOURNAL_FILE}`), "");
});

cardTest("the journal's restore leaves alone what we never touched; restoring all does not", ({ card, open }) => {
  card.write({ memOffset: 300, memLockMin: 405, memLockMax: 5_001 });
  card.pinFan(1, 55);
  const owner = open();
  owner.apply({ power_limit_w: 370 }, BY_PROFILE);
  open().restore("journal");
  const others = { memOffset: 300, memLock: [405, 5_001], fans: [["auto", 0], ["manual", 55]] };
  assert.deepEqual(card.levers(), { ...STUB_STOCK, ...others });
  assert.deepEqual(["mem_offset_mhz", "lock_mem_mhz", "fan"].map((lever) => card.calls(lever as "fan")), [0, 0, 0]);
  const report = open().restore("all");
  assert.deepEqual(card.levers(), STUB_STOCK);
  assert.deepEqual(report.levers.map(({ lever }) => lever).sort(), [...LEVERS].sort());
});

cardTest("what can't be put back stays in the journal, and what can is", ({ card, open }) => {
  open().apply({ fan: 60, power_limit_w: 370 }, BY_PROFILE);
  card.refuse("power_limit_w", 4);
  const report = open({ marksUncleanEnd: false }).restore("journal");
  assert.deepEqual(report.levers.map(({ verdict }) => verdict), ["honoured", "not_permitted"]);
  assert.deepEqual(open().state().changed, ["power_limit_w"]);
  card.refuse("power_limit_w", 0);
  open().restore("journal");
  assert.deepEqual([card.levers(), open().state().changed], [STUB_STOCK, []]);
});

cardTest("one fan that refuses doesn't keep the others pinned", ({ card, stub, open }) => {
  open().apply({ fan: 60 }, BY_PROFILE);
  stub.answer("nvmlDeviceSetDefaultFanSpeed_v2", 999, 1);
  const [report] = open().restore("journal").levers;
  assert.deepEqual([report?.verdict, card.levers().fans], ["failed", [["manual", 60], ["auto", 0]]]);
  open().restore("journal");
  assert.deepEqual(card.levers(), STUB_STOCK);
});

cardTest("beside an owner that hangs, everything is put back; what it then changes is journalled again", (scene) => {
  const { card, open } = scene;
  const owner = open();
  owner.apply({ power_limit_w: 370, fan: 60 }, BY_PROFILE);
  const beside = open({ marksUncleanEnd: false });
  assert.equal(beside.restore("all").uncleanEnd, null);
  assert.deepEqual(card.levers(), STUB_STOCK);
  owner.apply({ power_limit_w: 350 }, BY_PROFILE);
  assert.deepEqual(open().state().changed, ["power_limit_w"]);
});

cardTest("a restore that slips in between the journal's line and the change doesn't hide the change", (scene) => {
  const { card, nvml, open } = scene;
  const beside = open({ marksUncleanEnd: false });
  const owner = open({
    nvml: {
      ...nvml,
      setPowerLimitW: (device, powerW) => {
        beside.restore("journal");
        nvml.setPowerLimitW(device, powerW);
      },
    },
  });
  owner.apply({ power_limit_w: 370 }, BY_PROFILE);
  assert.deepEqual([card.levers().powerW, open().state().changed], [370, ["power_limit_w"]]);
});

// 1 of 100 kills had left a card at 321 W: within what a read-back may differ by, and not stock.
cardTest("a lever that is only nearly at stock is put back too", ({ card, open }) => {
  open().apply({ power_limit_w: 321, core_offset_mhz: 2, mem_offset_mhz: -1 }, BY_PROFILE);
  assert.deepEqual([card.levers().powerW, card.levers().coreOffset, card.levers().memOffset], [321, 2, -1]);
  open().restore("journal");
  assert.deepEqual(card.levers(), STUB_STOCK);
});

cardTest("a lever that was changed and is then refused stays in the journal", ({ card, open }) => {
  const writer = open();
  writer.apply({ power_limit_w: 370 }, BY_PROFILE);
  card.refuse("power_limit_w", 4);
  writer.apply({ power_limit_w: 350 }, BY_PROFILE);
  assert.deepEqual(writer.state().changed, ["power_limit_w"]);
});

cardTest("an unreadable journal means that everything is put back", ({ card, dir, open }) => {
  card.write({ powerMw: 370_000 });
  card.pinFan(0, 60);
  Deno.mkdirSync(`${dir}/${JOURNAL_FILE}`);
  const report = open().restore("journal");
  assert.deepEqual(card.levers(), STUB_STOCK);
  assert.match(report.journalProblem ?? "", /Cannot bring the card's journal up to date/);
});

cardTest("a change that was journalled and not made is no harm", ({ card, dir, open }) => {
  openCardJournal(dir).note([change("fan", 60)]);
  const report = open().restore("journal");
  assert.deepEqual([card.levers(), report.levers.map(({ verdict }) => verdict)], [STUB_STOCK, ["honoured"]]);
});

Deno.test("a torn line is nothing, wherever it stands, and what is written after it is whole", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = `${dir}/${JOURNAL_FILE}`;
    openCardJournal(dir).note([change("fan", 60)]);
    const whole = Deno.readTextFileSync(path);
    for (let cut = 1; cut < whole.length; cut++) {
      Deno.writeTextFileSync(path, whole + whole.slice(0, cut).trimEnd());
      openCardJournal(dir).note([change("power_limit_w", 370)]);
      assert.deepEqual(openCardJournal(dir).changed(UUID), ["fan", "power_limit_w"], `cut at ${cut}`);
    }
    assert.deepEqual(parseJournal('{"kind":"change","gpu":"x","lever":"voltage","reason":{}}\n7\nnull\n'), []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a long journal is cut down as soon as nothing is changed, and never before", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const journal = openCardJournal(dir);
    journal.note([{ kind: "unclean_end", atMs: 1, gpu: UUID, profile: "comfy" }]);
    for (let round = 0; round < 60; round++) journal.note(Array.from({ length: 30 }, () => change("fan", 60)));
    const before = Deno.statSync(`${dir}/${JOURNAL_FILE}`).size;
    journal.compact();
    assert.equal(Deno.statSync(`${dir}/${JOURNAL_FILE}`).size, before);
    journal.note([{ kind: "restored", atMs: 2, gpu: UUID, lever: "fan" }]);
    journal.compact();
    assert.ok(Deno.statSync(`${dir}/${JOURNAL_FILE}`).size < 200);
    assert.deepEqual([journal.changed(UUID), journal.uncleanEnd(UUID)?.profile], [[], "comfy"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
