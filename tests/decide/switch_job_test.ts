import assert from "node:assert/strict";
import type { LoadOutcome } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { absent, comfy, gib, installed, ollama, policy, row, runner } from "./stories.ts";

const OUT_OF_MEMORY: LoadOutcome = {
  ok: false,
  message: "llama runner process has terminated: cudaMalloc failed: out of memory",
  isOutOfMemory: true,
  isUnknownModel: false,
};

function ok(loadDurationMs: number | null = 3_700): LoadOutcome {
  return { ok: true, reply: { loadDurationMs, totalDurationMs: 4_000, tokensPerSecond: null, response: "A" } };
}

function switchTo(scene: Scene, model: string): string {
  return scene.ask({ kind: "switch", model, keepAlive: "30m", prompt: null });
}

function staged(given = policy()): Scene {
  const scene = new Scene(given);
  scene.sample();
  scene.wait(2_000);
  return scene;
}

Deno.test("nothing is there: loaded at once by a one-token request, read back and classified", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  assert.deepEqual(scene.last("load").request, { model: "alpha", keepAlive: "30m", prompt: null });
  scene.load("alpha:latest", 101, gib(10.6)).run(3_700, { stepMs: 100 });
  scene.loaded(ok(3_700));
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.deepEqual([result.targetModel, result.prevModel, result.alreadyResident], ["alpha:latest", null, false]);
  assert.equal(result.vramBytes, gib(10.6));
  assert.equal(result.spilled, false);
  assert.equal(result.class, "ram_hit");
  assert.equal(result.retried, false);
  assert.equal(scene.recorded("swap")["load_ms"], 3_700);
  assert.deepEqual(scene.state.footprints["alpha:latest"]?.map(({ peakBytes }) => peakBytes), [gib(10.6)]);
});

Deno.test("a reading made before the load had ended is no look at what was loaded", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.load("alpha:latest", 101, gib(4)).run(3_700, { stepMs: 100 });
  scene.loaded(ok(3_700));
  scene.respond();
  // It waited in the mailbox behind the reply.
  scene.atMs -= 18;
  scene.read();
  scene.atMs += 18;
  assert.equal(scene.isAnswered(id), false);
  scene.holds(101, "ollama", gib(10.6));
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.equal(result.vramBytes, gib(10.6));
  assert.ok((result.phases.readBackMs ?? -1) >= 0, `${result.phases.readBackMs} ms`);
});

Deno.test("a failure that isn't memory is not retried", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.loaded({
    ok: false,
    message: "error loading model: missing tensor",
    isOutOfMemory: false,
    isUnknownModel: false,
  });
  assert.equal(scene.refusal(id).code, "upstream");
  assert.match(scene.refusal(id).message, /missing tensor/);
  assert.equal(scene.all("load").length, 1);
});

Deno.test("an unknown model: 404 with a did-you-mean, by the list or by Ollama's own word", async (test) => {
  await test.step("by the list", () => {
    const scene = staged();
    scene.sample();
    const refusal = scene.refusal(switchTo(scene, "alhpa"));
    assert.equal(refusal.code, "not_found");
    assert.match(refusal.hint ?? "", /Did you mean 'alpha:latest'/);
    assert.equal(scene.all("load").length, 0);
  });
  await test.step("by Ollama", () => {
    const scene = staged();
    scene.sample();
    const id = switchTo(scene, "beta");
    scene.loaded({ ok: false, message: "model 'beta' not found", isOutOfMemory: false, isUnknownModel: true });
    assert.equal(scene.refusal(id).code, "not_found");
  });
  await test.step("nothing close", () => {
    const scene = staged();
    scene.sample();
    assert.match(scene.refusal(switchTo(scene, "zzzzzzzzzz")).hint ?? "", /lists what is installed/);
  });
});

