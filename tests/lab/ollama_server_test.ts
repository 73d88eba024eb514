import assert from "node:assert/strict";
import { aliasOf, demoModels, labModel } from "../../lib/lab/ollama_models.ts";
import { OllamaServer, type OllamaServerOptions } from "../../lib/lab/ollama_server.ts";
import { type Answer, answered, type Ask, ask, openScene } from "./scene.ts";

const TINY = labModel({ name: "tiny", blobBytes: 22e6, bufferBytes: 20e6, kvBytesPerToken: 0 });
const MODELS = [
  ...demoModels(),
  TINY,
  labModel({ name: "tinyb", blobBytes: 26e6, bufferBytes: 20e6, kvBytesPerToken: 0 }),
];

type Options = Partial<OllamaServerOptions> & Parameters<typeof openScene>[0];

function openOllama(options: Options = {}) {
  const scene = openScene(options);
  const { ground, clock } = scene;
  const server = new OllamaServer({ ground, version: "0.33.0", models: MODELS, ...options });
  for (const model of server.installed) server.warm(model.name, 1);
  const call = (path: string, init: Ask & { limitMs?: number } = {}) => answered(clock, server.url + path, init);
  return {
    ...scene,
    server,
    vram: ground.vram,
    processes: ground.processes,
    call,
    /** Starts a request and lets nothing pass yet. */
    begin: (path: string, init: Ask = {}) => ask(clock, server.url + path, init),
    load: (model: string, more: Record<string, unknown> = {}) => call("/api/generate", { body: { model, ...more } }),
    unload: (model: string) => call("/api/generate", { body: { model, keep_alive: 0 } }),
    listed: async () => {
      const { models } = JSON.parse((await call("/api/ps")).text) as { models: { name: string }[] };
      return models.map((row) => row.name);
    },
    rows: async () => (JSON.parse((await call("/api/ps")).text) as { models: Record<string, unknown>[] }).models,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      scene[Symbol.dispose]();
      assert.deepEqual(scene.errors, [], "the lab's own code failed");
    },
  };
}

const between = (value: number, low: number, high: number) => assert.ok(value >= low && value <= high, `${value}`);
const errorOf = (answer: Answer) => (JSON.parse(answer.text) as { error: string }).error;

Deno.test("a load takes VRAM long before it is listed, and ends on a step of 250 ms", async () => {
  await using box = openOllama();
  const loading = box.begin("/api/generate", { body: { model: "qwen3:14b" } });
  await box.clock.advance(1_200);
  const [runner] = box.server.runners;
  assert.ok(runner !== undefined && runner.state === "loading");
  between(runner.heldBytes, 2e9, 9e9);
  assert.deepEqual(await box.listed(), []);
  assert.match(
    box.processes.get(runner.pid)?.args.join(" ") ?? "",
    /llama-server --model \S+\/blobs\/sha256-[0-9a-f]{64} /,
  );
  const { tookMs, text } = await box.clock.until(loading, { limitMs: 5_000 });
  between(tookMs, 2_200, 2_800);
  between(tookMs % 250, 8, 22);
  assert.match(text, /"done_reason":"load"\}$/);
  assert.deepEqual(await box.listed(), ["qwen3:14b"]);
  const [row] = await box.rows();
  const held = box.vram.heldBytes(runner.pid);
  assert.equal(row?.size, row?.size_vram);
  between(held - Number(row?.size_vram), 0.6 * 2 ** 30, 0.7 * 2 ** 30);
});

Deno.test("residency decides how long a load takes", async () => {
  await using box = openOllama({ profile: "desktop" });
  const warm = (await box.load("llama3.1:8b")).tookMs;
  await box.unload("llama3.1:8b");
  await box.clock.advance(1_000);
  box.server.warm("llama3.1:8b", 0.03);
  const cold = (await box.load("llama3.1:8b")).tookMs;
  between(4_920 / warm, 2, 3);
  between(4_920 / cold, 0.3, 0.5);
});

for (const [profile, [reply, released]] of [["h200", [1.2, 200]], ["desktop", [61, 135]]] as const) {
  Deno.test(`${profile}: the unload reply is a receipt; the driver has the memory back later, with process and row`, async () => {
    await using box = openOllama({ profile });
    await box.load("qwen3:14b");
    const [runner] = box.server.runners;
    assert.ok(runner !== undefined);
    const startMs = box.clock.monotonicMs();
    const { tookMs, text } = await box.unload("qwen3:14b");
    between(tookMs, reply, reply + 4);
    assert.match(text, /"done_reason":"unload"/);
    assert.equal(box.vram.releasedAtMs(runner.pid), null);
    assert.deepEqual(box.processes.get(runner.pid)?.args, [], "a dying process has no command line");
    await box.clock.advance(400);
    between((box.vram.releasedAtMs(runner.pid) ?? 0) - startMs, released, released + 60);
    assert.equal(box.processes.get(runner.pid), null);
    assert.deepEqual(await box.listed(), []);
  });
}

