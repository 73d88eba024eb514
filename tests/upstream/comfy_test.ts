import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { recordedBody } from "./recorded.ts";
import { type Answer, json, serveScript } from "./scripted_server.ts";

const LIVE = new AbortController().signal;

function connect(answer: Answer) {
  const server = serveScript(answer);
  return { server, api: connectComfy({ url: server.url, clock: new LabClock() }) };
}

const QUEUE = () => new Response(recordedBody("http-queue.json", "queue_idle"));

Deno.test("routes are asked under /api", async () => {
  const { server, api } = connect(({ path }) =>
    path === "/api/queue" ? QUEUE() : new Response(recordedBody("http-info.json", "system_stats"))
  );
  await using _ = server;
  assert.deepEqual(await api.queue(LIVE), { running: [], pending: [] });
  assert.equal((await api.stats(LIVE)).version, "0.3.64");
  assert.deepEqual(server.asked.map(({ path }) => path), ["/api/queue", "/api/system_stats"]);
});

Deno.test("a fork without /api is asked on bare paths, and remembered", async () => {
  const { server, api } = connect(({ path }) => {
    if (path.startsWith("/api/")) return new Response(null, { status: path === "/api/free" ? 405 : 404 });
    return path === "/free" ? new Response(null) : QUEUE();
  });
  await using _ = server;
  await api.free(LIVE);
  await api.queue(LIVE);
  assert.deepEqual(server.asked.map(({ path }) => path), ["/api/free", "/free", "/queue"]);
});

Deno.test("a server that changes under us is found again", async () => {
  let isBare = true;
  const { server, api } = connect(({ path }) =>
    path.startsWith("/api/") === isBare ? new Response(null, { status: 404 }) : QUEUE()
  );
  await using _ = server;
  await api.queue(LIVE);
  isBare = false;
  await assert.rejects(api.queue(LIVE), { status: 404 });
  await api.queue(LIVE);
  assert.equal(server.asked.at(-1)?.path, "/api/queue");
});

Deno.test("receipts without body and Content-Type are taken", async () => {
  const { server, api } = connect(() => new Response(null, { status: 200 }));
  await using _ = server;
  await api.free(LIVE);
  await api.interrupt("p-1", LIVE);
  assert.deepEqual(server.asked.map(({ method, path, body }) => [method, path, JSON.parse(body)]), [
    ["POST", "/api/free", { unload_models: true, free_memory: true }],
    ["POST", "/api/interrupt", { prompt_id: "p-1" }],
  ]);
});

Deno.test("a completion is looked up by its id, whatever that looks like", async () => {
  const { server, api } = connect(({ path }) =>
    path.includes("55555555")
      ? new Response(recordedBody("http-history.json", "history_id_success_all_cached"))
      : json({})
  );
  await using _ = server;
  const completion = await api.completion("55555555-5555-4555-8555-555555555555", LIVE);
  assert.equal(completion?.status, "success");
  assert.equal(await api.completion("not a uuid/..?x", LIVE), null);
  assert.equal(server.asked[1]?.path, "/api/history/not%20a%20uuid%2F..%3Fx");
});

Deno.test("the newest completions are asked for by number", async () => {
  const { server, api } = connect(() => new Response(recordedBody("http-history.json", "history_all")));
  await using _ = server;
  assert.ok((await api.recent(5, LIVE)).length >= 4);
  assert.equal(server.asked[0]?.path, "/api/history?max_items=5");
});

Deno.test("models: old folder names are translated, an unknown folder is empty, a failure is none", async () => {
  const { server, api } = connect(({ path }) =>
    path.endsWith("/checkpoints")
      ? json({ error: "x" }, 500)
      : path.endsWith("/text_encoders")
      ? json(["t5.safetensors"])
      : new Response(null, { status: 404 })
  );
  await using _ = server;
  assert.deepEqual(await api.models("clip", LIVE), ["t5.safetensors"]);
  assert.deepEqual(await api.models("nope", LIVE), []);
  await assert.rejects(api.models("checkpoints", LIVE), { status: 500 });
});

Deno.test("ComfyUI's own 500 says so in one line", async () => {
  const { server, api } = connect(() =>
    new Response("500 Internal Server Error\n\nServer got itself in trouble", { status: 500 })
  );
  await using _ = server;
  await assert.rejects(api.queue(LIVE), {
    message: "Cannot read ComfyUI's queue: server answered 500: 500 Internal Server Error Server got itself in trouble",
  });
});
