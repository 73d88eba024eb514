/** What every Store keeps, whoever keeps it. Run by the tests of each. */
import assert from "node:assert/strict";
import type { NewHistoryItem, TelemetryRow } from "../../lib/model/history.ts";
import type { Store } from "../../lib/model/ports.ts";

export const AT_MS = Date.UTC(2026, 11, 1, 10);

export function event(n: number, kind: NewHistoryItem["kind"] = "yield"): NewHistoryItem {
  return { atMs: AT_MS + n, kind, fields: { n } };
}

/** A row whose figures all differ, and are kept exactly by their units. */
export function row(atMs: number): TelemetryRow {
  const mib = 2 ** 20;
  return {
    atMs,
    vramUsedBytes: 12_345 * mib,
    ollamaBytes: 11_001 * mib,
    comfyBytes: 812 * mib,
    desktopBytes: 4 * mib,
    unmanagedBytes: 842 * mib,
    unaccountedBytes: 0,
    gpuUtilPct: 97,
    memoryUtilPct: 41,
    temperatureC: 63,
    memoryTemperatureC: null,
    powerW: 224.3,
    powerLimitW: 320,
    fanPct: 38,
    graphicsMhz: 2_835,
    memoryMhz: 11_251,
    throttleReasons: 4,
    pcieRxKbps: 131_000,
    pcieTxKbps: 12_000,
    ramUsedBytes: 9_123 * mib,
    ramCachedBytes: 41_000 * mib,
    ramAvailableBytes: 50_111 * mib,
    comfyQueue: 2,
  };
}

const ALL = { limit: 100, kind: null, before: null, durable: true } as const;

/** Registers the suite; `open` gives an empty store, `end` releases what lies behind it. */
export function storeContract(
  name: string,
  open: () => { readonly store: Store; readonly end?: () => Promise<void> | void },
): void {
  const each = (what: string, run: (store: Store) => Promise<void>) =>
    Deno.test(`${name}: ${what}`, async () => {
      const { store, end } = open();
      try {
        await run(store);
      } finally {
        await store.close();
        await end?.();
      }
    });

  each("appended events come back as they were, numbered upwards, newest first", async (store) => {
    const fields = { outcome: "released", freed_gb: 12.87, models: ["qwen3:32b"], margin_ms: null, nested: { a: [1] } };
    const first = await store.append({ atMs: AT_MS, kind: "yield", fields });
    const second = await store.append(event(2, "purge"));
    assert.ok(first.id > 0 && second.id > first.id);
    assert.deepEqual(first, { id: first.id, atMs: AT_MS, kind: "yield", fields });
    assert.deepEqual(await store.history(ALL), [second, first]);
  });

  each("events appended at once all get ids, in their order", async (store) => {
    const kept = await Promise.all([1, 2, 3, 4, 5].map((n) => store.append(event(n))));
    assert.deepEqual(kept.map(({ fields }) => fields["n"]), [1, 2, 3, 4, 5]);
    assert.deepEqual(await store.history(ALL), kept.toReversed());
  });

  each("a query is limited, filtered by kind, and paged by id", async (store) => {
    const kept = [];
    for (let n = 0; n < 6; n++) kept.push(await store.append(event(n, n % 2 === 0 ? "swap" : "purge")));
    const numbers = async (query: Partial<Parameters<Store["history"]>[0]>) =>
      (await store.history({ ...ALL, ...query })).map(({ fields }) => fields["n"]);
    assert.deepEqual(await numbers({ limit: 2 }), [5, 4]);
    assert.deepEqual(await numbers({ kind: "swap" }), [4, 2, 0]);
    assert.deepEqual(await numbers({ before: kept[4]?.id ?? 0 }), [3, 2, 1, 0]);
    assert.deepEqual(await numbers({ before: kept[4]?.id ?? 0, kind: "swap", limit: 1 }), [2]);
    assert.deepEqual(await numbers({ kind: "autotune" }), []);
    assert.deepEqual(await numbers({ durable: false }), [5, 4, 3, 2, 1, 0]);
  });

  each("an amendment adds and replaces fields, and answers the whole event", async (store) => {
    const { id } = await store.append({ atMs: AT_MS, kind: "yield", fields: { outcome: "released", margin_ms: null } });
    await store.append(event(1));
    const amended = await store.amend(id, { margin_ms: -160, suspected_partial_load: true });
    const expected = {
      id,
      atMs: AT_MS,
      kind: "yield",
      fields: { outcome: "released", margin_ms: -160, suspected_partial_load: true },
    };
    assert.deepEqual(amended, expected);
    assert.deepEqual((await store.history(ALL))[1], expected);
    assert.deepEqual((await store.history({ ...ALL, durable: false }))[1], expected);
  });

  each("an amendment of an unknown event changes nothing and answers null", async (store) => {
    const kept = await store.append(event(1));
    assert.equal(await store.amend(kept.id + 7, { a: 1 }), null);
    assert.equal(await store.amend(-7, { a: 1 }), null);
    assert.deepEqual(await store.history(ALL), [kept]);
  });

  each("what a caller does to its fields afterwards changes nothing", async (store) => {
    const fields: Record<string, unknown> = { models: ["a"] };
    const pending = store.append({ atMs: AT_MS, kind: "swap", fields });
    fields["models"] = ["b"];
    await pending;
    assert.deepEqual((await store.history(ALL))[0]?.fields, { models: ["a"] });
  });

  each("fields that JSON can't hold cost themselves, never the event", async (store) => {
    const cyclic: Record<string, unknown> = { big: 5n };
    await store.append({ atMs: AT_MS, kind: "swap", fields: { big: 5n, gone: undefined, call: () => 1 } });
    cyclic["self"] = cyclic;
    await store.append({ atMs: AT_MS, kind: "swap", fields: cyclic });
    const [second, first] = await store.history(ALL);
    assert.deepEqual(first?.fields, { big: "5" });
    assert.deepEqual(second?.fields["names"], ["big", "self"]);
  });

  each("telemetry never throws, and the status has no error", async (store) => {
    store.telemetry(row(AT_MS));
    store.telemetry(row(Number.NaN));
    const status = await store.status();
    assert.equal(status.error, null);
    assert.equal(status.rows["events"], 0);
  });

  each("closing twice is closing once, and nothing throws afterwards", async (store) => {
    await store.append(event(1));
    await Promise.all([store.close(), store.close()]);
    store.telemetry(row(AT_MS));
    const late = await store.append(event(2));
    assert.equal(late.fields["n"], 2);
    assert.deepEqual((await store.amend(late.id, { a: 1 }))?.fields, { n: 2, a: 1 });
  });
}
