import assert from "node:assert/strict";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { readOnlyStore } from "../../lib/record/read_only_store.ts";
import { AT_MS, event, row } from "./store_contract.ts";

Deno.test("what another store kept can be read, and nothing reaches it", async () => {
  const inner = memoryStore();
  const kept = await inner.append(event(1));
  const store = readOnlyStore(inner);
  assert.equal((await store.append(event(2))).fields["n"], 2);
  assert.equal(await store.amend(kept.id, { a: 1 }), null);
  store.telemetry(row(AT_MS));
  assert.deepEqual(await store.history({ limit: 10, kind: null, before: null, durable: true }), [kept]);
  assert.deepEqual(await store.status(), await inner.status());
});
