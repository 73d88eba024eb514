import assert from "node:assert/strict";
import { classifyLoad, verdictOf } from "../../lib/decide/classify.ts";

const load = { bytes: 12.87e9, loadMs: 4_901, residencyPct: null, isPlain: true };

Deno.test("12.87 GB in 4.901 s is a hit: 2.63 GB/s, fully warm on the measured box", () => {
  // A fixed duration called such a load cold; a 5 GB/s bar from the bus rate would, too: load_duration covers the copy
  // to the card and initialisation, and the page cache itself reads at 6.4 GB/s.
  const found = classifyLoad(load);
  assert.equal(found.class, "ram_hit");
  assert.equal(Math.round((found.bytesPerSecond ?? 0) / 1e7), 263);
  assert.match(verdictOf(found), /^RAM Cache Hit at 2\.63 GB\/s/);
});

Deno.test("the same 12.87 GB in 34.267 s is cold: 0.38 GB/s with 3.1 % resident", () => {
  const found = classifyLoad({ ...load, loadMs: 34_267 });
  assert.equal(found.class, "cold");
  assert.match(verdictOf(found), /^Cold Disk Load at 0\.38 GB\/s/);
});

Deno.test("the limits are 2.0 and 0.8 GB/s, both included", () => {
  const at = (gbPerS: number) => classifyLoad({ ...load, bytes: 10e9, loadMs: 10_000 / gbPerS }).class;
  assert.deepEqual([2.0, 1.99, 0.8, 0.79].map(at), ["ram_hit", "partial", "partial", "cold"]);
});

Deno.test("0.5 GB in 1.2 s isn't cold: below 2 GB start-up dominates, so residency decides", () => {
  // From RAM it is 0.42 GB/s all the same: Ollama polls its child in steps of 250 ms.
  const small = { ...load, bytes: 0.5e9, loadMs: 1_200 };
  assert.equal(classifyLoad(small).class, "unclassified");
  const by = (residencyPct: number) => classifyLoad({ ...small, residencyPct }).class;
  assert.deepEqual([100, 90, 89.9, 50, 49.9, 0].map(by), ["ram_hit", "ram_hit", "partial", "partial", "cold", "cold"]);
});

Deno.test("a fast small load isn't a hit either: 0.5 GB from NVMe at 2.9 GB/s", () => {
  assert.equal(classifyLoad({ ...load, bytes: 0.5e9, loadMs: 172 }).class, "unclassified");
});

Deno.test("a time that includes an eviction or a wait says nothing of the disk", () => {
  assert.equal(classifyLoad({ ...load, isPlain: false }).class, "unclassified");
});

Deno.test("no time, no size: unclassified, with nothing made up", () => {
  for (const missing of [{ loadMs: null }, { loadMs: 0 }, { bytes: null }]) {
    const found = classifyLoad({ ...load, ...missing });
    assert.deepEqual([found.class, found.bytesPerSecond], ["unclassified", null]);
  }
});

Deno.test("where bandwidth and residency disagree both are said, and counted pages win", () => {
  // 12.87 GB in 4.9 s reads as a hit, but only 30 % of it was in memory: a fast disk.
  const counted = classifyLoad({ ...load, residencyPct: 30, isResidencyExact: true });
  assert.equal(counted.class, "cold");
  assert.match(verdictOf(counted), /residency before: 30 %.*RAM Cache Hit/);
  const sampled = classifyLoad({ ...load, residencyPct: 30, isResidencyExact: false });
  assert.equal(sampled.class, "ram_hit");
  assert.match(verdictOf(sampled), /30 % of it seemed to be in memory/);
  const agreed = classifyLoad({ ...load, residencyPct: 97, isResidencyExact: true });
  assert.deepEqual([agreed.class, agreed.basis], ["ram_hit", "bandwidth: model bytes ÷ load time"]);
});
