import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import type { PageCache, WarmCall, WarmProgress } from "../../lib/model/page_cache.ts";
import { GIB, MIB } from "../../lib/model/units.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectPageCache } from "../../lib/workers/page_cache_client.ts";
import { ManualClock } from "./manual_clock.ts";
import { type CachedFile, cachedFile, PAGE, range, whyNotHere } from "../sample/cached_file.ts";

const reason = whyNotHere();
if (reason !== null) console.log(`tests/workers/page_cache_client_test.ts: in part skipped, since ${reason}`);

interface Given {
  readonly cache: PageCache;
  readonly file: CachedFile;
  call(given?: Partial<WarmCall>): WarmCall;
}

function onDisk(name: string, run: (given: Given) => Promise<void>): void {
  Deno.test({
    name,
    ignore: reason !== null,
    async fn() {
      await using file = await cachedFile({ sizeBytes: 32 * MIB });
      const cache = connectPageCache({ clock: systemClock() });
      const call = (given: Partial<WarmCall> = {}): WarmCall => ({
        roots: [file.folder],
        // A pace of its own, so that what other tests do to the disk changes nothing.
        bytesPerS: 100e9,
        reserveBytes: 64 * MIB,
        ...given,
      });
      try {
        await run({ cache, file, call });
      } finally {
        await cache.close();
      }
    },
  });
}

async function failure(promise: Promise<unknown>): Promise<Failure> {
  const error = await promise.then(() => null, (error) => error);
  assert.ok(error instanceof Failure, String(error));
  return error;
}

onDisk("a cold file is warm afterwards, and what is said of it was measured", async ({ cache, file, call }) => {
  assert.equal(file.evict(), 0);
  const told: WarmProgress[] = [];
  const outcome = await cache.warm(file.path, call({ onProgress: (progress) => told.push(progress) }));
  assert.deepEqual([outcome.end, outcome.reason, outcome.doneBytes], ["done", null, file.sizeBytes]);
  assert.equal(outcome.diskBytes, file.sizeBytes, "all of it came from the disk");
  assert.equal(file.resident(), file.sizeBytes / PAGE);
  assert.ok(outcome.before.kind === "measured" && outcome.before.share === 0);
  assert.ok(outcome.after.kind === "measured" && outcome.after.share === 1 && outcome.after.method === "cachestat");
  assert.deepEqual([told[0]?.state, told[0]?.ahead, told[1]?.state], ["queued", 0, "warming"]);
  assert.deepEqual(cache.queue(), []);
  const again = await cache.warm(file.path, call());
  assert.deepEqual([again.end, again.diskBytes], ["done", 0], "the second time nothing is read from the disk");
});

onDisk("one runs, the rest wait in turn and can be seen", async ({ cache, file, call }) => {
  file.evict();
  const order: string[] = [];
  const paths = ["a", "b"].map((name) => `${file.folder}/${name}`);
  for (const path of paths) await Deno.copyFile(file.path, path);
  const warms = [file.path, ...paths].map((path) => cache.warm(path, call()).then(({ path }) => order.push(path)));
  assert.deepEqual(cache.queue().map(({ path, ahead, state }) => [path, ahead, state]), [
    [file.path, 0, "queued"],
    [paths[0], 1, "queued"],
    [paths[1], 2, "queued"],
  ]);
  await Promise.all(warms);
  assert.deepEqual(order, [file.path, ...paths]);
});

onDisk("a cancel ends it where it is, and the next one runs", async ({ cache, file, call }) => {
  file.evict();
  const abort = new AbortController();
  const told: string[] = [];
  const outcome = await cache.warm(file.path, {
    ...call({ bytesPerS: 8e6 }),
    signal: abort.signal,
    onProgress: ({ state, doneBytes }) => {
      told.push(state);
      if (doneBytes > 0) abort.abort(new Error("enough"));
    },
  });
  assert.equal(outcome.end, "cancelled");
  assert.ok(outcome.doneBytes > 0 && outcome.doneBytes < file.sizeBytes, String(outcome.doneBytes));
  assert.equal(told.at(-1), "cancelling");
  const next = await cache.warm(file.path, call());
  assert.deepEqual([next.end, file.resident()], ["done", file.sizeBytes / PAGE]);
});

