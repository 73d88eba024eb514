import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { McpEvents } from "../../lib/show/mcp_events.ts";
import { sample } from "../operations/fake_values.ts";
import { endlessPurge, LOCAL, openDoor, SOCKET } from "./rest_door.ts";
import type { AskOptions, OpenDoor } from "./rest_door.ts";

const ACCEPT = { accept: "application/json, text/event-stream" };

function message(method: string, params: Record<string, unknown> = {}, id: number | null = 1) {
  return { jsonrpc: "2.0", method, params, ...(id === null ? {} : { id }) };
}

const INITIALIZE = message("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "0" },
});

/** Opens a session as a client does that speaks HTTP by hand. */
async function initialize(open: OpenDoor, options: AskOptions = {}): Promise<string> {
  const response = await open.request("POST /mcp", { ...options, body: INITIALIZE, headers: ACCEPT });
  assert.equal(response.status, 200, await response.clone().text());
  await response.text();
  const id = response.headers.get("mcp-session-id") ?? "";
  assert.match(id, /^[\w-]{20,}$/);
  return id;
}

function inSession(id: string, more: Record<string, string> = {}): AskOptions {
  return { headers: { ...ACCEPT, "mcp-session-id": id, "mcp-protocol-version": "2025-11-25", ...more } };
}

for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
  Deno.test(`a client of ${version} is answered in its own version`, async () => {
    const open = openDoor();
    const body = { ...INITIALIZE, params: { ...INITIALIZE.params, protocolVersion: version } };
    const { text } = await open.ask("POST /mcp", { body, headers: ACCEPT });
    assert.equal(JSON.parse(/data: (\{.*\})/.exec(text)?.[1] ?? "").result.protocolVersion, version);
    await open.door.close();
  });
}

Deno.test("a session ends by DELETE, and is nobody's but its caller's", async () => {
  const open = openDoor({ access: { loopback: ["read"] } });
  const id = await initialize(open);
  const list = { ...inSession(id), body: message("tools/list") };
  assert.equal((await open.ask("POST /mcp", list)).status, 200);
  assert.equal((await open.ask("POST /mcp", { ...list, peer: SOCKET })).status, 404, "somebody else used it");
  assert.equal((await open.ask("DELETE /mcp", { ...inSession(id), peer: SOCKET })).status, 404);
  const unknown = await open.ask("POST /mcp", { ...list, ...inSession("2d8f0d3c-0000-4000-8000-000000000000") });
  assert.equal(unknown.status, 404);
  const odd = await open.ask("POST /mcp", { ...list, ...inSession(id, { "mcp-protocol-version": "1999-01-01" }) });
  assert.equal(odd.status, 400);
  assert.equal((await open.ask("DELETE /mcp", inSession(id))).status, 200);
  assert.equal((await open.ask("POST /mcp", list)).status, 404);
  await open.door.close();
});

Deno.test("who never opens a session is answered all the same", async () => {
  const open = openDoor();
  const { status, text } = await open.ask("POST /mcp", { body: message("tools/list"), headers: ACCEPT });
  assert.equal(status, 200);
  assert.match(text, /get_gpu_status/);
  assert.equal((await open.ask("GET /mcp", { headers: ACCEPT })).status, 405);
  await open.door.close();
});

