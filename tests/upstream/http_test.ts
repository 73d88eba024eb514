import assert from "node:assert/strict";
import type { Clock } from "../../lib/model/ports.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { httpOrigin, type HttpRequest } from "../../lib/upstream/http.ts";
import { parseRecord } from "../../lib/upstream/json_fields.ts";
import { UpstreamError } from "../../lib/upstream/upstream_error.ts";
import { json, never, serveBytes, serveScript, unusedPort } from "./scripted_server.ts";

const LIVE = new AbortController().signal;

function request(changes: Partial<HttpRequest> = {}): HttpRequest {
  return { method: "GET", path: "/x", deadlineMs: 2_000, signal: LIVE, action: "ask", ...changes };
}

async function failure(promise: Promise<unknown>): Promise<UpstreamError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof UpstreamError, `not an UpstreamError: ${error}`);
    return error;
  }
  throw new Error("Cannot fail: the call succeeded");
}

Deno.test("a 2xx resolves with its text, status and duration", async () => {
  await using server = serveScript(() => json({ ok: true }, 201));
  const origin = httpOrigin({ url: `${server.url}/`, clock: new LabClock() });
  const reply = await origin.send(request({ method: "POST", body: { a: 1 } }));
  assert.deepEqual([reply.status, reply.text, reply.tookMs], [201, '{"ok":true}', 0]);
  assert.equal(server.asked[0]?.path, "/x");
  assert.equal(server.asked[0]?.body, '{"a":1}');
  assert.equal(server.asked[0]?.headers.get("content-type"), "application/json");
  assert.equal(server.asked[0]?.headers.get("origin"), null, "both servers refuse foreign origins");
});

Deno.test("a base path is kept, and connections are pooled", async () => {
  let connections = 0;
  const answer = new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await using server = serveBytes(async (connection) => {
    connections += 1;
    const buffer = new Uint8Array(4096);
    for (let turn = 0; turn < 3; turn++) {
      await connection.read(buffer);
      await connection.write(answer);
    }
    connection.close();
  });
  const origin = httpOrigin({ url: `${server.url}/ollama/`, clock: new LabClock() });
  assert.equal(origin.url, `${server.url}/ollama`);
  for (let turn = 0; turn < 3; turn++) assert.equal((await origin.send(request())).text, "ok");
  assert.equal(connections, 1);
});

Deno.test("a refused connection is told as such", async () => {
  const port = unusedPort();
  const error = await failure(httpOrigin({ url: `http://127.0.0.1:${port}`, clock: new LabClock() }).send(request()));
  assert.deepEqual([error.kind, error.status, error.message], ["refused", null, "Cannot ask: connection refused"]);
  assert.equal(error.url, `http://127.0.0.1:${port}/x`);
});

Deno.test("an unknown host name is unreachable", async () => {
  const error = await failure(
    httpOrigin({ url: "http://nowhere.invalid:1234", clock: new LabClock() }).send(request()),
  );
  assert.equal(error.kind, "unreachable");
});

Deno.test("a status of 400 and more carries the error's text and body", async () => {
  await using server = serveScript(() => json({ error: "model 'nope' not found" }, 404));
  const error = await failure(httpOrigin({ url: server.url, clock: new LabClock() }).send(request()));
  assert.deepEqual([error.kind, error.status], ["http", 404]);
  assert.equal(error.message, "Cannot ask: server answered 404: model 'nope' not found");
  assert.equal(error.body, `{"error":"model 'nope' not found"}`);
});

Deno.test("a redirect is an error, not a journey", async () => {
  await using server = serveScript(({ path }) =>
    path === "/x" ? new Response(null, { status: 301, headers: { location: "/y" } }) : json({})
  );
  const error = await failure(httpOrigin({ url: server.url, clock: new LabClock() }).send(request()));
  assert.deepEqual([error.kind, error.status, server.asked.length], ["http", 301, 1]);
});

Deno.test("an overdue answer times out by the clock, and the connection is closed", async () => {
  const clock = new LabClock();
  await using server = serveScript((_asked, signal) => never(signal));
  const failed = failure(httpOrigin({ url: server.url, clock }).send(request()));
  await clock.advance(1_999);
  assert.equal(await Promise.race([failed, Promise.resolve("pending")]), "pending");
  await clock.advance(1);
  const error = await failed;
  assert.deepEqual([error.kind, error.reason], ["timeout", "no complete answer within 2000 ms"]);
  await server.hungUp;
});

