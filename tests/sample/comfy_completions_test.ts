import assert from "node:assert/strict";
import { watchFakeComfy } from "./watched_comfy.ts";

Deno.test("a prompt too short to be caught in the queue is found in the history", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, activity, completed } = world;
  server.post("p-1");
  server.end("p-1");
  socket.status(1);
  socket.status(1);
  socket.status(0);
  await clock.advance(100);
  assert.deepEqual(activity, [0, 1, 0]);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1"]);
  await clock.advance(30_000);
  assert.equal(completed.length, 1, "and told once");
});

Deno.test("what was finished before we came is no news; what runs then, is", async () => {
  await using world = await watchFakeComfy({
    prepare: (server) => {
      for (const id of ["old-1", "old-2"]) server.end(id);
      server.post("p-1");
    },
  });
  const { clock, server, socket, activity, completed } = world;
  assert.deepEqual(activity, [1]);
  assert.deepEqual(completed, []);
  server.end("p-1");
  socket.status(0);
  await clock.advance(100);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1"]);
});

Deno.test("one that ends while the history is first read is news", async () => {
  await using world = await watchFakeComfy({
    prepare: (server) => {
      server.end("old-1");
      server.post("p-1");
      server.beforeAnswer = (verb) => verb === "recent" && server.queued.length > 0 && server.end("p-1");
    },
  });
  const { clock, socket, completed } = world;
  socket.status(0);
  await clock.advance(2_000);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1"]);
});

Deno.test("the list of the newest repeats nothing that was told", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, completed } = world;
  server.post("p-1");
  socket.status(1);
  await clock.advance(200);
  server.end("p-1");
  server.post("p-2");
  server.end("p-2");
  server.post("p-3");
  server.end("p-3");
  for (const count of [2, 1, 2, 1, 0]) socket.status(count);
  await clock.advance(2_000);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1", "p-2", "p-3"]);
});

Deno.test("a history that hangs doesn't hold up the queue", async () => {
  await using world = await watchFakeComfy({ isOpen: false });
  const { clock, server, activity } = world;
  server.post("p-1");
  await clock.advance(1_000);
  const { promise, resolve } = Promise.withResolvers<void>();
  server.beforeAnswer = (verb) => server.stall = verb === "queue" ? promise : null;
  server.end("p-1");
  await clock.advance(1_000);
  server.beforeAnswer = null;
  server.stall = null;
  server.post("p-2");
  await clock.advance(1_000);
  assert.deepEqual(activity, [0, 1, 0, 1]);
  resolve();
});

Deno.test("a deleted prompt never completes, and isn't asked after for ever", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, activity, completed } = world;
  for (const id of ["p-1", "p-2"]) server.post(id);
  socket.status(2);
  await clock.advance(200);
  server.remove("p-2");
  socket.status(1);
  await clock.advance(20_000);
  assert.deepEqual(activity, [0, 2, 1]);
  assert.deepEqual(completed, []);
  const asked = server.callsOf("completion");
  assert.ok(asked >= 1 && asked <= 3, `asked ${asked} times`);
  await clock.advance(20_000);
  assert.equal(server.callsOf("completion"), asked);
});

Deno.test("an id that is used again completes again", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, completed } = world;
  for (let round = 0; round < 2; round++) {
    server.post("mine");
    socket.status(1);
    await clock.advance(200);
    server.end("mine");
    socket.status(0);
    await clock.advance(200);
  }
  assert.equal(completed.length, 2);
});

Deno.test("history that can't be read costs its completions for now, not the watch", async () => {
  await using world = await watchFakeComfy();
  const { clock, server, socket, watch, activity, completed } = world;
  server.post("p-1");
  socket.status(1);
  await clock.advance(200);
  server.failures.set("completion", "http");
  server.end("p-1");
  socket.status(0);
  await clock.advance(200);
  assert.deepEqual([activity.at(-1), completed.length, watch.state().online], [0, 0, true]);
  assert.equal(watch.report().ok, false);
  server.failures.clear();
  await clock.advance(3_000);
  assert.deepEqual(completed.map(({ promptId }) => promptId), ["p-1"]);
  assert.equal(watch.report().ok, true);
});
