import assert from "node:assert/strict";
import { ErrnoError } from "../../ffi/errno.ts";
import { openFileDrain } from "../../ffi/file_drain.ts";
import { openLibc } from "../../ffi/libc.ts";
import { MIB } from "../../lib/model/units.ts";
import { cachedFile, PAGE, whyNotHere } from "../sample/cached_file.ts";

const reason = whyNotHere();
if (reason !== null) console.log(`tests/ffi/file_drain_test.ts: in part skipped, since ${reason}`);

Deno.test({
  name: "what was drained is resident, call by call, up to the end of the file",
  ignore: reason !== null,
  async fn() {
    await using file = await cachedFile();
    using drain = openFileDrain();
    file.evict();
    const fd = file.libc.open(file.path, { flags: ["read"] });
    assert.equal(drain.read(fd, { offset: MIB, length: 256 * PAGE }), 256 * PAGE);
    assert.equal(file.pages.cachestat(fd, { offset: MIB, length: MIB }).cachedPages, 256);
    assert.equal(drain.read(fd, { offset: file.sizeBytes - 10, length: 100 }), 10);
    assert.equal(drain.read(fd, { offset: file.sizeBytes, length: 100 }), 0);
    assert.equal(drain.method, "splice");
    let at = 0;
    for (let got = -1; got !== 0; at += got) got = drain.read(fd, { offset: at, length: 8 * MIB });
    assert.deepEqual([at, file.resident()], [file.sizeBytes, file.sizeBytes / PAGE]);
    file.libc.close(fd);
  },
});

Deno.test("what can't be spliced is read instead", () => {
  using libc = openLibc();
  using drain = openFileDrain();
  assert.ok(drain.capacityBytes === MIB || drain.capacityBytes === 65_536);
  const fd = libc.open("/proc/self/pagemap", { flags: ["read"] });
  assert.equal(drain.read(fd, { offset: 0, length: 800 }), 800);
  assert.equal(drain.method, "read");
  libc.close(fd);
  assert.throws(() => drain.read(999, { offset: 0, length: 1 }), (error) => {
    assert.ok(error instanceof ErrnoError);
    return error.call === "pread" && error.code === "EBADF";
  });
});

/** Tests beside this one open and close descriptors of the same process, so one quiet moment in many has to do. */
const MOMENTS = 200;

Deno.test("a closed drain is an error, and leaves no descriptor", () => {
  const count = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const seen = Array.from({ length: MOMENTS }, () => {
    const before = count();
    const drain = openFileDrain();
    const open = count();
    drain[Symbol.dispose]();
    drain[Symbol.dispose]();
    assert.throws(() => drain.read(0, { offset: 0, length: 1 }), /it is closed/);
    return [open - before, count() - before];
  });
  // One that leaked would never be back where it began.
  assert.ok(seen.some(([opened, left]) => opened === 3 && left === 0), JSON.stringify(seen.slice(0, 5)));
});
