import assert from "node:assert/strict";
import { type Figure, isMet, median, quantile, tableOf } from "./figures.ts";

const LAG: Figure = { name: "confirmation lag, median", value: 1.234, unit: "ms", bar: { atMost: 3 }, n: 200 };

Deno.test("a bar is met from its side", () => {
  assert.equal(isMet({ value: 3, bar: { atMost: 3 } }), true);
  assert.equal(isMet({ value: 3.01, bar: { atMost: 3 } }), false);
  assert.equal(isMet({ value: 0.8, bar: { atLeast: 0.9 } }), false);
  assert.equal(isMet({ value: null, bar: { atMost: 3 } }), null);
  assert.equal(isMet({ value: 3, bar: null }), null);
});

Deno.test("quantiles are samples that occurred", () => {
  const samples = [5, 1, 4, 2, 3, 6, 10, 9, 8, 7];
  assert.deepEqual([median(samples), quantile(samples, 0.95), quantile(samples, 0)], [5, 10, 1]);
  assert.equal(median([]), null);
});

Deno.test("each figure stands beside its bar", () => {
  const rows = tableOf([
    LAG,
    { ...LAG, name: "lag, p95", value: 12.5, bar: { atMost: 10 } },
    { ...LAG, name: "driver", value: null, bar: null, n: 0, note: "no card here" },
  ]).split("\n");
  assert.deepEqual(rows.map((row) => row.trim().split(/\s{2,}/)), [
    ["ok", "confirmation lag, median", "1.23 ms", "≤ 3 ms", "n=200"],
    ["MISS", "lag, p95", "12.5 ms", "≤ 10 ms", "n=200"],
    ["driver", "not measured", "n=0", "no card here"],
  ]);
});
