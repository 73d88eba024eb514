import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, policy } from "./stories.ts";

/** A model of 10 GiB resident, ComfyUI idle with its context. */
function stage(given = policy()): Scene {
  const scene = new Scene(given).load("alpha:latest", 101, gib(10)).holds(200, "comfy", gib(0.8));
  scene.sample();
  return scene;
}

Deno.test("observe decides and records, paused stands by: neither touches anything", async (test) => {
  for (const mode of ["observe", "paused"] as const) {
    await test.step(mode, () => {
      const scene = stage(policy({ mode }));
      scene.enqueue(1);
      scene.run(2_000);
      assert.equal(scene.recorded("arbitration")["decision"], mode);
      assert.deepEqual(scene.recorded("arbitration")["models"], ["alpha:latest"]);
      const kinds = new Set(scene.effects.map((effect) => effect.kind));
      assert.deepEqual([...kinds], ["record"]);
    });
  }
});

Deno.test("explicit operations work in every mode", async (test) => {
  for (const mode of ["observe", "paused"] as const) {
    await test.step(mode, () => {
      const scene = stage(policy({ mode }));
      const id = scene.ask({ kind: "yield", models: null, confirm: true });
      scene.run(50);
      scene.end(101).run(30);
      assert.equal(scene.value(id, "yield").outcome, "released");
    });
  }
});

Deno.test("paused until a time: auto again by itself, and it is told", () => {
  const scene = stage();
  const untilMs = scene.sampleNow().atMs + 5_000;
  scene.setMode("paused", null, untilMs);
  assert.deepEqual([scene.state.mode, scene.state.modeUntilMs], ["paused", untilMs]);
  scene.run(4_500);
  scene.enqueue(1);
  scene.enqueue(0);
  assert.equal(scene.all("unload").length, 0);
  scene.run(2_000);
  assert.deepEqual([scene.state.mode, scene.state.modeUntilMs], ["auto", null]);
  assert.match(String(scene.recorded("arbitration")["message"]), /auto again/);
  scene.enqueue(1);
  scene.run(20);
  assert.equal(scene.all("unload").length, 1);
});

Deno.test("auto has no end: a time given with it means nothing", () => {
  const scene = stage();
  scene.setMode("auto", null, scene.sampleNow().atMs + 1_000);
  assert.equal(scene.state.modeUntilMs, null);
});

Deno.test("keep can be set with the mode, and null leaves it as it is", () => {
  const scene = stage();
  scene.setMode("auto", ["alpha"]);
  scene.setMode("auto");
  assert.deepEqual(scene.state.keep, ["alpha"]);
  scene.enqueue(1);
  scene.run(20);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("the mode is set while automatic work waits or runs: it asks for nothing more", async (test) => {
  await test.step("waiting behind a named yield", () => {
    const scene = stage().load("beta:latest", 102, gib(2));
    scene.sample();
    scene.ask({ kind: "yield", models: ["beta"], confirm: true });
    scene.run(50);
    scene.enqueue(1);
    assert.equal(scene.state.waiting.length, 1);
    scene.setMode("paused");
    assert.deepEqual([scene.state.waiting.length, scene.state.margin], [0, null]);
    scene.end(102).run(50);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest"]);
    assert.equal(scene.state.isBarrierOpen, false);
  });
  await test.step("opening: called off", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.setMode("observe");
    assert.equal(scene.state.holder, null);
    scene.run(100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("under way: watched to its end, and no further model is asked", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.run(20);
    scene.setMode("paused");
    scene.load("beta:latest", 102, gib(2)).run(400);
    scene.end(101).end(102).run(50);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
    assert.equal(scene.recorded("yield")["outcome"], "released");
  });
  await test.step("a purge that waits for its quiet second: called off", () => {
    const scene = new Scene(policy({ purge: { ...policy().purge, idleMs: 100 } })).holds(200, "comfy", gib(7));
    scene.sample();
    scene.wait(200).sample();
    assert.equal(scene.state.holder?.job.kind, "purge");
    scene.setMode("paused");
    scene.run(3_000);
    assert.equal(scene.all("freeComfy").length, 0);
  });
});
