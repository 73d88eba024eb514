import assert from "node:assert/strict";
import { labModel } from "../../lib/lab/ollama_models.ts";
import { between, errorOf, openOllama } from "./ollama_scene.ts";

Deno.test("one loader: a second model waits for the first, and a full queue is refused at once", async () => {
  await using box = openOllama({ maxQueue: 1, maxLoaded: 3 });
  const first = box.begin("/api/generate", { body: { model: "llama3.1:8b" } });
  await box.clock.advance(100);
  const second = box.begin("/api/generate", { body: { model: "tiny" } });
  await box.clock.advance(100);
  const refused = await box.load("tinyb");
  assert.deepEqual([refused.status, refused.tookMs], [503, 0]);
  assert.equal(errorOf(refused), "server busy, please try again.  maximum pending requests exceeded");
  const order: string[] = [];
  first.then(() => order.push("first"));
  second.then(() => order.push("second"));
  await box.clock.until(Promise.all([first, second]), { limitMs: 10_000 });
  assert.deepEqual(order, ["first", "second"]);
});

Deno.test("the victim is the idle model with the shortest keep_alive; a busy one is waited for, never ended", async () => {
  await using box = openOllama({ maxLoaded: 2 });
  await box.load("tiny", { keep_alive: -1 });
  await box.load("tinyb", { keep_alive: "10m" });
  await box.load("llama3.1:8b", { keep_alive: "20m" });
  assert.deepEqual((await box.listed()).sort(), ["llama3.1:8b", "tiny:latest"]);

  await using one = openOllama({ maxLoaded: 1 });
  await one.load("llama3.1:8b", { keep_alive: -1 });
  const chat = { model: "llama3.1:8b", prompt: "x", stream: false, options: { num_predict: 40 } };
  const busy = one.begin("/api/generate", { body: chat });
  await one.clock.advance(50);
  const waiting = one.begin("/api/generate", { body: { model: "tiny" } });
  await one.clock.advance(50);
  const overtaking = one.begin("/api/generate", { body: chat });
  const order: string[] = [];
  busy.then(() => order.push("busy"));
  waiting.then(() => order.push("waiting"));
  overtaking.then(() => order.push("overtaking"));
  const answers = await one.clock.until(Promise.all([busy, waiting, overtaking]), { limitMs: 20_000 });
  assert.deepEqual(answers.map((answer) => answer.status), [200, 200, 200]);
  assert.deepEqual(order, ["busy", "overtaking", "waiting"]);
  assert.deepEqual(await one.listed(), ["tiny:latest"]);
});

Deno.test("an idle model goes before a busy one, whatever their keep_alive", async () => {
  await using box = openOllama({ maxLoaded: 2 });
  await box.load("tiny", { keep_alive: -1 });
  await box.load("llama3.1:8b", { keep_alive: "1m" });
  const body = { model: "llama3.1:8b", prompt: "x", stream: false, options: { num_predict: 400 } };
  const busy = box.begin("/api/generate", { body });
  await box.clock.advance(50);
  assert.ok((await box.load("tinyb")).tookMs < 1_500);
  assert.deepEqual((await box.listed()).sort(), ["llama3.1:8b", "tinyb:latest"]);
  await box.clock.until(busy, { limitMs: 10_000 });
});

Deno.test("an eviction that was asked for happens even if the asker has left", async () => {
  await using box = openOllama({ maxLoaded: 1 });
  await box.load("llama3.1:8b", { keep_alive: -1 });
  const busy = box.begin("/api/generate", { body: { model: "llama3.1:8b", prompt: "x", stream: false } });
  await box.clock.advance(50);
  const left = new AbortController();
  box.begin("/api/generate", { body: { model: "tiny" }, signal: left.signal }).catch(() => {});
  await box.clock.advance(50);
  left.abort();
  await box.clock.until(busy, { limitMs: 10_000 });
  await box.clock.advance(2_000);
  assert.deepEqual([await box.listed(), box.server.runners], [[], []]);
});

