import assert from "node:assert/strict";
import fc from "fast-check";
import { Failure } from "../../lib/model/failure.ts";
import { modelFile, pinScene } from "./pin_scene.ts";

const SHARED = modelFile("/s", 4e8);
const ONE = [SHARED, modelFile("/1", 1e8)];
const TWO = [SHARED, modelFile("/2", 2e8)];
const failing = (path: string) => (asked: string) => {
  if (asked === path) throw new Failure("unavailable", `Cannot pin ${path}: its disk fails`);
};

Deno.test("what two models share counts once and stays locked until the second lets go", async () => {
  const { board, pin, locked } = pinScene({ budgetBytes: 0.7e9 });
  await pin(ONE, { name: "one" });
  const both = await pin(TWO, { name: "two" });
  assert.deepEqual([both.lockedBytes, both.changed.map(({ path }) => path)], [7e8, ["/2"]]);
  assert.deepEqual(both.pinned.map(({ path, heldFor }) => [path, heldFor]), [
    ["/s", ["one", "two"]],
    ["/1", ["one"]],
    ["/2", ["two"]],
  ]);
  const without = await board.unpin({ name: "one", files: ONE });
  assert.deepEqual(locked(), ["/2", "/s"]);
  assert.equal(
    without.message,
    "Unlocked 0.1 GB; 0.4 GB stay locked for two; 0.6 GB are out of reach for every other program",
  );
  const again = await board.unpin({ name: "one", files: ONE });
  assert.match(again.message, /^Nothing unlocked; 0\.4 GB stay locked for two;/);
  assert.equal((await board.unpin({ name: "two", files: TWO })).message, "Unlocked 0.6 GB");
  assert.equal((await board.unpin({ name: "two", files: TWO })).message, "Nothing was pinned");
  assert.deepEqual(locked(), []);
});

Deno.test("a pin that is rolled back leaves what another one counts on, asked for before it, with it or after it", async () => {
  const before = pinScene({ budgetBytes: 9e9 });
  await before.pin(TWO, { name: "two" });
  before.onPin = failing("/1");
  await assert.rejects(before.pin(ONE, { name: "one" }), /its disk fails/);
  assert.deepEqual(before.locked(), ["/2", "/s"]);
  // It is asked for while the other one reads its second file.
  const meanwhile = pinScene({ budgetBytes: 9e9 });
  const gate = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  meanwhile.onPin = async (path) => {
    if (path !== "/1") return;
    reached.resolve();
    await gate.promise;
    failing("/1")(path);
  };
  const one = assert.rejects(meanwhile.pin(ONE, { name: "one" }), /its disk fails/);
  await reached.promise;
  const two = meanwhile.pin(TWO, { name: "two" });
  gate.resolve();
  await one;
  assert.deepEqual((await two).pinned.map(({ path, heldFor }) => [path, heldFor]), [["/s", ["two"]], ["/2", ["two"]]]);
  assert.deepEqual(meanwhile.locked(), ["/2", "/s"]);
});

Deno.test("where the shared file itself was called off, the one that waits for it locks it", async () => {
  const scene = pinScene({ budgetBytes: 9e9 });
  const abort = new AbortController();
  let asked = 0;
  const reached = Promise.withResolvers<void>();
  scene.onPin = (path) => {
    if (path !== "/s" || ++asked > 1) return;
    reached.resolve();
    return new Promise(() => {});
  };
  const one = assert.rejects(scene.pin(ONE, { name: "one", signal: abort.signal }), /changed my mind/);
  const two = scene.pin(TWO, { name: "two" });
  await reached.promise;
  abort.abort(new Error("changed my mind"));
  await one;
  assert.deepEqual((await two).changed.map(({ path }) => path), ["/s", "/2"]);
});

Deno.test("unpinning calls off what is under way or waits, and the one that was pinned before is whole again", async () => {
  const scene = pinScene({ budgetBytes: 9e9 });
  const reached = Promise.withResolvers<void>();
  scene.onPin = (path) => {
    if (path !== "/1") return;
    reached.resolve();
    return new Promise(() => {});
  };
  const isCalledOff = (error: unknown) => {
    assert.ok(error instanceof Failure && error.code === "cancelled");
    assert.equal(error.message, "Cannot pin one: it was unpinned meanwhile");
    return true;
  };
  const running = assert.rejects(scene.pin(ONE, { name: "one" }), isCalledOff);
  const waiting = assert.rejects(scene.pin([modelFile("/3", 1e8)], { name: "one" }), isCalledOff);
  await reached.promise;
  assert.equal((await scene.board.unpin({ name: "one", files: ONE })).message, "Unlocked 0.4 GB");
  await Promise.all([running, waiting]);
  assert.deepEqual(scene.locked(), []);
  assert.equal((await scene.board.unpin({ name: "one", files: ONE })).message, "Nothing was pinned");
});

