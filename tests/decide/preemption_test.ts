import assert from "node:assert/strict";
import type { FreeReply, LoadOutcome } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { gib, ollama, policy, runner } from "./stories.ts";

const LOADED: LoadOutcome = {
  ok: true,
  reply: { loadDurationMs: 3_000, totalDurationMs: 3_100, tokensPerSecond: null, response: "A" },
};

function stage(given = policy()): Scene {
  const scene = new Scene(given).load("alpha:latest", 101, gib(8)).holds(200, "comfy", gib(4));
  scene.sample();
  scene.wait(2_000);
  return scene;
}

function switchTo(scene: Scene, model: string): string {
  return scene.ask({ kind: "switch", model, keepAlive: "30m", prompt: null });
}

function sent(scene: Scene): FreeReply {
  return { kind: "sent", requestMs: 2, sentAtMs: scene.atMs };
}

Deno.test("ComfyUI's enqueue preempts a load of ours: hung up on, answered 409, and its yield starts at once", () => {
  const scene = new Scene().holds(200, "comfy", gib(0.8));
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
  scene.holds(101, "ollama", gib(3)).run(500);
  scene.enqueue(1);
  assert.equal(scene.all("abort").length, 1);
  assert.equal(scene.refusal(id).code, "busy");
  assert.equal(scene.state.holder?.job.kind, "yield");
  // Hanging up cancels the load: its child is gone at Ollama's next step.
  scene.run(200);
  scene.end(101).run(300);
  assert.equal(scene.recorded("yield")["outcome"], "released");
  scene.cancel(id);
  assert.equal(scene.refusal(id).code, "busy", "still its only answer");
});

Deno.test("ComfyUI's enqueue while a switch waits out the 2 s, or reads back what it loaded", async (test) => {
  await test.step("waits", () => {
    const scene = stage(policy({ needs: { beta: gib(3) } }));
    scene.enqueue(1);
    scene.run(50);
    scene.end(101).run(30);
    const id = switchTo(scene, "beta");
    scene.enqueue(0);
    scene.enqueue(1);
    assert.equal(scene.refusal(id).code, "busy");
    assert.equal(scene.all("load").length, 0);
  });
  await test.step("reads back: it was loaded, and that is the answer", () => {
    const scene = new Scene().holds(200, "comfy", gib(0.8));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.load("alpha:latest", 101, gib(9));
    scene.loaded(LOADED);
    scene.enqueue(1);
    assert.equal(scene.value(id, "switch").loadMs, 3_000);
    scene.run(50);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
  });
});

Deno.test("ComfyUI's enqueue while a switch evicts others: they go, and then ComfyUI goes first", () => {
  const scene = stage(policy({ needs: { beta: gib(8) } }));
  const id = switchTo(scene, "beta");
  scene.run(50);
  scene.enqueue(1);
  assert.equal(scene.isAnswered(id), false);
  scene.end(101).run(30);
  assert.equal(scene.refusal(id).code, "busy");
  assert.equal(scene.all("load").length, 0);
  assert.equal(scene.recorded("yield")["outcome"], "released");
});

Deno.test("ComfyUI's enqueue preempts a purge, and the yield that it needs starts in the same moment", () => {
  const scene = stage();
  const id = scene.ask({ kind: "purge", confirm: true });
  scene.run(90);
  scene.enqueue(1);
  assert.equal(scene.value(id, "purge").outcome, "busy");
  assert.equal(scene.state.holder?.job.kind, "yield");
  scene.run(20);
  assert.equal(scene.all("unload").length, 1);
});

Deno.test("ComfyUI's enqueue preempts the purge inside a switch", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  scene.wait(2_000);
  const id = switchTo(scene, "alpha");
  assert.equal(scene.all("freeComfy").length, 1);
  scene.freed(sent(scene));
  scene.run(100);
  scene.enqueue(1);
  assert.equal(scene.refusal(id).code, "busy");
  assert.equal(scene.recorded("purge")["purge_overlapped"], true);
  assert.equal(scene.all("load").length, 0);
});

Deno.test("the automatic yield goes to the front of what waits", () => {
  const scene = stage().load("beta:latest", 102, gib(2));
  scene.sample();
  scene.ask({ kind: "yield", models: ["beta"], confirm: true });
  const later = switchTo(scene, "gamma");
  scene.run(20);
  scene.enqueue(1);
  assert.deepEqual(scene.state.waiting.map((entry) => entry.kind), ["auto", "request"]);
  scene.end(102).run(50);
  assert.equal(scene.state.holder?.job.cause.kind, "comfy_enqueued");
  scene.end(101).run(50);
  assert.equal(scene.refusal(later).code, "busy", "ComfyUI executes, and what gamma needs is unknown");
});
