import assert from "node:assert/strict";
import type { CardEvent } from "../../lib/model/card.ts";
import { GpuUnavailable } from "../../lib/model/ports.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { NvmlSession } from "../../lib/workers/nvml_session.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";
import { StubCard } from "../stub/stub_card.ts";

interface Given {
  readonly session: NvmlSession;
  readonly events: CardEvent[];
  readonly clock: { wallAheadMs: number; monotonicMs: number };
}

async function withSession(
  stub: Stub,
  run: (given: Given) => void,
  { sysRoot = "/nonexistent", releaseIdleMs = null }: { sysRoot?: string; releaseIdleMs?: number | null } = {},
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "session-" });
  const events: CardEvent[] = [];
  const clock = { wallAheadMs: 0, monotonicMs: 1_000 };
  const real = systemClock();
  const config = {
    source: { kind: "library", paths: [stub.path] },
    choice: { uuid: null, index: null },
    sysRoot,
    releaseIdleMs,
    levers: { stateDir: dir, mayChange: true, marksUncleanEnd: true },
    control: new SharedArrayBuffer(8),
    monotonicMs: 0,
  } as const;
  // Readings want a whole clock; here only the wall's is moved by hand.
  const moved = { ...real, monotonicMs: () => clock.monotonicMs, wallMs: () => clock.monotonicMs + clock.wallAheadMs };
  const session = new NvmlSession(config, { clock: moved, tell: (event) => events.push(event) });
  try {
    run({ session, events, clock });
  } finally {
    session[Symbol.dispose]();
    await Deno.remove(dir, { recursive: true });
  }
}

function kindOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof GpuUnavailable, String(error));
    return error.kind;
  }
  return "answered";
}

stubTest(
  "after a suspend the library is opened anew and that is told; a small step of the clock is none",
  async (stub) => {
    new StubCard(stub.path);
    await withSession(stub, ({ session, events, clock }) => {
      session.read({ isQuick: false });
      clock.wallAheadMs += 9_000;
      session.read({ isQuick: false });
      assert.deepEqual([stub.calls("nvmlInit_v2"), events], [1, []]);
      clock.wallAheadMs += 600_000;
      assert.equal(kindOf(() => session.read({ isQuick: false })), "lost");
      session.read({ isQuick: false });
      assert.equal(stub.calls("nvmlInit_v2"), 2);
      assert.deepEqual(events.map(({ kind }) => kind), ["reopened"]);
    });
  },
);

stubTest("a card that sleeps is not woken to be set, nor to be restored when nothing was changed", async (stub) => {
  new StubCard(stub.path);
  const root = await Deno.makeTempDir({ prefix: "sys-" });
  const device = `${root}/bus/pci/devices/0000:2b:00.0`;
  await Deno.mkdir(`${device}/power`, { recursive: true });
  await Deno.writeTextFile(`${device}/vendor`, "0x10de\n");
  await Deno.writeTextFile(`${device}/class`, "0x030000\n");
  await Deno.writeTextFile(`${device}/power/runtime_status`, "suspended\n");
  try {
    await withSession(stub, ({ session }) => {
      const reason = { by: "profile", profile: "comfy", text: "" } as const;
      assert.equal(kindOf(() => session.apply({ power_limit_w: 370 }, reason)), "asleep");
      assert.equal(kindOf(() => session.state()), "asleep");
      assert.deepEqual(session.restore("journal").levers, []);
      assert.equal(stub.calls("nvmlInit_v2"), 0);
      // Who asks by hand for every lever means it.
      assert.equal(session.restore("all").levers.length, 6);
    }, { sysRoot: root });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

stubTest("an idle card that may sleep is let go, unless something of ours is set on it", async (stub) => {
  new StubCard(stub.path);
  const root = await Deno.makeTempDir({ prefix: "sys-" });
  const power = `${root}/bus/pci/devices/0000:2b:00.0/power`;
  await Deno.mkdir(power, { recursive: true });
  await Deno.writeTextFile(`${power}/runtime_status`, "active\n");
  await Deno.writeTextFile(`${power}/control`, "auto\n");
  stub.set("utilization.gpu", 0);
  try {
    await withSession(stub, ({ session, events, clock }) => {
      const second = () => {
        clock.monotonicMs += 1_000;
        return kindOf(() => session.read({ isQuick: false }));
      };
      const reason = { by: "operator", profile: null, text: "" } as const;
      session.apply({ power_limit_w: 370 }, reason);
      for (let at = 0; at < 40; at++) assert.equal(second(), "answered", "what is set would be lost");
      session.apply({ power_limit_w: "stock" }, reason);
      for (let at = 0; at < 31; at++) assert.equal(second(), "answered");
      assert.equal(second(), "asleep", "let go");
      assert.equal(stub.calls("nvmlShutdown"), 1);
      Deno.writeTextFileSync(`${power}/runtime_status`, "suspended\n");
      for (let at = 0; at < 100; at++) assert.equal(second(), "asleep");
      Deno.writeTextFileSync(`${power}/runtime_status`, "active\n");
      assert.equal(second(), "answered", "a program has woken it");
      assert.equal(stub.calls("nvmlInit_v2"), 2);
      assert.deepEqual(events.map(({ kind }) => kind), ["reopened"]);
    }, { sysRoot: root, releaseIdleMs: 30_000 });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