Deno.test("already resident: nothing is evicted or claimed to be loaded, its time is only prolonged", () => {
  const scene = staged().load("alpha:latest", 101, gib(12));
  scene.sample();
  const id = switchTo(scene, "alpha");
  assert.deepEqual([scene.all("unload").length, scene.all("load").length], [0, 1]);
  scene.loaded(ok(5));
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.equal(result.alreadyResident, true);
  assert.equal(result.loadMs, null);
  assert.equal(result.verdict, "Already resident");
});

Deno.test("listed, but its runner had crashed: Ollama really loaded it, and that is what is said", () => {
  const scene = staged();
  scene.ollama = ollama({ resident: [row("alpha:latest")] });
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.load("alpha:latest", 101, gib(10));
  scene.loaded(ok(2_500));
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.deepEqual([result.alreadyResident, result.loadMs], [false, 2_500]);
});

Deno.test("Ollama is down: unavailable, with the way out", () => {
  const scene = staged();
  scene.ollama = ollama({ online: false, reason: "connection refused" });
  scene.sample();
  const refusal = scene.refusal(switchTo(scene, "alpha"));
  assert.equal(refusal.code, "unavailable");
  assert.match(refusal.hint ?? "", /Start Ollama/);
});

Deno.test("loser-out: after a hand-off a load of ours waits 2 s, then looks again before it loads", () => {
  const scene = staged(policy({ needs: { comfyui: gib(15), alpha: gib(5) } })).load("beta:latest", 102, gib(9));
  scene.sample();
  scene.enqueue(1);
  scene.run(100);
  scene.end(102).run(30);
  assert.equal(scene.recorded("yield")["outcome"], "released");
  const id = switchTo(scene, "alpha");
  assert.equal(scene.all("load").length, 0);
  assert.equal(scene.last("wakeAt").atMs, scene.state.loserOutUntilMs);
  // Within these two seconds ComfyUI takes what had looked free.
  scene.holds(200, "comfy", gib(13)).run(2_100);
  assert.equal(scene.refusal(id).code, "busy");
  assert.equal(scene.all("load").length, 0);
});

Deno.test("loser-out: that look is the newest there is, also when nothing streams any more", () => {
  const scene = staged(policy({ needs: { comfyui: gib(15), alpha: gib(5) } })).load("beta:latest", 102, gib(9));
  scene.holds(200, "comfy", gib(0.8)).sample();
  scene.enqueue(1);
  scene.run(100);
  scene.end(102).run(30);
  const id = switchTo(scene, "alpha");
  scene.holds(200, "comfy", gib(1)).run(20);
  assert.equal(scene.state.isBarrierOpen, false, "its first allocation was all that was watched for");
  scene.holds(200, "comfy", gib(13)).run(2_100);
  assert.equal(scene.refusal(id).code, "busy");
});

Deno.test("the end of somebody else's load isn't taken for this one's", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.send({ type: "loadEnded", generation: scene.last("load").generation - 1, outcome: OUT_OF_MEMORY });
  scene.send({ type: "loadEnded", generation: scene.last("load").generation + 1, outcome: ok() });
  assert.equal(scene.isAnswered(id), false);
});

Deno.test("a runner that the driver doesn't list has unknown VRAM, not 0", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.ollama = { ...scene.ollama, resident: [row("alpha:latest")], runners: [runner(101, "alpha:latest")] };
  scene.loaded(ok());
  scene.run(520);
  assert.equal(scene.value(id, "switch").vramBytes, null);
});

Deno.test("loser-out: what still fits then is loaded", () => {
  const scene = staged(policy({ needs: { comfyui: gib(15), alpha: gib(5) } })).load("beta:latest", 102, gib(9));
  scene.sample();
  scene.enqueue(1);
  scene.run(100);
  scene.end(102).run(30);
  switchTo(scene, "alpha");
  scene.run(1_900);
  assert.equal(scene.all("load").length, 0);
  scene.run(200);
  assert.equal(scene.all("load").length, 1);
});

