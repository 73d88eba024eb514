import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { returnMemory } from "../../lib/show/memory_return.ts";

Deno.test("memory is given back once after a crowd has left, and not for a few", async () => {
  const clock = new LabClock();
  const box = { streams: 0, trims: 0 };
  const returning = returnMemory({ clock, streams: () => box.streams, trim: () => box.trims += 1 });
  const then = async (streams: number) => {
    box.streams = streams;
    await clock.advance(10_000);
    return box.trims;
  };
  assert.equal(await then(1_000), 0);
  assert.equal(await then(950), 0, "who left is no crowd");
  assert.equal(await then(20), 1);
  assert.equal(await then(0), 1, "once");
  assert.equal(await then(50), 1);
  returning.stop();
  await then(1_000);
  assert.equal(await then(0), 1);
});
