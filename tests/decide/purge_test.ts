import assert from "node:assert/strict";
import type { FreeReply } from "../../lib/model/events.ts";
import { absent, comfy, gib, ollama, policy, RESIDUAL_BYTES, row, Scene } from "./stories.ts";

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

Deno.test("/free's answer is a receipt: released only when its bytes fell and stayed level for 250 ms", () => {
  // Measured: memory falls 1.1–1.7 s after the answer, and a load 2 s after it still spilled.
  const scene = idleComfy();
  const id = purge(scene);
  assert.equal(scene.all("freeComfy").length, 1);
  scene.run(100);
  scene.freed(SENT(scene));
  scene.run(1_400);
  assert.equal(scene.isAnswered(id), false);
  scene.holds(200, "comfy", gib(3)).run(100);
  scene.holds(200, "comfy", gib(0.8)).run(240);
  assert.equal(scene.isAnswered(id), false);
  scene.run(20);
  const result = scene.value(id, "purge");
  assert.equal(result.outcome, "released");
  assert.equal(result.freedBytes, gib(7) - gib(0.8));
  assert.equal(result.remainingBytes, gib(0.8));
  assert.equal(result.overlapped, false);
  assert.equal(scene.state.comfy.context?.bytes, gib(0.8));
});

Deno.test("no fall by the ceiling: timeout, after exactly one more request at 5 s", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.run(100);
  scene.freed(SENT(scene));
  scene.run(4_990);
  assert.equal(scene.all("freeComfy").length, 1);
  scene.run(20);
  assert.equal(scene.all("freeComfy").length, 2, "nothing has fallen for 5 s: the first one got lost");
  scene.run(100);
  scene.freed(SENT(scene));
  scene.run(4_850);
  assert.equal(scene.isAnswered(id), false);
  scene.run(60);
  const result = scene.value(id, "purge");
  assert.equal(result.outcome, "timeout");
  assert.match(result.message, /2 requests/);
  assert.equal(scene.all("freeComfy").length, 2);
});

Deno.test("the second request finds what the first one lost", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed(SENT(scene));
  scene.run(5_010);
  scene.run(100);
  scene.freed(SENT(scene));
  scene.holds(200, "comfy", gib(0.8)).run(300);
  assert.equal(scene.value(id, "purge").outcome, "released");
});

Deno.test("a fall while the second request is prepared calls that off", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed(SENT(scene));
  scene.run(5_010);
  assert.equal(scene.all("freeComfy").length, 2);
  scene.holds(200, "comfy", gib(0.8)).run(300);
  assert.equal(scene.value(id, "purge").outcome, "released");
  assert.equal(scene.all("abort").length, 1);
});

Deno.test("a fall that began just before the ceiling is waited out a little beyond it", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed(SENT(scene));
  scene.run(5_010);
  scene.freed(SENT(scene));
  scene.run(4_890);
  scene.holds(200, "comfy", gib(0.8)).run(200);
  assert.equal(scene.isAnswered(id), false);
  scene.run(100);
  assert.equal(scene.value(id, "purge").outcome, "released");
});

Deno.test("a fall that never settles is no release", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed(SENT(scene));
  scene.run(5_010);
  scene.freed(SENT(scene));
  for (let bytes = 0; bytes < 60 && !scene.isAnswered(id); bytes++) {
    scene.holds(200, "comfy", gib(6.5 - 0.1 * bytes)).run(100);
  }
  assert.equal(scene.value(id, "purge").outcome, "timeout");
});

Deno.test("what ComfyUI gave back before /free was sent is not called purged", () => {
  // The sample is up to a second old: between it and /free ComfyUI dropped 3 GiB on its own.
  const scene = idleComfy(gib(7));
  const id = purge(scene);
  scene.holds(200, "comfy", gib(4)).run(100);
  scene.freed(SENT(scene));
  scene.run(4_000);
  assert.equal(scene.isAnswered(id), false, "nothing fell since /free was sent");
  scene.holds(200, "comfy", gib(0.8)).run(300);
  assert.equal(scene.value(id, "purge").freedBytes, gib(4) - gib(0.8));
});

Deno.test("nor is what it gave back in its quiet second", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  const id = purge(scene);
  scene.run(980);
  scene.holds(200, "comfy", gib(4)).run(100);
  scene.freed(SENT(scene));
  scene.run(3_000);
  assert.equal(scene.isAnswered(id), false);
});

