import assert from "node:assert/strict";
import { demoModels, labModel } from "../../lib/lab/ollama_models.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { WarmResult } from "../../lib/model/cache.ts";
import type { Progress } from "../../lib/model/services.ts";
import { IDLE_CALL, openWarmScene, type WarmScene } from "./warm_scene.ts";

const FLUX = "/opt/ComfyUI/models/checkpoints/flux1-dev-fp8.safetensors";
const QWEN = "qwen3:14b";

/** What of a file the report says is in memory, by its model's name. */
async function share(scene: WarmScene, name: string): Promise<number> {
  const { files } = await scene.until(scene.services.cache.report(IDLE_CALL.signal));
  const residency = files.find(({ names }) => names.includes(name))?.residency;
  assert.ok(residency?.kind === "measured", name);
  return residency.share;
}

async function pathOf(scene: WarmScene, model: string): Promise<{ path: string; sizeBytes: number }> {
  const { files } = await scene.until(scene.services.cache.report(IDLE_CALL.signal));
  const file = files.find(({ names }) => names.includes(model));
  assert.ok(file);
  return file;
}

const refused = (code: string) => (error: unknown) => error instanceof Failure && error.code === code;

Deno.test("both tenants' files are found by what their servers tell, measured, and told beside the models", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock } = scene;
  await clock.advance(12_000);
  const report = await until(services.cache.report(IDLE_CALL.signal));
  assert.deepEqual(report.files.map(({ names }) => names[0]).toSorted(), [
    "checkpoints/dreamshaper_8.safetensors",
    "checkpoints/flux1-dev-fp8.safetensors",
    "checkpoints/sd_xl_base_1.0.safetensors",
    "gemma3:12b",
    "llama3.1:8b",
    "nomic-embed-text:latest",
    "qwen3:14b",
    "vae/sdxl_vae.safetensors",
  ]);
  assert.deepEqual(report.places.map(({ source, origin }) => [source, origin]), [
    ["ollama", "the usual place of a system service"],
    ["comfyui", "ComfyUI's own word"],
  ]);
  const { totals } = report;
  assert.equal(totals.measured, 8);
  assert.deepEqual(services.live.snapshot().cache, totals);
  const models = await until(services.models.list(IDLE_CALL.signal));
  const qwen = models.find(({ name }) => name === QWEN);
  assert.match(qwen?.paths?.[0] ?? "", /^\/usr\/share\/ollama\/\.ollama\/models\/blobs\/sha256-/);
  assert.equal(qwen?.residency?.[0]?.kind, "measured");
  assert.equal(models.find(({ name }) => name.startsWith("flux"))?.sizeBytes, 17_246_524_772);
  // The store tells what /api/show would have been asked for, model by model.
  const [blob] = qwen?.paths?.map((path) => path.slice(path.lastIndexOf("/") + 1)) ?? [];
  const { ollama } = services.live.snapshot().sample;
  const digest = ollama.installed.find(({ name }) => name === QWEN)?.digest ?? "";
  assert.deepEqual(ollama.blobsByDigest[digest], [blob]);
});

