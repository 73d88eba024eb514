/** Signs of life for held clients that read server-sent events, and for nobody else. */
import assert from "node:assert/strict";
import { answerText, openScene, requestText, type Scene } from "./gate_scene.ts";

const BODY = '{"model":"m","stream":true}';

async function holdFor(scene: Scene, path: string, ms: number) {
  const client = await scene.client();
  await client.send(requestText(`POST ${path}`, { body: BODY }));
  const offer = await scene.admission.next(0);
  offer.say("ComfyUI is at work");
  await scene.clock.settle();
  await scene.clock.advance(ms);
  await scene.clock.settle();
  return { client, offer };
}

/** What a reader of the events gets: chunk frames and comments taken off. */
function eventsOf(text: string): string {
  const body = text.slice(text.indexOf("\r\n\r\n") + 4);
  return body.replaceAll(/(?:^|\r\n)[0-9a-f]+\r\n/g, "").replaceAll(/^: .*\n\n/gm, "").trim();
}

Deno.test("after a while comments come, and then the upstream's own stream", async () => {
  await using scene = await openScene();
  const { client, offer } = await holdFor(scene, "/v1/chat/completions", 36_000);
  assert.equal(client.received.match(/: held: ComfyUI is at work; 0 before it\n\n/g)?.length, 3);
  assert.match(client.received, /^HTTP\/1\.1 200 OK\r\nContent-Type: text\/event-stream\r\n/);
  offer.pass({ heldMs: 36_000, reason: "released" });
  const wire = await scene.upstream.wire(0);
  await wire.see(BODY);
  const stream = "b\r\ndata: one\n\n\r\n";
  await wire.send(`HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n${stream}`);
  await client.see("data: one");
  await wire.send("0\r\n\r\n");
  await client.see("\r\n0\r\n\r\n");
  assert.equal(client.received.match(/HTTP\/1\.1/g)?.length, 1);
  assert.equal(eventsOf(client.received), "data: one");
  await scene.clock.settle();
  assert.deepEqual(offer.outcomes, [{ kind: "answered", status: 200 }]);
});

Deno.test("what the upstream refuses after that is an event of the stream", async () => {
  await using scene = await openScene();
  const { client, offer } = await holdFor(scene, "/v1/messages", 15_000);
  offer.pass({ heldMs: 15_000, reason: "released" });
  const wire = await scene.upstream.wire(0);
  await wire.see(BODY);
  await wire.send(answerText('{"type":"error",\n "error":{"message":"no"}}', { status: "404 Not Found" }));
  await client.see("0\r\n\r\n");
  assert.equal(eventsOf(client.received), 'event: error\ndata: {"type":"error", "error":{"message":"no"}}');
});

Deno.test("an answer that is no stream of events isn't put into one, whatever its frame", async () => {
  for (const [head, error] of [["500 Internal Server Error", '{"error":"late"}'], ["200 OK", '{"id":"whole"}']]) {
    await using scene = await openScene();
    const { client, offer } = await holdFor(scene, "/v1/completions", 15_000);
    offer.pass({ heldMs: 15_000, reason: "released" });
    const wire = await scene.upstream.wire(0);
    await wire.see(BODY);
    const fields = "Content-Type: application/json\r\nTransfer-Encoding: chunked";
    await wire.send(`HTTP/1.1 ${head}\r\n${fields}\r\n\r\n${error?.length.toString(16)}\r\n${error}\r\n0\r\n\r\n`);
    await client.see("0\r\n\r\n");
    assert.equal(eventsOf(client.received), `data: ${error}`);
  }
});

Deno.test("a deadline that passes after that is one, too", async () => {
  await using scene = await openScene();
  const { client, offer } = await holdFor(scene, "/v1/responses", 15_000);
  offer.decide({ kind: "refused", status: 503, retryAfterS: null, message: "held for too long" });
  await client.see("0\r\n\r\n");
  assert.match(eventsOf(client.received), /^data: \{"error":\{"message":"held for too long"/);
  await client.ended();
});

Deno.test("nothing is said early where it could be taken for the answer", async () => {
  for (const path of ["/api/chat", "/api/generate"]) {
    await using scene = await openScene();
    const { client } = await holdFor(scene, path, 600_000);
    assert.equal(client.received, "");
  }
});
