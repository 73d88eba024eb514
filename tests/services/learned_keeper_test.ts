/** What was measured to be taken outlives the service, however that ends: kept at once, and read at the next start. */
import assert from "node:assert/strict";
import { type ArbiterState, initialArbiter, type Learned } from "../../lib/decide/arbiter_state.ts";
import { type Measurement, peakOf, remember } from "../../lib/decide/footprint.ts";
import { withRun } from "../../lib/decide/partial_load.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import type { Log, Store } from "../../lib/model/ports.ts";
import { GIB } from "../../lib/model/units.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { LearnedKeeper } from "../../lib/services/learned_keeper.ts";
import { readPast } from "../../lib/services/past.ts";
import { rowsOf } from "../../lib/services/planner.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";

const WORKFLOW = "sdxl.safetensors, 1024×1024";
const log: Log = {
  debug() {},
  info() {},
  warn: (message) => assert.fail(message),
  error: (message) => assert.fail(message),
};

function stayOf(pid: number, gib: number): Measurement {
  const process = { pid, startTime: 100 * pid };
  return { peakBytes: gib * GIB, steadyBytes: gib * GIB, contextLength: 8_192, parallel: 1, process };
}

/** A service's life: what it learns, one decision after the other, on what an earlier one left. */
class Life {
  readonly clock = new LabClock();
  readonly #keeper: LearnedKeeper;
  state: ArbiterState;

  constructor(store: Store, learned: Learned = {}) {
    this.#keeper = new LearnedKeeper({ clock: this.clock, log, store });
    this.state = initialArbiter(DEFAULT_POLICY, learned);
  }

  stay(key: string, measured: Measurement): void {
    this.#become({ ...this.state, footprints: remember(this.state.footprints, { key, measured }) });
  }

  run(peakGib: number, stepMs: number): void {
    const { partials } = this.state;
    const runs = withRun(partials.runs, WORKFLOW, { peakBytes: peakGib * GIB, stepMs });
    this.#become({ ...this.state, partials: { ...partials, runs } });
  }

  settled(): Promise<void> {
    return this.#keeper.settled();
  }

  #become(next: ArbiterState): void {
    const before = this.state;
    this.state = next;
    this.#keeper.note(before, next);
  }
}

function pastOf(store: Store) {
  return readPast({ store, clock: new LabClock(), log, isOwner: true });
}

Deno.test("others' loads, ComfyUI's work and each workflow's runs are known after a restart", async () => {
  const store = memoryStore();
  const life = new Life(store);
  for (const [at, gib] of [11, 12, 11.5].entries()) life.stay("qwen3:30b", stayOf(at + 1, gib));
  for (const gib of [6, 7]) life.stay("comfyui", peakOf(gib * GIB));
  for (const stepMs of [150, 152.5, 149]) life.run(7, stepMs);
  await life.settled();
  const { learned, items } = await pastOf(store);
  assert.deepEqual(learned.footprints, life.state.footprints);
  assert.deepEqual(learned.workflows, life.state.partials.runs);
  // One event tells of all of it, and isn't shown as something that happened.
  assert.equal((await store.status()).rows["events"], 1);
  assert.deepEqual(items, []);
  const { footprints, partials, misses } = initialArbiter(DEFAULT_POLICY, learned);
  const rows = rowsOf({ footprints, misses, workflows: partials.runs }, []);
  assert.deepEqual(rows.map(({ name, n, isUsed, peakBytes }) => [name, n, isUsed, peakBytes / GIB]), [
    ["qwen3:30b", 3, true, 12],
    ["comfyui", 2, false, 7],
    [WORKFLOW, 3, false, 7],
  ]);
});

Deno.test("a runner that lives on is known again: a later look corrects it, in the same ten minutes and after", async () => {
  const store = memoryStore();
  const life = new Life(store);
  life.stay("qwen3:30b", stayOf(1, 11));
  life.stay("qwen3:30b", stayOf(1, 12));
  await life.clock.advance(600_000);
  life.stay("qwen3:30b", stayOf(1, 13));
  life.stay("qwen3:30b", stayOf(2, 9));
  await life.settled();
  assert.equal((await store.status()).rows["events"], 2);
  const { learned } = await pastOf(store);
  assert.deepEqual(learned.footprints, { "qwen3:30b": [stayOf(1, 13), stayOf(2, 9)] });
  const next = new Life(store, learned);
  next.stay("qwen3:30b", stayOf(2, 10));
  await next.settled();
  const again = await pastOf(store);
  assert.deepEqual(again.learned.footprints, { "qwen3:30b": [stayOf(1, 13), stayOf(2, 10)] });
});

Deno.test("swaps of before footprints were kept count, later ones hold the same loads", async () => {
  const store = memoryStore();
  const swap = (atMs: number, vram_gb: number) =>
    store.append({ atMs, kind: "swap", fields: { model: "qwen3:30b", vram_gb, context_length: 8_192, parallel: 1 } });
  await swap(0, 11);
  const life = new Life(store);
  life.stay("qwen3:30b", stayOf(1, 12));
  await life.settled();
  await swap(life.clock.wallMs() + 1, 12);
  const { learned } = await pastOf(store);
  assert.deepEqual(learned.footprints?.["qwen3:30b"]?.map(({ peakBytes }) => peakBytes / GIB), [11, 12]);
});

Deno.test("what can't be written is said, and the next measurement tells of it again", async () => {
  const inner = memoryStore();
  let isFull = true;
  const said: string[] = [];
  const append: Store["append"] = (item) => isFull ? Promise.reject(new Error("disk full")) : inner.append(item);
  const life = new Life({ ...inner, append });
  const failing = new LearnedKeeper({
    clock: life.clock,
    log: { ...log, error: (message) => void said.push(message) },
    store: { append, amend: inner.amend },
  });
  const states = [life.state];
  for (const gib of [11, 12]) {
    const last = states.at(-1) ?? life.state;
    const footprints = remember(last.footprints, { key: "qwen3:30b", measured: stayOf(gib, gib) });
    const next = { ...last, footprints };
    states.push(next);
    failing.note(last, next);
    await failing.settled();
    isFull = false;
  }
  assert.deepEqual(said, ["Cannot keep what was learned"]);
  assert.deepEqual((await pastOf(inner)).learned.footprints, states.at(-1)?.footprints);
});

Deno.test("a stranger's load is measured, and known to the next house on the same record", async () => {
  const store = memoryStore();
  const clock = new LabClock();
  const until = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: 120_000 });
  {
    await using lab = await openLabHouse({
      clock,
      store,
      settle: until,
      gpu: (box) => box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
    });
    const body = JSON.stringify({ model: "llama3.1:8b", prompt: "Hello", stream: false });
    await until(fetch(`${lab.box.ollama.url}/api/generate`, { method: "POST", body }).then((answer) => answer.text()));
    await clock.advance(4_000);
  }
  const { learned } = await pastOf(store);
  assert.deepEqual(Object.keys(learned.footprints ?? {}), ["llama3.1:8b"]);
});
