/** ComfyUI begins, ends, stalls, dies and comes back while the card changes hands. */
import assert from "node:assert/strict";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { GIB } from "../../lib/model/units.ts";
import { BIG, gib, MIDDLE, openScene, SMALL } from "./scene.ts";

const SDXL = "sd_xl_base_1.0.safetensors";
/** The context that ComfyUI never gives back. */
const CONTEXT_GIB = 0.8;

Deno.test("hand-offs to ComfyUI: who goes, who stays, and how the race ends", async (test) => {
  await using scene = await openScene();
  const { box, house } = scene;
  const { arbitration } = house.services;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });

  await situation(
    "weights on disk: the memory is back before ComfyUI takes any, and the margin says by how much",
    async () => {
      await scene.load(BIG);
      box.comfy.warm(SDXL, 0);
      const sinceMs = scene.clock.monotonicMs();
      await scene.prompt({ checkpoint: SDXL });
      const { id } = await scene.handOff(sinceMs);
      await scene.idle();
      await scene.pass(100);
      const { fields } = await scene.kept(id);
      assert.equal(fields["late"], false);
      assert.ok(Number(fields["margin_ms"]) > 300, `${fields["margin_ms"]}`);
      assert.equal(box.comfy.share(SDXL), 1, "all of its weights are on the card");
      assert.equal((await scene.purge()).outcome, "released");
    },
  );

  await situation("weights in RAM: ComfyUI wins the race, and the late hand-off says what that costs", async () => {
    await scene.load(BIG);
    box.comfy.warm(SDXL, 1);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt({ checkpoint: SDXL });
    const { id } = await scene.handOff(sinceMs);
    await scene.idle();
    await scene.pass(100);
    const { fields } = await scene.kept(id);
    assert.equal(fields["late"], true);
    assert.ok(Number(fields["margin_ms"]) < -100 && Number(fields["margin_ms"]) > -260, `${fields["margin_ms"]}`);
    assert.match(String(fields["consequence"]), /part of its model/);
    assert.match(String(fields["remedy"]), /Purge ComfyUI/);
    assert.equal((await scene.purge()).outcome, "released");
  });

  await situation("two models, one kept: the other goes, the kept one stays", async () => {
    arbitration.set({ mode: "auto", untilMs: null, keep: [SMALL] });
    await scene.load(SMALL);
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt();
    const { fields } = await scene.handOff(sinceMs);
    assert.equal(fields["outcome"], "released");
    assert.deepEqual(box.ollama.runners.map((runner) => runner.model), [SMALL]);
  });

  await situation("mode observe: what it would do is recorded, and nothing is touched", async () => {
    arbitration.set({ mode: "observe", untilMs: null, keep: null });
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt();
    await scene.said(({ fields }) => fields["decision"] === "observe", { sinceMs });
    await scene.idle();
    assert.equal(box.ollama.runners.length, 1);
  });

  await situation("mode paused: nothing is touched by itself, and an explicit yield still works", async () => {
    arbitration.set({ mode: "paused", untilMs: null, keep: null });
    await scene.load(MIDDLE);
    await scene.prompt();
    await scene.idle();
    assert.equal(box.ollama.runners.length, 1);
    assert.equal((await scene.yieldVram()).outcome, "released");
  });

  await situation(
    "another client's load is under way as a prompt comes: it is caught and unloaded once it can be",
    async () => {
      const loading = scene.beginLoad(BIG);
      await scene.pass(900);
      const sinceMs = scene.clock.monotonicMs();
      await scene.prompt({ ms: 6_000 });
      const { fields } = await scene.handOff(sinceMs);
      assert.equal(fields["outcome"], "busy");
      await scene.settle(loading);
      await scene.pass(2_500);
      assert.equal(box.ollama.runners.length, 0);
    },
  );

  await situation(
    "a load of ours is under way as a prompt comes: it is hung up on, and ComfyUI goes first",
    async () => {
      const asked = scene.house.services.arbitration.switchModel(
        { model: BIG, keepAlive: "30m", prompt: null, operation: "switch-model" },
        { signal: new AbortController().signal, progress: () => {} },
      );
      const refused = scene.refusal(asked);
      await scene.pass(1_000);
      assert.equal(box.ollama.runners.length, 1, "it loads");
      const sinceMs = scene.clock.monotonicMs();
      await scene.prompt({ ms: 3_000 });
      assert.equal((await scene.settle(refused)).code, "busy");
      assert.ok(scene.clock.monotonicMs() - sinceMs < 1_500, "refused at once");
      await scene.idle();
      assert.equal(box.ollama.runners.length, 0, "hanging up ended its runner");
    },
  );

  await situation("many short prompts in a row: one hand-off, then nothing more is asked", async () => {
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    for (let n = 0; n < 4; n++) await scene.prompt({ ms: 200 });
    await scene.idle();
    assert.equal(scene.since(sinceMs).filter((item) => item.kind === "yield").length, 1);
  });
});

