/** Sweeps over the simulated box, servers and all: what reaches the card, and what is left of it. The rest is in bench. */
import assert from "node:assert/strict";
import type { SweepRequest } from "../../lib/model/autotune.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { Profile } from "../../lib/model/tuning.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openSweepScene, SWEEP, type SweepScene } from "./sweep_scene.ts";

/** One value, once: as short as a sweep can be. */
const SHORT: SweepRequest = { ...SWEEP, start: 370, stop: 370, repeats: 1 };

function begin(scene: SweepScene, request: SweepRequest) {
  const abort = new AbortController();
  const phases: string[] = [];
  const progress = ({ phase }: { readonly phase: string }) => void phases.push(phase);
  const answer = scene.house.services.autotune.sweep(request, { signal: abort.signal, progress });
  // Looked at by whoever waits for it; until then it may reject.
  answer.catch(() => {});
  return { answer, abort, phases };
}

async function stepsOf(scene: SweepScene): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const items = await scene.until(
    scene.store.history({ limit: 100, kind: "autotune", before: null, durable: true }),
  );
  return items.map(({ fields }) => fields).toReversed();
}

async function post(scene: SweepScene, seed: number): Promise<void> {
  const node = (class_type: string, inputs: object) => ({ class_type, inputs });
  const prompt = { "1": node("LabWork", { steps: 3, step_ms: 400, seed }) };
  const response = await fetch(`${scene.box.comfy.url}/prompt`, { method: "POST", body: JSON.stringify({ prompt }) });
  await response.body?.cancel();
}

Deno.test("a knob that the driver ignores is refused in the preflight, before anything is measured", async () => {
  await using scene = await openSweepScene();
  scene.box.table.ignore("setClockOffset", true);
  const { answer } = begin(scene, { ...SWEEP, knob: "mem_offset_mhz", start: 200, stop: 400 });
  await assert.rejects(scene.until(answer), (error: unknown) => {
    assert.ok(error instanceof Failure);
    assert.equal(error.code, "unavailable");
    assert.match(error.message, /Cannot sweep mem_offset_mhz: .*still reads/);
    return true;
  });
  const steps = await stepsOf(scene);
  assert.deepEqual(
    steps.map(({ event, role, verdict, end }) => [event, role ?? end, verdict]),
    [["start", undefined, undefined], ["step", "preflight", "refused"], ["result", "refused", undefined]],
  );
  assert.deepEqual(scene.offStock(), []);
});

Deno.test("ComfyUI's prompt takes the lane at once: the card is back, and the sweep goes on when it is idle", async () => {
  await using scene = await openSweepScene();
  const { answer, phases } = begin(scene, SHORT);
  await scene.clock.runUntil(() => phases.some((phase) => phase.startsWith("measuring 370 W (candidate)")), {
    limitMs: 120_000,
  });
  assert.deepEqual(scene.offStock(), ["power"]);
  await scene.until(post(scene, 7));
  await scene.clock.runUntil(() => phases.at(-1) === "paused: ComfyUI has work", { limitMs: 1_000 });
  await scene.clock.advance(100);
  assert.deepEqual(scene.offStock(), []);
  // A stranger's prompt is arbitrated as ever; ours never are.
  const { end, pauses } = await scene.until(answer);
  assert.deepEqual([end, pauses], ["improved", 1]);
  // The stranger's work is what the profile follows from then on; the sweep's own never was.
  assert.equal(scene.house.services.card.tuning().active, "comfy");
  const yields = await scene.until(
    scene.store.history({ limit: 100, kind: "arbitration", before: null, durable: true }),
  );
  assert.deepEqual(yields, []);
  assert.deepEqual(scene.complaints, []);
});

