import assert from "node:assert/strict";
import fc from "fast-check";
import {
  decodeFields,
  decodeMemoryV1,
  decodeMemoryV2,
  decodePciBusId,
  decodeProcesses,
  decodeProcessUtilization,
  decodeText,
  encodeFields,
  processStride,
  SIZE,
  UNAVAILABLE_U64,
  UNWRITTEN,
  VERSION,
  versioned,
  writtenStride,
} from "../../ffi/nvml_structs.ts";

Deno.test("version words are the ones the headers define", () => {
  assert.deepEqual(VERSION, {
    memoryV2: 0x02000028,
    temperatureV1: 0x0100000C,
    fanSpeedInfoV1: 0x0100000C,
    clockOffsetV1: 0x01000018,
  });
  assert.equal(versioned(SIZE.memoryV2, VERSION.memoryV2).getUint32(0, true), 0x02000028);
});

Deno.test("memory v1 counts the driver's reserve as used, v2 doesn't", () => {
  // The identity measured on an H200: v1.used = v2.reserved + v2.used.
  const v1 = new DataView(new ArrayBuffer(SIZE.memoryV1));
  [150_000_000_000n, 148_429_364_224n, 1_570_635_776n].forEach((n, i) => v1.setBigUint64(i * 8, n, true));
  const v2 = new DataView(new ArrayBuffer(SIZE.memoryV2));
  [150_000_000_000n, 644_939_776n, 148_429_364_224n, 925_696_000n].forEach((n, i) =>
    v2.setBigUint64(8 + i * 8, n, true)
  );
  const old = decodeMemoryV1(v1);
  const fresh = decodeMemoryV2(v2);
  assert.equal(old.usedBytes, fresh.usedBytes + (fresh.reservedBytes ?? 0));
  assert.equal(old.reservedBytes, null);
  assert.deepEqual([old.totalBytes, old.freeBytes], [fresh.totalBytes, fresh.freeBytes]);
});

Deno.test("a PCI address is written as sysfs writes it", () => {
  const pci = new DataView(new ArrayBuffer(SIZE.pciInfo));
  pci.setUint32(16, 0x1_0001, true);
  pci.setUint32(20, 0xC1, true);
  pci.setUint32(24, 3, true);
  assert.equal(decodePciBusId(pci), "10001:c1:03.0");
});

Deno.test("only the 535 drivers before 535.98 have the 32-byte process entry", () => {
  const strides = ["530.41.03", "535.43.02", "535.54.03", "535.86.05", "535.98", "535.104.05", "545.23", "580.159.04"]
    .map((version) => processStride(version));
  assert.deepEqual(strides, [24, 32, 32, 32, 24, 24, 24, 24]);
});

Deno.test("the stride is what the driver wrote, whatever its version promised", () => {
  fc.assert(
    fc.property(
      fc.constantFrom<24 | 32>(24, 32),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 2 ** 22 }), fc.bigInt({ min: 0n, max: 2n ** 40n })), {
        minLength: 1,
      }),
      (stride, rows) => {
        const buffer = new Uint8Array((2 * rows.length + 8) * 32).fill(UNWRITTEN);
        const view = new DataView(buffer.buffer);
        for (const [row, [pid, used]] of rows.entries()) {
          view.setUint32(row * stride, pid, true);
          view.setBigUint64(row * stride + 8, used, true);
          view.setBigUint64(row * stride + 16, 0xFFFF_FFFF_FFFF_FFFFn, true);
          if (stride === 32) view.setBigUint64(row * stride + 24, 0n, true);
        }
        assert.equal(writtenStride(buffer, rows.length), stride);
        const read = decodeProcesses(view, { count: rows.length, stride });
        assert.deepEqual(read, rows.map(([pid, used]) => ({ pid, usedBytes: Number(used) })));
      },
    ),
    { numRuns: 50 },
  );
});

Deno.test("a write that ends where no stride ends is no process list", () => {
  const buffer = new Uint8Array(320).fill(UNWRITTEN);
  buffer.fill(0, 0, 56);
  assert.equal(writtenStride(buffer, 2), null);
  assert.equal(writtenStride(new Uint8Array(320).fill(UNWRITTEN), 1), null);
});

Deno.test("all-ones memory is unknown, not 16 exabytes", () => {
  const view = new DataView(new ArrayBuffer(24));
  view.setUint32(0, 4711, true);
  view.setBigUint64(8, UNAVAILABLE_U64, true);
  assert.deepEqual(decodeProcesses(view, { count: 1, stride: 24 }), [{ pid: 4711, usedBytes: null }]);
});

Deno.test("process utilisation drops rows that can't be true", () => {
  const rows = [
    { pid: 10, at: 1_000n, sm: 60, enc: 0, kept: true },
    { pid: 11, at: 999n, sm: 60, enc: 0, kept: false },
    { pid: 12, at: 1_000n, sm: 101, enc: 0, kept: false },
    { pid: 13, at: 1_000n, sm: 1, enc: 4_000_000_000, kept: false },
    { pid: 0, at: 1_000n, sm: 1, enc: 0, kept: false },
    { pid: 14, at: 2_000n, sm: 100, enc: 100, kept: true },
  ];
  const view = new DataView(new ArrayBuffer(rows.length * SIZE.processUtilizationSample));
  for (const [i, row] of rows.entries()) {
    view.setUint32(i * 32, row.pid, true);
    view.setBigUint64(i * 32 + 8, row.at, true);
    view.setUint32(i * 32 + 16, row.sm, true);
    view.setUint32(i * 32 + 24, row.enc, true);
  }
  const read = decodeProcessUtilization(view, { count: rows.length, sinceUs: 999 });
  assert.deepEqual(read.map((row) => row.pid), rows.filter((row) => row.kept).map((row) => row.pid));
});

Deno.test("field values are read by their own type and their own code", () => {
  const view = encodeFields([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(view.getUint32(8 * SIZE.fieldValue, true), 9);
  const write: readonly ((at: number) => void)[] = [
    (at) => view.setFloat64(at, 1.5, true),
    (at) => view.setUint32(at, 4_000_000_000, true),
    (at) => view.setBigUint64(at, 5_000_000_000n, true),
    (at) => view.setBigUint64(at, 6_000_000_000n, true),
    (at) => view.setBigInt64(at, -7n, true),
    (at) => view.setInt32(at, -8, true),
    (at) => view.setUint16(at, 65_535, true),
  ];
  for (const [type, put] of write.entries()) {
    view.setUint32(type * SIZE.fieldValue + 24, type, true);
    put(type * SIZE.fieldValue + 32);
  }
  view.setUint32(7 * SIZE.fieldValue + 24, 77, true);
  view.setInt32(8 * SIZE.fieldValue + 28, 3, true);
  const fields = decodeFields(view);
  assert.deepEqual(fields.map((f) => f.value), [
    1.5,
    4_000_000_000,
    5_000_000_000,
    6_000_000_000,
    -7,
    -8,
    65_535,
    null,
    null,
  ]);
  assert.deepEqual(fields.map((f) => f.code), [0, 0, 0, 0, 0, 0, 0, 0, 3]);
});

Deno.test("text ends at its terminator, or at the buffer's end", () => {
  assert.equal(decodeText(new Uint8Array([65, 66, 0, 67])), "AB");
  assert.equal(decodeText(new Uint8Array([65, 66])), "AB");
});
