import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { MIB } from "../../lib/model/units.ts";
import { hugePageBytes } from "../../lib/sample/huge_pages.ts";

Deno.test("the size of huge pages is the kernel's word, and null where it has none", async () => {
  using libc = openLibc();
  const sysRoot = await Deno.makeTempDir();
  assert.equal(hugePageBytes(libc, { sysRoot }), null);
  const folder = `${sysRoot}/kernel/mm/transparent_hugepage`;
  await Deno.mkdir(folder, { recursive: true });
  for (
    const [text, bytes] of [["2097152\n", 2 * MIB], ["536870912\n", 512 * MIB], ["0\n", null], ["", null]] as const
  ) {
    await Deno.writeTextFile(`${folder}/hpage_pmd_size`, text);
    assert.equal(hugePageBytes(libc, { sysRoot }), bytes);
  }
  await Deno.remove(sysRoot, { recursive: true });
});
