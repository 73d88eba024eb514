import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { ConnectionGuard, type Line } from "../../lib/show/connection_guard.ts";

/** A kernel whose connections the test names by their ports. */
function guarded(maxConnections = 100) {
  const clock = new LabClock();
  const open = new Set<number>();
  const ended: number[] = [];
  const guard = new ConnectionGuard({
    clock,
    port: 9090,
    maxConnections,
    lines: {
      list: () => [...open].map((peerPort): Line => ({ peerPort, inode: String(peerPort) })),
      end: (lines) => {
        for (const { peerPort } of lines) {
          open.delete(peerPort);
          ended.push(peerPort);
        }
      },
    },
  });
  return { clock, open, ended, guard };
}

Deno.test("who never finishes a head is cut off after 15 s; who asks and rests, after 75; who is answered, never", async () => {
  const { clock, open, ended, guard } = guarded();
  for (const port of [1, 2, 3]) open.add(port);
  const [ask2] = [guard.begin(2), guard.begin(3)];
  ask2();
  await clock.advance(15_000);
  assert.deepEqual(ended, []);
  await clock.advance(5_000);
  assert.deepEqual(ended, [1]);
  await clock.advance(55_000);
  assert.deepEqual(ended, [1, 2]);
  await clock.advance(3_600_000);
  assert.deepEqual(ended, [1, 2], "a stream that is being answered was cut");
  guard.stop();
});

Deno.test("a connection that asks again is not at rest, and a port's next connection starts anew", async () => {
  const { clock, open, ended, guard } = guarded();
  open.add(1);
  for (let n = 0; n < 10; n++) {
    guard.begin(1)();
    await clock.advance(60_000);
  }
  assert.deepEqual(ended, []);
  open.delete(1);
  await clock.advance(5_000);
  open.add(1);
  await clock.advance(25_000);
  assert.deepEqual(ended, [1], "it was taken for the connection that had asked");
  guard.stop();
});

Deno.test("in a crowd those without a request go at once", async () => {
  const { clock, open, ended, guard } = guarded(10);
  for (let port = 1; port <= 10; port++) open.add(port);
  const ends = [1, 2, 3].map((port) => guard.begin(port));
  await clock.advance(5_000);
  assert.deepEqual(ended, []);
  open.add(11);
  await clock.advance(5_000);
  assert.deepEqual(ended.sort((a, b) => a - b), [4, 5, 6, 7, 8, 9, 10, 11]);
  for (const end of ends) end();
  guard.stop();
});
