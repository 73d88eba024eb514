import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";
import { UpstreamError } from "../../lib/upstream/upstream_error.ts";
import { OLLAMA_VERSIONS, recorded } from "./recorded.ts";
import { type Answer, json, never, serveScript } from "./scripted_server.ts";

const LIVE = new AbortController().signal;

function connect(answer: Answer, options: { loadDeadlineMs?: number } = {}) {
  const server = serveScript(answer);
  const clock = new LabClock();
  return { server, clock, api: connectOllama({ url: server.url, clock, ...options }) };
}

function body(text: string | undefined): Record<string, unknown> {
  return JSON.parse(text ?? "null");
}

for (const version of OLLAMA_VERSIONS) {
  Deno.test(`${version}: version, tags, ps and blobs are asked where they stand`, async () => {
    const files = new Map([
      ["GET /api/version", "version.json"],
      ["GET /api/tags", "tags.json"],
      ["GET /api/ps", "ps-two.json"],
      ["POST /api/show", "show-llama.json"],
    ]);
    const { server, api } = connect(({ method, path }) =>
      new Response(recorded(`ollama/${version}/${files.get(`${method} ${path}`)}`))
    );
    await using _ = server;
    assert.equal(`v${await api.version(LIVE)}`, version);
    assert.ok((await api.tags(LIVE)).length >= 5);
    assert.deepEqual((await api.ps(LIVE)).map(({ name }) => name), ["tiny:latest", "big:latest"]);
    assert.match((await api.weightBlobs("tiny", LIVE))[0] ?? "", /^sha256-/);
    assert.deepEqual(body(server.asked[3]?.body), { model: "tiny" });
  });

  Deno.test(`${version}: a load asks for one token of a prompt that no cache knows`, async () => {
    const { server, api } = connect(() => new Response(recorded(`ollama/${version}/generate-1tok.json`)));
    await using _ = server;
    const request = { model: "tiny", keepAlive: "30m", prompt: null };
    const reply = await api.load(request, LIVE);
    await api.load(request, LIVE);
    assert.ok(reply.loadDurationMs !== null && reply.loadDurationMs > 250);
    assert.equal(reply.tokensPerSecond, null);
    const [first, second] = server.asked.map(({ body: text }) => body(text));
    assert.deepEqual({ ...first, prompt: "" }, {
      model: "tiny",
      prompt: "",
      stream: false,
      options: { num_predict: 1 },
      keep_alive: "30m",
    });
    assert.notEqual(String(first?.["prompt"]).slice(0, 36), String(second?.["prompt"]).slice(0, 36));
  });

  Deno.test(`${version}: a model that only embeds is loaded by embedding`, async () => {
    const { server, api } = connect(({ path }) =>
      path === "/api/generate"
        ? new Response(recorded(`ollama/${version}/err-generate-on-embed.json`), { status: 400 })
        : new Response(recorded(`ollama/${version}/embed.json`))
    );
    await using _ = server;
    const reply = await api.load({ model: "embedder", keepAlive: -1, prompt: null }, LIVE);
    assert.ok((reply.loadDurationMs ?? 0) > 0);
    assert.deepEqual([reply.tokensPerSecond, reply.response], [null, ""]);
    assert.deepEqual(server.asked.map(({ path }) => path), ["/api/generate", "/api/embed"]);
    const embed = body(server.asked[1]?.body);
    assert.deepEqual([embed["model"], embed["keep_alive"]], ["embedder", -1]);
    assert.ok(String(embed["input"]).length > 0, "an empty input tells no durations");
  });

  Deno.test(`${version}: a load that memory refuses is one error, and no second try`, async () => {
    const { server, api } = connect(() =>
      new Response(recorded(`ollama/${version}/err-cannot-fit.json`), { status: 500 })
    );
    await using _ = server;
    await assert.rejects(api.load({ model: "bigctx", keepAlive: "5m", prompt: null }, LIVE), (error) => {
      assert.ok(error instanceof UpstreamError);
      assert.equal(error.status, 500);
      assert.match(error.message, /^Cannot load bigctx: server answered 500: /);
      return true;
    });
    assert.equal(server.asked.length, 1);
  });
}

Deno.test("a given prompt is sent as it is, and its answer is bounded", async () => {
  const { server, api } = connect(() =>
    json({ response: "Paris", done: true, eval_count: 20, eval_duration: 4e8, load_duration: 1e9, total_duration: 2e9 })
  );
  await using _ = server;
  const reply = await api.load({ model: "tiny", keepAlive: "5m", prompt: "Capital of France?" }, LIVE);
  assert.deepEqual(reply, {
    loadDurationMs: 1000,
    totalDurationMs: 2000,
    tokensPerSecond: 50,
    response: "Paris",
  });
  const sent = body(server.asked[0]?.body);
  assert.equal(sent["prompt"], "Capital of France?");
  assert.deepEqual(sent["options"], { num_predict: 128 });
});

