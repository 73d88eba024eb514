/** SIGKILL of the whole service while it sets a stub card: in the middle of a sweep, and by profiles and fans. Bench has 100. */
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { openBox } from "../../lib/lab/box.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { hasCompiler } from "../stub/compile_stub.ts";
import type { RunningService } from "./running_service.ts";
import { StubService } from "./stub_service.ts";

/** A lock is judged under load, so that its first step stands for as long as a run of the workload takes. */
const SWEEP = {
  knob: "lock_core_mhz",
  workload: "comfy",
  // The quickest of the lab.
  model: "dreamshaper_8.safetensors",
  start: 2_100,
  stop: 2_100,
  repeats: 1,
};

Deno.test({
  name: "kill -9 in a sweep and while the card is set: it is at stock after a restore or a start, and every door tells",
  ignore: !hasCompiler,
  fn: async () => {
    const dir = await Deno.makeTempDir({ prefix: "kill-lab-" });
    try {
      await using box = await openBox({ clock: systemClock(), dir, driverHolds: false });
      await using stub = await StubService.open({ comfyUrl: box.comfy.url });
      const run = await killedInASweep(stub);
      await stub.start();
      assert.ok(stub.isStock, "after the next start");
      await isToldOnEveryDoor(stub.service, run);
      await isBackAfterACancel(stub);
      await stub.killAt(7_919);
      assert.ok(!stub.isStock, "killed while it was set");
      assert.match(await stub.restore(), /^The card is at stock: \d levers/);
      assert.ok(stub.isStock, "after restore --scope journal");
      assert.ok(!stub.isUntouchedMoved);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});

/** The run that was cut off. */
async function killedInASweep(stub: StubService): Promise<string> {
  await stub.start();
  const pid = await stub.service.pid();
  const run = await underWay(stub);
  await stub.kill(pid);
  assert.equal(stub.card.levers().coreLock[1], 2_100, "the step was applied");
  return run;
}

/** Begins a sweep and resolves with its run once a step is measured. */
async function underWay({ service, card }: StubService): Promise<string> {
  await service.until("/api/stats", ({ comfyui }) => {
    const { online, queue_remaining: left } = comfyui as Record<string, unknown>; // by its schema
    // The prompt of a sweep that was killed ends by itself.
    return online === true && left === 0;
  });
  const { id } = await service.post("/api/autotune/sweep", SWEEP);
  await service.until("/api/autotune", ({ running }) => {
    const phase = (running as { phase?: string } | null)?.phase ?? ""; // by its schema
    return phase.startsWith("measuring") && card.levers().coreLock[1] !== 0;
  });
  return String(id);
}

async function isToldOnEveryDoor(service: RunningService, run: string): Promise<void> {
  const autotune = await service.get("/api/autotune");
  const last = autotune["last_result"] as Record<string, unknown>; // by its schema
  assert.deepEqual([autotune["running"], last["end"], last["sweep"]], [null, "interrupted", run]);
  assert.match(String(last["message"]), /^Interrupted: the service ended in the middle of the sweep of lock_core_mhz/);
  const { runs } = await service.get("/api/runs");
  assert.ok(
    (runs as readonly { id: string; state: string }[]).some(({ id, state }) => id === run && state === "failed"),
  );
  const { state, error } = await service.get(`/api/runs/${run}`);
  assert.deepEqual([state, (error as { message: string }).message], ["failed", last["message"]]);

  const client = new Client({ name: "test", version: "0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`)));
  const told = await client.callTool({ name: "get_run", arguments: { id: run } });
  assert.match(JSON.stringify(told.structuredContent), /Interrupted: the service ended/);
  const status = await client.callTool({ name: "get_autotune_status", arguments: {} });
  assert.match(JSON.stringify(status.structuredContent), /"end":"interrupted"/);
  await client.close();
}

async function isBackAfterACancel(stub: StubService): Promise<void> {
  const run = await underWay(stub);
  const { id, state } = await stub.service.post("/api/autotune/cancel", {});
  assert.deepEqual([id, state], [run, "cancelled"]);
  assert.ok(stub.isStock, "after the cancel");
}
