import assert from "node:assert/strict";
import { operations } from "../../lib/operations/registry.ts";
import { StatsWire, viewStats } from "../../lib/operations/stats.ts";
import { fakeBox } from "../operations/fake_box.ts";
import { ASSETS, openDoor, SOCKET } from "./rest_door.ts";

Deno.test("a read answers what the operation answers", async () => {
  const { ask, box } = openDoor();
  const stats = await ask("GET /api/stats");
  assert.equal(stats.status, 200);
  assert.match(stats.headers.get("content-type") ?? "", /^application\/json/);
  assert.equal(stats.headers.get("cache-control"), "private, no-cache");
  assert.deepEqual(stats.json, JSON.parse(JSON.stringify(StatsWire.parse(viewStats(box.services.live.snapshot())))));
  assert.equal(stats.json.gpu.vram_total_gb, 16);
  assert.equal(stats.json.ollama.active_model_name, "qwen3:14b");
});

Deno.test("every operation is reached under its path", async () => {
  const { ask, box } = openDoor();
  const run = box.runs.start("switch-model", () => Promise.resolve({}));
  const warm = box.runs.start("warm-all", () => Promise.resolve({}));
  const sweep = box.runs.start("autotune-sweep", () => Promise.resolve({}));
  const inputs: Readonly<Record<string, unknown>> = {
    "autotune-cancel": { id: sweep.id },
    "warm-all": { wait: true },
    "warm-model": { model_name: "qwen3:14b" },
    "warm-cancel": { id: warm.id },
    pin: { model_name: "qwen3:14b" },
    unpin: { model_name: "qwen3:14b" },
    "set-pinned": { pinned: true, model_name: "qwen3:14b" },
    "switch-model": { model: "qwen3:14b" },
    "request-vram": { needed_gb: 1 },
    "end-runner": { pid: 4001, starttime: 991 },
    "set-arbitration": { mode: "observe" },
    "set-fan": { mode: "auto" },
    "apply-profile": { profile: "comfy" },
    "save-profile": { name: "quiet", power_limit_w: 250 },
    "set-lever": { lever: "power_limit_w", value: 300 },
    "autotune-sweep": { knob: "power_limit_w", wait: true },
    "set-governor": { reset: true },
  };
  for (const { name, http } of operations) {
    const path = http.path.replace("{id}", run.id).replace("{name}", "quiet");
    const queries: Readonly<Record<string, string>> = {
      "analytics-timeseries": "?metric=power_w,temperature_c",
      plan: "?model=qwen3:14b",
    };
    const answer = await ask(
      `${http.method} ${path}${queries[name] ?? ""}`,
      // The socket may do everything; what loopback may do is another test's.
      { peer: SOCKET, ...(http.method === "POST" ? { body: inputs[name] ?? {} } : {}) },
    );
    assert.equal(answer.status, 200, `${name}: ${answer.text}`);
  }
});

Deno.test("query and body are read by the parameters' kinds; confirm comes in either", async () => {
  const { ask, box } = openDoor();
  await ask("GET /api/history?limit=5&kind=yield&durable=false");
  await ask("POST /api/free-vram?confirm=false");
  await ask("POST /api/free-vram", { body: { model_name: "a", confirm: false } });
  await ask("POST /api/free-vram?confirm=false", { body: { confirm: false } });
  assert.deepEqual(box.asked, [
    'history {"limit":5,"kind":"yield","before":null,"durable":false}',
    'yieldVram {"models":null,"confirm":false,"operation":"free-vram"}',
    'yieldVram {"models":["a"],"confirm":false,"operation":"free-vram"}',
    'yieldVram {"models":null,"confirm":false,"operation":"free-vram"}',
  ]);
});

