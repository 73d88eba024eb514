import assert from "node:assert/strict";
import { openComfy, work } from "./comfy_scene.ts";

Deno.test("one prompt: the client that posted it hears all of it in order, an observer only the count", async () => {
  await using box = openComfy();
  const observer = await box.listen("observer");
  const submitter = await box.listen("submitter");
  await box.post(work(2, 200), { client_id: "submitter", prompt_id: "p1" });
  await box.idle();
  await box.clock.advance(1_000);
  assert.deepEqual(observer.words(), ["status 0", "status 1", "status 1", "status 0"]);
  assert.deepEqual(submitter.words(), [
    ...["status 0", "status 1", "status 1", "execution_start", "execution_cached"],
    ...["progress_state", "executing 1", "progress_state", "progress", "progress_state", "progress"],
    ...["executed 1", "progress_state", "execution_success", "status 0", "executing null"],
  ]);
  assert.equal((observer.frames[0]?.data)?.["sid"], "observer");
  assert.equal("sid" in (observer.frames[1]?.data ?? {}), false);
});

Deno.test("without a client id progress and interruptions go to everyone, and nothing else to anyone", async () => {
  await using box = openComfy();
  const observer = await box.listen(null);
  await box.post(work(20, 100));
  await box.clock.advance(350);
  await box.call("/interrupt", { method: "POST" });
  await box.idle();
  await box.clock.advance(1_000);
  const words = observer.words();
  assert.deepEqual(words.slice(0, 4), ["status 0", "status 1", "status 1", "progress_state"]);
  assert.deepEqual(words.slice(-2), ["execution_interrupted", "status 0"]);
  assert.equal(words.some((word) => /executing|execution_start|executed|success/.test(word)), false);
  assert.match(String(observer.frames[0]?.data["sid"]), /^[0-9a-f]{32}$/);
});

Deno.test("a second socket with the same id takes over, and goes deaf when the first closes", async () => {
  await using box = openComfy();
  const first = await box.listen("same");
  const second = await box.listen("same");
  await box.post(work(1, 10), { client_id: "same" });
  await box.idle();
  await box.clock.advance(1_000);
  assert.deepEqual(first.words(), ["status 0"]);
  assert.ok(second.words().includes("execution_success"));
  first.socket.close();
  await box.clock.advance(10);
  const heard = second.frames.length;
  await box.post(work(1, 20), { client_id: "same" });
  await box.idle();
  assert.equal(second.frames.length, heard);
  assert.equal(second.socket.readyState, WebSocket.OPEN);
});

Deno.test("a client that comes back is told the node its prompt is at, without the prompt's id", async () => {
  await using box = openComfy();
  await box.post(work(10, 100), { client_id: "mine" });
  await box.clock.advance(250);
  const back = await box.listen("mine");
  await box.clock.advance(1);
  assert.deepEqual(back.frames.slice(0, 2).map(({ type, data }) => [type, data["node"], "prompt_id" in data]), [
    ["status", undefined, false],
    ["executing", "1", false],
  ]);
  const other = await box.listen("other");
  assert.deepEqual(other.words(), ["status 1"]);
});

Deno.test("feature flags are answered as a client's first message only; garbage is ignored", async () => {
  await using box = openComfy();
  const client = await box.listen("c");
  client.socket.send(JSON.stringify({ type: "feature_flags", data: {} }));
  await box.clock.advance(1);
  assert.deepEqual(client.frames[1]?.data, { supports_preview_metadata: true, max_upload_size: 104_857_600 });
  const late = await box.listen("d");
  late.socket.send("not json");
  late.socket.send(JSON.stringify({ type: "feature_flags", data: {} }));
  await box.clock.advance(1);
  assert.equal(late.frames.length, 1);
});

Deno.test("a client that doesn't read its socket freezes everyone's frames until it is gone; HTTP goes on", async () => {
  await using box = openComfy();
  const observer = await box.listen("o");
  const stuck = await Deno.connect({ hostname: "127.0.0.1", port: box.server.port });
  const key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n";
  const head = `GET /ws?clientId=s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${key}\r\n`;
  await stuck.write(new TextEncoder().encode(head));
  await box.clock.advance(1);
  // Progress of a prompt without a client id goes to everyone, and carries this long id: the buffers fill up.
  await box.post(work(60, 50), { prompt_id: "x".repeat(1_000_000) });
  await box.clock.advance(1_000);
  const heard = observer.frames.length;
  await box.clock.advance(500);
  assert.equal(observer.frames.length, heard, "frozen");
  assert.equal((await box.call("/prompt")).status, 200);
  stuck.close();
  await box.clock.advance(200);
  assert.ok(observer.frames.length > heard);
});