Deno.test("silence of ten minutes before the head is no error when the deadline allows it", async () => {
  const clock = new LabClock();
  const { promise, resolve } = Promise.withResolvers<Response>();
  await using server = serveScript(() => promise);
  const reply = httpOrigin({ url: server.url, clock }).send(request({ deadlineMs: 900_000 }));
  await clock.advance(600_000);
  resolve(new Response("late"));
  assert.equal((await reply).text, "late");
});

Deno.test("a caller that gives up closes the connection", async () => {
  const clock = new LabClock();
  const caller = new AbortController();
  await using server = serveScript((_asked, signal) => never(signal));
  const failed = failure(httpOrigin({ url: server.url, clock }).send(request({ signal: caller.signal })));
  await clock.settle();
  caller.abort();
  assert.equal((await failed).kind, "aborted");
  await server.hungUp;
  const late = await failure(httpOrigin({ url: server.url, clock }).send(request({ signal: caller.signal })));
  assert.equal(late.kind, "aborted", "an aborted signal never reaches the server");
  assert.equal(server.asked.length, 1);
});

Deno.test("a deadline leaves no timer behind", async () => {
  const lab = new LabClock();
  let armed = 0;
  const clock: Clock = Object.assign(Object.create(lab), {
    monotonicMs: () => lab.monotonicMs(),
    after(ms: number, run: () => void) {
      armed += 1;
      const timer = lab.after(ms, run);
      return { stop: () => (armed -= 1, timer.stop()) };
    },
  });
  await using server = serveScript(({ path }) => path === "/x" ? json({}) : json({}, 500));
  const origin = httpOrigin({ url: server.url, clock });
  const sent = origin.send(request({ deadlineMs: 300_000 }));
  assert.equal(armed, 1);
  await sent;
  assert.equal(armed, 0);
  await failure(origin.send(request({ path: "/fails" })));
  assert.equal(armed, 0);
});

for (
  const [title, bytes, kind] of [
    ["closed before the head", "", "closed"],
    ["cut inside the body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", "closed"],
    ["cut before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", "closed"],
    ["not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", "protocol"],
  ] as const
) {
  Deno.test(`an answer that is ${title} is an error of kind ${kind}`, async () => {
    await using server = serveBytes(async (connection) => {
      await connection.read(new Uint8Array(4096));
      await connection.write(new TextEncoder().encode(bytes));
      connection.close();
    });
    assert.equal((await failure(httpOrigin({ url: server.url, clock: new LabClock() }).send(request()))).kind, kind);
  });
}

Deno.test("a body beyond the bound is not taken in", async () => {
  await using server = serveScript(() => new Response("x".repeat(5_000)));
  const origin = httpOrigin({ url: server.url, clock: new LabClock() });
  const error = await failure(origin.send(request({ maxBytes: 4_999 })));
  assert.deepEqual([error.kind, error.reason], ["too_large", "body is larger than 4999 bytes"]);
  assert.equal((await origin.send(request({ maxBytes: 5_000 }))).text.length, 5_000);
});

Deno.test("a body that doesn't parse is an error that shows its beginning", async () => {
  await using server = serveScript(() => new Response("<html>a router's login page</html>"));
  const error = await failure(httpOrigin({ url: server.url, clock: new LabClock() }).ask(request(), parseRecord));
  assert.deepEqual([error.kind, error.status], ["protocol", 200]);
  assert.match(error.message, /not JSON: <html>a router's/);
});

Deno.test("a character that is split between two packets is whole", async () => {
  const clock = new LabClock();
  const head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
  await using server = serveBytes(async (connection) => {
    await connection.read(new Uint8Array(4096));
    await connection.write(new Uint8Array([...new TextEncoder().encode(head), 0x22, 0xe2, 0x82]));
    await clock.settle();
    await connection.write(new Uint8Array([0xac, 0x22]));
    connection.close();
  });
  assert.equal((await httpOrigin({ url: server.url, clock }).send(request())).text, '"€"');
});