Deno.test("an unstable value stops the climb; a cancel ends with the measurement in flight; both leave stock", async () => {
  const silicon = { stableCoreOffsetMhz: 100, breakdown: "xid" as const };
  await using scene = await openSweepScene({ silicon });
  const climb = { ...SWEEP, knob: "core_offset_mhz" as const, start: 90, stop: 270, step: 90, repeats: 1 };
  const { end, stoppedBy, bestValue } = await scene.until(begin(scene, climb).answer);
  assert.deepEqual([end, bestValue], ["stopped_early", 90]);
  assert.match(stoppedBy ?? "", /180 MHz is unstable: The driver reported Xid 13/);
  assert.deepEqual(scene.offStock(), []);

  const second = begin(scene, SHORT);
  await scene.clock.runUntil(() => second.phases.some((phase) => phase.startsWith("measuring stock")), {
    limitMs: 120_000,
  });
  second.abort.abort();
  await assert.rejects(scene.until(second.answer), { code: "cancelled" });
  assert.deepEqual(scene.offStock(), []);
  assert.equal(scene.house.services.autotune.current(), null);
});

Deno.test("a stop in the middle of a step keeps the step as cut short, tells of the interruption, and leaves stock", async () => {
  const store = memoryStore();
  let box: SweepScene["box"];
  {
    await using scene = await openSweepScene({ store });
    box = scene.box;
    const { phases } = begin(scene, SHORT);
    await scene.clock.runUntil(() => phases.some((phase) => phase.startsWith("measuring 370 W (candidate)")), {
      limitMs: 120_000,
    });
    assert.deepEqual(scene.offStock(), ["power"]);
  }
  assert.equal(box.table.levers.powerLimitW, 320);
  const items = await store.history({ limit: 2, kind: "autotune", before: null, durable: true });
  assert.deepEqual(
    items.map(({ fields: { event, end, value, verdict } }) => [event, end ?? value, verdict]),
    [["result", "interrupted", undefined], ["step", 370, "cut_short"]],
  );
});

Deno.test("Ollama's decoding gains by the memory's clock, with a model that was chosen: the smallest that generates", async () => {
  await using scene = await openSweepScene();
  const { autotune } = scene.house.services;
  const ofModel = (model: string) => () => autotune.admit({ ...SHORT, workload: "ollama", model });
  assert.throws(ofModel("llama3.1:9b"), { code: "not_found", message: /llama3\.1:9b/ });
  assert.throws(ofModel("nomic-embed-text"), { code: "invalid_input", message: /generates no text/ });
  const request = { ...SHORT, workload: "ollama", knob: "mem_offset_mhz", start: 1_500, stop: 1_500 } as const;
  const { end, bestValue, gainPct } = await scene.until(begin(scene, request).answer);
  assert.deepEqual([end, bestValue], ["improved", 1_500]);
  assert.ok(Math.abs((gainPct ?? 0) - 6.67) < 1, `${gainPct} %`);
  const [, step] = await stepsOf(scene);
  assert.equal(step?.["model"], "llama3.1:8b");
  assert.deepEqual(scene.offStock(), []);
});

Deno.test("a lock is swept against the profile's own and against none, and an ignored one is refused under load", async () => {
  const slow: Profile = { name: "slow", isBuiltIn: false, values: { lock_core_mhz: 1_200 }, measured: {} };
  await using scene = await openSweepScene({ book: { profiles: [slow], quarantine: [] } });
  const request = { ...SHORT, knob: "lock_core_mhz", profile: "slow", start: 2_100, stop: 2_100 } as const;
  const { end, controlValue, bestValue } = await scene.until(begin(scene, request).answer);
  // 2,400 MHz are all that diffusion makes use of: unlocked is faster than any lock below.
  assert.deepEqual([end, controlValue, bestValue], ["improved", 1_200, "stock"]);
  const tried = (await stepsOf(scene)).filter(({ role }) => role !== undefined && !String(role).startsWith("confirm"));
  assert.deepEqual(tried.map(({ role, value }) => [role, value]), [
    ["preflight", 2_100],
    ["warm_up", 1_200],
    ["control", 1_200],
    ["unlocked", "stock"],
    ["candidate", 2_100],
  ]);
  scene.box.table.ignore("lockClocks", true);
  await assert.rejects(scene.until(begin(scene, request).answer), /Locked at 2100 MHz, and under load the clock read/);
  assert.deepEqual(scene.offStock(), []);
});