Deno.test("a lost line is taken up again where it broke", async () => {
  const open = openDoor();
  const { box } = open;
  const id = await initialize(open);
  const uri = "gpu://metrics/live";
  await open.ask("POST /mcp", { ...inSession(id), body: message("resources/subscribe", { uri }) });
  const first = await open.request("GET /mcp", inSession(id));
  const reader = first.body!.pipeThrough(new TextDecoderStream()).getReader();
  await box.clock.settle();
  const tick = (at: number) => box.show({ sample: sample({ seq: at, atMs: sample().atMs + at * 1000 }) });
  tick(1);
  let heard = "";
  while (!heard.includes("resources/updated")) heard += (await reader.read()).value ?? "";
  const lastId = /id: (\S+)\ndata: \{/.exec(heard)?.[1] ?? "";
  await reader.cancel();
  tick(2);
  tick(3);
  await box.clock.settle();
  const second = await open.request("GET /mcp", inSession(id, { "last-event-id": lastId }));
  assert.equal(second.status, 200);
  const again = second.body!.pipeThrough(new TextDecoderStream()).getReader();
  let replayed = "";
  while (replayed.split("resources/updated").length < 3) replayed += (await again.read()).value ?? "";
  assert.equal(replayed.split("resources/updated").length - 1, 2, "what was missed came once each");
  await again.cancel();
  const gone = await open.ask("GET /mcp", inSession(id, { "last-event-id": "never" }));
  assert.equal(gone.status, 400);
  await open.door.close();
});

for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
  Deno.test(`a cancelled call's stream ends without an answer, and can't be taken up again (${version})`, async () => {
    const open = openDoor();
    const id = await initialize(open);
    const speak = { "mcp-protocol-version": version };
    const going = endlessPurge(open);
    const call = message("tools/call", { name: "purge_comfyui_vram", arguments: {} }, 7);
    const response = await open.request("POST /mcp", { ...inSession(id, speak), body: call });
    const signal = await going;
    const cancel = message("notifications/cancelled", { requestId: 7, reason: "no longer wanted" }, null);
    assert.equal((await open.ask("POST /mcp", { ...inSession(id, speak), body: cancel })).status, 202);
    // It ends: as long as the session goes on, nothing else would end it.
    const text = await response.text();
    assert.equal(signal.aborted, true);
    assert.ok(!/^data: ./m.test(text), text);
    const lastId = /^id: (.+)$/m.exec(text)?.[1];
    assert.equal(lastId !== undefined, version === "2025-11-25", "only then a stream begins with an id");
    if (lastId !== undefined) {
      assert.equal((await open.ask("GET /mcp", inSession(id, { "last-event-id": lastId }))).status, 400);
    }
    // A cancel of what is over is taken and does nothing; the session goes on.
    assert.equal((await open.ask("POST /mcp", { ...inSession(id, speak), body: cancel })).status, 202);
    assert.match((await open.ask("POST /mcp", { ...inSession(id, speak), body: message("ping") })).text, /"result"/);
    await open.door.close();
    assert.deepEqual(open.box.defects, []);
  });
}