Deno.test("a keep_alive in bare digits goes out as a number: quoted it would be refused", async () => {
  const { server, api } = connect(() => json({ response: "", done: true }));
  await using _ = server;
  for (const keepAlive of ["300", "-1", "10m", "0", 5, "1h30m"]) {
    await api.load({ model: "tiny", keepAlive, prompt: null }, LIVE);
  }
  assert.deepEqual(server.asked.map(({ body: text }) => body(text)["keep_alive"]), [300, -1, "10m", 0, 5, "1h30m"]);
});

Deno.test("an unload has no prompt, keep_alive 0, and nothing else", async () => {
  const { server, api } = connect(() => new Response(recorded("ollama/v0.33.0/generate-unload.json")));
  await using _ = server;
  await api.unload("tiny", LIVE);
  assert.equal(server.asked[0]?.path, "/api/generate");
  assert.deepEqual(body(server.asked[0]?.body), { model: "tiny", keep_alive: 0, stream: false });
});

Deno.test("an unload of a model that is deleted says 404", async () => {
  const { server, api } = connect(() =>
    new Response(recorded("ollama/v0.33.0/err-generate-unknown-unload.json"), { status: 404 })
  );
  await using _ = server;
  await assert.rejects(api.unload("nope", LIVE), { status: 404, message: /^Cannot unload nope: .*not found/ });
});

Deno.test("an answer without its last part is no load", async () => {
  const { server, api } = connect(() => json({ model: "tiny", response: "a a a", done: false }));
  await using _ = server;
  await assert.rejects(api.load({ model: "tiny", keepAlive: 0, prompt: null }, LIVE), {
    kind: "protocol",
    status: 200,
  });
});

Deno.test("an error inside a 200 is an error", async () => {
  const { server, api } = connect(() => new Response(recorded("ollama/v0.33.0/generate-runner-killed-stream.ndjson")));
  await using _ = server;
  await assert.rejects(api.load({ model: "big", keepAlive: "5m", prompt: "x" }, LIVE), {
    kind: "in_band",
    status: 200,
    reason: /unexpected EOF/,
  });
});

Deno.test("a load that hangs is hung up on at its own deadline, not before", async () => {
  const { server, api, clock } = connect((_asked, signal) => never(signal), { loadDeadlineMs: 400_000 });
  await using _ = server;
  const failed = assert.rejects(api.load({ model: "big", keepAlive: "5m", prompt: null }, LIVE), { kind: "timeout" });
  await clock.advance(399_999);
  let isHungUp = false;
  server.hungUp.then(() => isHungUp = true);
  await clock.settle();
  assert.equal(isHungUp, false);
  await clock.advance(1);
  await failed;
  await server.hungUp;
});

Deno.test("a runner's own port: loading, busy, idle, or no word", async () => {
  const saying = async (answers: Readonly<Record<string, () => Response>>) => {
    await using server = serveScript(({ path }) =>
      answers[path]?.() ?? new Response("File Not Found", { status: 404 })
    );
    const api = connectOllama({ url: "http://127.0.0.1:9", clock: new LabClock() });
    return (await api.runnerActivity(server.port, LIVE)).activity;
  };
  const file = (name: string, status = 200) => () => new Response(recorded(`ollama/${name}.json`), { status });
  const loading = '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}';
  assert.equal(await saying({ "/health": () => new Response(loading, { status: 503 }) }), "loading");
  const ready = file("v0.33.0/runner-health-idle");
  assert.equal(await saying({ "/health": ready, "/slots": file("v0.33.0/runner-slots-busy") }), "busy");
  assert.equal(await saying({ "/health": ready, "/slots": file("v0.33.0/runner-slots-idle") }), "idle");
  assert.equal(await saying({ "/health": ready }), null, "a server without /slots doesn't say");
  assert.equal(await saying({ "/health": () => json({ status: 3, progress: 0.5 }) }), "loading");
  assert.equal(await saying({ "/health": file("v0.24.0/runner-health-busy") }), null);
});

Deno.test("a runner that is stopped says nothing, and a caller that gives up is told so", async () => {
  await using server = serveScript((_asked, signal) => never(signal));
  const clock = new LabClock();
  const api = connectOllama({ url: "http://127.0.0.1:9", clock });
  const word = api.runnerActivity(server.port, LIVE);
  assert.deepEqual(await clock.until(word, { limitMs: 1_000 }), { activity: null, tokensLeft: null });
  const caller = new AbortController();
  const asked = assert.rejects(api.runnerActivity(server.port, caller.signal), { message: "enough" });
  await clock.settle();
  caller.abort(new Error("enough"));
  await asked;
});

Deno.test("a server on another host is told by its URL", () => {
  const clock = new LabClock();
  assert.equal(connectOllama({ url: "http://0.0.0.0:11434", clock }).isRemote, false);
  assert.equal(connectOllama({ url: "http://0.0.0.0:11434", clock }).url, "http://127.0.0.1:11434");
  assert.equal(connectOllama({ url: "http://gpu-box:11434", clock }).isRemote, true);
  assert.equal(connectOllama({ url: "http://gpu-box:11434", clock, localHosts: ["gpu-box"] }).isRemote, false);
});