Deno.test("0.33 lists a model that is being ended only once it is gone; 0.24 lists it without waiting", async () => {
  for (const version of ["0.33.0", "0.24.0"] as const) {
    await using box = openOllama({ version });
    await box.load("tiny");
    await box.unload("tiny");
    const { tookMs, text } = await box.call("/api/ps");
    if (version === "0.33.0") between(tookMs, 100, 260);
    else between(tookMs, 0, 1);
    assert.equal(text.includes("tiny"), version === "0.24.0");
  }
});

Deno.test("unloading a busy model waits for its client; a loading one and an absent one are not touched", async () => {
  await using box = openOllama();
  await box.load("llama3.1:8b");
  const body = { model: "llama3.1:8b", prompt: "hello", stream: false, options: { num_predict: 30 } };
  const generating = box.begin("/api/generate", { body });
  await box.clock.advance(50);
  between((await box.unload("llama3.1:8b")).tookMs, 1, 3);
  await box.clock.advance(100);
  assert.deepEqual(box.server.runners.map((runner) => runner.state), ["busy"]);
  const [row] = await box.rows();
  assert.ok(Date.parse(String(row?.expires_at)) < box.clock.wallMs(), "it says when it was asked");
  assert.match((await box.clock.until(generating, { limitMs: 5_000 })).text, /"eval_count":30/);
  await box.clock.advance(300);
  assert.deepEqual(box.server.runners, []);

  const loading = box.begin("/api/generate", { body: { model: "llama3.1:8b" } });
  await box.clock.advance(500);
  assert.equal((await box.unload("llama3.1:8b")).status, 200);
  await box.clock.until(loading, { limitMs: 5_000 });
  await box.clock.advance(2_000);
  assert.deepEqual(await box.listed(), ["llama3.1:8b"]);

  assert.equal((await box.unload("tiny")).status, 200, "not loaded");
  const unknown = await box.unload("nope");
  assert.deepEqual([unknown.status, errorOf(unknown)], [404, "model 'nope' not found"]);
});

Deno.test("a busy unload is taken back by a request with keep_alive, not by one without", async () => {
  for (const [more, survives] of [[{}, false], [{ keep_alive: "10m" }, true]] as const) {
    await using box = openOllama();
    await box.load("llama3.1:8b");
    const generating = box.begin("/api/generate", { body: { model: "llama3.1:8b", prompt: "x", stream: false } });
    await box.clock.advance(50);
    await box.unload("llama3.1:8b");
    await box.load("llama3.1:8b", more);
    await box.clock.until(generating, { limitMs: 10_000 });
    await box.clock.advance(1_000);
    assert.equal((await box.listed()).length, survives ? 1 : 0);
  }
});

Deno.test("keep_alive: the timer starts at the end, omitting it changes nothing, -1 ends in 292 years", async () => {
  await using box = openOllama();
  await box.load("tiny", { keep_alive: 1 });
  await box.clock.advance(990);
  assert.deepEqual(await box.listed(), ["tiny:latest"]);
  await box.clock.advance(300);
  assert.deepEqual(await box.listed(), []);

  const loaded = await box.load("tiny", { keep_alive: -1 });
  assert.equal(loaded.status, 200);
  await box.load("tiny");
  const [row] = await box.rows();
  assert.match(String(row?.expires_at), /^2318-/);
  await box.load("tiny", { keep_alive: "1m30s" });
  await box.load("tiny");
  const [later] = await box.rows();
  between(Date.parse(String(later?.expires_at)) - box.clock.wallMs(), 89_900, 90_000);
});

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

Deno.test("a crashed runner stays listed until somebody asks for it", async () => {
  await using box = openOllama();
  await box.load("tiny", { keep_alive: -1 });
  const [before] = box.server.runners;
  box.server.crashRunner("tiny");
  await box.clock.advance(5_000);
  assert.deepEqual([await box.listed(), box.server.runners], [["tiny:latest"], []]);
  assert.equal((await box.load("tiny")).status, 200);
  const [after] = box.server.runners;
  assert.ok(after !== undefined && after.pid !== before?.pid);
  box.server.crashRunner("tiny");
  await box.unload("tiny");
  await box.clock.advance(400);
  assert.deepEqual(await box.listed(), [], "an unload clears the row");
});

