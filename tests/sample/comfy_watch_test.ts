import assert from "node:assert/strict";
import { watchFakeComfy } from "./watched_comfy.ts";

Deno.test("a prompt is announced on its frame, before anything is asked", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch, activity, completed } = world;
  assert.deepEqual(activity, [0]);
  const asked = server.calls.length;
  server.post("p-1");
  socket.status(1);
  assert.deepEqual(activity, [0, 1], "at once, in the same turn");
  assert.equal(server.calls.length, asked + 1, "and the queue is asked right after");
  assert.equal(server.calls.at(-1), "queue");
  await clock.settle();
  const busy = watch.state();
  assert.deepEqual(
    [busy.executing, busy.queueRemaining, busy.runningPromptId, busy.idleSinceMs],
    [true, 1, "p-1", null],
  );
  socket.status(1);
  assert.deepEqual(activity, [0, 1], "the second frame of a start is no news");
  await clock.advance(150);
  server.end("p-1");
  socket.status(0);
  await clock.advance(100);
  assert.deepEqual(activity, [0, 1, 0]);
  assert.deepEqual(completed.map(({ promptId, status }) => [promptId, status]), [["p-1", "success"]]);
  const idle = watch.state();
  assert.deepEqual([idle.executing, idle.runningPromptId, idle.idleSinceMs], [false, null, clock.monotonicMs() - 100]);
});

Deno.test("a prompt that waits for the worker is looked at again, but a paused queue isn't pestered", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch } = world;
  server.isWorking = false;
  server.post("p-1");
  socket.status(1);
  await clock.advance(50);
  assert.deepEqual([watch.state().executing, watch.state().runningPromptId], [true, null]);
  server.isWorking = true;
  await clock.advance(100);
  assert.equal(watch.state().runningPromptId, "p-1");
  server.isWorking = false;
  await clock.advance(5_000);
  const before = server.callsOf("queue");
  await clock.advance(30_000);
  assert.equal(server.callsOf("queue") - before, 10);
});

Deno.test("beside a socket that speaks, the queue is read every 3 s; without one every second", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket } = world;
  const reads = async (ms: number) => {
    const before = server.callsOf("queue");
    await clock.advance(ms);
    return server.callsOf("queue") - before;
  };
  await clock.advance(3_000);
  assert.equal(await reads(30_000), 10);
  socket.become("down");
  await clock.settle();
  assert.equal(await reads(10_000), 10);
});

Deno.test("with the socket down, the poll alone finds work and its end", async () => {
  await using world = await watchFakeComfy({ isOpen: false });
  const { clock, server, activity, completed, watch } = world;
  assert.deepEqual(activity, [0]);
  server.post("p-1");
  await clock.advance(1_000);
  assert.deepEqual(activity, [0, 1]);
  assert.equal(watch.state().runningPromptId, "p-1");
  server.post("p-2");
  server.end("p-1", "error");
  await clock.advance(1_000);
  assert.deepEqual(activity, [0, 1], "the count is the same");
  assert.equal(watch.state().runningPromptId, "p-2");
  assert.deepEqual(completed.map(({ promptId, status }) => [promptId, status]), [["p-1", "error"]]);
  server.end("p-2");
  await clock.advance(1_000);
  assert.deepEqual(activity, [0, 1, 0]);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1", "p-2"]);
});

Deno.test("a flapping socket repeats nothing", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, activity } = world;
  server.post("p-1");
  socket.status(1);
  await clock.settle();
  for (let flap = 0; flap < 20; flap++) {
    socket.become("down");
    await clock.advance(130);
    socket.become("connecting");
    socket.become("open");
    socket.status(1, `sid-${flap}`);
    await clock.advance(70);
  }
  assert.deepEqual(activity, [0, 1]);
  assert.ok(server.callsOf("queue") < 50, `${server.callsOf("queue")} reads for 40 changes of state`);
});

Deno.test("what changed while the socket was away is seen by the read that follows", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, activity, completed } = world;
  server.post("p-1");
  socket.status(1);
  await clock.advance(200);
  server.end("p-1");
  socket.become("down");
  await clock.advance(200);
  assert.deepEqual(activity, [0, 1, 0]);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1"]);
});

Deno.test("a socket that is open and silent: the poll finds the work, polls faster, and renews it once", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch, activity } = world;
  server.post("p-1");
  await clock.advance(3_200);
  assert.deepEqual(activity, [0, 1]);
  assert.equal(watch.isSocketSilent(), true);
  assert.equal(socket.reconnects, 1);
  const before = server.callsOf("queue");
  await clock.advance(10_000);
  assert.ok(server.callsOf("queue") - before >= 9);
  server.end("p-1");
  await clock.advance(1_100);
  assert.deepEqual(activity, [0, 1, 0]);
  assert.equal(socket.reconnects, 1, "renewed at most every 30 s");
  socket.status(0, "sid-2");
  assert.equal(watch.isSocketSilent(), true, "a greeting proves nothing");
  server.post("p-2");
  socket.status(1);
  assert.equal(watch.isSocketSilent(), false);
  server.end("p-2");
  await clock.advance(3_200);
  assert.deepEqual([watch.isSocketSilent(), socket.reconnects], [true, 1], "silent again, and renewed not long ago");
});