Deno.test("a process that comes to the card in the quiet second is counted", () => {
  const scene = new Scene();
  scene.sample();
  scene.wait(600);
  const id = purge(scene);
  scene.holds(200, "comfy", gib(7)).wait(300).sample();
  scene.run(200);
  scene.freed(SENT(scene));
  scene.holds(200, "comfy", gib(0.8)).run(300);
  assert.equal(scene.value(id, "purge").outcome, "released");
});

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

Deno.test("a driver that gives no reading while it falls: unconfirmed, not a timeout", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed(SENT(scene));
  for (let seconds = 0; seconds < 11; seconds++) {
    scene.wait(1_000).send({ type: "woke", generation: scene.last("freeComfy").generation });
    if (scene.all("freeComfy").length === 2 && seconds === 5) scene.freed(SENT(scene));
  }
  assert.equal(scene.value(id, "purge").outcome, "unconfirmed");
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

Deno.test("the queue turns out to be occupied by the two reads: busy, not sent", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed({ kind: "occupied", running: 1, pending: 0 });
  const result = scene.value(id, "purge");
  assert.deepEqual([result.outcome, result.overlapped, result.freedBytes], ["busy", false, null]);
});

Deno.test("a slow answer is a garbage collection: read again half a second later, and given up in the end", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.freed({ kind: "slow", slowestMs: 270 });
  scene.run(490);
  assert.equal(scene.all("freeComfy").length, 1);
  scene.run(20);
  assert.equal(scene.all("freeComfy").length, 2);
  for (let tries = 0; tries < 30 && !scene.isAnswered(id); tries++) {
    scene.freed({ kind: "slow", slowestMs: 270 });
    scene.run(510);
  }
  const result = scene.value(id, "purge");
  assert.equal(result.outcome, "timeout");
  assert.match(result.message, /never answered promptly/);
});

Deno.test("a /free that fails is unreachable; a second one that fails leaves the first its time", async (test) => {
  await test.step("the first", () => {
    const scene = idleComfy();
    const id = purge(scene);
    scene.freed({ kind: "failed", message: "connection refused" });
    const result = scene.value(id, "purge");
    assert.equal(result.outcome, "unreachable");
    assert.match(result.message, /connection refused/);
  });
  await test.step("the second", () => {
    const scene = idleComfy();
    const id = purge(scene);
    scene.freed(SENT(scene));
    scene.run(5_010);
    scene.freed({ kind: "failed", message: "timeout" });
    scene.run(2_000);
    assert.equal(scene.isAnswered(id), false);
    scene.holds(200, "comfy", gib(0.8)).run(300);
    assert.equal(scene.value(id, "purge").outcome, "released");
  });
});

Deno.test("a purge whose question is never answered doesn't hold the lane for ever", () => {
  const scene = idleComfy();
  const id = purge(scene);
  scene.run(10_100);
  assert.equal(scene.value(id, "purge").outcome, "unreachable");
  assert.equal(scene.state.holder, null);
});

Deno.test("nothing to purge, nobody to ask, nobody here", async (test) => {
  await test.step("no process on the card", () => {
    const scene = new Scene();
    scene.sample();
    scene.wait(2_000).sample();
    assert.equal(scene.value(purge(scene), "purge").outcome, "nothing_loaded");
  });
  await test.step("its bare context, once that was measured", () => {
    const scene = idleComfy();
    purge(scene);
    scene.run(100).freed(SENT(scene));
    scene.holds(200, "comfy", gib(0.8)).run(300);
    // The sample still shows 7 GiB: the first reading knows better.
    const id = purge(scene);
    scene.run(20);
    assert.equal(scene.value(id, "purge").outcome, "nothing_loaded");
    assert.equal(scene.all("abort").length, 1);
    scene.sample();
    assert.equal(scene.value(purge(scene), "purge").outcome, "nothing_loaded");
    assert.equal(scene.all("freeComfy").length, 2);
  });
  await test.step("down", () => {
    const scene = new Scene();
    scene.comfy = comfy({ online: false, reason: "connection refused", queueRemaining: null });
    scene.sample();
    assert.equal(scene.value(purge(scene), "purge").outcome, "unreachable");
  });
  await test.step("on another host", () => {
    const scene = new Scene();
    scene.comfy = comfy({ isRemote: true, server: null });
    scene.sample();
    assert.equal(scene.value(purge(scene), "purge").outcome, "remote");
  });
});

