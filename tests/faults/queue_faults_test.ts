/** What Ollama does with requests that wait for each other, while the card changes hands. */
import assert from "node:assert/strict";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { GIB } from "../../lib/model/units.ts";
import { BIG, call, MIDDLE, openScene, SMALL } from "./scene.ts";

const DEADLINE_MS = 6_000;

Deno.test("loads that wait behind busy models", async (test) => {
  await using scene = await openScene({
    policy: { load: { ...DEFAULT_POLICY.load, deadlineMs: DEADLINE_MS } },
  });
  const { box, house } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });

  await situation("a model that is only queued comes up after the busy one yielded: caught, and unloaded", async () => {
    await scene.load(MIDDLE);
    const busy = scene.ask(MIDDLE, 250);
    await scene.pass(100);
    const queued = scene.beginLoad(BIG).catch(() => {});
    await scene.pass(100);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt({ ms: 20_000 });
    assert.equal((await scene.handOff(sinceMs)).fields["outcome"], "busy");
    await scene.settle(busy.ended);
    await scene.settle(queued);
    await scene.clock.runUntil(() => box.ollama.runners.length === 0, { limitMs: 12_000, what: "nobody on the card" });
    assert.ok(box.comfy.queueRemaining > 0, "ComfyUI still works");
  });

  await situation("a request with its own keep_alive rescues a busy model: asked again, and it goes", async () => {
    await scene.load(MIDDLE);
    const busy = scene.ask(MIDDLE, 150);
    await scene.pass(100);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt({ ms: 20_000 });
    assert.equal((await scene.handOff(sinceMs)).fields["outcome"], "busy");
    await scene.settle(scene.beginLoad(MIDDLE, { keep_alive: "30m", prompt: "more", options: { num_predict: 1 } }));
    await scene.settle(busy.ended);
    await scene.clock.runUntil(() => box.ollama.runners.length === 0, { limitMs: 15_000, what: "nobody on the card" });
    assert.ok(box.comfy.queueRemaining > 0, "ComfyUI still works");
  });

  await situation("an eviction happens though its asker left: nothing is held, and nothing is claimed", async () => {
    await scene.load(MIDDLE);
    const busy = scene.ask(MIDDLE, 100);
    await scene.pass(100);
    const controller = new AbortController();
    const body = JSON.stringify({ model: BIG, stream: false });
    const left = fetch(`${box.ollama.url}/api/generate`, { method: "POST", body, signal: controller.signal })
      .then((response) => response.text(), () => "");
    await scene.pass(100);
    controller.abort();
    await scene.settle(left);
    await scene.settle(busy.ended);
    await scene.pass(2_500);
    assert.equal(box.ollama.runners.length, 0);
    const result = await scene.yieldVram();
    assert.deepEqual([result.outcome, result.freedBytes], ["nothing_loaded", 0]);
  });

  await situation("a load of ours starves behind a kept model's clients: hung up on at our own deadline", async () => {
    house.services.arbitration.set({ mode: "auto", untilMs: null, keep: [BIG] });
    await scene.load(BIG);
    scene.ask(BIG, 100_000);
    await scene.pass(100);
    const startMs = scene.clock.monotonicMs();
    const failure = await scene.refusal(scene.switchTo(MIDDLE));
    assert.equal(failure.code, "upstream");
    assert.ok(scene.clock.monotonicMs() - startMs <= DEADLINE_MS + 2_000);
    assert.deepEqual(box.ollama.runners.map(({ model }) => model), [BIG]);
  });

  await situation("after a hand-off a load of ours keeps out for two seconds", async () => {
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt({ ms: 300 });
    await scene.handOff(sinceMs);
    const handedMs = scene.clock.monotonicMs();
    await scene.idle();
    await scene.switchTo(SMALL);
    const grewAtMs = box.vram.grewAtMs(scene.runnerOf(SMALL).pid, sinceMs);
    assert.ok(grewAtMs !== null && grewAtMs - handedMs >= 2_000, `${grewAtMs} after ${handedMs}`);
  });
});

Deno.test("a need that is said to fit is looked at again: room that another took isn't handed out twice", async () => {
  await using scene = await openScene({ policy: { needs: { [MIDDLE]: 6 * GIB, [SMALL]: GIB } } });
  const { box } = scene;
  await scene.load(SMALL);
  assert.ok(box.vram.allocate(box.thirdParty.pid, 9e9));
  await scene.pass(1_100);
  const request = { model: MIDDLE, keepAlive: "30m", prompt: null, operation: "switch-model" };
  const failure = await scene.refusal(
    scene.settle(scene.house.services.arbitration.switchModel(request, call())),
  );
  assert.equal(failure.code, "wont_fit");
  assert.match(failure.message, /python3 stt_relay/);
  assert.doesNotMatch(failure.message, /llama-server/, "who has just yielded holds nothing any more");
});
