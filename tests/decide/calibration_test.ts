import assert from "node:assert/strict";
import { type CountedLoad, diskLimit, limitsOf, NO_LOADS, noteLoad } from "../../lib/decide/calibration.ts";
import { classifyLoad, explainSwap, linkRate } from "../../lib/decide/classify.ts";
import { seedLoads } from "../../lib/services/footprints.ts";

const UNSET = { hitBytesPerSecond: null, partialBytesPerSecond: null };

function load(gbPerS: number, residencyPct: number, more: Partial<CountedLoad> = {}): CountedLoad {
  return { bytes: 12.87e9, bytesPerSecond: gbPerS * 1e9, residencyPct, isResidencyExact: true, isPlain: true, ...more };
}

function bookOf(loads: readonly CountedLoad[]) {
  return loads.reduce(noteLoad, NO_LOADS);
}

const times = (n: number, of: CountedLoad) => Array.from({ length: n }, () => of);

Deno.test("the formula gives the built-in limits from the loads they were measured on", () => {
  // 12.87 GB warm at 2.63 GB/s, cold at 0.38: 0.76 of the one is 2.0, 2.1 times the other 0.8.
  const limits = limitsOf(UNSET, bookOf([...times(10, load(2.63, 100)), ...times(5, load(0.38, 3.1))]));
  assert.deepEqual([limits.basis, limits.warmN, limits.coldN], ["calibrated", 10, 5]);
  assert.deepEqual([limits.hitBytesPerSecond, limits.partialBytesPerSecond].map((rate) => Math.round(rate / 1e7)), [
    200,
    80,
  ]);
});

Deno.test("it takes ten warm and five cold loads, by their medians", () => {
  const warm = times(9, load(5, 99));
  const cold = times(5, load(1, 0));
  assert.equal(limitsOf(UNSET, bookOf([...warm, ...cold])).basis, "default");
  assert.equal(limitsOf(UNSET, bookOf([...warm, load(5, 95), ...cold.slice(1)])).basis, "default");
  // One that hung behind something else doesn't move the median.
  const limits = limitsOf(UNSET, bookOf([...warm, load(0.2, 95), ...cold]));
  assert.deepEqual([limits.basis, limits.hitBytesPerSecond, limits.partialBytesPerSecond], [
    "calibrated",
    0.76 * 5e9,
    2.1e9,
  ]);
});

Deno.test("only what was surely warm or surely cold calibrates", () => {
  const telling = bookOf([load(5, 95), load(0.4, 10)]);
  assert.deepEqual([telling.warm.length, telling.cold.length], [1, 1]);
  for (
    const [why, entry] of Object.entries({
      "half resident": load(2, 50),
      "nearly warm": load(2, 94.9),
      "sampled, not counted": load(2, 100, { isResidencyExact: false }),
      "an eviction in its time": load(2, 100, { isPlain: false }),
      "small: start-up dominates": load(2, 100, { bytes: 1.9e9 }),
      "no time": load(2, 100, { bytesPerSecond: null }),
      "unmeasured": load(2, 100, { residencyPct: null }),
    })
  ) {
    assert.deepEqual(bookOf([entry]), NO_LOADS, why);
  }
  assert.equal(bookOf(times(80, load(5, 100))).warm.length, 50, "the newest count");
});

Deno.test("a disk nearly as fast as RAM can't be told from it by time: the built-in limits stay", () => {
  const limits = limitsOf(UNSET, bookOf([...times(10, load(3, 100)), ...times(5, load(1.2, 0))]));
  assert.equal(limits.basis, "default");
});