Deno.test("ComfyUI gives back: only when it is idle, only what fell, and never between prompts", async (test) => {
  const idleMs = 4_000;
  await using scene = await openScene({ policy: { purge: { ...DEFAULT_POLICY.purge, idleMs } } });
  const { box, house } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });
  const purges = (sinceMs: number) => scene.since(sinceMs).filter((item) => item.kind === "purge");

  await situation("idle for long enough: purged by itself, once, down to its context", async () => {
    await scene.prompt({ checkpoint: SDXL });
    await scene.idle();
    const sinceMs = scene.clock.monotonicMs();
    const { item, atMs } = await scene.said(({ kind }) => kind === "purge", { sinceMs });
    assert.equal(item.fields["outcome"], "released");
    assert.equal(item.fields["cause"], "comfy_idle");
    assert.ok(atMs - sinceMs >= idleMs);
    assert.ok(Math.abs((gib(box.comfy.heldBytes) ?? 0) - CONTEXT_GIB) < 0.1);
    await scene.pass(idleMs * 2);
    assert.equal(purges(sinceMs).length, 1);
  });

  await situation("nothing but its context: said at once, without ten seconds of waiting", async () => {
    const startMs = scene.clock.monotonicMs();
    assert.equal((await scene.purge()).outcome, "nothing_loaded");
    assert.ok(scene.clock.monotonicMs() - startMs < 1_500);
  });

  await situation("it executes: the purge is refused and nothing is sent", async () => {
    await scene.prompt({ ms: 1_500, gib: 2 });
    await scene.pass(1_000);
    const heldBytes = box.comfy.heldBytes;
    assert.equal((await scene.refusal(scene.purge())).code, "busy");
    await scene.idle();
    assert.ok(box.comfy.heldBytes >= heldBytes);
  });

  await situation(
    "right after a prompt: it waits a second, so that /free isn't lost in the garbage collection",
    async () => {
      await scene.prompt({ checkpoint: SDXL });
      await scene.idle();
      const startMs = scene.clock.monotonicMs();
      const result = await scene.purge();
      assert.equal(result.outcome, "released");
      assert.ok((result.requestMs ?? 0) >= 900, `asked after ${result.requestMs} ms`);
      assert.ok(scene.clock.monotonicMs() - startMs < 8_000);
    },
  );

  await situation("a backlog: never purged between two prompts", async () => {
    await scene.pass(1);
    const sinceMs = scene.clock.monotonicMs();
    for (let n = 0; n < 3; n++) await scene.prompt({ ms: idleMs + 500, gib: 1.5 });
    await scene.idle();
    assert.deepEqual(purges(sinceMs), []);
  });

  await situation("a prompt slips in after /free was sent: the purge gives way and says what may strike", async () => {
    await scene.prompt({ checkpoint: SDXL });
    await scene.idle();
    await scene.pass(1_500);
    const purging = house.services.arbitration.purge({ confirm: true, operation: "comfy-free" }, {
      signal: new AbortController().signal,
      progress: () => {},
    });
    await scene.pass(300);
    await scene.prompt({ ms: 300 });
    const result = await scene.settle(purging);
    assert.equal(result.outcome, "busy");
    assert.equal(result.overlapped, true);
    await scene.idle();
  });

  await situation("an LLM wants room: an idle ComfyUI gives it at once, confirmed", async () => {
    await scene.prompt({ checkpoint: SDXL });
    await scene.idle();
    await scene.pass(1_100);
    const request = { neededBytes: 12 * GIB, operation: "request-vram" };
    const call = { signal: new AbortController().signal, progress: () => {} };
    const result = await scene.settle(house.services.arbitration.requestVram(request, call));
    assert.equal(result.fits, true);
    assert.ok((gib(result.reclaimedBytes) ?? 0) > 5);
  });

  await situation("an LLM wants more than there is: it doesn't fit, and who holds the rest is named", async () => {
    const request = { neededBytes: 15.5 * GIB, operation: "request-vram" };
    const call = { signal: new AbortController().signal, progress: () => {} };
    const result = await scene.settle(house.services.arbitration.requestVram(request, call));
    assert.equal(result.fits, false);
    const share = (bucket: string) => result.holders.find((holder) => holder.bucket === bucket);
    assert.match(share("unmanaged")?.who.join() ?? "", /python3 stt_relay/);
    const heldGib = gib(share("comfy")?.bytes ?? 0) ?? 0;
    assert.ok(heldGib < 1, `what ComfyUI gave back a moment ago still counts for it: ${heldGib} GiB`);
  });

  await situation("it doesn't answer for less than two seconds: that isn't down", async () => {
    box.comfy.freeze(true);
    await scene.pass(1_800);
    assert.equal(house.services.live.snapshot().sample.comfy.online, true);
    box.comfy.freeze(false);
    await scene.pass(3_000);
    assert.equal(house.services.live.snapshot().sample.comfy.online, true);
  });

  await situation("it is down: unreachable at once, with its address", async () => {
    await scene.settle(box.comfy.kill());
    await scene.pass(2_500);
    const result = await scene.purge();
    assert.equal(result.outcome, "unreachable");
    assert.match(result.message, /127\.0\.0\.1/);
  });

  await situation("it came back as another process: its work is heard, and Ollama yields to it", async () => {
    await scene.settle(box.comfy.start());
    await scene.pass(4_000);
    const { comfy } = house.services.live.snapshot().sample;
    assert.equal(comfy.server?.pid, box.comfy.pid);
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt();
    assert.equal((await scene.handOff(sinceMs)).fields["outcome"], "released");
  });

  await situation(
    "a node runs out of memory: the prompt ends, the server lives, and the purge still works",
    async () => {
      await scene.prompt({ checkpoint: SDXL });
      await scene.idle();
      await scene.fail("oom");
      await scene.idle();
      await scene.pass(1_500);
      const result = await scene.purge();
      assert.ok(result.outcome === "released" || result.outcome === "nothing_loaded", result.message);
    },
  );
});
