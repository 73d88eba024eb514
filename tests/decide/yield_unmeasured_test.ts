import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { absent, gib, ollama, row, runner } from "./stories.ts";

/** An explicit yield of everything, started on a scene whose first sample is in. */
function yieldAll(scene: Scene, more: { models?: readonly string[]; confirm?: boolean } = {}): string {
  scene.sample();
  return scene.ask({ kind: "yield", models: more.models ?? null, confirm: more.confirm ?? true });
}

Deno.test("a target without bytes: unconfirmed, once Ollama lists nothing any more", () => {
  const scene = new Scene().load("alpha:latest", 101, null);
  const id = yieldAll(scene);
  scene.run(100, { reading: { blindBytes: gib(9) } });
  assert.equal(scene.isAnswered(id), false);
  scene.end(101).run(300);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "unconfirmed");
  assert.equal(result.freedBytes, null);
  assert.equal(result.confirmMs, null);
});

Deno.test("a pid the driver doesn't list although Ollama claims VRAM (a container): unconfirmed, never released", () => {
  const scene = new Scene();
  scene.ollama = ollama({ resident: [row("alpha:latest")], runners: [runner(101, "alpha:latest")] });
  const id = yieldAll(scene);
  scene.run(100);
  scene.end(101).run(300);
  assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
});

Deno.test("AMX: size_vram > 0 on a machine without a GPU is no proof: unconfirmed", () => {
  const scene = new Scene().load("alpha:latest", 101, 0);
  scene.gpu = absent();
  const id = yieldAll(scene);
  scene.run(100);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
  scene.end(101).run(300);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "unconfirmed");
  assert.match(result.message, /the card is absent/);
  assert.equal(scene.all("openBarrier").length, 0);
});

Deno.test("a model that lies wholly in RAM holds nothing on the card: released with 0 bytes", () => {
  const scene = new Scene();
  scene.ollama = ollama({
    resident: [row("alpha:latest", { sizeVramBytes: 0 })],
    runners: [runner(101, "alpha:latest")],
  });
  const id = yieldAll(scene);
  scene.run(50);
  const result = scene.value(id, "yield");
  assert.deepEqual([result.outcome, result.freedBytes], ["released", 0]);
});

Deno.test("the driver gives no memory and no list (MIG): unconfirmed, never released", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const gpu = scene.sampleNow().gpu;
  assert.ok(gpu.available);
  scene.gpu = {
    ...gpu,
    reading: { ...gpu.reading, memory: null, processes: null },
    breakdown: { ...gpu.breakdown, ollamaBytes: null, processes: [] },
  };
  const id = yieldAll(scene);
  scene.send({ type: "barrierLost", reason: "the driver doesn't support it on MIG" });
  scene.run(60);
  assert.equal(scene.all("unload").length, 1, "it is asked to go all the same");
  scene.end(101).run(400);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "unconfirmed");
  assert.match(result.message, /MIG/);
});

Deno.test("the driver is lost in the middle of a yield: never released, whatever comes after", async (test) => {
  const losses: readonly [string, (scene: Scene) => void][] = [
    ["the barrier is lost", (scene) => void scene.send({ type: "barrierLost", reason: "a driver call is overdue" })],
    ["the sample says wedged", (scene) => {
      scene.gpu = absent("wedged");
      scene.sample();
    }],
  ];
  for (const [name, lose] of losses) {
    await test.step(name, () => {
      const scene = new Scene().load("alpha:latest", 101);
      const id = yieldAll(scene);
      scene.wait(1).read();
      scene.respond();
      lose(scene);
      scene.end(101);
      // A straggler of the stream that was under way.
      for (let count = 0; count < 5; count++) scene.wait(1).read();
      scene.run(400);
      const result = scene.value(id, "yield");
      assert.equal(result.outcome, "unconfirmed");
      assert.equal(result.confirmedBy, null);
    });
  }
});

Deno.test("a crashed ghost: listed, its runner gone, nothing else there that could hold it", () => {
  const scene = new Scene();
  scene.ollama = ollama({ resident: [row("alpha:latest")] });
  const id = yieldAll(scene);
  scene.run(40);
  assert.equal(scene.all("unload").length, 1, "the unload clears its row");
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "released");
  assert.deepEqual(result.pids, []);
});

Deno.test("a listed model whose process can't be told is unconfirmed, never released", async (test) => {
  const unknown = { blobsByDigest: {}, resident: [row("alpha:latest"), row("beta:latest")] };
  await test.step("two models, two runners, blobs unknown, one model named", () => {
    const scene = new Scene();
    scene.ollama = ollama({ ...unknown, runners: [runner(101, "alpha:latest"), runner(102, "beta:latest")] });
    scene.holds(101, "ollama", gib(4)).holds(102, "ollama", gib(5));
    const id = yieldAll(scene, { models: ["alpha:latest"] });
    scene.run(300);
    assert.equal(scene.isAnswered(id), false);
    scene.ollama = { ...scene.ollama, resident: [row("beta:latest")] };
    scene.run(11_000);
    assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
  });
  await test.step("a process of Ollama's that isn't known as a runner holds the memory", () => {
    const scene = new Scene();
    scene.ollama = ollama({ resident: [row("alpha:latest")] });
    scene.holds(150, "ollama", gib(9), "new-engine");
    const id = yieldAll(scene);
    scene.run(300);
    assert.equal(scene.isAnswered(id), false);
    scene.run(10_000);
    assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
  });
  await test.step("/proc can't be read, so no runner is seen", () => {
    const scene = new Scene();
    scene.ollama = ollama({ resident: [row("alpha:latest")] });
    scene.isProcOk = false;
    scene.holds(101, "unmanaged", gib(9));
    const id = yieldAll(scene);
    scene.run(11_000);
    assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
  });
});

