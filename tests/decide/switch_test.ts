import assert from "node:assert/strict";
import type { FreeReply, LoadOutcome } from "../../lib/model/events.ts";
import { absent, comfy, gib, installed, ollama, policy, row, runner, Scene } from "./stories.ts";

const OUT_OF_MEMORY: LoadOutcome = {
  ok: false,
  message: "llama runner process has terminated: cudaMalloc failed: out of memory",
  isOutOfMemory: true,
  isUnknownModel: false,
};

function ok(loadDurationMs: number | null = 3_700): LoadOutcome {
  return { ok: true, reply: { loadDurationMs, totalDurationMs: 4_000, tokensPerSecond: null, response: "A" } };
}

function sent(scene: Scene): FreeReply {
  return { kind: "sent", requestMs: 2, sentAtMs: scene.atMs };
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
  assert.deepEqual(scene.state.footprints["alpha:latest"], [gib(10.6)]);
});

Deno.test("fits beside the others, by what it is said to need: they stay", () => {
  const scene = staged(policy({ needs: { "alpha:latest": gib(5) } })).load("beta:latest", 102, gib(6));
  scene.sample();
  switchTo(scene, "alpha");
  assert.equal(scene.all("unload").length, 0);
  assert.equal(scene.all("load").length, 1);
});

Deno.test("it doesn't fit: the others not kept go first, confirmed, and then it is loaded", () => {
  const scene = staged(policy({ yield: { keep: ["gamma"] }, needs: { alpha: gib(8) } }));
  scene.load("beta:latest", 102, gib(6)).load("gamma:latest", 103, gib(3)).sample();
  const id = switchTo(scene, "alpha");
  scene.run(100);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest"]);
  assert.equal(scene.all("load").length, 0, "the unload's reply is no release");
  scene.end(102).run(30);
  assert.equal(scene.all("load").length, 1);
  scene.load("alpha:latest", 101, gib(7));
  scene.loaded(ok());
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.equal(result.yielded?.outcome, "released");
  assert.equal(result.prevModel, "beta:latest");
  assert.equal(scene.recorded("yield")["cause"], "switch");
});

Deno.test("an unknown need counts as all of the card: others go, an idle ComfyUI is reclaimed, then the load", () => {
  const scene = staged().load("beta:latest", 102, gib(4)).holds(200, "comfy", gib(7));
  scene.sample();
  const id = switchTo(scene, "alpha");
  scene.run(100);
  scene.end(102).run(30);
  assert.equal(scene.all("freeComfy").length, 1);
  assert.equal(scene.all("load").length, 0);
  scene.run(100).freed(sent(scene));
  scene.holds(200, "comfy", gib(0.8)).run(300);
  scene.load("alpha:latest", 101, gib(12));
  scene.loaded(ok());
  scene.run(20);
  const result = scene.value(id, "switch");
  assert.equal(result.reclaimedBytes, gib(7) - gib(0.8));
  assert.deepEqual([result.yielded?.outcome, result.purged?.outcome], ["released", "released"]);
  assert.deepEqual(scene.all("record").map((effect) => effect.item.kind), ["yield", "purge", "swap"]);
});

Deno.test("a ComfyUI that holds its bare context has nothing to give: loaded without a purge", () => {
  const scene = staged().holds(200, "comfy", gib(0.8));
  scene.sample();
  switchTo(scene, "alpha");
  assert.deepEqual([scene.all("freeComfy").length, scene.all("load").length], [0, 1]);
});

Deno.test("ComfyUI executes and it doesn't fit: 409, nothing touched", async (test) => {
  const busy = (given = policy()) => {
    const scene = staged(given).holds(200, "comfy", gib(9));
    scene.sample();
    scene.enqueue(1);
    scene.run(20);
    return scene;
  };
  await test.step("unknown need", () => {
    const scene = busy();
    const refusal = scene.refusal(switchTo(scene, "alpha"));
    assert.equal(refusal.code, "busy");
    assert.match(refusal.message, /not known yet/);
    assert.deepEqual([scene.all("unload").length, scene.all("load").length], [0, 0]);
  });
  await test.step("known need", () => {
    const scene = busy(policy({ needs: { alpha: gib(9) } }));
    assert.equal(scene.refusal(switchTo(scene, "alpha")).details?.["needed_gb"], 9);
  });
  await test.step("but what is known to fit beside it is loaded", () => {
    const scene = busy(policy({ needs: { alpha: gib(5) } }));
    switchTo(scene, "alpha");
    assert.equal(scene.all("load").length, 1);
  });
  await test.step("or fits once the other models have gone", () => {
    const scene = staged(policy({ mode: "paused", needs: { alpha: gib(5) } })).holds(200, "comfy", gib(6));
    scene.load("beta:latest", 102, gib(7)).sample();
    scene.enqueue(1);
    const id = switchTo(scene, "alpha");
    scene.run(100);
    scene.end(102).run(30);
    assert.equal(scene.all("load").length, 1);
    assert.equal(scene.isAnswered(id), false);
    assert.equal(scene.all("freeComfy").length, 0);
  });
});

