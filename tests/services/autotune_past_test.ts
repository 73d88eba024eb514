/** What is told of a sweep whose service was killed. The kill itself is in tests/e2e. */
import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Store } from "../../lib/model/ports.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { tellInterrupted } from "../../lib/services/autotune_past.ts";
import { createRuns } from "../../lib/services/runs.ts";

const BEGUN = {
  event: "start",
  sweep: "s1",
  knob: "power_limit_w",
  workload: "comfy",
  model: null,
  profile: "balanced",
};
const STEP = { event: "step", sweep: "s1", role: "control", value: "stock", model: "sdxl", per_second: 6.5 };

async function storeWith(events: readonly Readonly<Record<string, unknown>>[]): Promise<Store> {
  const store = memoryStore();
  for (const [at, fields] of events.entries()) await store.append({ atMs: 1_000 * at, kind: "autotune", fields });
  return store;
}

async function newestOf(store: Store): Promise<Readonly<Record<string, unknown>>> {
  const [item] = await store.history({ limit: 1, kind: "autotune", before: null, durable: true });
  return item?.fields ?? {};
}

Deno.test("a sweep without a result was interrupted: written down once, and its run can be asked for", async () => {
  const clock = new LabClock();
  const store = await storeWith([BEGUN, STEP]);
  const run = await tellInterrupted({ store, clock });
  assert.ok(run !== null);
  const { event, sweep, end, model, control_per_second: control, message } = await newestOf(store);
  assert.deepEqual([event, sweep, end, model, control], ["result", "s1", "interrupted", "sdxl", 6.5]);
  assert.match(String(message), /^Interrupted: the service ended in the middle of the sweep of power_limit_w; its one/);

  const runs = createRuns({ clock, past: [run], onDefect: (error) => assert.fail(String(error)) });
  const { state, startedAtMs, endedAtMs, error } = runs.get("s1");
  assert.deepEqual([state, startedAtMs, endedAtMs, error?.message], ["failed", 0, 1_000, message]);
  assert.deepEqual(runs.list().map(({ id }) => id), ["s1"]);
  assert.equal((await runs.cancel("s1")).state, "failed");
  assert.equal((await runs.ended("s1")).state, "failed");
  await clock.advance(3_600_000);
  assert.throws(() => runs.get("s1"), { code: "not_found" });

  assert.equal(await tellInterrupted({ store, clock }), null);
});

Deno.test("a sweep that ended, and a record without sweeps, are left alone", async () => {
  const clock = new LabClock();
  const [ended, empty] = [await storeWith([BEGUN, STEP, { event: "result", sweep: "s1" }]), memoryStore()];
  assert.equal(await tellInterrupted({ store: ended, clock }), null);
  assert.equal(await tellInterrupted({ store: empty, clock }), null);
  assert.equal((await newestOf(ended))["end"], undefined);
  assert.deepEqual(await newestOf(empty), {});
});
