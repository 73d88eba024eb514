import assert from "node:assert/strict";
import {
  parseComfyFrame,
  parseHistory,
  parseModelNames,
  parseQueue,
  parseStats,
} from "../../lib/upstream/comfy_parse.ts";
import { MalformedBody } from "../../lib/upstream/json_fields.ts";
import { recordedBody, recordedSocket } from "./recorded.ts";

Deno.test("queue: idle, running, and what waits in the order it will run", () => {
  assert.deepEqual(parseQueue(recordedBody("http-queue.json", "queue_idle")), { running: [], pending: [] });
  const { running, pending } = parseQueue(recordedBody("http-queue.json", "queue_running_pending"));
  assert.deepEqual(running, ["11111111-1111-4111-8111-111111111111"]);
  const raw: [number, string][] = JSON.parse(recordedBody("http-queue.json", "queue_running_pending")).queue_pending;
  assert.equal(pending.length, 4);
  assert.deepEqual(pending, raw.toSorted((a, b) => a[0] - b[0]).map(([, id]) => id));
  assert.equal(pending[0], "33333333-3333-4333-8333-333333333333", "the one that was put in front");
});

Deno.test("queue: the server's heap is sorted by number, then by id", () => {
  const entry = (number: number, id: string) => [number, id, {}, {}, []];
  const text = JSON.stringify({
    queue_running: [],
    queue_pending: [entry(3, "c"), entry(7, "b"), entry(5, "e"), entry(7, "a"), entry(-1, "f")],
  });
  assert.deepEqual(parseQueue(text).pending, ["f", "c", "e", "a", "b"]);
});

Deno.test("queue: a body that is none is refused", () => {
  for (
    const text of ["{}", "[]", '{"queue_running":[],"queue_pending":{}}', '{"queue_running":[7],"queue_pending":[]}']
  ) {
    assert.throws(() => parseQueue(text), MalformedBody, text);
  }
});

function entryOf(name: string) {
  const [entry] = parseHistory(recordedBody("http-history.json", name));
  assert.ok(entry !== undefined);
  return entry;
}

Deno.test("history: success, with its times", () => {
  const entry = entryOf("history_id_success_sd15");
  assert.deepEqual([entry.status, entry.error], ["success", null]);
  assert.ok(entry.startedAtMs !== null && entry.endedAtMs !== null && entry.endedAtMs > entry.startedAtMs);
});

Deno.test("history: an interrupted prompt is listed as an error, and isn't one", () => {
  const entry = entryOf("history_id_interrupted");
  assert.deepEqual([entry.status, entry.error], ["interrupted", null]);
  assert.ok(entry.endedAtMs !== null);
});

Deno.test("history: errors say what was raised", () => {
  assert.deepEqual([entryOf("history_id_error").status], ["error"]);
  assert.match(entryOf("history_id_error").error ?? "", /^ValueError: /);
  assert.match(entryOf("history_id_error_oom").error ?? "", /^torch\.OutOfMemoryError: /);
});

Deno.test("history: unknown and unfinished ids give nothing, lists come oldest first", () => {
  assert.deepEqual(parseHistory(recordedBody("http-history.json", "history_unknown_id")), []);
  assert.deepEqual(parseHistory(recordedBody("http-history.json", "history_id_while_running")), []);
  const all = parseHistory(recordedBody("http-history.json", "history_all"));
  const numbers = all.map(({ number }) => number ?? NaN);
  assert.ok(all.length >= 4);
  assert.deepEqual(numbers, numbers.toSorted((a, b) => a - b));
});

Deno.test("history: an entry without a status finished, at a time unknown", () => {
  const [entry] = parseHistory('{"a":{"prompt":[0,"a",{},{},[]],"outputs":{}}}');
  assert.deepEqual(entry, {
    promptId: "a",
    number: 0,
    status: "success",
    startedAtMs: null,
    endedAtMs: null,
    error: null,
  });
});

Deno.test("stats: a CPU has no VRAM, a card has what it says", () => {
  const stats = parseStats(recordedBody("http-info.json", "system_stats"));
  assert.deepEqual([stats.version, stats.vramFreeBytes], ["0.3.64", null]);
  assert.deepEqual(stats.argv.slice(0, 2), ["main.py", "--cpu"]);
  const device = { name: "cuda:0", type: "cuda", index: 0, vram_total: 16e9, vram_free: 12e9 };
  const text = JSON.stringify({ system: { argv: ["main.py"] }, devices: [device] });
  assert.deepEqual(parseStats(text), { version: null, vramFreeBytes: 12e9, argv: ["main.py"] });
});

Deno.test("model names are a list of strings", () => {
  assert.deepEqual(parseModelNames('["a.safetensors","sub/b.ckpt",5]'), ["a.safetensors", "sub/b.ckpt"]);
  assert.throws(() => parseModelNames('{"a":1}'), MalformedBody);
});

Deno.test("frames: a connection's first status carries its sid, broadcasts carry none", () => {
  const [first] = recordedSocket("connect");
  const frame = parseComfyFrame(JSON.stringify(first?.frame));
  assert.deepEqual(frame, { kind: "status", queueRemaining: 0, sid: "0b5e7e70-0000-4000-8000-00000000000a" });
  const [broadcast] = recordedSocket("quick").filter(({ to }) => to === "observer");
  assert.deepEqual(parseComfyFrame(JSON.stringify(broadcast?.frame)), { kind: "status", queueRemaining: 1, sid: null });
});

Deno.test("frames: progress of either kind names its prompt, and the running node's figures", () => {
  const frames = recordedSocket("progress_no_client_id").filter(({ to }) => to === "observer").flatMap(({ frame }) => {
    const parsed = parseComfyFrame(JSON.stringify(frame));
    return parsed?.kind === "progress" ? [parsed] : [];
  });
  assert.ok(frames.length >= 6);
  assert.deepEqual(new Set(frames.map(({ promptId }) => promptId)), new Set(["6be52b70-444c-4a0f-81a5-ad1b43ac0c9e"]));
  assert.deepEqual(frames.at(-1), { kind: "progress", promptId: frames[0]?.promptId, value: 3, max: 3 });
  const nodes = { a: { value: 1, max: 1, state: "finished" }, b: { value: 4, max: 20, state: "running" } };
  const state = JSON.stringify({ type: "progress_state", data: { prompt_id: "p", nodes } });
  assert.deepEqual(parseComfyFrame(state), { kind: "progress", promptId: "p", value: 4, max: 20 });
});

Deno.test("frames: what nobody knows is other, what is no frame is nothing", () => {
  assert.deepEqual(parseComfyFrame('{"type":"manager-note","data":{"a":1}}'), { kind: "other", type: "manager-note" });
  assert.deepEqual(parseComfyFrame('{"type":"status","data":{}}'), { kind: "other", type: "status" });
  assert.deepEqual(parseComfyFrame('{"type":"progress","data":{"value":1}}'), { kind: "other", type: "progress" });
  for (const text of ["", "hello", "5", "[]", '{"data":{}}']) assert.equal(parseComfyFrame(text), null);
});