Deno.test("bad requests are refused with status, code and hint, and harm nothing", async () => {
  const { ask, box } = openDoor();
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const cases: [string, Parameters<typeof ask>[1], number, RegExp][] = [
    ["GET /api/history?limit=abc", {}, 400, /limit must be a whole number from 1 to 1000, not \\"abc\\"/],
    ["GET /api/history?limit=", {}, 400, /limit must be a whole number/],
    ["GET /api/history?limit=1&limit=2", {}, 400, /given 2 times/],
    ["GET /api/history?lmit=3", {}, 400, /did you mean \\"limit\\"/],
    ["GET /api/history?durable=yes", {}, 400, /true or false/],
    ["POST /api/request-vram", { body: { needed_gb: -4 } }, 400, /number above 0 and at most 1000000, not -4/],
    ["POST /api/request-vram", { body: { needed_gb: 999 } }, 507, /whisper/],
    ["POST /api/request-vram", { body: "{needed_gb: 4}" }, 400, /as JSON/],
    ["POST /api/request-vram", { body: '{"needed_gb": 4' }, 400, /as JSON/],
    ["POST /api/request-vram", { body: "[4]" }, 400, /must be a JSON object/],
    ["POST /api/request-vram?needed_gb=4", {}, 400, /belongs in the body/],
    ["POST /api/request-vram", { body: "needed_gb=4", headers: form }, 400, /application\/json/],
    ["POST /api/request-vram", { body: { needed_gb: 4 }, headers: { "content-encoding": "gzip" } }, 400, /gzip/],
    [
      "POST /api/switch-model",
      { body: new Blob(['{"model": "', new Uint8Array([0xe4]), '"}']) },
      400,
      /UTF-8/,
    ],
    ["POST /api/free-vram?confirm=true", { body: { confirm: false } }, 400, /given twice/],
    ["POST /api/switch-model", { body: { model: "nope" } }, 404, /hyperswap models/],
    ["POST /api/switch-model", { body: { model: "" } }, 400, /non-empty/],
    ["POST /api/switch-model", { body: { model: "x".repeat(70_000) } }, 413, /64 KiB/],
    ["GET /api/why?id=9", {}, 404, /decision 9/],
    ["GET /api/runs/none", {}, 404, /hyperswap runs/],
    ["GET /api/runs/none/events", {}, 404, /hyperswap runs/],
    ["GET /api/runs/none/events?id=some", {}, 400, /Unknown parameter/],
    ["GET /api/stream?token=secret", {}, 400, /Unknown parameter/],
    ["POST /api/runs/none/cancel", {}, 404, /hyperswap runs/],
    ["GET /api/stat", {}, 404, /did you mean \\"\/api\/stats\\"/],
    ["GET /api/runs/%E0%A4%A", {}, 404, /not_found/],
    ["POST /api/stats", { body: {} }, 405, /It takes GET, HEAD, OPTIONS/],
    ["DELETE /api/arbitration", {}, 405, /It takes GET, POST, HEAD, OPTIONS/],
    ["PATCH /docs", {}, 405, /It takes GET/],
  ];
  for (const [line, options, status, pattern] of cases) {
    const answer = await ask(line, options);
    assert.equal(answer.status, status, `${line}: ${answer.text}`);
    assert.match(answer.text, pattern, line);
    const { code, message } = answer.json.error;
    assert.ok(typeof code === "string" && /^[A-Z].*[^.]$/.test(message), `${line}: ${message}`);
  }
  assert.deepEqual(box.defects, []);
  assert.equal((await ask("GET /api/stats")).status, 200);
});

Deno.test("a wrong method names the right ones; OPTIONS lists them; HEAD is a GET without its body", async () => {
  const { ask } = openDoor();
  assert.equal((await ask("PUT /api/free-vram")).headers.get("allow"), "POST, OPTIONS");
  const options = await ask("OPTIONS /api/arbitration");
  assert.deepEqual([options.status, options.headers.get("allow")], [204, "GET, POST, HEAD, OPTIONS"]);
  const head = await ask("HEAD /api/stats");
  assert.deepEqual([head.status, head.text], [200, ""]);
  assert.equal(head.headers.get("content-length"), String((await ask("GET /api/stats")).text.length));
  const stream = await ask("HEAD /api/stream");
  assert.deepEqual([stream.status, stream.text, stream.headers.get("content-type")], [200, "", "text/event-stream"]);
});

Deno.test("a body that says nothing of its length is cut off at the limit", async () => {
  const { door } = openDoor();
  let pulled = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1;
      controller.enqueue(new Uint8Array(16 * 1024).fill(32));
    },
  });
  const response = await door.fetch(
    new Request("http://127.0.0.1/api/free-vram", { method: "POST", headers: { host: "127.0.0.1" }, body: endless }),
    SOCKET,
  );
  assert.equal(response.status, 413);
  assert.ok(pulled < 10, `${pulled} chunks were read`);
});

Deno.test("long work without waiting answers 202 with the run and where it is", async () => {
  const { ask, box } = openDoor();
  const started = await ask("POST /api/switch-model", { body: { model: "qwen3:14b", wait: false } });
  assert.equal(started.status, 202);
  assert.equal(started.headers.get("location"), `/api/runs/${started.json.id}`);
  await box.runs.ended(started.json.id);
  const run = await ask(`GET /api/runs/${started.json.id}`);
  assert.equal(run.json.state, "done");
  assert.equal(run.json.result.target_model, "qwen3:14b");
  const waited = await ask("POST /api/switch-model", { body: { model: "qwen3:14b" } });
  assert.deepEqual(waited.json, run.json.result);
});

