import assert from "node:assert/strict";
import type { HistoryItem } from "../../lib/model/history.ts";
import { GIB } from "../../lib/model/units.ts";
import { peakOf } from "../../lib/decide/footprint.ts";
import { rowsOf } from "../../lib/services/planner.ts";

const swap = (id: number, model: string, fields: Record<string, unknown>): HistoryItem => ({
  id,
  atMs: id,
  kind: "swap",
  fields: { model, ...fields },
});

const stay = (gibs: number) => peakOf(gibs * GIB);

Deno.test("footprints: the largest counts, never below three, with load times by class", () => {
  const footprints = { "a:latest": [5, 7, 6].map(stay), comfyui: [9, 8].map(stay) };
  const rows = rowsOf({ footprints, misses: { "a:latest": 2 }, workflows: {} }, [
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
  assert.equal(model?.misses, 2);
  assert.deepEqual(model?.warm, { n: 3, medianMs: 2_000 });
  assert.deepEqual(model?.cold, { n: 1, medianMs: 9_000 });
});

Deno.test("footprints: nothing measured, no rows", () => {
  assert.deepEqual(rowsOf({ footprints: { "a:latest": [] }, misses: {}, workflows: {} }, []), []);
});

Deno.test("footprints: a row for each context size, and only the newest one is used", () => {
  const at = (gibs: number, contextLength: number) => ({
    peakBytes: gibs * GIB,
    steadyBytes: (gibs - 1) * GIB,
    contextLength,
    parallel: 1,
    process: null,
  });
  const measured = [at(8, 4_096), at(8, 4_096), at(8, 4_096), at(12, 32_768), at(13, 32_768)];
  const rows = rowsOf({ footprints: { "a:latest": measured }, misses: { "a:latest": 1 }, workflows: {} }, [
    swap(1, "a", { class: "cold", load_ms: 9_000, context_length: 32_768 }),
  ]);
  assert.deepEqual(rows.map((row) => [row.contextLength, row.n, row.isUsed, row.misses, row.cold.n]), [
    [32_768, 2, false, 1, 1],
    [4_096, 3, false, 0, 0],
  ]);
  assert.deepEqual(rows.map(({ steadyBytes }) => steadyBytes), [11 * GIB, 7 * GIB]);
});

Deno.test("footprints: a workflow by its files, never what hand-offs are decided by", () => {
  const run = (gibs: number) => ({ peakBytes: gibs * GIB, stepMs: null });
  const workflows = { "sdxl.safetensors 1024x1024": [run(9), run(10), { peakBytes: null, stepMs: 4 }] };
  const [row, ...others] = rowsOf({ footprints: {}, misses: {}, workflows }, []);
  assert.deepEqual([row?.source, row?.n, row?.peakBytes, row?.isUsed, others.length], [
    "comfyui",
    2,
    10 * GIB,
    false,
    0,
  ]);
});
