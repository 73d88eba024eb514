import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, ollama, reading, row, runner } from "./stories.ts";

/** An explicit yield of everything, started on a scene whose first sample is in. */
function yieldAll(scene: Scene, more: { models?: readonly string[]; confirm?: boolean } = {}): string {
  scene.sample();
  return scene.ask({ kind: "yield", models: more.models ?? null, confirm: more.confirm ?? true });
}

Deno.test("released: two readings in a row after the lists, with its figures", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(10.6));
  const id = yieldAll(scene);
  scene.wait(1).read();
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
  scene.wait(2).respond().run(200);
  assert.equal(scene.isAnswered(id), false, "the reply to the unload is a receipt, not a release");
  scene.end(101).wait(1).read();
  assert.equal(scene.isAnswered(id), false, "one reading proves nothing");
  scene.wait(1).read();
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "released");
  assert.equal(result.freedBytes, gib(10.6));
  assert.deepEqual([result.models, result.pids], [["alpha:latest"], [101]]);
  assert.equal(result.requestMs, 3);
  assert.equal(result.confirmMs, 205);
  assert.match(result.confirmedBy ?? "", /NVML/);
  assert.deepEqual(result.held, []);
});

Deno.test("gone from the driver's list while its memory is still used: not released", () => {
  const scene = new Scene().load("alpha:latest", 101);
  const id = yieldAll(scene);
  scene.wait(1).read();
  scene.respond().end(101);
  // The driver took the process off its list and has 10 GiB of its memory still in use.
  scene.run(77, { reading: { blindBytes: gib(10) } });
  assert.equal(scene.isAnswered(id), false);
  scene.run(20);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("memory and process list disagree for one reading: neither fooled nor stalled", () => {
  const scene = new Scene().load("alpha:latest", 101).holds(300, "unmanaged", gib(0.2), "relay");
  const id = yieldAll(scene);
  scene.wait(1).read();
  scene.respond().run(50);
  // The relay allocates 4 GiB; the list shows it one reading before the device does, and the target's row is missing.
  const before = scene.held;
  scene.held = [{ pid: 300, bucket: "unmanaged", bytes: gib(4.2) }];
  scene.wait(1).read({ blindBytes: gib(2) });
  scene.held = before;
  scene.wait(1).read();
  assert.equal(scene.isAnswered(id), false);
  scene.end(101).run(20);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("the residual isn't taken from a look at which memory and list disagreed", () => {
  const scene = new Scene().load("alpha:latest", 101).holds(300, "unmanaged", gib(0.2));
  scene.sample();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  // While the relay grew the list was ahead of the device: a residual of 0 would stall the yield for ever.
  scene.wait(1).read({ residualBytes: 0 });
  assert.equal(scene.all("unload").length, 0, "one more look decides");
  scene.wait(1).read();
  scene.wait(1).read();
  assert.equal(scene.all("unload").length, 1);
  scene.respond().end(101).run(20);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("memory of a process that had just left isn't counted as residual", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(5)).holds(300, "unmanaged", gib(6));
  scene.sample();
  // The third process is gone from the list, its 6 GiB are on their way back.
  scene.held = scene.held.filter((entry) => entry.pid !== 300);
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(20, { reading: { blindBytes: gib(6) } });
  assert.equal(scene.all("unload").length, 1);
  // They come back; the model's process has left the list, and its 5 GiB are still used.
  scene.end(101).run(60, { reading: { blindBytes: gib(5) } });
  assert.equal(scene.isAnswered(id), false, "5 GiB of the model are still used");
  scene.run(20);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("a third process that allocates and frees meanwhile neither fools nor stalls a yield", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(8)).holds(300, "unmanaged", gib(1));
  const id = yieldAll(scene);
  scene.wait(1).read();
  scene.respond();
  for (const bytes of [5, 0.5, 4, 2]) {
    scene.holds(300, "unmanaged", gib(bytes)).run(30);
    assert.equal(scene.isAnswered(id), false);
  }
  scene.end(101).holds(300, "unmanaged", gib(6)).run(20);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "released");
  assert.equal(result.freedBytes, gib(8));
});

Deno.test("every resident model is asked at once, and all of them must go", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4)).load("beta:latest", 102, gib(5));
  const id = yieldAll(scene);
  scene.wait(1).read();
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
  scene.respond().end(101).run(100);
  assert.equal(scene.isAnswered(id), false);
  scene.end(102).run(20);
  assert.equal(scene.value(id, "yield").freedBytes, gib(9));
});

Deno.test("a runner that came between the sample and the yield is found by the lists, and unloaded, too", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const id = yieldAll(scene);
  scene.wait(1).read();
  scene.load("beta:latest", 102, gib(5)).respond();
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
  scene.end(101).run(60);
  assert.equal(scene.isAnswered(id), false);
  scene.end(102).run(20);
  assert.deepEqual(scene.value(id, "yield").pids, [101, 102]);
});

