import assert from "node:assert/strict";
import type { FreeReply } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { absent, comfy, gib } from "./stories.ts";

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
