import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import type { CallOptions, Progress } from "../../lib/model/services.ts";
import { IDLE_CALL, openWarmScene, type WarmScene } from "./warm_scene.ts";

const [BIG, OTHER] = ["qwen3:14b", "llama3.1:8b"];

/** As any other client of ComfyUI's queues work. */
function prompt({ box }: WarmScene, ms: number): Promise<Response> {
  const inputs = { steps: 1, step_ms: ms, vram_gb: 1, seed: 1 };
  const body = JSON.stringify({ prompt: { "1": { class_type: "LabWork", inputs } } });
  return fetch(`${box.comfy.url}/prompt`, { method: "POST", body }).then(async (response) => {
    await response.text();
    return response;
  });
}

function refusal(work: Promise<unknown>): Promise<Failure> {
  return work.then(() => assert.fail("it was not refused"), (error: unknown) => {
    assert.ok(error instanceof Failure, String(error));
    return error;
  });
}

Deno.test("a benchmark goes round between two models and ends where it began, each transition measured", async () => {
  await using scene = await openWarmScene();
  const { services, until } = scene;
  await until(
    services.arbitration.switchModel(
      { model: BIG, keepAlive: "1h", prompt: null, operation: "switch-model" },
      IDLE_CALL,
    ),
  );
  await scene.clock.advance(2_000);
  const phases: Progress[] = [];
  const call: CallOptions = { ...IDLE_CALL, progress: (progress) => phases.push(progress) };
  const result = await until(
    services.benchmark.run({ iterations: 2, models: [BIG, OTHER], operation: "benchmark" }, call),
  );
  assert.deepEqual(result.legs.map(({ iteration, from, to }) => [iteration, from, to]), [
    [1, BIG, OTHER],
    [1, OTHER, BIG],
    [2, BIG, OTHER],
    [2, OTHER, BIG],
  ]);
  assert.equal(scene.box.ollama.runners.length, 1, "a model stayed beside the other one");
  assert.deepEqual([result.iterationsDone, result.hasGivenWay, result.transitionMs?.n], [2, false, 4]);
  for (const leg of result.legs) {
    assert.ok(leg.unloadMs !== null && leg.loadMs !== null);
    assert.ok(leg.transitionMs > leg.unloadMs + leg.loadMs - 0.01, JSON.stringify(leg));
    assert.equal(leg.class, "ram_hit", leg.verdict);
    // The answer behind a load takes seconds more and isn't part of the transition.
    assert.ok(leg.transitionMs < leg.unloadMs + leg.loadMs + 1_000, `${leg.transitionMs} ms`);
    assert.ok((leg.tokensPerSecond ?? 0) > 10 && leg.residencyBeforePct !== null, JSON.stringify(leg));
  }
  assert.deepEqual(result.summaries.map(({ to, transitionMs }) => [to, transitionMs?.n]), [[OTHER, 2], [BIG, 2]]);
  assert.ok(phases.some(({ phase, done }) => phase === `round trip 2 of 2: loading ${OTHER}` && done === 0.5));
  assert.ok((phases.at(-1)?.etaMs ?? 0) > 0);
  const kept = await until(services.history.list({ limit: 1, kind: "benchmark", before: null, durable: true }));
  assert.equal(kept[0]?.fields["message"], result.message);
});

Deno.test("left to choose, it takes the resident model and the smallest other that can generate", async () => {
  await using scene = await openWarmScene();
  const { services, until } = scene;
  const run = (models: readonly string[] | null) =>
    until(services.benchmark.run({ iterations: 1, models, operation: "benchmark" }, IDLE_CALL));
  await scene.clock.advance(2_000);
  assert.deepEqual((await run(["gemma3:12b"])).models, ["gemma3:12b"], "one model is unloaded and reloaded");
  await scene.clock.advance(2_000);
  const result = await run(null);
  assert.deepEqual(result.models, [OTHER, "gemma3:12b"]);
  services.arbitration.set({ mode: "auto", untilMs: null, keep: [OTHER] });
  assert.equal((await run(null)).models.includes(OTHER), false, "a kept model is nobody's to unload unasked");
});