Deno.test("short room spills silently; num_gpu that can't be had is out of memory, as a status even when streamed", async () => {
  await using box = openOllama();
  box.vram.enter(5);
  box.vram.allocate(5, box.vram.freeBytes - 6e9);
  await box.load("qwen3:14b");
  const [row] = await box.rows();
  const [size, onCard] = [Number(row?.size), Number(row?.size_vram)];
  between(onCard / size, 0.4, 0.6);
  between(box.vram.freeBytes, 0, 6e9 - onCard);
  await box.unload("qwen3:14b");
  await box.clock.advance(1_000);
  const refused = await box.load("qwen3:14b", { options: { num_gpu: 99 }, stream: true });
  assert.deepEqual([refused.status, refused.type], [500, "application/json; charset=utf-8"]);
  assert.match(errorOf(refused), /cudaMalloc failed: out of memory/);
  between(refused.tookMs, 700, 1_300);
  assert.deepEqual(box.server.runners, []);
  box.server.quirks.refusesWhenShort = true;
  assert.equal((await box.load("qwen3:14b")).status, 500);
  assert.equal((await box.load("tiny")).status, 200);
});

Deno.test("a model that can't fit clears the card first, innocent models included, and fails all the same", async () => {
  await using box = openOllama();
  box.server.installed.push(labModel({ name: "huge", blobBytes: 40e9 }));
  await box.load("tiny", { keep_alive: -1 });
  assert.equal((await box.load("huge", { options: { num_gpu: 99 } })).status, 500);
  assert.deepEqual(await box.listed(), []);
});

Deno.test("other options reload, once there and once back; unnamed ones don't", async () => {
  await using box = openOllama();
  await box.load("tiny", { options: { temperature: 0.5 } });
  const first = box.server.runners[0]?.pid;
  await box.load("tiny", { options: { top_k: 3 } });
  assert.equal(box.server.runners[0]?.pid, first);
  await box.load("tiny", { options: { num_ctx: 2_048 } });
  const second = box.server.runners[0]?.pid;
  assert.notEqual(second, first);
  assert.equal((await box.rows())[0]?.context_length, 2_048);
  await box.load("tiny");
  assert.notEqual(box.server.runners[0]?.pid, second);
  assert.equal(box.server.runners.length, 1);
});

Deno.test("hanging up cancels a load; who waited for the same model starts from zero", async () => {
  await using box = openOllama();
  const left = new AbortController();
  box.begin("/api/generate", { body: { model: "qwen3:14b" }, signal: left.signal }).catch(() => {});
  await box.clock.advance(1_000);
  const other = box.begin("/api/generate", { body: { model: "qwen3:14b" } });
  await box.clock.advance(700);
  const first = box.server.runners[0]?.pid;
  left.abort();
  const { status, tookMs } = await box.clock.until(other, { limitMs: 10_000 });
  assert.equal(status, 200);
  between(tookMs, 700 + 2_200, 700 + 3_600);
  assert.notEqual(box.server.runners[0]?.pid, first);
  left.abort();
});

Deno.test("a second request waits for the slot, and its wait stands in no duration", async () => {
  await using box = openOllama();
  await box.load("llama3.1:8b");
  const body = { model: "llama3.1:8b", prompt: "hello", stream: false, options: { num_predict: 20 } };
  box.begin("/api/generate", { body });
  await box.clock.advance(10);
  const second = await box.clock.until(box.begin("/api/generate", { body }), { limitMs: 5_000 });
  const fields = JSON.parse(second.text) as Record<string, number>;
  const named = ["load_duration", "prompt_eval_duration", "eval_duration"].reduce(
    (sum, key) => sum + (fields[key] ?? 0),
    0,
  );
  between(((fields["total_duration"] ?? 0) - named) / 1e6, 100, 400);
});
