import assert from "node:assert/strict";
import type { SeriesQuery } from "../../lib/model/analytics.ts";
import type { Throughput } from "../../lib/model/history.ts";
import { ArchiveFile } from "../../lib/record/archive_file.ts";
import { DEFAULT_RETENTION, type Retention } from "../../lib/record/retention.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { AT_MS, row } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

const HOUR_S = 3_600;
/** A whole hour, so that buckets are easy to name. */
const START_MS = AT_MS - AT_MS % 3_600_000;

function open(retention: Partial<Retention> = {}) {
  const folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const file = new StoreFile(path, {
    clock: { wallMs: () => AT_MS },
    retention: { ...DEFAULT_RETENTION, ...retention },
    onNote: assert.fail,
  });
  /** Seconds of a temperature that climbs a degree a minute. */
  const fill = (from: number, to: number, step = 1) => {
    const rows = [];
    for (let second = from; second < to; second += step) {
      rows.push({ ...row(START_MS + second * 1_000), temperatureC: Math.floor(second / 60) % 100, fanPct: null });
    }
    file.writeTelemetry(rows);
    while (file.rollUp() > 0);
  };
  return {
    file,
    fill,
    archive: new ArchiveFile(path),
    [Symbol.dispose]: () => {
      file.close();
      folder[Symbol.dispose]();
    },
  };
}

function over(fromS: number, toS: number, points: number): SeriesQuery {
  const at = (second: number) => START_MS + second * 1_000;
  return { metrics: ["temperature_c", "fan_pct", "power_w"], fromMs: at(fromS), toMs: at(toS), points };
}

Deno.test("the grain follows the zoom, and every grain tells the same averages", () => {
  using box = open();
  box.fill(0, 3 * HOUR_S);
  const near = box.archive.series(over(0, 600, 600));
  assert.deepEqual([near.grain, near.bucketMs, near.atMs.length], ["raw", 1_000, 600]);
  assert.deepEqual(near.lines.temperature_c?.avg.slice(58, 62), [0, 0, 1, 1]);
  assert.deepEqual(near.lines.power_w?.max[0], 224.3);
  assert.deepEqual(near.lines.fan_pct?.avg[0], null);
  const middle = box.archive.series(over(0, 3 * HOUR_S, 60));
  assert.deepEqual([middle.grain, middle.bucketMs, middle.atMs.length], ["minute", 180_000, 60]);
  assert.deepEqual(middle.lines.temperature_c?.avg.slice(0, 2), [1, 4]);
  assert.deepEqual([middle.lines.temperature_c?.min[1], middle.lines.temperature_c?.max[1]], [3, 5]);
  const far = box.archive.series(over(0, 3 * HOUR_S, 3));
  assert.deepEqual([far.grain, far.bucketMs, far.lines.temperature_c?.avg[0]], ["hour", 3_600_000, 29.5]);
});

Deno.test("what isn't summed up yet is read from the finer rows: the newest second is in every picture", () => {
  using box = open();
  box.fill(0, HOUR_S + 90);
  box.file.writeTelemetry([{ ...row(START_MS + (HOUR_S + 90) * 1_000), temperatureC: 99 }]);
  for (const points of [2, 100, 5_000]) {
    const { lines } = box.archive.series(over(0, 2 * HOUR_S, points));
    assert.equal(Math.max(...(lines.temperature_c?.max ?? []).map((value) => value ?? 0)), 99, `${points} points`);
  }
});

