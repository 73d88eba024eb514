import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { parseMeminfo, readHostMemory } from "../../lib/sample/meminfo.ts";
import { openProc } from "../../lib/sample/proc.ts";

const TEXT = `MemTotal:       65536000 kB
MemFree:        10000000 kB
MemAvailable:   40000000 kB
Buffers:          300000 kB
Cached:         30000000 kB
SwapCached:         1000 kB
Shmem:           2000000 kB
SReclaimable:     700000 kB
SwapTotal:       8000000 kB
SwapFree:        7500000 kB
Hugepagesize:       2048 kB
HugePages_Total:       5
`;

Deno.test("page cache is what could be dropped: tmpfs can't", () => {
  const memory = parseMeminfo(TEXT);
  assert.equal(memory.cachedBytes, (30_000_000 + 300_000 + 700_000 - 2_000_000) * 1024);
  assert.equal(memory.freeBytes + memory.cachedBytes + memory.applicationsBytes, memory.totalBytes);
  assert.deepEqual([memory.totalBytes, memory.availableBytes, memory.swapTotalBytes, memory.swapFreeBytes], [
    65_536_000 * 1024,
    40_000_000 * 1024,
    8_000_000 * 1024,
    7_500_000 * 1024,
  ]);
});

Deno.test("a text without a needed figure is refused by its name, not read as 0", () => {
  for (const name of ["MemTotal", "MemFree", "MemAvailable", "Cached"]) {
    const text = TEXT.split("\n").filter((line) => !line.startsWith(`${name}:`)).join("\n");
    assert.throws(() => parseMeminfo(text), new RegExp(`has no ${name}`));
  }
  assert.equal(
    parseMeminfo(TEXT.replace(/^Swap.*\n/gm, "")).swapTotalBytes,
    0,
    "a kernel without swap has no such lines",
  );
});

Deno.test("this machine's memory adds up", () => {
  using libc = openLibc();
  const memory = readHostMemory(openProc(libc, "/proc"));
  assert.ok(memory.totalBytes > 2 ** 26 && memory.availableBytes <= memory.totalBytes);
  assert.equal(memory.freeBytes + memory.cachedBytes + memory.applicationsBytes, memory.totalBytes);
});
