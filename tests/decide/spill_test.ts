/** Models that lie partly outside VRAM: who is told of, who is mended, when, and how often. */
import assert from "node:assert/strict";
import type { LoadOutcome } from "../../lib/model/events.ts";
import { spillOf } from "../../lib/decide/spill.ts";
import { Scene } from "./scene.ts";
import { absent, gib, installed, ollama, policy, row, runner } from "./stories.ts";

const ALPHA = "alpha:latest";
const LOADED: LoadOutcome = {
  ok: true,
  reply: { loadDurationMs: 3_000, totalDurationMs: 3_100, tokensPerSecond: null, response: "A" },
};
/** What Ollama says of a model of 10 GB of which half found room. */
const HALF = { sizeBytes: gib(10), sizeVramBytes: gib(5) };

/** Half of alpha lies outside VRAM, since an idle ComfyUI holds 7 GB. */
function spilled(given = policy()): Scene {
  const scene = new Scene(given).load(ALPHA, 101, gib(5.6), HALF).holds(200, "comfy", gib(7));
  scene.sample();
  return scene;
}

function toldOf(scene: Scene, decision: string) {
  return scene.all("record").filter(({ item }) => item.fields["decision"] === decision);
}

/** `/free` was sent, and ComfyUI's memory falls. */
function giveBack(scene: Scene): void {
  scene.freed({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });
  scene.run(1_200);
  scene.holds(200, "comfy", gib(0.8)).run(400);
}

Deno.test("half a model in VRAM: told of once, room made, reloaded once its runner does nothing", () => {
  const scene = spilled();
  scene.run(1_000, { stepMs: 100 });
  const [told] = toldOf(scene, "spilled");
  assert.match(String(told?.item.fields["message"]), /5 of 10 GB in VRAM.*gives its memory back, and it is reloaded/);
  scene.run(5_000, { stepMs: 100 });
  assert.equal(scene.all("freeComfy").length, 1, "room first, and by the driver's word");
  assert.equal(scene.all("unload").length, 0);
  giveBack(scene);
  assert.deepEqual(scene.all("unload").map(({ model }) => model), [ALPHA]);
  scene.end(101).run(100);
  assert.deepEqual(scene.all("load").map(({ request }) => request.model), [ALPHA]);
  scene.load(ALPHA, 102, gib(10.6)).loaded(LOADED);
  scene.run(600);
  const swap = scene.recorded("swap");
  assert.deepEqual([swap["cause"], swap["spilled"]], ["spilled", false]);
  scene.run(30_000, { stepMs: 100 });
  assert.equal(scene.all("load").length, 1);
  assert.equal(toldOf(scene, "spilled").length, 1);
});

Deno.test("it spills again after its one reload: told of, and left alone for ten minutes", () => {
  const scene = spilled(policy({ needs: { comfyui: gib(1) } }));
  scene.run(6_000, { stepMs: 100 });
  giveBack(scene);
  scene.end(101).run(100);
  scene.load(ALPHA, 102, gib(5.6), HALF).loaded(LOADED);
  scene.run(20_000, { stepMs: 100 });
  assert.equal(toldOf(scene, "spilled").length, 2);
  assert.equal(scene.all("unload").length, 1);
  scene.enqueue(1);
  scene.enqueue(0);
  scene.run(6_000, { stepMs: 100 });
  assert.equal(scene.all("unload").length, 2, "ComfyUI has had work since: it was in the way again");
});

Deno.test("a runner is idle after three samples at which it did nothing", () => {
  const scene = new Scene().load(ALPHA, 101, gib(5.6), HALF);
  scene.sample();
  scene.wait(1_000).sample();
  scene.wait(1_000).sample();
  assert.equal(scene.all("probeRunners").length, 0);
  scene.wait(1_000).sample();
  assert.equal(scene.all("probeRunners").length, 1, "the third: it is asked itself before anything is done");
});

Deno.test("what can't be confirmed gone is not loaded a second time beside itself", () => {
  const scene = new Scene().load(ALPHA, 101, gib(5.6), HALF);
  scene.sample();
  scene.run(20_000, { stepMs: 100 });
  assert.equal(scene.all("unload").length, 1);
  assert.equal(scene.recorded("fault")["outcome"], "fault");
  assert.equal(scene.all("load").length, 0);
});

