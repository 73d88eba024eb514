import assert from "node:assert/strict";
import type { PinResult } from "../../lib/model/cache.ts";
import { DEFAULT_CACHE_POLICY } from "../../lib/model/cache.ts";
import type { ModelFile } from "../../lib/model/catalogue.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { PageCache, PinnedFile } from "../../lib/model/page_cache.ts";
import { NO_CACHE } from "../../lib/services/no_cache.ts";
import { PinBoard } from "../../lib/services/pin_board.ts";

interface Bench {
  readonly board: PinBoard;
  readonly records: Readonly<Record<string, unknown>>[];
  /** By path, what lies on the disk. */
  readonly disk: Map<string, string>;
  /** Called when a file is about to be locked. */
  onPin: (path: string) => void;
  pin(files: readonly ModelFile[], signal?: AbortSignal): Promise<PinResult>;
  locked(): readonly string[];
}

const file = (path: string, sizeBytes: number, id = `1:${path}`): ModelFile => ({
  path,
  sizeBytes,
  id,
  modifiedAtMs: null,
});

/** A board over a page cache that locks whatever it is told to. */
function bench({ budgetBytes = 1e9 } = {}): Bench {
  const pinned = new Map<string, PinnedFile>();
  const disk = new Map<string, string>();
  const records: Bench["records"] = [];
  const pageCache: PageCache = {
    ...NO_CACHE.pageCache,
    pin(path, { signal }) {
      signal?.throwIfAborted();
      one.onPin(path);
      const locked = { path, lockedBytes: sizes.get(path) ?? 0, sinceMs: 0 };
      pinned.set(path, locked);
      return Promise.resolve({ ...locked, availableBeforeBytes: null, availableAfterBytes: null });
    },
    unpin: (path) => Promise.resolve(pinned.delete(path)),
    pinned: () => [...pinned.values()],
  };
  const sizes = new Map<string, number>();
  const board = new PinBoard({
    pageCache,
    files: {
      stat(path) {
        const id = disk.get(path);
        return Promise.resolve(id === undefined ? null : { kind: "file", sizeBytes: 0, modifiedAtMs: null, id });
      },
    },
    memory: () => null,
    policy: { ...DEFAULT_CACHE_POLICY, pinBudgetBytes: budgetBytes },
    record: (item) => records.push(item),
  });
  const one: Bench = {
    board,
    records,
    disk,
    onPin: () => {},
    pin(files, signal = new AbortController().signal) {
      for (const { path, sizeBytes, id } of files) {
        sizes.set(path, sizeBytes);
        if (!disk.has(path)) disk.set(path, id);
      }
      return board.pin({ files, roots: ["/"], budgetBytes: null }, { signal, progress: () => {} });
    },
    locked: () => [...pinned.keys()],
  };
  return one;
}

const TWO = [file("/a", 0.6e9), file("/b", 0.5e9)];

Deno.test("a model whose files exceed the budget together is refused before the first of them is locked", async () => {
  const small = bench();
  const asked: string[] = [];
  small.onPin = (path) => asked.push(path);
  await assert.rejects(small.pin(TWO), (error) => {
    assert.ok(error instanceof Failure && error.code === "wont_fit");
    assert.match(error.message, /1\.1 GB .* 0 GB .* 1 GB/);
    return true;
  });
  assert.deepEqual([asked, small.locked()], [[], []]);
  const large = bench({ budgetBytes: 1.7e9 });
  await large.pin([file("/c", 0.5e9)]);
  // What is locked already counts once.
  assert.deepEqual((await large.pin([file("/c", 0.5e9), ...TWO])).changed.map(({ path }) => path), ["/a", "/b"]);
});

Deno.test("when a later file fails or is called off, what this call locked is let go, and nothing else", async () => {
  const failing = bench({ budgetBytes: 9e9 });
  await failing.pin([file("/c", 1e8)]);
  failing.onPin = (path) => {
    if (path === "/b") throw new Failure("unavailable", "Cannot pin /b: its disk fails");
  };
  await assert.rejects(failing.pin([file("/c", 1e8), ...TWO]), /its disk fails/);
  assert.deepEqual(failing.locked(), ["/c"]);
  const cancelled = bench({ budgetBytes: 9e9 });
  const abort = new AbortController();
  const cause = new Error("changed my mind");
  cancelled.onPin = () => abort.abort(cause);
  await assert.rejects(cancelled.pin(TWO, abort.signal), cause);
  assert.deepEqual(cancelled.locked(), []);
});

Deno.test("what was locked before isn't told as locked now, and small amounts are told in figures that count", async () => {
  const { pin } = bench();
  const first = await pin([file("/a", 42_300_000)]);
  assert.equal(first.message, "Locked 0.042 GB; 0.042 GB are out of reach for every other program");
  const again = await pin([file("/a", 42_300_000)]);
  assert.deepEqual(again.changed, []);
  assert.match(again.message, /^Nothing to lock: all of it was locked before; 0\.042 GB are out of reach/);
  assert.match((await pin([file("/b", 131_072)])).message, /^Locked 0\.00013 GB; 0\.042 GB/);
});

Deno.test("a locked file that was deleted or replaced is let go and recorded; one that only went out of sight stays", async () => {
  const { board, disk, records, pin, locked } = bench({ budgetBytes: 9e9 });
  const [a, b, c] = [file("/a", 1e8), file("/b", 1e8), file("/c", 1e8)];
  await pin([a, b, c]);
  await board.releaseGone([a, b, c]);
  assert.deepEqual([locked(), records], [["/a", "/b", "/c"], []]);
  // The server of /c is away, and its store with it.
  disk.delete("/a");
  disk.set("/b", "1:another");
  await board.releaseGone([file("/b", 1e8, "1:another")]);
  assert.deepEqual(locked(), ["/c"]);
  assert.deepEqual(board.missingFrom([a]), [{ path: "/c", sizeBytes: 1e8 }]);
  assert.deepEqual(records.map(({ kind, fields }) => [kind, fields]), [
    ["pin", { path: "/a", released_gb: 0.1, message: "Unlocked 0.1 GB of /a: it is gone" }],
    ["pin", { path: "/b", released_gb: 0.1, message: "Unlocked 0.1 GB of /b: it was replaced" }],
  ]);
  await board.releaseGone([]);
  assert.deepEqual([locked(), records.length], [["/c"], 2]);
});
