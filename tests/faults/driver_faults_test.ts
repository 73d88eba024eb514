/** The driver hides, stalls, contradicts itself and goes away while a release is to be confirmed. */
import assert from "node:assert/strict";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { GIB } from "../../lib/model/units.ts";
import { MIDDLE, openScene } from "./scene.ts";

/** What NVML answers. */
const NO_PERMISSION = 4;
const NOT_SUPPORTED = 3;
const GPU_IS_LOST = 15;

Deno.test("a driver that doesn't tell the whole truth confirms nothing that it can't", async (test) => {
  await using scene = await openScene();
  const { box, house } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(async () => {
        box.table.fail("processes", null);
        box.table.fail("processUtilization", null);
        box.table.hold("memory", false);
        await scene.rest();
      });
    });

  await situation("no bytes by process (WSL, a container): unconfirmed, never released", async () => {
    await scene.load(MIDDLE);
    box.table.hideBytes("all", true);
    await scene.pass(1_100);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "unconfirmed");
    assert.equal(result.confirmedBy, null);
    assert.equal(box.ollama.runners.length, 0, "it was asked all the same");
  });

  await situation("no list of processes for want of permission: unconfirmed", async () => {
    await scene.load(MIDDLE);
    box.table.fail("processes", NO_PERMISSION);
    await scene.pass(1_100);
    assert.equal((await scene.yieldVram()).outcome, "unconfirmed");
  });

  await situation("the card is lost in the middle of a yield: unconfirmed, whatever Ollama says", async () => {
    await scene.load(MIDDLE);
    box.ollama.quirks.releaseMs = 1_500;
    const request = { models: null, confirm: true, operation: "free-vram" };
    const call = { signal: new AbortController().signal, progress: () => {} };
    const yielding = house.services.arbitration.yieldVram(request, call);
    await scene.pass(500);
    box.table.failAll(GPU_IS_LOST);
    const result = await scene.settle(yielding);
    assert.equal(result.outcome, "unconfirmed", result.message);
    assert.equal(result.confirmedBy, null);
  });

  await situation("the card came back: releases are confirmed again", async () => {
    await scene.load(MIDDLE);
    assert.equal((await scene.yieldVram()).outcome, "released");
  });

  await situation("used memory and process list are 40 ms apart: not released before both say so", async () => {
    await scene.load(MIDDLE);
    box.vram.skewMs = 40;
    const request = { models: null, confirm: true, operation: "free-vram" };
    const call = { signal: new AbortController().signal, progress: () => {} };
    const result = await scene.settle(house.services.arbitration.yieldVram(request, call));
    assert.equal(result.outcome, "released");
    const freedAtMs = box.vram.releasedAtMs(result.pids[0] ?? 0);
    assert.ok(freedAtMs !== null && scene.clock.monotonicMs() - freedAtMs >= 40);
  });

  await situation(
    "the driver is blocked for 300 ms as the yield starts: the unload goes out all the same",
    async () => {
      await scene.load(MIDDLE);
      box.ollama.quirks.releaseMs = 900;
      box.table.hold("memory", true);
      scene.clock.after(300, () => box.table.hold("memory", false));
      const result = await scene.yieldVram();
      assert.equal(result.outcome, "released", result.message);
      assert.ok((result.requestMs ?? Infinity) < 200, "Ollama was asked before the driver answered");
    },
  );

  await situation("no utilisation by process: the runner's own word says that it is busy", async () => {
    await scene.load(MIDDLE);
    box.table.fail("processUtilization", NOT_SUPPORTED);
    scene.ask(MIDDLE, 400);
    await scene.pass(2_100);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "busy");
    assert.match(result.held[0]?.evidence ?? "", /it says/);
  });

  await situation("no driver at all: the hand-off goes on, and is called unconfirmed", async () => {
    await scene.load(MIDDLE);
    box.table.failAll(GPU_IS_LOST);
    await scene.pass(2_100);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt();
    const { fields } = await scene.handOff(sinceMs);
    assert.equal(fields["outcome"], "unconfirmed");
    assert.equal(fields["confirmed_by"], null);
    assert.equal(box.ollama.runners.length, 0);
  });
});

Deno.test("without a driver, and told to hold then: nothing is unloaded by itself", async () => {
  await using scene = await openScene({ policy: { proceedUnconfirmed: false } });
  await scene.load(MIDDLE);
  scene.box.table.failAll(GPU_IS_LOST);
  await scene.pass(2_100);
  const sinceMs = scene.clock.monotonicMs();
  await scene.prompt();
  await scene.said(({ fields }) => fields["decision"] === "held_back", { sinceMs });
  await scene.idle();
  assert.equal(scene.box.ollama.runners.length, 1);
});

Deno.test("ComfyUI's need is known and fits beside Ollama: nobody is evicted, and it says so", async () => {
  await using scene = await openScene({ policy: { needs: { comfyui: 3 * GIB } } });
  await scene.load(MIDDLE);
  const sinceMs = scene.clock.monotonicMs();
  await scene.prompt({ gib: 1 });
  await scene.said(({ fields }) => fields["decision"] === "both_stay", { sinceMs });
  await scene.idle();
  assert.equal(scene.box.ollama.runners.length, 1);
});

Deno.test("the older generation's runners: found, busy by their own work, and released", async (test) => {
  await using scene = await openScene({ machine: { ollamaVersion: "0.24.0" } });
  await test.step("released", async () => {
    await scene.load(MIDDLE);
    assert.equal((await scene.yieldVram()).outcome, "released");
    await scene.rest();
  });
  await test.step("busy, then released later", async () => {
    await scene.load(MIDDLE);
    scene.ask(MIDDLE, 200);
    await scene.pass(100);
    assert.equal((await scene.yieldVram()).outcome, "busy");
    await scene.rest();
  });
  await test.step("the card shows what Ollama's row still lists while its runner ends", async () => {
    await scene.load(MIDDLE);
    scene.box.ollama.quirks.releaseMs = 1_200;
    assert.equal((await scene.yieldVram()).outcome, "released");
  });
});

Deno.test("a driver that holds calls back as measured: a release is confirmed once it answers", async () => {
  await using scene = await openScene({ machine: { driverHolds: true, profile: "desktop" } });
  await scene.load(MIDDLE);
  assert.equal((await scene.yieldVram()).outcome, "released");
  assert.equal(DEFAULT_POLICY.proceedUnconfirmed, true);
});
