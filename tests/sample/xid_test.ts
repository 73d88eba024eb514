import assert from "node:assert/strict";
import type { NvmlLevers } from "../../ffi/nvml_levers.ts";
import { openXidEars, parseXids } from "../../lib/sample/xid.ts";

const LINE = "4,1201,88442211,-;NVRM: Xid (PCI:0000:2b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n";
const OTHER = "4,1202,88442299,-;NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name=python3, MMU Fault\n SUBSYSTEM=pci\n";

function refusal(): never {
  throw Object.assign(new Error("no events"), { name: "NvmlError", code: 3 });
}

// as: only the events are asked for.
const NO_EVENTS = { watchXid: refusal } as unknown as NvmlLevers;

/** A kernel log whose reads give one record each, as /dev/kmsg does. */
function kernelLog(records: (string | "EPIPE")[]) {
  return {
    open: () => 7,
    close: () => {},
    read: (_fd: number, into: Uint8Array) => {
      const record = records.shift();
      if (record === undefined) throw Object.assign(new Error("again"), { name: "ErrnoError", code: "EAGAIN" });
      if (record === "EPIPE") throw Object.assign(new Error("pipe"), { name: "ErrnoError", code: "EPIPE" });
      const bytes = new TextEncoder().encode(record);
      into.set(bytes);
      return bytes.length;
    },
  };
}

Deno.test("a fault is told for its own card alone, whatever way the address is written", () => {
  assert.deepEqual(parseXids(LINE + OTHER, "0000:2b:00.0"), [79]);
  assert.deepEqual(parseXids(LINE + OTHER, null), [79, 31]);
  assert.deepEqual(parseXids("NVRM: Xid (PCI:0000:2B:00.0): 48, x", "0000:2b:00.0"), [48]);
  assert.deepEqual(parseXids("nvidia: loading out-of-tree module", null), []);
});

Deno.test("without NVML's events the kernel log is listened to, from now on, over what was overwritten", () => {
  const records = [LINE, "EPIPE", OTHER];
  const ears = openXidEars(NO_EVENTS, { libc: kernelLog(records), device: 1n, pciBusId: "0000:2b:00.0" });
  assert.equal(ears.source, "kmsg");
  assert.deepEqual(ears.poll(), [], "what stood there is old");
  records.push("EPIPE", OTHER, LINE);
  assert.deepEqual([ears.poll(), ears.poll()], [[79], []]);
});

Deno.test("without either, faults are not measurable", () => {
  const libc = {
    ...kernelLog([]),
    open: () => {
      throw Object.assign(new Error("denied"), { name: "ErrnoError", code: "EPERM" });
    },
  };
  const ears = openXidEars(NO_EVENTS, { libc, device: 1n, pciBusId: null });
  assert.deepEqual([ears.source, ears.poll()], [null, []]);
});
