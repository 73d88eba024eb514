import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Exchange } from "../../lib/lab/exchange.ts";
import { WireServer } from "../../lib/lab/wire_server.ts";
import { WireSocket } from "../../lib/lab/wire_socket.ts";

function serve(handle: (exchange: Exchange, clock: LabClock) => Promise<void>, keepsHungUp = false) {
  const clock = new LabClock();
  const errors: unknown[] = [];
  const server = new WireServer({
    handle: (exchange) => handle(exchange, clock),
    onStir: () => clock.stir(),
    onError: (error) => errors.push(error),
    keepsHungUp,
    maxBodyBytes: 1_000_000,
  });
  return { clock, server, errors, [Symbol.asyncDispose]: () => server.close() };
}

/** Sends raw bytes and gives everything that comes until the server closes. */
async function raw(port: number, text: string): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(new TextEncoder().encode(text));
  let all = "";
  const buffer = new Uint8Array(65_536);
  for (let count; (count = await conn.read(buffer)) !== null;) {
    all += new TextDecoder().decode(buffer.subarray(0, count));
  }
  return all;
}

Deno.test("requests and replies survive every framing, on one connection", async () => {
  await using scene = serve(async (exchange) => {
    const { method, path, query } = exchange.head;
    await exchange.send({ status: 200, body: `${method} ${path} ${query.get("q")} ${exchange.text()}` });
  });
  const { port } = scene.server;
  const first = "POST /a?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
  const second =
    "PUT /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n";
  const third = "HEAD /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const answer = await raw(port, `${first}${second}${third}`);
  assert.match(answer, /200 OK\r\nContent-Length: 13\r\n\r\nPOST \/a 1 abcHTTP/);
  assert.match(answer, /PUT \/b null abcdefgHTTP/);
  assert.ok(answer.endsWith("Content-Length: 13\r\n\r\n"), "HEAD has the length and no body");
  assert.match(await raw(port, "GET / HTTP/1.1\r\n\r\n"), /^HTTP\/1\.1 400/, "no Host");
  assert.match(await raw(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"), /^HTTP\/1\.1 413/);
  const big = "x".repeat(300_000);
  const response = await fetch(scene.server.url, { method: "POST", body: big, headers: { expect: "100-continue" } });
  assert.equal((await response.text()).length, "POST / null ".length + big.length);
});

Deno.test("a stream goes out frame by frame, and can be cut in the middle", async () => {
  await using scene = serve(async (exchange, clock) => {
    await exchange.begin(200, [["Content-Type", "application/x-ndjson"]]);
    for (let frame = 0; frame < 3; frame += 1) {
      if (frame === 2 && exchange.head.path === "/cut") return exchange.cut();
      await exchange.chunk(`{"frame":${frame}}\n`);
      await clock.sleep(10);
    }
    await exchange.end();
  });
  const { clock, server } = scene;
  const whole = await clock.until(fetch(`${server.url}/`), { limitMs: 50 });
  assert.equal(await clock.until(whole.text(), { limitMs: 50 }), '{"frame":0}\n{"frame":1}\n{"frame":2}\n');
  const half = await clock.until(fetch(`${server.url}/cut`), { limitMs: 50 });
  await assert.rejects(clock.until(half.text(), { limitMs: 50 }));
  assert.deepEqual(scene.errors, []);
});

Deno.test("pieces written one right after the other arrive at the same lab instant", async () => {
  await using scene = serve(async (exchange) => {
    await exchange.begin(200, []);
    for (const piece of ["a", "b", "c"]) await exchange.chunk(piece);
    await exchange.end();
  });
  const startMs = scene.clock.monotonicMs();
  const response = await scene.clock.until(fetch(scene.server.url), { limitMs: 5 });
  assert.equal(await scene.clock.until(response.text(), { limitMs: 5 }), "abc");
  assert.equal(scene.clock.monotonicMs(), startMs);
});

Deno.test("a client that hangs up or half-closes is noticed", async () => {
  const seen: string[] = [];
  await using scene = serve(async (exchange, clock) => {
    await clock.sleep(1_000, exchange.hungUp).catch(() => seen.push(`hung up on ${exchange.head.path}`));
  }, true);
  const { clock, server } = scene;
  const cancel = new AbortController();
  const asked = fetch(`${server.url}/fetch`, { signal: cancel.signal });
  asked.catch(() => {});
  await clock.advance(5);
  cancel.abort();
  await clock.advance(1);
  assert.deepEqual(seen, ["hung up on /fetch"]);
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
  await conn.write(new TextEncoder().encode("GET /half HTTP/1.1\r\nHost: x\r\n\r\n"));
  await conn.closeWrite();
  await clock.advance(1);
  assert.deepEqual(seen, ["hung up on /fetch", "hung up on /half"]);
  let isOver = false;
  const silence = conn.read(new Uint8Array(9)).then((count) => isOver = count === null);
  await clock.advance(5_000);
  assert.equal(isOver, false, "neither answered nor closed");
  await server.close();
  await silence.catch(() => {});
});

Deno.test("frozen, nothing is answered; thawed, everything sent is; closed, connections are refused", async () => {
  await using scene = serve((exchange) => exchange.send({ status: 200, body: "up" }));
  const { clock, server } = scene;
  // A connection that is kept alive is already being read from when the process stops.
  assert.equal(await (await fetch(server.url)).text(), "up");
  server.freeze();
  let text = "";
  const asked = fetch(server.url).then((response) => response.text()).then((body) => text = body);
  await clock.advance(100);
  assert.equal(text, "");
  server.thaw();
  await clock.advance(1);
  assert.equal(text, "up");
  await asked;
  await server.close();
  await assert.rejects(fetch(server.url));
});

Deno.test("WebSocket frames of every size pass both ways, and a dropped one closes abnormally", async () => {
  const texts: string[] = [];
  const sockets: WireSocket[] = [];
  await using scene = serve(async (exchange) => {
    const socket = await WireSocket.accept(exchange, {
      onText: (text) => texts.push(text),
      onEnd: () => texts.push("end"),
    });
    if (socket === null) await exchange.send({ status: 400 });
    else sockets.push(socket);
  });
  const { clock, server } = scene;
  const plain = await fetch(server.url);
  assert.equal(plain.status + await plain.text(), "400");
  const client = new WebSocket(server.url.replace("http", "ws"));
  client.binaryType = "arraybuffer";
  const heard: number[] = [];
  let closed: CloseEvent | null = null;
  client.onmessage = ({ data }) => heard.push(typeof data === "string" ? data.length : -data.byteLength);
  client.onclose = (event) => closed = event;
  await clock.advance(1);
  const [socket] = sockets;
  assert.ok(socket !== undefined && client.readyState === WebSocket.OPEN);
  for (const size of [0, 125, 126, 65_535, 65_536]) {
    await socket.send("x".repeat(size));
    client.send("y".repeat(size));
  }
  await socket.send(new Uint8Array(7));
  await clock.advance(1);
  assert.deepEqual(heard, [0, 125, 126, 65_535, 65_536, -7]);
  assert.deepEqual(texts.map((text) => text.length), [0, 125, 126, 65_535, 65_536]);
  socket.drop();
  await clock.advance(1);
  assert.equal((closed as CloseEvent | null)?.wasClean, false);
  assert.equal(texts.at(-1), "end");

  const polite = new WebSocket(server.url.replace("http", "ws"));
  polite.onclose = (event) => closed = event;
  await clock.advance(1);
  polite.close(4_001);
  await clock.advance(1);
  assert.equal((closed as CloseEvent | null)?.code, 4_001, "the close frame is echoed");
});
