import assert from "node:assert/strict";
import { initialArbiter } from "../../lib/decide/arbiter_state.ts";
import { viewArbiter } from "../../lib/decide/view.ts";
import type { ArbiterEvent, LoadOutcome } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { comfy, gib, play, policy, row, START_MS } from "./stories.ts";

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

Deno.test("before the first sample nothing is decided: a request is told to come back", () => {
  const scene = new Scene();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  assert.equal(scene.refusal(id).code, "unavailable");
  scene.enqueue(1);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("one job at a time: what comes later waits, first come first served, and each is answered once", () => {
  const scene = stage();
  const first = scene.ask({ kind: "yield", models: ["alpha"], confirm: true });
  const second = scene.ask({ kind: "requestVram", neededBytes: gib(2) });
  const third = switchTo(scene, "beta");
  assert.deepEqual(scene.state.waiting.map((entry) => entry.kind === "request" && entry.request.id), [second, third]);
  const view = viewArbiter(scene.state, (ms) => ms);
  assert.equal(view.lane?.job, "yield");
  assert.deepEqual(view.waiting.map((entry) => entry.kind), ["requestVram", "switch"]);
  assert.match(view.waiting[0]?.reason ?? "", /^behind: /);
  scene.run(50);
  assert.equal(scene.isAnswered(second), false);
  scene.end(101).run(30);
  assert.equal(scene.value(first, "yield").outcome, "released");
  assert.ok(scene.isAnswered(second));
  assert.equal(scene.state.holder?.job.kind, "switch");
  assert.equal(scene.isAnswered(third), false);
});

Deno.test("a second 'unload everything' joins the first: one job, one record, the same answer for both", () => {
  const scene = stage();
  const first = scene.ask({ kind: "yield", models: null, confirm: true });
  const second = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(50);
  const third = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.end(101).run(30);
  assert.equal(scene.all("unload").length, 1);
  assert.equal(scene.all("record").length, 1);
  for (const id of [second, third]) assert.deepEqual(scene.answer(id), scene.answer(first));
});

Deno.test("what asks for something else doesn't join", async (test) => {
  const others: readonly [string, Parameters<Scene["ask"]>[0]][] = [
    ["a named model", { kind: "yield", models: ["alpha"], confirm: true }],
    ["confirm=false", { kind: "yield", models: null, confirm: false }],
  ];
  for (const [name, request] of others) {
    await test.step(name, () => {
      const scene = stage();
      scene.ask({ kind: "yield", models: null, confirm: true });
      scene.ask(request);
      assert.equal(scene.state.waiting.length, 1);
    });
  }
  await test.step("an automatic yield that keeps models", () => {
    const scene = stage(policy({ yield: { keep: ["gamma"] } }));
    scene.enqueue(1);
    scene.ask({ kind: "yield", models: null, confirm: true });
    assert.equal(scene.state.waiting.length, 1);
  });
});

Deno.test("an explicit wish joins an automatic yield of everything, and keeps it going when the mode changes", () => {
  const scene = stage();
  scene.enqueue(1);
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.setMode("paused");
  scene.run(50);
  assert.equal(scene.all("unload").length, 1);
  scene.end(101).run(30);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("cancel while waiting: answered, gone, nothing changed", () => {
  const scene = stage();
  scene.ask({ kind: "yield", models: ["alpha"], confirm: true });
  const id = switchTo(scene, "beta");
  scene.cancel(id);
  assert.equal(scene.refusal(id).code, "cancelled");
  assert.equal(scene.state.waiting.length, 0);
  scene.cancel(id);
  assert.equal(scene.refusal(id).code, "cancelled");
});

Deno.test("cancel of a load hangs up on it and frees the lane at once", () => {
  const scene = new Scene();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.run(500);
  const [load] = scene.all("load");
  scene.cancel(id);
  assert.equal(scene.refusal(id).code, "cancelled");
  const abort = scene.last("abort");
  assert.ok(load !== undefined && load.generation >= abort.generation && load.generation < abort.generation + 16);
  assert.equal(scene.state.holder, null);
  scene.loaded(LOADED);
  assert.equal(scene.all("record").length, 0, "a late result changes nothing");
});

Deno.test("cancel of a yield under way: answered at once, and the lane stays held until the memory's fate is known", () => {
  const scene = stage();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(50);
  scene.cancel(id);
  assert.equal(scene.refusal(id).code, "cancelled");
  const next = switchTo(scene, "beta");
  scene.run(50);
  assert.equal(scene.isAnswered(next), false);
  assert.equal(scene.all("load").length, 0);
  scene.end(101).run(30);
  assert.equal(scene.recorded("yield")["outcome"], "released");
  assert.equal(scene.state.holder?.job.kind, "switch");
});

Deno.test("cancel of a switch while others are being evicted: they go to the end, nothing is loaded for nobody", () => {
  const scene = stage();
  const id = switchTo(scene, "beta");
  scene.run(50);
  scene.cancel(id);
  scene.end(101).run(100);
  assert.equal(scene.refusal(id).code, "cancelled");
  assert.equal(scene.recorded("yield")["outcome"], "released");
  assert.deepEqual([scene.all("load").length, scene.state.holder], [0, null]);
});

Deno.test("cancel of what has done nothing yet drops it", async (test) => {
  await test.step("a yield that is opening", () => {
    const scene = stage();
    const id = scene.ask({ kind: "yield", models: null, confirm: true });
    scene.cancel(id);
    assert.equal(scene.state.holder, null);
    scene.run(100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("a purge in its quiet second", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.run(20);
    scene.end(101).run(30);
    scene.enqueue(0);
    const id = scene.ask({ kind: "purge", confirm: true });
    scene.cancel(id);
    assert.equal(scene.state.holder, null);
    scene.run(2_000);
    assert.equal(scene.all("freeComfy").length, 0);
  });
});

Deno.test("cancel of a yield that a hand-off shares: it goes on for ComfyUI", () => {
  const scene = stage();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.enqueue(1);
  scene.cancel(id);
  assert.equal(scene.refusal(id).code, "cancelled");
  scene.run(50);
  assert.equal(scene.all("unload").length, 1);
  scene.end(101).run(30);
  assert.equal(scene.recorded("yield")["outcome"], "released");
});

Deno.test("cancel of one of two that joined: the other still gets its answer", () => {
  const scene = stage();
  const first = scene.ask({ kind: "yield", models: null, confirm: true });
  const second = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.cancel(first);
  scene.run(50);
  scene.end(101).run(30);
  assert.equal(scene.refusal(first).code, "cancelled");
  assert.equal(scene.value(second, "yield").outcome, "released");
});

Deno.test("cancel of a request that is unknown, or answered, changes nothing", () => {
  const scene = stage();
  const before = scene.state;
  scene.cancel("nobody");
  assert.equal(scene.all("resolve").length, 0);
  assert.deepEqual(scene.state, before);
});

Deno.test("stop: everybody is answered, the barrier closed, what runs is hung up on; afterwards nothing at all", () => {
  const scene = stage();
  const running = switchTo(scene, "beta");
  const waiting = scene.ask({ kind: "purge", confirm: true });
  scene.run(50);
  scene.enqueue(1);
  const before = scene.effects.length;
  scene.send({ type: "stopped" });
  const last = scene.effects.slice(before);
  assert.deepEqual(new Set(last.map((effect) => effect.kind)), new Set(["resolve", "abort", "closeBarrier"]));
  for (const id of [running, waiting]) assert.equal(scene.refusal(id).code, "unavailable");
  const after: readonly ArbiterEvent[] = [
    { type: "sampled", atMs: scene.atMs, sample: scene.sampleNow() },
    { type: "comfyActivity", atMs: scene.atMs, queueRemaining: 0 },
    { type: "comfyActivity", atMs: scene.atMs, queueRemaining: 3 },
    { type: "requested", atMs: scene.atMs, operation: "x", request: { kind: "purge", id: "late", confirm: true } },
    { type: "stopped", atMs: scene.atMs },
  ];
  assert.deepEqual(play(scene.state, after).effects, []);
});

Deno.test("stop with nothing under way asks for nothing", () => {
  const scene = new Scene();
  scene.sample();
  assert.deepEqual(scene.send({ type: "stopped" }), []);
});

Deno.test("events about jobs long gone, servers and cards nobody asked about: nothing happens, nothing throws", () => {
  const state = initialArbiter(policy());
  const events: readonly ArbiterEvent[] = [
    { type: "unloadReplied", atMs: START_MS, generation: 16, model: "alpha:latest", error: null, isUnknown: false },
    { type: "runnersListed", atMs: START_MS, generation: 16, runners: [] },
    { type: "residentListed", atMs: START_MS, generation: 16, resident: null },
    { type: "runnersProbed", atMs: START_MS, generation: 16, probes: [] },
    { type: "freeReplied", atMs: START_MS, generation: 16, reply: { kind: "failed", message: "x" } },
    { type: "loadEnded", atMs: START_MS, generation: 16, outcome: LOADED },
    { type: "woke", atMs: START_MS, generation: 16 },
    { type: "cancelled", atMs: START_MS, requestId: "x" },
  ];
  const { state: after, effects } = play(state, events);
  assert.deepEqual(effects, []);
  assert.deepEqual(after, state);
});

Deno.test("who holds the card, in the view", async (test) => {
  const cases: readonly [string, Scene, string | null][] = [
    ["nobody", new Scene(), null],
    ["hardly anybody", new Scene().holds(200, "comfy", gib(0.05)), null],
    ["Ollama", new Scene().load("alpha:latest", 101), "ollama"],
    ["ComfyUI", new Scene().holds(200, "comfy", gib(4)), "comfyui"],
    ["both", new Scene().load("alpha:latest", 101).holds(200, "comfy", gib(4)), "both"],
  ];
  for (const [name, scene, expected] of cases) {
    await test.step(name, () => {
      scene.sample();
      assert.equal(viewArbiter(scene.state, (ms) => ms).holder, expected);
    });
  }
});

Deno.test("a ComfyUI that goes away takes its queue with it; when it is back with work, that is news", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(50);
  scene.end(101).run(30);
  scene.comfy = comfy({ online: false, reason: "connection refused", queueRemaining: null, executing: null });
  scene.wait(1_000).sample();
  assert.equal(scene.state.comfy.queueRemaining, null);
  scene.load("beta:latest", 102, gib(4));
  scene.comfy = comfy({ queueRemaining: 1, executing: true, server: { pid: 201, startTime: 1 } });
  scene.wait(1_000).sample();
  scene.run(20);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
});

Deno.test("an explicit yield takes kept models, too, when it takes everything", () => {
  const scene = stage(policy({ yield: { keep: ["alpha"] } }));
  scene.ollama = { ...scene.ollama, resident: [row("alpha:latest")] };
  scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(20);
  assert.equal(scene.all("unload").length, 1);
});
