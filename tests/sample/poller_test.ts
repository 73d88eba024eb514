import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { startPoller } from "../../lib/sample/poller.ts";

function poll(options: { work?: (signal: AbortSignal) => Promise<void>; periodMs?: number; minGapMs?: number } = {}) {
  const clock = new LabClock();
  const startMs = clock.monotonicMs();
  const startsMs: number[] = [];
  const poller = startPoller({
    clock,
    work: async (signal) => {
      startsMs.push(clock.monotonicMs() - startMs);
      await options.work?.(signal);
    },
    periodMs: () => options.periodMs ?? 1_000,
    ...(options.minGapMs === undefined ? {} : { minGapMs: options.minGapMs }),
  });
  return { clock, startsMs, poller };
}

Deno.test("the first round starts at once, the next a period after each end", async () => {
  const { clock, startsMs, poller } = poll();
  assert.deepEqual(startsMs, [0]);
  await clock.advance(3_500);
  assert.deepEqual(startsMs, [0, 1_000, 2_000, 3_000]);
  poller.stop();
});

Deno.test("a poke starts a round now, but never two within the gap", async () => {
  const { clock, startsMs, poller } = poll();
  await clock.advance(500);
  poller.poke();
  poller.poke();
  await clock.advance(50);
  poller.poke();
  await clock.advance(1_500);
  assert.deepEqual(startsMs, [0, 500, 700, 1_700]);
  poller.stop();
});

Deno.test("a poke during a round asks for one more after it, however often", async () => {
  const rounds: (() => void)[] = [];
  const { clock, startsMs, poller } = poll({ work: () => new Promise((resolve) => rounds.push(resolve)), minGapMs: 0 });
  for (let poke = 0; poke < 5; poke++) poller.poke();
  await clock.advance(5_000);
  assert.equal(startsMs.length, 1, "never two at a time");
  rounds.shift()?.();
  await clock.advance(100);
  assert.deepEqual(startsMs, [0, 5_000]);
  rounds.shift()?.();
  await clock.advance(999);
  assert.equal(startsMs.length, 2);
  await clock.advance(1);
  assert.equal(startsMs.length, 3);
  poller.stop();
  rounds.shift()?.();
  await clock.settle();
});

Deno.test("a round that throws is told, and the next one follows", async () => {
  let isBroken = true;
  const { clock, startsMs, poller } = poll({
    work: () => isBroken ? Promise.reject(new TypeError("a bug")) : Promise.resolve(),
  });
  await clock.settle();
  assert.equal(poller.crash, "a bug");
  isBroken = false;
  await clock.advance(1_000);
  assert.equal(poller.crash, null);
  assert.deepEqual(startsMs, [0, 1_000]);
  poller.stop();
});

Deno.test("stopping aborts the round under way and starts no other", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { clock, startsMs, poller } = poll({
    work: (signal) => {
      signal.addEventListener("abort", () => resolve());
      return promise;
    },
  });
  poller.stop();
  await promise;
  poller.poke();
  await clock.advance(5_000);
  assert.deepEqual([startsMs, poller.crash], [[0], null]);
});