Deno.test("it can't fit: 507 that names who holds the rest, in GB", () => {
  const scene = staged(policy({ needs: { alpha: gib(14) } })).holds(300, "unmanaged", gib(4.2), "whisper");
  scene.sample();
  const refusal = scene.refusal(switchTo(scene, "alpha"));
  assert.equal(refusal.code, "wont_fit");
  assert.match(refusal.message, /unmanaged 4.2 GB \(pid 300 whisper 4.2 GB\)/);
  assert.equal(refusal.details?.["needed_gb"], 14);
  assert.match(refusal.hint ?? "", /can't be given back/);
  assert.equal(scene.all("load").length, 0);
});

Deno.test("kept models are named, too, when they are what doesn't leave room", () => {
  const scene = staged(policy({ yield: { keep: ["beta"] }, needs: { alpha: gib(10) } })).load(
    "beta:latest",
    102,
    gib(9),
  );
  scene.sample();
  const refusal = scene.refusal(switchTo(scene, "alpha"));
  assert.equal(refusal.code, "wont_fit");
  assert.match(refusal.message, /ollama 9 GB/);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("out of memory: reclaim, then exactly one retry", async (test) => {
  const refused = () => {
    const scene = staged(policy({ needs: { alpha: gib(5) } })).holds(200, "comfy", gib(7));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.run(800, { stepMs: 100 });
    scene.loaded(OUT_OF_MEMORY);
    return { scene, id };
  };
  await test.step("the retry fits: measured, a model that was refused loads once 6.83 GB are reclaimed", () => {
    const { scene, id } = refused();
    assert.equal(scene.all("freeComfy").length, 1);
    scene.freed(sent(scene));
    scene.run(1_200);
    scene.holds(200, "comfy", gib(0.8)).run(300);
    assert.equal(scene.all("load").length, 2);
    scene.load("alpha:latest", 101, gib(5));
    scene.loaded(ok());
    scene.run(20);
    assert.equal(scene.value(id, "switch").retried, true);
  });
  await test.step("the retry doesn't fit either: 507, no third", () => {
    const { scene, id } = refused();
    scene.run(100).freed(sent(scene));
    scene.holds(200, "comfy", gib(0.8)).run(300);
    scene.loaded(OUT_OF_MEMORY);
    assert.equal(scene.refusal(id).code, "wont_fit");
    scene.run(1_000);
    assert.equal(scene.all("load").length, 2);
  });
  await test.step("other models are evicted first, though the need was said to fit", () => {
    const scene = staged(policy({ needs: { alpha: gib(2) } })).load("beta:latest", 102, gib(4));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.loaded(OUT_OF_MEMORY);
    scene.run(100);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest"]);
    scene.end(102).run(30);
    assert.equal(scene.all("load").length, 2);
    scene.loaded(OUT_OF_MEMORY);
    assert.equal(scene.refusal(id).code, "wont_fit");
  });
  await test.step("nothing can be reclaimed: 507 at once, no pointless retry", () => {
    const scene = staged().holds(300, "unmanaged", gib(14), "trainer");
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.loaded(OUT_OF_MEMORY);
    assert.equal(scene.refusal(id).code, "wont_fit");
    assert.match(scene.refusal(id).message, /trainer/);
    assert.equal(scene.all("load").length, 1);
  });
  await test.step("ComfyUI executes by then: 409, since waiting helps", () => {
    const scene = staged(policy({ mode: "paused", needs: { alpha: gib(5) } })).holds(200, "comfy", gib(7));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.enqueue(1);
    scene.loaded(OUT_OF_MEMORY);
    assert.equal(scene.refusal(id).code, "busy");
    assert.equal(scene.all("freeComfy").length, 0);
  });
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

Deno.test("the others can't be made to go: the switch is refused with their reason, and what was done is recorded", async (test) => {
  await test.step("busy", () => {
    const scene = staged().load("beta:latest", 102, gib(9));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.run(650, { probe: { 102: { activity: "busy" } } });
    assert.equal(scene.refusal(id).code, "busy");
    assert.equal(scene.recorded("yield")["outcome"], "busy");
    assert.deepEqual(scene.state.watched.map((entry) => entry.process.pid), [102]);
    assert.equal(scene.all("load").length, 0);
  });
  await test.step("stuck", () => {
    const scene = staged().load("beta:latest", 102, gib(9));
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.run(8_000);
    assert.equal(scene.refusal(id).code, "unavailable");
    assert.equal(scene.refusal(id).details?.["outcome"], "fault");
  });
  await test.step("unconfirmed, and the configuration says to hold then", () => {
    const scene = staged(policy({ proceedUnconfirmed: false })).load("beta:latest", 102, gib(9));
    scene.gpu = absent();
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.run(50);
    scene.end(102).run(400);
    assert.equal(scene.refusal(id).code, "unavailable");
  });
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
