/** What goes wrong at the gate: each request ends exactly once, memory stays bounded, nothing hangs. */
import assert from "node:assert/strict";
import { Wire } from "./gate_scene.ts";
import { answerText, openScene, requestText } from "./gate_scene.ts";

const BODY = JSON.stringify({ model: "tiny", prompt: "hi" });
const MIB = 2 ** 20;

Deno.test("a head that drips in is given up on; a body that passes through may take its time", async () => {
  await using scene = await openScene();
  const drip = await scene.client();
  await drip.send("POST /api/chat HTTP/1.1\r\nHo");
  await scene.clock.advance(29_000);
  assert.equal(drip.end, "open");
  await drip.send("st: h\r\n");
  await scene.clock.advance(1_000);
  await drip.ended();

  const slow = await scene.client();
  await slow.send(requestText("POST /api/blobs/x", { headers: ["Content-Length: 2"] }) + "a");
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\na");
  await scene.clock.advance(3_600_000);
  await slow.send("b");
  await wire.see("\r\n\r\nab");
  await scene.clock.advance(3_600_000);
  await wire.send(answerText("done"));
  await slow.see("done");

  const idle = await scene.client();
  await scene.clock.advance(3_600_000);
  await idle.send(requestText("GET /late"));
  await (await scene.upstream.wire(1)).see("GET /late");
});

Deno.test("a held body that stops coming is told so", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("POST /api/chat", { headers: ["Content-Length: 100"] }) + '{"mod');
  await scene.clock.settle();
  await scene.clock.advance(60_000);
  await client.see("408 Request Timeout");
  await client.ended();
  assert.deepEqual([scene.admission.offers.length, scene.upstream.wires.length], [0, 0]);
});

Deno.test("an upload waits for a server that doesn't read, and the gate holds next to nothing of it", async () => {
  await using scene = await openScene({ answer: () => {} });
  let frozen: Deno.Conn | null = null;
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept().then((conn) => frozen = conn);
  const { openGate } = await import("../../lib/gate/gate.ts");
  const gate = await openGate({
    ollama: { listen: "127.0.0.1:0", url: `http://127.0.0.1:${listener.addr.port}` },
    comfyui: null,
    admission: scene.admission,
    clock: scene.clock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
  });
  const client = new Wire(
    await Deno.connect({ hostname: "127.0.0.1", port: Number(new URL(gate.urls.ollama ?? "").port) }),
  );
  const total = 64 * MIB;
  await client.send(requestText("POST /api/blobs/x", { headers: [`Content-Length: ${total}`] }));
  let sent = 0;
  const piece = new Uint8Array(MIB);
  const sending = (async () => {
    for (; sent < total; sent += piece.length) await client.send(piece);
  })();
  await accepted;
  await scene.clock.settle();
  await scene.clock.settle();
  const ahead = sent;
  // Two pairs of kernel buffers lie between, a few MiB each at most.
  assert.ok(ahead < 32 * MIB, `${ahead} bytes were taken though nobody read`);
  const upstream = new Wire(await accepted, { keeps: false });
  await upstream.until(({ bytes }) => bytes > total);
  await sending;
  await upstream.send(answerText("read"));
  await client.see("read");
  assert.notEqual(frozen, null);
  client.close();
  await gate.close(AbortSignal.abort());
  upstream.close();
  listener.close();
});

Deno.test("a held body too long to be kept: its model is found, it is held, it passes whole, it isn't tried twice", async () => {
  await using scene = await openScene();
  scene.admission.retry = { kind: "retry", heldMs: 1, reason: "released" };
  const client = await scene.client();
  const start = '{"model":"vision","images":["';
  const total = 33 * MIB;
  await client.send(requestText("POST /api/chat", { headers: [`Content-Length: ${total}`] }) + start);
  const sending = (async () => {
    const piece = new Uint8Array(MIB).fill(0x41);
    for (let sent = start.length; sent < total;) {
      const part = piece.subarray(0, total - sent);
      await client.send(part);
      sent += part.length;
    }
  })();
  const offer = await scene.admission.next(0);
  assert.equal(offer.request.model, "vision");
  await scene.clock.settle();
  assert.equal(scene.upstream.wires.length, 0);
  offer.pass({ heldMs: 1, reason: "released" });
  const wire = await scene.upstream.wire(0);
  await sending;
  await wire.until(({ bytes }) => bytes >= total);
  assert.ok(wire.received.includes(`\r\n\r\n${start}AAAA`) && wire.received.endsWith("AAAA"));
  const refusal = answerText('{"error":"out of memory"}', { status: "500 Internal Server Error" });
  await wire.send(refusal);
  await client.see("out of memory");
  await scene.clock.settle();
  assert.deepEqual([offer.taken, scene.upstream.wires.length], [1, 1]);
});

