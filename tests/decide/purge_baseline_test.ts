/** What a purge is held to: the bytes that ComfyUI held while `/free` could be out, by two readings in a row. */
import assert from "node:assert/strict";
import type { FreeReply } from "../../lib/model/events.ts";
import { Scene } from "./scene.ts";
import { MIB } from "../../lib/model/units.ts";
import { gib } from "./stories.ts";

const SENT = (scene: Scene): FreeReply => ({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });

/** An idle ComfyUI with 7 GiB that has just been asked: the queue is being read, and readings come. */
function asked(): { readonly scene: Scene; readonly id: string } {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  scene.wait(2_000).sample();
  const id = scene.ask({ kind: "purge", confirm: true });
  scene.run(50);
  return { scene, id };
}

Deno.test("a fall that is seen before /free's own answer counts: it was out by then", () => {
  const { scene, id } = asked();
  const reply = SENT(scene);
  scene.holds(200, "comfy", gib(0.8)).run(50);
  scene.freed(reply);
  scene.run(300);
  const result = scene.value(id, "purge");
  assert.deepEqual([result.outcome, result.freedBytes], ["released", gib(7) - gib(0.8)]);
});

Deno.test("what it took while it was being asked is part of what it has to give back", () => {
  const { scene, id } = asked();
  scene.holds(200, "comfy", gib(9)).run(50);
  scene.freed(SENT(scene));
  scene.run(100);
  scene.holds(200, "comfy", gib(8)).run(300);
  assert.equal(scene.value(id, "purge").freedBytes, gib(1));
});

Deno.test("what it gave back while it was being asked isn't /free's doing: the purge goes on until that strikes", () => {
  const { scene, id } = asked();
  scene.holds(200, "comfy", gib(4)).run(50);
  scene.freed(SENT(scene));
  scene.run(2_000);
  assert.equal(scene.isAnswered(id), false, "/free has yet to strike");
  scene.holds(200, "comfy", gib(0.8)).run(300);
  assert.equal(scene.value(id, "purge").freedBytes, gib(4) - gib(0.8));
});

Deno.test("one reading that shows more is no baseline: the driver's two calls are not one snapshot", () => {
  const { scene, id } = asked();
  scene.holds(200, "comfy", gib(9)).read();
  scene.holds(200, "comfy", gib(7)).run(50);
  scene.freed(SENT(scene));
  scene.run(2_000);
  assert.equal(scene.isAnswered(id), false, "nothing has fallen");
});

Deno.test("what falls by no more than 64 MB hasn't fallen", () => {
  const { scene, id } = asked();
  scene.freed(SENT(scene));
  scene.holds(200, "comfy", gib(7) - 64 * MIB).run(2_000);
  assert.equal(scene.isAnswered(id), false);
  scene.holds(200, "comfy", gib(7) - 65 * MIB).run(300);
  assert.equal(scene.value(id, "purge").outcome, "released");
});

Deno.test("/free went out as a prompt arrived: busy and overlapped, also where the driver tells nothing", () => {
  const scene = new Scene().holds(200, "comfy", null);
  scene.sample();
  scene.wait(2_000).sample();
  const id = scene.ask({ kind: "purge", confirm: true });
  scene.comfy = { ...scene.comfy, queueRemaining: 1, executing: true };
  const { generation } = scene.last("freeComfy");
  // The answer and the frame come in one turn: the sample knows of the prompt, the purge not yet.
  scene.state = { ...scene.state, comfy: { ...scene.state.comfy, queueRemaining: 1 } };
  scene.send({ type: "freeReplied", generation, reply: SENT(scene) });
  const result = scene.value(id, "purge");
  assert.deepEqual([result.outcome, result.overlapped], ["busy", true]);
});
