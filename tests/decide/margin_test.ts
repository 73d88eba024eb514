import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, policy } from "./stories.ts";

/** A model of 10 GiB resident, ComfyUI idle with its context. */
function stage(given = policy()): Scene {
  const scene = new Scene(given).load("alpha:latest", 101, gib(10)).holds(200, "comfy", gib(0.8));
  scene.sample();
  return scene;
}

/** The hand-off up to the driver's confirmation, 211 ms after the frame. */
function handOff(scene: Scene): void {
  scene.enqueue(1);
  scene.run(209, { stepMs: 1 });
  scene.end(101).run(2, { stepMs: 1 });
  assert.equal(scene.recorded("yield")["outcome"], "released");
}

Deno.test("margin: weights on disk, first growth 0.8 s after the confirmation: in time", () => {
  const scene = stage();
  handOff(scene);
  scene.run(789, { stepMs: 1 });
  assert.equal(scene.all("amend").length, 0);
  scene.holds(200, "comfy", gib(0.9)).run(1);
  const { fields } = scene.last("amend");
  assert.deepEqual(fields, { margin_ms: 790, late: false });
  assert.equal(scene.last("amend").key, scene.all("record").at(-1)?.key);
  assert.deepEqual([scene.state.handOffs, scene.state.lateHandOffs, scene.state.lastMarginMs], [1, 0, 790]);
});

Deno.test("margin: weights in RAM, it grows 50 ms after the frame: late, with its consequence and remedy", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(49, { stepMs: 1 });
  scene.holds(200, "comfy", gib(1)).run(160, { stepMs: 1 });
  scene.end(101).run(2, { stepMs: 1 });
  const { fields } = scene.last("amend");
  assert.equal(fields["margin_ms"], -161);
  assert.match(String(fields["consequence"]), /only part of its model/);
  assert.match(String(fields["remedy"]), /Purge ComfyUI/);
  assert.equal(scene.state.lateHandOffs, 1);
});

Deno.test("margin: growth below 64 MB isn't an allocation, and what it gives up first isn't held against it", () => {
  const scene = stage();
  handOff(scene);
  scene.holds(200, "comfy", gib(0.8) + 60 * 2 ** 20).run(20);
  assert.equal(scene.all("amend").length, 0);
  scene.holds(200, "comfy", gib(0.3)).run(20);
  scene.holds(200, "comfy", gib(0.4)).run(10);
  assert.equal(scene.all("amend").length, 1);
});

Deno.test("margin: what the last sample didn't show yet isn't taken for growth", () => {
  const scene = stage();
  // Since the sample, before the frame, ComfyUI went from 0.8 to 4 GiB.
  scene.holds(200, "comfy", gib(4));
  handOff(scene);
  assert.equal(scene.all("amend").length, 0);
});

Deno.test("margin: null after 10 s without an allocation, and the watch ends with its barrier", () => {
  const scene = stage();
  handOff(scene);
  scene.state = { ...scene.state, lastMarginMs: 790 };
  scene.run(9_900);
  assert.equal(scene.all("amend").length, 0);
  assert.equal(scene.all("closeBarrier").length, 0);
  scene.run(200);
  assert.equal(scene.last("amend").fields["margin_ms"], null);
  assert.match(String(scene.last("amend").fields["margin_reason"]), /took no memory/);
  assert.equal(scene.state.margin, null);
  assert.equal(scene.all("closeBarrier").length, 1);
  assert.equal(scene.state.handOffs, 1);
  assert.equal(scene.state.lastMarginMs, 790, "the last one that was measured stays");
});

Deno.test("margin: null with the reason when the driver gives no bytes, or nothing was confirmed", async (test) => {
  await test.step("no bytes of ComfyUI", () => {
    const scene = stage().holds(200, "comfy", null);
    scene.sample();
    handOff(scene);
    scene.run(10_100);
    assert.match(String(scene.last("amend").fields["margin_reason"]), /no bytes/);
  });
  await test.step("a busy runner", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.run(620, { reading: { smPctByPid: { 101: 90 } } });
    scene.run(20);
    assert.equal(scene.recorded("yield")["outcome"], "busy");
    assert.match(String(scene.last("amend").fields["margin_reason"]), /not confirmed/);
    assert.equal(scene.state.handOffs, 0);
  });
});

Deno.test("a second hand-off while the first is still watched: each record gets its margin", () => {
  const scene = stage();
  handOff(scene);
  const [first] = scene.all("record");
  scene.run(500);
  scene.enqueue(0);
  scene.load("beta:latest", 102, gib(5)).run(1_000);
  scene.enqueue(1);
  assert.equal(scene.last("amend").key, first?.key);
  assert.match(String(scene.last("amend").fields["margin_reason"]), /another hand-off/);
  scene.run(100);
  scene.end(102).run(30);
  scene.holds(200, "comfy", gib(3)).run(20);
  assert.equal(scene.last("amend").key, scene.last("record").key);
  assert.ok(Number(scene.last("amend").fields["margin_ms"]) > 0);
});

Deno.test("a late hand-off teaches nothing: half a model's peak is no footprint", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(50, { stepMs: 1 });
  scene.holds(200, "comfy", gib(3)).run(160);
  scene.end(101).run(30);
  scene.run(1_500);
  scene.enqueue(0);
  assert.equal(scene.state.lateHandOffs, 1);
  assert.equal(scene.state.footprints["comfyui"], undefined);
});

Deno.test("an enqueue that finds an explicit yield of everything under way shares it, margin included", () => {
  const scene = stage();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(20);
  scene.enqueue(1);
  assert.equal(scene.state.waiting.length, 0);
  scene.run(100);
  scene.end(101).run(30);
  assert.equal(scene.value(id, "yield").outcome, "released");
  scene.holds(200, "comfy", gib(4)).run(10);
  assert.equal(scene.last("amend").key, scene.last("record").key);
  assert.equal(scene.state.handOffs, 1);
  assert.equal(scene.all("unload").length, 1);
});

Deno.test("an explicit yield that waits for nothing serves no hand-off: the prompt gets one that is confirmed", () => {
  const scene = stage();
  scene.ask({ kind: "yield", models: null, confirm: false });
  scene.enqueue(1);
  assert.equal(scene.state.waiting.length, 1);
  scene.run(50);
  scene.end(101).run(60);
  const yields = scene.all("record").filter(({ item }) => item.kind === "yield").map(({ item }) =>
    item.fields["cause"]
  );
  assert.deepEqual(yields, ["yield", "comfy_enqueued"]);
});

Deno.test("what is kept changes while a yield is under way: a new prompt gets a yield of its own after it", () => {
  const scene = stage(policy({ yield: { keep: ["beta"] } })).load("beta:latest", 102, gib(2));
  scene.sample();
  scene.enqueue(1);
  scene.run(20);
  const { generation } = scene.last("unload");
  scene.setMode("auto", []);
  scene.enqueue(0);
  scene.enqueue(1);
  assert.equal(scene.state.waiting.length, 1);
  assert.equal(scene.all("amend").length, 0, "the watch stays with the yield under way");
  scene.end(101).run(30);
  scene.run(50);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
  scene.holds(200, "comfy", gib(3)).run(20);
  assert.equal(scene.last("amend").key, `job-${generation}-yield`);
});
