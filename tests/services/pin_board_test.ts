import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import { modelFile, pinScene } from "./pin_scene.ts";

const TWO = [modelFile("/a", 0.6e9), modelFile("/b", 0.5e9)];

Deno.test("a model whose files exceed the budget together is refused before the first of them is locked", async () => {
  const small = pinScene();
  const asked: string[] = [];
  small.onPin = (path) => void asked.push(path);
  await assert.rejects(small.pin(TWO), (error) => {
    assert.ok(error instanceof Failure && error.code === "wont_fit");
    assert.match(error.message, /1\.1 GB .* 0 GB .* 1 GB/);
    return true;
  });
  assert.deepEqual([asked, small.locked()], [[], []]);
  const large = pinScene({ budgetBytes: 1.7e9 });
  await large.pin([modelFile("/c", 0.5e9)]);
  // What is locked already counts once.
  assert.deepEqual((await large.pin([modelFile("/c", 0.5e9), ...TWO])).changed.map(({ path }) => path), ["/a", "/b"]);
});

Deno.test("when a later file fails or is called off, what this call locked is let go, and nothing else", async () => {
  const failing = pinScene({ budgetBytes: 9e9 });
  await failing.pin([modelFile("/c", 1e8)]);
  failing.onPin = (path) => {
    if (path === "/b") throw new Failure("unavailable", "Cannot pin /b: its disk fails");
  };
  await assert.rejects(failing.pin([modelFile("/c", 1e8), ...TWO]), /its disk fails/);
  assert.deepEqual(failing.locked(), ["/c"]);
  const cancelled = pinScene({ budgetBytes: 9e9 });
  const abort = new AbortController();
  const cause = new Error("changed my mind");
  cancelled.onPin = () => abort.abort(cause);
  await assert.rejects(cancelled.pin(TWO, { signal: abort.signal }), cause);
  assert.deepEqual(cancelled.locked(), []);
});

Deno.test("what was locked before isn't told as locked now, and small amounts are told in figures that count", async () => {
  const { pin } = pinScene();
  const first = await pin([modelFile("/a", 42_300_000)]);
  assert.equal(first.message, "Locked 0.042 GB; 0.042 GB are out of reach for every other program");
  const again = await pin([modelFile("/a", 42_300_000)]);
  assert.deepEqual(again.changed, []);
  assert.match(again.message, /^Nothing to lock: all of it was locked before; 0\.042 GB are out of reach/);
  assert.match((await pin([modelFile("/b", 131_072)])).message, /^Locked 0\.00013 GB; 0\.042 GB/);
});

Deno.test("a locked file that was deleted or replaced is let go and recorded; one that only went out of sight stays", async () => {
  const { board, disk, records, pin, locked } = pinScene({ budgetBytes: 9e9 });
  const [a, b, c] = [modelFile("/a", 1e8), modelFile("/b", 1e8), modelFile("/c", 1e8)];
  for (const one of [a, b, c]) await pin([one]);
  await board.releaseGone([a, b, c]);
  assert.deepEqual([locked(), records], [["/a", "/b", "/c"], []]);
  // The server of /c is away, and its store with it.
  disk.delete("/a");
  disk.set("/b", "1:another");
  await board.releaseGone([modelFile("/b", 1e8, "1:another")]);
  assert.deepEqual(locked(), ["/c"]);
  assert.deepEqual(board.missingFrom([a]).map(({ path, sizeBytes }) => [path, sizeBytes]), [["/c", 1e8]]);
  assert.deepEqual(records.map(({ kind, fields }) => [kind, fields]), [
    ["pin", { path: "/a", released_gb: 0.1, message: "Unlocked 0.1 GB of /a: it is gone" }],
    ["pin", { path: "/b", released_gb: 0.1, message: "Unlocked 0.1 GB of /b: it was replaced" }],
  ]);
  await board.releaseGone([]);
  assert.deepEqual([locked(), records.length], [["/c"], 2]);
});

Deno.test("a disk that fails is no reason to let go: it is told once why, and nothing is taken for locked meanwhile", async () => {
  const { board, disk, records, pin, locked } = pinScene();
  const a = modelFile("/a", 4e8);
  await pin([a], { name: "one" });
  disk.set("/a", { kind: "unknown", reason: "Input/output error (os error 5): stat '/a'" });
  // The catalogue leaves out what it can't look at.
  for (let look = 0; look < 3; look++) await board.releaseGone([]);
  assert.deepEqual(locked(), ["/a"]);
  const why = "Input/output error (os error 5): stat '/a'";
  const message = `0.4 GB of /a stay locked: whether it is still there can't be told: ${why}`;
  assert.deepEqual(records, [{ kind: "pin", fields: { path: "/a", message } }]);
  const [missing] = board.missingFrom([]);
  assert.ok(missing?.residency?.kind === "unmeasurable" && missing.isPinned);
  assert.deepEqual([missing.residency.reason, missing.names], [why, ["one"]]);
  await assert.rejects(pin([modelFile("/a", 4e8, "1:another")]), (error) => {
    assert.ok(error instanceof Failure && error.code === "unavailable");
    assert.match(error.message, /Input\/output error/);
    return true;
  });
  disk.set("/a", "1:/a");
  await board.releaseGone([]);
  assert.deepEqual([locked(), board.missingFrom([])[0]?.residency], [["/a"], null]);
  disk.delete("/a");
  await board.releaseGone([]);
  assert.deepEqual([locked(), records.length], [[], 2]);
});
