import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { ComfyFrame } from "../../lib/upstream/comfy_parse.ts";
import { type ComfySocket, openComfySocket } from "../../lib/upstream/comfy_socket.ts";
import { serveBytes, unusedPort } from "./scripted_server.ts";

interface SocketServer extends AsyncDisposable {
  readonly url: string;
  /** Path and query of each upgrade that was asked for. */
  readonly asked: readonly string[];
  /** Sockets that are open, oldest first. */
  readonly open: readonly WebSocket[];
}

function serveSockets(options: { readonly path?: string; readonly port?: number } = {}): SocketServer {
  const asked: string[] = [];
  const open: WebSocket[] = [];
  const { path = "/ws", port = 0 } = options;
  const server = Deno.serve({ port, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    asked.push(pathname + search);
    if (pathname !== path) return new Response(null, { status: 404 });
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onopen = () => open.push(socket);
    socket.onclose = () => open.splice(open.indexOf(socket), 1);
    return response;
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    asked,
    open,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.close();
      await server.shutdown();
    },
  };
}

function listen(url: string, clock: LabClock) {
  const frames: ComfyFrame[] = [];
  const states: string[] = [];
  const socket = openComfySocket({
    url,
    clock,
    onFrame: (frame) => frames.push(frame),
    onState: (state) => states.push(state),
  });
  return { socket, frames, states };
}

/** Ends the client's side and lets the closing handshake finish. */
async function end(socket: ComfySocket, clock: LabClock): Promise<void> {
  socket.stop();
  await clock.settle();
}

const STATUS = (count: number) =>
  JSON.stringify({ type: "status", data: { status: { exec_info: { queue_remaining: count } } } });

Deno.test("frames an observer can use arrive in order; previews, unknown types and noise don't", async () => {
  const clock = new LabClock();
  await using server = serveSockets();
  const { socket, frames, states } = listen(server.url, clock);
  await clock.settle();
  const [peer] = server.open;
  peer?.send(STATUS(1));
  peer?.send(new Uint8Array([0, 0, 0, 1, 0, 0, 0, 1, 255, 216]));
  peer?.send('{"type":"crystools.monitor","data":{}}');
  peer?.send("not json");
  peer?.send('{"type":"progress","data":{"value":1,"max":3,"prompt_id":"p","node":"5"}}');
  peer?.send(STATUS(0));
  await clock.settle();
  assert.deepEqual(frames.map(({ kind }) => kind), ["status", "progress", "status"]);
  assert.deepEqual(states, ["open"]);
  assert.match(server.asked[0] ?? "", /^\/ws\?clientId=[0-9a-f-]{36}$/);
  await end(socket, clock);
  assert.equal(server.open.length, 0, "a stopped socket is closed");
});

Deno.test("a connection that ends is made again, with a clientId of its own, ever more slowly", async () => {
  const clock = new LabClock();
  await using server = serveSockets();
  const { socket, states } = listen(server.url, clock);
  await clock.settle();
  const waits: number[] = [];
  for (let round = 0; round < 7; round++) {
    server.open[0]?.close();
    await clock.settle();
    assert.equal(socket.state, "down");
    waits.push(await clock.runUntil(() => socket.state === "open", { limitMs: 5_000 }));
  }
  const ids = server.asked.map((path) => path.split("=")[1]);
  assert.equal(new Set(ids).size, 8);
  for (const [index, waitMs] of waits.entries()) {
    const longestMs = Math.min(5_000, 250 * 2 ** index);
    assert.ok(waitMs >= longestMs / 2 && waitMs <= longestMs, `wait ${index} took ${waitMs} ms of ${longestMs}`);
  }
  assert.ok(new Set(waits.slice(-3)).size > 1, "the waits are jittered");
  assert.deepEqual(states.slice(0, 4), ["open", "down", "connecting", "open"]);
  await end(socket, clock);
});

Deno.test("a connection that held for a while is made again at once", async () => {
  const clock = new LabClock();
  await using server = serveSockets();
  const { socket } = listen(server.url, clock);
  await clock.settle();
  for (let round = 0; round < 3; round++) {
    await clock.advance(10_000);
    server.open[0]?.close();
    await clock.settle();
    assert.ok(await clock.runUntil(() => socket.state === "open", { limitMs: 5_000 }) <= 250);
  }
  await end(socket, clock);
});

Deno.test("a server that comes later is found, also where only /api/ws is known", async () => {
  const clock = new LabClock();
  const port = unusedPort();
  const { socket } = listen(`http://127.0.0.1:${port}`, clock);
  await clock.advance(20_000);
  assert.notEqual(socket.state, "open");
  await using server = serveSockets({ path: "/api/ws", port });
  await clock.runUntil(() => socket.state === "open", { limitMs: 12_000 });
  const tried = server.asked.length;
  server.open[0]?.close();
  await clock.settle();
  await clock.runUntil(() => socket.state === "open", { limitMs: 12_000 });
  assert.equal(server.asked.length, tried + 1, "the path that worked is kept");
  await end(socket, clock);
});

Deno.test("a stopped process, which accepts and says nothing, is given up after 5 s", async () => {
  const clock = new LabClock();
  await using server = serveBytes(async (connection) => {
    // Reads until the client hangs up, and never answers.
    for await (const _ of connection.readable);
  });
  const { socket, states } = listen(server.url, clock);
  await clock.advance(4_999);
  assert.deepEqual(states, []);
  await clock.advance(1);
  assert.deepEqual(states, ["down"]);
  await end(socket, clock);
});

Deno.test("a dropped connection's late frames are nobody's", async () => {
  const clock = new LabClock();
  await using server = serveSockets();
  const { socket, frames } = listen(server.url, clock);
  await clock.settle();
  const [old] = server.open;
  socket.reconnect();
  old?.send(STATUS(5));
  await clock.settle();
  assert.deepEqual(frames, []);
  server.open.at(-1)?.send(STATUS(2));
  await clock.settle();
  assert.deepEqual(frames, [{ kind: "status", queueRemaining: 2, sid: null }]);
  await end(socket, clock);
});