Deno.test("a plan reads nothing; warming all reads what it said, with progress, and is recorded", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock } = scene;
  await clock.advance(6_000);
  const qwen = await pathOf(scene, QWEN);
  scene.evict(qwen.path, qwen.sizeBytes);
  await clock.advance(6_000);
  const before = scene.box.pageCache.cachedBytes;
  const plan = await until(services.cache.plan({ budgetBytes: null, force: false }, IDLE_CALL.signal));
  assert.equal(scene.box.pageCache.cachedBytes, before, "a plan warms nothing");
  assert.ok(plan.steps.some(({ path }) => path === qwen.path));
  assert.ok(plan.skipped.some(({ cause }) => cause === "resident"));
  const seen: Progress[] = [];
  const run = services.runs.start("warm-all", (call) => {
    const tell = (progress: Progress) => (seen.push(progress), call.progress(progress));
    return services.cache.warmAll({ budgetBytes: null, force: false, operation: "warm-all" }, {
      ...call,
      progress: tell,
    });
  });
  const ended = await until(services.runs.ended(run.id));
  // The run keeps what its work returned.
  const result = ended.result as WarmResult;
  assert.equal(ended.state, "done", ended.error?.message);
  assert.deepEqual(result.files.map(({ path }) => path), plan.steps.map(({ path }) => path));
  assert.ok(result.files.every(({ end }) => end === "done"));
  assert.ok(Math.abs((result.readBytes ?? NaN) - plan.readBytes) < 1e6);
  assert.equal(await share(scene, QWEN), 1);
  const shares = seen.flatMap(({ done }) => done ?? []);
  assert.ok(shares.length > 20 && shares.every((value, index) => value >= (shares[index - 1] ?? 0)), "it goes up");
  assert.ok(seen.some(({ etaMs, phase }) => etaMs !== null && /warming .* at 3\.20 GB\/s/.test(phase)));
  const [item] = await until(services.history.list({ limit: 1, kind: "warm", before: null, durable: true }));
  assert.equal(item?.fields["end"], "done");
  assert.equal(item?.fields["residency_after_pct"], 100);
  const again = await until(
    services.cache.warmAll({ budgetBytes: null, force: false, operation: "warm-all" }, IDLE_CALL),
  );
  assert.deepEqual([again.files, again.readBytes], [[], 0]);
});

Deno.test("one after the other: the second waits in sight; a cancel takes effect within 100 ms and is recorded", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock } = scene;
  await clock.advance(6_000);
  const start = () =>
    services.runs.start(
      "warm-all",
      (call) => services.cache.warmAll({ budgetBytes: null, force: true, operation: "warm-all" }, call),
    );
  const [first, second] = [start(), start()];
  await clock.advance(1_000);
  assert.match(services.runs.get(first.id).progress?.phase ?? "", /^warming /);
  assert.equal(services.runs.get(second.id).progress?.phase, "waiting for the warm before it");
  const askedMs = clock.monotonicMs();
  assert.equal((await until(services.runs.cancel(first.id))).state, "cancelled");
  assert.ok(clock.monotonicMs() - askedMs <= 100);
  const [item] = await until(services.history.list({ limit: 1, kind: "warm", before: null, durable: true }));
  assert.equal(item?.fields["end"], "cancelled");
  assert.ok(Number(item?.fields["read_gb"]) >= 0);
  await clock.advance(500);
  assert.match(services.runs.get(second.id).progress?.phase ?? "", /^warming /);
  await until(services.runs.cancel(second.id));
});

Deno.test("one model: skipped when it is in memory, read when forced, loaded too when asked for", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock } = scene;
  await clock.advance(6_000);
  const warm = (more: Record<string, unknown>) =>
    until(services.cache.warmModel(
      { model: null, path: null, force: false, isWeightsOnly: true, operation: "warm-model", ...more },
      IDLE_CALL,
    ));
  const kept = await warm({ model: QWEN });
  assert.deepEqual(kept.files.map(({ end }) => end), ["skipped"]);
  assert.deepEqual((await warm({ model: QWEN, force: true })).files.map(({ end }) => end), ["done"]);
  const file = await warm({ path: FLUX });
  assert.ok((file.shareBefore ?? 1) < 0.5 && file.shareAfter === 1);
  await warm({ model: "llama3.1:8b", isWeightsOnly: false });
  await clock.advance(1_500);
  assert.deepEqual(services.live.snapshot().sample.ollama.resident.map(({ name }) => name), ["llama3.1:8b"]);
  for (
    const [wrong, code] of [
      [{}, "invalid_input"],
      [{ model: QWEN, path: FLUX }, "invalid_input"],
      [{ model: "qwen3:41b" }, "not_found"],
      [{ path: "models/x" }, "invalid_input"],
      [{ path: "/opt/ComfyUI/models/../../../etc/passwd" }, "invalid_input"],
      [{ path: "/etc/passwd" }, "forbidden"],
      [{ path: "/opt/ComfyUI/models/checkpoints/none.safetensors" }, "not_found"],
      [{ path: FLUX, isWeightsOnly: false }, "invalid_input"],
    ] as const
  ) await assert.rejects(warm(wrong), refused(code), JSON.stringify(wrong));
  await assert.rejects(
    warm({ model: "qwen3:41b" }),
    (error: Failure) => /Did you mean 'qwen3:14b'/.test(error.hint ?? ""),
  );
});

