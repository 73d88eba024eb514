import assert from "node:assert/strict";
import { contextOf } from "../../lib/decide/lane.ts";
import { planWorkload } from "../../lib/decide/workload_plan.ts";
import type { PlanRequest } from "../../lib/model/footprints.ts";
import { Scene } from "./scene.ts";
import { gib } from "./stories.ts";

function plan(scene: Scene, request: Partial<PlanRequest>) {
  const context = contextOf(scene.state, { isAuto: false, isWanted: true }, scene.atMs);
  assert.ok(context);
  return planWorkload({ model: null, workflow: null, neededBytes: null, ...request }, scene.state, context);
}

Deno.test("room that an LLM wants: free already, by a purge, or not at all, with who holds the rest", () => {
  const scene = new Scene().holds(200, "comfy", gib(7)).holds(300, "unmanaged", gib(2), "whisper");
  scene.sample();
  assert.equal(plan(scene, { neededBytes: gib(2) }).verdict, "stays");
  const purge = plan(scene, { neededBytes: gib(10) });
  assert.equal(purge.verdict, "makes_room");
  assert.deepEqual(purge.steps.map(({ action, freesBytes }) => [action, freesBytes]), [["purge", gib(7)]]);
  const never = plan(scene, { neededBytes: gib(15.5) });
  assert.equal(never.verdict, "waits");
  assert.match(never.message, /whisper/);
  assert.deepEqual(purge.need, { bytes: gib(10), basis: "asked", n: null });
});

Deno.test("a workflow while Ollama holds nothing: it runs, and nobody has to go", () => {
  const scene = new Scene().holds(200, "comfy", gib(1));
  scene.sample();
  const found = plan(scene, { workflow: "portrait" });
  assert.equal(found.verdict, "stays");
  assert.deepEqual(found.need, { bytes: null, basis: "unknown", n: 0 });
});

Deno.test("planning moves nothing: the state is what it was", () => {
  const scene = new Scene().holds(200, "comfy", gib(7));
  scene.sample();
  const before = structuredClone(scene.state);
  plan(scene, { workflow: "w", neededBytes: gib(20) });
  plan(scene, { model: "qwen3:14b" });
  assert.deepEqual(scene.state, before);
});
