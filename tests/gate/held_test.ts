/** What is held at the gate: nothing goes upstream before the arbiter's word, and each request ends exactly once. */
import assert from "node:assert/strict";
import { answerText, openScene, requestText, type Scene, type Wire } from "./gate_scene.ts";

const CHAT = JSON.stringify({ model: "tiny", messages: [{ role: "user", content: "hi" }], options: { num_ctx: 2048 } });

async function holdOne(scene: Scene, text = requestText("POST /api/chat", { body: CHAT })): Promise<Wire> {
  const client = await scene.client();
  await client.send(text);
  return client;
}

Deno.test("a held request is sent on the arbiter's word alone, and its answer says so", async () => {
  await using scene = await openScene();
  const client = await holdOne(
    scene,
    requestText("POST /api/chat?x=1", { body: CHAT, headers: ["X-HyperSwap-Priority: batch", "X-Own: 1"] }),
  );
  const offer = await scene.admission.next(0);
  assert.deepEqual(offer.request, {
    tenant: "ollama",
    path: "/api/chat",
    model: "tiny",
    contextLength: 2048,
    files: [],
    priority: "batch",
    arrivedAtMs: scene.clock.monotonicMs(),
  });
  await scene.clock.advance(60_000);
  assert.equal(scene.upstream.wires.length, 0, "nothing was sent or even opened");
  offer.pass({ heldMs: 60_000.4, reason: "released" });
  const wire = await scene.upstream.wire(0);
  await wire.see(CHAT);
  assert.equal(
    wire.received,
    `POST /api/chat?x=1 HTTP/1.1\r\nHost: 127.0.0.1:11435\r\nX-Own: 1\r\nContent-Length: ${CHAT.length}\r\n\r\n${CHAT}`,
  );
  await wire.send(answerText("answer", { headers: ["X-B: 1"] }));
  await client.see("answer");
  const marks = ["X-HyperSwap-Held-Ms: 60000", "X-HyperSwap-Reason: released"];
  assert.equal(
    client.received,
    `HTTP/1.1 200 OK\r\nX-B: 1\r\nContent-Length: 6\r\n${marks.join("\r\n")}\r\n\r\nanswer`,
  );
  await scene.clock.settle();
  assert.deepEqual([offer.taken, offer.outcomes], [1, [{ kind: "answered", status: 200 }]]);
});

Deno.test("what isn't held passes without a mark; what passes because the gate stands open is marked", async () => {
  await using scene = await openScene({
    answer: async (wire) => {
      await wire.see(CHAT);
      await wire.send(answerText("answer"));
    },
  });
  const first = await holdOne(scene);
  (await scene.admission.next(0)).pass({ reason: "resident" });
  await first.see("answer");
  assert.equal(first.received, answerText("answer"));
  for (const [at, reason] of (["paused", "blind", "fault", "stuck"] as const).entries()) {
    const client = await holdOne(scene);
    (await scene.admission.next(at + 1)).pass({ reason, isOpen: true, heldMs: 0 });
    await client.see("answer");
    const marks = ["X-HyperSwap-Held-Ms: 0", `X-HyperSwap-Reason: ${reason}`, "X-HyperSwap-Gate: open"];
    assert.equal(
      client.received,
      answerText("answer", { headers: [] }).replace("\r\n\r\n", `\r\n${marks.join("\r\n")}\r\n\r\n`),
    );
  }
});

for (const how of ["closes", "half-closes"] as const) {
  Deno.test(`a client that ${how} while it is held lapses, and nothing is ever sent`, async () => {
    await using scene = await openScene({ tenant: "comfyui" });
    const client = await holdOne(scene, requestText("POST /prompt", { body: '{"prompt":{}}' }));
    const offer = await scene.admission.next(0);
    if (how === "closes") client.close();
    else await client.conn.closeWrite();
    await new Promise((resolve) => offer.signal.addEventListener("abort", resolve));
    offer.pass({ reason: "released" });
    await scene.clock.settle();
    assert.equal(scene.upstream.wires.length, 0);
    assert.deepEqual([offer.taken, offer.outcomes], [0, []]);
    if (how === "half-closes") assert.equal(await client.ended(), "");
  });
}

