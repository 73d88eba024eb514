import assert from "node:assert/strict";
import type { FreeReply } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { gib, RESIDUAL_BYTES } from "./stories.ts";

const SENT = (scene: Scene): FreeReply => ({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });

/** ComfyUI with 7 GiB, idle for long enough. */
function idleComfy(bytes: number | null = gib(7)): Scene {
  const scene = new Scene().holds(200, "comfy", bytes);
  scene.sample();
  scene.wait(2_000).sample();
  return scene;
}

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
