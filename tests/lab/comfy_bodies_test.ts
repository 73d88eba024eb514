import assert from "node:assert/strict";
import { bodyOf, openComfy, work } from "./comfy_scene.ts";
import { shapeOf } from "./scene.ts";

interface Recorded {
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly body?: unknown;
    readonly raw_body?: string;
  };
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Readonly<Record<string, unknown>>;
    readonly body_text?: string;
  };
}

const FIXTURES = new URL("../fixtures/comfyui/", import.meta.url);
const recorded = <T = Record<string, Recorded>>(file: string): T =>
  JSON.parse(Deno.readTextFileSync(new URL(file, FIXTURES))) as T;

type Box = ReturnType<typeof openComfy>;

function replay(box: Box, { request }: Recorded) {
  const raw = request.raw_body;
  const body = request.body;
  return box.call(request.path, {
    method: request.method,
    ...(raw !== undefined ? { raw } : body !== undefined ? { body } : {}),
  });
}

async function sameTransport(box: Box, [name, one]: readonly [string, Recorded]) {
  const answer = await replay(box, one);
  assert.equal(answer.status, one.response.status, name);
  assert.equal(answer.type, one.response.headers["Content-Type"] ?? null, name);
  if (one.response.body_text !== undefined) assert.equal(answer.text, one.response.body_text, name);
  return answer;
}

Deno.test("edges, /free and /interrupt answer as recorded, status, type and text", async () => {
  await using box = openComfy();
  for (const file of ["http-edges.json", "http-free_interrupt.json"]) {
    for (const [name, one] of Object.entries(recorded(file))) {
      if (name === "root") continue;
      await sameTransport(box, [name, one]);
    }
  }
});