Deno.test("the owner's limits go before what was measured, one by one", () => {
  const book = bookOf([...times(10, load(5, 100)), ...times(5, load(0.5, 0))]);
  const both = limitsOf({ hitBytesPerSecond: 3e9, partialBytesPerSecond: 1e9 }, book);
  assert.deepEqual([both.basis, both.hitBytesPerSecond, both.partialBytesPerSecond], ["configured", 3e9, 1e9]);
  const hit = limitsOf({ hitBytesPerSecond: 1e9, partialBytesPerSecond: null }, book);
  assert.deepEqual([hit.hitBytesPerSecond, hit.partialBytesPerSecond], [1e9, 1e9], "partial never lies above hit");
});

Deno.test("calibrated limits decide, and the verdict says what they rest on", () => {
  const limits = limitsOf(UNSET, bookOf([...times(10, load(5, 100)), ...times(5, load(0.5, 0))]));
  const facts = { bytes: 12.87e9, loadMs: 12.87 / 2.63 * 1000, residencyPct: null, isPlain: true };
  const found = classifyLoad(facts, limits);
  assert.equal(found.class, "partial", "2.63 GB/s is no hit on a box whose RAM gives 5");
  assert.match(found.basis, /3\.80 and 1\.05 GB\/s: calibrated from 10 warm and 5 cold loads/);
});

Deno.test("a verdict says why it was slow: what came from disk, a narrow link, a spill, the room that was made", () => {
  const limits = limitsOf(UNSET, NO_LOADS);
  const figures = {
    sizeBytes: 12.87e9,
    diskBytesPerSecond: 3.1e9,
    link: { gen: 1, width: 8, maxGen: 4, maxWidth: 16 },
  };
  const phases = { roomMs: 61_000, waitMs: 1_400, loadMs: 34_267, answerMs: 20, readBackMs: 5 };
  const found = classifyLoad({ bytes: 12.87e9, loadMs: 34_267, residencyPct: 3.1, isPlain: true }, limits);
  const verdict = explainSwap({ found, figures, phases, residencyPct: 3.1, spilled: true });
  assert.match(verdict, /^Cold Disk Load at 0\.38 GB\/s/);
  for (
    const part of [
      /12\.5 of its 12\.9 GB had to come from disk, which gave 3\.10 GB\/s at best/,
      /x8 of x16/,
      /outside VRAM/,
      /61 s/,
      /1\.4 s/,
    ]
  ) {
    assert.match(verdict, part);
  }
  // A card at rest lowers its generation by itself; that is no fault of the link.
  const quick = { ...phases, roomMs: null, waitMs: null };
  const link = { gen: 1, width: 16, maxGen: 4, maxWidth: 16 };
  const plain = explainSwap({ found, figures: { ...figures, link }, phases: quick, residencyPct: 100, spilled: false });
  assert.doesNotMatch(plain, /;/);
});

Deno.test("what a link carries, by generation and lanes", () => {
  assert.equal(linkRate({ gen: 4, width: 16 }), 31.504e9);
  assert.equal(linkRate({ gen: 9, width: 16 }), null, "a generation that isn't known is not guessed");
});

Deno.test("what calibrates outlives the service: it is read back from the record", () => {
  const item = (fields: Record<string, unknown>, id: number) => ({ id, atMs: id, kind: "swap" as const, fields });
  const warm = { gb_per_s: 5, size_gb: 12.87, residency_before_pct: 100, residency_exact: true, time_is_plain: true };
  const book = seedLoads([
    item(warm, 3),
    item({ ...warm, residency_before_pct: 4, gb_per_s: 0.4 }, 2),
    item({ gb_per_s: 5, class: "ram_hit" }, 1),
  ], [
    item({ gb_per_s: 2.9, read_gb: 9.3 }, 3),
    item({ gb_per_s: 3.1, read_gb: 9.3 }, 2),
    item({ gb_per_s: 9, read_gb: 0.2 }, 1),
  ]);
  assert.deepEqual(book, { warm: [5e9], cold: [0.4e9], disk: [3.1e9, 2.9e9] });
  assert.deepEqual([diskLimit(book), diskLimit(NO_LOADS)], [3.1e9, null], "a short read shows nothing of the disk");
});
