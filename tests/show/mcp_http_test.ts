import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { sample } from "../operations/fake_values.ts";
import type { Peer } from "../../lib/show/access.ts";
import { endlessPurge, LOCAL, openDoor, SOCKET, STRANGER } from "./rest_door.ts";
import type { OpenDoor } from "./rest_door.ts";

/** The official client over our door, without a socket. */
async function connect(
  { door }: OpenDoor,
  peer: Peer,
  mode: "legacy" | "auto",
  { line, headers = {} }: { readonly line?: AbortSignal; readonly headers?: Record<string, string> } = {},
): Promise<Client> {
  const client = new Client({ name: "test", version: "0" }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(new URL("http://127.0.0.1:9090/mcp"), {
    fetch: (input, init) => {
      const signals = [init?.signal, line].filter((signal) => signal != null);
      const request = new Request(input, { ...init, signal: AbortSignal.any(signals) });
      request.headers.set("host", "127.0.0.1:9090");
      for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
      return door.fetch(request, peer);
    },
  });
  await client.connect(transport);
  return client;
}

for (const mode of ["legacy", "auto"] as const) {
  Deno.test(`tools, answers and errors over HTTP (${mode})`, async () => {
    const open = openDoor();
    const client = await connect(open, LOCAL, mode);
    const { tools } = await client.listTools();
    assert.ok(tools.length >= 15);
    const gpu = await client.callTool({ name: "get_gpu_status", arguments: {} });
    assert.equal((gpu.structuredContent as { device_name?: string }).device_name, "Test Card 16 GB");
    const refused = await client.callTool({ name: "request_vram_for_ollama", arguments: { needed_gb: 99 } });
    assert.equal(refused.isError, true);
    assert.match(JSON.stringify(refused.content), /wont_fit/);
    const { contents } = await client.readResource({ uri: "gpu://models/catalog" });
    assert.equal(contents.length, 1);
    await client.close();
    await open.door.close();
  });
}

Deno.test("a caller's scopes hold here too, and another's don't leak", async () => {
  const open = openDoor({ access: { loopback: ["read"] } });
  const [reader, owner] = [await connect(open, LOCAL, "legacy"), await connect(open, SOCKET, "legacy")];
  const purge = (client: Client) => client.callTool({ name: "purge_comfyui_vram", arguments: {} });
  assert.match(JSON.stringify((await purge(reader)).content), /forbidden/);
  assert.ok(!(await purge(owner)).isError);
  assert.match(JSON.stringify((await purge(reader)).content), /forbidden/);
  assert.equal(open.box.asked.length, 1);
  await reader.close();
  await owner.close();
  await open.door.close();
});

Deno.test("strangers, foreign pages and foreign names are refused before MCP sees them", async () => {
  const open = openDoor();
  await assert.rejects(connect(open, STRANGER, "legacy"));
  await assert.rejects(connect(open, LOCAL, "legacy", { headers: { origin: "http://evil.example" } }));
  await assert.rejects(connect(open, LOCAL, "legacy", { headers: { host: "evil.example" } }));
});

for (const mode of ["legacy", "auto"] as const) {
  Deno.test(`hanging up doesn't cancel what a tool started; a stopping service does (${mode})`, async () => {
    const open = openDoor();
    const going = endlessPurge(open);
    const line = new AbortController();
    const client = await connect(open, LOCAL, mode, { line: line.signal });
    const calling = client.callTool({ name: "purge_comfyui_vram", arguments: {} });
    const signal = await going;
    line.abort();
    await assert.rejects(Promise.race([calling, client.close().then(() => Promise.reject(new Error("gone")))]));
    await open.box.clock.settle();
    assert.equal(signal.aborted, false);
    await open.door.close();
    assert.equal(signal.aborted, true);
    await calling.catch(() => {});
  });
}

Deno.test("a cancel that is said in a session ends the work", async () => {
  const open = openDoor();
  const going = endlessPurge(open);
  const client = await connect(open, LOCAL, "legacy");
  const abort = new AbortController();
  const calling = client.callTool({ name: "purge_comfyui_vram", arguments: {} }, { signal: abort.signal });
  const signal = await going;
  abort.abort();
  await assert.rejects(calling);
  await open.box.clock.settle();
  assert.equal(signal.aborted, true);
  await client.close();
  await open.door.close();
});

for (const mode of ["legacy", "auto"] as const) {
  Deno.test(`who subscribed is told of changes, and of nothing after (${mode})`, async () => {
    const open = openDoor();
    const { box } = open;
    const client = await connect(open, LOCAL, mode);
    const seen: string[] = [];
    const told = Promise.withResolvers<void>();
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
      seen.push(params.uri);
      told.resolve();
    });
    const uri = "gpu://metrics/live";
    const subscription = mode === "auto" ? await client.listen({ resourceSubscriptions: [uri] }) : null;
    if (mode === "legacy") await client.subscribeResource({ uri });
    await box.clock.settle();
    assert.equal(box.subscribers, 1);
    box.show({ sample: sample({ seq: 1, atMs: sample().atMs + 1000 }) });
    await told.promise;
    assert.deepEqual(new Set(seen), new Set([uri]));
    if (mode === "legacy") await client.unsubscribeResource({ uri });
    await subscription?.close();
    await box.clock.settle();
    assert.equal(box.subscribers, 0, "what nobody listens to was still followed");
    await client.close();
    await open.door.close();
  });
}
