import assert from "node:assert/strict";
import { labModel } from "../../lib/lab/ollama_models.ts";
import { GIB } from "../../lib/model/units.ts";
import { errorOf, openOllama, TINY } from "./ollama_scene.ts";

const MLX = labModel({ name: "qwen3:27b-mlx", blobBytes: 9e9, format: "safetensors" });
const open = (version: "0.24.0" | "0.33.0" = "0.33.0") => openOllama({ version, models: [TINY, MLX] });

for (const version of ["0.24.0", "0.33.0"] as const) {
  Deno.test(`${version}: safetensors run in the MLX engine, which is given the model's name`, async () => {
    await using box = open(version);
    await box.load(MLX.name);
    const runner = box.processes.get(box.server.runners[0]?.pid ?? 0);
    assert.deepEqual(runner?.args.slice(0, 5), [
      "/usr/local/bin/ollama",
      "runner",
      "--mlx-engine",
      "--model",
      MLX.name,
    ]);
    const { models } = JSON.parse((await box.call("/api/tags")).text) as { models: { details: { format: string } }[] };
    assert.deepEqual(models.map(({ details }) => details.format).sort(), ["gguf", "safetensors"]);
    const { modelfile } = JSON.parse((await box.call("/api/show", { body: { model: MLX.name } })).text);
    assert.doesNotMatch(modelfile, /sha256-/);
  });
}

Deno.test("an unload and a listing wait for the MLX model that loads, and the unload then takes effect", async () => {
  await using box = open();
  const loading = box.begin("/api/generate", { body: { model: MLX.name } });
  await box.clock.advance(700);
  assert.equal(box.server.runners[0]?.state, "loading");
  const [unloading, listing] = [
    box.begin("/api/generate", { body: { model: MLX.name, keep_alive: 0 } }),
    box.begin("/api/ps"),
  ];
  let replied = 0;
  for (const reply of [unloading, listing]) void reply.then(() => replied++);
  await box.clock.advance(500);
  assert.deepEqual([replied, box.server.runners[0]?.state], [0, "loading"]);
  await box.clock.until(Promise.all([loading, unloading, listing]), { limitMs: 20_000 });
  await box.clock.runUntil(() => box.server.runners.length === 0, { limitMs: 5_000, what: "its end" });
});

Deno.test("an MLX runner leaves in its own time, and is killed after 5 s without being waited for", async () => {
  await using box = open();
  await box.load(MLX.name);
  const [first] = box.server.runners;
  box.server.quirks.mlxExitMs = 2_000;
  await box.unload(MLX.name);
  await box.clock.advance(1_900);
  assert.ok(box.vram.heldBytes(first?.pid ?? 0) > 9e9, "it left before its time");
  await box.clock.advance(500);
  assert.deepEqual([box.server.runners, await box.listed()], [[], []]);

  box.server.quirks.mlxExitMs = 60_000;
  box.server.quirks.releaseMs = 3_000;
  await box.load(MLX.name);
  const [second] = box.server.runners;
  await box.unload(MLX.name);
  await box.clock.advance(5_100);
  assert.deepEqual(await box.listed(), [], "the row goes with the kill");
  assert.ok(box.vram.heldBytes(second?.pid ?? 0) > 9e9, "its memory comes back later");
  await box.clock.advance(3_100);
  assert.equal(box.vram.heldBytes(second?.pid ?? 0), 0);
});

Deno.test("an MLX model that doesn't fit is refused with both figures, and never spilled", async () => {
  await using box = open();
  box.vram.enter(1);
  assert.ok(box.vram.allocate(1, 10 * GIB));
  const refused = await box.load(MLX.name);
  assert.equal(refused.status, 500);
  assert.match(errorOf(refused), /^model requires \d+\.\d GiB but only \d+\.\d GiB are available/);
});
