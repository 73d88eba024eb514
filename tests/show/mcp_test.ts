import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { Failure } from "../../lib/model/failure.ts";
import { operations } from "../../lib/operations/registry.ts";
import { ALL_SCOPES } from "../../lib/show/access.ts";
import type { Scopes } from "../../lib/show/access.ts";
import { localInvoker } from "../../lib/show/invoker.ts";
import { serveMcpStdio } from "../../lib/show/mcp_stdio.ts";
import { fakeBox } from "../operations/fake_box.ts";
import { HISTORY, sample } from "../operations/fake_values.ts";
import type { FakeBox } from "../operations/fake_box.ts";

interface Session extends AsyncDisposable {
  readonly box: FakeBox;
  readonly client: Client;
}

/** The official client against our server, over the transport seam that stdio uses. */
async function connect(
  options: { box?: FakeBox; scopes?: Scopes; isReadOnly?: boolean; mode?: "legacy" | "auto" } = {},
): Promise<Session> {
  const { box = fakeBox(), scopes = ALL_SCOPES, isReadOnly = false, mode = "legacy" } = options;
  const [near, far] = InMemoryTransport.createLinkedPair();
  const stop = new AbortController();
  const invoker = localInvoker({ services: () => box.services, scopes, report: box.report, isReadOnly });
  const served = serveMcpStdio({
    invoker,
    clock: box.clock,
    signal: stop.signal,
    onError: (error) => box.defects.push(error),
    transport: far,
  });
  const client = new Client({ name: "test", version: "0" }, { versionNegotiation: { mode } });
  // The pair is made by the server package, whose types are the client's by shape, not by name.
  await client.connect(near as never);
  return {
    box,
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      stop.abort();
      await served;
    },
  };
}

// deno-lint-ignore no-explicit-any -- a test reads whatever the server wrote
function textOf(result: any): any {
  return JSON.parse(result.content[0].text);
}

Deno.test("every operation with a tool is one, described and annotated", async () => {
  await using session = await connect();
  const { tools } = await session.client.listTools();
  const offered = operations.flatMap(({ tool }) => tool === false ? [] : [tool.name]);
  assert.deepEqual(tools.map(({ name }) => name), offered);
  for (const { name, inputSchema, outputSchema, annotations } of tools) {
    assert.equal(inputSchema.type, "object", name);
    assert.equal(outputSchema?.["type"], "object", name);
    assert.equal(annotations?.readOnlyHint, /^(get|list|explain|plan)_/.test(name), name);
  }
  const yielding = tools.find(({ name }) => name === "soft_yield_ollama_vram");
  assert.deepEqual(yielding?.annotations, {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: true,
    openWorldHint: false,
  });
  assert.deepEqual(Object.keys(yielding?.inputSchema.properties ?? {}), ["model_name", "confirm", "model"]);
});

Deno.test("every tool's answer is structured, and the client finds that it fits the schema", async () => {
  await using session = await connect();
  const { box, client } = session;
  await client.listTools();
  const run = box.runs.start("switch-model", () => Promise.resolve({}));
  const inputs: Readonly<Record<string, Record<string, unknown>>> = {
    switch_ollama_model: { model_name: "qwen3:14b" },
    plan_workload: { workflow: "a graph" },
    request_vram_for_ollama: { needed_gb: 2 },
    set_arbitration_mode: { mode: "auto" },
    get_run: { id: run.id },
    cancel_run: { id: run.id },
    run_overclock_sweep: { knob: "power_limit_w" },
    end_stuck_runner: { pid: 4001, starttime: 991 },
    prewarm_single_model: { model_name: "qwen3:14b" },
    set_pinned_models: { pinned: true, model_name: "qwen3:14b" },
    get_timeseries: { metric: ["power_w"] },
    set_gpu_fan_speed: { mode: "auto" },
    apply_overclock_profile: { profile: "comfy" },
    save_overclock_profile: { name: "quiet", power_limit_w: 250 },
    delete_overclock_profile: { name: "quiet" },
    set_gpu_lever: { lever: "power_limit_w", value: 300 },
    set_thermal_governor: { reset: true },
  };
  for (const { tool } of operations) {
    if (tool === false) continue;
    const result = await client.callTool({ name: tool.name, arguments: inputs[tool.name] ?? {} });
    assert.ok(!result.isError, `${tool.name}: ${JSON.stringify(result.content)}`);
    assert.deepEqual(textOf(result), result.structuredContent, tool.name);
  }
  const started = await client.callTool({
    name: "switch_ollama_model",
    arguments: { model: "qwen3:14b", wait: false },
  });
  assert.equal((started.structuredContent as { operation?: string }).operation, "switch-model");
});

Deno.test("a refusal is an error with code and hint; an unknown tool is the protocol's", async () => {
  await using session = await connect();
  const refused = await session.client.callTool({ name: "request_vram_for_ollama", arguments: { needed_gb: -1 } });
  assert.equal(refused.isError, true);
  assert.equal(refused.structuredContent, undefined);
  assert.equal(textOf(refused).error.code, "invalid_input");
  assert.match(textOf(refused).error.hint, /needed_gb/);
  const unknown = await session.client.callTool({ name: "switch_ollama_model", arguments: { model: "nope" } });
  assert.equal(textOf(unknown).error.code, "not_found");
  await assert.rejects(
    session.client.callTool({ name: "get_gpu_stats", arguments: {} }),
    /did you mean "get_gpu_status"/,
  );
});

