import assert from "node:assert/strict";
import { PageCache } from "../../lib/lab/page_cache.ts";

Deno.test("reading brings a file in whole, and pushes out what was longest unused once the budget is full", () => {
  const seen: number[] = [];
  const cache = new PageCache({ budgetBytes: 100, onChange: (bytes) => seen.push(bytes) });
  cache.read("a", 40);
  cache.read("b", 40);
  cache.read("a", 40);
  cache.read("c", 50);
  assert.deepEqual(["a", "b", "c"].map((file) => cache.residency(file)), [1, 0.25, 1]);
  assert.equal(cache.cachedBytes, 100);
  assert.equal(seen.at(-1), 100);
});

Deno.test("a file larger than the budget stays, alone", () => {
  const cache = new PageCache({ budgetBytes: 100 });
  cache.read("a", 40);
  cache.read("huge", 170);
  assert.deepEqual([cache.residency("a"), cache.residency("huge"), cache.residentBytes("huge")], [0, 1, 170]);
});

Deno.test("a share can be set, and an unknown file isn't there", () => {
  const cache = new PageCache({ budgetBytes: 100 });
  cache.set("a", { sizeBytes: 40, share: 0.25 });
  assert.deepEqual([cache.residency("a"), cache.residency("b"), cache.residentBytes("b")], [0.25, 0, 0]);
});
