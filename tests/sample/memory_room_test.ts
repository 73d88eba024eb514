import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { GIB } from "../../lib/model/units.ts";
import { memoryFolders, readMemoryRoom } from "../../lib/sample/memory_room.ts";

const MEMINFO = "MemTotal: 25165824 kB\nMemFree: 1048576 kB\nMemAvailable: 20971520 kB\nCached: 1048576 kB\n";

async function roomOf(selfCgroup: string, files: Readonly<Record<string, string>>) {
  using libc = openLibc();
  const root = await Deno.makeTempDir();
  const put = async (path: string, text: string) => {
    await Deno.mkdir(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeTextFile(`${root}/${path}`, text);
  };
  await put("proc/meminfo", MEMINFO);
  await put("proc/self/cgroup", selfCgroup);
  for (const [path, text] of Object.entries(files)) await put(`sys/fs/cgroup/${path}`, text);
  try {
    return readMemoryRoom(libc, { procRoot: `${root}/proc`, sysRoot: `${root}/sys` });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("without a limit there's only the machine's memory", async () => {
  assert.deepEqual(await roomOf("0::/system.slice/x.service\n", {}), { availableBytes: 20 * GIB, cgroup: null });
  const unlimited = await roomOf("0::/x\n", {
    "x/memory.max": "max\n",
    "x/memory.high": "max\n",
    "x/memory.current": "5\n",
  });
  assert.equal(unlimited.cgroup, null);
});

Deno.test("of a unit's limits the lower one binds, and of all groups around it the tightest", async () => {
  const { cgroup } = await roomOf("0::/system.slice/x.service\n", {
    "system.slice/x.service/memory.max": `${8 * GIB}\n`,
    "system.slice/x.service/memory.high": `${6 * GIB}\n`,
    "system.slice/x.service/memory.current": `${2 * GIB}\n`,
    "system.slice/x.service/memory.stat": `anon 1\nfile ${GIB}\nfile_mapped 7\n`,
    "system.slice/memory.max": `${9 * GIB}\n`,
    "system.slice/memory.current": `${8 * GIB}\n`,
    "system.slice/memory.stat": `file ${GIB}\n`,
  });
  assert.deepEqual(cgroup, { limitBytes: 9 * GIB, usedBytes: 8 * GIB, cacheBytes: GIB });
});

Deno.test("the old hierarchy's limit, where none is a number near 2^63", async () => {
  const files = {
    "memory/docker/abc/memory.limit_in_bytes": `${3 * GIB}\n`,
    "memory/docker/abc/memory.usage_in_bytes": `${GIB}\n`,
    "memory/docker/abc/memory.stat": `cache 5\ntotal_cache ${GIB / 2}\n`,
    "memory/docker/memory.limit_in_bytes": "9223372036854771712\n",
  };
  const { cgroup } = await roomOf("9:name=systemd:/\n4:memory:/docker/abc\n0::/\n", files);
  assert.deepEqual(cgroup, { limitBytes: 3 * GIB, usedBytes: GIB, cacheBytes: GIB / 2 });
});

Deno.test("folders are our own group and those around it", () => {
  assert.deepEqual(memoryFolders("0::/a/b\n", "/c"), ["/c/a/b", "/c/a"]);
  assert.deepEqual(memoryFolders("3:cpu,memory:/a\n2:cpu:/z\n0::/\n", "/c"), ["/c/memory/a"]);
  assert.deepEqual(memoryFolders("", "/c"), []);
});

Deno.test("this machine's room is readable", () => {
  using libc = openLibc();
  assert.ok(readMemoryRoom(libc, { procRoot: "/proc", sysRoot: "/sys" }).availableBytes > 0);
});
