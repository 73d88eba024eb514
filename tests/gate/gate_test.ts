/** What passes through the gate without being held: byte for byte, in both directions. */
import assert from "node:assert/strict";
import { answerText, openScene, requestText, Upstream } from "./gate_scene.ts";

Deno.test("a request and its answer arrive as they were sent, but for what belongs to one hop", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(
    requestText("GET /a//b/?x=%zz&y=", {
      headers: [
        "X-A: 1",
        "ORIGIN: http://127.0.0.1:11435",
        "x-a: 2",
        "Accept-Encoding: gzip, br",
        "Connection: keep-alive, X-Hop, Host",
        "X-Hop: gone",
        "Keep-Alive: timeout=5",
        "TE: trailers",
        "X-HyperSwap-Priority: batch",
        "Cookie: a=b; c",
      ],
    }),
  );
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\n");
  assert.equal(
    wire.received,
    "GET /a//b/?x=%zz&y= HTTP/1.1\r\nHost: 127.0.0.1:11435\r\nX-A: 1\r\nORIGIN: http://127.0.0.1:11435\r\nx-a: 2\r\n" +
      "Accept-Encoding: gzip, br\r\nConnection: keep-alive\r\nCookie: a=b; c\r\n\r\n",
  );
  await wire.send(
    "HTTP/1.1 207 As You Like\r\nServer: Python\r\nSet-Cookie: a\r\nset-cookie: b\r\nKeep-Alive: timeout=75\r\n" +
      "Content-Length: 2\r\n\r\nok",
  );
  await client.see("ok");
  assert.equal(
    client.received,
    "HTTP/1.1 207 As You Like\r\nServer: Python\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 2\r\n\r\nok",
  );
  assert.equal(scene.admission.offers.length, 0);
});

Deno.test("requests on one connection follow each other over one connection", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("GET /1") + requestText("POST /2", { body: "two" }) + requestText("HEAD /3"));
  const wire = await scene.upstream.wire(0);
  await wire.see("/1");
  assert.ok(!wire.received.includes("/2"), "the second waits for the first one's answer");
  await wire.send(answerText("one"));
  await wire.see("two");
  await wire.send("HTTP/1.1 204 No Content\r\n\r\n");
  await wire.see("HEAD /3");
  await wire.send("HTTP/1.1 200 OK\r\nContent-Length: 65\r\nEtag: x\r\n\r\n");
  await client.see("Etag: x\r\n\r\n");
  assert.equal(
    client.received,
    answerText("one") + "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 65\r\nEtag: x\r\n\r\n",
  );
  assert.equal(scene.upstream.wires.length, 1);
});

Deno.test("chunks, their extensions and trailers pass as they come, each as soon as it comes", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("POST /u", { headers: ["Transfer-Encoding: chunked"] }) + "3;a=b\r\nabc\r\n");
  const wire = await scene.upstream.wire(0);
  await wire.see("3;a=b\r\nabc\r\n");
  const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n";
  await wire.send(head + "4\r\nearl\r\n");
  await client.see("earl\r\n");
  await client.send("0\r\nX-End: 1\r\n\r\n");
  await wire.see("0\r\nX-End: 1\r\n\r\n");
  await wire.send("1\r\ny\r\n0\r\nX-T: 1\r\n\r\n");
  await client.see("X-T: 1\r\n\r\n");
  assert.equal(client.received, head + "4\r\nearl\r\n1\r\ny\r\n0\r\nX-T: 1\r\n\r\n");
});

Deno.test("the upstream itself says whether a body may come", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("POST /upload/image", { headers: ["Expect: 100-continue", "Content-Length: 3"] }));
  const wire = await scene.upstream.wire(0);
  await wire.see("Expect: 100-continue");
  await wire.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
  await client.see("100 Continue");
  await client.send("abc");
  await wire.see("abc");
  await wire.send(answerText("done"));
  await client.see("done");
  assert.ok(client.received.startsWith("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"));

  const refused = await scene.client();
  await refused.send(requestText("POST /upload/image", { headers: ["Expect: 100-continue", "Content-Length: 3"] }));
  const other = await scene.upstream.wire(1);
  await other.see("Expect");
  await other.send(answerText("too large", { status: "413 Request Entity Too Large", headers: ["Connection: close"] }));
  await refused.see("too large");
  await refused.ended();
  assert.ok(!refused.received.includes("100 Continue"));
});

Deno.test("HTTP/1.0 gets what it would get without a gate", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send("GET /u HTTP/1.0\r\n\r\n");
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\n");
  assert.equal(wire.received, "GET /u HTTP/1.0\r\n\r\n");
  await wire.send("HTTP/1.0 200 OK\r\n\r\nwithout an end");
  wire.close();
  assert.equal(await client.ended(), "HTTP/1.0 200 OK\r\n\r\nwithout an end");
});

Deno.test("an answer without a length ends with the connection, on both sides", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("GET /u"));
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\n");
  await wire.send("HTTP/1.1 200 OK\r\n\r\nwithout an end");
  await client.see("without an end");
  wire.close();
  assert.equal(await client.ended(), "HTTP/1.1 200 OK\r\n\r\nwithout an end");
});

Deno.test("a broken answer breaks for the client in the same place", async () => {
  await using scene = await openScene();
  for (
    const part of [
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
      "",
    ]
  ) {
    const client = await scene.client();
    const at = scene.upstream.wires.length;
    await client.send(requestText("POST /u", { body: "x" }));
    const wire = await scene.upstream.wire(at);
    await wire.see("\r\n\r\nx");
    await wire.send(part);
    await client.until(({ received }) => received.length === part.length);
    wire.close();
    assert.equal(await client.ended(), part);
  }
});

