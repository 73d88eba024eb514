import assert from "node:assert/strict";
import { applyFrame } from "../../lib/operations/frames.ts";
import type { Frame } from "../../lib/operations/frames.ts";
import type { RunWireView } from "../../lib/operations/run_view.ts";
import { StatsWire, viewStats } from "../../lib/operations/stats.ts";
import { readEvents } from "../../lib/show/event_reader.ts";
import type { ServerEvent } from "../../lib/show/event_reader.ts";
import type { FakeBox } from "../operations/fake_box.ts";
import { sample } from "../operations/fake_values.ts";
import { openDoor } from "./rest_door.ts";

/** One second later, with another load on the card. */
function tick(box: FakeBox, at: number): void {
  box.show({ sample: sample({ seq: at, atMs: sample().atMs + at * 1000, simulated: false }) });
}

function statsOf(box: FakeBox): unknown {
  return JSON.parse(JSON.stringify(StatsWire.parse(viewStats(box.services.live.snapshot()))));
}

async function next(events: AsyncGenerator<ServerEvent>): Promise<Frame> {
  const { value, done } = await events.next();
  assert.ok(!done, "the stream ended early");
  return { event: value.event, data: JSON.parse(value.data) } as Frame;
}

/** A run's event. */
async function nextRun(events: AsyncGenerator<ServerEvent>): Promise<{ event: string; data: RunWireView }> {
  const { value, done } = await events.next();
  assert.ok(!done, "the stream ended early");
  return { event: value.event, data: JSON.parse(value.data) };
}

function eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
  assert.ok(response.body);
  return readEvents(response.body);
}

Deno.test("two clients that join at different times both rebuild /api/stats", async () => {
  const { request, box, door } = openDoor();
  const first = eventsOf(await request("GET /api/stream"));
  let one = applyFrame<object>(null, await next(first));
  tick(box, 1);
  one = applyFrame(one, await next(first));
  const second = eventsOf(await request("GET /api/stream"));
  let two = applyFrame<object>(null, await next(second));
  assert.deepEqual(two, one);
  tick(box, 2);
  one = applyFrame(one, await next(first));
  two = applyFrame(two, await next(second));
  assert.deepEqual(one, statsOf(box));
  assert.deepEqual(two, one);
  assert.equal(box.subscribers, 1, "the box was subscribed to once for both");
  assert.equal(door.streams.clients, 2);
  await first.return(undefined);
  await second.return(undefined);
  assert.deepEqual([box.subscribers, door.streams.clients], [0, 0], "what nobody reads was still followed");
});

Deno.test("a client that doesn't read misses frames, costs nobody anything, and starts afresh when it reads again", async () => {
  const { request, box, door } = openDoor();
  const slow = eventsOf(await request("GET /api/stream"));
  const quick = eventsOf(await request("GET /api/stream"));
  let state = applyFrame<object>(null, await next(quick));
  for (let at = 1; at <= 20; at++) {
    tick(box, at);
    state = applyFrame(state, await next(quick));
  }
  assert.deepEqual(state, statsOf(box), "the quick client was held up");
  assert.ok(door.streams.missedFrames >= 15, `${door.streams.missedFrames} frames were missed`);
  assert.equal(door.streams.droppedClients, 0);
  // What had been queued before it stalled, then a whole snapshot instead of the frames it missed.
  let rebuilt = applyFrame<object>(null, await next(slow));
  const queued = 4 - 2;
  for (let at = 0; at < queued; at++) rebuilt = applyFrame(rebuilt, await next(slow));
  tick(box, 21);
  const fresh = await next(slow);
  assert.equal(fresh.event, "snapshot");
  rebuilt = applyFrame(rebuilt, fresh);
  assert.deepEqual(rebuilt, statsOf(box));
  tick(box, 22);
  rebuilt = applyFrame(rebuilt, await next(slow));
  assert.deepEqual(rebuilt, statsOf(box));
  await slow.return(undefined);
  await quick.return(undefined);
});

Deno.test("a client that never reads is let go", async () => {
  const { request, box, door } = openDoor();
  const response = await request("GET /api/stream");
  for (let at = 1; at <= 100; at++) tick(box, at);
  assert.equal(door.streams.droppedClients, 1);
  assert.equal(door.streams.clients, 0);
  assert.equal(box.subscribers, 0);
  await assert.rejects(response.text());
});

Deno.test("the stream keeps its line alive, and only when nothing else was said", async () => {
  const { request, box } = openDoor();
  const response = await request("GET /api/stream");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  assert.match((await reader.read()).value ?? "", /^retry: \d+\n\n$/);
  assert.match((await reader.read()).value ?? "", /^event: snapshot\nid: \w+-1\ndata: \{.*\}\n\n$/);
  const beat = reader.read();
  await box.clock.advance(15_000);
  assert.equal((await beat).value, ": still here\n\n");
  await box.clock.advance(10_000);
  tick(box, 1);
  assert.match((await reader.read()).value ?? "", /^event: patch/);
  const later = reader.read();
  await box.clock.advance(5_000);
  tick(box, 2);
  assert.match((await later).value ?? "", /^event: patch/, "a heartbeat came although a frame had just gone out");
  await reader.cancel();
});