for (
  const [how, change] of [
    ["deleted", (path: string) => Deno.removeSync(path)],
    ["replaced", (path: string) => Deno.renameSync(`${path}.new`, path)],
  ] as const
) {
  onDisk(`a file that is ${how} meanwhile is not read to its end for nobody`, async ({ cache, file, call }) => {
    await Deno.copyFile(file.path, `${file.path}.new`);
    file.evict();
    let isChanged = false;
    const outcome = await cache.warm(file.path, {
      // Half a minute for all of it.
      ...call({ bytesPerS: 1e6 }),
      onProgress: ({ doneBytes }) => {
        if (doneBytes === 0 || isChanged) return;
        isChanged = true;
        change(file.path);
      },
    });
    assert.deepEqual([outcome.end, outcome.reason], ["changed", "The file was deleted or replaced while it was read"]);
    assert.ok(outcome.doneBytes < file.sizeBytes, String(outcome.doneBytes));
  });
}

onDisk("held back, it reads no more than it says: the kernel brings in nothing ahead of it", async (given) => {
  const { cache, file, call } = given;
  file.evict();
  const abort = new AbortController();
  const outcome = await cache.warm(file.path, {
    ...call({ bytesPerS: 8e6 }),
    signal: abort.signal,
    onProgress: ({ doneBytes }) => {
      if (doneBytes > 0) abort.abort(new Error("enough"));
    },
  });
  assert.ok(outcome.doneBytes < file.sizeBytes / 2, String(outcome.doneBytes));
  assert.ok(file.resident() * PAGE <= outcome.doneBytes, `${file.resident() * PAGE} of ${outcome.doneBytes}`);
});

onDisk(
  "one that waits can leave, and whoever waits behind it doesn't come too early",
  async ({ cache, file, call }) => {
    const abort = new AbortController();
    const first = cache.warm(file.path, call({ bytesPerS: 100e6 }));
    const second = cache.warm(file.path, { ...call(), signal: abort.signal });
    const third = cache.warm(file.path, call());
    const left = second.then(() => "ran", (error) => error);
    let hasFirstEnded = false;
    first.then(() => hasFirstEnded = true);
    const cause = new Error("changed my mind");
    abort.abort(cause);
    assert.equal(await left, cause);
    assert.equal(cache.queue().length, 2);
    await third;
    assert.ok(hasFirstEnded);
    const gone = new AbortController();
    gone.abort(cause);
    await assert.rejects(cache.warm(file.path, { ...call(), signal: gone.signal }), cause);
  },
);

onDisk("what mustn't be read is refused, and holds up nobody", async ({ cache, file, call }) => {
  const outside = await failure(cache.warm("/etc/passwd", call()));
  assert.deepEqual([outside.code, outside.hint !== null], ["forbidden", true]);
  assert.equal((await failure(cache.warm(`${file.folder}/none`, call()))).code, "not_found");
  assert.equal((await failure(cache.warm(`${file.folder}/../x`, call()))).code, "invalid_input");
  assert.equal((await cache.warm(file.path, call())).end, "done");
});

/** The kernel has no speed of the loopback device: to read it is EINVAL, as of a bad sector it is EIO. */
const LOOPBACK = "/sys/devices/virtual/net/lo";

Deno.test({
  name: "a file that its disk doesn't give is that file's own failure, and the next one is read",
  ignore: !isUnreadable(`${LOOPBACK}/speed`),
  async fn() {
    const cache = connectPageCache({ clock: systemClock() });
    const call: WarmCall = { roots: [LOOPBACK], bytesPerS: 1e9, reserveBytes: 0 };
    try {
      const given = await failure(cache.warm(`${LOOPBACK}/speed`, call));
      assert.deepEqual([given.code, given.message], ["unavailable", `Cannot read ${LOOPBACK}/speed: EINVAL`]);
      assert.deepEqual([given.hint !== null, given.details], [true, { call: "pread", errno: 22 }]);
      assert.equal((await cache.warm(`${LOOPBACK}/mtu`, call)).path, `${LOOPBACK}/mtu`);
    } finally {
      await cache.close();
    }
  },
});

