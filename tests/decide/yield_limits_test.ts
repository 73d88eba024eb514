/** The limits of a yield, each from both sides: what it takes to be called released, and what to be called a fault. */
import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, runner } from "./stories.ts";

/** An explicit yield of everything, started on a scene whose first sample is in. */
function yieldAll(scene: Scene): string {
  scene.sample();
  return scene.ask({ kind: "yield", models: null, confirm: true });
}

Deno.test("two readings in a row: one that shows it held in between begins the count anew", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const id = yieldAll(scene);
  scene.run(50);
  const { held } = scene;
  scene.end(101).respond().wait(1).read();
  const gone = scene.held;
  scene.held = held;
  scene.wait(1).read();
  scene.held = gone;
  scene.wait(1).read();
  assert.equal(scene.isAnswered(id), false, "released, held, released");
  scene.wait(1).read();
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("children that were listed before the unload was answered say nothing of who came meanwhile", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const id = yieldAll(scene);
  scene.run(30, { isUnloadHeld: true });
  const { generation } = scene.last("unload");
  scene.end(101);
  scene.send({ type: "runnersListed", generation, runners: [] });
  for (let n = 0; n < 4; n++) scene.wait(1).read();
  assert.equal(scene.isAnswered(id), false);
  scene.run(30);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("an orphan that holds nothing keeps no yield waiting: it is not one that has yet to take its memory", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const orphan = runner(102, "beta:latest", { isOrphan: true });
  scene.ollama = { ...scene.ollama, runners: [...scene.ollama.runners, orphan] };
  const id = yieldAll(scene);
  scene.run(50);
  scene.end(101).run(50);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("a fault takes three looks at an idle runner, however long it has been held", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(6_300, { isProbeSilent: true });
  assert.equal(scene.isAnswered(id), false, "nobody has looked yet");
  scene.run(2_000);
  assert.equal(scene.isAnswered(id), false, "two looks");
  scene.run(1_000);
  assert.equal(scene.value(id, "yield").outcome, "fault");
});

Deno.test("a driver that has said nothing for a second proves no fault", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.run(5_000);
  scene.run(4_500, { isBarrierSilent: true });
  assert.equal(scene.isAnswered(id), false);
  scene.run(20);
  assert.equal(scene.value(id, "yield").outcome, "fault");
});

Deno.test("the card's own utilisation stands in only where the driver gives none by process", () => {
  const outcomeOf = (smPctByPid: Readonly<Record<number, number>> | null) => {
    const scene = new Scene().load("alpha:latest", 101);
    const id = yieldAll(scene);
    const { gpu } = scene.sampleNow();
    assert.ok(gpu.available);
    scene.gpu = { ...gpu, reading: { ...gpu.reading, gpuUtilPct: 97, smPctByPid } };
    scene.sample();
    scene.run(7_000, { reading: { smPctByPid: null } });
    return scene.value(id, "yield").outcome;
  };
  assert.equal(outcomeOf(null), "busy");
  assert.equal(outcomeOf({}), "fault", "a busy card with an idle runner");
});
