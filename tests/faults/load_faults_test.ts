/** Loads of ours that don't fit, fail, hang or are given up. */
import assert from "node:assert/strict";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { GIB } from "../../lib/model/units.ts";
import { BIG, gib, MIDDLE, openScene, SMALL } from "./scene.ts";

const SDXL = "sd_xl_base_1.0.safetensors";
const DEADLINE_MS = 6_000;

Deno.test("a switch of models: makes room, is refused, retries once, or says who is in the way", async (test) => {
  await using scene = await openScene({ policy: { load: { ...DEFAULT_POLICY.load, deadlineMs: DEADLINE_MS } } });
  const { box, house } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });
  const begin = (model: string, signal = new AbortController().signal) =>
    house.services.arbitration.switchModel(
      { model, keepAlive: "30m", prompt: null, operation: "switch-model" },
      { signal, progress: () => {} },
    );

  await situation("an empty card: loaded, with what it takes by the driver's word", async () => {
    const result = await scene.switchTo(BIG);
    assert.equal(result.alreadyResident, false);
    assert.equal(result.vramBytes, scene.runnerOf(BIG).heldBytes);
    assert.equal(result.spilled, false);
    assert.equal(result.yielded, null);
  });

  await situation("it is resident already: nothing is loaded, and that is no RAM hit", async () => {
    await scene.load(MIDDLE);
    const result = await scene.switchTo(MIDDLE);
    assert.equal(result.alreadyResident, true);
    assert.equal(result.class, "unclassified");
  });

  await situation("another model is in the way: it goes first, confirmed, then the load begins", async () => {
    await scene.load(MIDDLE);
    const { pid } = scene.runnerOf(MIDDLE);
    const result = await scene.switchTo(BIG);
    assert.equal(result.yielded?.outcome, "released");
    const freedAtMs = box.vram.releasedAtMs(pid);
    const grewAtMs = box.vram.grewAtMs(scene.runnerOf(BIG).pid, 0);
    assert.ok(freedAtMs !== null && grewAtMs !== null && grewAtMs >= freedAtMs);
  });

  await situation("a busy model is in the way: refused as busy, and it is left to finish", async () => {
    await scene.load(MIDDLE);
    scene.ask(MIDDLE, 600);
    await scene.pass(100);
    const failure = await scene.refusal(scene.switchTo(BIG));
    assert.equal(failure.code, "busy");
    assert.equal(box.ollama.runners.some((runner) => runner.model === BIG), false);
  });

  await situation("an idle ComfyUI is in the way: it is purged, confirmed, then the load begins", async () => {
    await scene.prompt({ checkpoint: SDXL });
    await scene.idle();
    await scene.pass(3_000);
    const result = await scene.switchTo(BIG);
    assert.equal(result.purged?.outcome, "released");
    assert.equal(result.spilled, false);
    assert.ok((gib(result.reclaimedBytes) ?? 0) > 5);
  });

  await situation("a working ComfyUI is in the way: refused, and it isn't touched", async () => {
    await scene.prompt({ ms: 4_000, gib: 9 });
    await scene.pass(2_000);
    const heldBytes = box.comfy.heldBytes;
    const failure = await scene.refusal(scene.switchTo(BIG));
    assert.equal(failure.code, "busy");
    assert.match(failure.message, /ComfyUI/);
    assert.equal(box.comfy.heldBytes, heldBytes);
  });

  await situation("no such model: refused at once, with what was meant", async () => {
    const failure = await scene.refusal(scene.switchTo("qwen3:41b"));
    assert.equal(failure.code, "not_found");
    assert.match(failure.hint ?? "", /qwen3:14b/);
  });

  await situation(
    "its runners die as they start: hung up on at our own deadline, and the lane is free again",
    async () => {
      box.ollama.quirks.diesAtStart = true;
      const startMs = scene.clock.monotonicMs();
      const failure = await scene.refusal(scene.switchTo(MIDDLE));
      assert.equal(failure.code, "upstream");
      assert.ok(scene.clock.monotonicMs() - startMs <= DEADLINE_MS + 2_000);
      box.ollama.quirks.diesAtStart = false;
      assert.equal((await scene.switchTo(SMALL)).alreadyResident, false, "the next load isn't stuck behind it");
    },
  );

  await situation("its runner crashes while it loads: not memory, so not retried", async () => {
    const sinceMs = scene.clock.monotonicMs();
    const refused = scene.refusal(begin(BIG));
    await scene.pass(1_000);
    const [runner] = box.ollama.runners;
    assert.ok(runner);
    box.ollama.endRunner(runner.pid);
    const failure = await scene.settle(refused);
    assert.equal(failure.code, "upstream");
    assert.equal(scene.since(sinceMs).filter((item) => item.kind === "purge").length, 0);
  });

  await situation("the caller leaves while it loads: the load is hung up on, and its runner goes", async () => {
    const controller = new AbortController();
    const refused = scene.refusal(begin(BIG, controller.signal));
    await scene.pass(1_000);
    controller.abort();
    assert.equal((await scene.settle(refused)).code, "cancelled");
    await scene.pass(2_000);
    assert.equal(box.ollama.runners.length, 0);
  });

  await situation("two switches at once: one after the other, each answered", async () => {
    const [first, second] = await scene.settle(Promise.all([begin(MIDDLE), begin(SMALL)]));
    assert.equal(first.targetModel, MIDDLE);
    assert.equal(second.targetModel, SMALL);
  });
});