function isUnreadable(path: string): boolean {
  try {
    Deno.readTextFileSync(path);
    return false;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EINVAL";
  }
}

onDisk("what has no room is refused before anything is read", async ({ cache, file, call }) => {
  file.evict();
  const noRoom = await failure(cache.warm(file.path, call({ reserveBytes: 1_000_000 * GIB })));
  assert.equal(noRoom.code, "wont_fit");
  assert.deepEqual(noRoom.details, { neededBytes: file.sizeBytes, roomBytes: 0 });
  assert.equal(file.resident(), 0);
});

onDisk("many files in one question, each with its own answer in its place", async ({ cache, file, call }) => {
  file.evict();
  file.load(range(0, 1_024));
  const found = await cache.measure([`${file.folder}/none`, file.path, "/etc/passwd"], call());
  const [gone, some, refused] = found;
  assert.deepEqual([gone?.kind, refused?.kind], ["unmeasurable", "unmeasurable"]);
  assert.deepEqual(found.map((one) => one.kind === "measured" ? "measured" : one.cause), [
    "gone",
    "measured",
    "refused",
  ]);
  assert.ok(some?.kind === "measured");
  // The kernel may take a page back meanwhile, never give one: what is left now is the least it can have been.
  const share = () => file.resident() / (file.sizeBytes / file.libc.pageSizeBytes);
  assert.ok(some.share <= 0.125 && some.share >= share(), `${share()} ≤ ${some.share} ≤ 0.125`);
  assert.deepEqual(await cache.measure([], call()), []);
  const [probed] = await cache.probe([file.path], call());
  assert.ok(probed?.kind === "measured" && probed.share <= 0.125 && probed.share >= share());
});

onDisk("a folder that can't be opened costs the files of the others nothing", async ({ cache, file, call }) => {
  const { roots } = call();
  const [found] = await cache.measure([file.path], { roots: [`/${"x".repeat(300)}`, ...roots] });
  assert.equal(found?.kind, "measured");
});

onDisk("a question can be given up", async ({ cache, file, call }) => {
  const abort = new AbortController();
  const cause = new Error("no longer needed");
  const asked = cache.measure(Array.from({ length: 2_000 }, () => file.path), { ...call(), signal: abort.signal });
  abort.abort(cause);
  await assert.rejects(asked, cause);
  assert.equal((await cache.measure([file.path], call())).length, 1);
});

onDisk("pinned pages stay until they are let go", async ({ cache, file, call }) => {
  file.evict();
  const { roots } = call();
  const refused = await failure(cache.pin(file.path, { roots, budgetBytes: MIB }));
  assert.equal(refused.code, "wont_fit");
  let pinned;
  try {
    pinned = await cache.pin(file.path, { roots, budgetBytes: GIB });
  } catch (error) {
    // Without the right to lock this much, that is what must be said.
    assert.ok(error instanceof Failure && error.code === "forbidden" && /LimitMEMLOCK/.test(error.hint ?? ""));
    return console.log("the rest is skipped, since this user may not lock 32 MiB");
  }
  assert.equal(pinned.lockedBytes, file.sizeBytes);
  assert.ok(pinned.availableBeforeBytes !== null && pinned.availableAfterBytes !== null);
  assert.deepEqual(cache.pinned().map(({ path }) => path), [file.path]);
  assert.equal(file.evict(), file.sizeBytes / PAGE, "nobody can drop what is locked");
  assert.equal((await cache.pin(file.path, { roots, budgetBytes: GIB })).lockedBytes, file.sizeBytes, "once is enough");
  assert.equal((await failure(cache.pin(`${file.folder}/none`, { roots, budgetBytes: GIB }))).code, "not_found");
  assert.equal(await cache.unpin(file.path), true);
  assert.equal(await cache.unpin(file.path), false);
  assert.deepEqual(cache.pinned(), []);
  assert.equal(file.evict(), 0);
});