Deno.test("ComfyUI goes first: refused while it executes, and given way to at once", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock, box } = scene;
  const run = (signal = IDLE_CALL.signal) =>
    services.benchmark.run({ iterations: 5, models: [BIG, OTHER], operation: "benchmark" }, { ...IDLE_CALL, signal });
  await until(prompt(scene, 3_000));
  await clock.advance(100);
  const refused = await refusal(until(run()));
  assert.equal(refused.code, "busy");
  await clock.runUntil(() => box.comfy.queueRemaining === 0, { limitMs: 60_000, what: "an idle ComfyUI" });
  await clock.advance(1_000);

  const running = run();
  assert.equal((await refusal(until(run()))).message, "A benchmark is under way");
  await clock.runUntil(() => box.ollama.runners.some(({ state }) => state === "loading"), {
    limitMs: 60_000,
    what: "a load under way",
  });
  await until(prompt(scene, 500));
  const startMs = clock.monotonicMs();
  const result = await until(running);
  assert.ok(clock.monotonicMs() - startMs < 100, "it did not give way at once");
  assert.deepEqual([result.hasGivenWay, result.iterationsDone, result.legs.length], [true, 0, 0]);
  assert.match(result.message, /Gave way to ComfyUI after 0 of 10 transitions/);
  await clock.advance(1_000);
  assert.deepEqual(box.ollama.runners, [], "its load was not hung up on");
});

Deno.test("a benchmark that is cancelled hangs up on its load and keeps what it measured", async () => {
  await using scene = await openWarmScene();
  const { services, until, clock, box } = scene;
  const controller = new AbortController();
  const request = { iterations: 3, models: [OTHER], operation: "benchmark" };
  const running = services.benchmark.run(request, { ...IDLE_CALL, signal: controller.signal });
  await clock.runUntil(() => box.ollama.runners.some(({ state }) => state === "loading"), {
    limitMs: 60_000,
    what: "the first load",
  });
  await clock.runUntil(() => box.ollama.runners.some(({ state }) => state === "idle"), {
    limitMs: 60_000,
    what: "the first load's end",
  });
  await clock.runUntil(() => box.ollama.runners.some(({ state }) => state === "loading"), {
    limitMs: 60_000,
    what: "the second load",
  });
  controller.abort(new Failure("cancelled", "Cancelled on request"));
  assert.equal((await refusal(until(running))).code, "cancelled");
  await clock.advance(1_000);
  assert.deepEqual(box.ollama.runners, []);
  const [kept] = await until(services.history.list({ limit: 1, kind: "benchmark", before: null, durable: true }));
  // The store gives back what was put in: one transition.
  assert.equal((kept?.fields["legs"] as readonly unknown[]).length, 1);
  assert.match(String(kept?.fields["message"]), /Ended early/);
});

Deno.test("a benchmark says what is wrong with what it was asked", async () => {
  await using scene = await openWarmScene();
  const { services, until } = scene;
  await scene.clock.advance(1_000);
  const ask = (models: readonly string[]) =>
    refusal(until(services.benchmark.run({ iterations: 1, models, operation: "benchmark" }, IDLE_CALL)));
  const unknown = await ask(["qwen3:14"]);
  assert.deepEqual([unknown.code, unknown.hint], ["not_found", "Did you mean 'qwen3:14b'?"]);
  assert.equal((await ask([BIG, OTHER, "gemma3:12b"])).code, "invalid_input");
});

Deno.test("a model that answers somebody ends that first, and the transition doesn't count it", async () => {
  await using scene = await openWarmScene();
  const { services, until, box } = scene;
  const ask = (body: Record<string, unknown>) =>
    fetch(`${box.ollama.url}/api/generate`, { method: "POST", body: JSON.stringify({ model: OTHER, ...body }) })
      .then((response) => response.text());
  await until(ask({}));
  const answering = ask({ prompt: "tell me", options: { num_predict: 900 } });
  await scene.clock.advance(1_200);
  const phases: string[] = [];
  const call: CallOptions = { ...IDLE_CALL, progress: ({ phase }) => phases.push(phase) };
  const startMs = scene.clock.monotonicMs();
  const result = await until(services.benchmark.run({ iterations: 1, models: [OTHER], operation: "benchmark" }, call));
  await until(answering);
  assert.ok(phases.some((phase) => phase.includes("waiting for what Ollama still does")));
  const [leg] = result.legs;
  assert.ok(leg !== undefined && leg.transitionMs < 5_000 && scene.clock.monotonicMs() - startMs > 6_000);
});
