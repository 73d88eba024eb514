/** Reading by the method that a disk was found to be quicker by. */
import assert from "node:assert/strict";
import { openFileDrain } from "../../ffi/file_drain.ts";
import { type Bytes, MIB } from "../../lib/model/units.ts";
import { type DiskMethods, WarmReader } from "../../lib/workers/warm_reader.ts";
import { cachedFile, whyNotHere } from "../sample/cached_file.ts";

const reason = whyNotHere();
if (reason !== null) console.log(`tests/workers/warm_reader_test.ts: skipped, since ${reason}`);

const CHUNK = 4 * MIB;
const CHUNK_MS = { splice: 4, read: 8, fault: 8 };

/** A reader that read so much and was told that splicing is twice as fast. */
async function taught(bytes: Bytes, { canFault }: { readonly canFault: boolean }) {
  const file = await cachedFile({ sizeBytes: 16 * MIB });
  const fd = file.libc.open(file.path, { flags: ["read"] });
  const drain = openFileDrain();
  const methods: DiskMethods = new Map();
  const reader = new WarmReader({ pages: file.pages, drain, methods, file: { fd, device: "8:0" }, canFault });
  for (let at = 0; at < bytes; at += CHUNK) {
    reader.read({ offset: at % file.sizeBytes, length: CHUNK }, { isExact: false });
    reader.learn({ bytes: CHUNK, diskBytes: CHUNK, ms: CHUNK_MS[reader.method] });
  }
  return {
    file,
    reader,
    methods,
    async [Symbol.asyncDispose]() {
      reader.release();
      drain[Symbol.dispose]();
      file.libc.close(fd);
      await file[Symbol.asyncDispose]();
    },
  };
}

Deno.test({
  name: "faults read first, but beside others exactly what was asked for is spliced, and nothing stays mapped",
  ignore: reason !== null,
  async fn() {
    await using given = await taught(0, { canFault: true });
    const { reader, file } = given;
    file.evict();
    // To its end: what is still on its way can't be dropped either.
    for (let offset = 0; offset < file.sizeBytes; offset += CHUNK) {
      assert.equal(reader.read({ offset, length: CHUNK }, { isExact: false }), CHUNK);
      assert.equal(reader.method, "fault");
    }
    assert.ok(file.evict() > 0, "mapped pages can't be dropped");
    assert.equal(reader.read({ offset: CHUNK, length: MIB }, { isExact: true }), MIB);
    assert.equal(reader.method, "splice");
    assert.equal(file.evict(), 0);
  },
});

Deno.test({
  name: "each disk is found out by itself, and nothing where huge pages are too large",
  ignore: reason !== null,
  async fn() {
    await using given = await taught(512 * MIB, { canFault: true });
    assert.deepEqual([...given.methods.keys()], ["8:0"]);
    given.reader.read({ offset: 0, length: CHUNK }, { isExact: false });
    assert.equal(given.reader.method, "splice", "it was found to be quicker");
    await using other = await taught(512 * MIB, { canFault: false });
    assert.deepEqual([other.reader.method, other.methods.size], ["splice", 0]);
  },
});
