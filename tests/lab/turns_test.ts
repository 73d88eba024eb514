import assert from "node:assert/strict";
import { Turns } from "../../lib/lab/turns.ts";

const NEVER = new AbortController().signal;

/** Lets every promise that can go on do so. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

Deno.test("so many at a time, the others in the order they came", async () => {
  const turns = new Turns(2);
  const order: string[] = [];
  const give = new Map<string, () => void>();
  for (const name of ["a", "b", "c", "d"]) {
    turns.take(NEVER).then((back) => {
      order.push(name);
      give.set(name, back);
    });
  }
  await rest();
  assert.deepEqual(order, ["a", "b"]);
  give.get("b")?.();
  give.get("b")?.();
  await rest();
  assert.deepEqual(order, ["a", "b", "c"], "giving back twice counts once");
  give.get("a")?.();
  await rest();
  assert.deepEqual(order, ["a", "b", "c", "d"]);
});

Deno.test("who leaves the queue is passed over", async () => {
  const turns = new Turns(1);
  const back = await turns.take(NEVER);
  const left = new AbortController();
  const gone = turns.take(left.signal);
  const next = turns.take(NEVER);
  left.abort(new RangeError("left"));
  await assert.rejects(gone, /left/);
  back();
  (await next)();
  await assert.rejects(
    turns.take(left.signal).then((one) => one(), (error) => Promise.reject(error)).then(() => {
      throw new Error("a free turn is had at once");
    }),
    /at once/,
  );
});
