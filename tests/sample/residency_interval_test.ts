import assert from "node:assert/strict";
import * as fc from "fast-check";
import { shareInterval, SHOWN_SAMPLES, stratifiedPages } from "../../lib/sample/residency_interval.ts";

const near = (actual: number, expected: number, by = 1e-4) =>
  assert.ok(Math.abs(actual - expected) < by, `${actual} is not ${expected}`);

Deno.test("the interval is that of Clopper and Pearson at 99 %", () => {
  // From the beta distribution: 5/10 → 0.1283–0.8717, 30/100 → 0.1891–0.4295 (published tables).
  near(shareInterval({ hits: 5, samples: 10, pages: 1_000 }).low, 0.1283);
  near(shareInterval({ hits: 5, samples: 10, pages: 1_000 }).high, 0.8717);
  // All or none: 1 − 0.005^(1/n).
  near(shareInterval({ hits: 0, samples: 100, pages: 1_000 }).high, 1 - 0.005 ** (1 / 100));
  near(shareInterval({ hits: 100, samples: 100, pages: 1_000 }).low, 0.005 ** (1 / 100));
  assert.equal(shareInterval({ hits: 0, samples: 100, pages: 1_000 }).low, 0);
  assert.equal(shareInterval({ hits: 100, samples: 100, pages: 1_000 }).high, 1);
});

Deno.test("with every page looked at there is nothing left to guess", () => {
  assert.deepEqual(shareInterval({ hits: 3, samples: 12, pages: 12 }), { low: 0.25, high: 0.25 });
  assert.deepEqual(shareInterval({ hits: 0, samples: 0, pages: 0 }), { low: 1, high: 1 });
});

Deno.test("1,024 samples tell a share to ±4 points", () => {
  for (let hits = 0; hits <= SHOWN_SAMPLES; hits += 64) {
    const { low, high } = shareInterval({ hits, samples: SHOWN_SAMPLES, pages: 1e6 });
    assert.ok(high - low < 0.083, `${hits}: ${low}–${high}`);
    assert.ok(low <= hits / SHOWN_SAMPLES && hits / SHOWN_SAMPLES <= high);
  }
});

Deno.test("twelve resident samples leave a file that is a third cold possible", () => {
  const { low } = shareInterval({ hits: 12, samples: 12, pages: 3e6 });
  assert.ok(low < 0.65, String(low));
});

Deno.test("each stratum gives one page, whatever the draw; a small file gives all of them", () => {
  fc.assert(fc.property(
    fc.integer({ min: 1, max: 5_000_000 }),
    fc.integer({ min: 1, max: 2_000 }),
    fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    (pages, count, draw) => {
      const drawn = stratifiedPages(pages, { count, random: () => draw });
      assert.equal(drawn.length, Math.min(pages, count));
      for (const [at, page] of drawn.entries()) {
        assert.ok(page >= 0 && page < pages && Number.isInteger(page));
        if (at > 0) assert.ok(page > (drawn[at - 1] ?? pages), "ascending, so no page twice");
      }
    },
  ));
});

Deno.test("two draws look at other pages: a fixed one is resident the second time because of the first", () => {
  const draw = () => stratifiedPages(1_000_000, { count: 1_024, random: Math.random });
  const first = new Set(draw());
  const again = draw().filter((page) => first.has(page)).length;
  assert.ok(again < 50, `${again} of 1024 pages were looked at twice`);
});
