/** Other clients' loads that were refused: a runner that appears and dies unlisted. */
import assert from "node:assert/strict";
import type { Runner } from "../../lib/model/tenants.ts";
import { Scene } from "./scene.ts";
import { absent, gib, policy, row, runner } from "./stories.ts";

const ALPHA = "alpha:latest";

function stage(given = policy()): Scene {
  const scene = new Scene(given).holds(200, "comfy", gib(9));
  scene.sample();
  scene.wait(2_000).sample();
  return scene;
}

/** A runner of that model lives for `ms` and dies without ever being listed. */
function die(scene: Scene, ms = 800, child: Runner = runner(101, ALPHA)): void {
  scene.send({ type: "runnersChanged", runners: [child] });
  scene.wait(ms);
  scene.send({ type: "runnersChanged", runners: [] });
}

function told(scene: Scene) {
  return scene.all("record").filter(({ item }) => item.fields["decision"] === "refused_elsewhere");
}

Deno.test("a runner dies unlisted and didn't fit: told of by the next sample, and an idle ComfyUI is purged", () => {
  const scene = stage();
  die(scene);
  assert.equal(told(scene).length, 0, "the next sample shows whether it came back");
  scene.sample();
  const fields = told(scene)[0]?.item.fields ?? {};
  assert.deepEqual([fields["models"], fields["pid"], fields["lived_ms"]], [[ALPHA], 101, 800]);
  assert.equal(scene.all("freeComfy").length, 1);
  assert.equal(scene.state.holder?.job.cause.kind, "refused_elsewhere");
});

Deno.test("its client tries again and again: one purge, told of once in half a minute", () => {
  const scene = stage();
  for (let n = 0; n < 5; n++) {
    die(scene, 800, runner(101 + n, ALPHA));
    scene.sample();
  }
  assert.deepEqual([told(scene).length, scene.all("freeComfy").length], [1, 1]);
});

Deno.test("what isn't another client's refusal", async (test) => {
  const isSilent = (scene: Scene) => {
    scene.sample();
    assert.deepEqual([told(scene).length, scene.all("freeComfy").length], [0, 0]);
  };
  await test.step("there was room for it", () => {
    const scene = new Scene().holds(200, "comfy", gib(2));
    scene.sample();
    scene.wait(2_000).sample();
    die(scene);
    isSilent(scene);
  });
  await test.step("it was listed: it was loaded, and unloaded", () => {
    const scene = stage();
    scene.load(ALPHA, 101, gib(5));
    scene.send({ type: "runnersChanged", runners: scene.ollama.runners });
    scene.sample();
    scene.end(101);
    scene.send({ type: "runnersChanged", runners: [] });
    isSilent(scene);
  });
  await test.step("Ollama evicted others and tried again by itself", () => {
    const scene = stage();
    die(scene);
    scene.ollama = { ...scene.ollama, runners: [runner(102, ALPHA)] };
    scene.send({ type: "runnersChanged", runners: scene.ollama.runners });
    isSilent(scene);
  });
  await test.step("its server ended, or is another one", () => {
    const scene = stage();
    die(scene);
    scene.ollama = { ...scene.ollama, server: { pid: 177, startTime: 5 } };
    isSilent(scene);
  });
  await test.step("the card can't be read: nobody can say that it was full", () => {
    const scene = stage();
    scene.gpu = absent();
    die(scene);
    isSilent(scene);
  });
  await test.step("a load of ours", () => {
    const scene = stage(policy({ needs: { alpha: gib(5) } }));
    scene.ask({ kind: "switch", model: "alpha", keepAlive: "30m", prompt: null });
    assert.equal(scene.all("load").length, 1);
    scene.holds(300, "unmanaged", gib(6), "trainer");
    die(scene);
    isSilent(scene);
  });
  await test.step("a row whose weights aren't known yet may have been its own", () => {
    const scene = stage();
    scene.send({ type: "runnersChanged", runners: [runner(101, ALPHA)] });
    scene.ollama = { ...scene.ollama, resident: [row("new:latest")], runners: [runner(101, ALPHA)] };
    scene.sample();
    scene.ollama = { ...scene.ollama, resident: [], runners: [] };
    scene.send({ type: "runnersChanged", runners: [] });
    isSilent(scene);
  });
  await test.step("it was there before we were", () => {
    const scene = new Scene().holds(200, "comfy", gib(9));
    scene.send({ type: "runnersChanged", runners: [runner(101, ALPHA)] });
    scene.sample();
    scene.send({ type: "runnersChanged", runners: [] });
    isSilent(scene);
  });
});

Deno.test("nothing is purged, and it is said why", async (test) => {
  const say = (scene: Scene) => {
    die(scene);
    scene.sample();
    assert.equal(scene.all("freeComfy").length, 0);
    return String(told(scene)[0]?.item.fields["message"]);
  };
  await test.step("ComfyUI executes", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.run(100);
    assert.match(say(scene), /executing and isn't touched/);
  });
  await test.step("somebody else holds the card", () => {
    const scene = new Scene().holds(200, "comfy", gib(0.8)).holds(300, "unmanaged", gib(12), "trainer");
    scene.sample();
    scene.wait(2_000).sample();
    assert.match(say(scene), /trainer 12 GB/);
  });
  await test.step("mode observe", () => assert.match(say(stage(policy({ mode: "observe" }))), /would be purged/));
});
