import assert from "node:assert/strict";
import { bodyOf, openComfy, sdxl, work } from "./comfy_scene.ts";

const between = (value: number, low: number, high: number) => assert.ok(value >= low && value <= high, `${value}`);
const FREE = { body: { unload_models: true, free_memory: true } };

Deno.test("pending prompts stand as a heap: front first, own numbers in between; deleting the last tells twice", async () => {
  await using box = openComfy();
  const observer = await box.listen("o");
  await box.post(work(100, 1_000), { prompt_id: "run" });
  await box.clock.advance(10);
  await box.post(work(1, 1), { prompt_id: "one" });
  await box.post(work(1, 2), { prompt_id: "two" });
  await box.post(work(1, 3), { prompt_id: "front", front: true });
  await box.post(work(1, 4), { prompt_id: "half", number: 0.5 });
  const { text } = await box.call("/queue");
  const body = JSON.parse(text) as { queue_running: unknown[][]; queue_pending: unknown[][] };
  assert.deepEqual(body.queue_pending.map(([number, id]) => [number, id]), [[-3, "front"], [0.5, "half"], [1, "one"], [
    2,
    "two",
  ]]);
  assert.deepEqual(body.queue_running.map((item) => item.length), [5]);
  assert.deepEqual(bodyOf(await box.call("/prompt")), { exec_info: { queue_remaining: 5 } });
  const after = async (what: Record<string, unknown>) => {
    const before = observer.frames.length;
    await box.call("/queue", { body: what });
    await box.clock.advance(1);
    return observer.words().slice(before);
  };
  assert.deepEqual(await after({ delete: ["front"] }), ["status 4"]);
  assert.deepEqual(await after({ delete: ["run", "nope"] }), []);
  assert.deepEqual(await after({ delete: ["one", "two"] }), ["status 3", "status 2"]);
  assert.deepEqual(await after({ delete: ["half"] }), ["status 1", "status 1"]);
  assert.deepEqual(await after({ clear: true }), ["status 1"]);
  await box.post(work(1, 5), { prompt_id: "same", number: 7 });
  assert.equal((await box.post(work(1, 6), { prompt_id: "same", number: 7 })).status, 500);
});

Deno.test("an interrupt is noticed at the next tick, hits only the running prompt, and while idle nothing", async () => {
  await using box = openComfy();
  await box.call("/interrupt", { method: "POST" });
  await box.post(work(30, 100), { prompt_id: "a" });
  await box.post(work(2, 100), { prompt_id: "b" });
  await box.clock.advance(250);
  await box.call("/interrupt", { body: { prompt_id: "b" } });
  await box.clock.advance(500);
  assert.deepEqual(await box.queue(), { running: ["a"], pending: ["b"] });
  await box.call("/interrupt", { body: { prompt_id: "a" } });
  await box.call("/interrupt", { method: "POST" });
  await box.idle();
  const history = bodyOf(await box.call("/history")) as Record<
    string,
    { status: { status_str: string; messages: [string][] } }
  >;
  assert.deepEqual(
    Object.entries(history).map(([id, { status }]) => [id, status.status_str, status.messages.at(-1)?.[0]]),
    [
      ["a", "error", "execution_interrupted"],
      ["b", "success", "execution_success"],
    ],
  );
});

Deno.test("history: messages with their times whoever listened; nothing while it runs; newest and oldest", async () => {
  await using box = openComfy();
  await box.post(work(3, 100), { prompt_id: "a", client_id: "nobody" });
  await box.clock.advance(100);
  assert.deepEqual(bodyOf(await box.call("/history/a")), {});
  await box.idle();
  const entry =
    (bodyOf(await box.call("/history/a")) as { a: { status: { messages: [string, { timestamp: number }][] } } }).a;
  const [start, , end] = entry.status.messages;
  assert.equal(end?.[0], "execution_success");
  between((end?.[1].timestamp ?? 0) - (start?.[1].timestamp ?? 0), 299, 301);
  for (const id of ["b", "c"]) await box.post(work(1, id === "b" ? 1 : 2), { prompt_id: id });
  await box.idle();
  const ids = async (query: string) => Object.keys(bodyOf(await box.call(`/history${query}`)));
  assert.deepEqual(await ids(""), ["a", "b", "c"]);
  assert.deepEqual(await ids("?max_items=2"), ["b", "c"]);
  assert.deepEqual(await ids("?max_items=2&offset=0"), ["a", "b"]);
  assert.equal((await box.call("/history?max_items=x")).status, 500);
  await box.call("/history", { body: { delete: ["b"] } });
  assert.deepEqual(await ids(""), ["a", "c"]);
});

