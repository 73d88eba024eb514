import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { blobOf, comfy, gib, installed, ollama, policy, row, runner } from "./stories.ts";

/** An explicit yield of everything, started on a scene whose first sample is in. */
function yieldAll(scene: Scene, more: { models?: readonly string[]; confirm?: boolean } = {}): string {
  scene.sample();
  return scene.ask({ kind: "yield", models: more.models ?? null, confirm: more.confirm ?? true });
}

Deno.test("nothing resident and no runner: nothing_loaded, and nothing is asked of anybody", () => {
  const scene = new Scene();
  const id = yieldAll(scene);
  scene.run(20);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "nothing_loaded");
  assert.equal(result.freedBytes, 0);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("an Ollama that lists nothing because it doesn't answer is not called empty", () => {
  const scene = new Scene();
  const id = yieldAll(scene);
  scene.run(20, { isPsSilent: true });
  assert.equal(scene.value(id, "yield").outcome, "unreachable");
});

Deno.test("an Ollama that is down is unreachable, at once", () => {
  const scene = new Scene();
  scene.ollama = ollama({ online: false, reason: "connection refused" });
  const id = yieldAll(scene);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "unreachable");
  assert.match(result.message, /connection refused/);
});

Deno.test("every unload fails and /api/ps is silent: unreachable", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(400, { unload: "connection refused", isPsSilent: true });
  assert.equal(scene.value(id, "yield").outcome, "unreachable");
});

Deno.test("an Ollama on another host is never asked: unloading there frees nothing here", () => {
  const scene = new Scene();
  scene.ollama = ollama({ isRemote: true, server: null, resident: [row("alpha:latest")] });
  assert.equal(scene.value(yieldAll(scene), "yield").outcome, "remote");
  scene.ollama = ollama({ isRemote: true, server: null });
  assert.equal(scene.value(yieldAll(scene), "yield").outcome, "nothing_loaded");
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("busy: after 600 ms, when the runner's own SM, CPU or word says that it works", async (test) => {
  const cases: readonly [string, Parameters<Scene["run"]>[1], RegExp][] = [
    ["its SM utilisation", { reading: { smPctByPid: { 101: 50 } } }, /SM utilisation is 50 %/],
    ["its own word: busy", { probe: { 101: { activity: "busy" } } }, /answering a request/],
    ["its own word: loading", { probe: { 101: { activity: "loading" } } }, /loading/],
  ];
  for (const [name, how, words] of cases) {
    await test.step(name, () => {
      const scene = new Scene().load("alpha:latest", 101);
      const id = yieldAll(scene);
      scene.run(590, how);
      assert.equal(scene.isAnswered(id), false);
      scene.run(20, how);
      const result = scene.value(id, "yield");
      assert.equal(result.outcome, "busy");
      assert.match(result.held[0]?.evidence ?? "", words);
    });
  }
  await test.step("its CPU time grows by half a core: a spilled model computes there", () => {
    const scene = new Scene().load("alpha:latest", 101);
    const id = yieldAll(scene);
    for (let looks = 0; looks < 4 && !scene.isAnswered(id); looks++) {
      scene.run(250, { probe: { 101: { cpuSeconds: 1 + looks * 0.2 } } });
    }
    const result = scene.value(id, "yield");
    assert.equal(result.outcome, "busy");
    assert.match(result.held[0]?.evidence ?? "", /CPU cores/);
  });
});

Deno.test("a busy runner is not a fault, however long it takes", () => {
  // Unload while it generates: measured 1,367 ms until the generation had ended. A fault here would be a false alarm.
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(8_000, { reading: { smPctByPid: { 101: 90 } } });
  assert.equal(scene.value(id, "yield").outcome, "busy");
});

Deno.test("a busy card with an idle runner is a fault: ComfyUI's load never makes a stuck runner look busy", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(8)).holds(200, "comfy", gib(4));
  const gpu = scene.sampleNow().gpu;
  assert.ok(gpu.available);
  scene.gpu = { ...gpu, reading: { ...gpu.reading, smPctByPid: { 200: 100 }, gpuUtilPct: 100 } };
  const id = yieldAll(scene);
  scene.run(5_990, { reading: { smPctByPid: { 200: 100 } } });
  assert.equal(scene.isAnswered(id), false);
  scene.run(1_100, { reading: { smPctByPid: { 200: 100 } } });
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "fault");
  assert.match(result.message, /pid 101 \(alpha:latest, 8 GB\)/);
  assert.match(result.message, /end that runner alone/);
  assert.equal(scene.recorded("fault")["outcome"], "fault");
});

Deno.test("without utilisation by process the card's own stands in, labelled as a fallback", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  const gpu = scene.sampleNow().gpu;
  assert.ok(gpu.available);
  scene.gpu = { ...gpu, reading: { ...gpu.reading, smPctByPid: null, gpuUtilPct: 97 } };
  scene.sample();
  scene.run(700);
  assert.match(scene.value(id, "yield").held[0]?.evidence ?? "", /97 % busy \(fallback/);
});