Deno.test("granted, and the client is gone: it is never sent", async () => {
  await using scene = await openScene({ tenant: "comfyui" });
  const client = await holdOne(scene, requestText("POST /api/prompt", { body: "{}" }));
  const offer = await scene.admission.next(0);
  // Both in one turn: the word may overtake the news that nobody waits for it.
  client.close();
  offer.pass();
  await scene.clock.settle();
  await scene.clock.settle();
  const sent = scene.upstream.received.join("");
  assert.equal(sent.includes("POST"), offer.taken === 1, "sent if and only if it was taken");
  if (offer.taken === 0) assert.ok(offer.signal.aborted, "the arbiter is told");
  else assert.equal(offer.outcomes.length, 1);
});

for (const how of ["closes", "half-closes"] as const) {
  Deno.test(`a client that ${how} while its answer is made ends the work upstream, whole`, async () => {
    await using scene = await openScene();
    const client = await holdOne(scene);
    const offer = await scene.admission.next(0);
    offer.pass();
    const wire = await scene.upstream.wire(0);
    await wire.see(CHAT);
    await wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    await client.see("abc");
    if (how === "closes") client.close();
    else await client.conn.closeWrite();
    await wire.ended();
    // Only half closed, the connection would take this for ever.
    await assert.rejects(async () => {
      for (;;) await wire.send("3\r\ndef\r\n");
    });
    await scene.clock.settle();
    assert.deepEqual(offer.outcomes, [{ kind: "client_left" }]);
  });
}

Deno.test("a half-closed client still gets an answer that costs nothing, but isn't waited on for long", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("GET /api/tags"));
  await client.conn.closeWrite();
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\n");
  await scene.clock.settle();
  await wire.send(answerText("tags"));
  assert.equal(await client.ended(), answerText("tags"));

  const slow = await scene.client();
  await slow.send(requestText("POST /api/pull", { body: "{}" }));
  await slow.conn.closeWrite();
  const other = await scene.upstream.wire(1);
  await other.see("{}");
  await scene.clock.advance(1_000);
  await other.ended();
  assert.equal(await slow.ended(), "");
});

Deno.test("an upstream that restarts while a request is held gets it once", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  // The connection that was there before the restart mustn't be the one it is sent on.
  await client.send(requestText("GET /api/version"));
  const before = await scene.upstream.wire(0);
  await before.see("\r\n\r\n");
  await before.send(answerText("{}"));
  await client.see("{}");
  await client.send(requestText("POST /api/chat", { body: CHAT }));
  const offer = await scene.admission.next(0);
  await scene.upstream.stop();
  scene.upstream.start();
  offer.pass({ heldMs: 5, reason: "released" });
  const wire = await scene.upstream.wire(1);
  await wire.see(CHAT);
  await wire.send(answerText("answer"));
  await client.see("answer");
  assert.equal(scene.upstream.received.join("").split(CHAT).length, 2, "once");
  assert.equal(offer.taken, 1);
});

Deno.test("an upstream that is gone when its turn has come is said in its own words", async () => {
  await using scene = await openScene();
  const client = await holdOne(scene);
  const offer = await scene.admission.next(0);
  await scene.upstream.stop();
  offer.pass();
  await client.see("HTTP/1.1 502 Bad Gateway");
  assert.match(await client.ended(), /\{"error":"Cannot reach 127\.0\.0\.1:\d+: connection refused"\}$/);
  assert.deepEqual([offer.taken, offer.outcomes.map(({ kind }) => kind)], [1, ["upstream_failed"]]);
});

