import assert from "node:assert/strict";
import { DEFAULT_TUNING } from "../../lib/model/tuning.ts";
import { heatOf, initialGovernor, setGovernor, watchHeat } from "../../lib/decide/governor.ts";
import { type Second, second } from "./card_world.ts";

const POLICY = DEFAULT_TUNING.governor;

/** Plays seconds of the same kind; the fake card slows down at 95 °C, so it is hot from 87. */
function play(scenes: readonly (readonly [seconds: number, what: Second])[], policy = POLICY) {
  let state = initialGovernor(policy);
  let atMs = 0;
  for (const [seconds, what] of scenes) {
    for (let count = 0; count < seconds; count++) {
      atMs += 1_000;
      state = watchHeat(state, { gpu: second(what).gpu, atMs, policy });
    }
  }
  return state;
}

Deno.test("a sample is bad from the slowdown threshold less 8 °C, good up to 5 °C below that", () => {
  const kinds = [82, 83, 86, 87].map((temperatureC) => heatOf(second({ temperatureC }).gpu, POLICY).kind);
  assert.deepEqual(kinds, ["good", "between", "between", "bad"]);
});

Deno.test("hot is 83 °C where the card names no threshold", () => {
  const { gpu } = second({ temperatureC: 83 });
  const bare = { ...gpu, facts: { ...gpu.facts!, thresholds: { ...gpu.facts!.thresholds, slowdownC: null } } };
  assert.equal(heatOf(bare as typeof gpu, POLICY).kind, "bad"); // the same state with other facts
});

Deno.test("memory is hot from the card's own limit where that is lower, and good up to 5 °C below", () => {
  const kindAt = (memoryC: number, memoryMaxC: number | null) => {
    const { gpu } = second({ memoryC });
    const own = { ...gpu, facts: { ...gpu.facts!, thresholds: { ...gpu.facts!.thresholds, memoryMaxC } } };
    return heatOf(own as typeof gpu, POLICY).kind; // the same state with other facts
  };
  assert.deepEqual([95, 96, 99, 100].map((memoryC) => kindAt(memoryC, null)), ["good", "between", "between", "bad"]);
  assert.deepEqual([90, 91, 94, 95].map((memoryC) => kindAt(memoryC, 95)), ["good", "between", "between", "bad"]);
  assert.equal(kindAt(100, 110), "bad");
});

Deno.test("hot memory and each of the throttle reasons 0x20, 0x40, 0x80 make a sample bad; a power cap doesn't", () => {
  const seconds: Second[] = [
    { memoryC: 95 },
    { memoryC: 100 },
    { throttle: 0x4 },
    { throttle: 0x20 },
    { throttle: 0x40 },
    { throttle: 0x80 },
  ];
  assert.deepEqual(seconds.map((what) => heatOf(second(what).gpu, POLICY).kind), [
    "good",
    "bad",
    "good",
    "bad",
    "bad",
    "bad",
  ]);
});

Deno.test("the first rung comes with the fifth bad sample in a row, not before, and not with a warm one between", () => {
  assert.equal(play([[4, { temperatureC: 90 }]]).level, 0);
  assert.equal(play([[5, { temperatureC: 90 }]]).level, 1);
  assert.equal(play([[4, { temperatureC: 90 }], [1, { temperatureC: 85 }], [4, { temperatureC: 90 }]]).level, 0);
});

Deno.test("rungs are 20 s apart, up to the fourth", () => {
  assert.equal(play([[24, { temperatureC: 90 }]]).level, 1);
  assert.equal(play([[25, { temperatureC: 90 }]]).level, 2);
  const top = play([[500, { temperatureC: 90 }]]);
  assert.equal(top.level, 4);
  assert.deepEqual(top.history.map(({ atMs }) => atMs), [5_000, 25_000, 45_000, 65_000]);
});

Deno.test("a rung is left after 30 good samples in a row", () => {
  const hot: readonly [number, Second] = [5, { temperatureC: 90 }];
  assert.equal(play([hot, [29, { temperatureC: 82 }]]).level, 1);
  assert.equal(play([hot, [30, { temperatureC: 82 }]]).level, 0);
  assert.equal(play([hot, [29, { temperatureC: 82 }], [1, { temperatureC: 84 }], [29, {}]]).level, 1);
});

Deno.test("a sensor without a temperature is blind at the third sample; the level falls and the history says why", () => {
  const hot: readonly [number, Second] = [5, { temperatureC: 90 }];
  assert.equal(play([hot, [2, { temperatureC: null }]]).isBlind, false);
  const blind = play([hot, [3, { temperatureC: null }]]);
  assert.deepEqual([blind.isBlind, blind.level], [true, 0]);
  assert.match(blind.reason, /^Blind, so stock: the card gives no temperature/);
  assert.equal(blind.history.at(-1)?.from, 1);
});

Deno.test("throttling says nothing about heat that can't be read: a throttled card without a sensor is blind too", () => {
  assert.equal(play([[3, { temperatureC: null, throttle: 0x40 }]]).isBlind, true);
});

Deno.test("a lost card is blind; it sees again after five readings and the pause", () => {
  assert.equal(play([[3, { isLost: true }]]).isBlind, true);
  assert.equal(play([[3, { isLost: true }], [19, {}]]).isBlind, true);
  assert.equal(play([[3, { isLost: true }], [20, {}]]).isBlind, false);
});

Deno.test("disabled, it never climbs; disabling and clearing come down at once", () => {
  assert.equal(play([[50, { temperatureC: 90 }]], { ...POLICY, enabled: false }).level, 0);
  const hot = play([[25, { temperatureC: 90 }]]);
  const atMs = 26_000;
  assert.equal(setGovernor(hot, { enabled: false, reset: false, atMs }).level, 0);
  const cleared = setGovernor(hot, { enabled: null, reset: true, atMs });
  assert.deepEqual([cleared.level, cleared.enabled, cleared.reason], [0, true, "Cleared by hand"]);
  assert.equal(setGovernor(hot, { enabled: true, reset: false, atMs }), hot);
});

Deno.test("every number is configurable", () => {
  const policy = { ...POLICY, hotMarginC: 35, badSamples: 2, goodSamples: 3, cooldownMs: 1_000, recoverMarginC: 1 };
  assert.equal(play([[2, { temperatureC: 60 }]], policy).level, 1);
  assert.equal(play([[2, { temperatureC: 60 }], [3, { temperatureC: 59 }]], policy).level, 0);
});
