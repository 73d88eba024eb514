import assert from "node:assert/strict";
import { systemClock } from "../../lib/system/clock.ts";
import { applyFrame } from "../../lib/operations/frames.ts";
import type { Frame } from "../../lib/operations/frames.ts";
import { operationNamed } from "../../lib/operations/registry.ts";
import { stream } from "../../lib/operations/stream.ts";
import { findService } from "../../lib/show/http_invoker.ts";
import type { Invoker } from "../../lib/show/invoker.ts";
import { fakeBox } from "../operations/fake_box.ts";
import { serve } from "./served.ts";
import type { Served } from "./served.ts";

const CALL = { signal: new AbortController().signal, progress: () => {} };

async function find(
  served: Served,
  address: { socket?: boolean; url?: string; token?: string } = {},
): Promise<Invoker> {
  const { invoker, tried } = await findService({
    socketPaths: address.socket === false ? [] : [served.socketPath],
    url: address.url ?? served.url,
    token: address.token ?? null,
  }, systemClock());
  assert.ok(invoker !== null, tried.join("; "));
  return invoker;
}

Deno.test("the socket is tried first, then the port", async () => {
  await using served = await serve();
  const socket = await find(served);
  assert.equal(socket.where, `unix:${served.socketPath}`);
  const port = await find(served, { socket: false });
  assert.equal(port.where, served.url);
  for (const invoker of [socket, port]) {
    const gpu = await invoker.invoke(operationNamed("gpu"), {}, CALL);
    assert.ok(gpu.ok && gpu.value["device_name"] === "Test Card 16 GB");
    invoker.close();
  }
  const search = await findService(
    { socketPaths: ["/nonexistent/door.sock"], url: served.url, token: null },
    systemClock(),
  );
  assert.equal(search.invoker?.where, served.url);
  assert.equal(search.tried.length, 1);
  search.invoker?.close();
});

Deno.test("nobody there, or somebody else: no service, and what was tried", async () => {
  const other = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("<html>Prometheus</html>"),
  );
  const url = `http://127.0.0.1:${other.addr.port}`;
  const taken = await findService({ socketPaths: ["/nonexistent/door.sock"], url, token: null }, systemClock());
  assert.equal(taken.invoker, null);
  assert.equal(taken.tried.length, 2);
  assert.match(taken.tried[1] ?? "", /Cannot take|Cannot reach/);
  await other.shutdown();
  const { invoker, tried } = await findService({ socketPaths: [], url, token: null }, systemClock());
  assert.deepEqual([invoker, tried.length], [null, 1]);
});

Deno.test("inputs travel as they are meant: path, query, body, lists, nulls", async () => {
  await using served = await serve();
  const invoker = await find(served);
  await invoker.invoke(operationNamed("history"), { limit: 3, kind: "swap", durable: false, before: null }, CALL);
  await invoker.invoke(operationNamed("set-arbitration"), { mode: "observe", keep: ["a", "b c"] }, CALL);
  await invoker.invoke(operationNamed("free-vram"), { model: "ö/1:b", confirm: false }, CALL);
  assert.deepEqual(served.box.asked, [
    'history {"limit":3,"kind":"swap","before":null,"durable":false}',
    'set {"mode":"observe","untilMs":null,"keep":["a","b c"]}',
    'yieldVram {"models":["ö/1:b"],"confirm":false,"operation":"free-vram"}',
  ]);
  const strange = await invoker.invoke(operationNamed("run"), { id: "../stats?x=1" }, CALL);
  assert.ok(!strange.ok && strange.code === "not_found");
  assert.match(strange.message, /\.\.\/stats\?x=1/);
  const missing = await invoker.invoke(operationNamed("run"), {}, CALL);
  assert.ok(!missing.ok && missing.message === "Parameter id is missing");
  invoker.close();
});

Deno.test("refusals come back whole", async () => {
  await using served = await serve({ access: { loopback: ["read"] } });
  const port = await find(served, { socket: false });
  const forbidden = await port.invoke(operationNamed("comfy-free"), {}, CALL);
  assert.ok(!forbidden.ok && forbidden.code === "forbidden");
  assert.deepEqual(forbidden.details, { scope: "operate", granted: ["read"] });
  const socket = await find(served);
  assert.deepEqual(await socket.invoke(operationNamed("request-vram"), { needed_gb: 99 }, CALL), {
    ok: false,
    code: "wont_fit",
    message: "Cannot make room for 20 GiB: the card has 16 GiB",
    hint: "unmanaged holds 0.5 GiB: pid 4003 whisper",
    details: { unmanaged_gb: 0.5 },
  });
  port.close();
  socket.close();
});

