/** What runs badly without an error: seen, mended where that is possible, and said. */
import assert from "node:assert/strict";
import type { HistoryItem } from "../../lib/model/history.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { BIG, openScene, type Scene } from "./scene.ts";

const SDXL = "sd_xl_base_1.0.safetensors";

/** ComfyUI sits idle on a checkpoint that nobody uses any more. */
async function idleCheckpoint(scene: Scene): Promise<void> {
  await scene.prompt({ checkpoint: SDXL });
  await scene.idle();
  await scene.pass(3_000);
}

const decided = (decision: string) => ({ fields }: HistoryItem) => fields["decision"] === decision;

function shareInVram(scene: Scene, model: string): number {
  const row = scene.house.services.live.snapshot().sample.ollama.resident.find(({ name }) => name === model);
  return row === undefined ? 0 : row.sizeVramBytes / row.sizeBytes;
}

Deno.test("a model that lies partly outside VRAM", async (test) => {
  await using scene = await openScene();
  const { box } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });
  const swaps = (sinceMs: number) => scene.since(sinceMs).filter(({ kind }) => kind === "swap");

  await situation(
    "an idle ComfyUI sits on its room: told of, reclaimed by the driver's word, reloaded once",
    async () => {
      await idleCheckpoint(scene);
      const sinceMs = scene.clock.monotonicMs();
      await scene.load(BIG, { keep_alive: -1 });
      assert.ok(shareInVram(scene, BIG) < 1);
      const before = scene.runnerOf(BIG).pid;
      const { item } = await scene.said(decided("spilled"), { sinceMs });
      assert.match(String(item.fields["message"]), /many times slower.*it is reloaded, once/);
      const purge = await scene.said(({ kind }) => kind === "purge", { sinceMs });
      assert.deepEqual([purge.item.fields["cause"], purge.item.fields["outcome"]], ["spilled", "released"]);
      const swap = await scene.said(({ kind }) => kind === "swap", { sinceMs });
      assert.deepEqual([swap.item.fields["cause"], swap.item.fields["spilled"]], ["spilled", false]);
      await scene.pass(9_000);
      assert.equal(shareInVram(scene, BIG), 1);
      assert.notEqual(scene.runnerOf(BIG).pid, before);
      assert.equal(swaps(sinceMs).length, 1);
      const { resident } = scene.house.services.live.snapshot().sample.ollama;
      assert.ok((resident[0]?.expiresAtMs ?? 0) > 4e12, "its client's keep_alive is kept");
    },
  );

  await situation("it answers somebody: left alone until that ends", async () => {
    await idleCheckpoint(scene);
    await scene.load(BIG);
    const busy = scene.ask(BIG, 400);
    const { pid } = scene.runnerOf(BIG);
    await scene.pass(5_000);
    assert.equal(scene.runnerOf(BIG).pid, pid);
    const sinceMs = scene.clock.monotonicMs();
    await scene.settle(busy.ended);
    await scene.said(({ kind }) => kind === "swap", { sinceMs, limitMs: 60_000 });
    await scene.pass(1_100);
    assert.equal(shareInVram(scene, BIG), 1);
  });

  await situation("a prompt comes while it is reloaded: ComfyUI goes first", async () => {
    await idleCheckpoint(scene);
    await scene.load(BIG);
    const sinceMs = scene.clock.monotonicMs();
    await scene.said(({ kind }) => kind === "purge", { sinceMs });
    await scene.clock.runUntil(
      () =>
        scene.house.state().arbiter.holder?.job.kind === "reload" &&
        box.ollama.runners.some(({ state }) => state === "loading"),
      {
        limitMs: 20_000,
        what: "the load of the reload",
      },
    );
    await scene.prompt({ ms: 2_000 });
    await scene.said(decided("not_reloaded"), { sinceMs });
    await scene.idle();
    assert.equal(box.ollama.runners.length, 0, "hung up on, and its runner gone");
  });

  await situation("a third program sits on it: said who, and nothing is touched", async () => {
    const taken = 8e9;
    assert.ok(box.vram.allocate(box.thirdParty.pid, taken));
    await scene.pass(1_100);
    const sinceMs = scene.clock.monotonicMs();
    await scene.load(BIG);
    const { item } = await scene.said(decided("spilled"), { sinceMs });
    assert.match(String(item.fields["message"]), /python3 stt_relay/);
    const { pid } = scene.runnerOf(BIG);
    await scene.pass(5_000);
    assert.equal(scene.runnerOf(BIG).pid, pid);
    box.vram.free(box.thirdParty.pid, taken);
    await scene.said(({ kind }) => kind === "swap", { sinceMs });
    await scene.pass(2_100);
    assert.equal(shareInVram(scene, BIG), 1, "it went by itself, and the model is mended after all");
  });
});

Deno.test("half a model in ComfyUI after a late hand-off: suspected on its record, healed if configured", async () => {
  await using scene = await openScene({
    policy: { healPartial: true, purge: { ...DEFAULT_POLICY.purge, idleMs: null } },
  });
  const { box } = scene;
  for (let run = 0; run < 3; run++) {
    await scene.prompt({ checkpoint: SDXL, steps: 25 });
    await scene.idle();
    await scene.pass(2_500);
  }
  await scene.purge();
  await scene.load(BIG);
  box.comfy.warm(SDXL, 1);
  const sinceMs = scene.clock.monotonicMs();
  await scene.prompt({ checkpoint: SDXL, steps: 25 });
  const { id } = await scene.handOff(sinceMs);
  await scene.idle();
  assert.ok(box.comfy.share(SDXL) < 0.8, "the lab's ComfyUI loaded only part of it");
  await scene.pass(3_000);
  const { item } = await scene.said(({ kind }) => kind === "purge", { sinceMs });
  assert.deepEqual([item.fields["cause"], item.fields["outcome"]], ["partial_load", "released"]);
  const { fields } = await scene.kept(id);
  assert.equal(fields["late"], true);
  assert.equal(fields["suspected_partial_load"], true, String(fields["suspected_because"]));
  await scene.prompt({ checkpoint: SDXL, steps: 25 });
  await scene.idle();
  assert.equal(box.comfy.share(SDXL), 1, "the next run has all of it");
});

Deno.test("ComfyUI's worker dies behind a living server: said after a minute, and over with its restart", async () => {
  await using scene = await openScene();
  const { box, house } = scene;
  const worker = () => house.services.health.report().checks.find(({ name }) => name === "comfyui_worker");
  const sinceMs = scene.clock.monotonicMs();
  await scene.fail("system_exit");
  await scene.prompt();
  await scene.pass(100);
  assert.equal(box.comfy.isWorkerDead, true);
  const { item, atMs } = await scene.said(({ fields }) => fields["what"] === "comfyui_worker", {
    sinceMs,
    limitMs: 90_000,
  });
  assert.ok(atMs - sinceMs >= 60_000);
  assert.match(String(item.fields["message"]), /1 waiting behind it/);
  assert.equal(worker()?.state, "degraded");
  await scene.settle(box.comfy.kill());
  await scene.settle(box.comfy.start());
  await scene.pass(4_000);
  assert.equal(worker()?.state, "ok");
  await scene.prompt();
  await scene.idle();
});