Deno.test("without bytes of its process, without a card, or without the wish: unconfirmed", async (test) => {
  await test.step("no bytes", () => {
    const scene = idleComfy(null);
    const id = purge(scene);
    scene.freed(SENT(scene));
    assert.equal(scene.value(id, "purge").outcome, "unconfirmed");
  });
  await test.step("no card", () => {
    const scene = new Scene();
    scene.gpu = absent();
    scene.sample();
    scene.wait(2_000).sample();
    const id = purge(scene);
    scene.freed(SENT(scene));
    const result = scene.value(id, "purge");
    assert.equal(result.outcome, "unconfirmed");
    assert.match(result.message, /the card is absent/);
  });
  await test.step("the driver is lost while it falls", () => {
    const scene = idleComfy();
    const id = purge(scene);
    scene.freed(SENT(scene));
    scene.run(100);
    scene.send({ type: "barrierLost", reason: "a driver call is overdue" });
    scene.holds(200, "comfy", gib(0.8)).run(5_100);
    const result = scene.value(id, "purge");
    assert.equal(result.outcome, "unconfirmed");
    assert.match(result.message, /overdue/);
  });
  await test.step("confirm=false", () => {
    const scene = idleComfy();
    const id = purge(scene, false);
    scene.freed(SENT(scene));
    assert.equal(scene.value(id, "purge").outcome, "unconfirmed");
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

Deno.test("request-vram: it was free already, so nothing is purged", () => {
  const scene = new Scene().holds(200, "comfy", gib(4));
  scene.sample();
  const result = scene.value(scene.ask({ kind: "requestVram", neededBytes: gib(8) }), "requestVram");
  assert.equal(result.fits, true);
  assert.equal(result.reclaimedBytes, 0);
  assert.equal(result.purge, null);
  assert.equal(scene.all("freeComfy").length, 0);
});

Deno.test("request-vram purges an idle ComfyUI at once and says what came of it and who holds the rest", () => {
  const scene = idleComfy().holds(300, "unmanaged", gib(0.84), "whisper");
  scene.sample();
  const id = scene.ask({ kind: "requestVram", neededBytes: gib(10) });
  scene.freed(SENT(scene));
  scene.run(1_200);
  scene.holds(200, "comfy", gib(0.8)).run(300);
  const result = scene.value(id, "requestVram");
  assert.equal(result.fits, true);
  assert.equal(result.reclaimedBytes, gib(7) - gib(0.8));
  assert.equal(result.hadBytes, gib(16) - RESIDUAL_BYTES - gib(7) - gib(0.84));
  assert.equal(result.freeBytes, gib(16) - RESIDUAL_BYTES - gib(0.8) - gib(0.84));
  assert.equal(result.holders.find((share) => share.bucket === "comfy")?.bytes, gib(0.8));
  assert.match(result.holders.find((share) => share.bucket === "unmanaged")?.who[0] ?? "", /pid 300 whisper 0.84 GB/);
});

Deno.test("request-vram beside a bare context: nobody is asked, nobody waits ten seconds for a fall", () => {
  const scene = new Scene().holds(200, "comfy", gib(0.8)).holds(300, "unmanaged", gib(9), "trainer");
  scene.sample();
  const result = scene.value(scene.ask({ kind: "requestVram", neededBytes: gib(10) }), "requestVram");
  assert.deepEqual([result.fits, result.reclaimedBytes], [false, 0]);
  assert.match(result.message, /nothing that could be given back.*trainer/);
  assert.equal(scene.all("freeComfy").length, 0);
});

Deno.test("request-vram while ComfyUI executes purges nothing and names who holds it", () => {
  const scene = idleComfy(gib(12));
  scene.enqueue(1);
  scene.run(20);
  const result = scene.value(scene.ask({ kind: "requestVram", neededBytes: gib(10) }), "requestVram");
  assert.equal(result.fits, false);
  assert.match(result.message, /is executing/);
  assert.match(result.message, /comfy 12 GB/);
  assert.equal(scene.all("freeComfy").length, 0);
});

Deno.test("request-vram is preempted by a prompt like any purge, and answers", () => {
  const scene = idleComfy(gib(12));
  const id = scene.ask({ kind: "requestVram", neededBytes: gib(10) });
  scene.run(50);
  scene.enqueue(1);
  const result = scene.value(id, "requestVram");
  assert.deepEqual([result.fits, result.purge?.outcome], [false, "busy"]);
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
