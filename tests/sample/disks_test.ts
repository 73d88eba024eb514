import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { disksOf, mountSource, parseDiskstats } from "../../lib/sample/disks.ts";

const DISKSTATS = ` 259       0 nvme0n1 100 0 8000 5 20 0 160 3 0 7 8 0 0 0 0 0 0
 259       1 nvme0n1p1 90 0 7000 5 20 0 160 3 0 7 8 0 0 0 0 0 0
   8       0 sda 10 0 80 5 1 0 8 3 0 7 8
 253       0 dm-0 110 0 8080 5 21 0 168 3 0 7 8 0 0 0 0 0 0
   7       0 loop0 5 0 10 0 0 0 0 0 0 0 0
`;

const BLOCK = (name: string, dev: string) => ({ dev: `${dev}\n`, uevent: `MAJOR=1\nDEVNAME=${name}\n`, size: "100\n" });

/** A /proc and a /sys as they lie for a partition, a volume over two disks, and a loop. */
async function withMachine(run: (roots: { procRoot: string; sysRoot: string }) => void): Promise<void> {
  const folder = await Deno.makeTempDir();
  const sysRoot = `${folder}/sys`;
  const put = async (path: string, files: Readonly<Record<string, string>>) => {
    await Deno.mkdir(path, { recursive: true });
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${path}/${name}`, text);
  };
  const devices = `${sysRoot}/devices`;
  const disks = { nvme0n1: "259:0", sda: "8:0", "dm-0": "253:0", loop0: "7:0" };
  for (const [name, dev] of Object.entries(disks)) {
    await put(`${devices}/${name}`, BLOCK(name, dev));
  }
  await put(`${devices}/nvme0n1/nvme0n1p1`, { ...BLOCK("nvme0n1p1", "259:1"), partition: "1\n" });
  await Deno.mkdir(`${devices}/dm-0/slaves`);
  for (const folder of ["dev/block", "class/block", "block"]) {
    await Deno.mkdir(`${sysRoot}/${folder}`, { recursive: true });
  }
  const links = { ...disks, "nvme0n1/nvme0n1p1": "259:1" };
  for (const [path, dev] of Object.entries(links)) {
    await Deno.symlink(`${devices}/${path}`, `${sysRoot}/dev/block/${dev}`);
    await Deno.symlink(`${devices}/${path}`, `${sysRoot}/class/block/${path.split("/").at(-1)}`);
    if (!path.includes("/")) await Deno.symlink(`${devices}/${path}`, `${sysRoot}/block/${path}`);
  }
  await Deno.symlink(`${devices}/nvme0n1/nvme0n1p1`, `${devices}/dm-0/slaves/nvme0n1p1`);
  await Deno.symlink(`${devices}/sda`, `${devices}/dm-0/slaves/sda`);
  await put(`${folder}/proc/self`, {
    mountinfo: "30 1 0:45 / /data rw shared:1 - btrfs /dev/sda rw\n31 1 0:46 / /x rw - overlay overlay rw\n",
  });
  await put(`${folder}/proc`, { diskstats: DISKSTATS });
  try {
    run({ procRoot: `${folder}/proc`, sysRoot });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("a partition's disk counts, since its other partitions are others' too", () =>
  withMachine((roots) => {
    using libc = openLibc();
    const disks = disksOf(libc, "259:1", roots);
    assert.deepEqual(disks.names, ["nvme0n1"]);
    assert.deepEqual(disks.use(), { reads: 100, readBytes: 8_000 * 512, writtenBytes: 160 * 512 });
  }));

Deno.test("of a volume, the disks below it count", () =>
  withMachine((roots) => {
    using libc = openLibc();
    const disks = disksOf(libc, "253:0", roots);
    assert.deepEqual([...disks.names].sort(), ["nvme0n1", "sda"]);
    assert.equal(disks.use()?.reads, 110);
  }));

Deno.test("a file system with a number of its own is found by its mount; where there's no device, every disk counts", () =>
  withMachine((roots) => {
    using libc = openLibc();
    assert.deepEqual(disksOf(libc, "0:45", roots).names, ["sda"]);
    assert.deepEqual([...disksOf(libc, "0:46", roots).names].sort(), ["nvme0n1", "sda"]);
  }));

Deno.test("without statistics nothing is claimed", () => {
  using libc = openLibc();
  const disks = disksOf(libc, "1:1", { procRoot: "/nowhere", sysRoot: "/nowhere" });
  assert.deepEqual([disks.names, disks.use()], [[], null]);
  assert.equal(parseDiskstats(DISKSTATS, ["vda"]), null);
});

Deno.test("a mount's source is read from behind the dash, whatever optional fields stand before it", () => {
  const text = "36 35 0:45 / /mnt rw,noatime shared:1 master:2 - btrfs /dev/mapper/data rw\n";
  assert.equal(mountSource(text, "0:45"), "mapper!data");
  assert.equal(mountSource(text, "98:0"), null);
  assert.equal(mountSource("", "0:45"), null);
});

Deno.test("this machine's own disk is found where the working folder lies", () => {
  using libc = openLibc();
  const disks = disksOf(libc, libc.stat(".").device, { procRoot: "/proc", sysRoot: "/sys" });
  assert.ok(disks.names.length > 0 || disks.use() === null);
});
