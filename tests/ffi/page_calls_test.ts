import assert from "node:assert/strict";
import { ErrnoError } from "../../ffi/errno.ts";
import { fileSystemOf } from "../../ffi/file_system.ts";
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import { MIB } from "../../lib/model/units.ts";
import { cachedFile, PAGE, range, whyNotHere } from "../sample/cached_file.ts";

const reason = whyNotHere();
const onDisk = { ignore: reason !== null };
if (reason !== null) console.log(`tests/ffi/page_calls_test.ts: skipped, since ${reason}`);

function code(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ErrnoError, String(error));
    return `${error.call} ${error.code}`;
  }
  return "nothing was thrown";
}

Deno.test({
  name: "cachestat and mincore count the same pages, and a byte tells which are there",
  ...onDisk,
  async fn() {
    await using file = await cachedFile();
    const { libc, pages, path, sizeBytes } = file;
    assert.equal(file.evict(), 0);
    file.load(range(0, 256));
    file.load([1_000, 4_095]);
    const fd = libc.open(path, { flags: ["read"] });
    pages.advise(fd, "random");
    assert.equal(pages.cachestat(fd).cachedPages, 258);
    assert.equal(pages.cachestat(fd, { offset: 256 * PAGE, length: 800 * PAGE }).cachedPages, 1);
    assert.equal(pages.countByMincore(fd, sizeBytes), 258);
    assert.equal(pages.countByMincore(fd, 257 * PAGE), 256);
    assert.equal(pages.readByte(fd, { offset: 255 * PAGE, isWaiting: false }), "data");
    assert.equal(pages.readByte(fd, { offset: sizeBytes, isWaiting: false }), "end");
    const before = pages.usage("thread");
    assert.equal(pages.readByte(fd, { offset: 3_000 * PAGE, isWaiting: true }), "data");
    assert.equal(pages.usage("thread").readBytes - before.readBytes, PAGE, "one page, and nothing read ahead");
    assert.equal(pages.readByte(fd, { offset: 3_000 * PAGE, isWaiting: true }), "data");
    assert.equal(pages.usage("thread").readBytes - before.readBytes, PAGE, "a resident page costs no read");
    libc.close(fd);
  },
});

Deno.test({
  name: "a mapping loads ranges, and what a truncation took away is an error, not the end of the process",
  ...onDisk,
  async fn() {
    await using file = await cachedFile();
    const { libc, pages, path, sizeBytes } = file;
    file.evict();
    const fd = libc.open(path, { flags: ["read"] });
    const mapping = pages.map(fd, { offset: 0, length: sizeBytes, faults: "single" });
    const before = pages.usage("thread").majorFaults;
    mapping.populate({ offset: 0, length: PAGE });
    assert.equal(pages.usage("thread").majorFaults - before, 1);
    mapping.populate({ offset: 0, length: PAGE });
    assert.equal(pages.usage("thread").majorFaults - before, 1);
    await Deno.truncate(path, PAGE);
    assert.match(code(() => mapping.populate({ offset: MIB, length: PAGE })), /^populate (EFAULT|EINVAL)$/);
    pages.unmap(mapping);
    libc.close(fd);
  },
});

Deno.test("each refusal is its own errno", () => {
  using pages = openPageCalls();
  assert.equal(code(() => pages.advise(999, "random")), "posix_fadvise EBADF");
  assert.equal(code(() => pages.readByte(999, { offset: 0, isWaiting: false })), "preadv2 EBADF");
  assert.equal(code(() => pages.map(999, { offset: 0, length: PAGE, faults: "huge" })), "mmap EBADF");
  assert.equal(code(() => pages.fileSystem(999)), "fstatfs EBADF");
  if (pages.hasCachestat) assert.equal(code(() => pages.cachestat(999)), "cachestat EBADF");
});

Deno.test("holes, file systems and write access are told", async () => {
  using pages = openPageCalls();
  using libc = openLibc();
  const path = await Deno.makeTempFile();
  await Deno.truncate(path, MIB);
  const fd = libc.open(path, { flags: ["read"] });
  assert.equal(pages.firstHole(fd), 0);
  assert.equal(pages.mayWrite(path), true);
  assert.equal(pages.mayWrite(`${path}.none`), false);
  libc.close(fd);
  await Deno.remove(path);
  const proc = libc.open("/proc/self/status", { flags: ["read"] });
  assert.equal(pages.fileSystem(proc), "other");
  libc.close(proc);
  assert.deepEqual([0x794C7630, 0x9123683E, 0x65735546, 1].map(fileSystemOf), ["overlay", "btrfs", "fuse", "other"]);
});

Deno.test("a closed library is an error, not a segmentation fault", () => {
  const pages = openPageCalls();
  pages[Symbol.dispose]();
  pages[Symbol.dispose]();
  assert.throws(() => pages.usage("thread"), /Cannot call the C library: it is closed/);
});