Deno.test("a model loaded after the last sample is confirmed by the readings, not called unmeasured", () => {
  const scene = new Scene();
  scene.sample();
  scene.load("alpha:latest", 101, gib(4));
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(100);
  scene.end(101).run(20);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "released");
  assert.equal(result.freedBytes, gib(4));
});

Deno.test("what had gone before anything was asked is none of the yield's doing", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(10));
  scene.sample();
  // It went by its own timer; the sample still shows it.
  scene.end(101).wait(300);
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(40);
  const result = scene.value(id, "yield");
  assert.deepEqual([result.outcome, result.freedBytes, result.models], ["nothing_loaded", 0, []]);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("a runner that is still loading is waited for, never called released, and unloaded once it is listed", () => {
  const scene = new Scene();
  // Its process is there, it isn't in /api/ps, and it holds nothing yet: an unload now would answer 200 and do nothing.
  scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
  const id = yieldAll(scene);
  scene.run(590);
  assert.equal(scene.isAnswered(id), false);
  assert.equal(scene.all("unload").length, 0);
  scene.holds(101, "ollama", gib(6)).run(20);
  const result = scene.value(id, "yield");
  assert.equal(result.outcome, "busy");
  assert.match(result.held[0]?.evidence ?? "", /still loading/);
  assert.equal(result.held[0]?.model, "alpha:latest", "its blob tells which model it is");
  scene.ollama = { ...scene.ollama, resident: [row("alpha:latest")] };
  scene.run(1_100);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
  scene.end(101).run(1_100);
  const amended = scene.all("amend").at(-1);
  assert.equal(amended?.fields["released_later_pid"], 101);
  assert.equal(scene.state.watched.length, 0);
});

Deno.test("a loading runner that gets listed while the yield waits is unloaded by that yield", () => {
  const scene = new Scene();
  scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
  scene.holds(101, "ollama", gib(3));
  const id = yieldAll(scene);
  scene.run(200);
  scene.ollama = { ...scene.ollama, resident: [row("alpha:latest")] };
  scene.run(300);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
  scene.end(101).run(20);
  assert.equal(scene.value(id, "yield").outcome, "released");
});

Deno.test("nothing is released before the children were listed again after the replies", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const id = yieldAll(scene);
  scene.run(30, { isUnloadHeld: true });
  // The model goes by its own timer; another one has come since the lists.
  scene.end(101).load("beta:latest", 102, gib(5)).run(40, { isUnloadHeld: true });
  assert.equal(scene.isAnswered(id), false);
  scene.run(20);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
  scene.end(102).run(30);
  assert.deepEqual(scene.value(id, "yield").pids, [101, 102]);
});

Deno.test("a model that is listed only after the children were isn't taken for a ghost", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(4));
  const id = yieldAll(scene);
  scene.run(20, { isUnloadHeld: true });
  const { generation } = scene.last("unload");
  scene.send({ type: "unloadReplied", generation, model: "alpha:latest", error: null, isUnknown: false });
  scene.send({ type: "runnersListed", generation, runners: scene.ollama.runners });
  // Its child starts after that list and is in /api/ps by the time that answers.
  scene.load("beta:latest", 102, gib(5));
  scene.send({ type: "residentListed", generation, resident: scene.ollama.resident });
  scene.end(101).wait(1).read();
  scene.wait(1).read();
  scene.wait(1).read();
  assert.equal(scene.isAnswered(id), false);
  scene.run(20);
  scene.end(102).run(30);
  assert.deepEqual(scene.value(id, "yield").pids, [101, 102]);
});

Deno.test("a named yield takes that model alone, by any of its tags", async (test) => {
  for (const name of ["alpha", "ALPHA:latest", "same-blob"]) {
    await test.step(name, () => {
      const scene = new Scene().load("alpha:latest", 101, gib(4)).load("beta:latest", 102, gib(5));
      const digest = "digest-alpha:latest";
      const alias = { ...scene.ollama.installed[0], name: "same-blob:latest", digest } as const;
      scene.ollama = { ...scene.ollama, installed: [...scene.ollama.installed, alias as never] };
      const id = yieldAll(scene, { models: [name] });
      scene.run(50);
      assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
      scene.end(101).run(20);
      const result = scene.value(id, "yield");
      assert.deepEqual([result.outcome, result.pids], ["released", [101]]);
    });
  }
});

Deno.test("a reading older than the yield, from a stream that ran already, says nothing about it", () => {
  const scene = new Scene().load("alpha:latest", 101, gib(10.6));
  const id = yieldAll(scene);
  scene.wait(1).read();
  scene.respond().run(50);
  const early = reading(scene.atMs - 100, [], { residualBytes: scene.residualBytes });
  scene.send({ type: "reading", reading: early });
  scene.send({ type: "reading", reading: early });
  assert.equal(scene.isAnswered(id), false, "it was read before anybody asked");
  scene.end(101).run(20);
  assert.ok((scene.value(id, "yield").confirmMs ?? -1) >= 50);
});
