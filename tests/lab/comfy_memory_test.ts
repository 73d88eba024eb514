import assert from "node:assert/strict";
import { GIB } from "../../lib/model/units.ts";
import { bodyOf, openComfy, sdxl, work } from "./comfy_scene.ts";

const between = (value: number, low: number, high: number) => assert.ok(value >= low && value <= high, `${value}`);
const FREE = { body: { unload_models: true, free_memory: true } };

Deno.test("weights in RAM: the first growth comes 47–77 ms after the frame; from disk 0.8–2.0 s", async () => {
  for (const [share, low, high] of [[1, 45, 79], [0, 800, 2_002]] as const) {
    await using box = openComfy();
    const observer = await box.listen("o");
    box.server.warm("sd_xl_base_1.0.safetensors", share);
    await box.clock.advance(10);
    const startMs = box.clock.monotonicMs();
    await box.post(sdxl());
    await box.idle();
    const frameMs = observer.frames.find((frame) => frame.atMs >= startMs)?.atMs ?? 0;
    between((box.vram.grewAtMs(box.server.pid ?? 0, startMs) ?? 0) - frameMs, low, high);
  }
});

Deno.test("an SDXL run peaks at 9.9 GiB; after /free the context of 0.8 GiB stays", async () => {
  await using box = openComfy();
  const pid = box.server.pid ?? 0;
  await box.post(sdxl());
  await box.idle();
  const peak = Math.max(...box.vram.log.filter((truth) => truth.pid === pid).map((truth) => truth.heldBytes));
  between(peak / GIB, 9.8, 10);
  await box.clock.advance(20_000);
  between(box.server.heldBytes / GIB, 7.2, 7.4);
  await box.call("/free", FREE);
  await box.clock.advance(5_000);
  between(box.server.heldBytes / GIB, 0.79, 0.81);
});

Deno.test("/free falls 1.1–1.7 s after it when it was quiet, 3.5–4.4 s right after a run, and all at once", async () => {
  for (const [waitMs, low, high] of [[15_000, 1_100, 1_700], [1_500, 3_500, 4_400]] as const) {
    await using box = openComfy();
    await box.post(sdxl());
    await box.idle();
    await box.clock.advance(waitMs);
    const startMs = box.clock.monotonicMs();
    assert.equal((await box.call("/free", FREE)).tookMs, 0);
    await box.clock.advance(6_000);
    const falls = box.vram.log.filter((truth) => truth.kind === "freed" && truth.atMs > startMs);
    between((falls[0]?.atMs ?? 0) - startMs, low, high);
    between((falls.at(-1)?.atMs ?? 0) - (falls[0]?.atMs ?? 0), 0, 10);
  }
});

Deno.test("a /free while garbage is collected is answered, forgotten, and strikes after the next prompt", async () => {
  await using box = openComfy();
  await box.post(sdxl());
  await box.idle();
  // The collection begins with the prompt's end.
  await box.clock.advance(1);
  const { tookMs } = await box.call("/free", FREE);
  between(tookMs, 200, 260);
  await box.clock.advance(60_000);
  between(box.server.heldBytes / GIB, 7, 8);
  await box.post(sdxl());
  await box.idle();
  await box.clock.advance(10_000);
  between(box.server.heldBytes / GIB, 0.79, 0.81);
});

Deno.test("without that quirk it acts as soon as the collection is over", async () => {
  await using box = openComfy();
  box.server.quirks.losesWakeUps = false;
  await box.post(sdxl());
  await box.idle();
  await box.call("/free", FREE);
  await box.clock.advance(6_000);
  between(box.server.heldBytes / GIB, 0.79, 0.81);
});

Deno.test("the collection comes right after a prompt if the last was 10 s ago, else 10 s after that; all is silent meanwhile", async () => {
  await using box = openComfy();
  const observer = await box.listen("o");
  const silentMs = async () => (await box.call("/queue")).tookMs;
  await box.post(work(1, 50));
  await box.idle();
  await box.clock.advance(1);
  between(await silentMs(), 200, 260);
  assert.equal(observer.words().at(-1), "status 0");
  await box.clock.advance(1_000);
  await box.post(work(1, 60));
  await box.idle();
  await box.clock.advance(1);
  assert.equal(await silentMs(), 0);
  // Deferred: ten seconds after the one before.
  await box.clock.advance(8_700);
  assert.equal(await silentMs(), 0);
  await box.clock.advance(350);
  between(await silentMs(), 1, 260);
});

Deno.test("the end of a prompt can come as late as the collection after it", async () => {
  for (const endsUnheard of [false, true]) {
    await using box = openComfy();
    box.server.quirks.endsUnheard = endsUnheard;
    const observer = await box.listen("o");
    await box.post(work(1, 50));
    await box.idle();
    const endMs = box.clock.monotonicMs();
    await box.clock.advance(1_000);
    const last = observer.frames.at(-1);
    assert.equal(observer.words().at(-1), "status 0");
    between((last?.atMs ?? 0) - endMs, endsUnheard ? 240 : 0, endsUnheard ? 260 : 1);
  }
});

Deno.test("/free while it runs acts after that prompt and before the next, which waits for it", async () => {
  await using box = openComfy();
  await box.post(sdxl({ steps: 10 }), { prompt_id: "a" });
  await box.post(sdxl({ steps: 2 }), { prompt_id: "b" });
  await box.clock.advance(800);
  await box.call("/free", FREE);
  await box.clock.advance(500);
  assert.deepEqual(await box.queue(), { running: ["a"], pending: ["b"] });
  await box.idle();
  const history = bodyOf(await box.call("/history")) as Record<
    string,
    { status: { messages: [string, { timestamp: number }][] } }
  >;
  const time = (id: string, at: number) => history[id]?.status.messages.at(at)?.[1].timestamp ?? 0;
  between(time("b", 0) - time("a", -1), 3_500, 4_700);
});

Deno.test("short room loads a part without a word, runs two to three times slower, and stays that way", async () => {
  await using full = openComfy();
  await using tight = openComfy();
  tight.vram.enter(5);
  tight.vram.allocate(5, tight.vram.freeBytes - 4.1 * GIB);
  const took = async (box: ReturnType<typeof openComfy>) => {
    await box.post(sdxl({ steps: 20 }));
    await box.idle();
    const run = Object.values(bodyOf(await box.call("/history?max_items=1")))[0] as {
      status: { status_str: string; messages: [string, { timestamp: number }][] };
    };
    assert.equal(run.status.status_str, "success");
    return (run.status.messages.at(-1)?.[1].timestamp ?? 0) - (run.status.messages[0]?.[1].timestamp ?? 0);
  };
  const [whole, part] = [await took(full), await took(tight)];
  between(part / whole, 1.5, 3);
  assert.equal(full.server.share("sd_xl_base_1.0.safetensors"), 1);
  between(tight.server.share("sd_xl_base_1.0.safetensors"), 0.3, 0.7);
  tight.vram.exit(5);
  between(await took(tight) / await took(full), 1.5, 3);
});

Deno.test("another checkpoint displaces its own, never anybody else's memory", async () => {
  await using box = openComfy();
  box.vram.enter(5);
  box.vram.allocate(5, 1 * GIB);
  await box.post(sdxl());
  await box.idle();
  await box.post(sdxl({ checkpoint: "flux1-dev-fp8.safetensors" }));
  await box.idle();
  assert.deepEqual(["sd_xl_base_1.0.safetensors", "flux1-dev-fp8.safetensors"].map((name) => box.server.share(name)), [
    0,
    1,
  ]);
  assert.equal(box.vram.heldBytes(5), 1 * GIB);
});
