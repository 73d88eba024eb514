import assert from "node:assert/strict";
import { readUses } from "../../lib/decide/model_uses.ts";
import { defaultBudget, planWarm } from "../../lib/decide/warm_plan.ts";
import type { Catalogue, CatalogueEntry } from "../../lib/model/catalogue.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { Residency } from "../../lib/model/page_cache.ts";

const NOW = Date.UTC(2026, 0, 10);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
let id = 0;
const event = (kind: "swap" | "yield", agoMs: number, fields: Record<string, unknown>): HistoryItem => ({
  id: ++id,
  atMs: NOW - agoMs,
  kind,
  fields,
});
const swap = (model: string, agoMs: number, more: Record<string, unknown> = {}) =>
  event("swap", agoMs, { model, ...more });

function entry(name: string, more: Partial<CatalogueEntry> = {}): CatalogueEntry {
  return {
    source: "ollama",
    name,
    folder: null,
    digest: null,
    files: [`/m/${name}`],
    sizeBytes: null,
    isShadowed: false,
    problem: null,
    ...more,
  };
}

function catalogueOf(entries: readonly CatalogueEntry[], sizes: Record<string, number>, ageMs = 365 * DAY): Catalogue {
  const paths = Object.entries(sizes);
  return {
    entries,
    files: paths.map(([name, sizeBytes]) => ({ path: `/m/${name}`, sizeBytes, modifiedAtMs: NOW - ageMs, id: name })),
    roots: ["/m"],
    places: [],
    problems: [],
    blobsByDigest: {},
    readAtMs: 0,
  };
}

function measured(
  share: number,
  sizeBytes: number,
  more: Partial<Extract<Residency, { kind: "measured" }>> = {},
): Residency {
  return {
    kind: "measured",
    method: "cachestat",
    sizeBytes,
    residentBytes: Math.round(share * sizeBytes),
    share,
    low: share,
    high: share,
    isExact: true,
    samples: null,
    disturbance: { readBytes: 0, droppedBytes: 0 },
    recentlyEvictedBytes: 0,
    atMs: 0,
    ...more,
  };
}

function plan(more: Partial<Parameters<typeof planWarm>[0]> & { catalogue: Catalogue; events?: HistoryItem[] }) {
  const { events = [], ...facts } = more;
  return planWarm({
    uses: readUses(events, NOW),
    residency: new Map(),
    pinned: new Set(),
    budget: { bytes: 100e9, basis: "test" },
    force: false,
    nowMs: NOW,
    ...facts,
  });
}

const order = (made: ReturnType<typeof plan>) => made.steps.map(({ names }) => names[0]);

Deno.test("what is used often and lately comes first; a use counts half after three days", () => {
  const names = ["old:1", "new:1", "often:1", "never:1"];
  const catalogue = catalogueOf(names.map((name) => entry(name)), Object.fromEntries(names.map((name) => [name, 5e9])));
  const events = [swap("old:1", 9 * DAY), swap("new:1", HOUR), ...[1, 2, 3].map((days) => swap("often:1", days * DAY))];
  assert.deepEqual(order(plan({ catalogue, events })), ["often:1", "new:1", "old:1", "never:1"]);
  const { bySource } = readUses([swap("a:1", 3 * DAY), swap("A:1", 0)], NOW);
  assert.equal(bySource.ollama.get("a:1")?.weight, 1.5);
  assert.match(plan({ catalogue, events }).steps[0]?.why ?? "", /used 3 times, last 24 h ago/);
});

Deno.test("what was unloaded since its last load comes before everything, the newest first", () => {
  const names = ["busy:1", "gone:1", "earlier:1", "back:1", "forgotten:1"];
  const catalogue = catalogueOf(names.map((name) => entry(name)), Object.fromEntries(names.map((name) => [name, 5e9])));
  const events = [
    ...Array.from({ length: 20 }, (_, index) => swap("busy:1", index * HOUR)),
    event("yield", 5 * HOUR, { models: ["earlier:1", "back:1"] }),
    event("yield", HOUR, { models: ["gone:1"] }),
    // Nobody has missed it for two days.
    event("yield", 2 * DAY, { models: ["forgotten:1"] }),
    swap("back:1", HOUR / 2),
  ];
  const made = plan({ catalogue, events });
  assert.deepEqual(order(made).slice(0, 3), ["gone:1", "earlier:1", "busy:1"]);
  assert.match(made.steps[0]?.why ?? "", /unloaded 1 h ago and is asked for next/);
});

