import assert from "node:assert/strict";
import { between, openOllama } from "./ollama_scene.ts";

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

Deno.test("a deleted model that is loaded can't be unloaded by name", async () => {
  await using box = openOllama();
  await box.load("tiny");
  assert.equal((await box.call("/api/delete", { method: "DELETE", body: { model: "tiny" } })).status, 200);
  assert.equal((await box.unload("tiny")).status, 404);
  await box.clock.advance(1_000);
  assert.deepEqual(await box.listed(), ["tiny:latest"]);
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