for (const cancelled of [[7], [7, 9]]) {
  Deno.test(`of calls sent together, all but the cancelled are answered: ${cancelled} of 7, 8 and 9`, async () => {
    const open = openDoor();
    const id = await initialize(open);
    const going = endlessPurge(open);
    const read = (n: number) => message("tools/call", { name: "get_gpu_status", arguments: {} }, n);
    const endless = message("tools/call", { name: "purge_comfyui_vram", arguments: {} }, 7);
    const last = cancelled.includes(9) ? { ...endless, id: 9 } : read(9);
    const response = await open.request("POST /mcp", { ...inSession(id), body: [endless, read(8), last] });
    await going;
    for (const requestId of cancelled) {
      await open.ask("POST /mcp", { ...inSession(id), body: message("notifications/cancelled", { requestId }, null) });
    }
    const answered = [...(await response.text()).matchAll(/^data: (\{.*)$/gm)].map(([, json = ""]) =>
      JSON.parse(json).id
    );
    assert.deepEqual(answered.sort(), [7, 8, 9].filter((n) => !cancelled.includes(n)));
    await open.door.close();
  });
}

Deno.test("sessions that nobody uses end, those with an open stream stay", async () => {
  const open = openDoor();
  const [idle, open_] = [await initialize(open), await initialize(open)];
  const stream = await open.request("GET /mcp", inSession(open_));
  const reader = stream.body!.getReader();
  const reading = reader.read();
  await open.box.clock.advance(31 * 60_000);
  const list = (id: string) => open.ask("POST /mcp", { ...inSession(id), body: message("ping") });
  assert.equal((await list(idle)).status, 404);
  assert.equal((await list(open_)).status, 200);
  await open.door.close();
  assert.equal((await reading).done, true);
});

Deno.test("the session that rested longest makes room for a new one", async () => {
  const open = openDoor();
  const ids: string[] = [];
  for (let n = 0; n < 65; n++) {
    ids.push(await initialize(open));
    await open.box.clock.advance(1);
  }
  const ping = (id = "") => open.ask("POST /mcp", { ...inSession(id), body: message("ping") });
  assert.deepEqual([(await ping(ids[0])).status, (await ping(ids[1])).status, (await ping(ids[64])).status], [
    404,
    200,
    200,
  ]);
  await open.door.close();
});

Deno.test("what is kept of a session's streams is bounded, oldest forgotten first", async () => {
  const events = new McpEvents();
  const small = { jsonrpc: "2.0" as const, method: "notifications/message" };
  for (let n = 0; n < 500; n++) await events.storeEvent("a", small);
  assert.equal(events.size, 200);
  assert.equal(await events.getStreamIdForEventId("1"), undefined);
  assert.equal(await events.getStreamIdForEventId("500"), "a");
  const large = { ...small, params: { data: "x".repeat(900_000) } };
  for (let n = 0; n < 4; n++) await events.storeEvent("b", large);
  assert.ok(events.size <= 2, `${events.size} kept`);
  await assert.rejects(events.replayEventsAfter("1", { send: () => Promise.resolve() }), /no longer kept/);
});

Deno.test("oversized, malformed and mistyped messages are refused", async () => {
  const open = openDoor();
  const post = (body: string, headers: Record<string, string> = {}) =>
    open.ask("POST /mcp", { body, headers: { ...ACCEPT, ...headers } });
  assert.equal((await post(JSON.stringify(message("x", { a: "y".repeat(70_000) })))).status, 413);
  assert.equal((await post("{")).status, 400);
  assert.equal((await post("[]")).status, 400);
  assert.equal((await post(JSON.stringify(message("ping")), { "content-type": "text/plain" })).status, 415);
  assert.deepEqual(open.box.defects, []);
  await open.door.close();
});

Deno.test("prompts bring the readings that answer them, and their arguments complete", async () => {
  const open = openDoor();
  const client = new Client({ name: "test", version: "0" });
  await client.connect(
    new StreamableHTTPClientTransport(new URL("http://127.0.0.1:9090/mcp"), {
      fetch: (input, init) => {
        const request = new Request(input, init);
        request.headers.set("host", "127.0.0.1:9090");
        return open.door.fetch(request, LOCAL);
      },
    }),
  );
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map(({ name }) => name), [
    "why_is_my_model_slow",
    "free_the_gpu",
    "is_my_overclock_worth_it",
  ]);
  for (const { name } of prompts) {
    const { messages } = await client.getPrompt({ name });
    const texts = messages.map(({ content }) => content.type === "text" ? content.text : "");
    assert.ok(texts[0] !== undefined && texts[0].length > 200, name);
    assert.ok(texts.slice(1).every((text) => /: \{/.test(text)) && texts.length === 3, name);
  }
  const asked = await client.getPrompt({ name: "free_the_gpu", arguments: { needed_gb: "4" } });
  assert.match(JSON.stringify(asked.messages[0]), /Free 4 GiB/);
  await assert.rejects(client.getPrompt({ name: "free_the_gpus" }), /did you mean "free_the_gpu"/);
  await assert.rejects(
    client.getPrompt({ name: "free_the_gpu", arguments: { model: "x" } }),
    /Unknown argument "model"/,
  );
  const complete = async (name: string, value: string) => {
    const ref = { type: "ref/prompt" as const, name: "why_is_my_model_slow" };
    return (await client.complete({ ref, argument: { name, value } })).completion.values;
  };
  assert.ok((await complete("model", "QWEN")).includes("qwen3:14b"));
  assert.deepEqual(await complete("model", "no such"), []);
  assert.deepEqual(await complete("else", ""), []);
  await client.close();
  await open.door.close();
});