Deno.test("a crash while it answers: an error in the stream, a status without one", async () => {
  await using box = openOllama();
  const text = "an error was encountered while running the model: unexpected EOF";
  for (const isStreamed of [true, false]) {
    await box.load("llama3.1:8b");
    const running = box.begin("/api/generate", { body: { model: "llama3.1:8b", prompt: "x", stream: isStreamed } });
    await box.clock.advance(150);
    box.server.crashRunner("llama3.1:8b");
    const { status, text: got } = await box.clock.until(running, { limitMs: 1_000 });
    assert.equal(status, isStreamed ? 200 : 500);
    const lines = got.trim().split("\n");
    assert.deepEqual(JSON.parse(lines.at(-1) ?? ""), { error: text });
    assert.equal(lines.length > 1, isStreamed);
  }
  box.server.quirks.endsWithoutDoneAfter = 2;
  const cut = await box.call("/api/chat", {
    body: { model: "llama3.1:8b", messages: [{ role: "user", content: "x" }] },
  });
  assert.deepEqual(cut.text.trim().split("\n").map((line) => (JSON.parse(line) as { done: boolean }).done), [
    false,
    false,
  ]);
});

Deno.test("tags of the same weights share one runner, named by the first", async () => {
  await using box = openOllama();
  box.server.installed.push(aliasOf(TINY, "ns/tiny:v1"));
  await box.load("ns/tiny:v1");
  await box.load("TINY");
  assert.deepEqual([await box.listed(), box.server.runners.length], [["ns/tiny:v1"], 1]);
  await box.unload("tiny");
  await box.clock.advance(400);
  assert.deepEqual(box.server.runners, []);
});

Deno.test("a deleted model that is loaded can't be unloaded by name", async () => {
  await using box = openOllama();
  await box.load("tiny");
  assert.equal((await box.call("/api/delete", { method: "DELETE", body: { model: "tiny" } })).status, 200);
  assert.equal((await box.unload("tiny")).status, 404);
  await box.clock.advance(1_000);
  assert.deepEqual(await box.listed(), ["tiny:latest"]);
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

Deno.test("SIGKILL leaves runners behind as orphans that hold their memory; a new server knows nothing of them", async () => {
  await using box = openOllama();
  await box.load("llama3.1:8b");
  const [before] = box.server.runners;
  await box.server.kill("SIGKILL");
  await assert.rejects(fetch(box.server.url));
  assert.deepEqual([box.server.pid, box.server.runners[0]?.state], [null, "orphan"]);
  assert.equal(box.processes.get(before?.pid ?? 0)?.parentPid, 1);
  await box.server.start();
  assert.deepEqual(await box.listed(), []);
  await box.load("llama3.1:8b");
  assert.deepEqual(box.server.runners.map((runner) => runner.state).sort(), ["idle", "orphan"]);
  assert.equal(box.server.endRunner(before?.pid ?? 0), true);
  assert.equal(box.vram.heldBytes(before?.pid ?? 0), 0);
});

Deno.test("SIGTERM takes the runners along and cuts a stream without its last chunk", async () => {
  await using box = openOllama();
  await box.load("llama3.1:8b");
  const streaming = box.begin("/api/generate", { body: { model: "llama3.1:8b", prompt: "x" } });
  await box.clock.advance(200);
  const cut = assert.rejects(streaming);
  const killed = box.server.kill("SIGTERM");
  await box.clock.advance(45);
  await killed;
  await cut;
  assert.deepEqual(box.server.runners, []);
  assert.equal(box.vram.smPct, 0);
});

Deno.test("a runner says itself whether it loads or works, by generation", async () => {
  for (const version of ["0.33.0", "0.24.0"] as const) {
    await using box = openOllama({ version });
    const loading = box.begin("/api/generate", { body: { model: "llama3.1:8b" } });
    await box.clock.advance(900);
    const port = box.server.runners[0]?.port;
    const own = (path: string) => answered(box.clock, `http://127.0.0.1:${port}${path}`);
    const early = await own("/health");
    if (version === "0.33.0") assert.deepEqual([early.status, /Loading model/.test(early.text)], [503, true]);
    else assert.match(early.text, /^\{"status":3,"progress":0\.\d+\}$/);
    await box.clock.until(loading, { limitMs: 5_000 });
    const asked = box.begin("/api/generate", {
      body: { model: "llama3.1:8b", prompt: "hello world", stream: false, options: { num_predict: 60 } },
    });
    await box.clock.advance(200);
    if (version === "0.33.0") {
      assert.equal((await own("/health")).text, '{"status":"ok"}');
      const [slot] = JSON.parse((await own("/slots")).text) as {
        is_processing: boolean;
        next_token: { n_remain: number }[];
      }[];
      assert.equal(slot?.is_processing, true);
      between(slot?.next_token[0]?.n_remain ?? 0, 1, 59);
    } else assert.equal((await own("/health")).text, '{"status":0,"progress":1}');
    await box.clock.until(asked, { limitMs: 5_000 });
    if (version === "0.33.0") assert.match((await own("/slots")).text, /"is_processing":false\}\]$/);
  }
});