Deno.test("a run's events: its state, each change, its end; then the stream closes", async () => {
  const { request, box, door } = openDoor();
  const ending = Promise.withResolvers<unknown>();
  const run = box.runs.start("switch-model", ({ progress }) => {
    progress({ phase: "unloading", done: 0.25, etaMs: 4000 });
    return ending.promise;
  });
  const events = eventsOf(await request(`GET /api/runs/${run.id}/events`));
  const first = await nextRun(events);
  assert.deepEqual([first.event, first.data.state, first.data.phase, first.data.done_pct], [
    "run",
    "running",
    "unloading",
    25,
  ]);
  ending.resolve({ target_model: "a" });
  const last = await nextRun(events);
  assert.deepEqual([last.data.state, last.data.result], ["done", { target_model: "a" }]);
  assert.equal((await events.next()).done, true);
  assert.equal(door.streams.clients, 0);
  const ended = eventsOf(await request(`GET /api/runs/${run.id}/events`));
  assert.equal((await nextRun(ended)).data.state, "done");
  assert.equal((await ended.next()).done, true);
  assert.equal(door.streams.clients, 0);
  assert.deepEqual(box.defects, []);
});

Deno.test("of a run's changes a slow reader gets the newest", async () => {
  const { request, box } = openDoor();
  const ending = Promise.withResolvers<unknown>();
  const call = Promise.withResolvers<(done: number) => void>();
  const run = box.runs.start("switch-model", ({ progress }) => {
    call.resolve((done) => progress({ phase: "loading", done, etaMs: null }));
    return ending.promise;
  });
  const response = await request(`GET /api/runs/${run.id}/events`);
  const report = await call.promise;
  for (let step = 1; step <= 100; step++) report(step / 100);
  ending.resolve({});
  await box.runs.ended(run.id);
  const states: string[] = [];
  for await (const { data } of readEvents(response.body!)) {
    states.push(`${JSON.parse(data).state} ${JSON.parse(data).done_pct}`);
  }
  assert.ok(states.length < 10, `${states.length} events were kept for it`);
  assert.equal(states.at(-1), "done 100");
});

Deno.test("streams are bounded in number, and closing the door ends them all", async () => {
  const { request, box, door } = openDoor({ maxStreams: 20 });
  const responses: Response[] = [];
  for (let n = 0; n < 20; n++) responses.push(await request("GET /api/stream"));
  const surplus = await request("GET /api/stream");
  assert.equal(surplus.status, 429);
  await surplus.body?.cancel();
  const { id } = box.runs.start("x", () => new Promise(() => {}));
  await responses.pop()?.body?.cancel();
  const events = await request(`GET /api/runs/${id}/events`);
  await door.close();
  const texts = await Promise.all([...responses, events].map((response) => response.text()));
  assert.ok(texts.every((text) => text.startsWith("retry:")));
  assert.deepEqual([door.streams.clients, box.subscribers], [0, 0]);
});

Deno.test("who comes back gets what was missed, as long as it is kept and the numbers are this stream's", async () => {
  const { request, box } = openDoor();
  const stays = eventsOf(await request("GET /api/stream"));
  let state = applyFrame<object>(null, await next(stays));
  const idOf = async (response: Response) => {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("\n\n", 20)) text += (await reader.read()).value ?? "";
    await reader.cancel();
    return /id: (\S+)/.exec(text)?.[1] ?? "";
  };
  const lastId = await idOf(await request("GET /api/stream"));
  const held = state;
  for (let at = 1; at <= 3; at++) {
    tick(box, at);
    state = applyFrame(state, await next(stays));
  }
  const resumed = eventsOf(await request("GET /api/stream", { headers: { "last-event-id": lastId } }));
  let rebuilt = held;
  for (let at = 1; at <= 3; at++) {
    const frame = await next(resumed);
    assert.equal(frame.event, "patch");
    rebuilt = applyFrame(rebuilt, frame);
  }
  assert.deepEqual(rebuilt, state);
  await resumed.return(undefined);
  for (const id of ["zzzz-1", lastId.replace(/\d+$/, "900"), "nonsense", `${lastId}0000000000000000`]) {
    const fresh = eventsOf(await request("GET /api/stream", { headers: { "last-event-id": id } }));
    assert.equal((await next(fresh)).event, "snapshot", id);
    await fresh.return(undefined);
  }
  for (let at = 4; at <= 70; at++) {
    tick(box, at);
    await next(stays);
    if (at % 2 === 0) await box.clock.settle();
  }
  const late = eventsOf(await request("GET /api/stream", { headers: { "last-event-id": lastId } }));
  assert.equal((await next(late)).event, "snapshot", "61 frames were kept");
  for (const events of [stays, late]) await events.return(undefined);
});
