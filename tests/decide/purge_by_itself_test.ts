import assert from "node:assert/strict";
import type { FreeReply } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { comfy, gib, ollama, policy, row } from "./stories.ts";

const SENT = (scene: Scene): FreeReply => ({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });

/** ComfyUI with 7 GiB, idle for long enough. */
function idleComfy(bytes: number | null = gib(7)): Scene {
  const scene = new Scene().holds(200, "comfy", bytes);
  scene.sample();
  scene.wait(2_000).sample();
  return scene;
}

function purge(scene: Scene, confirm = true): string {
  return scene.ask({ kind: "purge", confirm });
}

Deno.test("an automatic purge asks for nothing more once the mode isn't auto", async (test) => {
  const automatic = () => {
    const scene = new Scene(policy({ purge: { ...policy().purge, idleMs: 1_000 } })).holds(200, "comfy", gib(7));
    scene.sample();
    scene.wait(1_500).sample();
    assert.equal(scene.all("freeComfy").length, 1);
    scene.run(100);
    return scene;
  };
  await test.step("not after a slow answer", () => {
    const scene = automatic();
    scene.setMode("paused");
    scene.freed({ kind: "slow", slowestMs: 270 });
    scene.run(3_000);
    assert.deepEqual([scene.all("freeComfy").length, scene.state.holder], [1, null]);
  });
  await test.step("not a second time after 5 s, though the first is watched to its end", () => {
    const scene = automatic();
    scene.freed(SENT(scene));
    scene.setMode("observe");
    scene.run(6_000);
    assert.equal(scene.all("freeComfy").length, 1);
    scene.holds(200, "comfy", gib(0.8)).run(300);
    assert.equal(scene.recorded("purge")["outcome"], "released");
  });
});

Deno.test("at the earliest 1 s after the last prompt: a /free before gets lost in its garbage collection", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  scene.enqueue(1);
  scene.wait(500);
  scene.enqueue(0);
  scene.wait(100);
  purge(scene);
  assert.equal(scene.all("freeComfy").length, 0);
  scene.run(890);
  assert.equal(scene.all("freeComfy").length, 0);
  scene.run(20);
  assert.equal(scene.all("freeComfy").length, 1);
});

Deno.test("an executing ComfyUI is never purged: refused as busy, nothing asked", async (test) => {
  await test.step("when it is asked for", () => {
    const scene = idleComfy();
    scene.enqueue(1);
    const id = purge(scene);
    assert.equal(scene.refusal(id).code, "busy");
    assert.equal(scene.all("freeComfy").length, 0);
  });
  await test.step("when only its running entry is known", () => {
    const scene = new Scene().holds(200, "comfy", gib(7));
    scene.comfy = comfy({ queueRemaining: null, executing: true });
    scene.sample();
    assert.equal(scene.refusal(purge(scene)).code, "busy");
  });
  await test.step("when it comes to its turn in the lane", () => {
    const scene = idleComfy().load("alpha:latest", 101, gib(4));
    scene.sample();
    scene.setMode("paused");
    const first = scene.ask({ kind: "yield", models: ["alpha"], confirm: true });
    const id = purge(scene);
    scene.enqueue(1);
    scene.run(50);
    scene.end(101).run(30);
    assert.equal(scene.value(first, "yield").outcome, "released");
    assert.equal(scene.refusal(id).code, "busy");
    assert.equal(scene.all("freeComfy").length, 0);
  });
  await test.step("by the poll alone, while the socket is down", () => {
    const scene = new Scene().holds(200, "comfy", gib(7));
    scene.sample();
    scene.enqueue(1);
    scene.run(10);
    scene.enqueue(0);
    scene.run(10);
    const id = purge(scene);
    scene.comfy = comfy({ queueRemaining: 1, executing: true });
    scene.wait(400).sample();
    assert.equal(scene.value(id, "purge").outcome, "busy");
    scene.run(2_000);
    assert.equal(scene.all("freeComfy").length, 0);
  });
});