Deno.test("an identical graph comes from the cache in a moment; a new seed doesn't; /free forgets", async () => {
  await using box = openComfy();
  const client = await box.listen("c");
  const run = async (seed: number) => {
    const from = client.frames.length;
    await box.post(sdxl({ seed }), { client_id: "c" });
    const took = await box.idle();
    await box.clock.advance(500);
    const frames = client.frames.slice(from);
    const cached = frames.find(({ type }) => type === "execution_cached")?.data["nodes"] as string[];
    return { took, cached: cached.length, sampled: frames.some(({ type }) => type === "progress") };
  };
  const first = await run(1);
  assert.deepEqual([first.cached, first.sampled], [0, true]);
  const again = await run(1);
  assert.deepEqual([again.cached, again.sampled], [7, false]);
  assert.ok(again.took < 20 && first.took > 500);
  assert.deepEqual((await run(2)).cached, 4);
  await box.clock.advance(15_000);
  await box.call("/free", FREE);
  await box.clock.advance(5_000);
  assert.equal((await run(2)).cached, 0);
});

Deno.test("an exception or out-of-memory ends that prompt alone; SystemExit ends the worker and leaves the server", async () => {
  await using box = openComfy();
  const fail = (kind: string) => ({ "1": { class_type: "LabFail", inputs: { kind } } });
  const errorOf = async (id: string) => {
    const entry = (bodyOf(await box.call(`/history/${id}`)) as Record<
      string,
      { status: { messages: [string, Record<string, unknown>][] } }
    >)[id];
    return entry?.status.messages.at(-1);
  };
  await box.post(fail("value"), { prompt_id: "v" });
  await box.post(fail("oom"), { prompt_id: "o" });
  await box.idle();
  assert.deepEqual([(await errorOf("v"))?.[0], (await errorOf("v"))?.[1]["exception_type"]], [
    "execution_error",
    "ValueError",
  ]);
  assert.equal((await errorOf("o"))?.[1]["exception_type"], "torch.OutOfMemoryError");
  await box.clock.advance(1_000);
  await box.post(fail("system_exit"), { prompt_id: "x" });
  await box.post(work(1, 1), { prompt_id: "behind" });
  await box.clock.advance(60_000);
  await box.call("/interrupt", { method: "POST" });
  assert.equal((await box.call("/free", FREE)).status, 200);
  await box.clock.advance(10_000);
  assert.deepEqual(await box.queue(), { running: ["x"], pending: ["behind"] });
  assert.equal(box.server.isWorkerDead, true);
});

Deno.test("killed: sockets close without a frame and everything is forgotten; the port is back after six seconds", async () => {
  await using box = openComfy();
  const observer = await box.listen("o");
  let closed: CloseEvent | null = null;
  observer.socket.onclose = (event) => closed = event;
  await box.post(sdxl());
  await box.clock.advance(600);
  const pid = box.server.pid ?? 0;
  const killed = box.server.kill("SIGKILL");
  await box.clock.advance(50);
  await killed;
  assert.equal((closed as CloseEvent | null)?.wasClean, false);
  assert.deepEqual([box.vram.heldBytes(pid), box.ground.processes.get(pid)], [0, null]);
  const started = box.server.start();
  await box.clock.advance(5_900);
  await assert.rejects(fetch(box.server.url));
  await box.clock.advance(300);
  await started;
  assert.deepEqual(await box.queue(), { running: [], pending: [] });
  assert.deepEqual(bodyOf(await box.call("/history")), {});
});

Deno.test("frozen: connects, says nothing, and does everything that was sent once it goes on", async () => {
  await using box = openComfy();
  box.server.freeze(true);
  const left = new AbortController();
  box.begin("/prompt", { body: { prompt: work(1, 10), prompt_id: "late" }, signal: left.signal }).catch(() => {});
  await box.clock.advance(5_000);
  left.abort();
  await box.clock.advance(10);
  box.server.freeze(false);
  await box.clock.advance(2_000);
  assert.deepEqual(Object.keys(bodyOf(await box.call("/history"))), ["late"]);
});

Deno.test("a client id that is an object ends the whole server a moment later", async () => {
  await using box = openComfy();
  assert.equal((await box.post(work(1, 10), { client_id: { a: 1 } })).status, 200);
  await box.clock.advance(200);
  assert.equal(box.server.pid, null);
  await assert.rejects(fetch(box.server.url));
});
