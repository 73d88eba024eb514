import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { returnMemory } from "../../lib/show/memory_return.ts";

Deno.test("memory is given back once when a crowd has left, and after each thousand requests", async () => {
  const clock = new LabClock();
  const box = { streams: 0, answered: 500, trims: 0 };
  const returning = returnMemory({
    clock,
    streams: () => box.streams,
    answered: () => box.answered,
    trim: () => box.trims += 1,
  });
  const later = async (change: Partial<typeof box>) => {
    Object.assign(box, change);
    await clock.advance(10_000);
    return box.trims;
  };
  assert.equal(await later({ streams: 1_000 }), 0);
  assert.equal(await later({ streams: 950 }), 0, "who left is no crowd");
  assert.equal(await later({ streams: 10 }), 1);
  assert.equal(await later({}), 1, "once");
  assert.equal(await later({ answered: 1_499 }), 1);
  assert.equal(await later({ answered: 1_500 }), 2);
  assert.equal(await later({ answered: 2_400 }), 2);
  returning.stop();
  assert.equal(await later({ answered: 9_000 }), 2);
});
