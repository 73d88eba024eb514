/** Half a model in ComfyUI, told by its peak and its steps. */
import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, policy } from "./stories.ts";

/** Whole: a hand-off is made for each of its prompts. */
const WHOLE_CARD = policy({ needs: { comfyui: gib(16) } });
const WORKFLOW = "sdxl.safetensors, 1024x1024";

/** One prompt: what ComfyUI held at most, and how long its steps took. */
function play(scene: Scene, id: string, { peak, stepMs = null }: { peak: number; stepMs?: number | null }): void {
  scene.enqueue(1);
  scene.comfy = { ...scene.comfy, runningPromptId: id };
  scene.holds(200, "comfy", gib(peak)).run(1_100, { stepMs: 50 });
  scene.comfy = { ...scene.comfy, runningPromptId: null };
  scene.enqueue(0);
  scene.send({ type: "promptEnded", promptId: id, status: "success", workflow: WORKFLOW, stepMs });
  scene.run(1_100, { stepMs: 50 });
}

function stage(given = WHOLE_CARD, peaks: readonly number[] = [8, 8.2, 7.9]): Scene {
  const scene = new Scene(given).holds(200, "comfy", gib(0.8));
  scene.sample();
  for (const [at, peak] of peaks.entries()) play(scene, `whole-${at}`, { peak, stepMs: 300 + at });
  return scene;
}

/** A prompt that a hand-off was made for. */
function handOver(scene: Scene, run: { peak: number; stepMs?: number | null }): Readonly<Record<string, unknown>> {
  scene.load("alpha:latest", 101, gib(3)).sample();
  const before = scene.all("amend").length;
  scene.enqueue(1);
  scene.run(60);
  scene.end(101).run(60);
  play(scene, "after", run);
  const amends = scene.all("amend").slice(before).filter(({ fields }) => "suspected_partial_load" in fields);
  assert.ok(amends.length <= 1, "judged once");
  return amends[0]?.fields ?? {};
}

function notes(scene: Scene) {
  return scene.all("record").filter(({ item }) => item.fields["decision"] === "suspected_partial_load");
}

Deno.test("after a hand-off: a peak below 0.8 of the median of three is suspected, on the hand-off's record", () => {
  const scene = stage();
  const fields = handOver(scene, { peak: 6.2 });
  assert.equal(fields["suspected_partial_load"], true);
  assert.match(String(fields["suspected_because"]), /6.2 GB at most.*8 GB \(median of 3\)/);
  assert.match(String(fields["remedy"]), /heal_partial/);
  assert.equal(scene.all("freeComfy").length, 0, "offered, not done");
});

Deno.test("its steps took more than 1.6 times their median: suspected as well", () => {
  assert.equal(handOver(stage(), { peak: 8, stepMs: 500 })["suspected_partial_load"], true);
});

Deno.test("within both limits: said not to be", () => {
  assert.equal(handOver(stage(), { peak: 6.5, stepMs: 470 })["suspected_partial_load"], false);
});

Deno.test("fewer than three whole runs: nothing is said", () => {
  assert.deepEqual(handOver(stage(WHOLE_CARD, [8, 8.2]), { peak: 3 }), {});
});

Deno.test("without a hand-off of ours it is recorded by itself, once until a whole run", () => {
  const scene = stage();
  play(scene, "half-1", { peak: 4 });
  play(scene, "half-2", { peak: 4 });
  assert.equal(notes(scene).length, 1);
  play(scene, "whole", { peak: 8 });
  play(scene, "half-3", { peak: 4 });
  assert.equal(notes(scene).length, 2);
});

Deno.test("half a model's peak teaches nothing, neither the workflow nor ComfyUI's need", () => {
  const scene = stage(WHOLE_CARD, [8, 8, 8]);
  for (let n = 0; n < 12; n++) play(scene, `half-${n}`, { peak: 4 });
  assert.equal(scene.state.partials.runs[WORKFLOW]?.length, 3);
});

Deno.test("comfyui.heal_partial: purged at the next idle moment, once", () => {
  const scene = stage({ ...WHOLE_CARD, healPartial: true });
  play(scene, "half", { peak: 4 });
  scene.run(3_000, { stepMs: 50 });
  assert.equal(scene.all("freeComfy").length, 1);
  assert.equal(scene.state.holder?.job.cause.kind, "partial_load");
  scene.freed({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });
  scene.run(600).holds(200, "comfy", gib(0.8)).run(600);
  assert.equal(scene.recorded("purge")["cause"], "partial_load");
  scene.run(10_000, { stepMs: 100 });
  assert.equal(scene.all("freeComfy").length, 1);
  assert.equal(scene.state.partials.suspect, null);
});

Deno.test("what it holds outlives /free: tried once, and offered on", () => {
  const scene = stage({ ...WHOLE_CARD, healPartial: true });
  play(scene, "half", { peak: 4 });
  for (let seconds = 0; seconds < 60; seconds++) {
    scene.run(1_000, { stepMs: 50 });
    if (scene.state.holder?.job.kind !== "purge" || scene.state.holder.job.phase !== "asking") continue;
    scene.freed({ kind: "sent", requestMs: 2, sentAtMs: scene.atMs });
  }
  assert.equal(scene.recorded("purge")["outcome"], "timeout");
  assert.equal(scene.all("freeComfy").length, 2, "with its one re-send");
  assert.notEqual(scene.state.partials.suspect, null);
});