Deno.test("the fault's six seconds count from the end of the unload before it", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4)).load("beta:latest", 102, gib(5));
  const id = yieldAll(scene);
  scene.run(4_000);
  scene.end(101).run(5_500);
  assert.equal(scene.isAnswered(id), false, "Ollama unloads one after another");
  scene.run(2_500);
  assert.equal(scene.value(id, "yield").outcome, "fault");
});

Deno.test("memory that nobody holds is no fault of a runner: a timeout at the ceiling, saying so", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const id = yieldAll(scene);
  scene.wait(1).read();
  scene.respond().end(101).run(9_900, { reading: { blindBytes: gib(4) } });
  assert.equal(scene.isAnswered(id), false);
  scene.run(200, { reading: { blindBytes: gib(4) } });
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "timeout");
  assert.match(result.message, /nobody holds/);
});

Deno.test("the ceiling is 10 s and 5 s more for each further model", () => {
  const scene = new Scene(policy({ yield: { faultAfterMs: 60_000 } }));
  scene.load("alpha:latest", 101, gib(4)).load("beta:latest", 102, gib(5));
  const id = yieldAll(scene);
  scene.run(14_900);
  assert.equal(scene.isAnswered(id), false);
  scene.run(200);
  assert.equal(scene.value(id, "yield").outcome, "timeout");
});

Deno.test("a barrier that opens and never gives a reading: unconfirmed at the ceiling", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  for (let second = 0; second < 11 && !scene.isAnswered(id); second++) {
    scene.wait(1_000).send({ type: "woke", generation: scene.last("wakeAt").generation });
    scene.respond();
  }
  assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
});

Deno.test("confirm=false skips the wait and says unconfirmed, even if no reply ever comes", async (test) => {
  await test.step("replied", () => {
    const scene = new Scene().load("alpha:latest", 101);
    const id = yieldAll(scene, { confirm: false });
    scene.run(20);
    assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
    assert.match(scene.value(id, "yield").message, /not waited for/);
  });
  await test.step("never replied", () => {
    const scene = new Scene().load("alpha:latest", 101);
    const id = yieldAll(scene, { confirm: false });
    for (let second = 0; second < 11; second++) {
      scene.wait(1_000).send({ type: "woke", generation: scene.last("wakeAt").generation });
    }
    assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
  });
});

Deno.test("an idle runner that nobody could look at is a timeout, not a fault", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(10_100, { isProbeSilent: true });
  assert.equal(scene.value(id, "yield").outcome, "timeout");
});

Deno.test("an orphan can't be unloaded by asking: a fault that names it and its bytes", () => {
  const scene = new Scene();
  scene.ollama = ollama({ runners: [runner(101, "alpha:latest", { isOrphan: true })] });
  scene.holds(101, "ollama", gib(7));
  const id = yieldAll(scene);
  scene.run(7_200);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "fault");
  assert.match(result.held[0]?.evidence ?? "", /its server is gone/);
  assert.equal(result.held[0]?.bytes, gib(7));
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("a deleted model that is loaded answers 404: asked once more, then a fault that names it as such", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(8_000, { unload: "model 'alpha:latest' not found", isUnknown: true });
  assert.equal(scene.all("unload").length, 2);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "fault");
  assert.match(result.held[0]?.evidence ?? "", /deleted while it was loaded.*model 'alpha:latest' not found/);
});

Deno.test("a refusal that isn't about the name is told in Ollama's own words", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(8_000, { unload: "connection reset" });
  assert.match(scene.value(id, "yield").held[0]?.evidence ?? "", /refused to unload it: connection reset/);
});

Deno.test("a deleted model whose weights are installed under another name goes by that name", () => {
  const scene = new Scene().load("alpha:latest", 101);
  scene.ollama = {
    ...scene.ollama,
    installed: [installed("other:latest", { digest: "digest-other" })],
    blobsByDigest: { "digest-alpha:latest": [blobOf("alpha:latest")], "digest-other": [blobOf("alpha:latest")] },
  };
  const id = yieldAll(scene);
  scene.run(300, { unload: (model) => model === "alpha:latest" ? "model 'alpha' not found" : null, isUnknown: true });
  assert.deepEqual(scene.all("unload").map(({ model }) => model), ["alpha:latest", "other:latest"]);
  scene.end(101).run(100);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "released");
  assert.deepEqual(result.models, ["alpha:latest"], "it is still called what it was loaded as");
});

Deno.test("wake-ups of jobs long gone don't multiply the looks", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(1_000);
  const before = scene.all("listRunners").length;
  for (let count = 0; count < 50; count++) scene.send({ type: "woke", generation: 7 });
  assert.equal(scene.all("listRunners").length, before);
  scene.run(3_000);
  assert.ok(scene.all("listRunners").length <= before + 4, "one look a second");
  assert.equal(scene.isAnswered(id), false);
});

Deno.test("ComfyUI's state has no say in an explicit yield", () => {
  const scene = new Scene().load("alpha:latest", 101);
  scene.comfy = comfy({ online: false, server: null, queueRemaining: null, executing: null });
  const id = yieldAll(scene);
  scene.run(50);
  scene.end(101).run(20);
  assert.equal(scene.value(id, "yield").outcome, "released");
});
