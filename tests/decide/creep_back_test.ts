/** A model that comes back before ComfyUI has taken the memory it was given. */
import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, policy, runner } from "./stories.ts";

const ALPHA = "alpha:latest";

/** ComfyUI has work, Ollama has yielded, and ComfyUI holds no more than its context. */
function handedOver(given = policy()): Scene {
  const scene = new Scene(given).load(ALPHA, 101, gib(8)).holds(200, "comfy", gib(0.8));
  scene.sample();
  scene.enqueue(1);
  scene.run(50);
  scene.end(101).run(30);
  assert.equal(scene.recorded("yield")["outcome"], "released");
  return scene;
}

/** Another client loads it again: its runner is seen between two samples. */
function creepBack(scene: Scene, pid: number): void {
  scene.load(ALPHA, pid, gib(8));
  scene.send({ type: "runnersChanged", runners: scene.ollama.runners });
}

function unloads(scene: Scene): number {
  return scene.all("unload").length;
}

Deno.test("a load between the yield and ComfyUI's allocation is recorded at once, and says who insists", () => {
  const scene = handedOver();
  creepBack(scene, 102);
  const fields = scene.recorded("arbitration");
  assert.equal(fields["decision"], "crept_back");
  assert.deepEqual([fields["insists"], fields["pid"], fields["times"], fields["again_in_ms"]], [ALPHA, 102, 1, 2_000]);
  scene.sample();
  assert.equal(scene.all("record").filter(({ item }) => item.fields["decision"] === "crept_back").length, 1);
});

Deno.test("it is asked to go again after 2, 8 and 30 s, at most three times a minute, then left alone", () => {
  const scene = handedOver();
  const asked: number[] = [];
  let pid = 102;
  creepBack(scene, pid);
  const startMs = scene.atMs;
  let before = unloads(scene);
  for (let ms = 0; ms < 58_000; ms += 100) {
    scene.run(100, { stepMs: 100 });
    if (unloads(scene) === before) continue;
    before = unloads(scene);
    asked.push(scene.atMs - startMs);
    scene.end(pid).run(100);
    creepBack(scene, ++pid);
  }
  assert.equal(asked.length, 3, `asked after ${asked}`);
  const pauses = asked.map((ms, at) => ms - (asked[at - 1] ?? 0));
  for (const [at, least] of [2_000, 8_000, 30_000].entries()) {
    const pause = pauses[at] ?? 0;
    assert.ok(pause >= least && pause <= least + 1_300, `${pause} ms after ${at} returns`);
  }
  assert.match(String(scene.recorded("arbitration")["message"]), /insists.*left alone/);
  assert.equal(scene.recorded("arbitration")["again_in_ms"], null);
});

Deno.test("ComfyUI was faster: what is loaded beside it after that is none of this", async (test) => {
  await test.step("seen by a reading", () => {
    const scene = handedOver();
    scene.run(60).holds(200, "comfy", gib(4)).run(20);
    creepBack(scene, 102);
    assert.equal(scene.all("record").some(({ item }) => item.kind === "arbitration"), false);
  });
  await test.step("it came back first, and isn't asked again once ComfyUI has its memory", () => {
    const scene = handedOver();
    creepBack(scene, 102);
    const before = unloads(scene);
    scene.run(500).holds(200, "comfy", gib(4)).run(6_000);
    assert.equal(unloads(scene), before);
  });
});

Deno.test("whose return is no creep-back", async (test) => {
  const isSilent = (scene: Scene) => {
    assert.equal(scene.all("record").some(({ item }) => item.fields["decision"] === "crept_back"), false);
  };
  await test.step("a model that is kept", () => {
    const scene = handedOver();
    scene.setMode("auto", ["alpha"]);
    creepBack(scene, 102);
    isSilent(scene);
  });
  await test.step("one that comes when ComfyUI's work is over", () => {
    const scene = handedOver();
    scene.enqueue(0);
    creepBack(scene, 102);
    isSilent(scene);
  });
  await test.step("a busy runner that outlived the yield", () => {
    const scene = new Scene().load(ALPHA, 101, gib(8)).holds(200, "comfy", gib(0.8));
    scene.sample();
    scene.enqueue(1);
    scene.run(1_200, { probe: { 101: { activity: "busy" } } });
    assert.equal(scene.recorded("yield")["outcome"], "busy");
    scene.send({ type: "runnersChanged", runners: scene.ollama.runners });
    isSilent(scene);
  });
  await test.step("one that came while ComfyUI had no work, when its next prompt comes", () => {
    const scene = handedOver();
    scene.enqueue(0);
    scene.run(1_000);
    creepBack(scene, 102);
    scene.enqueue(1);
    scene.sample();
    isSilent(scene);
  });
  await test.step("a load of ours, which was let go because both fit", () => {
    const scene = handedOver(policy({ needs: { alpha: gib(5) } }));
    scene.ask({ kind: "switch", model: "alpha", keepAlive: "30m", prompt: null });
    scene.run(2_100);
    assert.equal(scene.all("load").length, 1);
    creepBack(scene, 102);
    isSilent(scene);
  });
  await test.step("in mode paused nobody is told of", () => {
    const scene = handedOver();
    scene.setMode("paused");
    creepBack(scene, 102);
    isSilent(scene);
  });
  await test.step("an orphan", () => {
    const scene = handedOver();
    const orphan = runner(102, ALPHA, { isOrphan: true });
    scene.send({ type: "runnersChanged", runners: [orphan] });
    isSilent(scene);
  });
});

Deno.test("in mode observe it is recorded, and nobody is asked", () => {
  const scene = handedOver();
  scene.setMode("observe");
  creepBack(scene, 102);
  assert.match(String(scene.recorded("arbitration")["message"]), /mode observe/);
  const before = unloads(scene);
  scene.run(5_000);
  assert.equal(unloads(scene), before);
});