Deno.test("a holder found only when /proc can be read again isn't covered by what was seen before", () => {
  const scene = new Scene();
  scene.ollama = ollama({ resident: [row("alpha:latest")] });
  scene.isProcOk = false;
  scene.holds(101, "unmanaged", gib(9));
  const id = yieldAll(scene);
  // Beside an unknown target the predicate holds all the time: others hold their 9 GiB, the residual is as it was.
  scene.run(200);
  scene.isProcOk = true;
  scene.ollama = { ...scene.ollama, runners: [runner(101, "alpha:latest")] };
  scene.sample();
  scene.run(700);
  assert.equal(scene.isAnswered(id), false);
  scene.end(101).run(30);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("two models, blobs unknown, everything asked: both runners are targets, and neither is called loading", () => {
  const scene = new Scene();
  scene.ollama = ollama({
    blobsByDigest: {},
    resident: [row("alpha:latest"), row("beta:latest")],
    runners: [runner(101, "alpha:latest"), runner(102, "beta:latest")],
  });
  scene.holds(101, "ollama", gib(4)).holds(102, "ollama", gib(5));
  const id = yieldAll(scene);
  scene.run(700);
  assert.equal(scene.isAnswered(id), false, "nothing says that they work");
  scene.held = [];
  scene.ollama = { ...scene.ollama, resident: [], runners: [] };
  scene.run(30);
  const result = scene.value(id, "yield");
  assert.deepEqual([result.outcome, result.freedBytes], ["released", gib(9)]);
});

Deno.test("a listed model of a server that can't be seen (a container), no runner in sight: unconfirmed", () => {
  const scene = new Scene();
  scene.ollama = ollama({ server: null, resident: [row("alpha:latest")] });
  const id = yieldAll(scene);
  scene.run(200);
  assert.equal(scene.isAnswered(id), false);
  scene.ollama = { ...scene.ollama, resident: [] };
  scene.run(300);
  assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
});

Deno.test("the driver is blocked as the yield starts: the unloads go out all the same, and its first word still counts", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const gpu = scene.sampleNow().gpu;
  assert.ok(gpu.available);
  scene.gpu = { ...gpu, reading: { ...gpu.reading, memory: null, processes: null } };
  const id = yieldAll(scene);
  scene.gpu = null;
  scene.respond().wait(31).send({ type: "woke", generation: scene.last("wakeAt").generation });
  assert.equal(scene.all("unload").length, 1, "NVML blocks for 104 ms beside a starting process");
  scene.wait(80).respond().run(30);
  scene.end(101).run(30);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("an orphan beside a new copy of the same blob: the row is the new one's", () => {
  const scene = new Scene().load("alpha:latest", 102, gib(4));
  scene.ollama = {
    ...scene.ollama,
    runners: [runner(101, "alpha:latest", { isOrphan: true }), ...scene.ollama.runners],
  };
  scene.holds(101, "ollama", gib(4));
  const id = yieldAll(scene);
  scene.run(50);
  scene.held = scene.held.filter((entry) => entry.pid !== 102);
  scene.ollama = { ...scene.ollama, resident: [], runners: scene.ollama.runners.slice(0, 1) };
  scene.run(8_000);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "fault");
  assert.deepEqual(result.held.map((held) => held.pid), [101]);
});

Deno.test("a process without bytes that leaves meanwhile takes the residual's meaning with it: unconfirmed", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4)).holds(300, "desktop", null);
  scene.residualBytes = gib(6);
  const id = yieldAll(scene);
  scene.run(30);
  // It had 5 GiB of the residual; the model's 4 GiB are still used, though its process has left the list.
  scene.held = scene.held.filter((entry) => entry.pid !== 300);
  scene.end(101).run(300, { reading: { residualBytes: gib(5) } });
  assert.equal(scene.value(id, "yield").outcome, "unconfirmed");
});

Deno.test("a process whose bytes the driver gives only later doesn't make room that isn't there", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4)).holds(300, "desktop", null);
  scene.residualBytes = gib(5);
  const id = yieldAll(scene);
  scene.run(30);
  scene.end(101).holds(300, "desktop", gib(4.7));
  // used = 0.3 + 4.7 (the desktop) + 4 (the model's, not yet back).
  scene.run(100, { reading: { residualBytes: gib(4.3) } });
  assert.equal(scene.isAnswered(id), false);
  scene.run(20, { reading: { residualBytes: gib(0.3) } });
  assert.equal(scene.value(id, "yield").outcome, "released");
});