Deno.test("a runner that works is not touched", async (test) => {
  await test.step("by its CPU time", () => {
    const scene = spilled();
    for (let second = 0; second < 10; second++) {
      const runners = scene.ollama.runners.map((entry) => ({ ...entry, cpuTicks: (entry.cpuTicks ?? 0) + 180 }));
      scene.ollama = { ...scene.ollama, runners };
      scene.run(1_000, { stepMs: 100 });
    }
    assert.equal(scene.all("freeComfy").length + scene.all("unload").length, 0);
  });
  await test.step("by its own word, asked right before", () => {
    const scene = spilled(policy());
    scene.holds(200, "comfy", gib(0.8));
    scene.run(8_000, { stepMs: 100, probe: { 101: { activity: "busy" } } });
    assert.equal(scene.all("unload").length, 0);
    assert.ok(toldOf(scene, "not_reloaded").length > 0);
    scene.run(5_000, { stepMs: 100 });
    assert.equal(scene.all("unload").length, 1, "at its next idle moment");
  });
});

Deno.test("nothing can be done, and it is said who is in the way", async (test) => {
  await test.step("somebody else holds the rest", () => {
    const scene = new Scene().load(ALPHA, 101, gib(5.6), HALF).holds(300, "unmanaged", gib(9), "trainer");
    scene.sample();
    scene.run(8_000, { stepMs: 100 });
    assert.match(String(toldOf(scene, "spilled")[0]?.item.fields["message"]), /trainer 9 GB/);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("ComfyUI executes", () => {
    const scene = spilled(policy({ needs: { comfyui: gib(1) } }));
    scene.enqueue(1);
    scene.run(8_000, { stepMs: 100 });
    assert.equal(scene.all("freeComfy").length, 0);
    assert.equal(toldOf(scene, "not_reloaded").length, 0);
  });
  await test.step("it is kept", () => {
    const scene = spilled(policy({ yield: { keep: ["alpha"] } }));
    scene.run(8_000, { stepMs: 100 });
    assert.match(String(toldOf(scene, "spilled")[0]?.item.fields["message"]), /kept/);
    assert.equal(scene.all("freeComfy").length, 0);
  });
  await test.step("mode observe", () => {
    const scene = spilled(policy({ mode: "observe" }));
    scene.run(8_000, { stepMs: 100 });
    assert.match(String(toldOf(scene, "spilled")[0]?.item.fields["message"]), /would be reloaded/);
    assert.equal(scene.all("freeComfy").length, 0);
  });
  await test.step("ComfyUI's memory outlives /free: asked once, and the model is left as it is", () => {
    const scene = spilled();
    scene.run(6_000, { stepMs: 100 });
    scene.freed({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });
    scene.run(5_500, { stepMs: 100 });
    scene.freed({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });
    scene.run(30_000, { stepMs: 100 });
    assert.equal(scene.all("unload").length, 0);
    assert.equal(toldOf(scene, "not_reloaded").length, 1);
  });
});

Deno.test("its client's keep_alive is kept", () => {
  const forEver = { ...HALF, expiresAtMs: 9e15 };
  const scene = new Scene().load(ALPHA, 101, gib(5.6), forEver).holds(200, "comfy", gib(0.8));
  scene.sample();
  scene.run(5_000, { stepMs: 100 });
  scene.end(101).run(100);
  assert.equal(scene.last("load").request.keepAlive, "-1");
});

Deno.test("what counts as spilled", () => {
  const gpu = (bytes: number | null) => new Scene().holds(101, "ollama", bytes).sampleNow().gpu;
  const files = ollama({ installed: [installed(ALPHA, { sizeBytes: gib(9) })] });
  const of = (more: Parameters<typeof row>[1], bytes: number | null) =>
    spillOf(row(ALPHA, more), runner(101, ALPHA), { gpu: gpu(bytes), ollama: files });
  assert.equal(of(HALF, gib(5.6))?.missingBytes, gib(5), "less in VRAM than it is");
  assert.equal(of({}, gib(10.6)), null, "all of it");
  const unread = { sizeBytes: gib(8.9), sizeVramBytes: gib(8.9) };
  assert.equal(of(unread, gib(9.6)), null, "Ollama couldn't read its log: the driver says that it is all there");
  assert.equal(of(unread, gib(4))?.missingBytes, gib(4.9), "the driver says that it isn't");
  assert.equal(of(unread, null), null, "and nobody knows");
  const blind = { gpu: absent(), ollama: files };
  assert.equal(spillOf(row(ALPHA, HALF), runner(101, ALPHA), blind), null, "without a card its word means nothing");
});
