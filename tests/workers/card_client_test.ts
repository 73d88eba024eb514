import assert from "node:assert/strict";
import { openCardJournal } from "../../lib/act/card_journal.ts";
import { GpuTable } from "../../lib/lab/gpu_table.ts";
import type { CardEvent, CardReason } from "../../lib/model/card.ts";
import type { Log } from "../../lib/model/ports.ts";
import { connectGpu, type GpuConnection } from "../../lib/workers/nvml_client.ts";
import type { GpuSource, LeverAccess } from "../../lib/workers/nvml_protocol.ts";
import { stubTest } from "../stub/compile_stub.ts";
import { STUB_STOCK, StubCard } from "../stub/stub_card.ts";
import { healed, refused, until } from "./gpu_under_test.ts";
import { ManualClock } from "./manual_clock.ts";

const REASON: CardReason = { by: "operator", profile: "comfy", text: "by hand" };
const QUIET: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

interface Given {
  readonly gpu: GpuConnection;
  readonly clock: ManualClock;
  readonly events: CardEvent[];
  readonly dir: string;
}

async function withCard(
  source: GpuSource,
  run: (given: Given) => Promise<void>,
  options: Partial<LeverAccess> & { readonly before?: (dir: string) => void } = {},
): Promise<void> {
  const { before, ...access } = options;
  const dir = await Deno.makeTempDir({ prefix: "card-client-" });
  before?.(dir);
  const clock = new ManualClock();
  const levers = { stateDir: dir, mayChange: true, marksUncleanEnd: true, ...access };
  const choice = { uuid: null, index: null };
  const gpu = connectGpu({ source, choice, clock, log: QUIET, sysRoot: "/nonexistent", levers });
  const events: CardEvent[] = [];
  gpu.card.watchEvents((event) => events.push(event));
  try {
    await run({ gpu, clock, events, dir });
  } finally {
    await gpu.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const library = (path: string): GpuSource => ({ kind: "library", paths: [path] });

Deno.test("the levers of a simulated card are set and read back through the Worker", async () => {
  const table = new GpuTable();
  await withCard({ kind: "simulated", table: table.buffer }, async ({ gpu }) => {
    const { levers } = await gpu.card.limits();
    assert.ok(levers.fan.adjustable && levers.power_limit_w.adjustable);
    const reports = await gpu.card.apply({ power_limit_w: 370, fan: 70 }, REASON);
    assert.deepEqual(reports.map(({ lever, verdict, readBack }) => [lever, verdict, readBack]), [
      ["power_limit_w", "honoured", 370],
      ["fan", "honoured", 70],
    ]);
    assert.deepEqual([table.levers.powerLimitW, table.levers.fanPct], [370, 70]);
    const { values, changed, xidSource } = await gpu.card.state();
    assert.deepEqual([values.power_limit_w, values.fan, changed.length, xidSource], [370, 70, 2, "nvml"]);
    await gpu.card.restore("journal");
    assert.deepEqual([table.levers.powerLimitW, table.levers.fanPct], [320, null]);
  });
});

stubTest("what an earlier owner left is put back before the card is first read, and told", async (stub) => {
  const card = new StubCard(stub.path);
  card.write({ powerMw: 370_000 });
  const before = (dir: string) =>
    openCardJournal(dir).note([{
      kind: "change",
      atMs: 1,
      gpu: "GPU-stub-0",
      lever: "power_limit_w",
      before: "stock",
      to: 370,
      reason: REASON,
    }]);
  await withCard(library(stub.path), async ({ gpu }) => {
    assert.equal((await gpu.read()).powerLimitW, 320);
    const { uncleanEnd, levers } = await gpu.card.restore("journal");
    assert.deepEqual([uncleanEnd?.profile, levers], ["comfy", []]);
    await gpu.card.forgetUncleanEnd();
    assert.equal((await gpu.card.restore("journal")).uncleanEnd, null);
  }, { before });
});

stubTest("who may only read changes nothing, not even the journal", async (stub) => {
  const card = new StubCard(stub.path);
  await withCard(library(stub.path), async ({ gpu, dir }) => {
    assert.equal((await refused(gpu.card.apply({ power_limit_w: 370 }, REASON))).kind, "refused");
    assert.equal((await refused(gpu.card.restore("all"))).kind, "refused");
    // Reading goes on.
    assert.equal((await gpu.card.state()).values.power_limit_w, 320);
    assert.equal((await gpu.read()).powerLimitW, 320);
    assert.deepEqual([...Deno.readDirSync(dir)], []);
  }, { mayChange: false });
  assert.deepEqual(card.levers(), STUB_STOCK);
});

stubTest(
  "faults are told with the reading after them; a card that was lost and came back is told too",
  async (stub) => {
    const card = new StubCard(stub.path);
    await withCard(library(stub.path), async ({ gpu, clock, events }) => {
      await gpu.read();
      card.xid(79);
      await gpu.read();
      await until(() => events.length === 1, "the fault");
      assert.ok(events[0]?.kind === "xid" && events[0].code === 79 && events[0].source === "nvml");
      await gpu.card.apply({ power_limit_w: 370 }, REASON);
      stub.set("lost", 1);
      assert.equal((await refused(gpu.read())).kind, "lost");
      // The driver comes back with everything at stock.
      card.write({ powerMw: 320_000 });
      stub.set("lost", 0);
      await healed(gpu, clock);
      await until(() => events.length === 2, "the reopening");
      assert.equal(events[1]?.kind, "reopened");
      // Our own changes are no unclean end.
      assert.equal((await gpu.card.restore("journal")).uncleanEnd, null);
    });
  },
);

stubTest("a dead temperature releases pinned fans without anyone's asking", async (stub) => {
  const card = new StubCard(stub.path);
  await withCard(library(stub.path), async ({ gpu, events }) => {
    await gpu.card.apply({ fan: 40 }, REASON);
    card.write({ temperatureCode: 999 });
    await gpu.read();
    await gpu.read();
    await until(() => events.length === 1, "the release");
    assert.equal(events[0]?.kind, "fans_released");
    assert.deepEqual(card.levers(), STUB_STOCK);
  });
});
