/** What is said of a warm: how fast it read, and what isn't known. */
import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { DEFAULT_CACHE_POLICY } from "../../lib/model/cache.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { NewHistoryItem } from "../../lib/model/history.ts";
import type { PageCache, Residency, WarmOutcome } from "../../lib/model/page_cache.ts";
import { warmFiles } from "../../lib/services/warm_work.ts";
import type { ResidencyBook } from "../../lib/services/residency_book.ts";
import { IDLE_CALL } from "./warm_scene.ts";

const SIZE = 3e8;
const WAITED_MS = 11_000;
const READ_MS = 500;
const ABSENT: Residency = {
  kind: "unmeasurable",
  sizeBytes: SIZE,
  cause: "interrupted",
  reason: "not asked",
  atMs: 0,
};

/** Files of 0.3 GB that wait for 11 s and are read in half a second; `diskBytes` is what the kernel's account says. */
async function warmed(diskBytes: readonly (number | null | Failure)[]) {
  const clock = new LabClock();
  const recorded: Omit<NewHistoryItem, "atMs">[] = [];
  let turn = 0;
  const outcome = (path: string, read: number | null): WarmOutcome => ({
    path,
    end: "done",
    reason: null,
    method: "splice",
    sizeBytes: SIZE,
    doneBytes: SIZE,
    diskBytes: read,
    durationMs: READ_MS,
    heldBackMs: 0,
    before: ABSENT,
    after: ABSENT,
  });
  const pageCache = {
    warm: async (path: string) => {
      await clock.advance(WAITED_MS + READ_MS);
      const read = diskBytes[turn++] ?? null;
      if (read instanceof Failure) throw read;
      return outcome(path, read);
    },
  };
  const order = {
    operation: "warm-model",
    tasks: diskBytes.map((_, at) => ({ path: `/models/${at}`, names: [`${at}`], sizeBytes: SIZE, skip: null })),
    skipped: [],
    roots: ["/models"],
  };
  const result = await warmFiles(order, IDLE_CALL, {
    clock,
    // Nothing else of them is used.
    pageCache: pageCache as Partial<PageCache> as PageCache,
    book: { note: () => {} } as Partial<ResidencyBook> as ResidencyBook,
    policy: DEFAULT_CACHE_POLICY,
    record: (item) => recorded.push(item),
  });
  return { result, fields: recorded[0]?.fields };
}

Deno.test("how fast it read doesn't count what it waited for its turn", async () => {
  const { result, fields } = await warmed([SIZE]);
  assert.deepEqual([result.readingMs, result.durationMs], [READ_MS, WAITED_MS + READ_MS]);
  assert.equal(result.message, "Read 0.30 GB from disk in 0.5 s, 0.60 GB/s, 1 file");
  assert.deepEqual([fields?.["gb_per_s"], fields?.["duration_ms"]], [0.6, 11_500]);
});

Deno.test("nor what a file waited that was refused when its turn had come", async () => {
  const { result } = await warmed([SIZE, new Failure("wont_fit", "Cannot warm /models/1: no room")]);
  assert.equal(result.readingMs, READ_MS);
  assert.match(result.message, /^Read 0\.30 GB from disk in 0\.5 s, 0\.60 GB\/s, 1 file; 1 could not be read/);
});

Deno.test("where the kernel keeps no account of one of the files, how much was read isn't known", async () => {
  const { result, fields } = await warmed([SIZE, null]);
  assert.equal(result.readBytes, null);
  assert.equal(result.message, "Read in 1.0 s, 2 files");
  assert.deepEqual([fields?.["read_gb"], fields?.["gb_per_s"]], [null, null]);
});
