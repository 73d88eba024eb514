/** Listening for others: what makes a warm stop and listen, and what doesn't. */
import assert from "node:assert/strict";
import type { WarmMethod } from "../../lib/model/page_cache.ts";
import type { Clock } from "../../lib/model/ports.ts";
import { MIB } from "../../lib/model/units.ts";
import { WarmPacer } from "../../lib/workers/warm_pacer.ts";
import { SharedProgress } from "../../lib/workers/warm_protocol.ts";

const CHUNK = { bytes: 8 * MIB, diskBytes: 8 * MIB, ms: 5 };

/** A pacer over a disk of its own, on a time that only reading and waiting move. */
function scene() {
  let [nowMs, reads, readBytes] = [0, 0, 0];
  const waits: number[] = [];
  class Waits extends SharedProgress {
    override wait(ms: number): void {
      if (ms <= 0) return;
      waits.push(ms);
      nowMs += ms;
    }
  }
  // Nothing else of it is asked.
  const clock = { monotonicMs: () => nowMs } as Partial<Clock> as Clock;
  const pacer = new WarmPacer({
    clock,
    disks: { names: ["sda"], use: () => ({ reads, readBytes, writtenBytes: 0 }) },
    shared: new Waits(),
    bytesPerS: "auto",
  });
  const read = (method: WarmMethod, { chunks, readsEach }: { readonly chunks: number; readonly readsEach: number }) => {
    for (let chunk = 0; chunk < chunks; chunk++) {
      pacer.await();
      nowMs += CHUNK.ms;
      reads += readsEach;
      readBytes += CHUNK.bytes;
      pacer.moved({ ...CHUNK, method });
    }
  };
  return { read, waits };
}

Deno.test("more reads for a byte than before are somebody else's: it listens at once", () => {
  const { read, waits } = scene();
  read("splice", { chunks: 20, readsEach: 8 });
  assert.equal(waits.length, 1, "it listens before it begins");
  read("splice", { chunks: 20, readsEach: 32 });
  assert.ok(waits.length > 1);
});

Deno.test("those of another method are its own", () => {
  const { read, waits } = scene();
  read("splice", { chunks: 20, readsEach: 8 });
  read("fault", { chunks: 20, readsEach: 32 });
  assert.equal(waits.length, 1);
});