Deno.test("seconds that are gone by age are shown by their minutes", () => {
  using box = open({ telemetryMs: HOUR_S * 1_000 });
  box.fill(0, 3 * HOUR_S, 5);
  while (box.file.prune(START_MS + 3 * HOUR_S * 1_000) > 0);
  const old = box.archive.series(over(0, 600, 600));
  assert.deepEqual([old.grain, old.atMs.length], ["minute", 10]);
  assert.deepEqual(old.lines.temperature_c?.avg, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(box.archive.series(over(2.5 * HOUR_S, 2.6 * HOUR_S, 600)).grain, "raw");
});

Deno.test("there are never more buckets than were asked for, and gaps are unknown", () => {
  using box = open();
  box.fill(0, 60);
  for (const [from, to, points] of [[7, 3_601, 600], [59, 61, 2], [0, 86_400 * 365, 5_000], [100, 100, 2]] as const) {
    const { atMs, lines } = box.archive.series(over(from, to, points));
    assert.ok(atMs.length >= 1 && atMs.length <= points, `${atMs.length} of ${points}`);
    assert.equal(lines.temperature_c?.avg.length, atMs.length);
  }
  assert.equal(box.archive.series(over(120, 180, 60)).lines.temperature_c?.avg.every((value) => value === null), true);
});

function speed(perSecond: number, profile: string | null, change: Partial<Throughput> = {}): Throughput {
  return {
    atMs: AT_MS,
    workload: "ollama",
    model: "qwen3:14b",
    profile,
    basis: "generation",
    perSecond,
    durationMs: 1_000,
    temperatureC: 60,
    powerW: 220,
    graphicsMhz: null,
    memoryMhz: 11_251,
    fanPct: 40,
    throttledPct: 0,
    ...change,
  };
}

Deno.test("profiles are compared only where workload, model and way of measuring are the same", () => {
  using box = open();
  const ten = (profile: string | null, from: number) =>
    Array.from({ length: 10 }, (_, n) => speed(from + n / 100, profile));
  box.file.writeThroughput([
    ...ten("ollama", 73),
    ...ten("comfy", 75),
    speed(9, null),
    speed(70, "comfy", { model: "x" }),
  ]);
  const { entries, comparisons, read } = box.archive.profiles(0);
  assert.equal(read, 22);
  assert.deepEqual(entries.map(({ profile, model, perSecond }) => [profile, model, perSecond.n]), [
    ["comfy", "qwen3:14b", 10],
    ["none", "qwen3:14b", 1],
    ["ollama", "qwen3:14b", 10],
    ["comfy", "x", 1],
  ]);
  assert.deepEqual(comparisons.map(({ a, b, standsOut }) => [a, b, standsOut]), [
    ["comfy", "none", null],
    ["comfy", "ollama", true],
    ["none", "ollama", null],
  ]);
  assert.deepEqual(entries[0]?.thermals.powerW, 220);
  assert.deepEqual(entries[0]?.thermals.graphicsMhz, null);
  assert.equal(box.archive.profiles(AT_MS + 1).read, 0);
});

Deno.test("swaps are summed up by class and model, hand-offs by outcome; what didn't release has no latency", () => {
  using box = open();
  const item = (kind: "swap" | "yield" | "purge", fields: object) =>
    ({ kind: "append", isRepeat: false, event: { atMs: AT_MS, kind, fields: JSON.stringify(fields) } }) as const;
  box.file.writeEvents([
    item("swap", { model: "a", load_ms: 800, class: "ram_hit", gb_per_s: 2.6, tokens_per_sec: 73 }),
    item("swap", { model: "a", load_ms: 9_000, class: "cold", gb_per_s: 0.4, tokens_per_sec: null }),
    item("swap", { model: "b", load_ms: null, class: "unclassified" }),
    item("yield", { outcome: "released", confirm_ms: 400, margin_ms: 900 }),
    item("yield", { outcome: "busy", confirm_ms: 9_999, margin_ms: -20 }),
    item("purge", { outcome: "released", confirm_ms: 600 }),
  ]);
  const report = box.archive.swaps(0);
  assert.deepEqual([report.swapMs?.n, report.swapMs?.median, report.yieldMs?.n, report.purgeMs?.max], [
    2,
    4_900,
    1,
    600,
  ]);
  assert.deepEqual(report.classes, { cold: 1, ram_hit: 1, unclassified: 1 });
  assert.deepEqual(report.yieldOutcomes, { busy: 1, released: 1 });
  assert.deepEqual([report.marginMs?.n, report.lateHandOffs], [2, 1]);
  assert.deepEqual(report.models.map(({ model, swaps }) => [model, swaps]), [["a", 2], ["b", 1]]);
  assert.equal(report.ramAgainstDisk?.standsOut, null);
});

Deno.test("an export pages through everything once", () => {
  using box = open();
  box.fill(0, 4_500);
  const seen: number[] = [];
  let fromMs: number | null = 0;
  while (fromMs !== null) {
    const page: ReturnType<ArchiveFile["telemetry"]> = box.archive.telemetry({ fromMs, toMs: Number.MAX_SAFE_INTEGER });
    seen.push(...page.rows.map(({ atMs }) => atMs));
    fromMs = page.next;
  }
  assert.equal(seen.length, 4_500);
  assert.equal(new Set(seen).size, 4_500);
});

Deno.test("a file of another layout is refused in words", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.db`;
  Deno.copyFileSync(new URL("../fixtures/record/layout_1.db", import.meta.url), path);
  assert.throws(() => new ArchiveFile(path).swaps(0), /has layout 1/);
});

Deno.test("events are paged oldest first, of one kind where one is asked for", () => {
  using box = open();
  const item = (n: number, kind: "swap" | "yield") =>
    ({ kind: "append", isRepeat: false, event: { atMs: AT_MS + n, kind, fields: `{"n":${n}}` } }) as const;
  box.file.writeEvents([item(1, "swap"), item(2, "yield"), item(3, "swap")]);
  const read = (kind: "swap" | null) =>
    box.archive.events({ fromMs: AT_MS + 1, toMs: AT_MS + 4, after: 0, kind }).events.map(({ fields }) => fields["n"]);
  assert.deepEqual(read(null), [1, 2, 3]);
  assert.deepEqual(read("swap"), [1, 3]);
});