Deno.test("a service that wants a token is found, and says what it wants", async () => {
  const secret = "s3cret-s3cret-s3cret";
  await using served = await serve({ access: { loopback: [], tokens: [{ name: "x", secret, scopes: ["read"] }] } });
  const bare = await find(served, { socket: false });
  const refused = await bare.invoke(operationNamed("gpu"), {}, CALL);
  assert.ok(!refused.ok && refused.code === "forbidden");
  const bearer = await find(served, { socket: false, token: secret });
  assert.ok((await bearer.invoke(operationNamed("gpu"), {}, CALL)).ok);
  bare.close();
  bearer.close();
});

Deno.test("long work is followed to its result, with its progress", async () => {
  await using served = await serve();
  const invoker = await find(served);
  const { box } = served;
  const seen: string[] = [];
  const ending = Promise.withResolvers<void>();
  const { switchModel } = box.answers;
  box.answers.switchModel = async (call) => {
    call.progress({ phase: "loading", done: 0.5, etaMs: null });
    await ending.promise;
    return await switchModel(call);
  };
  const outcome = await invoker.invoke(operationNamed("switch-model"), { model: "qwen3:14b" }, {
    ...CALL,
    progress: ({ phase, done }) => {
      seen.push(`${phase} ${done}`);
      ending.resolve();
    },
  });
  assert.ok(outcome.ok && !outcome.accepted);
  assert.equal(outcome.value["target_model"], "qwen3:14b");
  assert.equal(seen[0], "loading 0.5");
  const started = await invoker.invoke(operationNamed("switch-model"), { model: "qwen3:14b", wait: false }, CALL);
  assert.ok(started.ok && started.accepted);
  const refused = await invoker.invoke(operationNamed("switch-model"), { model: "nope" }, CALL);
  assert.ok(!refused.ok && refused.code === "not_found");
  invoker.close();
});

Deno.test("aborting cancels the run in the service", async () => {
  await using served = await serve();
  const invoker = await find(served);
  const abort = new AbortController();
  served.box.answers.switchModel = ({ signal, progress }) => {
    progress({ phase: "loading", done: 0.1, etaMs: null });
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const outcome = await invoker.invoke(operationNamed("switch-model"), { model: "qwen3:14b" }, {
    signal: abort.signal,
    progress: () => abort.abort(),
  });
  assert.ok(!outcome.ok && outcome.code === "cancelled");
  assert.equal(served.box.runs.list()[0]?.state, "cancelled");
  invoker.close();
});

Deno.test("what is no run can't be cancelled from here, and that is said", async () => {
  await using served = await serve();
  const invoker = await find(served);
  const abort = new AbortController();
  const ending = Promise.withResolvers<void>();
  const { purge } = served.box.answers;
  served.box.answers.purge = async (call) => {
    abort.abort();
    await ending.promise;
    assert.equal(call.signal.aborted, false);
    return await purge(call);
  };
  const outcome = await invoker.invoke(operationNamed("comfy-free"), {}, { ...CALL, signal: abort.signal });
  assert.ok(!outcome.ok && outcome.code === "cancelled");
  assert.match(outcome.message, /the service goes on with it/);
  ending.resolve();
  invoker.close();
});

Deno.test("a service that goes away meanwhile: the run's id is told, nothing hangs", async () => {
  const served = await serve();
  const invoker = await find(served, { socket: false });
  served.box.answers.switchModel = ({ progress }) => {
    progress({ phase: "loading", done: 0.1, etaMs: null });
    return new Promise(() => {});
  };
  let leaving: PromiseLike<void> | null = null;
  const outcome = await invoker.invoke(operationNamed("switch-model"), { model: "qwen3:14b" }, {
    signal: CALL.signal,
    progress: () => void (leaving ??= served[Symbol.asyncDispose]()),
  });
  await leaving;
  assert.ok(!outcome.ok && outcome.code === "unavailable");
  assert.match(outcome.hint ?? "", new RegExp(`hyperswap runs get ${served.box.runs.list()[0]?.id}`));
  const gone = await invoker.invoke(operationNamed("gpu"), {}, CALL);
  assert.ok(!gone.ok && gone.code === "unavailable" && /hyperswap serve/.test(gone.hint ?? ""));
  invoker.close();
});

Deno.test("the stream is followed frame by frame until the caller stops", async () => {
  await using served = await serve({ box: fakeBox() });
  const invoker = await find(served);
  const stop = new AbortController();
  let state: object | null = null;
  let frames = 0;
  const refusal = await invoker.follow(stream, {}, {
    signal: stop.signal,
    onItem(item) {
      state = applyFrame(state, item as Frame);
      frames += 1;
      if (frames < 3) served.box.show({});
      else stop.abort();
    },
  });
  assert.equal(refusal, null);
  const stats = await invoker.invoke(operationNamed("stats"), {}, CALL);
  assert.ok(stats.ok);
  assert.deepEqual(state, stats.value);
  invoker.close();
});
