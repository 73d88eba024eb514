import assert from "node:assert/strict";
import { Client, SSEClientTransport } from "@modelcontextprotocol/client";
import { HttpInvoker } from "../../lib/show/http_invoker.ts";
import { serveMcpSse } from "../../lib/show/mcp_sse.ts";
import { serve } from "./served.ts";
import type { Served } from "./served.ts";

const TOKENS = [{ name: "tuner", secret: "tuner-tuner-tuner-1", scopes: ["read", "tune"] as const }];

interface Door extends AsyncDisposable {
  readonly url: string;
  readonly served: Served;
}

/** The old door as a client of a service on a port of its own. */
async function open(): Promise<Door> {
  const served = await serve({ access: { tokens: TOKENS } });
  const stop = new AbortController();
  const url = Promise.withResolvers<string>();
  const serving = serveMcpSse({
    port: 0,
    clock: served.box.clock,
    signal: stop.signal,
    onError: (error) => served.box.defects.push(error),
    onListening: url.resolve,
    invoker: (authorization) => {
      const token = authorization?.replace("Bearer ", "") ?? null;
      return Promise.resolve(new HttpInvoker({ where: served.url, base: served.url, client: null, token }));
    },
  });
  return {
    url: await url.promise,
    served,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await serving;
      await served[Symbol.asyncDispose]();
    },
  };
}

async function connect({ url }: Door, headers: Record<string, string> = {}): Promise<Client> {
  const client = new Client({ name: "test", version: "0" });
  await client.connect(new SSEClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

Deno.test("the official client of 2024 lists, calls and reads, with no more rights than it has itself", async () => {
  await using door = await open();
  const client = await connect(door);
  assert.ok((await client.listTools()).tools.length > 30);
  assert.ok(!(await client.callTool({ name: "get_gpu_status", arguments: {} })).isError);
  assert.ok(!(await client.callTool({ name: "purge_comfyui_vram", arguments: {} })).isError);
  const fan = { name: "set_gpu_fan_speed", arguments: { mode: "auto" } };
  assert.match(JSON.stringify((await client.callTool(fan)).content), /forbidden/);
  assert.equal((await client.readResource({ uri: "gpu://metrics/live" })).contents.length, 1);
  const tuner = await connect(door, { authorization: `Bearer ${TOKENS[0]?.secret}` });
  assert.ok(!(await tuner.callTool(fan)).isError);
  assert.match(
    JSON.stringify((await tuner.callTool({ name: "purge_comfyui_vram", arguments: {} })).content),
    /forbidden/,
  );
  await client.close();
  await tuner.close();
});

Deno.test("foreign names and pages, unknown sessions and what is no message are refused", async () => {
  await using door = await open();
  const base = door.url.replace(/\/sse$/, "");
  const post = (path: string, headers: Record<string, string>, body = "{}") =>
    fetch(`${base}${path}`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
  const statusOf = async (response: Promise<Response>) => {
    const { status, body } = await response;
    await body?.cancel();
    return status;
  };
  assert.equal(await statusOf(fetch(`${base}/sse`, { headers: { origin: "http://evil.example" } })), 403);
  assert.equal(await statusOf(fetch(`${base}/sse`, { headers: { "sec-fetch-site": "cross-site" } })), 403);
  assert.equal(await statusOf(fetch(`${base}/else`)), 404);
  assert.equal(await statusOf(post("/messages?sessionId=none", {})), 404);
  const line = await fetch(`${base}/sse`, { headers: { authorization: `Bearer ${TOKENS[0]?.secret}` } });
  const reader = line.body!.pipeThrough(new TextDecoderStream()).getReader();
  const { value = "" } = await reader.read();
  const path = /data: (\S+)/.exec(value)?.[1] ?? "";
  assert.match(path, /^\/messages\?sessionId=[\w-]{36}$/);
  const authorization = `Bearer ${TOKENS[0]?.secret}`;
  assert.equal(await statusOf(post(path, {})), 404, "an id was enough to use somebody's token");
  assert.equal(await statusOf(post(path, { authorization }, "junk")), 400);
  assert.equal(await statusOf(post(path, { authorization, "content-type": "text/plain" })), 400);
  assert.equal(await statusOf(post(path, { authorization }, JSON.stringify({ x: "y".repeat(70_000) }))), 413);
  await reader.cancel();
});

Deno.test("lines are bounded in number", async () => {
  await using door = await open();
  const lines: Response[] = [];
  for (let n = 0; n < 32; n++) lines.push(await fetch(door.url));
  const surplus = await fetch(door.url);
  assert.equal(surplus.status, 429);
  await surplus.body?.cancel();
  for (const line of lines) await line.body?.cancel();
});
