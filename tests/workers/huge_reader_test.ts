/** Reading by faults in huge pages: what comes in, what is let go of, and what is left to another way of reading. */
import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import { MIB } from "../../lib/model/units.ts";
import { HugeReader } from "../../lib/workers/huge_reader.ts";
import { cachedFile, PAGE, whyNotHere } from "../sample/cached_file.ts";

const reason = whyNotHere();
if (reason !== null) console.log(`tests/workers/huge_reader_test.ts: in part skipped, since ${reason}`);

Deno.test({
  name:
    "each call brings in what it was asked for, up to 8 MiB or the end of what is mapped, and nothing is mapped once it was let go of",
  ignore: reason !== null,
  async fn() {
    await using file = await cachedFile({ sizeBytes: 40 * MIB });
    file.evict();
    const fd = file.libc.open(file.path, { flags: ["read"] });
    const reader = new HugeReader(file.pages, fd);
    assert.equal(reader.read({ offset: 3 * MIB, length: 8 * MIB }), 8 * MIB);
    assert.equal(file.pages.cachestat(fd, { offset: 3 * MIB, length: 8 * MIB }).cachedPages, 8 * MIB / PAGE);
    assert.equal(reader.read({ offset: 11 * MIB, length: 20 * MIB }), 8 * MIB, "a cancel waits for no more than that");
    // Over the edge, from a page that was there before.
    file.load([31 * MIB / PAGE]);
    assert.equal(reader.read({ offset: 31 * MIB, length: 8 * MIB }), MIB);
    let at = 0;
    for (; at < file.sizeBytes; at += reader.read({ offset: at, length: file.sizeBytes - at }) ?? NaN);
    assert.deepEqual([at, file.resident()], [file.sizeBytes, file.sizeBytes / PAGE]);
    assert.ok(file.evict() > 0, "mapped pages can't be dropped");
    reader.release();
    assert.equal(file.evict(), 0);
    file.libc.close(fd);
  },
});

Deno.test({
  name: "a file that became shorter is refused rather than fatal",
  ignore: reason !== null,
  async fn() {
    await using file = await cachedFile({ sizeBytes: 4 * MIB });
    const fd = file.libc.open(file.path, { flags: ["read"] });
    const reader = new HugeReader(file.pages, fd);
    assert.equal(reader.read({ offset: 0, length: MIB }), MIB);
    await Deno.truncate(file.path, MIB);
    assert.equal(reader.read({ offset: 2 * MIB, length: MIB }), null);
    assert.equal(reader.read({ offset: 0, length: MIB }), null, "it isn't tried again");
    file.libc.close(fd);
  },
});

Deno.test("what can't be mapped is left to another way of reading", () => {
  using libc = openLibc();
  using pages = openPageCalls();
  const fd = libc.open("/proc/self/stat", { flags: ["read"] });
  assert.equal(new HugeReader(pages, fd).read({ offset: 0, length: 1 }), null);
  libc.close(fd);
});