Deno.test("a prompt between /free and its effect goes first, and the record says that they overlapped", async (test) => {
  await test.step("nothing has fallen yet", () => {
    const scene = idleComfy();
    const id = purge(scene);
    scene.freed(SENT(scene));
    scene.run(300);
    scene.enqueue(1);
    const result = scene.value(id, "purge");
    assert.deepEqual([result.outcome, result.overlapped], ["busy", true]);
    assert.equal(scene.recorded("purge")["purge_overlapped"], true);
  });
  await test.step("it has struck already", () => {
    const scene = idleComfy();
    const id = purge(scene);
    scene.freed(SENT(scene));
    scene.run(300);
    scene.holds(200, "comfy", gib(0.8)).run(50);
    scene.enqueue(1);
    assert.equal(scene.value(id, "purge").overlapped, false);
  });
  await test.step("while the queue was being read: called off, and told if it went out after all", () => {
    const scene = idleComfy();
    const id = purge(scene);
    const { generation } = scene.last("freeComfy");
    scene.run(90);
    scene.enqueue(1);
    assert.equal(scene.value(id, "purge").overlapped, false);
    assert.equal(scene.all("abort").length, 1);
    scene.send({ type: "freeReplied", generation, reply: SENT(scene) });
    assert.deepEqual(scene.last("amend").fields, { purge_overlapped: true });
    scene.send({ type: "freeReplied", generation, reply: SENT(scene) });
    assert.equal(scene.all("amend").length, 1);
  });
  await test.step("while the queue was being read, and it didn't go out: nothing to tell", () => {
    const scene = idleComfy();
    purge(scene);
    const { generation } = scene.last("freeComfy");
    scene.enqueue(1);
    scene.send({ type: "freeReplied", generation, reply: { kind: "failed", message: "aborted" } });
    assert.equal(scene.all("amend").length, 0);
  });
});

Deno.test("30 s of a truly empty queue: purged by itself, once in that stretch", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  scene.enqueue(1);
  scene.run(3_000);
  scene.enqueue(0);
  scene.run(29_000);
  assert.equal(scene.all("freeComfy").length, 0);
  scene.run(2_000);
  assert.equal(scene.all("freeComfy").length, 1);
  scene.freed(SENT(scene));
  scene.run(60_000);
  assert.equal(scene.recorded("purge")["outcome"], "timeout");
  assert.equal(scene.all("freeComfy").length, 2, "its one repetition, and no second purge in this stretch");
  scene.enqueue(1);
  scene.enqueue(0);
  scene.run(32_000);
  assert.equal(scene.all("freeComfy").length, 3);
});

Deno.test("ComfyUI keeps its checkpoints between prompts: 29 s of quiet, again and again, purge nothing", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  for (let prompts = 0; prompts < 4; prompts++) {
    scene.enqueue(1);
    scene.run(1_000);
    scene.enqueue(0);
    scene.run(28_000, { stepMs: 100 });
  }
  assert.equal(scene.all("freeComfy").length, 0);
});

Deno.test("what isn't worth a purge: a bare context, an idle time of null, modes observe and paused", async (test) => {
  const idle = (scene: Scene) => {
    scene.sample();
    scene.run(40_000, { stepMs: 100 });
    assert.equal(scene.all("freeComfy").length, 0);
  };
  await test.step("about a context", () => idle(new Scene().holds(200, "comfy", gib(0.9))));
  await test.step("idleMs null", () => {
    const { purge } = policy();
    idle(new Scene(policy({ purge: { ...purge, idleMs: null } })).holds(200, "comfy", gib(7)));
  });
  await test.step("paused", () => idle(new Scene(policy({ mode: "paused" })).holds(200, "comfy", gib(7))));
  await test.step("observe: decided and recorded once, touches nothing", () => {
    const scene = new Scene(policy({ mode: "observe" })).holds(200, "comfy", gib(7));
    idle(scene);
    assert.deepEqual(scene.all("record").map((effect) => effect.item.fields["decision"]), ["observe"]);
  });
  await test.step("another host", () => {
    const scene = new Scene().holds(200, "comfy", gib(7));
    scene.comfy = comfy({ isRemote: true });
    idle(scene);
  });
});

Deno.test("a restarted ComfyUI: what the old process kept says nothing about the new one", () => {
  const scene = idleComfy();
  purge(scene);
  scene.run(100).freed(SENT(scene));
  scene.holds(200, "comfy", gib(0.8)).run(300);
  assert.ok(scene.state.comfy.context !== null);
  scene.comfy = comfy({ server: { pid: 201, startTime: 9 } });
  scene.sample();
  assert.equal(scene.state.comfy.context, null);
});

Deno.test("an idle ComfyUI isn't purged beside an Ollama that is leaving", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.ollama = ollama({ resident: [row("alpha:latest")] });
  scene.sample();
  scene.run(29_500, { stepMs: 100 });
  const id = scene.ask({ kind: "yield", models: ["alpha"], confirm: true });
  scene.run(20);
  scene.sample();
  assert.equal(scene.all("freeComfy").length, 0);
  scene.run(3_000);
  assert.ok(scene.isAnswered(id));
  assert.equal(scene.all("freeComfy").length, 1);
});
