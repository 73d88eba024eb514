import assert from "node:assert/strict";
import type { FreeReply, LoadOutcome } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { absent, gib, ollama, policy, row, runner } from "./stories.ts";

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
  assert.equal(result.class, "ram_hit", "what was evicted before the load is no part of its time");
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
  await test.step("what is kept can't make room for it", () => {
    const given = policy({ mode: "paused", needs: { alpha: gib(5) }, yield: { keep: ["beta"] } });
    const scene = staged(given).holds(200, "comfy", gib(6)).load("beta:latest", 102, gib(7));
    scene.sample();
    scene.enqueue(1);
    assert.equal(scene.refusal(switchTo(scene, "alpha")).code, "busy");
  });
  await test.step("the others have gone, but somebody else took their room", () => {
    const scene = staged(policy({ mode: "paused", needs: { alpha: gib(5) } })).holds(200, "comfy", gib(6));
    scene.load("beta:latest", 102, gib(7)).sample();
    scene.enqueue(1);
    const id = switchTo(scene, "alpha");
    scene.run(100);
    scene.end(102).holds(300, "unmanaged", gib(7)).run(30);
    assert.equal(scene.refusal(id).code, "busy", "waiting for ComfyUI helps");
    assert.equal(scene.all("freeComfy").length, 0);
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

Deno.test("who holds the rest is named largest first", () => {
  const scene = staged(policy({ needs: { alpha: gib(14) } })).holds(300, "desktop", gib(0.3), "Xorg");
  scene.holds(301, "unmanaged", gib(4.2), "whisper").holds(302, "unmanaged", null, "mystery").sample();
  const refusal = scene.refusal(switchTo(scene, "alpha"));
  assert.match(refusal.message, /unmanaged 4\.2 GB .*desktop 0\.3 GB/);
  assert.match(refusal.message, /pid 302 mystery unknown GB/);
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
    scene.sample();
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
    scene.sample();
    assert.equal(scene.refusal(id).code, "wont_fit");
  });
  await test.step("listed is no reason to skip that: its runner had crashed", () => {
    const scene = staged().holds(200, "comfy", gib(7));
    scene.ollama = ollama({ resident: [row("alpha:latest")] });
    scene.sample();
    switchTo(scene, "alpha");
    scene.loaded(OUT_OF_MEMORY);
    assert.deepEqual([scene.all("load").length, scene.all("freeComfy").length], [1, 1]);
  });
  await test.step("nothing can be reclaimed: 507 by the next sample, no pointless retry, and no runner that has died", () => {
    const scene = staged().holds(300, "unmanaged", gib(14), "trainer");
    scene.sample();
    const id = switchTo(scene, "alpha");
    scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
    scene.holds(101, "ollama", gib(1.5)).sample();
    scene.ollama = ollama();
    scene.loaded(OUT_OF_MEMORY);
    assert.ok(!scene.isAnswered(id), "the last sample still shows what has just died");
    scene.sample();
    assert.doesNotMatch(scene.refusal(id).message, /pid 101/);
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
