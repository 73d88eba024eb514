import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { playHandOffs, type Said, watchedStore } from "./hand_offs.ts";
import { openLabHouse } from "./lab_house.ts";

const ROUNDS = 20;
/** The predicate must hold on two readings in a row, and the lab's clock gives one a millisecond. */
const MOST_LAG_MS = 3;

Deno.test("over random hand-offs nothing is called released before the driver freed it, and then at once", async () => {
  const clock = new LabClock({ seed: 11 });
  const settle = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: 120_000 });
  const said: Said[] = [];
  const store = watchedStore(clock, (event) => said.push(event));
  await using lab = await openLabHouse({
    clock,
    store,
    settle,
    seed: 11,
    gpu: (box) => box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
  });
  const handOffs = await playHandOffs({
    box: lab.box,
    rounds: ROUNDS,
    seed: 11,
    said,
    settle,
    pass: (ms) => clock.advance(ms),
  });
  assert.equal(handOffs.length, ROUNDS);
  for (const handOff of handOffs) {
    assert.equal(handOff.outcome, "released", JSON.stringify(handOff));
    assert.ok(handOff.freedAtMs !== null, "a target still holds memory");
    const lagMs = handOff.saidAtMs - handOff.freedAtMs;
    assert.ok(lagMs >= 0, `said ${-lagMs} ms before the driver had freed it`);
    assert.ok(lagMs <= MOST_LAG_MS, `said ${lagMs} ms after the driver had freed it`);
  }
  const pairs = handOffs.filter((handOff) => handOff.models.length === 2).length;
  assert.ok(pairs > 0, "no round had two models: the seed shows too little");
});
