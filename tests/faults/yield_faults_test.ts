/** Ollama and its runners go wrong while they are asked to yield. */
import assert from "node:assert/strict";
import { aliasOf, demoModels } from "../../lib/lab/ollama_models.ts";
import { BIG, gib, MIDDLE, openScene, SMALL } from "./scene.ts";

const ALIAS = "assistant:latest";

function modelsWithAlias() {
  const models = demoModels();
  const big = models.find((model) => model.name === BIG);
  assert.ok(big);
  return [...models, aliasOf(big, ALIAS)];
}

Deno.test("an Ollama that answers: what a yield takes, spares and waits for", async (test) => {
  await using scene = await openScene({ machine: { ollamaModels: modelsWithAlias() } });
  const { box } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });

  await situation("nothing is loaded: said at once, nothing asked of anybody", async () => {
    const startMs = scene.clock.monotonicMs();
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "nothing_loaded");
    assert.ok(scene.clock.monotonicMs() - startMs < 50);
    assert.deepEqual(result.models, []);
  });

  await situation("one model: released with the bytes the driver had counted for it", async () => {
    await scene.load(MIDDLE);
    const { pid, heldBytes } = scene.runnerOf(MIDDLE);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "released");
    assert.deepEqual(result.pids, [pid]);
    assert.equal(result.freedBytes, heldBytes);
    assert.match(result.confirmedBy ?? "", /^NVML/);
    assert.ok((result.requestMs ?? Infinity) < (result.confirmMs ?? -Infinity), "the receipt isn't the release");
  });

  await situation("two models: both asked at once, released when the later one is", async () => {
    await scene.load(MIDDLE);
    await scene.load(SMALL);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "released");
    assert.equal(result.pids.length, 2);
  });

  await situation("one of two is named, by another tag of its blob: it goes, the other stays", async () => {
    await scene.load(BIG);
    await scene.load(SMALL);
    const result = await scene.yieldVram([ALIAS]);
    assert.equal(result.outcome, "released");
    assert.deepEqual(box.ollama.runners.map((runner) => runner.model), [SMALL]);
  });

  await situation("the loaded model was deleted, and another tag has its weights: it goes by that name", async () => {
    await scene.load(BIG);
    const at = box.ollama.installed.findIndex((model) => model.name === BIG);
    const [deleted] = box.ollama.installed.splice(at, 1);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "released", result.message);
    assert.ok(deleted);
    box.ollama.installed.splice(at, 0, deleted);
  });

  await situation("a model that is named though it is kept goes: an explicit yield takes what it names", async () => {
    scene.house.services.arbitration.set({ mode: "auto", untilMs: null, keep: [MIDDLE] });
    await scene.load(MIDDLE);
    assert.equal((await scene.yieldVram([MIDDLE])).outcome, "released");
  });

  await situation("a model that nobody has loaded is named: nothing_loaded, and what is loaded stays", async () => {
    await scene.load(MIDDLE);
    assert.equal((await scene.yieldVram([BIG])).outcome, "nothing_loaded");
    assert.equal(box.ollama.runners.length, 1);
  });

  await situation("confirm=false: a receipt, called unconfirmed", async () => {
    await scene.load(MIDDLE);
    const startMs = scene.clock.monotonicMs();
    assert.equal((await scene.yieldVram(null, false)).outcome, "unconfirmed");
    assert.ok(scene.clock.monotonicMs() - startMs < 100);
  });

  await situation("the driver takes 2 s to have it back: not a millisecond earlier is it called released", async () => {
    await scene.load(MIDDLE);
    box.ollama.quirks.releaseMs = 2_000;
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "released");
    assert.ok((result.confirmMs ?? 0) >= 2_000);
  });

  await situation("/api/ps stalls for seconds: the processes and the driver decide", async () => {
    await scene.load(MIDDLE);
    box.ollama.quirks.psStallMs = 3_000;
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "released");
    assert.ok((result.confirmMs ?? Infinity) < 2_500, `${result.confirmMs}`);
  });

  await situation("/api/ps stalls before the model was ever listed: asked to go by what its weights are", async () => {
    box.ollama.quirks.psStallMs = 8_000;
    await scene.load(MIDDLE);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "released", result.message);
    assert.deepEqual(result.models, [MIDDLE]);
  });

  await situation("/api/ps stalls while the model is still loading: asked again once it is listed", async () => {
    box.ollama.quirks.psStallMs = 8_000;
    const loading = scene.beginLoad(BIG);
    await scene.pass(900);
    const result = await scene.yieldVram();
    assert.notEqual(result.outcome, "fault", result.message);
    box.ollama.quirks.psStallMs = 0;
    await scene.settle(loading);
    await scene.pass(3_500);
    assert.equal(box.ollama.runners.length, 0);
  });

  await situation("a third program takes and gives back meanwhile: neither fooled nor stalled", async () => {
    await scene.load(MIDDLE);
    box.thirdParty.start({ everyMs: [5, 15], bytes: [20e6, 400e6], mostBytes: 1e9 });
    const result = await scene.yieldVram();
    box.thirdParty.stop();
    assert.equal(result.outcome, "released");
  });

  await situation("keep_alive set for ever by another client: it goes all the same", async () => {
    await scene.load(MIDDLE, { keep_alive: -1 });
    assert.equal((await scene.yieldVram()).outcome, "released");
  });

  await situation("two callers want everything gone at the same time: one unload, one release, both told", async () => {
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    const both = await scene.settle(
      Promise.all(
        [0, 1].map(() =>
          scene.house.services.arbitration.yieldVram({ models: null, confirm: true, operation: "free-vram" }, {
            signal: new AbortController().signal,
            progress: () => {},
          })
        ),
      ),
    );
    assert.deepEqual(both.map((result) => result.outcome), ["released", "released"]);
    assert.equal(scene.since(sinceMs).filter((item) => item.kind === "yield").length, 1);
  });

  await situation("a discovery child of the server is no runner", async () => {
    const exe = "/usr/local/bin/ollama";
    const server = box.processes.get(box.ollama.pid ?? 0);
    assert.ok(server);
    const { pid } = box.processes.spawn({
      ...server,
      parentPid: server.pid,
      args: [exe, "runner", "--ollama-engine", "--port", "40999"],
    });
    assert.equal((await scene.yieldVram()).outcome, "nothing_loaded");
    box.processes.exit(pid);
  });
});