Deno.test("a WebSocket passes both ways, bytes that come with the handshake included", async () => {
  await using scene = await openScene({ tenant: "comfyui" });
  const client = await scene.client();
  const headers = [
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Extensions: permessage-deflate",
  ];
  await client.send(requestText("GET /ws?clientId=a%20b", { headers }));
  const wire = await scene.upstream.wire(0);
  await wire.see("permessage-deflate\r\n\r\n");
  assert.ok(wire.received.startsWith("GET /ws?clientId=a%20b HTTP/1.1\r\n"));
  for (const header of headers) assert.ok(wire.received.includes(`${header}\r\n`), header);
  await wire.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x01first");
  await client.see("\x01first");
  await client.send("\x02second");
  await wire.see("\x02second");
  assert.deepEqual(scene.gate.open(), { ollama: 0, comfyui: 1 });
  client.close();
  await wire.ended();
});

Deno.test("a WebSocket that the server ends is ended for the client", async () => {
  await using scene = await openScene({ tenant: "comfyui" });
  const client = await scene.client();
  await client.send(requestText("GET /ws", { headers: ["Upgrade: websocket", "Connection: Upgrade"] }));
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\n");
  await wire.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x88");
  wire.close();
  assert.match(await client.ended(), /^HTTP\/1\.1 101 /);
  await scene.clock.settle();
  assert.equal(scene.gate.open().comfyui, 0);
});

Deno.test("an upgrade that is refused, or that is none", async () => {
  await using scene = await openScene({ tenant: "comfyui" });
  const client = await scene.client();
  await client.send(requestText("GET /ws", { headers: ["Upgrade: websocket", "Connection: Upgrade"] }));
  const wire = await scene.upstream.wire(0);
  await wire.see("\r\n\r\n");
  await wire.send(answerText("", { status: "403 Forbidden" }));
  await client.see("403 Forbidden");
  await client.send(requestText("GET /q", { headers: ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings"] }));
  await wire.see("GET /q");
  assert.ok(!/h2c|HTTP2/.test(wire.received));
  await wire.send(answerText("plain"));
  await client.see("plain");
});

Deno.test("a server that isn't there is said in its own words, and one that restarts is found again", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  await client.send(requestText("GET /api/tags"));
  const first = await scene.upstream.wire(0);
  await first.see("\r\n\r\n");
  await first.send(answerText("1"));
  await client.see("\r\n\r\n1");
  await scene.upstream.stop();
  await scene.clock.settle();
  await client.send(requestText("GET /api/tags"));
  await client.see('{"error":"Cannot reach 127.0.0.1');
  assert.ok(client.received.includes("HTTP/1.1 502 Bad Gateway"));
  assert.equal((await client.ended()).match(/HTTP\/1\.1/g)?.length, 2);
  scene.upstream.start();
  const second = await scene.client();
  await second.send(requestText("GET /api/version"));
  const wire = await scene.upstream.wire(1);
  await wire.see("/api/version");
  await wire.send(answerText("2"));
  await second.see("\r\n\r\n2");
});

Deno.test("a connection that the upstream closed meanwhile costs no request", async () => {
  await using scene = await openScene();
  const client = await scene.client();
  for (const at of [0, 1, 2]) {
    await client.send(requestText(`POST /${at}`, { body: "x" }));
    const wire = await scene.upstream.wire(at);
    await wire.see(`POST /${at}`);
    await wire.send(answerText(`answer ${at}`));
    await client.see(`answer ${at}`);
    wire.close();
    await scene.clock.settle();
  }
});

for (const [method, isRepeated] of [["GET", true], ["DELETE", false], ["POST", false]] as const) {
  Deno.test(`a ${method} that a closing connection swallowed is ${isRepeated ? "asked again" : "not repeated"}`, async () => {
    await using scene = await openScene();
    const client = await scene.client();
    await client.send(requestText("GET /before"));
    const first = await scene.upstream.wire(0);
    await first.see("/before");
    await first.send(answerText("before"));
    await client.see("before");
    await client.send(requestText(`${method} /swallowed`));
    await first.see("/swallowed");
    first.close();
    if (isRepeated) {
      const second = await scene.upstream.wire(1);
      await second.see("/swallowed");
      await second.send(answerText("again"));
      await client.see("again");
    } else {
      assert.ok((await client.ended()).endsWith("before"));
      assert.equal(scene.upstream.wires.length, 1);
    }
  });
}

Deno.test("the gate stands on a unix socket too, and leaves no file behind", async () => {
  const dir = await Deno.makeTempDir({ prefix: "gate_" });
  try {
    const path = `${dir}/ollama.sock`;
    await Deno.writeTextFile(path, "left by an unclean end");
    await using upstream = new Upstream(async (wire) => {
      await wire.see("\r\n\r\n");
      await wire.send(answerText("over a unix socket"));
    });
    const { openGate } = await import("../../lib/gate/gate.ts");
    const { HandAdmission, Wire } = await import("./gate_scene.ts");
    const { LabClock } = await import("../../lib/lab/lab_clock.ts");
    const guarded: string[] = [];
    const gate = await openGate({
      ollama: { listen: `unix:${path}`, url: upstream.url },
      comfyui: null,
      admission: new HandAdmission(),
      clock: new LabClock(),
      log: { debug() {}, info() {}, warn() {}, error() {} },
      guardSocket: (socket) => guarded.push(socket),
    });
    assert.deepEqual(gate.urls, { ollama: `unix:${path}`, comfyui: null });
    assert.deepEqual(guarded, [path]);
    const client = new Wire(await Deno.connect({ transport: "unix", path }));
    await client.send(requestText("GET /"));
    await client.see("over a unix socket");
    client.close();
    await gate.close(AbortSignal.abort());
    await assert.rejects(Deno.stat(path), Deno.errors.NotFound);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
