import assert from "node:assert/strict";
import type { HistoryItem } from "../../lib/model/history.ts";
import { GIB } from "../../lib/model/units.ts";
import { rowsOf } from "../../lib/services/planner.ts";

const swap = (id: number, model: string, fields: Record<string, unknown>): HistoryItem => ({
  id,
  atMs: id,
  kind: "swap",
  fields: { model, ...fields },
});

Deno.test("footprints: the largest counts, never below three, with load times by class", () => {
  const rows = rowsOf({ "a:latest": [5 * GIB, 7 * GIB, 6 * GIB], comfyui: [9 * GIB, 8 * GIB] }, [
    swap(1, "A", { class: "ram_hit", load_ms: 3_000 }),
    swap(2, "a:latest", { class: "ram_hit", load_ms: 1_000 }),
    swap(3, "a", { class: "ram_hit", load_ms: 2_000 }),
    swap(4, "a", { class: "cold", load_ms: 9_000 }),
    swap(5, "a", { class: "partial", load_ms: 5_000 }),
    swap(6, "b", { class: "cold", load_ms: 1 }),
    swap(7, "a", { class: "cold", load_ms: null }),
  ]);
  assert.deepEqual(rows.map((row) => [row.name, row.source, row.n, row.isUsed]), [
    ["comfyui", "comfyui", 2, false],
    ["a:latest", "ollama", 3, true],
  ]);
  const [, model] = rows;
  assert.deepEqual([model?.peakBytes, model?.medianBytes, model?.leastBytes, model?.latestBytes], [
    7 * GIB,
    6 * GIB,
    5 * GIB,
    6 * GIB,
  ]);
  assert.deepEqual(model?.warm, { n: 3, medianMs: 2_000 });
  assert.deepEqual(model?.cold, { n: 1, medianMs: 9_000 });
});

Deno.test("footprints: nothing measured, no rows", () => {
  assert.deepEqual(rowsOf({ "a:latest": [] }, []), []);
});