Deno.test("a thousand held requests: each ends once, with its own answer", async () => {
  const count = 1_000;
  await using scene = await openScene({
    answer: (wire) => {
      void wire.see("}").then((text) => wire.send(answerText(/"n(\d+)"/.exec(text)?.[1] ?? "?")));
    },
  });
  const clients = await Promise.all(Array.from({ length: count }, async (_, n) => {
    const client = await scene.client();
    await client.send(requestText("POST /api/generate", { body: `{"model":"n${n}"}` }));
    return client;
  }));
  await scene.admission.next(count - 1);
  assert.equal(scene.gate.open().ollama, count);
  assert.equal(scene.upstream.wires.length, 0);
  // A tenth leaves, a tenth is refused, the rest may go, the last ones first.
  const leaves = (n: number) => n % 10 === 3;
  const isRefused = (n: number) => n % 10 === 7;
  for (const [n, client] of clients.entries()) if (leaves(n)) client.close();
  const byModel = new Map(scene.admission.offers.map((offer) => [offer.request.model, offer]));
  for (let n = count - 1; n >= 0; n -= 1) {
    const offer = byModel.get(`n${n}`);
    if (offer === undefined) throw new Error(`n${n} wasn't offered`);
    if (isRefused(n)) offer.decide({ kind: "refused", status: 503, retryAfterS: null, message: `no ${n}` });
    else if (leaves(n)) {
      await new Promise<void>((resolve) =>
        offer.signal.aborted ? resolve() : offer.signal.addEventListener("abort", () => resolve())
      );
    } else offer.pass();
  }
  for (const [n, client] of clients.entries()) {
    if (leaves(n)) continue;
    await client.see(isRefused(n) ? `no ${n}` : `\r\n\r\n${n}`);
  }
  await scene.clock.settle();
  assert.equal(scene.gate.open().ollama, 0);
  assert.equal(scene.upstream.wires.length, 800);
  for (const [model, { taken, outcomes }] of byModel) {
    const n = Number(model?.slice(1));
    const expected = leaves(n) || isRefused(n) ? 0 : 1;
    assert.deepEqual([taken, outcomes.length], [expected, expected], `n${n}`);
  }
});

Deno.test("a client that reads nothing holds up its own answer only", async () => {
  await using scene = await openScene();
  const deaf = await Deno.connect({ hostname: "127.0.0.1", port: scene.port });
  await deaf.write(new TextEncoder().encode(requestText("GET /view")));
  const wire = await scene.upstream.wire(0);
  await wire.see("GET /view");
  const body = new Uint8Array(16 * MIB);
  let isSent = false;
  const sending = wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`).then(() => wire.send(body))
    .then(
      () => isSent = true,
      () => {},
    );
  await scene.clock.settle();
  const other = await scene.client();
  await other.send(requestText("GET /queue"));
  const second = await scene.upstream.wire(1);
  await second.see("GET /queue");
  await second.send(answerText("queue"));
  await other.see("queue");
  assert.equal(isSent, false);
  deaf.close();
  await sending;
});

Deno.test("an ordered end lets what runs finish, takes nothing new in and leaves no socket", async () => {
  await using scene = await openScene();
  const running = await scene.client();
  await running.send(requestText("POST /api/generate", { body: BODY }));
  (await scene.admission.next(0)).pass();
  const wire = await scene.upstream.wire(0);
  await wire.see(BODY);
  await wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  await running.see("abc");
  const idle = await scene.client();
  const held = await scene.client();
  await held.send(requestText("POST /api/generate", { body: BODY }));
  const offer = await scene.admission.next(1);

  const patience = new AbortController();
  let isClosed = false;
  const closing = scene.gate.close(patience.signal).then(() => isClosed = true);
  await idle.ended();
  await assert.rejects(Deno.connect({ hostname: "127.0.0.1", port: scene.port }));
  offer.pass({ reason: "stopping", isOpen: true });
  const other = await scene.upstream.wire(1);
  await other.see(BODY);
  await other.send(answerText("late"));
  assert.match(await held.ended(), /X-HyperSwap-Reason: stopping\r\n.*\r\n\r\nlate$/s);
  held.close();
  assert.equal(isClosed, false);
  await wire.send("3\r\ndef\r\n0\r\n\r\n");
  assert.ok((await running.ended()).endsWith("3\r\ndef\r\n0\r\n\r\n"));
  running.close();
  await closing;
});

Deno.test("an ordered end out of patience cuts what still runs, and what is still held lapses", async () => {
  await using scene = await openScene();
  const running = await scene.client();
  await running.send(requestText("GET /view"));
  await (await scene.upstream.wire(0)).see("GET");
  const held = await scene.client();
  await held.send(requestText("POST /api/generate", { body: BODY }));
  const offer = await scene.admission.next(0);
  const patience = new AbortController();
  const closing = scene.gate.close(patience.signal);
  patience.abort();
  await closing;
  assert.ok(offer.signal.aborted);
  assert.equal(await running.ended() + await held.ended(), "");
});
