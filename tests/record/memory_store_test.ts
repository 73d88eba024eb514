import assert from "node:assert/strict";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { event, storeContract } from "./store_contract.ts";

storeContract("memory", () => ({ store: memoryStore() }));

Deno.test("memory: the oldest events are forgotten beyond the limit, and nothing says it is on disk", async () => {
  const store = memoryStore({ limit: 2 });
  for (const n of [1, 2, 3]) await store.append(event(n));
  const items = await store.history({ limit: 10, kind: null, before: null, durable: true });
  assert.deepEqual(items.map(({ id }) => id), [3, 2]);
  assert.deepEqual(await store.status(), {
    path: null,
    sizeBytes: null,
    rows: { events: 2 },
    hoursHeld: null,
    lastFlushAtMs: null,
    error: null,
    schemaVersion: null,
  });
});