Deno.test("hanging up never cancels work", async () => {
  const { request, box } = openDoor();
  const going = Promise.withResolvers<void>();
  const signals: AbortSignal[] = [];
  box.answers.switchModel = ({ signal }) => {
    signals.push(signal);
    going.resolve();
    return new Promise(() => {});
  };
  box.answers.yieldVram = ({ signal }) => {
    signals.push(signal);
    return new Promise(() => {});
  };
  const abort = new AbortController();
  void request("POST /api/switch-model", { body: { model: "qwen3:14b" }, signal: abort.signal });
  await going.promise;
  void request("POST /api/free-vram", { body: {}, signal: abort.signal });
  await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(null))));
  abort.abort();
  assert.ok(signals.length >= 1 && signals.every((signal) => !signal.aborted));
  assert.equal(box.runs.list()[0]?.state, "running");
});

Deno.test("a defect is told by an id and nothing else", async () => {
  const { ask, box } = openDoor();
  box.answers.purge = () => Promise.reject(new Error("secret path /root"));
  const answer = await ask("POST /api/comfy-free");
  assert.equal(answer.status, 500);
  assert.deepEqual(answer.json.error.code, "internal");
  assert.ok(!answer.text.includes("secret"));
  assert.equal(box.defects.length, 1);
});

Deno.test("before the first sample: unavailable, and the service lives", async () => {
  const { ask } = openDoor({ box: fakeBox({ isBlank: true }) });
  assert.equal((await ask("GET /api/stats")).status, 503);
  assert.equal((await ask("GET /api/version")).json.service, "hyperswap");
});

Deno.test("a simulated box says so", async () => {
  const { ask } = openDoor({ box: fakeBox({ simulation: "a 16 GB desktop" }) });
  const stats = await ask("GET /api/stats");
  assert.equal(stats.headers.get("x-hyperswap-simulated"), "a%2016%20GB%20desktop");
  assert.deepEqual([stats.json.simulated, stats.json.simulation], [true, "a 16 GB desktop"]);
  assert.equal((await openDoor().ask("GET /api/stats")).headers.has("x-hyperswap-simulated"), false);
});

Deno.test("the dashboard's files: type, cache rule, ETag, gzip; nothing outside them", async () => {
  const { ask, request } = openDoor();
  const page = await ask("GET /");
  assert.match(page.headers.get("content-type") ?? "", /^text\/html; charset=utf-8$/);
  assert.equal(page.headers.get("cache-control"), "no-cache");
  assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'self'.*frame-ancestors 'none'/);
  assert.equal(page.headers.get("x-content-type-options"), "nosniff");
  const etag = page.headers.get("etag") ?? "";
  const again = await ask("GET /index.html", { headers: { "if-none-match": `"other", W/${etag}` } });
  assert.deepEqual([again.status, again.text], [304, ""]);
  const zipped = await request("GET /assets/app-3f2a91bc.js", { headers: { "accept-encoding": "br, gzip" } });
  assert.equal(zipped.headers.get("content-encoding"), "gzip");
  assert.match(zipped.headers.get("cache-control") ?? "", /immutable/);
  const script = await new Response(zipped.body?.pipeThrough(new DecompressionStream("gzip"))).text();
  assert.equal(script, ASSETS.get("assets/app-3f2a91bc.js"));
  for (const encoding of ["identity", "gzip;q=0", "br"]) {
    const plain = await ask("GET /assets/app-3f2a91bc.js", { headers: { "accept-encoding": encoding } });
    assert.equal(plain.headers.get("content-encoding"), null, encoding);
  }
  assert.equal((await ask("HEAD /favicon.svg")).headers.get("content-length"), "6");
  for (const path of ["/../main.ts", "/%2e%2e/main.ts", "/assets", "/index.html/", "/__proto__"]) {
    assert.equal((await ask(`GET ${path}`)).status, 404, path);
  }
  assert.equal((await ask("POST /index.html")).status, 404);
});

Deno.test("the documents come embedded and ask nobody else", async () => {
  const { ask } = openDoor();
  const page = await ask("GET /docs");
  assert.equal(page.headers.get("content-type"), "text/html; charset=utf-8");
  const named = [...page.text.matchAll(/(?:src|href)="(.*?)"/g)].map(([, url]) => url!);
  assert.ok(named.length >= 4);
  for (const url of named.filter((url) => !url.startsWith("data:"))) {
    const part = await ask(`GET ${url}`);
    assert.equal(part.status, 200, url);
    assert.ok(part.text.length > 50, url);
  }
  assert.equal((await ask("GET /docs/")).status, 200);
  assert.equal((await ask("GET /docs/nothing.js")).status, 404);
  assert.equal((await ask("GET /openapi.json")).json.openapi, "3.1.0");
});