Deno.test("a load that hangs for ever is hung up on", () => {
  const { load } = policy();
  const scene = staged(policy({ load: { ...load, deadlineMs: 20_000 } }));
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.run(20_900, { stepMs: 100 });
  assert.equal(scene.isAnswered(id), false);
  scene.run(200, { stepMs: 100 });
  assert.equal(scene.refusal(id).code, "upstream");
  assert.equal(scene.all("abort").length, 1);
  assert.equal(scene.state.holder, null);
});

Deno.test("nothing streams from the driver while a load takes its seconds", () => {
  const scene = staged().load("beta:latest", 102, gib(9));
  scene.sample();
  switchTo(scene, "alpha");
  scene.run(100);
  scene.end(102).run(30);
  assert.equal(scene.all("load").length, 1);
  assert.equal(scene.state.isBarrierOpen, false);
  scene.load("alpha:latest", 101, gib(9));
  scene.loaded(ok());
  assert.equal(scene.state.isBarrierOpen, true);
});

Deno.test("a spilled load is told, and teaches no footprint", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  // Measured: size_vram 5.46 of size 10.73 GB, without an error.
  scene.load("alpha:latest", 101, gib(5), { sizeBytes: 10.73e9, sizeVramBytes: 5.46e9 });
  scene.loaded(ok());
  scene.run(20);
  assert.equal(scene.value(id, "switch").spilled, true);
  assert.deepEqual(scene.state.footprints, {});
});

Deno.test("without a card size_vram proves nothing (AMX): spilled and VRAM stay unknown", () => {
  const scene = staged();
  scene.gpu = absent();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.load("alpha:latest", 101, 0, { sizeBytes: 1e9, sizeVramBytes: 0.85e9 });
  scene.loaded(ok());
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.deepEqual([result.spilled, result.vramBytes], [null, null]);
});

Deno.test("a load during which Ollama evicted a model by itself is not classified by its time", async (test) => {
  const load = (isPsSilent: boolean) => {
    const scene = staged(policy({ needs: { alpha: gib(2) } })).load("beta:latest", 102, gib(9));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.end(102).load("alpha:latest", 101, gib(9));
    scene.loaded(ok(30_000));
    scene.run(600, { isPsSilent });
    return scene.value(id, "switch");
  };
  await test.step("seen in /api/ps", () => {
    const result = load(false);
    assert.equal(result.class, "unclassified");
    assert.match(result.classBasis, /eviction/);
  });
  await test.step("/api/ps was silent: nothing is made up", () => assert.equal(load(true).class, "cold"));
});

Deno.test("reading back what was loaded takes half a second at most", () => {
  const scene = staged();
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.loaded(ok());
  scene.run(490);
  assert.equal(scene.isAnswered(id), false);
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.deepEqual([result.vramBytes, result.spilled], [null, null]);
});

Deno.test("two runners: the bytes are those of the one that was asked for", () => {
  const scene = staged(policy({ needs: { alpha: gib(2) } })).load("beta:latest", 102, gib(6));
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.load("alpha:latest", 101, gib(3));
  scene.loaded(ok());
  scene.run(20);
  assert.equal(scene.value(id, "switch").vramBytes, gib(3));
});

Deno.test("a loading runner of the very model that is asked for is no other to evict", () => {
  const scene = staged();
  scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
  scene.holds(101, "ollama", gib(2)).sample();
  switchTo(scene, "alpha");
  assert.equal(scene.all("load").length, 1);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("nothing is installed as far as is known: Ollama is asked", () => {
  const scene = staged();
  scene.ollama = ollama({ installed: [] });
  scene.sample();
  switchTo(scene, "whatever");
  assert.equal(scene.all("load").length, 1);
});

Deno.test("a remote Ollama's model is loaded there, whatever is on this card", () => {
  const scene = staged().holds(200, "comfy", gib(0.5));
  scene.ollama = ollama({
    isRemote: true,
    server: null,
    resident: [row("beta:latest")],
    installed: [installed("alpha:latest")],
  });
  scene.comfy = comfy();
  scene.sample();
  switchTo(scene, "alpha");
  scene.run(20);
  assert.equal(scene.all("load").length, 1);
  assert.equal(scene.all("unload").length, 0);
});
