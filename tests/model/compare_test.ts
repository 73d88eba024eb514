import assert from "node:assert/strict";
import fc from "fast-check";
import { compare } from "../../lib/model/compare.ts";
import { distributionOf } from "../../lib/model/distribution.ts";

const of = (a: readonly number[], b: readonly number[], among = 1) =>
  compare({ name: "a", values: a }, { name: "b", values: b }, { among });
const upFrom = (start: number, n: number) => Array.from({ length: n }, (_, at) => start + at);

Deno.test("the exact p is the share of orders that are as extreme, both ways", () => {
  // Five against five, all apart: 2 of the 252 orders.
  const apart = of(upFrom(0, 5), upFrom(10, 5));
  assert.ok(Math.abs((apart.pValue ?? 0) - 2 / 252) < 1e-12);
  assert.equal(apart.standsOut, true);
  // One pair the other way round: U = 1, which 2 orders a side reach.
  assert.ok(Math.abs((of([0, 1, 2, 3, 10], [9, 11, 12, 13, 14]).pValue ?? 0) - 4 / 252) < 1e-12);
});

Deno.test("nothing is claimed below the number of values that could prove it", () => {
  const four = of(upFrom(0, 4), upFrom(10, 4));
  assert.deepEqual([four.standsOut, four.pValue], [null, null]);
  assert.match(four.verdict, /^Too few/);
  // Enough for one comparison, too few when ten are made at once.
  assert.equal(of(upFrom(0, 5), upFrom(10, 5), 10).standsOut, null);
  assert.equal(of(upFrom(0, 8), upFrom(10, 8), 10).standsOut, true);
  assert.equal(of([], upFrom(0, 30)).standsOut, null);
});

Deno.test("equal values go to the approximation, which takes eight a side; all equal never stands out", () => {
  assert.equal(of([1, 1, 1, 1, 1], [2, 2, 2, 2, 2]).standsOut, null);
  assert.equal(of(Array(8).fill(73.5), Array(8).fill(73.5)).standsOut, false);
  const ties = of(Array(20).fill(73.5), Array(20).fill(75.5));
  assert.match(ties.test, /tie/);
  assert.equal(ties.standsOut, true);
  assert.match(ties.verdict, /2\.7 % higher/);
});

Deno.test("the approximation agrees with the exact count where both can be had", () => {
  // 21 values leave the exact count; a value at the far end hardly changes the order.
  const a = upFrom(0, 20).map((n) => n * 2);
  const b = upFrom(0, 20).map((n) => n * 2 + 9);
  const exact = of(a, b);
  const approximate = of([...a, 20.5], b);
  assert.match(exact.test, /exact/);
  assert.match(approximate.test, /approximation/);
  assert.ok(Math.abs((exact.pValue ?? 0) - (approximate.pValue ?? 1)) < 0.05);
});

Deno.test("noise is told from a difference: at most 1 % of false alarms among random halves", () => {
  let alarms = 0;
  const runs = 400;
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 24, maxLength: 24 }), (values) => {
      if (of(values.slice(0, 12), values.slice(12)).standsOut === true) alarms += 1;
    }),
    { numRuns: runs, seed: 9 },
  );
  assert.ok(alarms <= runs * 0.02, `${alarms} alarms of ${runs}`);
});

Deno.test("a distribution has no quantile that its values can't give", () => {
  assert.equal(distributionOf([]), null);
  assert.deepEqual(distributionOf([5]), {
    n: 1,
    min: 5,
    p25: 5,
    median: 5,
    p75: 5,
    p95: null,
    p99: null,
    max: 5,
    mean: 5,
    sd: null,
  });
  const twenty = distributionOf(upFrom(1, 20));
  assert.deepEqual([twenty?.p95, twenty?.p99, twenty?.median], [19.05, null, 10.5]);
  assert.equal(distributionOf(upFrom(0, 101))?.p99, 99);
});