Deno.test("a model that is said to need little is refused for want of memory", async (test) => {
  await using scene = await openScene({ policy: { needs: { [BIG]: GIB } } });
  const { box } = scene;
  box.ollama.quirks.refusesWhenShort = true;

  await test.step("an idle ComfyUI sits on it: reclaimed, confirmed, retried once, loaded", async () => {
    await scene.prompt({ checkpoint: SDXL });
    await scene.idle();
    await scene.pass(3_000);
    const result = await scene.switchTo(BIG);
    assert.equal(result.retried, true);
    assert.equal(result.purged?.outcome, "released");
    assert.equal(result.spilled, false);
    await scene.rest();
  });

  await test.step("still refused after that: it ends there, and says who holds the rest", async () => {
    box.ollama.quirks.refusesWhenShort = true;
    assert.ok(box.vram.allocate(box.thirdParty.pid, 8e9));
    await scene.prompt({ checkpoint: "dreamshaper_8.safetensors" });
    await scene.idle();
    await scene.pass(3_000);
    const pids = new Set<number>();
    const watch = scene.clock.every(50, () => box.ollama.runners.forEach(({ pid }) => pids.add(pid)));
    const failure = await scene.refusal(scene.switchTo(BIG));
    watch.stop();
    assert.equal(failure.code, "wont_fit");
    assert.equal(pids.size, 2, "one load and one retry");
    assert.match(failure.message, /python3 stt_relay/);
  });
});

Deno.test("a card that somebody else fills", async (test) => {
  await using scene = await openScene();
  const { box } = scene;
  const { pid } = box.thirdParty;
  const taken = 8e9;
  assert.ok(box.vram.allocate(pid, taken));
  await scene.pass(1_100);

  await test.step("a model that only fits in part is loaded, and called spilled", async () => {
    const result = await scene.switchTo(BIG);
    assert.equal(result.spilled, true);
    await scene.rest();
  });

  await test.step("a spilled model that computes on the processor is busy, not stuck", async () => {
    await scene.load(BIG);
    scene.ask(BIG, 400);
    await scene.pass(1_000);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "busy");
    await scene.rest();
  });

  await test.step("refused for want of memory, and nothing is left to reclaim: can't fit, with who holds the rest", async () => {
    box.ollama.quirks.refusesWhenShort = true;
    const sinceMs = scene.clock.monotonicMs();
    const failure = await scene.refusal(scene.switchTo(BIG));
    assert.equal(failure.code, "wont_fit");
    assert.match(failure.message, /python3 stt_relay/);
    assert.equal(scene.since(sinceMs).filter((item) => item.kind === "swap").length, 0);
    await scene.rest();
  });

  await test.step("refused beside another model, which then makes way: loaded", async () => {
    await scene.load(SMALL);
    box.ollama.quirks.refusesWhenShort = true;
    box.vram.free(pid, taken - 3e9);
    const result = await scene.switchTo(BIG);
    assert.equal(result.spilled, false);
    await scene.rest();
  });
  await test.step("an embedding model beside it all: loads and yields like any other", async () => {
    const result = await scene.switchTo(SMALL);
    assert.equal(result.targetModel, SMALL);
    assert.equal((await scene.yieldVram([SMALL])).outcome, "released");
    assert.equal(box.ollama.runners.some((runner) => runner.model === MIDDLE), false);
  });
});

Deno.test("a plan says what then happens", async (test) => {
  await using scene = await openScene();
  const { box, house } = scene;
  const { planner } = house.services;
  const plan = (model: string) => planner.plan({ model, workflow: null, neededBytes: null });

  await test.step("another model is in the way: it names it with its bytes, and the switch makes it go", async () => {
    await scene.load(MIDDLE);
    const planned = plan(BIG);
    assert.equal(planned.verdict, "makes_room");
    assert.deepEqual(planned.steps.map(({ action, names }) => [action, ...names]), [["yield", MIDDLE], ["load", BIG]]);
    assert.equal(planned.steps[0]?.freesBytes, scene.runnerOf(MIDDLE).heldBytes);
    const result = await scene.switchTo(BIG);
    assert.equal(result.yielded?.freedBytes, planned.steps[0]?.freesBytes);
    assert.equal(result.purged, null);
    await scene.rest();
  });

  await test.step("three loads of a model teach what it needs: then both are said to stay, and do", async () => {
    for (let load = 0; load < 3; load++) {
      await scene.switchTo(SMALL);
      await scene.rest();
    }
    const rows = await scene.settle(planner.footprints());
    const row = rows.find(({ name }) => name === SMALL);
    assert.deepEqual([row?.n, row?.isUsed], [3, true]);
    await scene.load(MIDDLE);
    const planned = plan(SMALL);
    assert.equal(planned.verdict, "stays");
    assert.deepEqual([planned.need.basis, planned.need.n], ["measured", 3]);
    assert.equal((await scene.switchTo(SMALL)).yielded, null);
    assert.equal(box.ollama.runners.length, 2);
    assert.match(plan(MIDDLE).message, /resident already/);
    await scene.rest();
  });

  await test.step("a workflow: it names who would go, and that one goes", async () => {
    await scene.load(MIDDLE);
    const planned = planner.plan({ model: null, workflow: "portrait", neededBytes: null });
    assert.deepEqual(planned.steps.map(({ action, names }) => [action, ...names]), [
      ["yield", MIDDLE],
      ["run", "ComfyUI"],
    ]);
    assert.equal(planner.plan({ model: null, workflow: "small", neededBytes: GIB }).verdict, "stays");
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt();
    assert.deepEqual((await scene.handOff(sinceMs)).fields["models"], [MIDDLE]);
  });

  await test.step("no such model: refused like the switch", () => {
    assert.throws(() => plan("qwen3:41b"), /no model 'qwen3:41b'/);
  });
});