for (
  const [tenant, path, expected] of [
    ["ollama", "/api/generate", { error: "too many wait" }],
    ["ollama", "/v1/chat/completions", {
      error: { message: "too many wait", type: "rate_limit_error", param: null, code: null },
    }],
    ["ollama", "/v1/messages", {
      type: "error",
      error: { type: "rate_limit_error", message: "too many wait" },
      request_id: null,
    }],
    ["comfyui", "/prompt", {
      error: { type: "gate_refused", message: "too many wait", details: "too many wait", extra_info: {} },
      node_errors: {},
    }],
  ] as const
) {
  Deno.test(`a refusal on ${path} reads as one of the upstream's own`, async () => {
    await using scene = await openScene({ tenant });
    const client = await holdOne(scene, requestText(`POST ${path}`, { body: "{}" }));
    const offer = await scene.admission.next(0);
    offer.decide({ kind: "refused", status: 429, retryAfterS: 7, message: "too many wait" });
    await client.see("\r\n\r\n{");
    const [head = "", body = ""] = client.received.split("\r\n\r\n");
    assert.match(head, /^HTTP\/1\.1 429 Too Many Requests\r\n/);
    assert.ok(head.includes("Retry-After: 7\r\n") && head.includes("Content-Type: application/json"));
    assert.deepEqual(JSON.parse(body), expected);
    // The connection goes on.
    await client.send(requestText("GET /next"));
    await (await scene.upstream.wire(0)).see("GET /next");
  });
}

for (
  const body of [
    '{"prompt":{},"client_id":{"a":1}}',
    '{"client_id" : [ 1 ], "prompt":{}}',
    '{"prompt":{},"extra_data":{"x":"\\"{","client_id":{}}}',
  ]
) {
  Deno.test(`a client_id that would end ComfyUI is refused in its words: ${body}`, async () => {
    await using scene = await openScene({ tenant: "comfyui" });
    const client = await holdOne(scene, requestText("POST /api/prompt", { body }));
    await client.see("node_errors");
    assert.match(client.received, /^HTTP\/1\.1 400 Bad Request/);
    assert.match(client.received, /client_id is (an object|a list): it has to be a string/);
    assert.deepEqual([scene.admission.offers.length, scene.upstream.wires.length], [0, 0]);
  });
}

for (
  const [what, line, headers, body] of [
    ["an unload", "POST /api/generate", [], '{"model":"tiny","keep_alive":0}'],
    ["an unload by chat", "POST /api/chat", [], '{"model":"tiny","messages":[],"keep_alive":"0s"}'],
    ["a model of the cloud", "POST /api/chat", [], '{"model":"big:120b-cloud"}'],
    ["another method", "OPTIONS /api/chat", [], undefined],
    ["another route", "POST /api/show", [], '{"model":"tiny"}'],
    ["a trailing slash", "POST /api/chat/", [], '{"model":"tiny"}'],
    ["what is no JSON", "POST /api/chat", [], "model=tiny"],
    ["a page of another site", "POST /api/chat", ["Origin: https://evil.example"], '{"model":"tiny"}'],
  ] as const
) {
  Deno.test(`what takes no memory isn't offered: ${what}`, async () => {
    await using scene = await openScene();
    const text = requestText(line, { headers, ...(body === undefined ? {} : { body }) });
    await holdOne(scene, text);
    await (await scene.upstream.wire(0)).see(text.slice(-10));
    assert.equal(scene.admission.offers.length, 0);
  });
}

for (const origin of ["http://127.0.0.1:11435", "http://localhost:3000", "app://obsidian.md", "null"]) {
  Deno.test(`what Ollama lets in is offered: Origin ${origin}`, async () => {
    await using scene = await openScene();
    await holdOne(scene, requestText("POST /%61pi/chat", { headers: [`Origin: ${origin}`], body: CHAT }));
    assert.equal((await scene.admission.next(0)).request.path, "/api/chat");
  });
}

Deno.test("who asks before sending a body is told to go on by the gate, which has to read it", async () => {
  await using scene = await openScene();
  const headers = ["Expect: 100-continue", "Transfer-Encoding: chunked"];
  const client = await holdOne(scene, requestText("POST /v1/embeddings", { headers }));
  await client.see("HTTP/1.1 100 Continue\r\n\r\n");
  await client.send('10\r\n{"model":"emb","\r\n9\r\ninput":1}\r\n0\r\n\r\n');
  const offer = await scene.admission.next(0);
  assert.equal(offer.request.model, "emb");
  offer.pass();
  const wire = await scene.upstream.wire(0);
  await wire.see("0\r\n\r\n");
  assert.ok(!wire.received.includes("Expect"));
  assert.ok(wire.received.endsWith('\r\n\r\n10\r\n{"model":"emb","\r\n9\r\ninput":1}\r\n0\r\n\r\n'));
});
