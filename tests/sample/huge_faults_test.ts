import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { MIB } from "../../lib/model/units.ts";
import { hasHugeFaults, isReadByHugeFaults } from "../../lib/sample/huge_faults.ts";

Deno.test("huge pages are faulted in where they are of 2 MiB and one window follows another", () => {
  assert.equal(isReadByHugeFaults("6.18.44-generic", 2 * MIB), true);
  assert.equal(isReadByHugeFaults("6.14.0-rc1", 2 * MIB), true);
  assert.equal(isReadByHugeFaults("7.0.1", 2 * MIB), true);
  assert.equal(isReadByHugeFaults("6.8.0-51-generic", 2 * MIB), false, "later windows would be the disk's read-ahead");
  assert.equal(isReadByHugeFaults("5.15.0", 2 * MIB), false);
  assert.equal(isReadByHugeFaults("6.18.44", 512 * MIB), false, "more than a chunk in one fault");
  assert.equal(isReadByHugeFaults("6.18.44", 0), false);
  assert.equal(isReadByHugeFaults("", 2 * MIB), false);
});

Deno.test("a kernel that tells neither its release nor its huge pages reads the other way", async () => {
  using libc = openLibc();
  const root = await Deno.makeTempDir();
  const roots = { procRoot: `${root}/proc`, sysRoot: `${root}/sys` };
  assert.equal(hasHugeFaults(libc, roots), false);
  await Deno.mkdir(`${roots.procRoot}/sys/kernel`, { recursive: true });
  await Deno.writeTextFile(`${roots.procRoot}/sys/kernel/osrelease`, "6.18.44\n");
  assert.equal(hasHugeFaults(libc, roots), false);
  await Deno.mkdir(`${roots.sysRoot}/kernel/mm/transparent_hugepage`, { recursive: true });
  await Deno.writeTextFile(`${roots.sysRoot}/kernel/mm/transparent_hugepage/hpage_pmd_size`, "2097152\n");
  assert.equal(hasHugeFaults(libc, roots), true);
  await Deno.remove(root, { recursive: true });
});
