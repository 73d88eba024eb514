import assert from "node:assert/strict";
import { aliasOf } from "../../lib/lab/ollama_models.ts";
import { between, errorOf, openOllama, TINY } from "./ollama_scene.ts";
import { answered } from "./scene.ts";

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
