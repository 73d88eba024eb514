import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, ollama, policy, row, runner } from "./stories.ts";

/** A model of 10 GiB resident, ComfyUI idle with its context. */
function stage(given = policy()): Scene {
  const scene = new Scene(given).load("alpha:latest", 101, gib(10)).holds(200, "comfy", gib(0.8));
  scene.sample();
  return scene;
}

Deno.test("a detached watcher: what an automatic yield left loading is unloaded only while ComfyUI still works", async (test) => {
  const leave = () => {
    const scene = new Scene();
    scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
    scene.holds(101, "ollama", gib(6)).sample();
    scene.enqueue(1);
    scene.run(700);
    assert.equal(scene.recorded("yield")["outcome"], "busy");
    assert.deepEqual(scene.state.watched.map((entry) => entry.process.pid), [101]);
    scene.ollama = { ...scene.ollama, resident: [row("alpha:latest")] };
    return scene;
  };
  await test.step("it works", () => {
    const scene = leave();
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 1);
    scene.run(900);
    assert.equal(scene.all("unload").length, 1, "asked once");
  });
  await test.step("it stays: asked again after 2, 8 and 30 s, as long as ComfyUI works", () => {
    const scene = leave();
    const askedMs: number[] = [];
    for (let ms = 0; ms < 80_000; ms += 100) {
      const before = scene.all("unload").length;
      scene.run(100, { stepMs: 100 });
      if (scene.all("unload").length > before) askedMs.push(scene.atMs);
    }
    const pauses = askedMs.map((atMs, at) => Math.round((atMs - (askedMs[at - 1] ?? atMs)) / 1_000));
    assert.deepEqual(pauses, [0, 2, 8, 30, 30]);
    scene.enqueue(0);
    scene.run(40_000, { stepMs: 100 });
    assert.equal(scene.all("unload").length, 5);
  });
  await test.step("its work is done", () => {
    const scene = leave();
    scene.enqueue(0);
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("paused meanwhile", () => {
    const scene = leave();
    scene.setMode("paused");
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("it is kept by now", () => {
    const scene = leave();
    scene.setMode("auto", ["alpha"]);
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 0);
  });
});

Deno.test("a watched runner hasn't let go because it holds nothing yet, or because /proc can't be read", () => {
  const scene = new Scene();
  scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
  scene.sample();
  scene.enqueue(1);
  scene.run(1_700);
  assert.equal(scene.recorded("yield")["outcome"], "busy");
  assert.equal(scene.state.watched.length, 1, "it is about to take memory");
  scene.isProcOk = false;
  scene.ollama = { ...scene.ollama, runners: [] };
  scene.run(1_100);
  assert.equal(scene.state.watched.length, 1);
  scene.isProcOk = true;
  scene.run(1_100);
  assert.equal(scene.state.watched.length, 0);
});

Deno.test("a runner that outlives many yields is watched once, and its release told once", () => {
  const scene = stage();
  for (let prompts = 0; prompts < 5; prompts++) {
    scene.enqueue(1);
    scene.run(620, { reading: { smPctByPid: { 101: 90 } } });
    scene.run(20);
    scene.enqueue(0);
    scene.run(20);
  }
  assert.equal(scene.state.watched.length, 1);
  const before = scene.all("amend").length;
  scene.end(101).run(2_000);
  const told = scene.all("amend").slice(before).filter((effect) => "released_later_ms" in effect.fields);
  assert.equal(told.length, 1);
  assert.equal(scene.state.watched.length, 0);
});