Deno.test("a link out of the model folders is refused by name, whatever it leads to", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock, root } = scene;
  await Deno.mkdir(`${root}/secret`);
  await Deno.writeTextFile(`${root}/secret/s.safetensors`, "x");
  await Deno.symlink("../../../../secret/s.safetensors", `${root}/opt/ComfyUI/models/checkpoints/link.safetensors`);
  await clock.advance(12_000);
  const link = "/opt/ComfyUI/models/checkpoints/link.safetensors";
  const warm = (choice: { model: string | null; path: string | null }) =>
    until(
      services.cache.warmModel({ ...choice, force: true, isWeightsOnly: true, operation: "warm-model" }, IDLE_CALL),
    );
  await assert.rejects(warm({ model: null, path: link }), refused("forbidden"));
  await assert.rejects(warm({ model: "link.safetensors", path: null }), /outside of every model folder/);
});

Deno.test("a switch carries what was in memory before its load, and classifies a small model by it", async () => {
  await using scene = await openWarmScene({
    ollamaModels: [...demoModels(), labModel({ name: "tiny", blobBytes: 0.5e9, kvBytesPerToken: 0 })],
  });
  const { services, until, clock } = scene;
  await clock.advance(6_000);
  const load = async (model: string) => {
    const result = await until(services.arbitration.switchModel(
      { model, keepAlive: "1s", prompt: null, operation: "switch-model" },
      IDLE_CALL,
    ));
    await clock.advance(6_000);
    return result;
  };
  for (const model of [QWEN, "tiny:latest"]) {
    const warm = await load(model);
    assert.deepEqual([warm.residencyBeforePct, warm.class], [100, "ram_hit"], model);
    const { path, sizeBytes } = await pathOf(scene, model);
    scene.evict(path, sizeBytes);
    await clock.advance(6_000);
    const cold = await load(model);
    assert.deepEqual([cold.residencyBeforePct, cold.class], [0, "cold"], model);
  }
  const [item] = await until(services.history.list({ limit: 1, kind: "swap", before: null, durable: true }));
  assert.deepEqual([item?.fields["model"], item?.fields["residency_before_pct"]], ["tiny:latest", 0]);
});

Deno.test("pinning is off until the owner sets a budget, and a caller can only lower it", async () => {
  await using off = await openWarmScene();
  await off.clock.advance(6_000);
  const choice = { model: QWEN, path: null, budgetBytes: null };
  await assert.rejects(
    off.until(off.services.cache.pin({ ...choice, budgetBytes: 90e9 }, IDLE_CALL)),
    refused("forbidden"),
  );
  await using scene = await openWarmScene({ policy: { pinBudgetBytes: 12e9 } });
  const { services, until, clock } = scene;
  await clock.advance(6_000);
  await assert.rejects(until(services.cache.pin({ ...choice, budgetBytes: 1e9 }, IDLE_CALL)), refused("wont_fit"));
  const pinned = await until(services.cache.pin({ ...choice, budgetBytes: 90e9 }, IDLE_CALL));
  assert.deepEqual([pinned.budgetBytes, pinned.lockedBytes], [12e9, 9_276_186_624]);
  const plan = await until(services.cache.plan({ budgetBytes: null, force: false }, IDLE_CALL.signal));
  assert.match(plan.budgetBasis, /less 9\.3 GB pinned/);
  assert.equal(plan.skipped.find(({ names }) => names.includes(QWEN))?.cause, "pinned");
  const other = { model: "gemma3:12b", path: null, budgetBytes: null };
  await assert.rejects(until(services.cache.pin(other, IDLE_CALL)), refused("wont_fit"));
  const let_go = await until(services.cache.unpin(choice));
  assert.deepEqual([let_go.pinned, let_go.changed.length], [[], 1]);
  await using tight = await openWarmScene({ policy: { pinBudgetBytes: 99e9, reserveBytes: 60e9 } });
  await tight.clock.advance(6_000);
  await assert.rejects(tight.until(tight.services.cache.pin(choice, IDLE_CALL)), /available to programs/);
});

