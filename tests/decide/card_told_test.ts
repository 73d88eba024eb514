/** What the history and the why-log are told of the card: each change once, with its cause and what became of it. */
import assert from "node:assert/strict";
import { openWorld, type World } from "./card_world.ts";

function told(world: World): readonly (readonly [kind: string, event: string, cause: unknown])[] {
  return world.effects.flatMap((effect) =>
    effect.kind === "recordTuning" ? [[effect.item.kind, effect.event, effect.item.fields["cause"]] as const] : []
  );
}

Deno.test("a profile that follows the workload is told once, also when it writes nothing", () => {
  const world = openWorld();
  world.pass(10, { ollama: true });
  assert.deepEqual(told(world), [["profile", "Profile ollama is in force", "workload"]]);
});

Deno.test("what is asked for by hand is told once, even where the profile was in force already", () => {
  const world = openWorld();
  world.pass(3, { comfy: true });
  world.ask({ kind: "profile", name: "comfy", confirmMs: null });
  world.ask({ kind: "lever", lever: "fan", value: 50, confirmMs: null });
  world.ask({ kind: "restore", scope: "all" });
  world.pass(3, { comfy: true });
  assert.deepEqual(told(world).map(([, event, cause]) => [event, cause]), [
    ["Profile comfy is in force", "workload"],
    ["Profile comfy is applied", "operator"],
    ["Set fan 50", "operator"],
    ["Every lever is at stock", "restore"],
  ]);
});

Deno.test("each change says what became of its levers", () => {
  const world = openWorld();
  world.ask({ kind: "lever", lever: "power_limit_w", value: 250, confirmMs: null });
  const effect = world.effects.find((candidate) => candidate.kind === "recordTuning");
  assert.deepEqual(effect?.kind === "recordTuning" ? effect.item.fields["levers"] : null, [
    { lever: "power_limit_w", wanted: 250, read_back: 250, verdict: "honoured" },
  ]);
});

Deno.test("the governor's moves are told as its own, with why", () => {
  const world = openWorld();
  world.pass(5, { temperatureC: 90 });
  world.pass(3, { temperatureC: null });
  assert.deepEqual(told(world).map(([kind, event]) => [kind, event]), [
    ["governor", "The governor goes from level 0 to 1"],
    ["governor", "The governor goes from level 1 to 0"],
  ]);
});