Deno.test("rejected prompts: the same status, error and node errors", async () => {
  await using box = openComfy();
  // What the recorder's server had no files of, and how its Python names a traceback, aren't compared.
  const comparable = (body: Record<string, unknown>) => {
    const text = JSON.stringify(body, (key, value: unknown) => {
      if (key === "traceback" || key === "input_config") return undefined;
      return Array.isArray(value) && key === "errors"
        ? value.toSorted((a, b) => JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
        : value;
    });
    return JSON.parse(text.replace(/not in \[.*?\]/, "not in []")) as unknown;
  };
  for (const entry of Object.entries(recorded("http-prompt_errors.json"))) {
    const answer = await sameTransport(box, entry);
    const want = entry[1].response.body;
    if (want !== undefined) assert.deepEqual(comparable(bodyOf(answer)), comparable(want), entry[0]);
  }
  assert.equal(
    bodyOf(await box.post(work(1, 1)))["number"],
    10,
    "each rejected graph advanced the number; what was not understood did not",
  );
});

Deno.test("accepted prompts: ids and numbers as sent, 200 with node errors when one output is good", async () => {
  await using box = openComfy();
  for (const entry of Object.entries(recorded("http-prompt_accepted.json"))) {
    const known = JSON.stringify(entry[1]).replaceAll("RtSleep", "LabWork").replace(
      '"seconds":4,"ticks":8',
      '"steps":8,"step_ms":500',
    );
    const answer = await sameTransport(box, [entry[0], JSON.parse(known) as Recorded]);
    const want = entry[1].response.body ?? {};
    assert.deepEqual(shapeOf(bodyOf(answer)), shapeOf(want), entry[0]);
    assert.deepEqual(bodyOf(answer)["node_errors"], want["node_errors"], entry[0]);
  }
});

Deno.test("what the server tells of itself has the recorded keys and types", async () => {
  await using box = openComfy();
  const info = recorded("http-info.json");
  for (const [name, one] of Object.entries(info)) {
    if (name === "models_configs" || name === "object_info_one") continue;
    const answer = await sameTransport(box, [name, one]);
    const want = one.response.body;
    if (want === undefined || name === "models_checkpoints_empty") continue;
    if (name === "models" || name === "features") assert.deepEqual(JSON.parse(answer.text), want, name);
    else if (name !== "system_stats") assert.deepEqual(shapeOf(JSON.parse(answer.text)), shapeOf(want), name);
  }
  const stats = bodyOf(await box.call("/api/system_stats")) as Record<string, unknown>;
  const want = shapeOf(info["system_stats"]?.response.body) as { devices: Record<string, unknown>[] };
  // A CPU device has no index.
  for (const device of want.devices) device["index"] = "number";
  assert.deepEqual(shapeOf(stats), want);
  const loader = bodyOf(await box.call("/object_info/CheckpointLoaderSimple"))["CheckpointLoaderSimple"] as object;
  assert.deepEqual(
    Object.keys(loader),
    Object.keys(info["object_info_one"]?.response.body?.["CheckpointLoaderSimple"] as object),
  );
  assert.deepEqual(JSON.parse((await box.call("/models/checkpoints")).text), [
    "dreamshaper_8.safetensors",
    "flux1-dev-fp8.safetensors",
    "sd_xl_base_1.0.safetensors",
  ]);
});

Deno.test("queue and history entries have the recorded shape", async () => {
  await using box = openComfy();
  const queues = recorded("http-queue.json");
  const shape = (name: string) => shapeOf(queues[name]?.response.body) as { queue_running: unknown[][] };
  assert.deepEqual(shapeOf(bodyOf(await box.call("/queue"))), shape("queue_idle"));
  await box.post(work(1, 500), { client_id: "c" });
  await box.clock.advance(10);
  const running = shapeOf(bodyOf(await box.call("/queue"))) as { queue_running: unknown[][] };
  assert.equal(running.queue_running.length, 1);
  await box.idle();
  const history = recorded<Record<string, Recorded>>("http-history.json")["history_all"]?.response.body ?? {};
  const want = Object.values(history).find((entry) =>
    (entry as { status: { status_str: string } }).status.status_str === "success"
  );
  const got = Object.values(bodyOf(await box.call("/history")))[0] as Record<string, unknown>;
  const keys = (entry: unknown) => {
    const { prompt, status, meta } = entry as {
      prompt: unknown[];
      status: { messages: unknown[][] };
      meta: Record<string, unknown>;
    };
    return {
      keys: Object.keys(entry as object),
      prompt: prompt.map((item) => Array.isArray(item) ? "array" : typeof item),
      messages: status.messages.map(([type, data]) => [type, Object.keys(data as object)]),
      meta: Object.values(meta).map((item) => Object.keys(item as object)),
    };
  };
  assert.deepEqual(keys(got), keys(want));
});

Deno.test("frames have the recorded keys, in their order", async () => {
  await using box = openComfy();
  const lines = (file: string) =>
    Deno.readTextFileSync(new URL(`ws/${file}.jsonl`, FIXTURES)).trim().split("\n")
      .map((line) => JSON.parse(line) as { to: string; frame?: { type: string; data: Record<string, unknown> } });
  const shapes = (file: string) =>
    new Map(
      lines(file).filter(({ to, frame }) => to === "submitter" && frame !== undefined)
        .map(({ frame }) => [frame?.type ?? "", Object.keys(frame?.data ?? {})]),
    );
  const client = await box.listen("c");
  const fail = { "1": { class_type: "LabFail", inputs: { kind: "value" } } };
  await box.post(work(3, 200), { client_id: "c" });
  await box.post(fail, { client_id: "c" });
  await box.post(work(30, 201), { client_id: "c" });
  await box.clock.advance(1_200);
  await box.call("/interrupt", { method: "POST" });
  await box.idle();
  await box.clock.advance(1_000);
  const got = new Map(client.frames.map(({ type, data }) => [type, Object.keys(data)]));
  const want = new Map([...shapes("progress"), ...shapes("error"), ...shapes("interrupt")]);
  for (const [type, keys] of want) assert.deepEqual(got.get(type), keys, type);
  const state = client.frames.find(({ type }) => type === "progress_state")?.data["nodes"] as Record<string, object>;
  const recordedState = lines("progress").find(({ frame }) => frame?.type === "progress_state")?.frame
    ?.data["nodes"] as Record<string, object>;
  assert.deepEqual(Object.keys(state["1"] ?? {}), Object.keys(recordedState["1"] ?? {}));
});

Deno.test("who may ask: Host and Origin as in the 25 recorded cases, for HTTP and the upgrade alike", async () => {
  await using box = openComfy();
  const cases = recorded<{ case: string; headers: Record<string, string>; get_queue: number; ws_upgrade: number }[]>(
    "http-origin_cases.json",
  );
  const statusOf = async (path: string, headers: Record<string, string>) => {
    using conn = await Deno.connect({ hostname: "127.0.0.1", port: box.server.port });
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    await conn.write(new TextEncoder().encode(`GET ${path} HTTP/1.1\r\n${lines}\r\n`));
    const buffer = new Uint8Array(1_024);
    const count = await conn.read(buffer);
    return Number(new TextDecoder().decode(buffer.subarray(9, count ?? 9)).slice(0, 3));
  };
  const upgrade = {
    Upgrade: "websocket",
    Connection: "Upgrade",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
  };
  let compared = 0;
  for (const { case: name, headers, get_queue, ws_upgrade } of cases) {
    assert.equal(await statusOf("/queue", headers), get_queue, name);
    assert.equal(await statusOf("/ws", { ...headers, ...upgrade }), ws_upgrade, name);
    compared += 1;
  }
  assert.equal(compared, cases.length);
});