/** A /proc of a machine with so much available, and nothing else. */
async function machineWith(availableBytes: number): Promise<string> {
  const procRoot = await Deno.makeTempDir();
  await availableNow(procRoot, availableBytes);
  return procRoot;
}

async function availableNow(procRoot: string, bytes: number): Promise<void> {
  const kib = Math.round(bytes / 1024);
  const text = `MemTotal: 33554432 kB\nMemFree: ${kib} kB\nMemAvailable: ${kib} kB\nCached: 0 kB\n`;
  await Deno.writeTextFile(`${procRoot}/meminfo.new`, text);
  await Deno.rename(`${procRoot}/meminfo.new`, `${procRoot}/meminfo`);
}

onDisk(
  "memory that others take meanwhile ends it, and the rest of the file stays on the disk",
  async ({ file, call }) => {
    file.evict();
    const procRoot = await machineWith(8 * GIB);
    let lowered: Promise<void> | null = null;
    const cache = connectPageCache({ clock: systemClock(), procRoot });
    try {
      const outcome = await cache.warm(
        file.path,
        call({
          bytesPerS: 16e6,
          reserveBytes: 4 * GIB,
          onProgress: ({ doneBytes }) => {
            if (doneBytes > 0) lowered ??= availableNow(procRoot, 3 * GIB);
          },
        }),
      );
      assert.equal(outcome.end, "memory_floor");
      assert.match(outcome.reason ?? "", /fell to 3 GiB/);
      assert.ok(outcome.doneBytes < file.sizeBytes);
      assert.ok(outcome.after.kind === "measured" && outcome.after.share < 1);
      await lowered;
      await availableNow(procRoot, 8 * GIB);
      const polite = await cache.warm(file.path, call({ bytesPerS: "auto" }));
      assert.equal(polite.end, "done", "without statistics of the disk it is polite all the time, and still ends");
    } finally {
      await cache.close();
      await Deno.remove(procRoot, { recursive: true });
    }
  },
);

onDisk("a warm that gets nowhere for 30 s is given up, and its Worker with it", async ({ file, call }) => {
  file.evict();
  const clock = new ManualClock();
  const cache = connectPageCache({ clock });
  try {
    const begun = Promise.withResolvers<void>();
    const stuck = cache.warm(
      file.path,
      call({
        // A byte a second: it stands still as one whose share is gone does.
        bytesPerS: 1,
        onProgress: ({ state }) => state === "warming" && begun.resolve(),
      }),
    ).then(() => "ran", (error) => error);
    await begun.promise;
    clock.advance(30_000);
    // A first chunk may have come in between.
    clock.advance(31_000);
    const given = await stuck;
    assert.ok(given instanceof Failure && given.code === "unavailable", String(given));
    assert.match(given.message, /has not answered for 30 s/);
    assert.equal((await cache.warm(file.path, call())).end, "done", "another Worker takes the next");
  } finally {
    await cache.close();
  }
});

onDisk("closing lets pinned pages go and ends what runs", async ({ cache, file, call }) => {
  const { roots } = call();
  const isPinned = await cache.pin(file.path, { roots, budgetBytes: GIB }).then(() => true, () => false);
  const running = cache.warm(file.path, call({ bytesPerS: 1e6 })).then(() => "ran", (error) => error);
  const waiting = cache.warm(file.path, call()).then(() => "ran", (error) => error);
  await cache.close();
  assert.ok(await running instanceof Failure);
  assert.ok(await waiting instanceof Failure);
  if (isPinned) assert.equal(file.evict(), 0);
  const [after] = await cache.measure([file.path], call());
  assert.ok(after?.kind === "unmeasurable" && after.cause === "interrupted");
});
