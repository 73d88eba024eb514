/** Around a suspend: pinned fans go back before it, everything comes back after it, and Ollama is looked after. */
import assert from "node:assert/strict";
import { viewTuning } from "../../lib/decide/card_view.ts";
import { NOT_AWAITED, type OllamaReturn } from "../../lib/decide/ollama_return.ts";
import type { Sample } from "../../lib/model/sample.ts";
import { GIB } from "../../lib/model/units.ts";
import { openWorld, second, type World } from "./card_world.ts";

const fan = (value: number) => ({ kind: "lever", lever: "fan", value, confirmMs: null }) as const;
const SLEEP = { kind: "restore", scope: "fans" } as const;
const WOKE = { type: "cardNews", news: { kind: "reopened", atMs: 0 } } as const;

Deno.test("before a sleep the fans go back to the card and nothing else does; after it they are as they were set", () => {
  const world = openWorld();
  world.ask(fan(70));
  world.pass(1, { comfy: true });
  assert.deepEqual([world.card.fan, world.card.power_limit_w], [70, 370]);
  const reply = world.ask(SLEEP);
  assert.equal(reply?.kind, "done");
  assert.deepEqual([world.card.fan, world.card.power_limit_w], ["stock", 370]);
  world.pass(3, { comfy: true });
  assert.equal(world.card.fan, "stock", "not set again while the machine goes to sleep");
  // The driver has forgotten all of it.
  Object.assign(world.card, { fan: "stock", power_limit_w: 320 });
  world.send(WOKE);
  world.pass(1, { comfy: true });
  assert.deepEqual([world.card.fan, world.card.power_limit_w], [70, 370]);
});

Deno.test("a machine that didn't go to sleep after all has its fans back after two minutes", () => {
  const world = openWorld();
  world.ask(fan(70));
  world.ask(SLEEP);
  world.pass(119);
  assert.equal(world.card.fan, "stock");
  world.pass(1);
  assert.equal(world.card.fan, 70);
});

Deno.test("fans that were never ours are not given back before a sleep", () => {
  const world = openWorld({ values: { fan: 60 } });
  assert.equal(world.ask(SLEEP)?.kind, "done");
  assert.deepEqual([world.card.fan, world.written()], [60, []]);
});

/** A sample with a model resident, or none, and so much of it on the card by the driver. */
function withOllama(model: string | null, ollamaBytes: number | null): Sample {
  const base = second();
  if (!base.gpu.available) throw new TypeError("The fake card is there");
  const [row] = base.ollama.resident;
  if (row === undefined) throw new TypeError("The fake Ollama has a model resident");
  const resident = model === null ? [] : [{ ...row, name: model }];
  return {
    ...base,
    ollama: { ...base.ollama, resident },
    gpu: { ...base.gpu, breakdown: { ...base.gpu.breakdown, ollamaBytes } },
  };
}

function see(world: World, sample: Sample, seconds = 1): void {
  for (let passed = 0; passed < seconds; passed++) {
    world.pass(1, { isLost: true });
    world.send({ type: "sampled", sample });
  }
}

const finding = (world: World): OllamaReturn["finding"] => viewTuning(world.state, (ms) => ms).ollamaReturn;
const told = (world: World) =>
  world.effects.flatMap((effect) => effect.kind === "recordTuning" && /Ollama/.test(effect.event) ? effect.event : []);

function awake(): World {
  const world = openWorld();
  see(world, withOllama("big:27b", 12 * GIB));
  assert.equal(finding(world), null, "nobody asks before the card was opened anew");
  world.send(WOKE);
  see(world, withOllama(null, 0), 30);
  assert.equal(finding(world), null, "nothing is resident yet, so nothing is known");
  return world;
}

Deno.test("a model that is resident without VRAM for ten seconds after a resume has fallen back to the CPU", () => {
  const world = awake();
  see(world, withOllama("big:27b", 0), 10);
  assert.equal(finding(world), null, "the two lists may disagree while it loads");
  see(world, withOllama("big:27b", 0));
  assert.equal(finding(world)?.isOnGpu, false);
  assert.match(finding(world)?.text ?? "", /^big:27b is resident and holds no VRAM/);
  see(world, withOllama("big:27b", 0), 20);
  assert.deepEqual(told(world), ["Ollama did not come back on the GPU"], "told once");
  see(world, withOllama("big:27b", 12 * GIB));
  assert.equal(finding(world)?.isOnGpu, true, "its owner has restarted it");
  assert.equal(told(world).at(-1), "Ollama is back on the GPU");
});

Deno.test("a model that holds VRAM after a resume is back, and is told of once", () => {
  const world = awake();
  see(world, withOllama("big:27b", 12 * GIB), 5);
  assert.equal(finding(world)?.isOnGpu, true);
  see(world, withOllama(null, 0), 5);
  see(world, withOllama("tiny-on-cpu", 0), 30);
  assert.equal(finding(world)?.isOnGpu, true, "a model for the CPU afterwards is its owner's choice");
  assert.deepEqual(told(world), ["Ollama is back on the GPU"]);
});

Deno.test("bytes that the driver doesn't give prove nothing, nor does an Ollama that never was on this card", () => {
  const world = awake();
  see(world, withOllama("big:27b", null), 30);
  assert.equal(finding(world), null);
  const stranger = openWorld();
  see(stranger, withOllama("tiny-on-cpu", 0), 5);
  assert.deepEqual({ ...stranger.state.ollama, wasOnGpu: false }, NOT_AWAITED);
});
