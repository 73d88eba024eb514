import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { isGpuAsleep } from "../../lib/sample/gpu_sleep.ts";

Deno.test("a card sleeps when the kernel says so, and none is woken to find out", async () => {
  const sysRoot = await Deno.makeTempDir();
  using libc = openLibc();
  const put = async (busId: string, vendor: string, kind: string, status: string | null) => {
    const folder = `${sysRoot}/bus/pci/devices/${busId}`;
    await Deno.mkdir(`${folder}/power`, { recursive: true });
    await Deno.writeTextFile(`${folder}/vendor`, `${vendor}\n`);
    await Deno.writeTextFile(`${folder}/class`, `${kind}\n`);
    if (status !== null) await Deno.writeTextFile(`${folder}/power/runtime_status`, `${status}\n`);
  };
  const sleeps = (pciBusId: string | null = null) => isGpuAsleep(libc, { sysRoot, pciBusId });
  try {
    assert.equal(sleeps(), false, "no PCI at all: nothing to spare");
    await put("0000:00:02.0", "0x8086", "0x030000", "active");
    assert.equal(sleeps(), false, "no NVIDIA GPU: let the library say so");
    await put("0000:01:00.0", "0x10de", "0x030200", "suspended");
    await put("0000:01:00.1", "0x10de", "0x040300", "active");
    assert.equal(sleeps(), true, "the card's audio function doesn't keep it awake");
    assert.equal(sleeps("0000:01:00.0"), true);
    await put("0000:02:00.0", "0x10de", "0x030000", null);
    assert.equal(sleeps(), false, "one of the cards is awake");
    assert.deepEqual([sleeps("0000:01:00.0"), sleeps("0000:02:00.0"), sleeps("0000:03:00.0")], [true, false, false]);
  } finally {
    await Deno.remove(sysRoot, { recursive: true });
  }
});