Deno.test("the budget is filled in order; what doesn't fit is passed over, smaller ones still come", () => {
  const catalogue = catalogueOf(["a:1", "b:1", "c:1"].map((name) => entry(name)), {
    "a:1": 6e9,
    "b:1": 5e9,
    "c:1": 3e9,
  });
  const events = [swap("a:1", 0), swap("b:1", DAY), swap("c:1", 2 * DAY)];
  const made = plan({ catalogue, events, budget: { bytes: 10e9, basis: "test" } });
  assert.deepEqual(order(made), ["a:1", "c:1"]);
  assert.deepEqual(made.skipped.map(({ cause, why }) => [cause, why]), [[
    "budget",
    "its 5.0 GB don't fit in the 4.0 GB that are left of the budget",
  ]]);
  assert.equal(made.readBytes, 9e9);
});

Deno.test("only what is confidently in memory is left out, and it takes its part of the budget", () => {
  const names = ["exact:1", "nearly:1", "few:1", "sampled:1", "unsure:1"];
  const catalogue = catalogueOf(names.map((name) => entry(name)), Object.fromEntries(names.map((name) => [name, 1e9])));
  const sample = (share: number, samples: number) =>
    measured(share, 1e9, { isExact: false, samples, method: "nowait" });
  const residency = new Map<string, Residency>([
    ["/m/exact:1", measured(0.996, 1e9)],
    ["/m/nearly:1", measured(0.99, 1e9)],
    // 12 windows once called a mostly cold file of 12.87 GB warm.
    ["/m/few:1", sample(1, 12)],
    ["/m/sampled:1", sample(1, 64)],
    ["/m/unsure:1", { kind: "unmeasurable", sizeBytes: 1e9, cause: "sparse", reason: "it has holes", atMs: 0 }],
  ]);
  const made = plan({ catalogue, residency });
  assert.deepEqual(order(made).toSorted(), ["few:1", "nearly:1", "unsure:1"]);
  assert.equal(made.keptBytes, 2e9);
  assert.equal(made.steps.find(({ names }) => names[0] === "nearly:1")?.readBytes, 1e7);
  assert.equal(made.steps.find(({ names }) => names[0] === "few:1")?.readBytes, 1e9, "a probe's share is no estimate");
  const forced = plan({ catalogue, residency, force: true });
  assert.equal(forced.steps.length, 5);
  assert.equal(forced.readBytes, 5e9);
});

Deno.test("shared files once, pinned and unusable ones not at all, each with its reason", () => {
  const catalogue = catalogueOf([
    entry("one:1", { files: ["/m/shared"] }),
    entry("two:1", { files: ["/m/shared", "/m/extra"] }),
    entry("pin:1"),
    entry("half:1", { problem: "its weights are missing" }),
    entry("twin:1", { isShadowed: true }),
  ], { shared: 2e9, extra: 1e9, "pin:1": 1e9, "half:1": 1e9, "twin:1": 1e9 });
  const made = plan({ catalogue, pinned: new Set(["/m/pin:1"]), events: [swap("two:1", 0)] });
  assert.deepEqual(made.steps.map(({ path, names }) => [path, names]), [
    ["/m/extra", ["two:1"]],
    ["/m/shared", ["one:1", "two:1"]],
  ]);
  assert.deepEqual(made.skipped.map(({ path, cause }) => [path, cause]).toSorted(), [
    ["/m/half:1", "broken"],
    ["/m/pin:1", "pinned"],
    ["/m/twin:1", "shadowed"],
  ]);
});

Deno.test("what a GB saves is measured once there are three loads of each class; SPEC 2.7 until then", () => {
  const loads = (kind: string, ...rates: number[]) =>
    rates.map((rate) => swap("a:1", DAY, { class: kind, gb_per_s: rate }));
  const usual = readUses(loads("cold", 1, 1, 1), NOW);
  assert.deepEqual([Math.round(usual.savedSPerGb * 100) / 100, usual.loads], [2.25, 0]);
  const own = readUses([...loads("cold", 0.5, 0.4, 0.6), ...loads("ram_hit", 2, 2.5, 1)], NOW);
  assert.deepEqual([own.savedSPerGb, own.loads], [1.5, 6]);
});

Deno.test("without a budget it is 80 % of free memory and page cache, less what is locked", () => {
  const memory = {
    totalBytes: 64e9,
    freeBytes: 10e9,
    availableBytes: 50e9,
    cachedBytes: 40e9,
    applicationsBytes: 14e9,
    swapTotalBytes: 0,
    swapFreeBytes: 0,
  };
  assert.deepEqual(defaultBudget(memory, 0), { bytes: 40e9, basis: "80 % of free memory and page cache" });
  assert.deepEqual(defaultBudget(memory, 10e9).bytes, 32e9);
  assert.match(defaultBudget(memory, 10e9).basis, /less 10\.0 GB pinned/);
});
