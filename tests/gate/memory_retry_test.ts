/** A refusal for want of memory is tried once more when memory was had back, and never twice. */
import assert from "node:assert/strict";
import { answerText, openScene, requestText, type Scene, type Wire } from "./gate_scene.ts";

const BODY = JSON.stringify({ model: "big", prompt: "hi" });
const OOM = '{"error":"llama-server process has terminated: cudaMalloc failed: out of memory"}';
const REFUSED = answerText(OOM, { status: "500 Internal Server Error" });
const IN_BAND = `HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n${
  OOM.length.toString(16)
}\r\n${OOM}\r\n0\r\n\r\n`;

/** Answers each connection's request with the next of these. */
async function play(replies: readonly string[], scene: Scene, body = BODY): Promise<Wire> {
  const client = await scene.client();
  await client.send(requestText("POST /api/generate", { body }));
  (await scene.admission.next(0)).pass({ reason: "fits" });
  for (const [at, reply] of replies.entries()) {
    const wire = await scene.upstream.wire(at);
    await wire.see(body);
    await wire.send(reply);
  }
  return client;
}

const RETRY = { kind: "retry", heldMs: 1_234, reason: "released" } as const;

Deno.test("a long body is kept whole for the second try", async () => {
  await using scene = await openScene();
  scene.admission.retry = RETRY;
  const body = JSON.stringify({ model: "big", images: ["x".repeat(200_000)] });
  const client = await play([REFUSED, answerText("answer")], scene, body);
  await client.see("answer");
});

for (const [what, refusal] of [["as a status", REFUSED], ["in the stream", IN_BAND]] as const) {
  Deno.test(`refused ${what}: sent once more, and only that answer is seen`, async () => {
    await using scene = await openScene();
    scene.admission.retry = RETRY;
    const client = await play([refusal, answerText("answer")], scene);
    await client.see("answer");
    const marks = "X-HyperSwap-Held-Ms: 1234\r\nX-HyperSwap-Reason: released";
    assert.equal(client.received, `HTTP/1.1 200 OK\r\nContent-Length: 6\r\n${marks}\r\n\r\nanswer`);
    const [offer] = scene.admission.offers;
    await scene.clock.settle();
    assert.equal(offer?.refusals.length, 1);
    assert.match(offer?.refusals[0] ?? "", /out of memory/);
    assert.deepEqual(offer?.outcomes, [{ kind: "answered", status: 200 }]);
    assert.equal(offer?.taken, 1);
  });

  Deno.test(`refused ${what} twice: the second goes to the client as it came`, async () => {
    await using scene = await openScene();
    scene.admission.retry = RETRY;
    const client = await play([refusal, refusal], scene);
    await client.see("out of memory");
    assert.ok(client.received.includes("X-HyperSwap-Held-Ms: 1234"));
    await scene.clock.settle();
    assert.equal(scene.upstream.wires.length, 2);
    assert.equal(scene.admission.offers[0]?.refusals.length, 1);
    assert.equal(scene.admission.offers[0]?.outcomes.length, 1);
  });

  Deno.test(`refused ${what} and nothing to have back: the refusal goes through untouched`, async () => {
    await using scene = await openScene();
    const client = await play([refusal], scene);
    await client.until(({ received }) => received.length >= refusal.length);
    assert.equal(client.received, refusal);
    assert.equal(scene.upstream.wires.length, 1);
  });
}

Deno.test("another error, and an answer that has begun, are never tried again", async () => {
  const begun = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n${
    OOM.length.toString(16)
  }\r\n${OOM}\r\n0\r\n\r\n`;
  for (const reply of [answerText('{"error":"model not found"}', { status: "404 Not Found" }), begun]) {
    await using scene = await openScene();
    scene.admission.retry = RETRY;
    const client = await play([reply], scene);
    await client.until(({ received }) => received.length >= reply.length);
    assert.equal(client.received, reply);
    assert.deepEqual(scene.admission.offers[0]?.refusals, []);
  }
});

Deno.test("a client that leaves while memory is had back is not sent for again", async () => {
  await using scene = await openScene();
  const verdict = Promise.withResolvers<typeof RETRY>();
  const client = await scene.client();
  await client.send(requestText("POST /api/generate", { body: BODY }));
  const offer = await scene.admission.next(0);
  const asked = Promise.withResolvers<void>();
  offer.decide({
    kind: "pass",
    heldMs: 0,
    reason: "fits",
    isOpen: false,
    message: "",
    ticket: {
      take: () => true,
      outOfMemory: () => {
        asked.resolve();
        return verdict.promise;
      },
      ended: (outcome) => offer.outcomes.push(outcome),
    },
  });
  const wire = await scene.upstream.wire(0);
  await wire.see(BODY);
  await wire.send(REFUSED);
  await asked.promise;
  client.close();
  await wire.ended();
  verdict.resolve(RETRY);
  await scene.clock.settle();
  assert.equal(scene.upstream.wires.length, 1);
  assert.deepEqual(offer.outcomes, [{ kind: "client_left" }]);
});