Deno.test("an Ollama that doesn't let go: busy, faults, ghosts and orphans", async (test) => {
  await using scene = await openScene();
  const { box } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });

  await situation(
    "a model that answers somebody is busy within a second, and its release is recorded later",
    async () => {
      await scene.load(MIDDLE);
      const startMs = scene.clock.monotonicMs();
      const busy = scene.ask(MIDDLE, 250);
      await scene.pass(100);
      const result = await scene.yieldVram();
      assert.equal(result.outcome, "busy");
      assert.ok(scene.clock.monotonicMs() - startMs <= 1_000);
      assert.ok(result.held[0] && (gib(result.held[0].bytes) ?? 0) > 4, "it names who holds how much");
      const { item } = await scene.said(({ kind }) => kind === "yield", { sinceMs: startMs });
      await scene.settle(busy.ended);
      await scene.pass(2_500);
      assert.equal(box.ollama.runners.length, 0, "the unload that was asked for takes effect when the answer ends");
      const { fields } = await scene.kept(item.id);
      assert.ok(Number(fields["released_later_ms"]) > 0);
    },
  );

  await situation("a model that is still loading is busy, and is unloaded once it is listed", async () => {
    const loading = scene.beginLoad(BIG);
    await scene.pass(1_500);
    const startMs = scene.clock.monotonicMs();
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "busy");
    assert.match(result.held[0]?.evidence ?? "", /still loading/);
    const { item } = await scene.said(({ kind }) => kind === "yield", { sinceMs: startMs });
    await scene.settle(loading);
    await scene.pass(3_500);
    assert.equal(box.ollama.runners.length, 0);
    assert.ok(Number((await scene.kept(item.id)).fields["released_later_ms"]) > 0);
  });

  await situation("a runner crashed: the ghost in /api/ps holds nothing, and no fault is made of it", async () => {
    await scene.load(MIDDLE);
    box.ollama.crashRunner(MIDDLE);
    const result = await scene.yieldVram();
    assert.ok(result.outcome === "released" || result.outcome === "nothing_loaded", result.outcome);
    assert.deepEqual(result.held, []);
    assert.ok((result.freedBytes ?? 0) === 0, "what the crash had freed is none of this yield's doing");
  });

  await situation(
    "an unload that sticks on an idle runner, while ComfyUI works the card: a fault with its remedy",
    async () => {
      await scene.load(MIDDLE);
      const { pid } = scene.runnerOf(MIDDLE);
      box.ollama.quirks.releaseMs = 9_000;
      const sinceMs = scene.clock.monotonicMs();
      await scene.prompt({ ms: 8_000 });
      const item = await scene.handOff(sinceMs);
      assert.equal(item.kind, "fault");
      assert.match(String(item.fields["message"]), new RegExp(`pid ${pid} .*Restart Ollama`));
      await scene.pass(5_000);
      assert.ok(Number((await scene.kept(item.id)).fields["released_later_ms"]) > 0, "its end is recorded, too");
    },
  );

  await situation("a runner that was stopped in the middle of an answer doesn't look busy for ever", async () => {
    await scene.load(MIDDLE);
    scene.ask(MIDDLE, 100_000);
    await scene.pass(300);
    box.ollama.stopRunner(MIDDLE, true);
    await scene.pass(3_000);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "fault", result.message);
    box.ollama.stopRunner(MIDDLE, false);
  });

  await situation(
    "the loaded model was deleted, and no other name has its weights: a fault that says so",
    async () => {
      await scene.load(MIDDLE);
      const at = box.ollama.installed.findIndex((model) => model.name === MIDDLE);
      const [deleted] = box.ollama.installed.splice(at, 1);
      const result = await scene.yieldVram();
      assert.equal(result.outcome, "fault");
      assert.match(result.held[0]?.evidence ?? "", /deleted while it was loaded.*not found/);
      assert.ok(deleted);
      box.ollama.installed.splice(at, 0, deleted);
      await scene.pass(11_000);
    },
  );

  await situation("Ollama is down: unreachable at once, with its address", async () => {
    await scene.settle(box.ollama.kill("SIGTERM"));
    await scene.pass(1_100);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "unreachable");
    assert.match(result.message, /127\.0\.0\.1/);
    await scene.settle(box.ollama.start());
    await scene.pass(2_100);
  });

  await situation("Ollama came back as another process: its new models are found and yield", async () => {
    await scene.load(MIDDLE);
    assert.equal((await scene.yieldVram()).outcome, "released");
  });

  await situation("Ollama was killed and left a runner behind: a fault that says nobody can unload it", async () => {
    await scene.load(MIDDLE);
    const { pid } = scene.runnerOf(MIDDLE);
    await scene.settle(box.ollama.kill("SIGKILL"));
    await scene.settle(box.ollama.start());
    await scene.pass(2_100);
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "fault");
    assert.deepEqual(result.held.map((held) => held.pid), [pid]);
    assert.match(result.held[0]?.evidence ?? "", /its server is gone/);
  });
});