Deno.test("a pinned file that is deleted is let go and told; one that only left the catalogue is listed, and let go by path", async () => {
  await using scene = await openWarmScene({ policy: { pinBudgetBytes: 50e9 } });
  const { services: { cache, history }, until, clock } = scene;
  await clock.advance(6_000);
  for (const model of [QWEN, "gemma3:12b"]) await until(cache.pin({ model, path: null, budgetBytes: null }, IDLE_CALL));
  const [qwen, gemma] = [await pathOf(scene, QWEN), await pathOf(scene, "gemma3:12b")];
  const manifests = `${scene.root}/usr/share/ollama/.ollama/models/manifests/registry.ollama.ai/library`;
  await Deno.remove(scene.root + qwen.path);
  await Deno.remove(`${manifests}/gemma3`, { recursive: true });
  await clock.advance(6_000);
  const report = await until(cache.report(IDLE_CALL.signal));
  assert.deepEqual(report.files.filter(({ isPinned }) => isPinned).map(({ path }) => path), [gemma.path]);
  assert.equal(report.totals.pinnedBytes, gemma.sizeBytes);
  const [item] = await until(history.list({ limit: 1, kind: "pin", before: null, durable: true }));
  assert.equal(item?.fields["message"], `Unlocked 9.276 GB of ${qwen.path}: it is gone`);
  const let_go = await until(cache.unpin({ model: null, path: gemma.path }));
  assert.deepEqual([let_go.pinned, let_go.changed.map(({ path }) => path)], [[], [gemma.path]]);
});

Deno.test("by itself at the start, and when idle; an idle warm makes room for a prompt", async () => {
  await using scene = await openWarmScene({ policy: { atStart: true } });
  await scene.clock.advance(20_000);
  const [run] = scene.services.runs.list();
  assert.equal(run?.operation, "warm-all");
  assert.equal((await scene.until(scene.services.runs.ended(run?.id ?? ""))).state, "done");
  await using idle = await openWarmScene({ policy: { whenIdle: true, idleMs: 20_000, bytesPerS: 300e6 } });
  await idle.clock.advance(15_000);
  assert.deepEqual(idle.services.runs.list(), []);
  await idle.clock.advance(15_000);
  const [waiting] = idle.services.runs.list();
  assert.equal(waiting?.state, "running");
  idle.house.send({ type: "comfyActivity", atMs: idle.clock.monotonicMs(), queueRemaining: 1 });
  const graph = { "1": { class_type: "LabWork", inputs: { steps: 20, step_ms: 200, seed: 1 } } };
  const posted = fetch(`${idle.box.comfy.url}/prompt`, { method: "POST", body: JSON.stringify({ prompt: graph }) });
  await (await idle.until(posted)).body?.cancel();
  await idle.clock.advance(2_500);
  assert.equal(idle.services.runs.get(waiting?.id ?? "").state, "cancelled");
});

Deno.test("what ComfyUI's prompts name is kept and ranks its files, once in ten minutes", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock } = scene;
  await clock.advance(6_000);
  const prompt = (seed: number) => ({
    "1": { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: "flux1-dev-fp8.safetensors" } },
    "2": { class_type: "LabWork", inputs: { steps: 10, step_ms: 200, seed } },
  });
  for (const seed of [1, 2]) {
    const body = JSON.stringify({ prompt: prompt(seed) });
    const answer = await until(fetch(`${scene.box.comfy.url}/prompt`, { method: "POST", body }));
    assert.equal(answer.status, 200, await until(answer.text()));
    await clock.advance(8_000);
  }
  const uses = await until(services.history.list({ limit: 5, kind: "use", before: null, durable: true }));
  assert.deepEqual(uses.map(({ fields }) => fields["checkpoints"]), [["flux1-dev-fp8.safetensors"]]);
  await clock.advance(11_000);
  const { steps } = await until(services.cache.plan({ budgetBytes: null, force: true }, IDLE_CALL.signal));
  assert.match(steps.find(({ path }) => path === FLUX)?.why ?? "", /^used once, last 1 min ago/);
});