Deno.test("progress is reported and only goes up; cancelling ends the work", async () => {
  await using session = await connect();
  const { box, client } = session;
  const abort = new AbortController();
  const ended = Promise.withResolvers<void>();
  box.answers.switchModel = async ({ signal, progress }) => {
    await Promise.resolve();
    progress({ phase: "unloading", done: null, etaMs: null });
    progress({ phase: "loading", done: 0.5, etaMs: 2000 });
    progress({ phase: "loading", done: 0.4, etaMs: 2000 });
    progress({ phase: "loading", done: 0.5 + 1 / 7, etaMs: 2000 });
    return await new Promise((_, reject) =>
      signal.addEventListener("abort", () => {
        ended.resolve();
        reject(signal.reason);
      })
    );
  };
  const seen: [number, number | undefined, string | undefined][] = [];
  const calling = client.callTool({ name: "switch_ollama_model", arguments: { model: "qwen3:14b" } }, {
    signal: abort.signal,
    onprogress: ({ progress, total, message }) => {
      seen.push([progress, total, message]);
      if (seen.length === 4) abort.abort();
    },
  });
  await assert.rejects(calling);
  await ended.promise;
  assert.deepEqual(seen.map(([progress]) => progress), [0.01, 50, 50.01, 64.29]);
  assert.deepEqual(seen.map(([, total, message]) => [total, message]), [
    [undefined, "unloading"],
    [100, "loading"],
    [100, "loading"],
    [100, "loading"],
  ]);
  assert.equal(box.runs.list()[0]?.state, "cancelled");
});

Deno.test("resources answer what their operations answer", async () => {
  await using session = await connect();
  const { resources } = await session.client.listResources();
  assert.deepEqual(resources.map(({ uri }) => uri), [
    "gpu://metrics/live",
    "gpu://models/catalog",
    "gpu://cache/residency",
    "gpu://history/switches",
    "gpu://analytics/profiles",
    "gpu://overclock/profiles",
  ]);
  for (const { uri } of resources) {
    const { contents } = await session.client.readResource({ uri });
    const [content] = contents;
    assert.ok(content !== undefined && "text" in content);
    assert.equal(content.mimeType, "application/json");
    assert.ok(Object.keys(JSON.parse(content.text)).length > 0, uri);
  }
  await assert.rejects(
    session.client.readResource({ uri: "gpu://metrics/life" }),
    /did you mean "gpu:\/\/metrics\/live"/,
  );
});

Deno.test("a missing scope is refused with the setting; without an owner only reads work", async () => {
  {
    await using session = await connect({ scopes: new Set(["read"] as const) });
    const { tools } = await session.client.listTools();
    assert.ok(tools.some(({ name }) => name === "purge_comfyui_vram"), "a tool that may not be called is still listed");
    const refused = await session.client.callTool({ name: "purge_comfyui_vram", arguments: {} });
    assert.equal(textOf(refused).error.code, "forbidden");
    assert.match(textOf(refused).error.hint, /access\.loopback/);
    assert.deepEqual(session.box.asked, []);
  }
  await using session = await connect({ isReadOnly: true });
  const refused = await session.client.callTool({ name: "soft_yield_ollama_vram", arguments: {} });
  assert.equal(textOf(refused).error.code, "unavailable");
  assert.match(textOf(refused).error.hint, /hyperswap serve/);
  assert.ok(!(await session.client.callTool({ name: "get_gpu_status", arguments: {} })).isError);
});

Deno.test("a simulated box says so in its instructions and with every answer", async () => {
  await using session = await connect({ box: fakeBox({ simulation: "a 16 GB desktop" }) });
  assert.match(session.client.getInstructions() ?? "", /^SIMULATED/);
  const { content } = await session.client.callTool({ name: "get_gpu_status", arguments: {} });
  assert.match(JSON.stringify(content[1]), /SIMULATED.*a 16 GB desktop/);
});

Deno.test("a failing resource is the protocol's error, with our code inside", async () => {
  await using session = await connect({ box: fakeBox({ isBlank: true }) });
  await assert.rejects(session.client.readResource({ uri: "gpu://metrics/live" }), (error: unknown) => {
    assert.ok(error instanceof Error);
    assert.match(error.message, /no sample has been taken/);
    return true;
  });
  session.box.answers.purge = () => Promise.reject(new Failure("busy", "Cannot purge: ComfyUI executes"));
  const busy = await session.client.callTool({ name: "purge_comfyui_vram", arguments: {} });
  assert.equal(textOf(busy).error.code, "busy");
});

for (const mode of ["legacy", "auto"] as const) {
  Deno.test(`over standard streams a host of either protocol calls, reads, asks and is told of changes (${mode})`, async () => {
    await using session = await connect({ mode });
    const { box, client } = session;
    assert.equal((await client.callTool({ name: "get_gpu_status", arguments: {} })).isError ?? false, false);
    assert.equal((await client.getPrompt({ name: "free_the_gpu" })).messages.length, 3);
    const uri = "gpu://history/switches";
    const seen: string[] = [];
    const told = Promise.withResolvers<void>();
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
      seen.push(params.uri);
      told.resolve();
    });
    const subscription = mode === "auto" ? await client.listen({ resourceSubscriptions: [uri] }) : null;
    if (mode === "legacy") await client.subscribeResource({ uri });
    await box.clock.settle();
    const [newest] = HISTORY;
    assert.ok(newest !== undefined);
    box.show({ sample: sample({ seq: 1, atMs: sample().atMs + 1000 }) });
    box.show({ history: [{ ...newest, id: 99 }, ...HISTORY] });
    await told.promise;
    assert.deepEqual(new Set(seen), new Set([uri]), "what wasn't asked for was told");
    await subscription?.close();
  });
}