Deno.test("0.24 children show their server's command line for a moment, and are named after it", async () => {
  await using box = openOllama({ version: "0.24.0" });
  const loading = box.begin("/api/generate", { body: { model: "tiny" } });
  await box.clock.runUntil(() => box.server.runners.length === 1, { limitMs: 100 });
  const pid = box.server.runners[0]?.pid ?? 0;
  assert.deepEqual(box.processes.get(pid)?.args, ["/usr/local/bin/ollama", "serve"]);
  await box.clock.advance(5);
  assert.match(
    box.processes.get(pid)?.args.join(" ") ?? "",
    /^\/usr\/local\/bin\/ollama runner --model \S+ --port \d+$/,
  );
  assert.equal(box.processes.get(pid)?.name, "ollama");
  between((await box.clock.until(loading, { limitMs: 5_000 })).tookMs, 281, 830);
});

Deno.test("a runner that dies at its start leaves its load hanging, and every other behind it, until its client hangs up", async () => {
  await using box = openOllama();
  box.server.quirks.diesAtStart = true;
  const left = new AbortController();
  box.begin("/api/generate", { body: { model: "tiny" }, signal: left.signal }).catch(() => {});
  await box.clock.advance(100);
  box.server.quirks.diesAtStart = false;
  const behind = box.begin("/api/generate", { body: { model: "tinyb" } });
  await box.clock.advance(60_000);
  assert.deepEqual([box.server.runners, await box.listed()], [[], []]);
  left.abort();
  assert.equal((await box.clock.until(behind, { limitMs: 5_000 })).status, 200);
});

Deno.test("/api/ps can stall, a stopped runner is deaf, and a held release is a stuck unload", async () => {
  await using box = openOllama();
  box.server.quirks.psStallMs = 3_000;
  between((await box.call("/api/ps")).tookMs, 3_000, 3_001);
  box.server.quirks.psStallMs = 0;
  await box.load("tiny");
  box.server.stopRunner("tiny", true);
  const deaf = new AbortController();
  let isAnswered = false;
  box.begin("/api/generate", { body: { model: "tiny", prompt: "x" }, signal: deaf.signal }).then(
    () => isAnswered = true,
    () => {},
  );
  await box.clock.advance(30_000);
  assert.deepEqual([isAnswered, await box.listed()], [false, ["tiny:latest"]]);
  deaf.abort();
  await box.clock.advance(10);
  box.server.quirks.releaseMs = 9_000;
  await box.unload("tiny");
  await box.clock.advance(8_000);
  assert.equal(box.server.runners[0]?.state, "stopping");
  await box.clock.advance(1_100);
  assert.deepEqual(box.server.runners, []);
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

Deno.test("while the driver makes a context or tears one down, its calls don't return", async () => {
  await using box = openOllama({ holds: true });
  const loading = box.begin("/api/generate", { body: { model: "tiny" } });
  await box.clock.runUntil(() => box.ground.table.isHeld, { limitMs: 1_000 });
  await box.clock.advance(103);
  assert.equal(box.ground.table.isHeld, true);
  await box.clock.advance(2);
  assert.equal(box.ground.table.isHeld, false);
  await box.clock.until(loading, { limitMs: 2_000 });
  await box.unload("tiny");
  await box.clock.runUntil(() => box.ground.table.isHeld, { limitMs: 1_000 });
  await box.clock.advance(34);
  assert.equal(box.server.runners.length, 1);
  await box.clock.advance(2);
  assert.deepEqual([box.server.runners.length, box.ground.table.isHeld], [0, false]);
});
