/** Safetensors run in a child that is named instead of pointed at a blob: a yield finds and releases it all the same. */
import assert from "node:assert/strict";
import { labModel } from "../../lib/lab/ollama_models.ts";
import { openScene } from "../faults/scene.ts";

const MLX = labModel({ name: "qwen3:27b-mlx", blobBytes: 8e9, format: "safetensors" });
const GGUF = labModel({ name: "tiny:latest", blobBytes: 22e6, bufferBytes: 20e6, kvBytesPerToken: 0 });

for (const ollamaVersion of ["0.24.0", "0.33.0"] as const) {
  Deno.test(`${ollamaVersion}: an MLX model beside a GGUF one, yielded and released`, async () => {
    await using scene = await openScene({ machine: { ollamaVersion, ollamaModels: [MLX, GGUF] } });
    const { box } = scene;
    await scene.load(GGUF.name);
    await scene.load(MLX.name);
    const runner = scene.house.state().arbiter.sample?.ollama.runners.find(({ generation }) => generation === "mlx");
    assert.deepEqual([runner?.modelName, runner?.blob], [MLX.name, null]);
    // It leaves by itself within 5 s of being asked; that is no fault, and no busy runner.
    box.ollama.quirks.mlxExitMs = 3_000;
    const result = await scene.yieldVram([MLX.name]);
    assert.deepEqual([result.outcome, result.models, result.pids], ["released", [MLX.name], [runner?.pid]]);
    assert.ok((result.confirmMs ?? 0) > 3_000, "its release was called before it left");
    assert.deepEqual(box.ollama.runners.map(({ model }) => model), [GGUF.name]);
  });
}

Deno.test("an MLX model that is killed after 5 s is called released when the driver says so", async () => {
  await using scene = await openScene({ machine: { ollamaModels: [MLX] } });
  await scene.load(MLX.name);
  Object.assign(scene.box.ollama.quirks, { mlxExitMs: 60_000, releaseMs: 700 });
  const sinceMs = scene.clock.monotonicMs();
  await scene.prompt({ ms: 8_000 });
  const { fields } = await scene.handOff(sinceMs);
  assert.equal(fields["outcome"], "released", String(fields["message"]));
  assert.ok(Number(fields["confirm_ms"]) >= 5_700, `${fields["confirm_ms"]} ms`);
});

Deno.test("a yield while an MLX model loads waits for its listing, and takes it then", async () => {
  await using scene = await openScene({ machine: { ollamaModels: [MLX] } });
  const { box } = scene;
  const loading = scene.beginLoad(MLX.name);
  await scene.pass(800);
  assert.equal(scene.runnerOf(MLX.name).state, "loading");
  const result = await scene.yieldVram();
  await scene.settle(loading);
  assert.equal(result.outcome, "released", result.message);
  assert.deepEqual(box.ollama.runners, []);
});
