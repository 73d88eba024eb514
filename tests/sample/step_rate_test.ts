import assert from "node:assert/strict";
import { StepRate } from "../../lib/sample/step_rate.ts";

const frame = (value: number, max = 20, promptId = "a") => ({ promptId, value, max });

/** Steps 1–20 at 150 ms each, the first one after a second of loading; each is told twice. */
function sampled(rate: StepRate, promptId = "a", max = 20) {
  for (let step = 0; step <= max; step++) {
    rate.note(frame(step, max, promptId), 1_000 + step * 150);
    rate.note(frame(step, max, promptId), 1_001 + step * 150);
  }
}

Deno.test("steps are timed from the first finished one to the last, loading left out", () => {
  const rate = new StepRate();
  sampled(rate);
  assert.deepEqual(rate.take("a"), { perSecond: 19 / 2_850 * 1_000, steps: 19, durationMs: 2_850 });
  assert.equal(rate.take("a"), null, "it is told once");
});

Deno.test("another node counts from the beginning; the longest run of steps is the sampler's", () => {
  const rate = new StepRate();
  sampled(rate);
  rate.note(frame(1, 6), 5_000);
  rate.note(frame(6, 6), 5_900);
  assert.equal(rate.take("a")?.steps, 19);
});

Deno.test("too few steps, steps out of a cache and another prompt's steps tell nothing", () => {
  const rate = new StepRate();
  for (let step = 1; step <= 4; step++) rate.note(frame(step, 4), step * 500);
  assert.equal(rate.take("a"), null);
  for (let step = 1; step <= 20; step++) rate.note(frame(step), step);
  assert.equal(rate.take("a"), null);
  sampled(rate, "b");
  assert.equal(rate.take("a"), null);
  sampled(rate, "b");
  rate.note(frame(1, 20, "c"), 9_000);
  assert.equal(rate.take("b"), null);
});