Deno.test("frames that come late, all at once, are not taken for new work", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch, activity } = world;
  server.post("p-1");
  socket.status(1);
  await clock.advance(2_900);
  // Garbage collection: the prompt ends, frames are held back, and the poll's answer overtakes them.
  server.end("p-1");
  await clock.runUntil(() => server.callsOf("queue") > 2, { limitMs: 3_000 });
  assert.deepEqual(activity, [0, 1], "the poll knows better, and waits for the frames");
  socket.status(1);
  socket.status(0);
  await clock.advance(500);
  assert.deepEqual(activity, [0, 1, 0]);
  assert.equal(watch.isSocketSilent(), false);
});

Deno.test("an answer that is older than a frame doesn't count", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, activity } = world;
  const first = Promise.withResolvers<void>();
  server.stall = first.promise;
  await clock.advance(3_000);
  const second = Promise.withResolvers<void>();
  server.stall = second.promise;
  server.post("p-1");
  socket.status(1);
  first.resolve();
  await clock.advance(1_000);
  assert.deepEqual(activity, [0, 1], "the queue was empty when it was asked, and isn't any more");
  second.resolve();
});

Deno.test("progress is shown for prompts without a client_id, and ends with them", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch } = world;
  server.post("p-1");
  socket.status(1);
  socket.send({ kind: "progress", promptId: "p-1", value: 4, max: 20 });
  assert.deepEqual([watch.state().runningPromptId, watch.state().progress], ["p-1", { value: 4, max: 20 }]);
  await clock.advance(3_500);
  assert.deepEqual(watch.state().progress, { value: 4, max: 20 }, "a read of the queue keeps it");
  server.end("p-1");
  socket.status(0);
  assert.equal(watch.state().progress, null);
  socket.send({ kind: "progress", promptId: "p-1", value: 20, max: 20 });
  assert.equal(watch.state().progress, null, "a late frame revives nothing");
  assert.equal(watch.state().runningPromptId, null);
});

Deno.test("version, free VRAM and command line are asked when it appears, and every 10 s", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, watch } = world;
  assert.deepEqual([watch.state().version, watch.state().vramFreeBytes], ["0.3.64", 12e9]);
  assert.deepEqual(watch.argv(), ["main.py", "--listen"]);
  const before = server.callsOf("stats");
  await clock.advance(60_000);
  assert.equal(server.callsOf("stats") - before, 6);
});

Deno.test("nothing is known before the first answer", async () => {
  await using world = await watchFakeComfy({
    isOpen: false,
    prepare: (server) => server.failures.set("queue", "refused"),
  });
  const { watch, activity } = world;
  const state = watch.state();
  assert.deepEqual(
    [state.online, state.executing, state.queueRemaining, state.version, state.idleSinceMs],
    [false, null, null, null, null],
  );
  assert.equal(state.reason, "Cannot reach ComfyUI at http://127.0.0.1:8188: test says refused");
  assert.match(watch.remedy() ?? "", /^Start it .* or set comfyui\.url/);
  assert.deepEqual([watch.report().ok, watch.report().lastOkAtMs], [false, null]);
  assert.deepEqual(activity, []);
});

Deno.test("a server that goes and comes back with work is news, even if the count is the same", async () => {
  await using world = await watchFakeComfy({ isOpen: false });
  const { clock, server, watch, activity, completed } = world;
  server.post("p-1");
  await clock.advance(1_000);
  server.failures.set("queue", "refused");
  await clock.advance(1_000);
  assert.deepEqual([watch.state().online, watch.state().executing], [false, null]);
  server.restart();
  server.post("p-2");
  server.failures.clear();
  await clock.advance(1_000);
  assert.deepEqual(activity, [0, 1, 1]);
  assert.deepEqual([watch.state().online, watch.state().reason, watch.remedy()], [true, null, null]);
  assert.equal(watch.report().lastError, null);
  server.end("p-2");
  await clock.advance(2_000);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-2"], "what the old server ran is lost with it");
});

Deno.test("a server that appears doesn't wait for the socket's back-off", async () => {
  await using world = await watchFakeComfy({
    isOpen: false,
    prepare: (server) => server.failures.set("queue", "refused"),
  });
  const { clock, server, socket } = world;
  socket.become("down");
  await clock.advance(5_000);
  assert.equal(socket.reconnects, 0);
  server.failures.clear();
  await clock.advance(1_000);
  assert.equal(socket.reconnects, 1);
  await clock.advance(5_000);
  assert.equal(socket.reconnects, 1, "once");
});

Deno.test("a stall is no absence while frames come; a stopped process is one", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch } = world;
  const { promise, resolve } = Promise.withResolvers<void>();
  server.stall = promise;
  await clock.advance(4_000);
  assert.equal(watch.state().online, true, "nothing has been answered for 4 s");
  socket.status(0);
  server.failures.set("queue", "timeout");
  resolve();
  server.stall = null;
  await clock.settle();
  assert.equal(watch.state().online, true, "a frame came while the read hung");
  await clock.advance(3_000);
  assert.equal(watch.state().online, false, "nothing at all was heard during a whole read");
  assert.equal(watch.state().queueRemaining, 0, "what was known last is kept");
  assert.match(watch.remedy() ?? "", /stopped or stuck/);
  socket.status(0);
  assert.equal(watch.state().online, true);
});

Deno.test("a stopped watcher asks nothing more", async () => {
  const world = await watchFakeComfy();
  world.watch.stop();
  const asked = world.server.calls.length;
  world.socket.status(1);
  await world.clock.advance(30_000);
  assert.equal(world.server.calls.length, asked);
  assert.equal(world.socket.isStopped, true);
});
