import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { gib, row, runner } from "./stories.ts";

const HEADROOM = 0.5;

/** A model that somebody else loaded, holding so much; each call is another second. */
function seen(scene: Scene, { pid, gibs, contextLength = 4_096 }: {
  readonly pid: number;
  readonly gibs: number;
  readonly contextLength?: number;
}): void {
  const own = { ...row("alpha:latest"), contextLength };
  scene.ollama = { ...scene.ollama, runners: [runner(pid, "alpha:latest")], resident: [own] };
  scene.holds(pid, "ollama", gib(gibs));
  scene.sample();
}

const measured = (scene: Scene) => scene.state.footprints["alpha:latest"] ?? [];
const missed = (scene: Scene) =>
  scene.effects.flatMap((effect) =>
    effect.kind === "record" && effect.item.fields["decision"] === "footprint_missed" ? [effect.reason] : []
  );

Deno.test("others' loads are measured, too: once each, when it holds still, and by the most it came to hold", () => {
  const scene = new Scene();
  seen(scene, { pid: 101, gibs: 3 });
  seen(scene, { pid: 101, gibs: 8 });
  assert.deepEqual(measured(scene), [], "it was still growing");
  seen(scene, { pid: 101, gibs: 8 });
  assert.deepEqual(measured(scene).map(({ peakBytes }) => peakBytes), [gib(8)]);
  seen(scene, { pid: 101, gibs: 9 });
  seen(scene, { pid: 101, gibs: 9 });
  seen(scene, { pid: 101, gibs: 8.5 });
  seen(scene, { pid: 101, gibs: 8.5 });
  const [stay, ...more] = measured(scene);
  assert.deepEqual([stay?.peakBytes, stay?.steadyBytes, more.length], [gib(9), gib(8.5), 0]);
});

Deno.test("a model that lies partly outside VRAM tells nothing of what it needs", () => {
  const scene = new Scene();
  const own = { ...row("alpha:latest"), sizeBytes: gib(10), sizeVramBytes: gib(5) };
  scene.ollama = { ...scene.ollama, runners: [runner(101, "alpha:latest")], resident: [own] };
  scene.holds(101, "ollama", gib(5));
  for (let second = 0; second < 3; second++) scene.sample();
  assert.deepEqual(measured(scene), []);
});

Deno.test("a need that was too small is a miss: counted once, and said", () => {
  const scene = new Scene(undefined, {});
  for (const pid of [101, 102, 103]) for (let second = 0; second < 2; second++) seen(scene, { pid, gibs: 8 });
  assert.equal(measured(scene).length, 3);
  // Within the headroom it was foreseen.
  for (let second = 0; second < 2; second++) seen(scene, { pid: 104, gibs: 8 + HEADROOM });
  assert.deepEqual(missed(scene), []);
  for (let second = 0; second < 4; second++) seen(scene, { pid: 105, gibs: 10 });
  assert.equal(scene.state.misses["alpha:latest"], 1);
  assert.match(missed(scene).join(), /^alpha:latest took 10 GB, where 8\.5 GB were reckoned with \(the most of 4\)/);
});

Deno.test("another context size is another footprint: no miss, and not used before three of its own", () => {
  const scene = new Scene();
  for (const pid of [101, 102, 103]) for (let second = 0; second < 2; second++) seen(scene, { pid, gibs: 8 });
  for (let second = 0; second < 2; second++) seen(scene, { pid: 104, gibs: 14, contextLength: 32_768 });
  assert.deepEqual([measured(scene).length, missed(scene)], [4, []]);
});