Deno.test("a file that goes while the rest of its model is read ends that pin, whoever else holds it", async () => {
  const scene = pinScene({ budgetBytes: 9e9 });
  await scene.pin(TWO, { name: "two" });
  const reached = Promise.withResolvers<void>();
  scene.onPin = () => {
    reached.resolve();
    return new Promise(() => {});
  };
  const one = assert.rejects(scene.pin(ONE, { name: "one" }), /Cannot pin one: \/s: it is gone/);
  await reached.promise;
  scene.disk.delete("/s");
  await scene.board.releaseGone([]);
  await one;
  assert.deepEqual(scene.locked(), ["/2"]);
});

Deno.test("by its path a file is let go for the one model that holds it; where several do, each has to be named", async () => {
  const { board, pin, locked } = pinScene({ budgetBytes: 9e9 });
  await pin(ONE, { name: "one" });
  await pin(TWO, { name: "two" });
  await pin([SHARED], { name: SHARED.path });
  assert.match((await board.unpinFile("/s")).message, /^Nothing unlocked; 0\.4 GB stay locked for one, two;/);
  assert.match((await board.unpinFile("/s")).message, /^Nothing unlocked; 0\.4 GB stay locked for one, two;/);
  await board.unpin({ name: "one", files: ONE });
  assert.match((await board.unpinFile("/s")).message, /^Unlocked 0\.4 GB;/);
  assert.deepEqual(locked(), ["/2"]);
  assert.equal((await board.unpinFile("/x")).message.split(";")[0], "Nothing was pinned");
});

Deno.test("a second name of a locked file is the same file", async () => {
  const { board, pin, locked } = pinScene({ budgetBytes: 0.5e9 });
  await pin([SHARED], { name: "one" });
  const link = { ...SHARED, path: "/link" };
  const two = await pin([link], { name: "two" });
  assert.deepEqual([two.changed, two.lockedBytes, locked()], [[], 4e8, ["/s"]]);
  assert.deepEqual([...board.lockedOf([link])], ["/link"]);
  assert.deepEqual(board.missingFrom([link]), []);
  await board.unpin({ name: "one", files: [SHARED] });
  assert.deepEqual(locked(), ["/s"]);
  await board.unpin({ name: "two", files: [link] });
  assert.deepEqual(locked(), []);
});

Deno.test("pinned twice at once and unpinned once, it is let go; the failure of one doesn't undo the other", async () => {
  const scene = pinScene({ budgetBytes: 9e9 });
  let asked = 0;
  scene.onPin = (path) => {
    if (path === "/1" && ++asked === 1) failing("/1")(path);
  };
  const first = assert.rejects(scene.pin(ONE, { name: "one" }), /its disk fails/);
  const second = scene.pin(ONE, { name: "one" });
  await first;
  assert.deepEqual((await second).pinned.map(({ heldFor }) => heldFor), [["one"], ["one"]]);
  await scene.pin(ONE, { name: "one" });
  await scene.board.unpin({ name: "one", files: ONE });
  assert.deepEqual(scene.locked(), []);
});

Deno.test("in whatever order pins, failures and unpins meet: locked is what the pins that count hold, no more and no less", async () => {
  const files = [1, 2, 3, 4].map((n) => modelFile(`/${n}`, 1e8));
  const models = { a: [0, 1], b: [1, 2], c: [0, 2, 3] } as const;
  const name = fc.constantFrom("a", "b", "c");
  const step = fc.record({ kind: fc.constantFrom("pin", "pin", "unpin", "cancel"), name, wait: fc.nat(12) });
  const failures = fc.array(fc.constantFrom(false, false, false, true), { minLength: 30, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), failures, async (steps, fails) => {
      const scene = pinScene({ budgetBytes: 9e9 });
      let calls = 0;
      scene.onPin = async () => {
        const hasFailed = fails[calls++ % fails.length];
        for (let turn = 0; turn < calls % 4; turn++) await null;
        if (hasFailed) throw new Failure("unavailable", "its disk fails");
      };
      const orders: { name: "a" | "b" | "c"; abort: AbortController; isUnpinned: boolean; ended: Promise<boolean> }[] =
        [];
      for (const { kind, name, wait } of steps) {
        const own = models[name].flatMap((index) => files[index] ?? []);
        if (kind === "pin") {
          const abort = new AbortController();
          const ended = scene.pin(own, { name, signal: abort.signal }).then(() => true, () => false);
          orders.push({ name, abort, isUnpinned: false, ended });
        } else if (kind === "unpin") {
          for (const order of orders) if (order.name === name) order.isUnpinned = true;
          void scene.board.unpin({ name, files: own });
        } else {
          orders.findLast((order) => order.name === name)?.abort.abort(new Error("changed my mind"));
        }
        for (let turn = 0; turn < wait; turn++) await null;
      }
      const counting = new Set<"a" | "b" | "c">();
      for (const { name, isUnpinned, ended } of orders) if (await ended && !isUnpinned) counting.add(name);
      const expected = [...counting].flatMap((name) => models[name].map((index) => files[index]?.path ?? ""));
      assert.deepEqual(scene.locked(), [...new Set(expected)].toSorted());
    }),
    { numRuns: 300 },
  );
});
